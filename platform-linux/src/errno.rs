//! The kernel's reasons for refusing a call.

use core::ffi::c_int;

use meshheap::{Operation, PlatformError};

use crate::backing::Refusal;

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    /// Why the system call that this thread just made failed.
    pub(crate) fn last() -> Self {
        // SAFETY: takes no arguments.
        let location = unsafe { libc::__errno_location() };
        // SAFETY: the C library gives a pointer to this thread's own variable.
        Self(unsafe { *location })
    }

    /// Makes it the number that this thread finds again.
    pub(crate) fn restore(self) {
        // SAFETY: takes no arguments.
        let location = unsafe { libc::__errno_location() };
        // SAFETY: the C library gives a pointer to this thread's own variable.
        unsafe { *location = self.0 };
    }

    /// The same, with the call that it came from.
    pub(crate) fn by(self, by: &'static str) -> Refusal {
        Refusal { by, code: self.0 }
    }

    pub(crate) fn during(self, operation: Operation) -> PlatformError {
        PlatformError { operation, code: self.0 }
    }
}

/// The result of a system call that returns -1 for failure.
pub(crate) fn check(result: c_int) -> Result<c_int, Errno> {
    if result == -1 { Err(Errno::last()) } else { Ok(result) }
}

/// Makes a system call again for as long as signals interrupt it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno(libc::EINTR)) => {}
            done => return done,
        }
    }
}
