/* Heaps as values: see README.md beside the library's source. Made by cbindgen from the Rust source: do not edit. */

#ifndef MESHHEAP_H
#define MESHHEAP_H

#include <stddef.h>
#include <stdint.h>

// Free, without memory.
#define MH_PAGES_CLEAN 0

// Free, with old content.
#define MH_PAGES_DIRTY 1

// A span that shows its own memory.
#define MH_PAGES_SPAN 2

// A span that shows another's memory.
#define MH_PAGES_ALIAS 3

// A large object.
#define MH_PAGES_LARGE 4

// Anything else.
#define MH_PAGES_OTHER 5

// The pass went through the whole heap; the next step begins another.
#define MH_STEP_PASS_DONE 0

// The time is over; the next step goes on.
#define MH_STEP_BUDGET 1

// The mapping budget is used up: meshing goes on once mappings have come back.
#define MH_STEP_MAPPINGS_USED_UP 2

// Another thread is in the middle of a step.
#define MH_STEP_BUSY 3

// The system refused a call. The heap is whole.
#define MH_STEP_REFUSED 4

// This heap cannot mesh.
#define MH_STEP_UNSUPPORTED 5

// A heap.
struct mh_heap;

// One thread's handle to a heap. No two threads may use it at once.
struct mh_local;

// A heap's figures, in bytes unless their names say otherwise. Later versions add fields at the end.
struct mh_figures {
  // In objects, which count with the whole slots that they lie in.
  uint64_t live_bytes;
  // Physical memory that the heap holds: objects' pages (each shared page once), dirty free pages and metadata.
  uint64_t held_bytes;
  // The part of `held_bytes` that is metadata.
  uint64_t metadata_bytes;
  // The part of `held_bytes` in free pages.
  uint64_t free_bytes;
  // Address space in spans and large objects.
  uint64_t span_bytes;
  // The most that `span_bytes` has been.
  uint64_t span_bytes_peak;
  // Address space that shows other pages' memory: what meshing saves now.
  uint64_t meshed_bytes;
  // Address space for all objects.
  uint64_t arena_bytes;
  // Mappings of the system in use beyond the first.
  uint64_t mappings;
  // The most that meshing may use of them.
  uint64_t mapping_budget;
  // Steps of meshing so far.
  uint64_t mesh_steps;
  // Passes through the whole heap so far.
  uint64_t mesh_passes;
  // Pages that meshing has freed so far.
  uint64_t pages_meshed;
  // The longest step so far, in nanoseconds.
  uint64_t longest_step_ns;
  // Wrong pointers found so far.
  uint64_t wrong_pointers;
  // Objects that are pinned now, not bytes.
  uint64_t pinned_objects;
  // Forks so far before which the system refused to make meshed pages private, so that the child shares them. Only malloc's heap
  // forks: 0 for others.
  uint64_t refused_forks;
};

// A run of pages, as [`mh_walk`] shows it.
struct mh_run {
  // The number of its first page in the heap's arena.
  size_t first_page;
  // Its pages.
  size_t pages;
  // What it is used for: one of the `MH_PAGES_` numbers.
  int used_for;
  // Of spans: bytes of a slot.
  size_t slot_bytes;
  // Of spans: how many slots there are.
  size_t slots;
  // Of spans: how many of them are taken at the span's own addresses.
  size_t live_slots;
  // Of aliases: the first page of the span whose memory it shows.
  size_t keeper_page;
};

// How a heap is set up. Zero everywhere but in `struct_bytes` means the defaults.
struct mh_options {
  // `sizeof(mh_options)`.
  size_t struct_bytes;
  // Bytes of address space for all objects: what the heap can hold. 0: 64 GiB.
  size_t arena_bytes;
  // Mappings of the system that meshing may use. 0: a quarter of the system's limit.
  size_t mapping_budget;
  // The seed of all placement. 0: a random one.
  uint64_t seed;
  // Bytes that one local heap may keep for its next allocations. 0: 64 KiB.
  size_t local_heap_bytes;
};

