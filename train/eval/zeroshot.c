/* zeroshot.c - see zeroshot.h. */
#include "eval/zeroshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/nearest.h"

enum { PART = 512 }; /* prompts encoded at a time, but at least those of one class */

/* ----- classes ----- */

/* sum += x / |x|; zeros add nothing. */
static void add_unit(double *sum, const float *x, int64_t dim) {
    double square = 0.0;
    for (int64_t i = 0; i < dim; i++) square += (double)x[i] * (double)x[i];
    const double scale = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    for (int64_t i = 0; i < dim; i++) sum[i] += scale * (double)x[i];
}

/* sum: scratch [dim]. */
static void average_class(const float *z, int64_t templates, int64_t dim, double *sum, float *out) {
    double square = 0.0;
    for (int64_t i = 0; i < dim; i++) sum[i] = 0.0;
    for (int64_t t = 0; t < templates; t++) add_unit(sum, z + t * dim, dim);
    for (int64_t i = 0; i < dim; i++) square += sum[i] * sum[i];
    for (int64_t i = 0; i < dim; i++) out[i] = square > 0.0 ? (float)(sum[i] / sqrt(square)) : 0.0f;
}

glofnd_status gf_zeroshot_average(gf_error *err, const float *z, int64_t classes, int64_t templates, int64_t dim, float *out) {
    double *sum = malloc((size_t)dim * sizeof *sum);
    FAIL_IF(err, !sum, GLOFND_E_MEMORY, "no memory for an embedding of %lld numbers", (long long)dim);
    for (int64_t c = 0; c < classes; c++) average_class(z + c * templates * dim, templates, dim, sum, out + c * dim);
    free(sum);
    return GLOFND_OK;
}

typedef struct encoding {
    gf_error *err;
    gf_run_encoder *e;
    const gf_prompts *p;
    gf_bpe_scratch scratch;
    int64_t part;   /* classes at a time */
    int32_t *token; /* [part][templates][context] */
    float *z;       /* [part][templates][dim] */
    float *out;     /* [classes][dim] */
} encoding;

static glofnd_status write_tokens(encoding *x, int64_t c, int64_t t, int32_t *token) {
    char text[2 * GF_PROMPT_MAX];
    int count;
    const char *name = gf_string_list_get(&x->p->classes, c);
    const size_t n = gf_prompt_fill(gf_string_list_get(&x->p->templates, t), name, text, sizeof text);
    FAIL_IF(x->err, n >= sizeof text, GLOFND_E_FORMAT, "a prompt of class %lld, '%.60s', has more than %zu bytes", (long long)c,
            name, sizeof text - 1);
    return gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, text, n, gf_run_encoder_config(x->e)->context,
                         token, &count);
}

static glofnd_status encode_part(encoding *x, int64_t first, int64_t classes) {
    const int64_t templates = x->p->templates.n, dim = gf_run_encoder_dim(x->e), context = gf_run_encoder_config(x->e)->context;
    for (int64_t i = 0; i < classes * templates; i++)
        TRY(write_tokens(x, first + i / templates, i % templates, x->token + i * context));
    TRY(gf_run_encoder_tokens(x->err, x->e, x->token, classes * templates, x->z));
    return gf_zeroshot_average(x->err, x->z, classes, templates, dim, x->out + first * dim);
}

static glofnd_status encode_classes(encoding *x) {
    const int64_t classes = x->p->classes.n, dim = gf_run_encoder_dim(x->e);
    const size_t prompts = (size_t)(x->part * x->p->templates.n);
    x->token = malloc(prompts * (size_t)gf_run_encoder_config(x->e)->context * sizeof *x->token);
    x->z = malloc(prompts * (size_t)dim * sizeof *x->z);
    x->out = malloc((size_t)(classes * dim) * sizeof *x->out);
    FAIL_IF(x->err, !x->token || !x->z || !x->out, GLOFND_E_MEMORY, "no memory for the prompts of %lld classes",
            (long long)classes);
    for (int64_t c = 0; c < classes; c += x->part) TRY(encode_part(x, c, classes - c < x->part ? classes - c : x->part));
    return GLOFND_OK;
}

glofnd_status gf_zeroshot_classifier(gf_error *err, gf_run_encoder *text, const gf_prompts *p, float **out) {
    encoding x = {.err = err, .e = text, .p = p};
    *out = NULL;
    FAIL_IF(err, p->classes.n < 1 || p->templates.n < 1, GLOFND_E_ARGUMENT, "no class or no template");
    x.part = p->templates.n < PART ? PART / p->templates.n : 1;
    if (x.part > p->classes.n) x.part = p->classes.n;
    const glofnd_status status = encode_classes(&x);
    gf_bpe_scratch_free(&x.scratch);
    free(x.token);
    free(x.z);
    if (status == GLOFND_OK) *out = x.out;
    else free(x.out);
    return status;
}

