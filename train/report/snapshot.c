/* snapshot.c - see snapshot.h. */
#include "report/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/encode.h"
#include "eval/detector_thresholds.h"
#include "eval/run_captions.h"
#include "eval/run_embeddings.h"
#include "eval/threshold_error.h"
#include "pairs/nearest.h"
#include "plot/pca.h"
#include "plot/tsne.h"
#include "util/array.h"
#include "util/rng.h"

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

/* ----- samples ----- */

/* Features (or projections of the head) of centre crops; unreadable samples are rows of zeros. */
static glofnd_status encode(gf_error *err, job *j, int head, const int64_t *ids, int64_t n, gf_features *f) {
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

static int is_zero(const float *x, int64_t n) {
    int64_t k = 0;
    while (k < n && x[k] == 0.0f) k++;
    return k == n;
}

/* Keeps the readable samples. */
static void take_rows(const gf_features *f, const int64_t *ids, gf_view_set *s) {
    s->n = 0;
    for (int64_t i = 0; i < f->n; i++) {
        if (is_zero(f->x + i * f->dim, f->dim)) continue;
        memcpy(s->z + s->n * s->dim, f->x + i * f->dim, (size_t)s->dim * sizeof *s->z);
        s->id[s->n] = ids[i], s->label[s->n++] = f->label[i];
    }
}

/* Projections of random samples, in the order of the data; only these are decoded. */
static glofnd_status make_set(gf_error *err, job *j) {
    gf_snapshot *l = j->out;
    const int64_t n = GF_MIN(j->spec->samples, l->total);
    gf_features f = {0};
    int64_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
    FAIL_IF(err, !ids, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)n);
    for (int64_t k = 0; k < n; k++) ids[k] = gf_permute(1, 0, l->total, k);
    qsort(ids, (size_t)n, sizeof *ids, by_id);
    j->stage = "images";
    glofnd_status status = encode(err, j, 1, ids, n, &f);
    if (status == GLOFND_OK) status = gf_view_set_alloc(err, &l->set, n, f.dim);
    if (status == GLOFND_OK) take_rows(&f, ids, &l->set);
    gf_features_free(&f);
    free(ids);
    return status;
}

/* ----- map ----- */

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
    l->pca = malloc((size_t)(2 * f->n) * sizeof *l->pca);
    FAIL_IF(err, !l->id || !l->tsne || !l->pca, GLOFND_E_MEMORY, "no memory for a map");
    memcpy(l->id, l->set.id, (size_t)f->n * sizeof *l->id);
    TRY(gf_pca(err, f->x, f->n, f->dim, l->pca, l->pca_share));
    return gf_tsne(err, f->x, f->n, f->dim, &(gf_tsne_spec){.threads = gf_trained_run_threads(j->run)}, l->tsne, NULL);
}

/* Features of the samples of the gallery. */
static glofnd_status make_map(gf_error *err, job *j) {
    gf_snapshot *l = j->out;
    gf_features f = {0};
    j->stage = "features";
    glofnd_status status = encode(err, j, 0, l->set.id, l->set.n, &f);
    if (status == GLOFND_OK) {
        gf_features_unit(&f);
        status = neighbour_agreement(err, &f, gf_trained_run_threads(j->run), &l->neighbours);
    }
    if (status == GLOFND_OK) status = draw_map(err, j, &f);
    gf_features_free(&f);
    return status;
}

/* ----- thresholds ----- */

enum { DRAWS = 4 }; /* FNC batches of each row */

static float *values(gf_snapshot_values *v, int64_t n) {
    v->n = n;
    return v->x = malloc((size_t)n * sizeof *v->x);
}

/* Thresholds of the samples of `rows`, `views` consecutive rows each; which: side of gf_trained_run_lambda(). */
static glofnd_status find_thresholds(gf_error *err, job *j, const gf_view_set *rows, int views, int which) {
    gf_snapshot_side *side = &j->out->side[which];
    const int64_t anchors = rows->n / views, batch = GF_MIN(j->config->batch, anchors);
    const gf_sweep_job sweep = {.threads = gf_trained_run_threads(j->run)};
    const double alpha = j->out->alpha;
    int64_t *id = malloc((size_t)anchors * sizeof *id);
    const int ok =
        id && values(&side->lambda, anchors) && values(&side->optimum, anchors) && values(&side->fnc, anchors * DRAWS * views);
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

/* As in `glofnd eval threshold`, with fewer views. */
static glofnd_status make_thresholds(gf_error *err, job *j) {
    const int64_t n = j->out->total, batch = GF_MIN(j->config->batch, n);
    gf_view_set views = {0};
    j->stage = "views";
    TRY(gf_trained_run_augmented(err, j->run, batch, GF_MIN(j->spec->samples, n), 1, &views));
    const glofnd_status status = find_thresholds(err, j, &views, 2, 0);
    gf_view_set_free(&views);
    return status;
}

/* ----- gallery ----- */

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

/* ----- snapshot ----- */

static glofnd_status make_sides(gf_error *err, job *j) {
    gf_snapshot *l = j->out;
    l->sides = l->clip ? 2 : 1;
    if (!l->clip) {
        TRY(make_gallery(err, j, &l->set, 0));
        return make_thresholds(err, j);
    }
    j->stage = "pairs";
    TRY(gf_trained_run_image_text(err, j->run, j->spec->samples, &l->image, &l->text));
    for (int s = 0; s < 2; s++) {
        const gf_view_set *rows = s ? &l->text : &l->image;
        TRY(make_gallery(err, j, rows, s));
        TRY(find_thresholds(err, j, rows, 1, s));
    }
    return GLOFND_OK;
}

static glofnd_status make(gf_error *err, job *j) {
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
    TRY(make_set(err, j));
    TRY(make_map(err, j));
    return make_sides(err, j);
}

void gf_snapshot_make(const gf_snapshot_spec *spec, gf_snapshot *out) {
    gf_error err = {{0}};
    job j = {.spec = spec, .out = out, .stage = ""};
    *out = (gf_snapshot){.step = -1, .neighbours = NAN};
    for (int s = 0; s < 2; s++) out->side[s].lambda_mae = out->side[s].fnc_mae = NAN;
    const glofnd_status status = make(&err, &j);
    out->made = status == GLOFND_OK;
    if (!out->made) snprintf(out->why, sizeof out->why, "%s", err.text[0] ? err.text : glofnd_status_text(status));
    gf_trained_run_free(j.run);
}

void gf_snapshot_free(gf_snapshot *l) {
    gf_dataset_free(l->data);
    free(l->label);
    free(l->id);
    free(l->tsne);
    free(l->pca);
    for (int s = 0; s < 2; s++) free(l->side[s].lambda.x), free(l->side[s].optimum.x), free(l->side[s].fnc.x);
    gf_view_set_free(&l->set);
    gf_view_set_free(&l->image);
    gf_view_set_free(&l->text);
    *l = (gf_snapshot){0};
}
