/* A heap that fills, empties, is meshed and given back while the system refuses calls or room: its objects stay whole.

       refused call NUMBER ERRNO THREADS    the system call fails so from now on, in a process with so many more threads
       refused room MIB                     prints how many MiB of objects of 1,000 bytes there is room for, at the most so many
       refused stack                        threads have the smallest stacks that there are */
#include "check.h"
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { OBJECTS = 40000, SURVIVES = 8 };

static unsigned char *objects[OBJECTS];

static void refuse(int call, int error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        puts("SKIPPED: no filters for system calls");
        exit(0);
    }
}

static void is_whole(int at) {
    for (int byte = 0; byte < 64; byte++)
        CHECK(objects[at][byte] == at % 251);
}

static void fill_and_empty(void) {
    for (int at = 0; at < OBJECTS; at++) {
        CHECK((objects[at] = malloc(64 + at % 200)));
        memset(objects[at], at % 251, 64);
    }
    for (int at = 0; at < OBJECTS; at++)
        if (at % SURVIVES) {
            free(objects[at]);
            objects[at] = NULL;
        }
    malloc_trim(0);
    for (int at = 0; at < OBJECTS; at += SURVIVES) {
        is_whole(at);
        objects[at][0] = at % 251;
        free(objects[at]);
    }
}

static void *wait_for_ever(void *nothing) {
    for (;;)
        pause();
    return nothing;
}

static void room(size_t most) {
    size_t mib = 0;
    for (; mib < most; mib++)
        for (int count = 0; count < 1024; count++) {
            char *object = malloc(1000);
            if (!object) {
                printf("%zu\n", mib);
                exit(0);
            }
            memset(object, 1, 1000);
        }
    printf("%zu\n", mib);
}

static void *use_sparse_heap(void *nothing) {
    for (int turn = 0; turn < 20; turn++) {
        free(realloc(calloc(1, 5000), 70000));
        malloc_trim(0);
    }
    return nothing;
}

static void small_stacks(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) == 0);
    for (int at = 0; at < OBJECTS; at++)
        CHECK((objects[at] = calloc(1, 900)));
    for (int at = 0; at < OBJECTS; at++)
        if (at % SURVIVES)
            free(objects[at]);
    for (int turn = 0; turn < 100; turn++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, use_sparse_heap, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    puts("ok");
}

int main(int count, char **words) {
    CHECK(count >= 2);
    if (!strcmp(words[1], "stack")) {
        small_stacks();
        return 0;
    }
    CHECK(count >= 3);
    if (!strcmp(words[1], "room")) {
        room(strtoul(words[2], NULL, 10));
        return 0;
    }
    pthread_t thread;
    for (int threads = atoi(words[4]); threads > 0; threads--)
        CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    free(malloc(1));
    refuse(atoi(words[2]), atoi(words[3]));
    fill_and_empty();
    fill_and_empty();
    puts("ok");
    return 0;
}
