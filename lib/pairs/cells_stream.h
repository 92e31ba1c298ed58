/* cells_stream.h - the search by cells (pairs_search.h, gf_pairs_search_cells) of rows that need not fit into memory, in parts
 * that can be dealt out and kept on disk. In this order:
 *
 *     gf_cells_stream_open(err, &source, row, n, memory, threads, &s);
 *     gf_cells_stream_centres(err, &s, &job, numbers);             k-means of a sample
 *     gf_cells_stream_begin(err, &s, numbers);
 *     gf_cells_stream_assign(err, &s, first, rows, &job, of);      positions [first, first + rows), for all of them
 *     gf_cells_stream_sort(err, &s, of);                           from here on anchors come in the order of cells
 *     gf_cells_stream_order(err, &s, first, rows, x);              unit vectors of places [first, first + rows)
 *     s.all = all of them: in memory if they fit, or files of them that are mapped
 *     gf_cells_stream_pairs(err, &s, &task, first, rows, ...);     places [first, first + rows)
 *     gf_cells_stream_recall(err, &s, &task, first, count, ...);   with task.probe
 *     gf_cells_stream_close(&s);
 * Rows in the order of cells make a search local: the rows that some anchors need lie in few places. The source is read from its
 * beginning to its end: once for the cells, and once for each part of the ordered rows.
 */
#pragma once

#include "pairs/cells.h"
#include "pairs/pairs_search.h"
#include "pairs/row_source.h"
#include "util/components.h"

typedef struct gf_cells_stream {
    const gf_row_source *source;
    const int32_t *row; /* [n] rows of the source that positions stand for, rising */
    gf_cells c;         /* without points */
    int32_t *place;     /* [n] of a position */
    int64_t chunk;      /* ordered rows of a part; n: all fit */
    int threads;
    gf_panels all; /* all rows, in the order of cells; of the caller */
} gf_cells_stream;

#define GF_CHUNK_STEP 1024 /* `chunk` is a multiple of it, and such that its rows fill memory pages */

/* memory: bytes for ordered rows. */
glofnd_status gf_cells_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_cells_stream *s);
void gf_cells_stream_close(gf_cells_stream *s); /* a zeroed one is fine */
int gf_cells_stream_fits(const gf_cells_stream *s);
/* numbers [gf_tree_numbers()] */
glofnd_status gf_cells_stream_centres(gf_error *err, const gf_cells_stream *s, const gf_sweep_job *job, float *numbers);
glofnd_status gf_cells_stream_begin(gf_error *err, gf_cells_stream *s, const float *numbers);
glofnd_status gf_cells_stream_assign(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                     const gf_sweep_job *job, gf_cell_of *of);
glofnd_status gf_cells_stream_sort(gf_error *err, gf_cells_stream *s, const gf_cell_of *of);
/* x [pad(rows) / GF_PANEL][dim][GF_PANEL], first a multiple of GF_PANEL. */
glofnd_status gf_cells_stream_order(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                    const gf_job_progress *watch, float *x);
/* `first` is a multiple of GF_PANEL. found [rows], by place: all but mutual, mutual_root and copy_root; others are positions.
 * copy_root [n], by position: joins duplicates, whose nodes are added to joined. above [rows][rank - 1] or NULL, as in
 * pairs_stream.h. */
glofnd_status gf_cells_stream_pairs(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                    gf_pairs_found *found, int32_t *copy_root, gf_node_list *joined, uint64_t *above);
/* Anchors [first, first + count) of the gf_cell_sample() ones: adds to found->sampled, wanted and recalled. */
glofnd_status gf_cells_stream_recall(gf_error *err, const gf_cells_stream *s, const gf_pairs_task *t, int64_t first,
                                     int64_t count, gf_pairs_found *found);
