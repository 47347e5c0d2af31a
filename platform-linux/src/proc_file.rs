//! Reading the kernel's text files without allocating.

use core::ffi::CStr;

use crate::descriptor::Descriptor;
use crate::errno::{Errno, check, retry};

/// An open file below `/proc`.
pub(crate) struct ProcFile {
    file: Descriptor,
}

impl ProcFile {
    /// Opens `path` for reading; none if that is not allowed, or `/proc` is not there.
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        // SAFETY: the path ends with a zero.
        let fd = retry(|| check(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }));
        fd.ok().map(|fd| Self { file: Descriptor::new(fd) })
    }

    /// The next piece of the file; empty at its end.
    pub(crate) fn read<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let length = retry(|| {
            // SAFETY: the kernel writes at most the buffer's length into it.
            let length = unsafe { libc::read(self.file.number(), buffer.as_mut_ptr().cast(), buffer.len()) };
            usize::try_from(length).map_err(|_| Errno::last())
        });
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
