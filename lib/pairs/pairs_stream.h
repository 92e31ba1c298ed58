/* pairs_stream.h - discovery of embeddings that need not fit into memory: some anchors against all rows, which pass by in chunks.
 *
 *     gf_pairs_stream_open(err, &source, row, n, memory, threads, &s);
 *     gf_pairs_stream_thresholds(err, &s, &task, first, rows, &found, copy_root);   for all anchors, some at a time
 *     gf_pairs_stream_mutual(err, &s, &task, first, rows, mutual, root);            task.lambda: all thresholds
 *     gf_pairs_stream_close(&s);
 * Results are those of gf_pairs_search_cpu to the bit, whatever the chunks. Each pair is computed twice in either step, from each
 * of its ends: so anchors are independent of each other, and can be dealt out and kept on disk.
 */
#pragma once

#include "pairs/pairs_search.h"
#include "pairs/row_source.h"

typedef struct gf_pairs_stream {
    const gf_row_source *source;
    const int32_t *row; /* [n] rows of the source that positions stand for, rising */
    int64_t n, dim, chunk;
    int threads;
    gf_panels columns; /* of the chunk in memory */
    int64_t first;     /* position of its first row; -1: none */
} gf_pairs_stream;

/* Chunks take `memory` bytes at most; all rows, if they fit. */
glofnd_status gf_pairs_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_pairs_stream *out);
void gf_pairs_stream_close(gf_pairs_stream *s); /* a zeroed one is fine */
/* Anchors `first` (a multiple of GF_PANEL) and following ones; found [rows] is their result, but for mutual, mutual_root and
 * copy_root. copy_root [n]: joins them with their duplicates behind them. above [rows][rank - 1] or NULL: keys (best.h) of those
 * above the threshold of an anchor, found->above of them. */
glofnd_status gf_pairs_stream_thresholds(gf_error *err, gf_pairs_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                         gf_pairs_found *found, int32_t *copy_root, uint64_t *above);
/* mutual [rows]: pairs that are above the thresholds of both; root [n] joins them. */
glofnd_status gf_pairs_stream_mutual(gf_error *err, gf_pairs_stream *s, const gf_pairs_task *t, int64_t first, int64_t rows,
                                     int64_t *mutual, int32_t *root);

/* The same calls, as a device implements them. */
typedef struct gf_stream_search {
    glofnd_status (*open)(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory, int threads,
                          void **state);
    int64_t (*chunks)(const void *state); /* in which the rows pass by */
    glofnd_status (*thresholds)(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows,
                                gf_pairs_found *found, int32_t *copy_root, uint64_t *above);
    glofnd_status (*mutual)(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows, int64_t *mutual,
                            int32_t *root);
    void (*close)(void *state); /* NULL is fine */
} gf_stream_search;

extern const gf_stream_search gf_stream_search_cpu;
