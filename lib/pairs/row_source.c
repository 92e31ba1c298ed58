/* row_source.c - see row_source.h. */
#include "pairs/row_source.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

typedef struct asked_row {
    int32_t row, at; /* of the source; where it goes */
} asked_row;

static int by_row(const void *x, const void *y) {
    const asked_row *a = x, *b = y;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

/* Rows that follow each other, and go to places that do, with one call. */
static glofnd_status read_rising(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, float *x) {
    for (int64_t done = 0, run; done < count; done += run) {
        for (run = 1; done + run < count && row[done + run] == row[done] + run; run++) continue;
        TRY(s->read(err, s->user, row[done], run, x + done * s->dim));
    }
    return GLOFND_OK;
}

static glofnd_status read_sorted(gf_error *err, const gf_row_source *s, const asked_row *a, int64_t count, float *x) {
    for (int64_t done = 0, run; done < count; done += run) {
        for (run = 1; done + run < count && a[done + run].row == a[done].row + run && a[done + run].at == a[done].at + run; run++)
            continue;
        TRY(s->read(err, s->user, a[done].row, run, x + a[done].at * s->dim));
    }
    return GLOFND_OK;
}

glofnd_status gf_row_source_gather(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, float *x) {
    int64_t rising = 1;
    while (rising < count && row[rising - 1] < row[rising]) rising++;
    if (rising >= count) return read_rising(err, s, row, count, x);
    asked_row *a = malloc((size_t)count * sizeof *a);
    FAIL_IF(err, !a, GLOFND_E_MEMORY, "no memory to read %lld rows", (long long)count);
    for (int64_t i = 0; i < count; i++) a[i] = (asked_row){row[i], (int32_t)i};
    qsort(a, (size_t)count, sizeof *a, by_row);
    const glofnd_status status = read_sorted(err, s, a, count, x);
    free(a);
    return status;
}

static glofnd_status pack_pieces(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, int64_t piece,
                                 float *x, int threads, gf_panels *p) {
    for (int64_t done = 0; done < count; done += piece) {
        const gf_vectors some = {.x = x, .n = GF_MIN(piece, count - done), .dim = s->dim};
        gf_panels packed = {0};
        TRY(gf_row_source_gather(err, s, row + done, some.n, x));
        TRY(gf_panels_pack(err, &some, threads, &packed));
        memcpy(p->x + done * s->dim, packed.x, gf_panels_bytes(some.n, s->dim));
        gf_panels_free(&packed);
    }
    return GLOFND_OK;
}

glofnd_status gf_row_source_pack(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, int64_t piece,
                                 int threads, gf_panels *out) {
    gf_panels p = {.n = count, .dim = s->dim, .x = aligned_alloc(64, gf_panels_bytes(count, s->dim))};
    float *x = malloc((size_t)GF_MIN(piece, count) * (size_t)s->dim * sizeof *x);
    const glofnd_status status =
        p.x && x ? pack_pieces(err, s, row, count, piece, x, threads, &p)
                 : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)count, (long long)s->dim);
    free(x);
    if (status == GLOFND_OK) *out = p;
    else gf_panels_free(&p);
    return status;
}
