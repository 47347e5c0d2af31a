//! `SQLITE_CONFIG_MALLOC`: SQLite has one allocator for the whole process, chosen before its first use.

use core::ffi::{c_int, c_void};
use core::fmt;
use core::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use meshheap::{AllocError, Heap, MeshBudget, Options};
use meshheap_linux::HybridPlatform;
use rusqlite::{Connection, ffi};

use crate::malloc::Malloc;
use crate::meshing::{MeshReport, mesh_until_settled};

type SqliteHeap = &'static Heap<HybridPlatform>;

/// SQLite's heap and the handle that all of its threads share. A program with many threads would keep a handle for each.
static MEMORY: OnceLock<(SqliteHeap, Mutex<Malloc<SqliteHeap>>)> = OnceLock::new();

/// SQLite allocates from a heap of ours.
#[derive(Clone, Copy, Debug)]
pub struct Installed(SqliteHeap);

/// Why it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstallError {
    /// There is no room for a heap.
    NoHeap(AllocError),
    /// SQLite is in use already, or gave this code.
    Sqlite(c_int),
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHeap(error) => write!(f, "no heap: {error}"),
            Self::Sqlite(code) => write!(f, "SQLite refused another allocator: code {code}"),
        }
    }
}

impl core::error::Error for InstallError {}

/// Makes SQLite allocate from a new heap. To be called once, before anything else is asked of SQLite.
///
/// # Errors
/// See [`InstallError`]. A second call is an error, too.
pub fn install(options: Options) -> Result<Installed, InstallError> {
    let heap = Heap::with_options(HybridPlatform::new(), options).map_err(InstallError::NoHeap)?;
    let heap: SqliteHeap = Box::leak(Box::new(heap));
    if MEMORY.set((heap, Mutex::new(Malloc::new(heap)))).is_err() {
        return Err(InstallError::Sqlite(ffi::SQLITE_MISUSE));
    }
    let methods = ffi::sqlite3_mem_methods {
        xMalloc: Some(allocate),
        xFree: Some(free),
        xRealloc: Some(resize),
        xSize: Some(size),
        xRoundup: Some(round_up),
        xInit: Some(init),
        xShutdown: Some(shutdown),
        pAppData: null_mut(),
    };
    // SAFETY: SQLite copies the methods, which keep their contract; it refuses if it is in use already.
    match unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) } {
        ffi::SQLITE_OK => Ok(Installed(heap)),
        code => Err(InstallError::Sqlite(code)),
    }
}

impl Installed {
    /// SQLite's heap.
    #[must_use]
    pub const fn heap(self) -> SqliteHeap {
        self.0
    }

    /// How many objects SQLite asked for, or resized, so far.
    #[must_use]
    pub fn allocations(self) -> usize {
        malloc().map_or(0, |malloc| malloc.allocations())
    }

    /// Gives cached slots back, for exact figures.
    pub fn flush(self) {
        if let Some(mut malloc) = malloc() {
            malloc.flush();
        }
    }

    /// Meshes while SQLite is idle, in steps that `budget` bounds.
    ///
    /// # Safety
    /// No other thread uses SQLite meanwhile; `connections` are all that there are.
    pub unsafe fn mesh(self, _connections: &mut [Connection], budget: MeshBudget) -> MeshReport {
        self.flush();
        // SAFETY: all objects are SQLite's. By the caller's contract nobody is in SQLite, so nobody writes to them.
        unsafe { mesh_until_settled(self.0, budget, |_| ()) }
    }
}

fn malloc() -> Option<MutexGuard<'static, Malloc<SqliteHeap>>> {
    Some(MEMORY.get()?.1.lock().unwrap_or_else(PoisonError::into_inner))
}

fn pointer(object: Option<NonNull<u8>>) -> *mut c_void {
    object.map_or(null_mut(), |object| object.as_ptr().cast())
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    pointer(usize::try_from(bytes).ok().and_then(|bytes| malloc()?.allocate(bytes)))
}

unsafe extern "C" fn free(object: *mut c_void) {
    if let (Some(object), Some(mut malloc)) = (NonNull::new(object.cast()), malloc()) {
        // SAFETY: SQLite frees what it got from here, once.
        unsafe { malloc.free(object) };
    }
}

unsafe extern "C" fn resize(object: *mut c_void, bytes: c_int) -> *mut c_void {
    let (Some(object), Ok(bytes)) = (NonNull::new(object.cast()), usize::try_from(bytes)) else { return null_mut() };
    // SAFETY: SQLite resizes what it got from here.
    pointer(malloc().and_then(|mut malloc| unsafe { malloc.resize(object, bytes) }))
}

unsafe extern "C" fn size(object: *mut c_void) -> c_int {
    let usable = NonNull::new(object.cast()).zip(MEMORY.get());
    let usable = usable.map_or(0, |(object, (heap, _))| Malloc::<SqliteHeap>::usable_size(heap, object));
    c_int::try_from(usable).unwrap_or(c_int::MAX)
}

const unsafe extern "C" fn round_up(bytes: c_int) -> c_int {
    bytes.saturating_add(15) & !15
}

const unsafe extern "C" fn init(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

const unsafe extern "C" fn shutdown(_: *mut c_void) {}
