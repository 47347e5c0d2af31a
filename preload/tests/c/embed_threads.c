/* A runtime with threads: a local heap each, over one heap. Objects that one thread makes, the next one frees; then all stand
   at a safepoint, and what is left is meshed. */
#include "check.h"
#include <errno.h>
#include <meshheap.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, OBJECTS = 50000, SURVIVES = 16 };

struct worker {
    pthread_t thread;
    struct mh_heap *heap;
    int number;
    unsigned char *objects[OBJECTS];
};

static struct worker workers[THREADS];
static pthread_barrier_t all;

static size_t size_of(int at) { return at % 3 ? 64 : 40; }

static void make(struct worker *self, struct mh_local *local) {
    for (int at = 0; at < OBJECTS; at++) {
        unsigned char *object = mh_local_alloc(local, size_of(at), 0);
        CHECK(object && (size_t)object % 16 == 0);
        memset(object, (at + self->number) % 251, size_of(at));
        self->objects[at] = object;
    }
}

/* Frees most objects of another worker. */
static void thin_out(struct worker *other, struct mh_local *local) {
    for (int at = 0; at < OBJECTS; at++) {
        if (at * 7919 / 13 % SURVIVES == 0)
            continue;
        if (at % 2)
            CHECK(mh_local_free(local, other->objects[at]) == 0);
        else
            mh_local_free_sized(local, other->objects[at], size_of(at), 0);
        other->objects[at] = NULL;
    }
}

static void *run(void *given) {
    struct worker *self = given;
    struct mh_local *local = mh_local_create(self->heap);
    CHECK(local);
    make(self, local);
    pthread_barrier_wait(&all);
    thin_out(&workers[(self->number + 1) % THREADS], local);

    char *zeros = mh_local_alloc_zeroed(local, 3000, 256);
    CHECK(zeros && (size_t)zeros % 256 == 0 && zeros[0] == 0 && zeros[2999] == 0);
    strcpy(zeros, "kept");
    zeros = mh_local_realloc(local, zeros, 100000);
    CHECK(zeros && !strcmp(zeros, "kept"));
    zeros = mh_local_realloc(local, zeros, 30);
    CHECK(zeros && !strcmp(zeros, "kept") && mh_usable_size(self->heap, zeros) < 100);
    CHECK(mh_local_free(local, zeros) == 0 && mh_local_free(local, NULL) == 0);
    int elsewhere;
    CHECK(mh_local_free(local, &elsewhere) == EINVAL);
    errno = 0;
    CHECK(!mh_local_realloc(local, &elsewhere, 10) && errno == EINVAL);
    errno = 0;
    CHECK(!mh_local_alloc(local, 1, 3) && errno == EINVAL);
    errno = 0;
    CHECK(!mh_local_alloc(local, (size_t)1 << 60, 0) && errno == ENOMEM);

    mh_local_flush(local);
    pthread_barrier_wait(&all);
    mh_local_destroy(local);
    mh_local_destroy(NULL);
    return NULL;
}

static size_t live(struct mh_heap *heap) {
    struct mh_figures figures;
    CHECK(mh_statistics(heap, &figures, sizeof figures) == sizeof figures);
    return figures.live_bytes;
}

int main(void) {
    struct mh_options options = {.struct_bytes = sizeof options, .seed = 3, .local_heap_bytes = 256 << 10};
    struct mh_heap *heap = mh_create(&options);
    CHECK(heap && !pthread_barrier_init(&all, NULL, THREADS));
    for (int at = 0; at < THREADS; at++) {
        workers[at].heap = heap;
        workers[at].number = at;
        CHECK(!pthread_create(&workers[at].thread, NULL, run, &workers[at]));
    }
    for (int at = 0; at < THREADS; at++)
        CHECK(!pthread_join(workers[at].thread, NULL));

    size_t expected = 0;
    for (int number = 0; number < THREADS; number++)
        for (int at = 0; at < OBJECTS; at++)
            expected += workers[number].objects[at] ? mh_usable_size(heap, workers[number].objects[at]) : 0;
    mh_purge(heap);
    CHECK(live(heap) == expected);

    struct mh_step step;
    size_t freed = 0;
    do {
        step = mh_mesh_at_safepoint(heap, 1000000);
        freed += step.pages_freed;
    } while (step.end == MH_STEP_BUDGET);
    CHECK(step.end == MH_STEP_PASS_DONE && freed > 0);
    for (int number = 0; number < THREADS; number++)
        for (int at = 0; at < OBJECTS; at++)
            for (size_t byte = 0; workers[number].objects[at] && byte < size_of(at); byte++)
                CHECK(workers[number].objects[at][byte] == (at + number) % 251);
    mh_destroy(heap);
    return puts("ok") < 0;
}
