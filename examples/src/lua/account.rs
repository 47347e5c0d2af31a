//! Counts what Lua holds, and refuses what goes beyond a limit.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use super::memory::Memory;

/// A memory with its books: what [`lua_newstate`](mlua_sys::lua_newstate) is given as user data.
#[derive(Debug)]
pub struct Account<M> {
    memory: M,
    /// Lua may not hold more bytes.
    limit: usize,
    /// Bytes that Lua holds now, as it counts them itself.
    live: usize,
    /// The most that `live` has been.
    peak: usize,
    allocations: usize,
    reallocations: usize,
}

impl<M: Memory> Account<M> {
    /// Fresh books on `memory`.
    pub(super) const fn new(memory: M, limit: usize) -> Self {
        Self { memory, limit, live: 0, peak: 0, allocations: 0, reallocations: 0 }
    }

    /// The memory itself.
    pub const fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Bytes that Lua holds.
    pub const fn live(&self) -> usize {
        self.live
    }

    /// The most that Lua has held at one time.
    pub const fn peak(&self) -> usize {
        self.peak
    }

    /// Objects made so far.
    pub const fn allocations(&self) -> usize {
        self.allocations
    }

    /// Objects resized so far.
    pub const fn reallocations(&self) -> usize {
        self.reallocations
    }

    /// Whether Lua may hold `new` bytes in place of `old`.
    const fn admits(&self, old: usize, new: usize) -> bool {
        match (self.live - old).checked_add(new) {
            Some(live) => live <= self.limit,
            None => false,
        }
    }

    fn count(&mut self, old: usize, new: usize) {
        self.live = self.live - old + new;
        self.peak = self.peak.max(self.live);
    }

    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        if !self.admits(0, size) {
            return None;
        }
        let object = self.memory.allocate(size)?;
        self.allocations += 1;
        self.count(0, size);
        Some(object)
    }

    /// # Safety
    /// As for [`Memory::resize`].
    unsafe fn resize(&mut self, object: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        if new > old && !self.admits(old, new) {
            return None;
        }
        // SAFETY: the caller keeps the same contract.
        let resized = unsafe { self.memory.resize(object, old, new) }?;
        self.reallocations += 1;
        self.count(old, new);
        Some(resized)
    }

    /// # Safety
    /// As for [`Memory::free`].
    unsafe fn free(&mut self, object: NonNull<u8>, size: usize) {
        // SAFETY: the caller keeps the same contract.
        unsafe { self.memory.free(object, size) };
        self.count(size, 0);
    }
}

/// Lua's one door to memory. `osize` is the object's size, except that a fresh object (`object` is null) comes with a tag of
/// what it will be, which is of no use here. `nsize` zero frees. Null says that there is no memory: Lua collects garbage,
/// asks once more, and then raises its own error. A panic would end the process: it cannot pass through Lua.
///
/// # Safety
/// `account` points to an `Account<M>` that nobody else uses meanwhile; `object` is null or was returned from here, for
/// `osize` bytes, and not freed since.
pub(super) unsafe extern "C" fn callback<M: Memory>(
    account: *mut c_void,
    object: *mut c_void,
    osize: usize,
    nsize: usize,
) -> *mut c_void {
    // SAFETY: the caller's first clause.
    let account = unsafe { &mut *account.cast::<Account<M>>() };
    let made = match (NonNull::new(object.cast::<u8>()), nsize) {
        (None, 0) => None,
        (None, size) => account.allocate(size),
        (Some(object), 0) => {
            // SAFETY: the caller's second clause.
            unsafe { account.free(object, osize) };
            None
        }
        // SAFETY: as above.
        (Some(object), size) => unsafe { account.resize(object, osize, size) },
    };
    made.map_or(null_mut(), |object| object.as_ptr().cast())
}
