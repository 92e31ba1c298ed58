/* decide_rows.h - the embeddings, for decisions that need them: from memory, or read again in pieces. Both give the same bits,
 * because rows come in the same order. */
#pragma once

#include "discover/decide.h"

typedef struct gf_row_piece { /* usable rows: positions first .. first + count - 1 */
    const gf_discover_data *d;
    const float *x; /* rows from `base` on */
    int64_t base, first, count;
} gf_row_piece;

static inline const float *gf_piece_row(const gf_row_piece *p, int64_t position) {
    return p->x + ((int64_t)p->d->good[position] - p->base) * p->d->dim;
}

/* Calls visit() with all usable rows, some at a time, in rising order. E_ARGUMENT: "stopped". d->x or c->rows is there. */
typedef void gf_row_visit(void *user, const gf_row_piece *piece);
glofnd_status gf_decide_visit_rows(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                   gf_row_visit *visit, void *user);
/* One row, to out [dim]. */
glofnd_status gf_decide_read_row(gf_error *err, const gf_decide_spec *c, const gf_discover_data *d, int64_t position, float *out);
