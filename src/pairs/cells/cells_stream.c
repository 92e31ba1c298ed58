/* cells_stream.c - see cells_stream.h: rows and cells. cells_stream_pairs.c compares. */
#include "pairs/cells/cells_stream.h"

#include <stdlib.h>

#include "util/minmax.h"

enum { CHUNK_MIN = 1024 };

glofnd_status gf_cells_stream_open(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                   int threads, gf_cells_stream *s) {
    const size_t fit = memory / ((size_t)source->dim * sizeof(float)) / GF_PANEL * GF_PANEL;
    FAIL_IF(err, n < 1, GLOFND_E_ARGUMENT, "no rows for cells");
    *s = (gf_cells_stream){.source = source, .row = row, .memory = memory, .threads = threads};
    s->c = (gf_cells){.n = n, .dim = source->dim, .count = gf_cells_count(n)};
    s->chunk = fit >= (size_t)n ? n : GF_MAX((int64_t)fit, CHUNK_MIN);
    return GLOFND_OK;
}

void gf_cells_stream_close(gf_cells_stream *s) {
    gf_cells_free(&s->c);
    gf_panels_free(&s->all);
    free(s->by_place);
    *s = (gf_cells_stream){0};
}

int gf_cells_stream_fits(const gf_cells_stream *s) { return s->chunk >= s->c.n; }

glofnd_status gf_cells_stream_centres(gf_error *err, const gf_cells_stream *s, const gf_sweep_job *job, float *centre) {
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
    if (status == GLOFND_OK) status = gf_cells_centres(err, &sample, s->c.count, job, centre);
    free(row);
    free(x);
    return status;
}

glofnd_status gf_cells_stream_begin(gf_error *err, gf_cells_stream *s, const float *centre) {
    return gf_cells_pack_centres(err, centre, s->c.count, s->c.dim, s->threads, &s->c.centres);
}

glofnd_status gf_cells_stream_assign(gf_error *err, const gf_cells_stream *s, int64_t first, int64_t rows,
                                     const gf_sweep_job *job, gf_cell_of *of) {
    gf_panels points = {0};
    TRY(gf_row_source_pack(err, s->source, s->row + first, rows, GF_ROW_PIECE, s->threads, &points));
    const glofnd_status status = gf_cells_assign(err, &points, &s->c.centres, job, of);
    gf_panels_free(&points);
    return status;
}

glofnd_status gf_cells_stream_sort(gf_error *err, gf_cells_stream *s, const gf_cell_of *of) {
    TRY(gf_cells_sort(err, of, s->threads, &s->c));
    s->by_place = malloc((size_t)s->c.n * sizeof *s->by_place);
    FAIL_IF(err, !s->by_place, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)s->c.n);
    for (int64_t i = 0; i < s->c.n; i++) s->by_place[i] = s->row[s->c.order[i]];
    return GLOFND_OK;
}
