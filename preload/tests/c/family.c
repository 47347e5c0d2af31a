/* The malloc family, clause by clause. */
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Weak, as the C library may not have them. */
void cfree(void *) __attribute__((weak));
void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

/* Volatile, so that the compiler neither warns of these sizes nor decides by itself. */
static volatile size_t zero = 0, beyond = (size_t)PTRDIFF_MAX + 1, most = SIZE_MAX;

static int aligned_to(void *object, size_t align) { return (uintptr_t)object % align == 0; }

static int all_bytes(const unsigned char *bytes, size_t count, int value) {
    for (size_t at = 0; at < count; at++)
        if (bytes[at] != value)
            return 0;
    return 1;
}

static void sizes_and_alignment(void) {
    for (size_t size = 0; size < 70000; size += size / 7 + 1) {
        unsigned char *object = malloc(size);
        CHECK(object && aligned_to(object, 16));
        CHECK(malloc_usable_size(object) >= size);
        memset(object, 0xa5, malloc_usable_size(object));
        free(object);
    }
    void *one = malloc(zero), *other = malloc(zero);
    CHECK(one && other && one != other);
    free(one);
    free(other);
}

static void too_large(void) {
    size_t sizes[] = {beyond, most, most - 15, most - 4096, (size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX - 4096};
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        errno = 0;
        CHECK(!malloc(sizes[at]) && errno == ENOMEM);
        errno = 0;
        CHECK(!calloc(1, sizes[at]) && errno == ENOMEM);
        errno = 0;
        CHECK(!memalign(64, sizes[at]) && errno == ENOMEM);
        errno = 0;
        CHECK(!valloc(sizes[at]) && errno == ENOMEM);
        errno = 0;
        CHECK(!pvalloc(sizes[at]) && errno == ENOMEM);
        char *kept = malloc(10);
        strcpy(kept, "kept");
        errno = 0;
        CHECK(!realloc(kept, sizes[at]) && errno == ENOMEM && !strcmp(kept, "kept"));
        free(kept);
    }
    errno = 0;
    CHECK(!calloc(most / 2, 3) && errno == ENOMEM);
    char *kept = malloc(10);
    errno = 0;
    CHECK(!reallocarray(kept, most / 2, 3) && errno == ENOMEM);
    free(kept);
}

static void zeroed(void) {
    for (int round = 0; round < 3; round++)
        for (size_t size = 1; size < 400000; size += size / 3 + 1) {
            unsigned char *dirty = malloc(size);
            memset(dirty, 0xff, size);
            free(dirty);
            unsigned char *clean = calloc(size, 1);
            CHECK(clean && all_bytes(clean, size, 0));
            memset(clean, 0xff, size);
            free(clean);
        }
    void *none = calloc(zero, 8), *also_none = calloc(8, zero);
    CHECK(none && also_none && none != also_none);
    free(none);
    free(also_none);
}

static void resizing(void) {
    void *fresh = realloc(NULL, zero);
    CHECK(fresh);
    CHECK(!realloc(fresh, zero));
    unsigned char *object = NULL;
    size_t sizes[] = {1, 17, 16, 4000, 33000, 900000, 3000000, 2900000, 70000, 33000, 900, 30, 1};
    size_t before = 0;
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        size_t kept = before < sizes[at] ? before : sizes[at];
        object = realloc(object, sizes[at]);
        CHECK(object && aligned_to(object, 16) && malloc_usable_size(object) >= sizes[at]);
        CHECK(all_bytes(object, kept, 0x3c));
        memset(object, 0x3c, sizes[at]);
        before = sizes[at];
    }
    free(object);
    /* An object with an alignment of its own is resized like any other. */
    for (size_t align = 16; align <= 65536; align *= 2) {
        char *aligned = memalign(align, 100);
        memset(aligned, 'x', 100);
        aligned = realloc(aligned, 50000);
        CHECK(aligned && all_bytes((unsigned char *)aligned, 100, 'x'));
        aligned = realloc(aligned, 5);
        CHECK(aligned && all_bytes((unsigned char *)aligned, 5, 'x'));
        free(aligned);
    }
    void *array = reallocarray(NULL, 100, 7);
    CHECK(array && malloc_usable_size(array) >= 700);
    free(array);
}

static void aligned(void) {
    for (size_t align = 8; align <= (4 << 20); align *= 2)
        for (size_t size = 0; size < 100000; size = size * 3 + 5) {
            void *object = NULL;
            errno = 77;
            CHECK(!posix_memalign(&object, align, size) && object && aligned_to(object, align) && errno == 77);
            CHECK(malloc_usable_size(object) >= size);
            memset(object, 1, size);
            free(object);
            object = aligned_alloc(align, size);
            CHECK(object && aligned_to(object, align));
            free_aligned_sized(object, align, size);
            object = memalign(align + 1, size);
            CHECK(object && aligned_to(object, 2 * align));
            free_sized(object, size);
        }
    void *mark = &mark, *place = mark;
    errno = 77;
    CHECK(posix_memalign(&place, 24, 1) == EINVAL && place == mark && errno == 77);
    CHECK(posix_memalign(&place, 4, 1) == EINVAL && posix_memalign(&place, zero, 1) == EINVAL && place == mark);
    CHECK(posix_memalign(&place, 64, beyond) == ENOMEM && place == mark && errno == 77);
    errno = 0;
    CHECK(!aligned_alloc(24, 24) && errno == EINVAL);
    errno = 0;
    CHECK(!aligned_alloc(zero, 24) && errno == EINVAL);
    errno = 0;
    CHECK(!memalign(beyond + 1, 24) && errno == EINVAL);
    errno = 0;
    CHECK(!memalign(beyond / 2, 24) && errno == ENOMEM);
    size_t page = sysconf(_SC_PAGESIZE);
    void *pages = pvalloc(page + 1), *some = valloc(1), *odd = memalign(zero, 10);
    CHECK(aligned_to(pages, page) && malloc_usable_size(pages) >= 2 * page && aligned_to(some, page) && odd);
    free(pages);
    free(some);
    cfree(odd);
}

static void errno_is_kept(void) {
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    void *objects[3000];
    for (size_t at = 0; at < 3000; at++)
        objects[at] = malloc(at * 97);
    errno = 77;
    for (size_t at = 0; at < 3000; at++)
        free(objects[at]);
    CHECK(errno == 77);
}

static void figures(void) {
    char *large = malloc(50 << 20);
    memset(large, 1, 50 << 20);
    struct mallinfo2 with = mallinfo2();
    CHECK(with.uordblks >= (50 << 20) && with.arena >= with.uordblks && with.arena == with.uordblks + with.fordblks);
    CHECK((size_t)mallinfo().uordblks == mallinfo2().uordblks);
    free(large);
    struct mallinfo2 without = mallinfo2();
    CHECK(without.uordblks + (49 << 20) < with.uordblks);
    malloc_trim(0);
    CHECK(mallinfo2().arena + (40 << 20) < with.arena);
    CHECK(mallinfo2().keepcost == 0);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(12345, 0) == 0);
    char text[1000] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK(malloc_info(0, stream) == 0 && malloc_info(1, stream) == EINVAL);
    fclose(stream);
    CHECK(!strncmp(text, "<malloc version=\"1\">", 20) && strstr(text, "</malloc>"));
}

int main(void) {
    sizes_and_alignment();
    too_large();
    zeroed();
    resizing();
    aligned();
    errno_is_kept();
    figures();
    return puts("ok") < 0;
}
