/* message.h - how the replay program reports trouble: the exit status it will end with, and a text. */
#pragma once

#include <stddef.h>

enum {
    REPLAY_OK = 0,
    REPLAY_MISMATCH = 1,  /* the library disagrees, or one of its calls failed */
    REPLAY_UNREADABLE = 2 /* wrong usage, or a folder that is incomplete or not of the format */
};

typedef struct message {
    char text[1024];
} message;

/* Writes the text and returns `code`. */
int say(message *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define SAY_IF(m, cond, code, ...)                      \
    do {                                                \
        if (cond) return say((m), (code), __VA_ARGS__); \
    } while (0)
#define PASS(expr)                                      \
    do {                                                \
        const int pass_code_ = (expr);                  \
        if (pass_code_ != REPLAY_OK) return pass_code_; \
    } while (0)

/* Zeroed memory; a test program may give up when there is none. */
void *grab(size_t count, size_t size);
