//! A Lua state that runs scripts. Whatever may raise an error runs protected, so that Lua never aborts the process.
//!
//! # Invariants
//! L1: `lua` is an open state, `account` points to its books; both belong to this value alone, until it is dropped.
//! L2: between two methods the state's stack is empty.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;
use std::ffi::CString;

use mlua_sys as ffi;

use super::account::{Account, callback};
use super::error::LuaError;
use super::memory::{HeapMemory, Memory};

/// A Lua state whose objects all lie in a memory of type `M`.
#[derive(Debug)]
pub struct State<M: Memory> {
    lua: NonNull<ffi::lua_State>,
    account: NonNull<Account<M>>,
}

impl<M: Memory> State<M> {
    /// A state with Lua's standard libraries, and `scale` as a global. Lua may hold up to `limit` bytes.
    ///
    /// # Errors
    /// The memory or the limit does not suffice even for that.
    pub fn new(memory: M, limit: usize, scale: f64) -> Result<Self, LuaError> {
        let account = NonNull::from(Box::leak(Box::new(Account::new(memory, limit))));
        // SAFETY: the callback is given the account of its type, which lives until the state is closed.
        let lua = unsafe { ffi::lua_newstate(callback::<M>, account.as_ptr().cast()) };
        let Some(lua) = NonNull::new(lua) else {
            // SAFETY: made by `Box::leak` above; without a state nobody else knows it.
            drop(unsafe { Box::from_raw(account.as_ptr()) });
            return Err(LuaError::NoState);
        };
        let mut state = Self { lua, account };
        let mut scale = scale;
        state.protected(open_libraries, (&raw mut scale).cast())?;
        Ok(state)
    }

    /// Runs `source`; `name` is what messages call it. A first line that begins with `#` is left out.
    ///
    /// # Errors
    /// The script does not parse or raises an error. The state stays usable.
    pub fn run(&mut self, source: &[u8], name: &str) -> Result<(), LuaError> {
        let source = match source {
            [b'#', ..] => &source[source.iter().position(|&byte| byte == b'\n').unwrap_or(source.len())..],
            _ => source,
        };
        let name = CString::new(format!("={name}")).unwrap_or_else(|_| c"=script".to_owned());
        let (lua, start, mode) = (self.lua.as_ptr(), source.as_ptr().cast(), c"t".as_ptr());
        self.push_handler();
        // SAFETY: L1; loading is protected in itself. Only text is accepted: bytecode can be malicious.
        let mut status = unsafe { ffi::luaL_loadbufferx(lua, start, source.len(), name.as_ptr(), mode) };
        if status == ffi::LUA_OK {
            // SAFETY: the chunk lies on the stack, above the message handler.
            status = unsafe { ffi::lua_pcall(lua, 0, 0, 1) };
        }
        self.finish(status)
    }

    /// Calls the global function `name` and returns the integer that it gives; none if there is no such function.
    ///
    /// # Errors
    /// The function raises an error.
    pub fn call_integer(&mut self, name: &CStr) -> Result<Option<i64>, LuaError> {
        let mut call = Call { name: name.as_ptr(), result: None };
        self.protected(call_global, (&raw mut call).cast())?;
        Ok(call.result)
    }

    /// Collects all garbage, twice: the first time runs finalizers, the second frees what they let go.
    pub fn collect(&mut self) {
        for _ in 0..2 {
            // SAFETY: L1; a full collection raises no errors.
            unsafe { ffi::lua_gc(self.lua.as_ptr(), ffi::LUA_GCCOLLECT) };
        }
    }

    /// The state's books.
    pub fn account(&mut self) -> &mut Account<M> {
        // SAFETY: L1, and Lua, which uses the account too, does not run while the borrow lasts.
        unsafe { self.account.as_mut() }
    }

    /// Runs `function`, given `argument`, so that an error ends it and not the process.
    fn protected(&mut self, function: ffi::lua_CFunction, argument: *mut c_void) -> Result<(), LuaError> {
        let lua = self.lua.as_ptr();
        self.push_handler();
        // SAFETY: L1; by L2 the stack has room for 20 values, and a function without upvalues is pushed without allocation.
        unsafe { ffi::lua_pushcfunction(lua, function) };
        // SAFETY: as above.
        unsafe { ffi::lua_pushlightuserdata(lua, argument) };
        // SAFETY: the function and its one argument lie on the stack, above the message handler.
        let status = unsafe { ffi::lua_pcall(lua, 1, 0, 1) };
        self.finish(status)
    }

