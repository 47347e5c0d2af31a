/* Buffers in the heap that are registered with io_uring: what the kernel reads into them arrives, though the heap is sparse and
   asked to give memory back. */
#include "check.h"
#include <errno.h>
#include <linux/io_uring.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { OBJECTS = 40000, SURVIVES = 8, SIZE = 256, BUFFERS = 64 };

static struct io_uring_params parameters;
static int ring;
static char *submissions, *completions;
static struct io_uring_sqe *entries;

static void *shown(size_t bytes, off_t what) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void skip(const char *why) {
    printf("SKIPPED: %s: %s\n", why, strerror(errno));
    exit(0);
}

static void open_ring(void) {
    ring = syscall(SYS_io_uring_setup, 8, &parameters);
    if (ring < 0)
        skip("no io_uring");
    submissions = shown(parameters.sq_off.array + parameters.sq_entries * 4, IORING_OFF_SQ_RING);
    size_t bytes = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    completions = shown(bytes, IORING_OFF_CQ_RING);
    entries = shown(parameters.sq_entries * sizeof *entries, IORING_OFF_SQES);
}

static unsigned *word(char *queue, uint32_t offset) { return (unsigned *)(queue + offset); }

/* Reads the start of the file into the registered buffer of this number. */
static void read_into(int number, int file, const struct iovec *buffer) {
    unsigned tail = *word(submissions, parameters.sq_off.tail), slot = tail & (parameters.sq_entries - 1);
    entries[slot] = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED, .fd = file, .buf_index = number};
    entries[slot].addr = (uintptr_t)buffer->iov_base;
    entries[slot].len = buffer->iov_len;
    word(submissions, parameters.sq_off.array)[slot] = slot;
    __atomic_store_n(word(submissions, parameters.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    unsigned *head = word(completions, parameters.cq_off.head);
    struct io_uring_cqe *results = (void *)(completions + parameters.cq_off.cqes);
    CHECK(results[*head & (parameters.cq_entries - 1)].res == (int)buffer->iov_len);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

int main(void) {
    static char *objects[OBJECTS], data[SIZE];
    struct iovec buffers[BUFFERS];
    open_ring();
    int file = memfd_create("data", 0);
    memset(data, 7, SIZE);
    CHECK(file >= 0 && write(file, data, SIZE) == SIZE);
    for (int at = 0; at < OBJECTS; at++) {
        CHECK((objects[at] = malloc(SIZE)));
        memset(objects[at], 1, SIZE);
    }
    for (int at = 0; at < OBJECTS; at++)
        if (at % SURVIVES)
            free(objects[at]);
    for (int at = 0; at < BUFFERS; at++)
        buffers[at] = (struct iovec){objects[at * (OBJECTS / BUFFERS / SURVIVES) * SURVIVES], SIZE};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, BUFFERS) != 0)
        skip("no registered buffers");
    malloc_trim(0);
    for (int at = 0; at < BUFFERS; at++) {
        read_into(at, file, &buffers[at]);
        CHECK(!memcmp(buffers[at].iov_base, data, SIZE));
    }
    puts("ok");
    return 0;
}
