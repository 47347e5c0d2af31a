//! Lines of text without allocation.

use core::fmt::{self, Write};

/// Longer lines are cut off. A line fits a pipe's atomic write, so that lines of several processes do not mix.
const LINE_BYTES: usize = 1024;

/// A line that is being written.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; LINE_BYTES], length: 0 }
    }

    /// What was written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Ends it with a zero, for C: its last byte is lost if it was full.
    pub(crate) fn as_c_string(&mut self) -> *const core::ffi::c_char {
        let end = self.length.min(LINE_BYTES - 1);
        self.bytes[end] = 0;
        self.bytes.as_ptr().cast()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let fitting = text.len().min(room.len());
        room[..fitting].copy_from_slice(&text.as_bytes()[..fitting]);
        self.length += fitting;
        Ok(())
    }
}

/// Writes one line to the standard error stream, past the C library's buffers, with the library's name before it. That it may
/// be closed does not matter.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let mut line = Line::new();
    // A line never fails: it is cut off.
    let _ = writeln!(line, "meshheap: {text}");
    let bytes = line.as_bytes();
    // By the system call: the C library's function may cancel the thread, which may be inside the heap.
    // SAFETY: the bytes are the line's.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, bytes.as_ptr(), bytes.len()) };
}
