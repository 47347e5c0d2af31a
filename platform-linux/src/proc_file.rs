//! Reading the kernel's text files without allocating.

use core::ffi::CStr;

use crate::calls;
use crate::descriptor::Descriptor;

/// An open file below `/proc`.
pub(crate) struct ProcFile {
    file: Descriptor,
}

impl ProcFile {
    /// Opens `path` for reading; none if that is not allowed, or `/proc` is not there.
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        let fd = calls::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        fd.ok().map(|fd| Self { file: Descriptor::new(fd) })
    }

    /// The next piece of the file; empty at its end.
    pub(crate) fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let length = calls::read(self.file.number(), buffer);
        buffer.get(..length.ok()?)
    }

    /// The file from here to its end, or as much of it as fits.
    pub(crate) fn read_up_to<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let mut filled = 0;
        loop {
            let piece = self.read(&mut buffer[filled..])?.len();
            if piece == 0 {
                return buffer.get(..filled);
            }
            filled += piece;
        }
    }
}

/// The decimal number that `text` starts with, after blanks.
pub(crate) fn number_at_start(text: &[u8]) -> Option<usize> {
    let digits = text.trim_ascii_start();
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    core::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}
