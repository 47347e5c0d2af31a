/* Wrong pointers, one kind by argument. What comes after "went on" shows that nothing was broken. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

static char *volatile object;

static void wrong(const char *kind) {
    char local[64];
    if (!strcmp(kind, "double")) {
        free(object);
        free(object);
    } else if (!strcmp(kind, "double-later")) {
        char *volatile others[100];
        for (int at = 0; at < 100; at++)
            others[at] = malloc(100);
        free(object);
        for (int at = 0; at < 100; at++)
            free(others[at]);
        free(object);
    } else if (!strcmp(kind, "double-large")) {
        object = malloc(1 << 20);
        free(object);
        free(object);
    } else if (!strcmp(kind, "interior")) {
        free(object + 16);
    } else if (!strcmp(kind, "interior-large")) {
        object = malloc(1 << 20);
        free(object + 8192);
    } else if (!strcmp(kind, "odd")) {
        free(object + 1);
    } else if (!strcmp(kind, "stack")) {
        char *volatile place = local + 16;
        free(place);
    } else if (!strcmp(kind, "wild")) {
        free((void *)0x123456789abcdef0);
    } else if (!strcmp(kind, "realloc-freed")) {
        free(object);
        char *volatile moved = realloc(object, 5000);
        CHECK(!moved);
    } else if (!strcmp(kind, "realloc-stack")) {
        char *volatile place = local + 16, *volatile moved = realloc(place, 5000);
        CHECK(!moved);
    } else {
        CHECK(!"a known kind");
    }
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    object = malloc(100);
    wrong(arguments[1]);
    puts("went on");
    /* Every object that is handed out now is its own. */
    enum { OBJECTS = 2000 };
    static unsigned char *objects[OBJECTS];
    for (int at = 0; at < OBJECTS; at++) {
        objects[at] = malloc(100);
        memset(objects[at], at % 251, 100);
    }
    for (int at = 0; at < OBJECTS; at++)
        CHECK(objects[at][0] == at % 251 && objects[at][99] == at % 251);
    puts("intact");
    return 0;
}
