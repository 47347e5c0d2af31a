//! Objects in the heap: how they are laid out, made, read and freed. The only file of the example with `unsafe` code; what
//! it rests on, M1 to M6, is in the module's documentation.
//!
//! ```text
//!   newest ─▶ ┌ Header ─────────────────────┐    next ─▶ another object, and so on through all of them
//!             │ next  length  kind  marked  │
//!             ├─────────────────────────────┤
//!             │ `length` words, or bytes    │
//!             └─────────────────────────────┘
//! ```

use core::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use meshheap::{AllocError, Heap, MeshBudget, MeshStep};
use meshheap_linux::LinuxPlatform;

use crate::memory::conservative::Conservative;
use crate::memory::roots::Roots;
use crate::memory::source::Source;
use crate::memory::word::{Meaning, Word};
use crate::memory::{Kind, Value};

/// What each object starts with.
#[repr(C, align(16))]
#[derive(Debug)]
struct Header {
    /// The store's list of all objects.
    next: Cell<Option<NonNull<Header>>>,
    /// Words; of a text, bytes.
    length: u32,
    kind: Kind,
    /// Reached in this collection.
    marked: Cell<bool>,
}

impl Header {
    /// Bytes of the object, header included.
    fn bytes(&self) -> usize {
        layout(self.kind, self.length).map_or(0, |layout| layout.size())
    }
}

/// Bytes of the object that starts here, all of which are initialised.
///
/// # Safety
/// It must be a live object of a store.
pub(super) unsafe fn object_bytes(object: NonNull<u8>) -> usize {
    // SAFETY: the caller's contract.
    unsafe { header(object.cast()) }.bytes()
}

/// The layout of an object. The header's size keeps the words behind it aligned.
fn layout(kind: Kind, length: u32) -> Result<Layout, AllocError> {
    let unit = if kind == Kind::Text { 1 } else { size_of::<Word>() };
    let bytes = size_of::<Header>() + unit * length as usize;
    Layout::from_size_align(bytes, align_of::<Header>()).map_err(|_| AllocError::TooLarge)
}

/// The header of an object.
///
/// # Safety
/// The object must be live for as long as the reference is used.
unsafe fn header<'a>(object: NonNull<Header>) -> &'a Header {
    // SAFETY: live objects start with an initialised header (M1); what changes in it are cells.
    unsafe { object.as_ref() }
}

/// The first byte behind the header.
fn payload(object: NonNull<Header>) -> *mut u8 {
    object.as_ptr().wrapping_add(1).cast()
}

/// The fields of a record; none for a text.
///
/// # Safety
/// As for [`header`].
unsafe fn cells<'a>(object: NonNull<Header>) -> &'a [Cell<Word>] {
    // SAFETY: the caller keeps the same contract.
    let header = unsafe { header(object) };
    let count = if header.kind == Kind::Text { 0 } else { header.length as usize };
    // SAFETY: so many initialised words lie behind the header of a live record (M1).
    unsafe { core::slice::from_raw_parts(payload(object).cast(), count) }
}

/// Invariant in `'id`, so that values of two stores never have one type.
type Brand<'id> = PhantomData<Cell<&'id ()>>;

/// A live object: a record with fields, or a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'id> {
    object: NonNull<Header>,
    brand: Brand<'id>,
}

impl<'id> Object<'id> {
    pub(super) fn address(self) -> NonNull<u8> {
        self.object.cast()
    }

    pub(super) fn kind(self) -> Kind {
        // SAFETY: by M3 the object is live.
        unsafe { header(self.object) }.kind
    }

    fn cells(self) -> &'id [Cell<Word>] {
        // SAFETY: by M3 the object is live for `'id`.
        unsafe { cells(self.object) }
    }

    /// The value of a field. Panics if there is no such field.
    pub(crate) fn get(self, field: usize) -> Value<'id> {
        let word = self.cells()[field].get();
        Value::new(word, |address| Object { object: address.cast(), brand: PhantomData })
    }

    /// Changes a field. Panics if there is no such field.
    pub(crate) fn set(self, field: usize, value: Value<'id>) {
        // M2: by the brand the value is one of the same store.
        self.cells()[field].set(value.word());
    }

    /// The characters of a text; none of a record.
    pub(crate) fn text(self) -> &'id str {
        // SAFETY: by M3 the object is live for `'id`.
        let header = unsafe { header(self.object) };
        let length = if header.kind == Kind::Text { header.length as usize } else { 0 };
        // SAFETY: so many initialised bytes lie behind the header (M1), and they never change (M5).
        let bytes = unsafe { core::slice::from_raw_parts(payload(self.object), length) };
        // SAFETY: they were copied from whole strings.
        unsafe { core::str::from_utf8_unchecked(bytes) }
    }
}

