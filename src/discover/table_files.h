/* table_files.h - writes large tables: threads format blocks of lines while earlier blocks are written in order.
 *
 * Items are divided into blocks. The lines of a block go to its own buffers, one per file; so the bytes are the same for any
 * number of threads.
 */
#pragma once

#include "discover/output_folder.h"
#include "util/job_progress.h"

/* Growing text; out of memory sets `failed`, which the writer reports. */
typedef struct gf_lines {
    char *at;
    size_t used, capacity;
    int failed;
} gf_lines;

void gf_lines_bytes(gf_lines *l, const char *bytes, size_t n);
void gf_lines_text(gf_lines *l, const char *text);
void gf_lines_integer(gf_lines *l, int64_t x);
void gf_lines_fixed(gf_lines *l, double x);          /* 8 decimals */
void gf_lines_number(gf_lines *l, double x);         /* JSON, as gf_jsonl_number() */
void gf_lines_quoted(gf_lines *l, const char *text); /* JSON, as gf_jsonl_text() */
#define GF_LINES_PUT(l, literal) gf_lines_bytes(l, literal, sizeof literal - 1)

enum { GF_TABLE_FILES_MAX = 3 };

typedef struct gf_table_files {
    const char *name[GF_TABLE_FILES_MAX];    /* in the folder; NULL: no file, its lines are dropped */
    const char *heading[GF_TABLE_FILES_MAX]; /* first line; NULL: none */
    int64_t items, block;                    /* items of a block: enough for a few thousand lines */
    /* Lines of the items from <= i < to; out [GF_TABLE_FILES_MAX]. Called by several threads. */
    void (*fill)(const void *arg, int64_t from, int64_t to, gf_lines *out);
    const void *arg;
    int threads;
    const gf_job_progress *watch;
} gf_table_files;

/* E_IO, E_MEMORY, or E_ARGUMENT "stopped"; files may then be incomplete. */
glofnd_status gf_table_files_write(gf_error *err, const gf_output_folder *to, const gf_table_files *t);
