/* gallery.c - see gallery.h. */
#include "report/gallery.h"

#include <math.h>
#include <stdlib.h>

#include "base/order.h"
#include "base/rng.h"

typedef struct bench {          /* of one anchor after the other */
    const gf_gallery_spec *g;
    float *s;                   /* [n] similarities of the present anchor; NaN: itself */
    float *part;                /* [batch] */
    uint8_t *flag;              /* [2][n] */
} bench;

static double product(const float *a, const float *b, int64_t dim) {
    double s = 0.0;
    for (int64_t k = 0; k < dim; k++) s += (double)a[k] * (double)b[k];
    return s;
}

static void compare_with_all(const bench *b, int64_t anchor) {
    const gf_view_set *s = b->g->s;
    const float *z = s->z + anchor * s->dim;
    const double own = sqrt(product(z, z, s->dim));
    for (int64_t i = 0; i < s->n; i++) {
        const float *x = s->z + i * s->dim;
        b->s[i] = i == anchor ? NAN : (float)(product(z, x, s->dim) / (own * sqrt(product(x, x, s->dim))));
    }
}

/* GloFND: what is above the anchor's own threshold. */
static void flag_by_lambda(const bench *b, int64_t anchor) {
    const float lambda = b->g->lambda ? b->g->lambda[anchor] : NAN;
    for (int64_t i = 0; i < b->g->s->n; i++) b->flag[i] = b->s[i] > lambda;
}

/* FNC: the anchor meets all others in batches, drawn at random; in each the top alpha are flagged. */
static void flag_by_batch(const bench *b, int64_t anchor) {
    const gf_gallery_spec *g = b->g;
    const int64_t n = g->s->n, size = g->batch - 1;
    uint8_t *flag = b->flag + n;
    for (int64_t i = 0; i < n; i++) flag[i] = 0;
    for (int64_t first = 0; first + size <= n; first += size) {
        int64_t count = 0;
        for (int64_t k = first; k < first + size; k++) {
            const float x = b->s[gf_permute(g->seed, (uint32_t)anchor, n, k)];
            if (isfinite(x)) b->part[count++] = x;
        }
        if (!count) continue;
        const float theta = gf_quantile(b->part, count, g->alpha);
        for (int64_t k = first; k < first + size; k++) {
            const int64_t i = gf_permute(g->seed, (uint32_t)anchor, n, k);
            flag[i] = b->s[i] > theta;
        }
    }
}

static int same_label(const gf_view_set *s, int64_t a, int64_t b) { return s->label[a] >= 0 && s->label[a] == s->label[b]; }

/* Keeps the list by falling similarity. */
static void insert(gf_flagged *f, int64_t row, float similarity) {
    int at = f->shown++;
    for (; at > 0 && f->similarity[at - 1] < similarity; at--)
        f->row[at] = f->row[at - 1], f->similarity[at] = f->similarity[at - 1];
    f->row[at] = row, f->similarity[at] = similarity;
}

static void collect(const bench *b, int64_t anchor, const uint8_t *flag, gf_flagged *f) {
    const gf_view_set *s = b->g->s;
    *f = (gf_flagged){0};
    for (int64_t i = 0; i < s->n; i++) f->count += flag[i], f->right += flag[i] && same_label(s, anchor, i);
    for (int64_t k = 0; k < s->n && f->shown < GF_GALLERY_SHOWN; k++) {
        const int64_t i = gf_permute(b->g->seed + 1, (uint32_t)anchor, s->n, k);
        if (flag[i]) insert(f, i, b->s[i]);
    }
}

static int seen_label(const gf_view_set *s, const gf_anchor *out, int count, int64_t row) {
    for (int i = 0; i < count; i++)
        if (same_label(s, out[i].row, row) || out[i].row == row) return 1;
    return 0;
}

static int seen(const gf_anchor *out, int count, int64_t row) {
    for (int i = 0; i < count; i++)
        if (out[i].row == row) return 1;
    return 0;
}

/* At most a few hundred candidates are looked at: a detector that flags next to nothing leaves the gallery short. */
static int pick(const bench *b, gf_anchor *out) {
    const gf_gallery_spec *g = b->g;
    const int64_t n = g->s->n, tries = n < 400 ? n : 400;
    int count = 0;
    for (int repeat = 0; repeat < 2; repeat++)
        for (int64_t k = 0; k < tries && count < GF_GALLERY_ANCHORS; k++) {
            const int64_t row = gf_permute(g->seed + 2, 0, n, k);
            if (repeat ? seen(out, count, row) : seen_label(g->s, out, count, row)) continue;
            gf_anchor a = {.row = row, .lambda = g->lambda ? g->lambda[row] : NAN};
            compare_with_all(b, row);
            flag_by_lambda(b, row);
            flag_by_batch(b, row);
            for (int d = 0; d < 2; d++) collect(b, row, b->flag + d * n, &a.by[d]);
            if (a.by[g->lambda ? 0 : 1].count) out[count++] = a;
        }
    return count;
}

glofnd_status gf_gallery_pick(gf_error *err, const gf_gallery_spec *g, gf_anchor out[GF_GALLERY_ANCHORS], int *count) {
    gf_gallery_spec spec = *g;
    *count = 0;
    if (g->s->n < 3) return GLOFND_OK;
    spec.batch = g->batch < 3 ? 3 : g->batch <= g->s->n ? g->batch : g->s->n;
    bench b = {.g = &spec, .s = malloc((size_t)g->s->n * sizeof *b.s), .part = malloc((size_t)spec.batch * sizeof *b.part),
               .flag = malloc(2 * (size_t)g->s->n)};
    const int ok = b.s && b.part && b.flag;
    if (ok) *count = pick(&b, out);
    free(b.s);
    free(b.part);
    free(b.flag);
    return ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for a gallery");
}
