/* decide_rows.c - see decide_rows.h. */
#include "discover/decide_rows.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

enum { PIECE = 8192 }; /* rows that are read at once */

static glofnd_status visit_source(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, gf_row_piece *p, float *x,
                                  gf_row_visit *visit, void *user) {
    const gf_discover_data *d = p->d;
    for (p->base = 0; p->base < d->n; p->base += PIECE) {
        const int64_t rows = GF_MIN(PIECE, d->n - p->base);
        TRY(c->rows->read(err, c->rows->user, p->base, rows, x));
        for (p->count = 0; p->first + p->count < d->good_n && d->good[p->first + p->count] < p->base + rows;) p->count++;
        visit(user, p);
        p->first += p->count;
        FAIL_IF(err, gf_job_stopped(&s->watch), GLOFND_E_ARGUMENT, "stopped");
    }
    return GLOFND_OK;
}

glofnd_status gf_decide_visit_rows(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                   gf_row_visit *visit, void *user) {
    gf_row_piece p = {.d = d, .x = d->x, .count = d->good_n};
    if (d->x) {
        visit(user, &p);
        return GLOFND_OK;
    }
    float *x = malloc((size_t)(GF_MIN(PIECE, d->n) * d->dim) * sizeof *x);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory to read embeddings again");
    p.x = x;
    const glofnd_status status = visit_source(err, c, s, &p, x, visit, user);
    free(x);
    return status;
}

glofnd_status gf_decide_read_row(gf_error *err, const gf_decide_spec *c, const gf_discover_data *d, int64_t position,
                                 float *out) {
    const int64_t row = d->good[position];
    if (!d->x) return c->rows->read(err, c->rows->user, row, 1, out);
    memcpy(out, d->x + row * d->dim, (size_t)d->dim * sizeof *out);
    return GLOFND_OK;
}
