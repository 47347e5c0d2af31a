/* What the programs of this folder have in common: checks that print where they failed, without malloc. */
#ifndef CHECK_H
#define CHECK_H
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            char line[300];                                                                                            \
            int length = snprintf(line, sizeof line, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            if (write(1, line, length) < 0) {                                                                          \
            }                                                                                                          \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#endif