// What a step of meshing did.
struct mh_step {
  // Why it ended: one of the `MH_STEP_` numbers.
  int end;
  // Pages that it freed by meshing.
  size_t pages_freed;
  // How long it took, in nanoseconds.
  uint64_t nanoseconds;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Writes the heap's figures to `statistics`, of which the caller's version has `struct_bytes` bytes. Returns how many bytes
// were written: what is beyond is not known to this library.
//
// # Safety
// `heap` must be a live heap, and `statistics` be writable for `struct_bytes` bytes.
size_t mh_statistics(const struct mh_heap *heap,
                     struct mh_figures *statistics,
                     size_t struct_bytes);

// The same for the heap that malloc itself uses in this process; what the calling thread keeps for its next allocations goes back
// to it.
//
// # Safety
// `statistics` must be writable for `struct_bytes` bytes.
size_t mh_malloc_statistics(struct mh_figures *statistics,
                            size_t struct_bytes);

// Writes the heap's figures to `text` as a JSON object, with the field names of `mh_figures`, cut off to `text_bytes` bytes
// with the zero at its end. Returns its whole length without the zero, as `snprintf` does.
//
// # Safety
// `heap` must be a live heap, and `text` be writable for `text_bytes` bytes.
size_t mh_statistics_json(const struct mh_heap *heap,
                          char *text,
                          size_t text_bytes);

// Calls `see` with `context` and each run of pages, up to the last that is in use. The run is gone after the call.
//
// # Safety
// `heap` must be a live heap, which `see` may use but not destroy.
void mh_walk(const struct mh_heap *heap, void (*see)(void *context, const struct mh_run *run), void *context);

// A heap. `options` may be null. Null, with errno ENOMEM, if the system has no room for it; with errno EINVAL, if the options
// are of another size than this library's.
//
// # Safety
// `options` must be null or readable.
struct mh_heap *mh_create(const struct mh_options *options);

// Gives all of a heap's memory back, live objects included. Null is ignored.
//
// # Safety
// `heap` must be null, or come from [`mh_create`] and not be used by anybody from now on, nor its objects. It must have no local
// heaps any more.
void mh_destroy(struct mh_heap *heap);

// An object of `size` bytes at a multiple of `align`, a power of two; 0 stands for 16. Null, with errno ENOMEM or EINVAL, if
// there is none.
//
// # Safety
// `heap` must be a live heap.
void *mh_alloc(const struct mh_heap *heap,
               size_t size,
               size_t align);

// The same, all bytes zero.
//
// # Safety
// As for [`mh_alloc`].
void *mh_alloc_zeroed(const struct mh_heap *heap, size_t size, size_t align);

// Frees an object; null is ignored. Returns 0, or EINVAL if the pointer is no live object of this heap.
//
// # Safety
// `heap` must be a live heap. Nobody may use the object from now on. It must not have been freed through a local heap already,
// which may still keep its slot.
int mh_free(const struct mh_heap *heap,
            void *object);

// Makes an object larger or smaller. Null is allocated; an alignment beyond 16 may be lost. Null, with errno ENOMEM, if there
// is no memory; with errno EINVAL, if the pointer is no live object of this heap. The object is then as it was.
//
// # Safety
// As for [`mh_free`], if the result is not null.
void *mh_realloc(const struct mh_heap *heap,
                 void *object,
                 size_t size);

// Bytes that an object can hold; 0 for null and for what is no live object of this heap.
//
// # Safety
// `heap` must be a live heap.
size_t mh_usable_size(const struct mh_heap *heap, const void *object);

// One step of meshing, bounded to about `nanoseconds`. Call it until its end is `MH_STEP_PASS_DONE`.
//
// # Safety
// `heap` must be a live heap. Until the call returns, nobody may write to an object of this heap, be it by zeroed allocation or
// reallocation, nor the kernel on somebody's behalf.
struct mh_step mh_mesh_at_safepoint(const struct mh_heap *heap,
                                    uint64_t nanoseconds);

// Gives all free pages back to the system. Returns how many bytes; 0 if the system refused.
//
// # Safety
// `heap` must be a live heap.
size_t mh_purge(const struct mh_heap *heap);

// Changes how many mappings meshing may use.
//
// # Safety
// `heap` must be a live heap.
void mh_set_mapping_budget(const struct mh_heap *heap, size_t mappings);

// A local heap of `heap`, to be given back by [`mh_local_destroy`] before the heap is destroyed. Null, with errno ENOMEM, if
// there is no memory.
//
// # Safety
// `heap` must be a live heap.
struct mh_local *mh_local_create(const struct mh_heap *heap);

// Gives a local heap back; its objects live on. Null is ignored.
//
// # Safety
// `local` must be null, or come from [`mh_local_create`] and not be used by anybody from now on; its heap must be live.
void mh_local_destroy(struct mh_local *local);

// An object of `size` bytes at a multiple of `align`, a power of two; 0 stands for 16. Null, with errno ENOMEM or EINVAL, if
// there is none.
//
// # Safety
// `local` must be a live local heap that no other thread uses meanwhile, nor its heap be destroyed.
void *mh_local_alloc(struct mh_local *local,
                     size_t size,
                     size_t align);

// The same, all bytes zero.
//
// # Safety
// As for [`mh_local_alloc`].
void *mh_local_alloc_zeroed(struct mh_local *local, size_t size, size_t align);

// Frees an object of the same heap; null is ignored. Returns 0, or EINVAL if the pointer is not the start of an object.
//
// # Safety
// As for [`mh_local_alloc`]. The object must be live; nobody may use it from now on.
int mh_local_free(struct mh_local *local, void *object);

// Frees an object whose size and alignment its owner knows, which takes the fewest instructions; null is ignored.
//
// # Safety
// As for [`mh_local_free`]; the object must have been allocated with the same `size` and `align`, and not been reallocated.
void mh_local_free_sized(struct mh_local *local,
                         void *object,
                         size_t size,
                         size_t align);

// Makes an object larger or smaller. Null is allocated; an alignment beyond 16 may be lost. Null, with errno ENOMEM, if there
// is no memory; with errno EINVAL, if the pointer is not the start of an object of this heap. The object is then as it was.
//
// # Safety
// As for [`mh_local_free`], if the result is not null.
void *mh_local_realloc(struct mh_local *local,
                       void *object,
                       size_t size);

// Gives back to the heap what a local heap keeps: for a thread that will be idle for long.
//
// # Safety
// As for [`mh_local_alloc`].
void mh_local_flush(struct mh_local *local);

// Keeps the physical memory behind an object's addresses what it is, until [`mh_unpin`]: meshing leaves it alone. For memory that
// is written to by other means than its address, such as devices, direct I/O and registered buffers of `io_uring`. An object
// must be unpinned before it is freed or reallocated. Returns 0; EINVAL, if the pointer is no object of this heap; EALREADY, if
// it is pinned; ENOMEM, if there is no memory to note it.
//
// # Safety
// `heap` must be a live heap. Not to be called by a signal handler that may have interrupted a step of meshing.
int mh_pin(const struct mh_heap *heap,
           const void *object);

// Ends what [`mh_pin`] began. Returns 0, or EINVAL if the pointer is no pinned object of this heap.
//
// # Safety
// As for [`mh_pin`].
int mh_unpin(const struct mh_heap *heap, const void *object);

// Calls `see` with `context` and each object of the heap that nobody freed, with the bytes that it holds, in the order of
// addresses; `see` may be null. Returns how many there are. For a heap that is about to be destroyed: what local heaps keep for
// their next allocations would look alive.
//
// # Safety
// `heap` must be a live heap that has no local heaps any more. Nobody may use it until the call returns: `see` may only look at
// the object.
size_t mh_leaks(struct mh_heap *heap,
                void (*see)(void *context, const void *object, size_t bytes),
                void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MESHHEAP_H */
