//! Records `traces/lua.trace`: what Lua asks of its allocator while it runs `traces/record.lua`.
//!
//!     cargo run --release -p meshheap-bench --features record --bin record_lua

use core::cell::RefCell;
use core::ptr::NonNull;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use meshheap_examples::lua::{Memory, State, SystemMemory};
use workloads::trace::{Recorder, encode};

/// The system's memory, and what was asked of it.
struct Recording {
    system: SystemMemory,
    recorder: Rc<RefCell<Recorder>>,
}

fn address(object: NonNull<u8>) -> usize {
    object.addr().get()
}

// SAFETY: it hands the system's objects on as they are.
unsafe impl Memory for Recording {
    fn allocate(&mut self, size: usize) -> Option<NonNull<u8>> {
        let object = self.system.allocate(size)?;
        self.recorder.borrow_mut().alloc(address(object), size);
        Some(object)
    }

    unsafe fn resize(&mut self, object: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller keeps the same contract.
        let resized = unsafe { self.system.resize(object, old, new) }?;
        self.recorder.borrow_mut().resize(address(object), address(resized), new);
        Some(resized)
    }

    unsafe fn free(&mut self, object: NonNull<u8>, size: usize) {
        self.recorder.borrow_mut().free(address(object));
        // SAFETY: the caller keeps the same contract.
        unsafe { self.system.free(object, size) };
    }
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let script = fs::read(folder.join("record.lua"))?;
    let recorder = Rc::new(RefCell::new(Recorder::default()));
    let mut state = State::new(Recording { system: SystemMemory, recorder: Rc::clone(&recorder) }, usize::MAX, 1.0)?;
    state.run(&script, "record.lua")?;
    drop(state);
    let bytes = encode(recorder.borrow().calls());
    fs::write(folder.join("lua.trace"), &bytes)?;
    println!("{} calls in {} bytes", recorder.borrow().calls().len(), bytes.len());
    Ok(())
}
