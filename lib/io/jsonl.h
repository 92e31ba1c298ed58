/* jsonl.h - JSON lines: one object per line, appended as a run goes, and read back for reports.
 *
 * Write:  gf_jsonl_open, then per line gf_jsonl_begin, gf_jsonl_number ..., gf_jsonl_end; flush or sync now and then; close.
 * Read:   gf_jsonl_read_open, while (gf_jsonl_next(&r)) gf_jsonl_get ...; then check r.status; gf_jsonl_read_close.
 *
 * The writer promises what appendlog.h promises: whole lines, failures that stick. Keys come in the order they are given, so
 * equal calls give equal bytes. JSON has no NaN or infinity: they are written as null, and null reads as NaN.
 */
#pragma once

#include <stdio.h>

#include "io/appendlog.h"
#include "io/json.h"

#define GF_JSONL_MAX_LINE ((size_t)1 << 20) /* longer lines are not read */

typedef struct gf_jsonl {
    gf_log log;
    int fields; /* of the line in the making */
} gf_jsonl;

/* keep: bytes of an earlier file to continue after (gf_jsonl_offset() at that time), 0 for a new one, GF_LOG_ALL for all whole
 * lines. E_FORMAT if the file is shorter or `keep` is not the end of a line; the file is then as it was. */
glofnd_status gf_jsonl_open(gf_error *err, gf_jsonl *j, const char *path, int64_t keep);
/* All lines are kept, and other processes may append at the same time (gf_log_open_shared). */
glofnd_status gf_jsonl_open_shared(gf_error *err, gf_jsonl *j, const char *path);

void gf_jsonl_begin(gf_jsonl *j); /* drops a line that was begun and not ended */
/* Keys and texts should be UTF-8: bytes that are not are written as U+FFFD. Keys must differ within a line. */
void gf_jsonl_number(gf_jsonl *j, const char *key, double x); /* the shortest of 15 to 17 digits that reads back as x */
void gf_jsonl_integer(gf_jsonl *j, const char *key, int64_t x);
void gf_jsonl_flag(gf_jsonl *j, const char *key, int yes);                       /* true, false */
void gf_jsonl_text(gf_jsonl *j, const char *key, const char *text);              /* NULL: null */
void gf_jsonl_numbers(gf_jsonl *j, const char *key, const double *x, int64_t n); /* an array */
void gf_jsonl_texts(gf_jsonl *j, const char *key, const char *const *text, int64_t n);
glofnd_status gf_jsonl_end(gf_jsonl *j);

glofnd_status gf_jsonl_flush(gf_jsonl *j);
glofnd_status gf_jsonl_sync(gf_jsonl *j);
uint64_t gf_jsonl_offset(const gf_jsonl *j); /* end of the last line; what to keep when resuming here */
glofnd_status gf_jsonl_close(gf_jsonl *j);   /* flushes; NULL, a zeroed and a closed one are fine */

/* ----- reading ----- */

typedef struct gf_jsonl_reader {
    gf_error *err;        /* borrowed until close */
    glofnd_status status; /* E_FORMAT names the line; GLOFND_OK so far, and at a proper end */
    const char *path;     /* borrowed until close */
    FILE *file;
    char *line;
    size_t capacity;
    gf_json object; /* of this line */
    int64_t number; /* of this line, from 1 */
    int cut;        /* 1 at the end: an unfinished last line was left out */
} gf_jsonl_reader;

glofnd_status gf_jsonl_read_open(gf_error *err, gf_jsonl_reader *r, const char *path);
int gf_jsonl_next(gf_jsonl_reader *r); /* 1: there is a line. 0: the end, or a failure in r->status */
/* 1 and *x if the line has a number (true and false: 1 and 0; null: NaN) under this key; else 0, and *x is unchanged. */
int gf_jsonl_get(const gf_jsonl_reader *r, const char *key, double *x);
int gf_jsonl_get_integer(const gf_jsonl_reader *r, const char *key, int64_t *x); /* only what is written without a point */
const char *gf_jsonl_get_text(const gf_jsonl_reader *r, const char *key); /* valid until the next line; NULL: no such text */
/* Calls `take` for every field of the line, by rising key, with its value as text: integers whole, other numbers in 10 digits,
 * strings as between the quotes, an array as "a, b" with its elements in rising order of their texts. 0: no memory. */
int gf_jsonl_each(const gf_jsonl_reader *r, void (*take)(void *user, const char *key, const char *value), void *user);
void gf_jsonl_read_close(gf_jsonl_reader *r); /* NULL, a zeroed and a closed one are fine */