    /// Puts the message handler on the empty stack, at index 1.
    fn push_handler(&mut self) {
        // SAFETY: L1; by L2 the stack has room for 20 values, and a function without upvalues is pushed without allocation.
        unsafe { ffi::lua_pushcfunction(self.lua.as_ptr(), add_traceback) };
    }

    /// What a protected call that ended with `status` comes to.
    fn finish(&mut self, status: c_int) -> Result<(), LuaError> {
        let outcome = match status {
            ffi::LUA_OK => Ok(()),
            ffi::LUA_ERRMEM => Err(LuaError::OutOfMemory(self.message())),
            ffi::LUA_ERRSYNTAX => Err(LuaError::Syntax(self.message())),
            _ => Err(LuaError::Raised(self.message())),
        };
        // SAFETY: L1; restores L2.
        unsafe { ffi::lua_settop(self.lua.as_ptr(), 0) };
        outcome
    }

    /// The error message on top of the stack.
    fn message(&self) -> String {
        let lua = self.lua.as_ptr();
        // SAFETY: L1, and a failed call leaves its error object.
        if unsafe { ffi::lua_type(lua, -1) } != ffi::LUA_TSTRING {
            return "(the error object is no string)".to_owned();
        }
        // SAFETY: it is a string, which is not converted, so that nothing is allocated.
        let text = unsafe { ffi::lua_tolstring(lua, -1, core::ptr::null_mut()) };
        // SAFETY: Lua ends strings with a zero, and this one lives until it is popped.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl State<HeapMemory<'_>> {
    /// Leaves all objects where they are, for the heap's end to free them at once: in a time that does not depend on how many
    /// there are. No finalizer runs; files that the script has open stay open.
    pub fn leave_to_heap(self) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: made by `Box::leak` in `new`; the state that used it is never used again.
        drop(unsafe { Box::from_raw(this.account.as_ptr()) });
    }
}

impl<M: Memory> Drop for State<M> {
    fn drop(&mut self) {
        // SAFETY: L1; the state is not used afterwards.
        unsafe { ffi::lua_close(self.lua.as_ptr()) };
        // SAFETY: made by `Box::leak` in `new`; the state that used it is closed.
        drop(unsafe { Box::from_raw(self.account.as_ptr()) });
    }
}

struct Call {
    name: *const c_char,
    result: Option<i64>,
}

// The functions below run under `protected`. Lua leaves them by longjmp when something fails: they own nothing that would
// need to be dropped.

/// # Safety
/// Runs under `protected`, with a number as its argument.
unsafe extern "C-unwind" fn open_libraries(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: the argument lies on the stack.
    let scale = unsafe { ffi::lua_touserdata(lua, 1) }.cast::<f64>();
    // SAFETY: the caller's clause.
    let scale = unsafe { scale.read() };
    // SAFETY: under `protected` errors have somewhere to go.
    unsafe { ffi::luaL_openlibs(lua) };
    // SAFETY: as above.
    unsafe { ffi::lua_pushnumber(lua, scale) };
    // SAFETY: as above.
    unsafe { ffi::lua_setglobal(lua, c"scale".as_ptr()) };
    0
}

/// # Safety
/// Runs under `protected`, with a [`Call`] as its argument.
unsafe extern "C-unwind" fn call_global(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: the argument lies on the stack.
    let call = unsafe { ffi::lua_touserdata(lua, 1) }.cast::<Call>();
    // SAFETY: the caller's clause; the caller looks at it again when this is over.
    let call = unsafe { &mut *call };
    // SAFETY: the name ends with a zero.
    if unsafe { ffi::lua_getglobal(lua, call.name) } != ffi::LUA_TFUNCTION {
        return 0;
    }
    // SAFETY: the function is on top of the stack.
    unsafe { ffi::lua_call(lua, 0, 1) };
    let mut is_integer = 0;
    // SAFETY: its result is on top of the stack.
    let result = unsafe { ffi::lua_tointegerx(lua, -1, &raw mut is_integer) };
    call.result = (is_integer != 0).then_some(result);
    0
}

/// Puts a traceback behind an error's message.
///
/// # Safety
/// Lua calls it with the error object on the stack.
unsafe extern "C-unwind" fn add_traceback(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: the caller's clause; a string is not converted, anything else is left as it is.
    if unsafe { ffi::lua_type(lua, 1) } == ffi::LUA_TSTRING {
        // SAFETY: as above.
        let message = unsafe { ffi::lua_tolstring(lua, 1, core::ptr::null_mut()) };
        // SAFETY: the message lies on the stack while the traceback is made.
        unsafe { ffi::luaL_traceback(lua, lua, message, 1) };
    }
    1
}
