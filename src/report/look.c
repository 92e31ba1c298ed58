/* look.c - see look.h. */
#include "report/look.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/encode.h"
#include "eval/fn_quality_views.h"
#include "eval/threshold_quality.h"
#include "report/pca.h"
#include "report/tsne.h"
#include "train/trainer.h"

typedef struct job {
    const gf_look_spec *spec;
    gf_look *out;
    gf_frozen *frozen;
    const gf_config *config;
    const char *stage;
} job;

static void tell(void *user, int64_t done, int64_t total) {
    const job *j = user;
    if (j->spec->progress) j->spec->progress(j->spec->user, j->stage, done, total);
}

static int by_number(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* ----- the map ----- */

/* Share of rows whose nearest other row, by cosine, has the same label; rows are of length 1. */
static double neighbours_alike(const gf_features *f) {
    int64_t alike = 0, labelled = 0;
    for (int64_t i = 0; i < f->n; i++) {
        int64_t nearest = -1;
        float most = -2.0f;
        if (f->label[i] < 0) continue;
        for (int64_t j = 0; j < f->n; j++) {
            float s = 0.0f;
            for (int64_t k = 0; k < f->dim; k++) s += f->x[i * f->dim + k] * f->x[j * f->dim + k];
            if (j != i && s > most) most = s, nearest = j;
        }
        labelled++;
        alike += nearest >= 0 && f->label[nearest] == f->label[i];
    }
    return labelled ? (double)alike / (double)labelled : NAN;
}

static glofnd_status draw_map(gf_error *err, job *j, gf_features *f) {
    gf_look *l = j->out;
    FAIL_IF(err, f->n < 3, GLOFND_E_ARGUMENT, "%lld readable samples make no map", (long long)f->n);
    l->n = f->n;
    l->label = f->label, f->label = NULL;
    l->tsne = malloc((size_t)(2 * f->n) * sizeof *l->tsne);
    l->pca = malloc((size_t)(2 * f->n) * sizeof *l->pca);
    FAIL_IF(err, !l->tsne || !l->pca, GLOFND_E_MEMORY, "no memory for a map");
    TRY(gf_pca(err, f->x, f->n, f->dim, l->pca, l->pca_share));
    return gf_tsne(err, f->x, f->n, f->dim, &(gf_tsne_spec){.threads = gf_frozen_threads(j->frozen)}, l->tsne, NULL);
}

/* The same samples as the gallery's, by the backbone. */
static glofnd_status make_map(gf_error *err, job *j) {
    gf_look *l = j->out;
    const int64_t n = l->set.n;
    gf_encoder *e = NULL;
    gf_features f = {0};
    int64_t *ids = malloc((size_t)(n > 0 ? n : 1) * sizeof *ids);
    FAIL_IF(err, !ids, GLOFND_E_MEMORY, "no memory for a map");
    memcpy(ids, l->set.id, (size_t)n * sizeof *ids);
    qsort(ids, (size_t)n, sizeof *ids, by_number);
    j->stage = "features";
    const gf_encode_spec spec = {.ids = ids, .id_count = n, .progress = tell, .user = j};
    glofnd_status status = gf_encoder_open(err, &(gf_encoder_spec){.run = j->spec->run}, &e);
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, l->data, &spec, &f);
    if (status == GLOFND_OK) {
        gf_features_unit(&f);
        l->neighbours = neighbours_alike(&f);
        status = draw_map(err, j, &f);
    }
    gf_features_free(&f);
    gf_encoder_free(e);
    free(ids);
    return status;
}

/* ----- thresholds ----- */

static float *values(gf_look_values *v, int64_t n) {
    v->n = n;
    return v->x = malloc((size_t)n * sizeof *v->x);
}

