//! Two words a thread, each read in two instructions.
//!
//! A shared library's thread-locals cost a call by default, which may even allocate. A preloaded library is there when the
//! program starts, so that its words lie at a fixed distance from the thread pointer (the *initial exec* model), and the
//! C library keeps room for a few more words of libraries that are opened later.

#[cfg(target_arch = "x86_64")]
mod inner {
    use core::arch::{asm, global_asm};

    // Hidden, not local: the words are named from other object files of this library.
    global_asm!(
        ".pushsection .tbss.meshheap_thread_words,\"awT\",@nobits",
        ".globl meshheap_thread_words",
        ".hidden meshheap_thread_words",
        ".type meshheap_thread_words,@object",
        ".size meshheap_thread_words,16",
        ".balign 8",
        "meshheap_thread_words:",
        ".zero 16",
        ".popsection",
    );

    #[inline]
    pub(super) fn get<const OFFSET: usize>() -> *mut () {
        let value: *mut ();
        // SAFETY: reads a word of the calling thread, and clobbers nothing else.
        unsafe {
            asm!(
                "mov {value}, qword ptr [rip + meshheap_thread_words@GOTTPOFF]",
                "mov {value}, qword ptr fs:[{value} + {offset}]",
                value = out(reg) value,
                offset = const OFFSET,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        value
    }

    #[inline]
    pub(super) fn set<const OFFSET: usize>(value: *mut ()) {
        // SAFETY: writes a word of the calling thread, which only this module names.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + meshheap_thread_words@GOTTPOFF]",
                "mov qword ptr fs:[{place} + {offset}], {value}",
                place = out(reg) _,
                value = in(reg) value,
                offset = const OFFSET,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod inner {
    use core::cell::Cell;
    use core::ptr::null_mut;

    std::thread_local! {
        static WORDS: [Cell<*mut ()>; 2] = const { [Cell::new(null_mut()), Cell::new(null_mut())] };
    }

    #[inline]
    pub(super) fn get<const OFFSET: usize>() -> *mut () {
        WORDS.with(|words| words[OFFSET / 8].get())
    }

    #[inline]
    pub(super) fn set<const OFFSET: usize>(value: *mut ()) {
        WORDS.with(|words| words[OFFSET / 8].set(value));
    }
}

/// The calling thread's pointer; null at first.
#[inline]
pub(crate) fn get<T>() -> *mut T {
    inner::get::<0>().cast()
}

/// Sets the calling thread's pointer.
pub(crate) fn set<T>(value: *mut T) {
    inner::set::<0>(value.cast());
}

/// Whether the calling thread is inside the heap, where it may hold locks. A signal handler can see it so.
pub(crate) fn is_inside() -> bool {
    !inner::get::<8>().is_null()
}

/// Says so.
#[inline]
pub(crate) fn set_inside(inside: bool) {
    inner::set::<8>(core::ptr::without_provenance_mut(usize::from(inside)));
}
