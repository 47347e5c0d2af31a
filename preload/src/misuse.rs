//! Wrong pointers: one line on stderr that names the pointer and what it is, then the end of the process, as with the system's
//! malloc, or going on as if the call had not been made.

use core::ptr::NonNull;

use core_heap::{Misuse, MisuseKind};

use crate::settings;
use crate::text::say;

/// Reports what the heap found. Returns only if the settings say so.
#[cold]
pub(crate) fn report(misuse: Misuse) {
    say(format_args!("wrong pointer: {misuse}"));
    if !settings::continues_after_misuse() {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

/// The report of an object that was freed before.
pub(crate) fn freed(object: NonNull<u8>) -> Misuse {
    Misuse { address: object.addr().get(), kind: MisuseKind::DoubleFree }
}

/// The report of a pointer while there is no heap at all.
pub(crate) fn foreign(object: NonNull<u8>) -> Misuse {
    Misuse { address: object.addr().get(), kind: MisuseKind::NotOurs }
}
