/* snapshot.c - see snapshot.h: the choice of a gallery, then the network of a run on some of its data. */
#include "report/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/detectors.h"
#include "eval/encode.h"
#include "pairs/nearest.h"
#include "plot/maps.h"
#include "util/array.h"
#include "util/rng.h"

/* ----- gallery ----- */

typedef struct chooser {
    const gf_gallery_spec *g;
    const gf_view_set *rows, *others; /* n rows each, of the same samples */
    float *s;                         /* [n] similarities to the current anchor; NaN: the anchor itself */
    float *part;                      /* [batch] */
    uint8_t *flag;                    /* [n] */
} chooser;

static double dot(const float *a, const float *b, int64_t dim) {
    double s = 0.0;
    for (int64_t k = 0; k < dim; k++) s += (double)a[k] * (double)b[k];
    return s;
}

static int same_label(const gf_view_set *s, int64_t a, int64_t b) { return s->label[a] >= 0 && s->label[a] == s->label[b]; }

/* Counts flagged samples, and selects some at random. */
static void collect_flagged(const chooser *b, int64_t anchor, gf_flagged_samples *f) {
    const int64_t n = b->rows->n;
    *f = (gf_flagged_samples){0};
    for (int64_t i = 0; i < n; i++) f->count += b->flag[i], f->right += b->flag[i] && same_label(b->rows, anchor, i);
    for (int64_t k = 0; k < n && f->shown < GF_GALLERY_SHOWN; k++) {
        const int64_t i = gf_permute(b->g->seed + 1, (uint32_t)anchor, n, k);
        if (!b->flag[i]) continue;
        int at = f->shown++; /* most similar first */
        for (; at > 0 && f->similarity[at - 1] < b->s[i]; at--)
            f->row[at] = f->row[at - 1], f->similarity[at] = f->similarity[at - 1];
        f->row[at] = i, f->similarity[at] = b->s[i];
    }
}

/* FNC: all other samples in random batches; flags the top share alpha of each batch. */
static void flag_by_batches(const chooser *b, int64_t anchor) {
    const gf_gallery_spec *g = b->g;
    const int64_t n = b->rows->n, size = g->batch - 1;
    memset(b->flag, 0, (size_t)n);
    for (int64_t first = 0; first + size <= n; first += size) {
        int64_t count = 0;
        for (int64_t j = first; j < first + size; j++) {
            const float x = b->s[gf_permute(g->seed, (uint32_t)anchor, n, j)];
            if (isfinite(x)) b->part[count++] = x;
        }
        if (!count) continue;
        const float theta = gf_quantile(b->part, count, g->alpha);
        for (int64_t j = first; j < first + size; j++) {
            const int64_t i = gf_permute(g->seed, (uint32_t)anchor, n, j);
            b->flag[i] = b->s[i] > theta;
        }
    }
}

static int part_of(const gf_similarity_profile *p, double x, int parts) {
    const int at = (int)((x - p->low) / (p->high - p->low) * parts);
    return at < 0 ? 0 : at < parts ? at : parts - 1;
}

static void fill_profile(const chooser *b, int64_t anchor, gf_similarity_profile *p) {
    const int64_t n = b->others->n;
    *p = (gf_similarity_profile){.low = INFINITY, .high = -INFINITY};
    for (int k = 0; k < GF_GALLERY_EXAMPLES; k++) p->row[k] = -1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(b->s[i])) p->low = fmin(p->low, (double)b->s[i]), p->high = fmax(p->high, (double)b->s[i]), p->others++;
    if (!(p->high > p->low)) p->others = 0;
    for (int64_t i = 0; p->others && i < n; i++) {
        if (!isfinite(b->s[i])) continue;
        const double x = (double)b->s[i];
        const int bin = part_of(p, x, GF_GALLERY_BINS), part = part_of(p, x, GF_GALLERY_EXAMPLES);
        const double middle = p->low + (part + 0.5) / GF_GALLERY_EXAMPLES * (p->high - p->low);
        p->all[bin]++, p->same[bin] += same_label(b->rows, anchor, i);
        if (p->row[part] < 0 || fabs(x - middle) < fabs((double)p->similarity[part] - middle))
            p->row[part] = i, p->similarity[part] = b->s[i];
    }
}

/* Tries a few hundred candidates, at first with new labels alone: with a detector that flags almost nothing, the gallery has
 * fewer anchors. */
