/* linear_eval.c - see linear_eval.h. Shares are drawn from the dataset's labels, so that only the samples of the largest
 * share are decoded. */
#include "eval/linear_eval.h"

#include <stdlib.h>
#include <string.h>

#include "eval/stratified_sample.h"

struct gf_linear_eval {
    gf_linear_eval_spec spec;
    gf_samples labelled; /* shares are drawn from these: training samples without the validation samples */
    gf_samples pool;     /* the largest share */
    gf_features *pass;   /* [passes] features of the pool */
    int64_t passes;
    gf_features test, validation;
    /* of the current share */
    gf_samples drawn;
    int64_t *rows, row_count; /* rows of a pass */
    gf_features fresh;        /* GF_AUGMENT_EVERY_EPOCH: features of this epoch */
    double share;
    int64_t epochs;
};

/* ----- drawing ----- */

static glofnd_status draw(gf_error *err, const gf_linear_eval *l, double share, int32_t *raised, gf_samples *out) {
    gf_stratified_sample d = {.share = share, .seed = l->spec.seed, .stream = GF_STRATIFIED_LABELS, .at_least_one = 1};
    uint8_t *chosen = malloc((size_t)l->labelled.n + 1);
    FAIL_IF(err, !chosen, GLOFND_E_MEMORY, "no memory to draw from %lld samples", (long long)l->labelled.n);
    glofnd_status status = gf_stratified_draw(err, &d, l->labelled.label, l->labelled.n, chosen);
    if (status == GLOFND_OK) status = gf_samples_choose(err, &l->labelled, chosen, 1, out);
    *raised = d.raised;
    free(chosen);
    return status;
}

/* ----- features ----- */

static glofnd_status take_rows(gf_error *err, const gf_features *from, const gf_samples *s, gf_features *out) {
    TRY(gf_features_alloc(err, out, s->n, from->dim));
    for (int64_t i = 0; i < s->n; i++) {
        memcpy(out->x + i * from->dim, from->x + s->id[i] * from->dim, (size_t)from->dim * sizeof *out->x);
        out->label[i] = s->label[i];
    }
    return GLOFND_OK;
}

static glofnd_status encode(gf_error *err, gf_linear_eval *l, const gf_samples *s, int augmented, int64_t epoch, int aligned,
                            gf_features *out) {
    const gf_encode_spec spec = {
        .ids = s->id,
        .id_count = s->n,
        .labels = s->label,
        .augmented = augmented,
        .seed = l->spec.seed,
        .epoch = (uint32_t)epoch,
        .aligned = aligned,
        .unreadable = l->spec.unreadable,
        .progress = l->spec.encoding,
        .user = l->spec.user,
    };
    if (!l->spec.encoder) return take_rows(err, s == &l->spec.split->test ? l->spec.test : l->spec.train, s, out);
    return gf_encode_samples(err, l->spec.encoder, s->data, &spec, out);
}

static glofnd_status encode_passes(gf_error *err, gf_linear_eval *l, double largest) {
    const int64_t passes = l->spec.augment > 0 ? l->spec.augment : 1;
    int32_t raised;
    if (l->spec.augment == GF_AUGMENT_EVERY_EPOCH) return GLOFND_OK;
    TRY(draw(err, l, largest, &raised, &l->pool));
    if (l->pool.n == 0) return GLOFND_OK;
    l->pass = calloc((size_t)passes, sizeof *l->pass);
    FAIL_IF(err, !l->pass, GLOFND_E_MEMORY, "no memory for %lld passes", (long long)passes);
    for (; l->passes < passes; l->passes++) TRY(encode(err, l, &l->pool, l->spec.augment > 0, l->passes, 1, &l->pass[l->passes]));
    return GLOFND_OK;
}

static glofnd_status open_eval(gf_error *err, gf_linear_eval *l, double largest) {
    const gf_split *split = l->spec.split;
    gf_samples held = {0};
    uint8_t *all = malloc((size_t)split->train.n + 1);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)split->train.n);
    for (int64_t i = 0; i < split->train.n; i++) all[i] = 1;
    glofnd_status status = gf_samples_choose(err, &split->train, all, 1, &l->labelled);
    free(all);
    if (status == GLOFND_OK && l->spec.validation > 0.0) {
        status = gf_samples_hold_out(err, &l->labelled, l->spec.validation, l->spec.seed, GF_STRATIFIED_VALIDATION, &held);
        if (status == GLOFND_OK) status = encode(err, l, &held, 0, 0, 0, &l->validation);
        gf_samples_free(&held);
    }
    if (status == GLOFND_OK) status = encode(err, l, &split->test, 0, 0, 0, &l->test);
    return status == GLOFND_OK ? encode_passes(err, l, largest) : status;
}

