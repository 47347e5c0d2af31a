//! What becomes of an arena in the child of a fork.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::errno::Errno;
use crate::mapping;

/// What becomes of a heap's memory in the child of a fork. Vfork and `posix_spawn` are no forks in this sense: their child uses
/// the parent's memory for the moment until it runs another program, and no call of the heap belongs there.
///
/// | policy | [`HybridPlatform`](crate::HybridPlatform), [`PrivatePlatform`](crate::PrivatePlatform) | [`LinuxPlatform`](crate::LinuxPlatform) with shared memory |
/// |---|---|---|
/// | [`Snapshot`](ForkPolicy::Snapshot) | the default | refused: `fork_prepare` fails with EOPNOTSUPP |
/// | [`Share`](ForkPolicy::Share) | refused likewise | works |
/// | [`Exclude`](ForkPolicy::Exclude) | works | works |
///
/// The last two are the choice for memory that belongs to one process: the parent's heap knows nothing of the child, and goes on
/// as if there had been no fork. **In the child the heap is foreign** (also if it forks again, and if nobody called
/// [`Heap::fork_prepare`](meshheap::Heap::fork_prepare)):
/// * Meshing, purges and fresh pages are refused with ENXIO, so that no call takes anything away from the parent.
/// * It may be dropped, and so may its local heaps; that leaves the parent's memory alone.
/// * Statistics and other questions about the heap are answered as of the fork.
/// * Objects must be neither allocated nor freed there: the heap's tables are the child's own copy, and do not know what the parent
///   allocates meanwhile. Who does so all the same with an excluded heap gets errors, or addresses that cannot be touched; with a
///   shared one, objects that the parent's are laid over.
///
/// Only a child whose parent called `fork_prepare` may call anything of the heap but `drop`: another thread may have held its locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ForkPolicy {
    /// Parent and child each go on with what the heap held at the fork: memory is copied when it is written to.
    #[default]
    Snapshot,
    /// The child sees the same memory, and each what the other writes: objects are read and written on both sides, and
    /// allocated and freed by the parent only.
    Share,
    /// The child has none of it, and the fork takes no time for it. Whoever touches an object in the child is ended by SIGSEGV:
    /// the addresses are kept free there by `fork_done`.
    Exclude,
}

/// The policy of one arena, and which side of a fork this is.
#[derive(Debug)]
pub(crate) struct Forks {
    policy: ForkPolicy,
    /// A page that the kernel wipes in a child, and that is not zero here; 0: there is none.
    marker: AtomicUsize,
    /// The addresses of an excluded arena are kept free in this child.
    is_fenced: AtomicBool,
}

impl Forks {
    pub(crate) const fn new(policy: ForkPolicy) -> Self {
        Self { policy, marker: AtomicUsize::new(0), is_fenced: AtomicBool::new(false) }
    }

    pub(crate) const fn policy(&self) -> ForkPolicy {
        self.policy
    }

    const fn is_excluded(&self) -> bool {
        matches!(self.policy, ForkPolicy::Exclude)
    }

    /// An arena begins.
    pub(crate) fn begin(&self, page_size: usize) -> Result<(), Errno> {
        if self.policy == ForkPolicy::Snapshot {
            return Ok(());
        }
        let page = mapping::map_metadata_at_new(page_size, page_size, page_size)?;
        // SAFETY: the page was mapped just now.
        let wiped = unsafe { mapping::wipe_in_child(page, page_size) };
        if wiped.is_err() {
            // SAFETY: nobody knows of it.
            unsafe { mapping::unmap(page, page_size) };
            return wiped;
        }
        // SAFETY: the page is ours and can be written.
        unsafe { page.write(1) };
        self.is_fenced.store(false, Ordering::Relaxed);
        // Relaxed: whoever uses the arena got it after this call.
        self.marker.store(page.as_ptr().expose_provenance(), Ordering::Relaxed);
        Ok(())
    }

    /// It ends.
    pub(crate) fn end(&self, page_size: usize) {
        // Relaxed: by the contract of `release` no other call uses the arena any more.
        let marker = self.marker.swap(0, Ordering::Relaxed);
        if let Some(page) = NonNull::new(ptr::with_exposed_provenance_mut(marker)) {
            // SAFETY: `begin` mapped it.
            unsafe { mapping::unmap(page, page_size) };
        }
    }

    /// Whether this is the child of a fork, in which the arena is foreign.
    pub(crate) fn is_foreign(&self) -> bool {
        // Relaxed: see `begin`.
        let marker = self.marker.load(Ordering::Relaxed);
        // SAFETY: while there is a marker, its page is mapped. Volatile: it is the kernel that wipes it.
        marker != 0 && unsafe { ptr::with_exposed_provenance::<u8>(marker).read_volatile() } == 0
    }

    /// Refuses what would change a foreign arena.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.is_foreign() { Err(Errno(libc::ENXIO)) } else { Ok(()) }
    }

    /// New mappings of the arena: a fork leaves them out if it should. What is shown from them elsewhere is left out, too.
    ///
    /// # Safety
    /// The addresses must be the arena's.
    pub(crate) unsafe fn leave_out(&self, at: usize, bytes: usize) -> Result<(), Errno> {
        if !self.is_excluded() {
            return Ok(());
        }
        // SAFETY: by the caller's contract.
        unsafe { mapping::leave_out_of_forks(at, bytes) }
    }

    /// After a fork: in the child of an excluded arena nobody else may get its addresses, which the heap's tables still name.
    pub(crate) fn fence(&self, base: usize, bytes: usize) {
        if self.is_excluded() && self.is_foreign() && !self.is_fenced.load(Ordering::Relaxed) {
            // Another handler's mapping may lie there already. It is then its.
            self.is_fenced.store(mapping::reserve_here(base, bytes).is_ok(), Ordering::Relaxed);
        }
    }

    /// Whether the arena's addresses are this process's to give back.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.is_excluded() || !self.is_foreign() || self.is_fenced.load(Ordering::Relaxed)
    }

    /// Whether other views of its memory are.
    pub(crate) fn has_views(&self) -> bool {
        !self.is_excluded() || !self.is_foreign()
    }
}