static int choose_anchors(const chooser *b, gf_gallery_anchor *out) {
    const gf_gallery_spec *g = b->g;
    const gf_view_set *s = b->rows, *o = b->others;
    int count = 0;
    for (int repeat = 0; repeat < 2; repeat++)
        for (int64_t k = 0; k < GF_MIN(s->n, 400) && count < GF_GALLERY_ANCHORS; k++) {
            const int64_t row = gf_permute(g->seed + 2, 0, s->n, k);
            int seen = 0;
            for (int i = 0; i < count; i++) seen |= out[i].row == row || (!repeat && same_label(s, out[i].row, row));
            if (seen) continue;
            gf_gallery_anchor a = {.row = row, .lambda = g->lambda ? g->lambda[row] : NAN};
            const float *z = s->z + row * s->dim;
            const double own = sqrt(dot(z, z, s->dim));
            for (int64_t i = 0; i < o->n; i++) {
                const float *x = o->z + i * s->dim;
                b->s[i] = i == row ? NAN : (float)(dot(z, x, s->dim) / (own * sqrt(dot(x, x, s->dim))));
            }
            for (int64_t i = 0; i < s->n; i++) b->flag[i] = b->s[i] > a.lambda; /* GloFND */
            collect_flagged(b, row, &a.by[0]);
            flag_by_batches(b, row);
            collect_flagged(b, row, &a.by[1]);
            fill_profile(b, row, &a.profile);
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
                 .rows = g->s,
                 .others = gf_view_columns(g->s),
                 .s = malloc((size_t)g->s->n * sizeof *b.s),
                 .part = malloc((size_t)spec.batch * sizeof *b.part),
                 .flag = malloc((size_t)g->s->n)};
    const int ok = b.s && b.part && b.flag;
    if (ok) *count = choose_anchors(&b, out);
    free(b.s);
    free(b.part);
    free(b.flag);
    return ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for a gallery");
}

/* ----- snapshot ----- */

typedef struct job {
    const gf_snapshot_spec *spec;
    gf_snapshot *out;
    gf_trained_run *run;
    const gf_config *config;
    const char *stage;
} job;

static void report_progress(void *user, int64_t done, int64_t total) {
    const job *j = user;
    if (j->spec->progress) j->spec->progress(j->spec->user, j->stage, done, total);
}

