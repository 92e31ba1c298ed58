/* output_files.h - how the files of a result get to the disk: the folder, tables, .npz files.
 *
 * A folder of results is complete or absent: written under a temporary name beside its target, then given
 * the target's name; a result that it replaces is removed after that.
 *
 * With `force` only a folder that is empty or holds a recognised result is replaced, and of it only the files that results have;
 * files of the user in it stay. Temporary folders that a killed call has left are removed by the next call.
 */
#pragma once

#include <limits.h>
#include <stdio.h>

#include "io/parquet.h"
#include "util/parallel.h"
#include "util/status.h"

typedef struct gf_output_kind { /* how results look */
    const char *const *names;   /* files that a result may have, NULL at the end */
    int (*is_result)(const char *folder);
    const char *mark;   /* what tells, for messages */
    const char *folder; /* name of a folder of numbered files that a result may have, "x12.js" or "x12.jpg"; NULL: none */
} gf_output_kind;

typedef struct gf_output_folder {
    const gf_output_kind *kind;
    char *target, *temp; /* temp NULL: nothing to remove */
    int lock;            /* of temp: another call does not take it for a leftover; -1: none */
    int force;
} gf_output_folder;

/* Checks whether gf_output_folder_open() would succeed, before a long computation. E_IO: the folder cannot be made, or `target`
 * exists and force is 0, or with force it is neither empty nor a folder of results. */
glofnd_status gf_output_folder_check(gf_error *err, const char *target, int force, const gf_output_kind *kind);
glofnd_status gf_output_folder_open(gf_error *err, gf_output_folder *f, const char *target, int force,
                                    const gf_output_kind *kind);
/* Path of a file of the unfinished folder, in `path` [PATH_MAX]. */
glofnd_status gf_output_folder_path(gf_error *err, const gf_output_folder *f, const char *name, char *path);
/* There is a result under the target's name at any time: the old one, then the new one. */
glofnd_status gf_output_folder_commit(gf_error *err, gf_output_folder *f);
/* Removes an uncommitted folder, and frees. Accepts a zeroed struct. */
void gf_output_folder_close(gf_output_folder *f);
/* From another thread, before the process ends: the folders that this process is writing beside `target` go away, and can no longer be
 * committed. */
void gf_output_folder_abandon(const char *target, const gf_output_kind *kind);

/* ----- tables ----- */

/* Writes large tables, as TSV or Parquet: threads format blocks of rows while earlier ones are written in order.
 *
 * Items are divided into blocks. The lines of a block go to its own buffers, one per file; so the bytes are the same for any
 * number of threads.
 */

enum { GF_TABLE_COLUMNS_MAX = 40 };

typedef struct gf_table_columns {
    gf_table_column at[GF_TABLE_COLUMNS_MAX];
    int count;
} gf_table_columns;

/* Adds columns of one kind; several names have blanks between. */
void gf_table_columns_add(gf_table_columns *c, gf_column_kind kind, const char *names);

/* Growing text, or the cells of a table. Out of memory sets `failed`, which the writer reports. */
typedef struct gf_lines {
    char *at;
    size_t used, capacity;
    int failed;
    const gf_table_columns *columns; /* NULL: plain text */
    gf_byte_buffer *cells;           /* [columns->count] for a Parquet file; NULL: lines of a TSV */
    int next;                        /* column of the next cell */
    int64_t rows;
} gf_lines;

void gf_lines_bytes(gf_lines *l, const char *bytes, size_t n);
void gf_lines_text(gf_lines *l, const char *text);
void gf_lines_integer(gf_lines *l, int64_t x);
void gf_lines_number(gf_lines *l, double x);          /* JSON, as gf_jsonl_number() */
void gf_lines_quoted(gf_lines *l, const char *text);  /* JSON, as gf_jsonl_text() */
void gf_lines_escaped(gf_lines *l, const char *text); /* one line, see escape.h */
#define GF_LINES_PUT(l, literal) gf_lines_bytes(l, literal, sizeof literal - 1)

/* Cells of a row, from left to right; then its end. The kinds are those of the columns. */
void gf_cell_integer(gf_lines *l, int64_t x);
void gf_cell_real(gf_lines *l, double x);         /* 8 decimals: the digits that float32 distinguishes */
void gf_cell_flag(gf_lines *l, int x);            /* 0 or 1 */
void gf_cell_text(gf_lines *l, const char *text); /* TSV: escaped; Parquet: as it is, but UTF-8 */
void gf_row_end(gf_lines *l);

enum { GF_TABLE_FILES_MAX = 4 };
typedef enum gf_table_format {
    GF_TABLE_TSV,
    GF_TABLE_PARQUET,
    GF_TABLE_JSONL
} gf_table_format;                                   /* JSONL: TSV, pairs also as JSON */
const char *gf_table_ending(gf_table_format format); /* ".tsv" */

typedef struct gf_table_files {
    const char *name[GF_TABLE_FILES_MAX]; /* in the folder; NULL: no file, its lines are dropped */
    /* Of a table, whose name then has no ending: it is .tsv or .parquet, by the format. NULL: a file of plain text. */
    const gf_table_columns *columns[GF_TABLE_FILES_MAX];
    gf_table_format format;
    int64_t items, block; /* items of a block: enough for a few thousand lines */
    /* Lines of the items from <= i < to; out [GF_TABLE_FILES_MAX]. Called by several threads. */
    void (*fill)(const void *arg, int64_t from, int64_t to, gf_lines *out);
    const void *arg;
    int threads;
    const gf_job_progress *watch;
} gf_table_files;

/* E_IO, E_MEMORY, or E_CANCELLED; files may then be incomplete. */
glofnd_status gf_table_files_write(gf_error *err, const gf_output_folder *to, const gf_table_files *t);

/* ----- .npz files ----- */

/* Writes .npz files as numpy.savez() does: a zip archive of .npy files, stored without compression.
 *
 *     gf_npz z;  TRY(gf_npz_open(err, &z, path));
 *     gf_npz_entry(&z, "data", "<f4", 1, (int64_t[]){n}, 4);
 *     gf_npz_put(&z, bytes, count);          as often as needed, all bytes of the array in total
 *     TRY(gf_npz_close(err, &z));            failures of all calls are reported here
 * Arrays of any size are written piece by piece (Zip64 where 32 bits do not hold a size or place). Elements are little endian.
 */

enum { GF_NPZ_ENTRIES = 8, GF_NPZ_NAME = 16 };

typedef struct gf_npz_item {
    char name[GF_NPZ_NAME + 8]; /* with .npy */
    uint64_t at, size;
    uint32_t crc;
} gf_npz_item;

typedef struct gf_npz {
    FILE *f;
    char path[PATH_MAX];
    gf_npz_item item[GF_NPZ_ENTRIES];
    int items;
    uint64_t at, left; /* bytes written; bytes that the current array still needs */
    uint64_t limit;    /* sizes and places from here on take Zip64; 2^32 - 1, smaller in tests */
    int failed;        /* errno of the first failed write */
} gf_npz;

glofnd_status gf_npz_open(gf_error *err, gf_npz *z, const char *path);
/* The next array: at most GF_NPZ_ENTRIES of them, names of at most GF_NPZ_NAME characters. descr as of NumPy, without quotes. */
void gf_npz_entry(gf_npz *z, const char *name, const char *descr, int rank, const int64_t *shape, size_t element);
void gf_npz_put(gf_npz *z, const void *bytes, size_t n);
glofnd_status gf_npz_close(gf_error *err, gf_npz *z);
