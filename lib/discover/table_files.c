/* table_files.c - see table_files.h. */
#include "discover/table_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/calls.h"
#include "io/jsonl.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/text.h"

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
        char *p = reserve(l, GF_JSON_CHARACTER);
        if (!p) return;
        l->used += gf_json_character(&text, p);
    }
    GF_LINES_PUT(l, "\"");
}

void gf_lines_escaped(gf_lines *l, const char *text) {
    while (*text) {
        size_t plain = 0;
        while (text[plain] >= ' ' && text[plain] < 0x7f && text[plain] != '\\') plain++;
        gf_lines_bytes(l, text, plain);
        text += plain;
        char *p = *text ? reserve(l, GF_ESCAPED_BYTES) : NULL;
        if (!p) return;
        l->used += gf_escape_next(&text, 0, p);
    }
}

/* ----- cells ----- */

const char *gf_table_ending(gf_table_format format) { return format == GF_TABLE_PARQUET ? ".parquet" : ".tsv"; }

void gf_table_columns_add(gf_table_columns *c, gf_column_kind kind, const char *names) {
    while (*names && c->count < GF_TABLE_COLUMNS_MAX) {
        const size_t n = strcspn(names, " "), some = GF_MIN(n, (size_t)GF_COLUMN_NAME - 1);
        gf_table_column *to = &c->at[c->count++];
        memcpy(to->name, names, some);
        to->name[some] = 0;
        to->kind = kind;
        names += n + (names[n] == ' ');
    }
}

/* The buffer of the next cell in a Parquet file; of a TSV the tab before it, and NULL. */
static gf_byte_buffer *next_cell(gf_lines *l) {
    const int c = l->next++;
    if (l->cells) return &l->cells[c];
    if (c > 0) GF_LINES_PUT(l, "\t");
    return NULL;
}

void gf_cell_integer(gf_lines *l, int64_t x) {
    const int32_t small = (int32_t)x;
    gf_byte_buffer *b = next_cell(l);
    if (!b) gf_lines_integer(l, x);
    else if (l->columns->at[l->next - 1].kind == GF_COLUMN_INT32) gf_byte_buffer_add(b, &small, sizeof small);
    else gf_byte_buffer_add(b, &x, sizeof x);
}

void gf_cell_real(gf_lines *l, double x) {
    const float small = (float)x;
    gf_byte_buffer *b = next_cell(l);
    if (b) gf_byte_buffer_add(b, &small, sizeof small);
    else if (isnan(x)) GF_LINES_PUT(l, "nan");
    else gf_lines_fixed(l, round(x * 1e8) / 1e8);
}

void gf_cell_flag(gf_lines *l, int x) {
    const uint8_t flag = x != 0;
    gf_byte_buffer *b = next_cell(l);
    if (b) gf_byte_buffer_add(b, &flag, 1);
    else gf_lines_text(l, flag ? "1" : "0");
}

void gf_cell_text(gf_lines *l, const char *text) {
    gf_byte_buffer *b = next_cell(l);
    if (!b) {
        gf_lines_escaped(l, text);
        return;
    }
    uint32_t n = 0;
    char one[GF_ESCAPED_BYTES];
    for (const char *at = text; *at;) n += (uint32_t)gf_escape_next(&at, 1, one);
    gf_byte_buffer_add(b, &n, sizeof n);
    for (const char *at = text; *at;) gf_byte_buffer_add(b, one, gf_escape_next(&at, 1, one));
}

void gf_row_end(gf_lines *l) {
    if (!l->cells) GF_LINES_PUT(l, "\n");
    l->next = 0;
    l->rows++;
}

/* ----- files ----- */

typedef struct output {
    int fd;    /* -1: no file */
    int error; /* errno of the failed call */
    int parquet;
    gf_parquet_out table;
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
    FAIL_IF(err, s->table.failed, GLOFND_E_MEMORY, "'%.300s' cannot be written: %s", s->path, s->table.failed);
    return GLOFND_OK;
}

static void put_bytes(void *user, const void *bytes, size_t n) { put(user, bytes, n); }