/* ----- scores ----- */

static glofnd_status check(gf_error *err, const gf_features *images, int64_t classes) {
    int64_t labelled = 0;
    for (int64_t i = 0; i < images->n; i++) {
        labelled += images->label[i] >= 0;
        FAIL_IF(err, images->label[i] >= classes, GLOFND_E_ARGUMENT, "an image has label %d; there are names for %lld classes",
                (int)images->label[i], (long long)classes);
    }
    FAIL_IF(err, labelled == 0, GLOFND_E_ARGUMENT, "no image has a label");
    return GLOFND_OK;
}

/* Place of the label among the k best; k: not there. */
static int place_of(const int64_t *best, int k, int32_t label) {
    int place = 0;
    while (place < k && best[place] != label) place++;
    return place;
}

/* best [n][k]; right, all, chosen: zeroed scratch [classes]. */
static void score(const gf_features *images, const int64_t *best, int k, int64_t *right, int64_t *all, int64_t *chosen,
                  gf_zeroshot *out) {
    for (int64_t i = 0; i < images->n; i++) {
        const int32_t label = images->label[i];
        if (label < 0) continue;
        const int place = place_of(best + i * k, k, label);
        all[label]++;
        right[label] += place == 0;
        if (best[i * k] >= 0) chosen[best[i * k]]++;
        out->n++;
        out->top1 += place == 0;
        out->top5 += place < k;
    }
    for (int64_t c = 0; c < out->classes; c++) {
        out->seen += all[c] > 0;
        if (all[c]) out->per_class += (double)right[c] / (double)all[c];
        if (all[c]) out->macro_f1 += 2.0 * (double)right[c] / (double)(all[c] + chosen[c]);
    }
    out->top1 /= (double)out->n;
    out->top5 /= (double)out->n;
    out->per_class /= (double)out->seen;
    out->macro_f1 /= (double)out->seen;
}

typedef struct group_count {
    int64_t n, top1, top5;
} group_count;

static glofnd_status score_groups(gf_error *err, const gf_features *images, const int64_t *best, int k,
                                  const gf_zeroshot_groups *groups, gf_zeroshot *out) {
    int32_t max = -1;
    out->worst_group = out->worst_group5 = NAN;
    for (int64_t i = 0; groups && i < images->n; i++) max = groups->group[i] > max ? groups->group[i] : max;
    group_count *count = calloc((size_t)max + 2, sizeof *count);
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for %d groups", (int)max + 1);
    for (int64_t i = 0; groups && i < images->n; i++) {
        const int32_t g = groups->group[i];
        if (g < 0 || g == groups->left_out || images->label[i] < 0) continue;
        const int place = place_of(best + i * k, k, images->label[i]);
        count[g].n++;
        count[g].top1 += place == 0;
        count[g].top5 += place < k;
    }
    for (int32_t g = 0; g <= max; g++) {
        if (count[g].n == 0) continue;
        out->groups++;
        out->worst_group = fmin(out->worst_group, (double)count[g].top1 / (double)count[g].n); /* fmin skips NaN */
        out->worst_group5 = fmin(out->worst_group5, (double)count[g].top5 / (double)count[g].n);
    }
    free(count);
    return GLOFND_OK;
}

glofnd_status gf_zeroshot_score_groups(gf_error *err, const gf_features *images, const gf_zeroshot_groups *groups,
                                       const float *classifier, int64_t classes, const gf_sweep_job *job, gf_zeroshot *out) {
    enum { K = 5 };
    const gf_vectors rows = {.x = images->x, .n = images->n, .dim = images->dim, .name = "embedding of image"},
                     cols = {.x = classifier, .n = classes, .dim = images->dim, .name = "embedding of class"};
    const gf_sweep_job stage = gf_sweep_stage(job, "classes");
    *out = (gf_zeroshot){.classes = classes};
    TRY(check(err, images, classes));
    int64_t *best = malloc((size_t)images->n * K * sizeof *best), *counts = calloc(3 * (size_t)classes, sizeof *counts);
    glofnd_status status = best && counts ? gf_nearest(err, &rows, &cols, K, &stage, best)
                                          : gf_fail(err, GLOFND_E_MEMORY, "no memory to classify images");
    if (status == GLOFND_OK) score(images, best, K, counts, counts + classes, counts + 2 * classes, out);
    if (status == GLOFND_OK) status = score_groups(err, images, best, K, groups, out);
    free(best);
    free(counts);
    return status;
}

glofnd_status gf_zeroshot_score(gf_error *err, const gf_features *images, const float *classifier, int64_t classes,
                                const gf_sweep_job *job, gf_zeroshot *out) {
    return gf_zeroshot_score_groups(err, images, NULL, classifier, classes, job, out);
}
