/* table_files.c - see table_files.h. */
#include "discover/table_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/calls.h"
#include "io/json/jsonl.h"
#include "util/grow.h"
#include "util/minmax.h"
#include "util/parallel.h"
#include "util/strings/number_text.h"

/* ----- lines ----- */

/* Place for n more bytes; NULL: no memory. */
static inline char *reserve(gf_lines *l, size_t n) {
    if (l->capacity - l->used < n && !l->failed) l->failed = !gf_grow(&l->at, &l->capacity, l->used + n, 1);
    return l->failed ? NULL : l->at + l->used;
}

void gf_lines_bytes(gf_lines *l, const char *bytes, size_t n) {
    char *p = reserve(l, n);
    if (!p) return;
    memcpy(p, bytes, n);
    l->used += n;
}

void gf_lines_text(gf_lines *l, const char *text) { gf_lines_bytes(l, text, strlen(text)); }

void gf_lines_integer(gf_lines *l, int64_t x) {
    char *p = reserve(l, GF_INTEGER_BYTES);
    if (p) l->used += gf_integer_text(p, x);
}

void gf_lines_fixed(gf_lines *l, double x) {
    char *p = reserve(l, GF_FIXED_BYTES);
    if (p) l->used += gf_fixed_text(p, x);
}

void gf_lines_number(gf_lines *l, double x) {
    char *p = reserve(l, GF_NUMBER_BYTES);
    if (p) l->used += gf_number_text(p, x);
}

void gf_lines_quoted(gf_lines *l, const char *text) {
    GF_LINES_PUT(l, "\"");
    while (*text) {
        char *p = reserve(l, GF_JSONL_CHARACTER);
        if (!p) return;
        l->used += gf_jsonl_character(&text, p);
    }
    GF_LINES_PUT(l, "\"");
}

/* ----- files ----- */

typedef struct output {
    int fd;    /* -1: no file */
    int error; /* errno of the failed call */
    char path[PATH_MAX];
} output;

static void put(output *s, const char *bytes, size_t n) {
    while (n > 0 && s->fd >= 0 && !s->error) {
        const ssize_t done = write(s->fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) s->error = done < 0 ? errno : ENOSPC;
        else bytes += done, n -= (size_t)done;
    }
}

static glofnd_status check(gf_error *err, const output *s) {
    FAIL_IF(err, s->error, GLOFND_E_IO, "'%.300s' cannot be written: %s", s->path, strerror(s->error));
    return GLOFND_OK;
}

static glofnd_status open_output(gf_error *err, const gf_output_folder *to, const char *name, const char *heading, output *s) {
    if (!name) return GLOFND_OK;
    TRY(gf_output_folder_path(err, to, name, s->path));
    s->fd = gf_open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0) s->error = errno;
    if (heading) {
        put(s, heading, strlen(heading));
        put(s, "\n", 1);
    }
    return check(err, s);
}

static void close_output(output *s) {
    if (s->fd >= 0 && gf_close(s->fd) != 0 && !s->error) s->error = errno;
    s->fd = -1;
}

/* ----- waves of blocks: one is formatted while the one before is written ----- */

enum { PER_THREAD = 4 }; /* blocks of a wave: enough to keep all threads busy */

typedef gf_lines block[GF_TABLE_FILES_MAX];

typedef struct writer {
    const gf_table_files *t;
    output file[GF_TABLE_FILES_MAX];
    int64_t wave;               /* blocks of a wave */
    int64_t first, made, ready; /* current wave: first block, number of blocks; blocks of the previous wave */
    block *making, *done;       /* [wave] */
} writer;

/* Tasks 0 .. GF_TABLE_FILES_MAX - 1 write one file each, the others format one block each. */
static void work(void *arg, int64_t task, int thread) {
    writer *p = arg;
    (void)thread;
    if (task < GF_TABLE_FILES_MAX) {
        for (int64_t b = 0; b < p->ready; b++) put(&p->file[task], p->done[b][task].at, p->done[b][task].used);
        return;
    }
    const int64_t b = task - GF_TABLE_FILES_MAX, from = (p->first + b) * p->t->block, left = p->t->items - from;
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) p->making[b][f].used = 0;
    p->t->fill(p->t->arg, from, from + GF_MIN(left, p->t->block), p->making[b]);
}

static glofnd_status check_wave(gf_error *err, const writer *p) {
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) TRY(check(err, &p->file[f]));
    for (int64_t b = 0; b < p->made; b++)
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++)
            FAIL_IF(err, p->making[b][f].failed, GLOFND_E_MEMORY, "no memory for lines of '%.300s'", p->file[f].path);
    FAIL_IF(err, p->t->watch && gf_job_stopped(p->t->watch), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

static glofnd_status write_waves(gf_error *err, writer *p) {
    const int64_t blocks = (p->t->items + p->t->block - 1) / p->t->block;
    for (p->first = 0; p->first < blocks || p->ready > 0; p->first += p->made) {
        p->made = blocks - p->first < p->wave ? blocks - p->first : p->wave;
        gf_parallel(p->t->threads, GF_TABLE_FILES_MAX + p->made, work, p);
        TRY(check_wave(err, p));
        block *const written = p->done;
        p->done = p->making, p->ready = p->made, p->making = written;
    }
    return GLOFND_OK;
}

static void free_wave(block *b, int64_t n) {
    for (int64_t i = 0; b && i < n; i++)
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++) free(b[i][f].at);
    free(b);
}

glofnd_status gf_table_files_write(gf_error *err, const gf_output_folder *to, const gf_table_files *t) {
    writer p = {.t = t, .wave = (int64_t)PER_THREAD * GF_MAX(t->threads, 1)};
    glofnd_status status = GLOFND_OK;
    p.making = calloc((size_t)p.wave, sizeof *p.making);
    p.done = calloc((size_t)p.wave, sizeof *p.done);
    if (!p.making || !p.done) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for lines");
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) p.file[f].fd = -1;
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++)
        status = open_output(err, to, t->name[f], t->heading[f], &p.file[f]);
    if (status == GLOFND_OK) status = write_waves(err, &p);
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) close_output(&p.file[f]);
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) status = check(err, &p.file[f]);
    free_wave(p.making, p.wave);
    free_wave(p.done, p.wave);
    return status;
}
