/* gallery.c - see gallery.h. */
#include "report/gallery.h"

#include <math.h>
#include <stdlib.h>

#include "util/array.h"
#include "util/rng.h"

typedef struct chooser {
    const gf_gallery_spec *g;
    const gf_view_set *others; /* n rows */
    float *s;                  /* [n] similarities to the current anchor; NaN: the anchor itself */
    float *part;               /* [batch] */
    uint8_t *flag;             /* [2][n] */
} chooser;

static double dot(const float *a, const float *b, int64_t dim) {
    double s = 0.0;
    for (int64_t k = 0; k < dim; k++) s += (double)a[k] * (double)b[k];
    return s;
}

static void compare_with_all(const chooser *b, int64_t anchor) {
    const gf_view_set *s = b->g->s, *o = b->others;
    const float *z = s->z + anchor * s->dim;
    const double own = sqrt(dot(z, z, s->dim));
    for (int64_t i = 0; i < o->n; i++) {
        const float *x = o->z + i * s->dim;
        b->s[i] = i == anchor ? NAN : (float)(dot(z, x, s->dim) / (own * sqrt(dot(x, x, s->dim))));
    }
}

/* GloFND: samples above the anchor's threshold. */
static void flag_by_lambda(const chooser *b, int64_t anchor) {
    const float lambda = b->g->lambda ? b->g->lambda[anchor] : NAN;
    for (int64_t i = 0; i < b->g->s->n; i++) b->flag[i] = b->s[i] > lambda;
}

/* FNC: all other samples in random batches; flags the top share alpha of each batch. */
static void flag_by_batch(const chooser *b, int64_t anchor) {
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

/* Rows of both sets belong to the same samples. */
static int same_label(const gf_view_set *s, int64_t a, int64_t b) { return s->label[a] >= 0 && s->label[a] == s->label[b]; }

/* Keeps the list sorted by descending similarity. */
static void insert(gf_flagged_samples *f, int64_t row, float similarity) {
    int at = f->shown++;
    for (; at > 0 && f->similarity[at - 1] < similarity; at--)
        f->row[at] = f->row[at - 1], f->similarity[at] = f->similarity[at - 1];
    f->row[at] = row, f->similarity[at] = similarity;
}

static void collect(const chooser *b, int64_t anchor, const uint8_t *flag, gf_flagged_samples *f) {
    const gf_view_set *s = b->g->s;
    *f = (gf_flagged_samples){0};
    for (int64_t i = 0; i < s->n; i++) f->count += flag[i], f->right += flag[i] && same_label(s, anchor, i);
    for (int64_t k = 0; k < s->n && f->shown < GF_GALLERY_SHOWN; k++) {
        const int64_t i = gf_permute(b->g->seed + 1, (uint32_t)anchor, s->n, k);
        if (flag[i]) insert(f, i, b->s[i]);
    }
}

/* ----- similarity profile ----- */

static int part_of(const gf_similarity_profile *l, double x, int parts) {
    const int at = (int)((x - l->low) / (l->high - l->low) * parts);
    return at < 0 ? 0 : at < parts ? at : parts - 1;
}

static double middle_of(const gf_similarity_profile *l, int part) {
    return l->low + (part + 0.5) / GF_GALLERY_EXAMPLES * (l->high - l->low);
}

static void add_to_profile(const chooser *b, int64_t anchor, int64_t i, gf_similarity_profile *l) {
    const double x = (double)b->s[i];
    const int bin = part_of(l, x, GF_GALLERY_BINS), part = part_of(l, x, GF_GALLERY_EXAMPLES);
    const int closer = l->row[part] < 0 || fabs(x - middle_of(l, part)) < fabs((double)l->similarity[part] - middle_of(l, part));
    l->all[bin]++, l->same[bin] += same_label(b->g->s, anchor, i);
    if (closer) l->row[part] = i, l->similarity[part] = b->s[i];
}

static void make_profile(const chooser *b, int64_t anchor, gf_similarity_profile *l) {
    const int64_t n = b->others->n;
    *l = (gf_similarity_profile){.low = INFINITY, .high = -INFINITY};
    for (int k = 0; k < GF_GALLERY_EXAMPLES; k++) l->row[k] = -1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(b->s[i])) l->low = fmin(l->low, (double)b->s[i]), l->high = fmax(l->high, (double)b->s[i]), l->others++;
    if (!(l->high > l->low)) l->others = 0;
    for (int64_t i = 0; l->others && i < n; i++)
        if (isfinite(b->s[i])) add_to_profile(b, anchor, i, l);
}

/* ----- choice ----- */

static int seen_label(const gf_view_set *s, const gf_gallery_anchor *out, int count, int64_t row) {
    for (int i = 0; i < count; i++)
        if (same_label(s, out[i].row, row) || out[i].row == row) return 1;
    return 0;
}

static int seen(const gf_gallery_anchor *out, int count, int64_t row) {
    for (int i = 0; i < count; i++)
        if (out[i].row == row) return 1;
    return 0;
}

/* Tries a few hundred candidates: with a detector that flags almost nothing, the gallery has fewer anchors. */
static int choose(const chooser *b, gf_gallery_anchor *out) {
    const gf_gallery_spec *g = b->g;
    const int64_t n = g->s->n, tries = GF_MIN(n, 400);
    int count = 0;
    for (int repeat = 0; repeat < 2; repeat++)
        for (int64_t k = 0; k < tries && count < GF_GALLERY_ANCHORS; k++) {
            const int64_t row = gf_permute(g->seed + 2, 0, n, k);
            if (repeat ? seen(out, count, row) : seen_label(g->s, out, count, row)) continue;
            gf_gallery_anchor a = {.row = row, .lambda = g->lambda ? g->lambda[row] : NAN};
            compare_with_all(b, row);
            flag_by_lambda(b, row);
            flag_by_batch(b, row);
            for (int d = 0; d < 2; d++) collect(b, row, b->flag + d * n, &a.by[d]);
            make_profile(b, row, &a.profile);
            if (a.by[g->lambda ? 0 : 1].count) out[count++] = a;
        }
    return count;
}

glofnd_status gf_gallery_choose(gf_error *err, const gf_gallery_spec *g, gf_gallery_anchor out[GF_GALLERY_ANCHORS], int *count) {
    gf_gallery_spec spec = *g;
    *count = 0;
    if (g->s->n < 3) return GLOFND_OK;
    spec.batch = g->batch < 3 ? 3 : GF_MIN(g->batch, g->s->n);
    chooser b = {.g = &spec,
                 .others = gf_view_columns(g->s),
                 .s = malloc((size_t)g->s->n * sizeof *b.s),
                 .part = malloc((size_t)spec.batch * sizeof *b.part),
                 .flag = malloc(2 * (size_t)g->s->n)};
    const int ok = b.s && b.part && b.flag;
    if (ok) *count = choose(&b, out);
    free(b.s);
    free(b.part);
    free(b.flag);
    return ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for a gallery");
}
