/* scratch.h - a temporary folder for tests: files written into it, all of it removed at the end. `box` is the one that the tests
 * of a program share: cmocka_run_group_tests(tests, make_box, remove_box).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct scratch {
    char folder[64];
} scratch;

extern scratch box;
int make_box(void **state);
int remove_box(void **state);
int remove_empty_box(void **state);    /* fails, and so tells, if a test left a file behind */
const char *path_of(const char *name); /* scratch_path of the box */

int scratch_make(scratch *s); /* 0: done */
int scratch_remove(scratch *s);
/* FOLDER/name; stays valid for three more calls by anyone. */
const char *scratch_path(scratch *s, const char *name);
/* Writes a file, and makes the folders its name goes through. */
void scratch_write(scratch *s, const char *name, const void *bytes, size_t n);
void scratch_text(scratch *s, const char *name, const char *text);
/* A PNG of size x size pixels, all of one gray. */
void scratch_png(scratch *s, const char *name, int size, uint8_t gray);
