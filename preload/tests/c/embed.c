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
    mh_set_mapping_budget(heap, 0);
    mh_purge(heap);
    mh_destroy(heap);
    mh_destroy(other);
    mh_destroy(NULL);
    return puts("ok") < 0;
}
