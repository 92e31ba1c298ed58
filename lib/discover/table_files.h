/* table_files.h - writes large tables, as TSV or Parquet: threads format blocks of rows while earlier ones are written in order.
 *
 * Items are divided into blocks. The lines of a block go to its own buffers, one per file; so the bytes are the same for any
 * number of threads.
 */
#pragma once

#include "discover/output_folder.h"
#include "io/parquet_write.h"
#include "util/parallel.h"

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
void gf_lines_fixed(gf_lines *l, double x);           /* 8 decimals */
void gf_lines_number(gf_lines *l, double x);          /* JSON, as gf_jsonl_number() */
void gf_lines_quoted(gf_lines *l, const char *text);  /* JSON, as gf_jsonl_text() */
void gf_lines_escaped(gf_lines *l, const char *text); /* one line, see util/text.h */
#define GF_LINES_PUT(l, literal) gf_lines_bytes(l, literal, sizeof literal - 1)

/* Cells of a row, from left to right; then its end. The kinds are those of the columns. */
void gf_cell_integer(gf_lines *l, int64_t x);
void gf_cell_real(gf_lines *l, double x);         /* 8 decimals: the digits that float32 distinguishes */
void gf_cell_flag(gf_lines *l, int x);            /* 0 or 1 */
void gf_cell_text(gf_lines *l, const char *text); /* TSV: escaped; Parquet: as it is, but UTF-8 */
void gf_row_end(gf_lines *l);

enum { GF_TABLE_FILES_MAX = 4 };
typedef enum gf_table_format { GF_TABLE_TSV, GF_TABLE_PARQUET } gf_table_format;
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

/* E_IO, E_MEMORY, or E_ARGUMENT "stopped"; files may then be incomplete. */
glofnd_status gf_table_files_write(gf_error *err, const gf_output_folder *to, const gf_table_files *t);
