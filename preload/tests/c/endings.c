/* Threads that end in unusual ways, one by argument: the heap must be none the worse for it. */
#include "check.h"
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { OBJECTS = 300000, BYTES = 128, KEPT = 8 };
static void *objects[OBJECTS];

/* A heap that holds much more than is in use. */
static void fill_sparsely(void) {
    for (int at = 0; at < OBJECTS; at++)
        CHECK(objects[at] = memset(malloc(BYTES), 1, BYTES));
    for (int at = 0; at < OBJECTS; at++)
        if (at * 2654435761u % KEPT) {
            free(objects[at]);
            objects[at] = NULL;
        }
}

static void empty(void) {
    for (int at = 0; at < OBJECTS; at++) {
        free(objects[at]);
        objects[at] = NULL;
    }
}

static void needs_every_lock(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int size = 1; size < 10000000; size += size / 2 + 1)
        free(memset(malloc(size), 1, size));
    malloc_trim(0);
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What the slow paths do, meshing included if it is made in steps. None of it is a point of cancellation. */
static void *is_cancelled(void *result) {
    pthread_cancel(pthread_self());
    for (long end = milliseconds() + 500; milliseconds() < end;) {
        fill_sparsely();
        for (int round = 0; round < 300; round++)
            for (int size = 16; size < 100000; size += size / 4)
                free(calloc(1, size));
        void *grown = memset(malloc(3 << 20), 1, 3 << 20);
        void *behind = malloc(3 << 20);
        grown = realloc(grown, 9 << 20);
        CHECK(malloc_usable_size(grown) >= 9 << 20 && mallinfo2().uordblks > 0);
        malloc_trim(0);
        free(grown);
        free(behind);
        empty();
    }
    return result;
}

static void cancelled(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, is_cancelled, objects));
    void *result;
    pthread_join(thread, &result);
    CHECK(result == objects);
    needs_every_lock();
}

static int has_meshing_thread(void) {
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            found |= fgets(name, sizeof name, file) && !strcmp(name, "meshheap\n");
            fclose(file);
        }
    }
    closedir(tasks);
    return found;
}

/* Until the heap has a thread of its own, which it starts when somebody allocates. */
static void *is_the_last(void *unused) {
    fill_sparsely();
    while (!has_meshing_thread()) {
        void *large[64];
        for (int at = 0; at < 64; at++)
            large[at] = malloc(30000);
        for (int at = 0; at < 64; at++)
            free(large[at]);
        sched_yield();
    }
    return unused;
}

/* The process ends with the last thread of the program, also where that is not the main thread. */
static void last(void) {
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, is_the_last, NULL));
        pthread_detach(thread);
        pthread_exit(NULL);
    }
    alarm(100);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
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

static void *leaves_much_behind(void *unused) {
    static const int sizes[] = {16, 32, 48, 64, 96, 128, 256, 512};
    static __thread void *held[8][2000];
    for (int size = 0; size < 8; size++)
        for (int at = 0; at < 2000; at++)
            held[size][at] = malloc(sizes[size]);
    for (int size = 0; size < 8; size++)
        for (int at = 0; at < 2000; at++)
            free(held[size][at * 7 % 2000]);
    return unused;
}

/* A timer interrupts threads, sooner or later while they give back what they kept. */
static void destructors(void) {
    struct sigaction action = {.sa_handler = forks_in_handler, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    alarm(100);
    setitimer(ITIMER_PROF, &often, NULL);
    while (handled < 500) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, leaves_much_behind, NULL));
        pthread_join(thread, NULL);
    }
    setitimer(ITIMER_PROF, &never, NULL);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    if (!strcmp(arguments[1], "cancelled"))
        cancelled();
    else if (!strcmp(arguments[1], "last"))
        last();
    else if (!strcmp(arguments[1], "destructors"))
        destructors();
    else
        CHECK(!"a known ending");
    return 0;
}
