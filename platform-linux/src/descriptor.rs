//! File descriptors, closed when they are dropped.

use core::ffi::c_int;

use crate::calls;

/// An open descriptor of this library's own. None is kept in this form for longer than a call: a program that closes
/// descriptors which it did not open, and gets the same number for a file of its own, must never find us using that.
#[derive(Debug)]
pub(crate) struct Descriptor(c_int);

impl Descriptor {
    /// For a number that the kernel gave out just now, to nobody else.
    pub(crate) const fn new(number: c_int) -> Self {
        Self(number)
    }

    pub(crate) const fn number(&self) -> c_int {
        self.0
    }

    /// Its number; it stays open, and the caller sees to the rest.
    pub(crate) const fn into_number(self) -> c_int {
        let number = self.0;
        core::mem::forget(self);
        number
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: this value's own, and gone with it.
        unsafe { calls::close(self.0) };
    }
}
