//! C++: `operator new` and `operator delete` in all forms, without a C++ runtime.
//!
//! `new` that fails has to call the program's new handler and throw. Both are its runtime's: the call goes on to the same
//! operator of the next library, which asks malloc again, then does the rest. It is jumped to, so that its exception never
//! meets a frame of ours.

use core::ffi::{CStr, c_void};

use crate::process::{allocate, allocate_aligned, release};
use crate::text::say;

/// The next library's symbol, which has the type of this library's; none if there is no other.
fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a string.
    let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

/// The next library's operator that throws.
extern "C" fn next_throwing(name: *const core::ffi::c_char) -> *mut c_void {
    // SAFETY: the callers, below, name a constant string.
    next(unsafe { CStr::from_ptr(name) }).unwrap_or_else(|| {
        say(format_args!("out of memory for `operator new`, and there is no C++ library to say so"));
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    })
}

extern "C" fn allocate_or_null(size: usize) -> *mut u8 {
    allocate(size)
}

extern "C" fn allocate_aligned_or_null(size: usize, align: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        return core::ptr::null_mut();
    }
    allocate_aligned(size, align).map_or(core::ptr::null_mut(), core::ptr::NonNull::as_ptr)
}

#[cfg(target_arch = "x86_64")]
pub mod throwing {
    //! The forms that throw. On other machines they are left to the C++ library, whose own call malloc.

    use core::arch::naked_asm;

    use super::{allocate_aligned_or_null, allocate_or_null, next_throwing};

    /// What all forms do: `allocate` with the arguments; if that gives null, jump to the next library's with the same arguments.
    macro_rules! throwing_new {
        ($name:ident, $text:literal, $allocate:ident, $($argument:ty),+) => {
            /// `operator new`.
            ///
            /// # Safety
            /// Called from C++, by the type that its name says.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($(_: $argument),+) -> *mut u8 {
                // Three words on the stack keep it aligned for the calls; the third is padding.
                naked_asm!(
                    ".cfi_startproc",
                    "sub rsp, 24",
                    ".cfi_adjust_cfa_offset 24",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "call {allocate}",
                    "test rax, rax",
                    "je 2f",
                    "add rsp, 24",
                    ".cfi_adjust_cfa_offset -24",
                    "ret",
                    "2:",
                    ".cfi_adjust_cfa_offset 24",
                    "lea rdi, [rip + 3f]",
                    "call {next}",
                    "mov rdi, [rsp]",
                    "mov rsi, [rsp + 8]",
                    "add rsp, 24",
                    ".cfi_adjust_cfa_offset -24",
                    "jmp rax",
                    ".cfi_endproc",
                    "3:",
                    concat!(".asciz \"", $text, "\""),
                    allocate = sym $allocate,
                    next = sym next_throwing,
                )
            }
        };
    }

    throwing_new!(_Znwm, "_Znwm", allocate_or_null, usize);
    throwing_new!(_Znam, "_Znam", allocate_or_null, usize);
    throwing_new!(_ZnwmSt11align_val_t, "_ZnwmSt11align_val_t", allocate_aligned_or_null, usize, usize);
    throwing_new!(_ZnamSt11align_val_t, "_ZnamSt11align_val_t", allocate_aligned_or_null, usize, usize);
}

/// A form that does not throw failed: the next library's calls the new handler, and gives null at the end.
#[cold]
fn nothrow_slow(name: &CStr, size: usize, tag: *const c_void) -> *mut u8 {
    let Some(symbol) = next(name) else { return core::ptr::null_mut() };
    // SAFETY: the operator has this type in every C++ library.
    let operator: extern "C" fn(usize, *const c_void) -> *mut u8 = unsafe { core::mem::transmute(symbol) };
    operator(size, tag)
}

/// The same for a form with an alignment.
#[cold]
fn nothrow_aligned_slow(name: &CStr, size: usize, align: usize, tag: *const c_void) -> *mut u8 {
    let Some(symbol) = next(name) else { return core::ptr::null_mut() };
    // SAFETY: as above.
    let operator: extern "C" fn(usize, usize, *const c_void) -> *mut u8 = unsafe { core::mem::transmute(symbol) };
    operator(size, align, tag)
}

fn or_else(object: *mut u8, slow: impl FnOnce() -> *mut u8) -> *mut u8 {
    if object.is_null() { slow() } else { object }
}

/// `new (std::nothrow)`: null if there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnwmRKSt9nothrow_t(size: usize, tag: *const c_void) -> *mut u8 {
    or_else(allocate(size), || nothrow_slow(c"_ZnwmRKSt9nothrow_t", size, tag))
}

/// `new[] (std::nothrow)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnamRKSt9nothrow_t(size: usize, tag: *const c_void) -> *mut u8 {
    or_else(allocate(size), || nothrow_slow(c"_ZnamRKSt9nothrow_t", size, tag))
}

/// `new (std::align_val_t, std::nothrow)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, tag: *const c_void) -> *mut u8 {
    let name = c"_ZnwmSt11align_val_tRKSt9nothrow_t";
    or_else(allocate_aligned_or_null(size, align), || nothrow_aligned_slow(name, size, align, tag))
}

/// `new[] (std::align_val_t, std::nothrow)`.
#[unsafe(no_mangle)]
pub extern "C" fn _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, tag: *const c_void) -> *mut u8 {
    let name = c"_ZnamSt11align_val_tRKSt9nothrow_t";
    or_else(allocate_aligned_or_null(size, align), || nothrow_aligned_slow(name, size, align, tag))
}

/// A form of `operator delete`. Sizes and alignments are not needed, so that wrong ones do no harm.
macro_rules! delete {
    ($name:ident $(, $argument:ty)*) => {
        /// `operator delete`.
        ///
        /// # Safety
        /// As for `free`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(object: *mut u8 $(, _: $argument)*) {
            // SAFETY: as the caller's.
            unsafe { release(object) };
        }
    };
}

delete!(_ZdlPv);
delete!(_ZdaPv);
delete!(_ZdlPvm, usize);
delete!(_ZdaPvm, usize);
delete!(_ZdlPvRKSt9nothrow_t, *const c_void);
delete!(_ZdaPvRKSt9nothrow_t, *const c_void);
delete!(_ZdlPvSt11align_val_t, usize);
delete!(_ZdaPvSt11align_val_t, usize);
delete!(_ZdlPvmSt11align_val_t, usize, usize);
delete!(_ZdaPvmSt11align_val_t, usize, usize);
delete!(_ZdlPvSt11align_val_tRKSt9nothrow_t, usize, *const c_void);
delete!(_ZdaPvSt11align_val_tRKSt9nothrow_t, usize, *const c_void);
