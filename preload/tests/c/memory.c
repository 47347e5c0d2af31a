/* Takes memory in a way that the first argument names, and prints how many KiB the process holds for it. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MOST = 1000000 };

static void *objects[MOST];

/* The sum of two figures that the system has of the process. */
static long figures(const char *one, const char *other) {
    static char text[1 << 12];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file);
    long total = 0;
    while (fgets(text, sizeof text, file))
        if (!strncmp(text, one, strlen(one)) || !strncmp(text, other, strlen(other)))
            total += atol(strchr(text, ':') + 1);
    fclose(file);
    return total;
}

/* Anonymous and shared memory, each page's share: an aliased page counts once. */
static long held_kib(void) { return figures("Pss_Anon:", "Pss_Shmem:"); }

static unsigned next_random(void) {
    static unsigned long long state = 1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}

static void *filled(size_t size) {
    char *object = malloc(size);
    CHECK(object);
    return memset(object, 1, size);
}

static void aligned(size_t align, size_t size) {
    for (int at = 0; at < MOST; at++) {
        CHECK(!posix_memalign(&objects[at], align, size));
        memset(objects[at], 1, size);
    }
}

static void of_size(size_t size) {
    for (size_t at = 0; at < MOST && at < ((size_t)200 << 20) / size; at++)
        objects[at] = filled(size);
}

/* A heap that is full, loses some objects and gets as many new ones: in percent of what it held before. */
static long refilled(size_t size) {
    long before = held_kib();
    int count = (48 << 20) / size;
    for (int at = 0; at < count; at++)
        objects[at] = filled(size);
    long full = held_kib() - before;
    for (int turn = 0; turn < 5; turn++) {
        for (int at = 0; at < count; at++)
            if (next_random() % 100 < 15) {
                free(objects[at]);
                objects[at] = NULL;
            }
        for (int at = 0; at < count; at++)
            if (!objects[at])
                objects[at] = filled(size);
    }
    return 1000 * (held_kib() - before) / full;
}

/* Every sixteenth object stays: in percent of what all of them held, after the heap was told to give back what it can. */
static long sparse(size_t size) {
    long before = held_kib();
    int count = (64 << 20) / size;
    for (int at = 0; at < count; at++) {
        objects[at] = filled(size);
        memcpy(objects[at], &at, sizeof at);
    }
    long full = held_kib() - before;
    for (int at = 0; at < count; at++)
        if (at % 16)
            free(objects[at]);
    malloc_trim(0);
    long left = held_kib() - before;
    for (int at = 0; at < count; at += 16) {
        CHECK(!memcmp(objects[at], &at, sizeof at));
        CHECK(((char *)objects[at])[size - 1] == 1);
    }
    return 100 * left / full;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t arrived;

static void *lives(void *unused) {
    void *own[40];
    for (int at = 0; at < 40; at++)
        own[at] = filled(16 + at * 24);
    pthread_barrier_wait(&arrived);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    for (int at = 0; at < 40; at++)
        free(own[at]);
    return NULL;
}

/* Threads that allocate a little each and stay. */
static long threads(int count) {
    pthread_t *all = calloc(count, sizeof *all);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&arrived, NULL, count + 1);
    pthread_mutex_lock(&gate);
    for (int at = 0; at < count; at++)
        CHECK(!pthread_create(&all[at], &attributes, lives, NULL));
    pthread_barrier_wait(&arrived);
    long held = held_kib();
    pthread_mutex_unlock(&gate);
    for (int at = 0; at < count; at++)
        pthread_join(all[at], NULL);
    return held;
}

/* What a child of a full process holds for itself after it has allocated and freed a little. */
static long forked(size_t size) {
    int count = (64 << 20) / size < MOST ? (64 << 20) / size : MOST, results[2];
    for (int at = 0; at < count; at++)
        objects[at] = filled(size);
    for (int at = 0; at < count; at++)
        if (next_random() % 2) {
            free(objects[at]);
            objects[at] = NULL;
        }
    CHECK(!pipe(results));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int at = 0; at < 1000; at++)
            free(filled(16 + at % 900));
        long held = figures("Private_Dirty:", "Private_Clean:");
        CHECK(write(results[1], &held, sizeof held) == sizeof held);
        _exit(0);
    }
    long held;
    int status;
    CHECK(read(results[0], &held, sizeof held) == sizeof held && waitpid(child, &status, 0) == child && status == 0);
    return held;
}

static void *short_life(void *unused) {
    for (int at = 0; at < 40; at++)
        free(filled(16 + at * 24));
    return filled(100);
}

/* Threads that come and go, some of whose objects others free. */
static long short_threads(int count) {
    for (int at = 0; at < count; at++) {
        pthread_t thread;
        void *left;
        CHECK(!pthread_create(&thread, NULL, short_life, NULL) && !pthread_join(thread, &left));
        free(left);
    }
    return held_kib();
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    const char *way = arguments[1];
    long number = atol(arguments[2]), before = held_kib(), result = 0;
    if (!strcmp(way, "fresh"))
        result = before;
    else if (!strcmp(way, "aligned"))
        aligned(64, number);
    else if (!strcmp(way, "size"))
        of_size(number);
    else if (!strcmp(way, "refilled"))
        result = refilled(number);
    else if (!strcmp(way, "sparse"))
        result = sparse(number);
    else if (!strcmp(way, "threads"))
        result = threads(number);
    else if (!strcmp(way, "short-threads"))
        result = short_threads(number);
    else if (!strcmp(way, "forked"))
        result = forked(number);
    else
        CHECK(!"a way that is known");
    printf("%ld\n", result ? result : held_kib() - before);
    return 0;
}