/// All objects of one interpreter, and the roots that keep them.
#[derive(Debug)]
pub(crate) struct Store<'heap> {
    source: Source<'heap>,
    newest: Option<NonNull<Header>>,
    roots: Roots,
    /// Bytes of all objects, headers included.
    live_bytes: usize,
    /// `live_bytes` at which the next collection is due.
    collect_at: usize,
    /// With it, there is no list of all objects.
    conservative: Option<Conservative<'heap>>,
}

impl<'heap> Store<'heap> {
    /// A store that has `heap` for itself.
    pub(crate) fn new(heap: &'heap mut Heap<LinuxPlatform>) -> Self {
        Self::with(Source::heap(heap), None)
    }

    /// The same with all objects from malloc, to compare with: the heap stays empty.
    pub(crate) fn on_malloc(heap: &'heap mut Heap<LinuxPlatform>) -> Self {
        Self::with(Source::malloc(heap), None)
    }

    /// The same with a conservative collector.
    pub(crate) fn conservative(heap: &'heap mut Heap<LinuxPlatform>) -> Result<Self, AllocError> {
        let heap: &'heap Heap<LinuxPlatform> = heap;
        let conservative = Conservative::new(heap)?;
        Ok(Self::with(Source::heap(heap), Some(conservative)))
    }

    fn with(source: Source<'heap>, conservative: Option<Conservative<'heap>>) -> Self {
        Self { source, newest: None, roots: Roots::default(), live_bytes: 0, collect_at: usize::MAX, conservative }
    }

    pub(crate) fn heap(&self) -> &Heap<LinuxPlatform> {
        self.source.the_heap()
    }

    pub(crate) const fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// A collection is due when all objects have so many bytes.
    pub(crate) const fn collect_at(&mut self, live_bytes: usize) {
        self.collect_at = live_bytes;
    }

    pub(crate) const fn collection_due(&self) -> bool {
        self.live_bytes >= self.collect_at
    }

    /// Forgets all frames.
    pub(crate) fn clear_frames(&mut self) {
        self.roots.frames.clear();
    }

    /// Runs `work`, which may make values and read them.
    pub(crate) fn enter<R>(&mut self, work: impl for<'id> FnOnce(Mutator<'id, 'heap>) -> R) -> R {
        // What `work` has on the stack lies below this.
        let top = 0_usize;
        if let Some(conservative) = &mut self.conservative {
            conservative.enter((&raw const top).addr());
        }
        self.run(work)
    }

    #[inline(never)]
    fn run<R>(&mut self, work: impl for<'id> FnOnce(Mutator<'id, 'heap>) -> R) -> R {
        work(Mutator { store: self, brand: PhantomData })
    }

    /// Frees every object that the roots do not reach. Returns the freed bytes.
    pub(crate) fn collect(&mut self) -> usize {
        let before = self.live_bytes;
        if let Some(conservative) = &mut self.conservative {
            self.source.local().flush();
            // SAFETY: all objects of the heap are this store's (M6, M1), its only local heap is flushed, and what is not on the
            // stack or reached from the roots is used no more (M3, M4).
            self.live_bytes = unsafe { conservative.collect(self.roots.words()) };
        } else {
            self.mark();
            self.sweep();
        }
        before.saturating_sub(self.live_bytes)
    }

    /// One bounded step of meshing.
    pub(crate) fn mesh(&mut self, budget: MeshBudget) -> MeshStep {
        // SAFETY: this is a safepoint: by M6 nobody else uses the heap, this thread is here, and no system call is given
        // the address of an object to write to.
        unsafe { self.heap().mesh_at_safepoint(budget) }
    }

    /// Gives the local heap's slots back, for exact figures.
    pub(crate) fn flush(&mut self) {
        self.source.local().flush();
    }

    fn mark(&mut self) {
        // Depth first with a list of its own: a chain of a million pairs must not need a million stack frames.
        let mut pending = Vec::<NonNull<Header>>::new();
        let reach = |word: Word, pending: &mut Vec<_>| {
            let Meaning::Object(address) = word.meaning() else { return };
            // SAFETY: by M2 the word is the address of a live object.
            if !unsafe { header(address.cast()) }.marked.replace(true) {
                pending.push(address.cast());
            }
        };
        self.roots.words().for_each(|word| reach(word, &mut pending));
        while let Some(object) = pending.pop() {
            // SAFETY: only live objects were pushed, and nothing is freed yet.
            unsafe { cells(object) }.iter().for_each(|cell| reach(cell.get(), &mut pending));
        }
    }