/* As `glofnd eval threshold` has them, on fewer views. */
static glofnd_status make_thresholds(gf_error *err, job *j) {
    enum { DRAWS = 4 };
    gf_look *l = j->out;
    const int64_t n = l->total, batch = j->config->batch < n ? j->config->batch : n;
    const gf_pair_how how = {.threads = gf_frozen_threads(j->frozen)};
    gf_view_set views = {0};
    j->stage = "views";
    TRY(gf_frozen_views(err, j->frozen, batch, j->spec->samples < n ? j->spec->samples : n, 1, &views));
    const int64_t anchors = views.n / 2;
    int64_t *id = malloc((size_t)anchors * sizeof *id);
    const int room = id && values(&l->lambda, anchors) && values(&l->optimum, anchors) && values(&l->fnc, anchors * DRAWS * 2);
    glofnd_status status = room ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)anchors);
    for (int64_t i = 0; room && i < anchors; i++) id[i] = views.id[2 * i];
    if (status == GLOFND_OK) status = gf_frozen_lambda(err, j->frozen, id, anchors, l->lambda.x, &l->learned);
    if (status == GLOFND_OK) status = gf_optimal_thresholds(err, &views, 2, &views, l->alpha, &how, l->optimum.x);
    if (status == GLOFND_OK)
        status = gf_fnc_draws(err, &views, 2, batch < anchors ? batch : anchors, DRAWS, l->alpha, (uint64_t)j->config->seed, &how,
                              l->fnc.x);
    if (status == GLOFND_OK) {
        l->lambda_mae = gf_threshold_compare(l->lambda.x, l->optimum.x, anchors, 1).mae;
        l->fnc_mae = gf_threshold_compare(l->fnc.x, l->optimum.x, anchors, 2 * DRAWS).mae;
    } else {
        l->optimum.n = 0;
    }
    free(id);
    gf_view_set_free(&views);
    return status;
}

/* ----- gallery ----- */

static glofnd_status make_gallery(gf_error *err, job *j) {
    gf_look *l = j->out;
    int64_t learned = 0;
    float *lambda = malloc((size_t)(l->set.n > 0 ? l->set.n : 1) * sizeof *lambda);
    FAIL_IF(err, !lambda, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)l->set.n);
    glofnd_status status = gf_frozen_lambda(err, j->frozen, l->set.id, l->set.n, lambda, &learned);
    const gf_gallery_spec g = {.s = &l->set, .lambda = learned ? lambda : NULL, .alpha = l->alpha, .batch = j->config->batch, .seed = 1};
    if (status == GLOFND_OK) status = gf_gallery_pick(err, &g, l->anchor, &l->anchors);
    free(lambda);
    return status;
}

/* ----- all of it ----- */

static glofnd_status make(gf_error *err, job *j) {
    gf_look *l = j->out;
    const gf_frozen_spec spec = {.run = j->spec->run, .data = j->spec->data, .progress = tell, .user = j};
    gf_trainer *t = NULL;
    TRY(gf_frozen_open(err, &spec, &j->frozen));
    j->config = gf_frozen_config(j->frozen);
    l->total = gf_frozen_info(j->frozen).n;
    l->alpha = (double)j->config->method.alpha;
    FAIL_IF(err, !(l->alpha > 0.0 && l->alpha < 1.0), GLOFND_E_OPTION, "alpha of the run is %g, which flags nothing", l->alpha);
    TRY(gf_dataset_open(err, j->spec->data && *j->spec->data ? j->spec->data : j->config->data, &l->data));
    j->stage = "images";
    TRY(gf_frozen_plain(err, j->frozen, j->spec->samples, &l->set));
    TRY(make_gallery(err, j));
    TRY(make_map(err, j));
    TRY(make_thresholds(err, j));
    gf_error ignored = {{0}};
    if (gf_trainer_open(&ignored, j->config, &t) == GLOFND_OK && gf_trainer_estimate(&ignored, t, &l->memory) != GLOFND_OK) l->memory = 0;
    gf_trainer_free(t);
    return GLOFND_OK;
}

void gf_look_make(const gf_look_spec *spec, gf_look *out) {
    gf_error err = {{0}};
    job j = {.spec = spec, .out = out, .stage = ""};
    *out = (gf_look){.neighbours = NAN, .lambda_mae = NAN, .fnc_mae = NAN};
    const glofnd_status status = make(&err, &j);
    out->made = status == GLOFND_OK;
    if (!out->made) snprintf(out->why, sizeof out->why, "%s", err.text[0] ? err.text : glofnd_status_text(status));
    gf_frozen_free(j.frozen);
}

void gf_look_free(gf_look *l) {
    gf_dataset_free(l->data);
    free(l->label);
    free(l->tsne);
    free(l->pca);
    free(l->lambda.x);
    free(l->optimum.x);
    free(l->fnc.x);
    gf_view_set_free(&l->set);
    *l = (gf_look){0};
}