glofnd_status gf_linear_eval_create(gf_error *err, const gf_linear_eval_spec *spec, double largest, gf_linear_eval **out) {
    *out = NULL;
    FAIL_IF(err, spec->augment < GF_AUGMENT_EVERY_EPOCH, GLOFND_E_OPTION,
            "augment is %lld passes; expected 0 or more, or every epoch", (long long)spec->augment);
    FAIL_IF(err, !(spec->validation >= 0.0 && spec->validation < 1.0), GLOFND_E_OPTION,
            "validation is %g; expected a number in [0, 1)", spec->validation);
    gf_linear_eval *l = calloc(1, sizeof *l);
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory for linear evaluation");
    l->spec = *spec;
    const glofnd_status status = open_eval(err, l, largest);
    if (status == GLOFND_OK) *out = l;
    else gf_linear_eval_free(l);
    return status;
}

static void end_share(gf_linear_eval *l) {
    gf_samples_free(&l->drawn);
    gf_features_free(&l->fresh);
    free(l->rows);
    l->rows = NULL;
    l->row_count = 0;
}

void gf_linear_eval_free(gf_linear_eval *l) {
    if (!l) return;
    end_share(l);
    for (int64_t i = 0; i < l->passes; i++) gf_features_free(&l->pass[i]);
    free(l->pass);
    gf_features_free(&l->test);
    gf_features_free(&l->validation);
    gf_samples_free(&l->labelled);
    gf_samples_free(&l->pool);
    free(l);
}

/* ----- a share ----- */

/* 1: a row of the pool was readable in every pass; where it was not it has no label. */
static int is_readable(const gf_linear_eval *l, int64_t row) {
    for (int64_t k = 0; k < l->passes; k++)
        if (l->pass[k].label[row] < 0) return 0;
    return 1;
}

/* Rows of the drawn samples in a pass; both lists are sorted. */
static glofnd_status find_rows(gf_error *err, gf_linear_eval *l) {
    l->rows = malloc((size_t)(l->drawn.n + 1) * sizeof *l->rows);
    FAIL_IF(err, !l->rows, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)l->drawn.n);
    for (int64_t i = 0, at = 0; i < l->drawn.n && at < l->pool.n; i++) {
        while (at < l->pool.n && l->pool.id[at] < l->drawn.id[i]) at++;
        if (at < l->pool.n && l->pool.id[at] == l->drawn.id[i] && is_readable(l, at)) l->rows[l->row_count++] = at;
    }
    return GLOFND_OK;
}

static glofnd_status epoch_rows(gf_error *err, void *user, int64_t epoch, gf_probe_rows *out) {
    gf_linear_eval *l = user;
    if (l->spec.augment != GF_AUGMENT_EVERY_EPOCH) {
        *out = (gf_probe_rows){.f = &l->pass[epoch % l->passes], .rows = l->rows, .n = l->row_count};
        return GLOFND_OK;
    }
    gf_features_free(&l->fresh);
    TRY(encode(err, l, &l->drawn, 1, epoch, 0, &l->fresh));
    *out = (gf_probe_rows){.f = &l->fresh, .n = l->fresh.n};
    return GLOFND_OK;
}

static void report_epoch(void *user, int64_t done, double score) {
    const gf_linear_eval *l = user;
    if (l->spec.training) l->spec.training(l->spec.user, l->share, done, l->epochs, score);
}

static glofnd_status run(gf_error *err, gf_linear_eval *l, gf_linear_result *out) {
    TRY(draw(err, l, l->share, &out->raised, &l->drawn));
    out->samples = l->drawn.n;
    out->epochs = l->epochs = l->spec.epochs > 0 ? l->spec.epochs : gf_probe_epochs(l->share);
    if (l->spec.augment != GF_AUGMENT_EVERY_EPOCH) TRY(find_rows(err, l));
    out->probe = (gf_probe){
        .protocol = l->spec.protocol,
        .classes = l->spec.split->classes,
        .epochs = l->epochs,
        .seed = l->spec.seed,
        .threads = l->spec.threads,
        .epoch = epoch_rows,
        .progress = report_epoch,
        .user = l,
        .test = &l->test,
        .validation = l->validation.n ? &l->validation : NULL,
    };
    return gf_probe_fit(err, &out->probe);
}

glofnd_status gf_linear_eval_run(gf_error *err, gf_linear_eval *l, double share, gf_linear_result *out) {
    *out = (gf_linear_result){0};
    l->share = share;
    const glofnd_status status = run(err, l, out);
    end_share(l);
    return status;
}
