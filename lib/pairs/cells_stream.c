/* cells_stream.c - see cells_stream.h: cells, and rows in their order. cells_stream_pairs.c compares. */
#include "pairs/cells_stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/array.h"
#include "util/parallel.h"

enum { PIECE = 1 << 16, TASK = 256 }; /* rows: read at once; of a task */

glofnd_status gf_cells_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_cells_stream *s) {
    const size_t bytes = (size_t)source->dim * sizeof(float);
    (void)err;
    *s = (gf_cells_stream){.source = source, .row = row, .threads = threads};
    s->c = (gf_cells){.n = n, .dim = source->dim, .count = gf_cells_count(n)};
    const int64_t step = GF_MAX(GF_CHUNK_STEP, sysconf(_SC_PAGESIZE) / (int64_t)sizeof(float));
    s->chunk = memory / bytes >= (size_t)gf_pad(n) ? n : GF_MAX((int64_t)(memory / 2 / bytes) / step, 1) * step;
    return GLOFND_OK;
}

void gf_cells_stream_close(gf_cells_stream *s) {
    gf_cells_free(&s->c);
    free(s->place);
    *s = (gf_cells_stream){0};
}

int gf_cells_stream_fits(const gf_cells_stream *s) { return s->chunk >= s->c.n; }

/* ----- cells ----- */

glofnd_status gf_cells_stream_centres(gf_error *err, const gf_cells_stream *s, const gf_sweep_job *job, float *numbers) {
    const int64_t n = gf_cells_sample(s->c.n, s->c.count, NULL), dim = s->c.dim;
    int32_t *row = malloc((size_t)n * sizeof *row);
    float *x = malloc((size_t)(n * dim) * sizeof *x);
    const gf_vectors sample = {.x = x, .n = n, .dim = dim};
    glofnd_status status = GLOFND_OK;
    if (!row || !x)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings, from which cells are made", (long long)n,
                         (long long)dim);
    if (status == GLOFND_OK) {
        gf_cells_sample(s->c.n, s->c.count, row);
        for (int64_t i = 0; i < n; i++) row[i] = s->row[row[i]];
        status = gf_row_source_gather(err, s->source, row, n, x);
    }
    if (status == GLOFND_OK) status = gf_tree_make(err, &sample, s->c.count, job, numbers);
    free(row);
    free(x);
    return status;
}

glofnd_status gf_cells_stream_begin(gf_error *err, gf_cells_stream *s, const float *numbers) {
    return gf_tree_open(err, numbers, s->c.count, s->c.dim, s->threads, &s->c.tree);
}

glofnd_status gf_cells_stream_assign(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                     const gf_sweep_job *job, gf_cell_of *of) {
    gf_panels points = {0};
    TRY(gf_row_source_pack(err, s->source, s->row + first, rows, GF_ROW_PIECE, s->threads, &points));
    const glofnd_status status = gf_cells_assign(err, &points, &s->c.tree, job, of);
    gf_panels_free(&points);
    return status;
}

glofnd_status gf_cells_stream_sort(gf_error *err, gf_cells_stream *s, const gf_cell_of *of) {
    TRY(gf_cells_sort(err, of, s->threads, &s->c));
    s->place = malloc((size_t)s->c.n * sizeof *s->place);
    FAIL_IF(err, !s->place, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)s->c.n);
    for (int64_t i = 0; i < s->c.n; i++) s->place[s->c.order[i]] = (int32_t)i;
    return GLOFND_OK;
}

/* ----- rows in the order of cells ----- */

typedef struct ordering {
    const gf_cells_stream *s;
    int64_t first, rows; /* places */
    int64_t at, count;   /* positions of the piece */
    const float *piece;  /* [count][dim] */
    float *x;
} ordering;

/* The same unit vectors as those of gf_panels_pack(). */
static void order_rows(void *arg, int64_t task, int thread) {
    const ordering *o = arg;
    const int64_t dim = o->s->c.dim;
    (void)thread;
    for (int64_t i = task * TASK; i < GF_MIN((task + 1) * TASK, o->count); i++) {
        const int64_t to = o->s->place[o->at + i] - o->first;
        const float *from = o->piece + i * dim;
        int finite;
        if (to < 0 || to >= o->rows) continue;
        const double scale = gf_vector_unit_scale(from, dim, &finite);
        gf_vector_write_unit(o->x + to / GF_PANEL * GF_PANEL * dim + to % GF_PANEL, from, dim, scale);
    }
}

glofnd_status gf_cells_stream_order(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                    const gf_job_progress *watch, float *x) {
    const int64_t n = s->c.n, dim = s->c.dim, last = gf_pad(rows) - GF_PANEL;
    float *piece = malloc((size_t)GF_MIN(PIECE, n) * (size_t)dim * sizeof *piece);
    FAIL_IF(err, !piece, GLOFND_E_MEMORY, "no memory to read embeddings");
    ordering o = {.s = s, .first = first, .rows = rows, .piece = piece, .x = x};
    glofnd_status status = GLOFND_OK;
    memset(x + last * dim, 0, (size_t)(GF_PANEL * dim) * sizeof *x); /* padding */
    for (o.at = 0; o.at < n && status == GLOFND_OK && !gf_job_stopped(watch); o.at += o.count) {
        o.count = GF_MIN(PIECE, n - o.at);
        status = gf_row_source_gather(err, s->source, s->row + o.at, o.count, piece);
        if (status == GLOFND_OK) gf_parallel(s->threads, (o.count + TASK - 1) / TASK, order_rows, &o);
        gf_job_report(watch, (double)(o.at + o.count) / (double)n);
    }
    free(piece);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(watch), GLOFND_E_ARGUMENT, "stopped");
    return status;
}
