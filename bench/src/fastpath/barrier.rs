//! What keeps the compiler from seeing that a loop does nothing. `black_box` would do, but it passes its value through memory:
//! two or three instructions each time, as much as the operations that are measured. These cost none.

use core::alloc::Layout;
use core::arch::asm;

/// The same pointer. The compiler has to assume that it is another one, and that whatever it points to has been changed.
#[inline(always)]
pub(crate) fn hide<T>(mut pointer: *mut T) -> *mut T {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(reg) pointer, options(nostack, preserves_flags)) };
    pointer
}

/// The same layout, of which the compiler knows nothing any more.
#[inline(always)]
pub(crate) fn hide_layout(layout: Layout) -> Layout {
    let (mut size, mut align) = (layout.size(), layout.align());
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} {1} */", inout(reg) size, inout(reg) align, options(nostack, preserves_flags)) };
    // SAFETY: both are what they were.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}