static void put_heading(output *s, const gf_table_columns *c) {
    for (int i = 0; i < c->count; i++) {
        put(s, c->at[i].name, strlen(c->at[i].name));
        put(s, i + 1 < c->count ? "\t" : "\n", 1);
    }
}

static glofnd_status open_output(gf_error *err, const gf_output_folder *to, const gf_table_files *t, int f, output *s) {
    char name[64];
    const gf_table_columns *c = t->columns[f];
    if (!t->name[f]) return GLOFND_OK;
    s->parquet = c && t->format == GF_TABLE_PARQUET;
    snprintf(name, sizeof name, "%.40s%s", t->name[f], c ? gf_table_ending(t->format) : "");
    TRY(gf_output_folder_path(err, to, name, s->path));
    s->fd = gf_open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0) s->error = errno;
    if (s->parquet) gf_parquet_out_begin(&s->table, c->at, c->count, put_bytes, s);
    else if (c) put_heading(s, c);
    return check(err, s);
}

static void close_output(output *s) {
    if (s->fd >= 0 && gf_close(s->fd) != 0 && !s->error) s->error = errno;
    s->fd = -1;
    gf_parquet_out_free(&s->table);
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

static void write_block(output *s, const gf_lines *l) {
    if (s->parquet) gf_parquet_out_add(&s->table, l->rows, l->cells);
    else put(s, l->at, l->used);
}

/* Tasks 0 .. GF_TABLE_FILES_MAX - 1 write one file each, the others format one block each. */
static void work(void *arg, int64_t task, int thread) {
    writer *p = arg;
    (void)thread;
    if (task < GF_TABLE_FILES_MAX) {
        for (int64_t b = 0; b < p->ready; b++) write_block(&p->file[task], &p->done[b][task]);
        return;
    }
    const int64_t b = task - GF_TABLE_FILES_MAX, from = (p->first + b) * p->t->block, left = p->t->items - from;
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
        gf_lines *l = &p->making[b][f];
        l->used = 0, l->rows = 0;
        for (int c = 0; l->cells && c < l->columns->count; c++) l->cells[c].used = 0;
    }
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
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
            const gf_lines *l = &b[i][f];
            for (int c = 0; l->cells && c < l->columns->count; c++) gf_byte_buffer_free(&l->cells[c]);
            free(l->cells);
            free(l->at);
        }
    free(b);
}

/* The blocks of a wave, empty. */
static glofnd_status make_wave(gf_error *err, const writer *p, block **out) {
    block *b = *out = calloc((size_t)p->wave, sizeof *b);
    FAIL_IF(err, !b, GLOFND_E_MEMORY, "no memory for lines");
    for (int64_t i = 0; i < p->wave; i++)
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
            gf_lines *l = &b[i][f];
            l->columns = p->t->columns[f];
            if (!p->t->name[f] || !l->columns || p->t->format != GF_TABLE_PARQUET) continue;
            l->cells = calloc((size_t)l->columns->count, sizeof *l->cells);
            FAIL_IF(err, !l->cells, GLOFND_E_MEMORY, "no memory for cells");
        }
    return GLOFND_OK;
}

glofnd_status gf_table_files_write(gf_error *err, const gf_output_folder *to, const gf_table_files *t) {
    writer p = {.t = t, .wave = (int64_t)PER_THREAD * GF_MAX(t->threads, 1)};
    glofnd_status status = make_wave(err, &p, &p.making);
    if (status == GLOFND_OK) status = make_wave(err, &p, &p.done);
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) p.file[f].fd = -1;
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) status = open_output(err, to, t, f, &p.file[f]);
    if (status == GLOFND_OK) status = write_waves(err, &p);
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) {
        if (p.file[f].parquet) gf_parquet_out_end(&p.file[f].table);
        status = check(err, &p.file[f]);
    }
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) close_output(&p.file[f]);
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) status = check(err, &p.file[f]);
    free_wave(p.making, p.wave);
    free_wave(p.done, p.wave);
    return status;
}
