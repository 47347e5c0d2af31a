/* A runtime that embeds the heap: two heaps, fragmented, meshed at a safepoint, looked at and destroyed. */
#include "check.h"
#include <errno.h>
#include <meshheap.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 200000, SIZE = 64, SURVIVES = 20 };

static unsigned char *objects[OBJECTS];

struct seen {
    size_t pages, spans, aliases, live;
};

static void see(void *context, const struct mh_run *run) {
    struct seen *seen = context;
    seen->pages += run->pages;
    seen->live += run->live_slots;
    seen->spans += run->used_for == MH_PAGES_SPAN;
    seen->aliases += run->used_for == MH_PAGES_ALIAS;
}

static struct mh_figures figures_of(const struct mh_heap *heap) {
    struct mh_figures figures;
    CHECK(mh_statistics(heap, &figures, sizeof figures) == sizeof figures);
    return figures;
}

static void fragment(struct mh_heap *heap) {
    for (int at = 0; at < OBJECTS; at++) {
        objects[at] = mh_alloc(heap, SIZE, 0);
        CHECK(objects[at]);
        memset(objects[at], at % 251, SIZE);
    }
    unsigned random = 1;
    for (int at = 0; at < OBJECTS; at++) {
        random = random * 1103515245 + 12345;
        if ((random >> 16) % SURVIVES) {
            CHECK(mh_free(heap, objects[at]) == 0);
            objects[at] = NULL;
        }
    }
}

static void survivors_are_whole(void) {
    for (int at = 0; at < OBJECTS; at++)
        for (int byte = 0; objects[at] && byte < SIZE; byte++)
            CHECK(objects[at][byte] == at % 251);
}

/* Pins are counted, and end. */
static void pins(struct mh_heap *heap) {
    char *object = mh_alloc(heap, 4000, 0), local = 0;
    CHECK(mh_pin(heap, object) == 0 && figures_of(heap).pinned_objects == 1);
    CHECK(mh_pin(heap, object) == EALREADY && mh_pin(heap, &local) == EINVAL && mh_pin(heap, NULL) == EINVAL);
    CHECK(mh_unpin(heap, object) == 0 && figures_of(heap).pinned_objects == 0);
    CHECK(mh_unpin(heap, object) == EINVAL && mh_unpin(heap, NULL) == EINVAL);
    CHECK(mh_free(heap, object) == 0);
}

/* Bytes that a pass meshes with all objects pinned, or none. */
static size_t meshed_with_pins(int pinned) {
    struct mh_options options = {.struct_bytes = sizeof options, .arena_bytes = (size_t)1 << 30, .seed = 7};
    struct mh_heap *heap = mh_create(&options);
    CHECK(heap);
    fragment(heap);
    for (int at = 0; pinned && at < OBJECTS; at++)
        CHECK(!objects[at] || mh_pin(heap, objects[at]) == 0);
    while (mh_mesh_at_safepoint(heap, 1000000).end == MH_STEP_BUDGET) {
    }
    survivors_are_whole();
    size_t meshed = figures_of(heap).meshed_bytes;
    mh_destroy(heap);
    return meshed;
}

struct leaked {
    const void *object;
    size_t count, bytes;
};

static void see_leak(void *context, const void *object, size_t bytes) {
    struct leaked *leaked = context;
    leaked->object = object;
    leaked->count++;
    leaked->bytes += bytes;
}

static void leaks(void) {
    struct mh_heap *heap = mh_create(NULL);
    CHECK(heap && mh_leaks(heap, NULL, NULL) == 0);
    void *kept = mh_alloc(heap, 100, 0), *freed = mh_alloc(heap, 100, 0);
    CHECK(mh_free(heap, freed) == 0);
    struct leaked leaked = {0};
    CHECK(mh_leaks(heap, see_leak, &leaked) == 1);
    CHECK(leaked.count == 1 && leaked.object == kept && leaked.bytes == mh_usable_size(heap, kept));
    CHECK(mh_leaks(heap, NULL, NULL) == 1);
    mh_destroy(heap);
}

/* malloc's own heap has figures, too. */
static void malloc_has_figures(void) {
    struct mh_figures before, after;
    CHECK(mh_malloc_statistics(&before, sizeof before) == sizeof before);
    void *object = malloc(10 << 20);
    memset(object, 1, 10 << 20);
    CHECK(mh_malloc_statistics(&after, sizeof after) == sizeof after);
    CHECK(after.live_bytes >= before.live_bytes + (10 << 20) && after.refused_forks == 0);
    free(object);
}

int main(void) {
    struct mh_options options = {.struct_bytes = sizeof options, .arena_bytes = (size_t)1 << 30, .seed = 7};
    struct mh_heap *heap = mh_create(&options), *other = mh_create(NULL);
    CHECK(heap && other);
    options.struct_bytes = 3;
    errno = 0;
    CHECK(!mh_create(&options) && errno == EINVAL);

    fragment(heap);
    size_t before = figures_of(heap).held_bytes;
    struct mh_step step;
    do {
        step = mh_mesh_at_safepoint(heap, 1000000);
    } while (step.end == MH_STEP_BUDGET);
    CHECK(step.end == MH_STEP_PASS_DONE || step.end == MH_STEP_MAPPINGS_USED_UP);
    survivors_are_whole();
    struct mh_figures after = figures_of(heap);
    CHECK(after.held_bytes * 2 < before && after.meshed_bytes > 0 && after.pages_meshed > 0);
    struct seen seen = {0};
    mh_walk(heap, see, &seen);
    CHECK(seen.aliases > 0 && seen.spans > 0 && seen.live > OBJECTS / SURVIVES / 2);

    char *object = mh_alloc_zeroed(heap, 100, 64);
    CHECK(object && (size_t)object % 64 == 0 && object[99] == 0 && mh_usable_size(heap, object) >= 100);
    strcpy(object, "kept");
    object = mh_realloc(heap, object, 100000);
    CHECK(object && !strcmp(object, "kept"));
    CHECK(mh_free(other, object) == EINVAL && mh_usable_size(other, object) == 0);
    CHECK(mh_free(heap, object) == 0 && mh_free(heap, object) == EINVAL && mh_free(heap, NULL) == 0);
    errno = 0;
    CHECK(!mh_alloc(heap, (size_t)2 << 30, 0) && errno == ENOMEM);
    errno = 0;
    CHECK(!mh_alloc(heap, 1, 3) && errno == EINVAL);

    char json[2000], small[10];
    size_t length = mh_statistics_json(heap, json, sizeof json);
    CHECK(length == strlen(json) && json[0] == '{' && json[length - 1] == '}' && strstr(json, "\"live_bytes\":"));
    CHECK(mh_statistics_json(heap, small, sizeof small) >= sizeof small && strlen(small) == sizeof small - 1);
    unsigned long long first = 0;
    CHECK(mh_statistics(heap, (void *)&first, sizeof first) == sizeof first && first > 0);
    CHECK(strstr(json, "\"pinned_objects\":0") && strstr(json, "\"refused_forks\":0"));
    pins(heap);
    CHECK(meshed_with_pins(1) == 0 && meshed_with_pins(0) > 0);
    leaks();
    malloc_has_figures();
    mh_set_mapping_budget(heap, 0);
    mh_purge(heap);
    mh_destroy(heap);
    mh_destroy(other);
    mh_destroy(NULL);
    return puts("ok") < 0;
}