static int by_id(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Features (or projections of the head) of centre crops; unreadable samples are rows of zeros. */
static glofnd_status encode_samples(gf_error *err, job *j, int head, const int64_t *ids, int64_t n, gf_features *f) {
    gf_run_encoder *e = NULL;
    const gf_encode_spec spec = {.ids = ids, .id_count = n, .aligned = 1, .progress = report_progress, .user = j};
    TRY(gf_run_encoder_create(err, &(gf_run_encoder_spec){.run = j->spec->run, .head = head}, &e));
    const int64_t step = gf_run_encoder_state(e)->step, first = gf_run_encoder_state(gf_trained_run_encoder(j->run))->step;
    const glofnd_status status =
        step == first ? gf_encode_samples(err, e, j->out->data, &spec, f)
                      : gf_fail(err, GLOFND_E_IO, "%s went on training while it was read, from step %lld to %lld; call again",
                                j->spec->run, (long long)first, (long long)step);
    gf_run_encoder_free(e);
    return status;
}

/* Share of rows whose nearest other row, by cosine, has the same label. One of the two nearest may be the row itself. */
static glofnd_status neighbour_agreement(gf_error *err, const gf_features *f, int threads, double *out) {
    const gf_vectors rows = {.x = f->x, .n = f->n, .dim = f->dim};
    int64_t same = 0, labelled = 0, *best = malloc((size_t)(f->n + 1) * 2 * sizeof *best);
    FAIL_IF(err, !best, GLOFND_E_MEMORY, "no memory for neighbours");
    const glofnd_status status = gf_nearest(err, &rows, &rows, 2, &(gf_sweep_job){.threads = threads}, best);
    for (int64_t i = 0; i < f->n && status == GLOFND_OK; i++) {
        const int64_t nearest = best[2 * i] == i ? best[2 * i + 1] : best[2 * i];
        labelled += f->label[i] >= 0;
        same += f->label[i] >= 0 && nearest >= 0 && f->label[nearest] == f->label[i];
    }
    if (status == GLOFND_OK) *out = labelled ? (double)same / (double)labelled : NAN;
    free(best);
    return status;
}

static glofnd_status draw_map(gf_error *err, job *j, gf_features *f) {
    gf_snapshot *l = j->out;
    FAIL_IF(err, f->n < 3, GLOFND_E_ARGUMENT, "%lld readable samples make no map", (long long)f->n);
    l->n = f->n;
    l->label = f->label, f->label = NULL;
    l->id = malloc((size_t)f->n * sizeof *l->id);
    l->tsne = malloc((size_t)(2 * f->n) * sizeof *l->tsne);
    FAIL_IF(err, !l->id || !l->tsne, GLOFND_E_MEMORY, "no memory for a map");
    memcpy(l->id, l->set.id, (size_t)f->n * sizeof *l->id);
    return gf_tsne(err, f->x, f->n, f->dim, &(gf_tsne_spec){.threads = gf_trained_run_threads(j->run)}, l->tsne, NULL);
}

static float *alloc_values(gf_snapshot_values *v, int64_t n) {
    v->n = n;
    return v->x = malloc((size_t)n * sizeof *v->x);
}

/* Thresholds of the samples of `rows`, `views` consecutive rows each; which: side of gf_trained_run_lambda(). */
static glofnd_status find_thresholds(gf_error *err, job *j, const gf_view_set *rows, int views, int which) {
    enum { DRAWS = 4 }; /* FNC batches of each row */
    gf_snapshot_side *side = &j->out->side[which];
    const int64_t anchors = rows->n / views, batch = GF_MIN(j->config->batch, anchors);
    const gf_sweep_job sweep = {.threads = gf_trained_run_threads(j->run)};
    const double alpha = j->out->alpha;
    int64_t *id = malloc((size_t)anchors * sizeof *id);
    const int ok = id && alloc_values(&side->lambda, anchors) && alloc_values(&side->optimum, anchors) &&
                   alloc_values(&side->fnc, anchors * DRAWS * views);
    glofnd_status status = ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)anchors);
    for (int64_t i = 0; ok && i < anchors; i++) id[i] = rows->id[views * i];
    if (ok) side->learned = gf_trained_run_lambda(j->run, which, id, anchors, side->lambda.x);
    if (status == GLOFND_OK)
        status = gf_optimal_thresholds(err, rows, views, gf_view_columns(rows), alpha, &sweep, side->optimum.x);
    if (status == GLOFND_OK)
        status = gf_fnc_batch_thresholds(err, rows, views, batch, DRAWS, alpha, (uint64_t)j->config->seed, &sweep, side->fnc.x);
    if (status == GLOFND_OK) {
        side->lambda_mae = gf_threshold_error_of(side->lambda.x, side->optimum.x, anchors, 1).mae;
        side->fnc_mae = gf_threshold_error_of(side->fnc.x, side->optimum.x, anchors, views * DRAWS).mae;
    } else {
        side->optimum.n = 0;
    }
    free(id);
    return status;
}

static glofnd_status make_gallery(gf_error *err, job *j, const gf_view_set *rows, int which) {
    gf_snapshot_side *side = &j->out->side[which];
    float *lambda = malloc((size_t)(rows->n > 0 ? rows->n : 1) * sizeof *lambda);
    FAIL_IF(err, !lambda, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)rows->n);
    side->rows = rows;
    const int64_t learned = gf_trained_run_lambda(j->run, which, rows->id, rows->n, lambda);
    const gf_gallery_spec g = {
        .s = rows, .lambda = learned ? lambda : NULL, .alpha = j->out->alpha, .batch = j->config->batch, .seed = 1};
    const glofnd_status status = gf_gallery_choose(err, &g, side->anchor, &side->anchors);
    free(lambda);
    return status;
}

/* Projections of random samples, in the order of the data; only these are decoded, and readable ones are kept. */
static glofnd_status sample_set(gf_error *err, job *j, gf_view_set *s) {
    const int64_t total = j->out->total, n = GF_MIN(j->spec->samples, total);
    gf_features f = {0};
    int64_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
    FAIL_IF(err, !ids, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)n);
    for (int64_t k = 0; k < n; k++) ids[k] = gf_permute(1, 0, total, k);
    qsort(ids, (size_t)n, sizeof *ids, by_id);
    j->stage = "images";
    glofnd_status status = encode_samples(err, j, 1, ids, n, &f);
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, s, n, f.dim);
    if (status == GLOFND_OK) s->n = 0;
    for (int64_t i = 0; status == GLOFND_OK && i < f.n; i++) {
        const float *x = f.x + i * f.dim;
        int64_t k = 0;
        while (k < f.dim && x[k] == 0.0f) k++;
        if (k == f.dim) continue;
        memcpy(s->z + s->n * s->dim, x, (size_t)s->dim * sizeof *s->z);
        s->id[s->n] = ids[i], s->label[s->n++] = f.label[i];
    }
    gf_features_free(&f);
    free(ids);
    return status;
}

