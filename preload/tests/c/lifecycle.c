/* Allocation at every moment of a process's life, one by argument. */
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

static void *early[50];

static void before_constructors(void) {
    free(NULL);
    for (int at = 0; at < 50; at++)
        early[at] = calloc(1, at * 100 + 1);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_constructors;

static void at_exit(void) {
    char *late = malloc(1000);
    memset(late, 1, 1000);
    free(late);
    for (int at = 0; at < 50; at++)
        free(early[at]);
}

static void work(unsigned seed) {
    void *objects[64] = {0};
    for (int round = 0; round < 300; round++) {
        seed = seed * 1103515245 + 12345;
        int at = seed >> 16 & 63;
        free(objects[at]);
        objects[at] = malloc(seed >> 8 & 2047);
        CHECK(objects[at]);
        *(char *)objects[at] = 1;
    }
    for (int at = 0; at < 64; at++)
        free(objects[at]);
}

static pthread_key_t keys[40];

static void late_destructor(void *value) {
    free(value);
    work(7);
}

static void *short_life(void *seed) {
    work((unsigned)(size_t)seed);
    for (int at = 0; at < 40; at += 13)
        pthread_setspecific(keys[at], malloc(100));
    return malloc(50);
}

static void threads(int groups, int size) {
    for (int at = 0; at < 40; at++)
        CHECK(!pthread_key_create(&keys[at], late_destructor));
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int group = 0; group < groups; group++) {
        pthread_t ids[16];
        for (int at = 0; at < size; at++)
            CHECK(!pthread_create(&ids[at], &small, short_life, (void *)(size_t)(group * 16 + at)));
        for (int at = 0; at < size; at++) {
            void *result;
            pthread_join(ids[at], &result);
            free(result);
        }
    }
    malloc_trim(0);
    CHECK(mallinfo2().arena < (8 << 20));
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *waits(void *seed) {
    work((unsigned)(size_t)seed);
    void *kept = malloc(100);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    free(kept);
    return NULL;
}

static void many_at_once(void) {
    enum { THREADS = 2000 };
    static pthread_t ids[THREADS];
    int made = 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_mutex_lock(&gate);
    while (made < THREADS && !pthread_create(&ids[made], &small, waits, (void *)(size_t)made))
        made++;
    pthread_mutex_unlock(&gate);
    for (int at = 0; at < made; at++)
        pthread_join(ids[at], NULL);
    CHECK(made > 100);
}

static int stop;

static void *keeps_busy(void *seed) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        work((unsigned)(size_t)seed);
    return NULL;
}

/* Of each thread, as two may fork at once. */
static __thread void *handlers_object;
static void handler(void) {
    free(handlers_object);
    /* Of its own pages, and of sizes that no vector holds. */
    for (int size = 1; size < 200000; size *= 3)
        free(calloc(1, size));
    handlers_object = malloc(3000);
}

static void one_fork(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        work(5);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *forks_too(void *unused) {
    for (int round = 0; round < 30; round++)
        one_fork();
    return unused;
}

static void forks(void) {
    pthread_atfork(handler, handler, handler);
    pthread_t busy[3], other;
    for (long at = 0; at < 3; at++)
        pthread_create(&busy[at], NULL, keeps_busy, (void *)at);
    pthread_create(&other, NULL, forks_too, NULL);
    forks_too(NULL);
    pthread_join(other, NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int at = 0; at < 3; at++)
        pthread_join(busy[at], NULL);
}

__attribute__((constructor)) static void registers_early(void) {
    /* Before the heap's handlers, if nobody has allocated yet. */
    if (getenv("ATFORK_EARLY"))
        pthread_atfork(handler, handler, handler);
}

static volatile int handled;

static void forks_in_handler(int signal) {
    (void)signal;
    pid_t child = fork();
    if (!child)
        _exit(0);
    waitpid(child, NULL, 0);
    handled++;
}

/* A timer interrupts the program in the middle of malloc and free, sooner or later inside their locks. */
static void signals(void) {
    struct sigaction action = {.sa_handler = forks_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGVTALRM, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    static void *objects[3000];
    unsigned random = 1;
    while (handled < 200) {
        random = random * 1103515245 + 12345;
        int at = (random >> 16) % 3000;
        free(objects[at]);
        objects[at] = malloc((random >> 8) % 60000);
    }
    setitimer(ITIMER_VIRTUAL, &never, NULL);
}

static void opens_a_library(void) {
    void *math = dlopen("libm.so.6", RTLD_NOW);
    CHECK(math && dlsym(math, "cos"));
    dlclose(math);
    CHECK(!dlopen("no-such-library.so", RTLD_NOW) && dlerror());
}

static void closed_streams(void) {
    for (int fd = 0; fd < 100; fd++)
        close(fd);
    work(3);
    malloc_stats();
    void *large = malloc(100 << 20);
    CHECK(large);
    free(large);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    for (int at = 0; at < 50; at++)
        CHECK(early[at] && malloc_usable_size(early[at]) >= (size_t)at * 100 + 1);
    atexit(at_exit);
    const char *what = arguments[1];
    if (!strcmp(what, "threads"))
        threads(625, 16);
    else if (!strcmp(what, "many"))
        many_at_once();
    else if (!strcmp(what, "forks"))
        forks();
    else if (!strcmp(what, "signals"))
        signals();
    else if (!strcmp(what, "dlopen"))
        opens_a_library();
    else if (!strcmp(what, "closed"))
        closed_streams();
    else
        CHECK(!"a known moment");
    return 0;
}
