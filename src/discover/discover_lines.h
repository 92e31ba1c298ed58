/* discover_lines.h - large tables as files: threads make blocks of lines, which are written in order behind them.
 *
 * The lines come from a range of items that is cut into blocks. A block's lines are made into buffers of its own, one per file,
 * while the blocks before are written; so the bytes are the same for any number of threads.
 */
#ifndef GF_DISCOVER_DISCOVER_LINES_H
#define GF_DISCOVER_DISCOVER_LINES_H

#include "discover/discover_folder.h"
#include "util/job_progress.h"

/* Text that grows; running out of memory sticks, and the writer says so. */
typedef struct gf_lines {
    char *at;
    size_t used, room;
    int failed;
} gf_lines;

void gf_lines_bytes(gf_lines *l, const char *bytes, size_t n);
void gf_lines_text(gf_lines *l, const char *text);
void gf_lines_integer(gf_lines *l, int64_t x);
void gf_lines_fixed(gf_lines *l, double x);          /* 8 digits after the point */
void gf_lines_number(gf_lines *l, double x);         /* for JSON, as gf_jsonl_number() */
void gf_lines_quoted(gf_lines *l, const char *text); /* for JSON, as gf_jsonl_text() */
#define GF_LINES_PUT(l, literal) gf_lines_bytes(l, literal, sizeof literal - 1)

enum { GF_TABLE_FILES = 3 };

typedef struct gf_lines_table {
    const char *name[GF_TABLE_FILES];    /* in the folder; NULL: no such file, and what is put into its lines is dropped */
    const char *heading[GF_TABLE_FILES]; /* the first line; NULL: none */
    int64_t items, block;                /* of a block: as many as make some thousand lines */
    /* Lines of the items from <= i < to; out [GF_TABLE_FILES]. Called by several threads. */
    void (*fill)(const void *arg, int64_t from, int64_t to, gf_lines *out);
    const void *arg;
    int threads;
    const gf_job_progress *watch;
} gf_lines_table;

/* E_IO with the file and the reason, E_MEMORY, or E_ARGUMENT "stopped"; files may then be there in part. */
glofnd_status gf_lines_table_write(gf_error *err, const gf_folder *to, const gf_lines_table *t);

#endif