    /// Frees what is not marked, and takes the marks away.
    fn sweep(&mut self) {
        let mut next = self.newest.take();
        while let Some(object) = next {
            // SAFETY: by M1 the object is live; it is freed only below.
            let header = unsafe { header(object) };
            next = header.next.get();
            if header.marked.replace(false) {
                header.next.set(self.newest.replace(object));
                continue;
            }
            let layout = layout(header.kind, header.length).expect("it was allocated with this layout");
            self.live_bytes -= layout.size();
            // SAFETY: by M1 it was allocated with this layout. It is not marked, so no live object and no root refers to it,
            // it is off the list, and by M3 there are no values.
            unsafe { self.source.dealloc(object.cast(), layout) };
        }
    }

    /// An object of which only the header is initialised, and which is not on the list yet; with its size.
    fn allocate(&mut self, kind: Kind, length: usize) -> Result<(NonNull<Header>, usize), AllocError> {
        let length = u32::try_from(length).map_err(|_| AllocError::TooLarge)?;
        let layout = layout(kind, length)?;
        let object = self.source.alloc(layout)?.cast::<Header>();
        let next = Cell::new(self.newest);
        // SAFETY: the object was just allocated with a layout that begins with a header.
        unsafe { object.write(Header { next, length, kind, marked: Cell::new(false) }) };
        Ok((object, layout.size()))
    }
}

impl Drop for Store<'_> {
    /// Without roots everything goes: the heap's owner may use it for something else.
    fn drop(&mut self) {
        self.source.local().flush();
        match &mut self.conservative {
            // SAFETY: as in `collect`; nothing is used any more.
            Some(conservative) => unsafe { conservative.free_all() },
            None => self.sweep(),
        }
    }
}

/// The right to make values and to read roots, for one call of [`Store::enter`].
#[derive(Debug)]
pub(crate) struct Mutator<'id, 'heap> {
    store: &'id mut Store<'heap>,
    brand: Brand<'id>,
}

impl<'id> Mutator<'id, '_> {
    /// Puts a complete object on the list.
    fn publish(&mut self, (object, bytes): (NonNull<Header>, usize)) -> Object<'id> {
        if self.store.conservative.is_none() {
            self.store.newest = Some(object);
        }
        self.store.live_bytes += bytes;
        Object { object, brand: PhantomData }
    }

    /// A new record with these fields.
    pub(crate) fn record(&mut self, kind: Kind, fields: &[Value<'id>]) -> Result<Object<'id>, AllocError> {
        assert!(kind != Kind::Text, "a text has no fields");
        let allocated = self.store.allocate(kind, fields.len())?;
        let first = payload(allocated.0).cast::<Word>();
        for (index, field) in fields.iter().enumerate() {
            // SAFETY: the layout has a word for each field.
            unsafe { first.wrapping_add(index).write(field.word()) };
        }
        Ok(self.publish(allocated))
    }

    /// A new text: all `parts` in a row.
    pub(crate) fn text(&mut self, parts: &[&str]) -> Result<Value<'id>, AllocError> {
        let length = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()));
        let allocated = self.store.allocate(Kind::Text, length.ok_or(AllocError::TooLarge)?)?;
        let mut to = payload(allocated.0);
        for part in parts {
            // SAFETY: the layout has a byte for each byte of the parts, and no part lies in a new object.
            unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            to = to.wrapping_add(part.len());
        }
        Ok(Value::Text(self.publish(allocated)))
    }

    /// A collection in the midst of work: values that are held in variables stay. Only for conservative collectors.
    #[cfg(test)]
    pub(crate) fn collect(&mut self) -> usize {
        assert!(self.store.conservative.is_some(), "a precise collector does not see variables");
        self.store.collect()
    }

    /// The value of a root.
    pub(super) fn value(&self, word: Word) -> Value<'id> {
        // M2 and M3: the word is this store's, and the store is borrowed for `'id`.
        Value::new(word, |address| Object { object: address.cast(), brand: PhantomData })
    }

    pub(super) const fn roots(&mut self) -> &mut Roots {
        &mut self.store.roots
    }

    pub(crate) const fn collection_due(&self) -> bool {
        self.store.collection_due()
    }
}