static glofnd_status make_snapshot(gf_error *err, job *j) {
    gf_snapshot *l = j->out;
    const gf_trained_run_spec spec = {
        .run = j->spec->run, .data = j->spec->data, .partial = 1, .progress = report_progress, .user = j};
    TRY(gf_trained_run_create(err, &spec, &j->run));
    j->config = gf_trained_run_config(j->run);
    const gf_run_state *state = gf_run_encoder_state(gf_trained_run_encoder(j->run));
    l->step = state->step;
    const char *changes = gf_trained_run_changes(j->run);
    snprintf(l->note, sizeof l->note, "%.590s%s%.200s", state->note, *state->note && *changes ? "; " : "", changes);
    l->total = gf_trained_run_info(j->run).n;
    l->alpha = (double)j->config->method.alpha;
    l->clip = j->config->task == GF_TASK_CLIP, l->seed = (uint64_t)j->config->seed, l->epochs = j->config->epochs;
    FAIL_IF(err, !(l->alpha > 0.0 && l->alpha < 1.0), GLOFND_E_OPTION, "alpha of the run is %g; it flags no pair", l->alpha);
    const char *own = gf_run_encoder_data(gf_trained_run_encoder(j->run));
    TRY(gf_dataset_open(err, j->spec->data && *j->spec->data ? j->spec->data : own, &l->data));
    TRY(sample_set(err, j, &l->set));
    gf_features features = {0};
    j->stage = "features";
    glofnd_status status = encode_samples(err, j, 0, l->set.id, l->set.n, &features);
    if (status == GLOFND_OK) {
        gf_features_unit(&features);
        status = neighbour_agreement(err, &features, gf_trained_run_threads(j->run), &l->neighbours);
    }
    if (status == GLOFND_OK) status = draw_map(err, j, &features);
    gf_features_free(&features);
    TRY(status);
    l->sides = l->clip ? 2 : 1;
    if (l->clip) {
        j->stage = "pairs";
        TRY(gf_trained_run_image_text(err, j->run, j->spec->samples, &l->image, &l->text));
        for (int s = 0; s < 2; s++) {
            const gf_view_set *rows = s ? &l->text : &l->image;
            TRY(make_gallery(err, j, rows, s));
            TRY(find_thresholds(err, j, rows, 1, s));
        }
        return GLOFND_OK;
    }
    TRY(make_gallery(err, j, &l->set, 0));
    /* As in `glofnd eval threshold`, with fewer views. */
    gf_view_set views = {0};
    j->stage = "views";
    TRY(gf_trained_run_augmented(err, j->run, GF_MIN(j->config->batch, l->total), GF_MIN(j->spec->samples, l->total), 1, &views));
    status = find_thresholds(err, j, &views, 2, 0);
    gf_view_set_free(&views);
    return status;
}

void gf_snapshot_make(const gf_snapshot_spec *spec, gf_snapshot *out) {
    gf_error err = {{0}};
    job j = {.spec = spec, .out = out, .stage = ""};
    *out = (gf_snapshot){.step = -1, .neighbours = NAN};
    for (int s = 0; s < 2; s++) out->side[s].lambda_mae = out->side[s].fnc_mae = NAN;
    const glofnd_status status = make_snapshot(&err, &j);
    out->made = status == GLOFND_OK;
    if (!out->made) snprintf(out->why, sizeof out->why, "%s", err.text[0] ? err.text : glofnd_status_text(status));
    gf_trained_run_free(j.run);
}

void gf_snapshot_free(gf_snapshot *l) {
    gf_dataset_free(l->data);
    free(l->label);
    free(l->id);
    free(l->tsne);
    for (int s = 0; s < 2; s++) free(l->side[s].lambda.x), free(l->side[s].optimum.x), free(l->side[s].fnc.x);
    gf_view_set_free(&l->set);
    gf_view_set_free(&l->image);
    gf_view_set_free(&l->text);
    *l = (gf_snapshot){0};
}
