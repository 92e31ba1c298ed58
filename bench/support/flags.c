/* flags.c - see flags.h. */
#include "support/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void flag_misused(const char *program, const char *flag, const char *text) {
    fprintf(stderr, "%s: %s: %s; --help says more\n", program, flag, text);
    exit(2);
}

int flag_number(const char *program, int argc, char **argv, int *i, int low, int high) {
    char *end;
    const char *flag = argv[*i];
    if (*i + 1 >= argc) flag_misused(program, flag, "needs a value");
    errno = 0;
    const long x = strtol(argv[++*i], &end, 10);
    if (end == argv[*i] || *end != '\0' || errno != 0 || x < low || x > high)
        flag_misused(program, flag, "not a number, or out of range");
    return (int)x;
}
