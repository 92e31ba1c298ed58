/* die.c - see die.h. */
#include "support/die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void expect_ok(const glofnd_ctx *c, glofnd_status status, const char *what) {
    if (status == GLOFND_OK) return;
    die("%s: %s: %s", what, glofnd_status_text(status), c ? glofnd_ctx_error(c) : "");
}
