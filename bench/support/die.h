/* die.h - how a benchmark gives up: a message on stderr and exit status 1. Not for library code. */
#pragma once

#include "glofnd.h"

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Dies with the context's message unless status is GLOFND_OK. */
void expect_ok(const glofnd_ctx *c, glofnd_status status, const char *what);
