/* associations.c - see associations.h. */
#include "eval/associations.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/zeroshot.h"

static double similarity(const float *a, const float *b, int64_t dim) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Number of candidates that come before candidate i. */
static int64_t rank_of(const double *score, int64_t n, int64_t i) {
    int64_t rank = 0;
    for (int64_t k = 0; k < n; k++) rank += score[k] > score[i] || (score[k] == score[i] && k < i);
    return rank;
}

/* Jaccard index of the associated candidates and as many of the most similar. */
static double jaccard(const uint8_t *associated, const double *score, int64_t n) {
    int64_t count = 0, both = 0;
    for (int64_t i = 0; i < n; i++) count += associated[i];
    for (int64_t i = 0; i < n; i++) both += associated[i] && rank_of(score, n, i) < count;
    return (double)both / (double)(2 * count - both);
}

void gf_associations_score(const gf_winogavil *w, const float *image, const float *cue, int64_t dim, gf_associations *out) {
    double score[256];
    *out = (gf_associations){.instances = w->cue.n, .images = w->image.n, .unreadable = out->unreadable};
    for (int64_t k = 0; k < w->cue.n; k++) {
        const int64_t first = w->first[k], n = w->first[k + 1] - first < 256 ? w->first[k + 1] - first : 256;
        for (int64_t i = 0; i < n; i++) score[i] = similarity(image + (int64_t)w->candidate[first + i] * dim, cue + k * dim, dim);
        const double x = jaccard(w->associated + first, score, n);
        out->all += x;
        if (n <= 6) out->few += x, out->few_n++;
        if (n >= 10) out->many += x, out->many_n++;
    }
    out->all /= (double)out->instances;
    out->few = out->few_n ? out->few / (double)out->few_n : NAN;
    out->many = out->many_n ? out->many / (double)out->many_n : NAN;
}

void gf_association_prompt(const char *cue, char *out, size_t bytes) {
    const int n = snprintf(out, bytes, "%s %s", strchr("aeiou", tolower((unsigned char)cue[0])) && cue[0] ? "An" : "A", cue);
    for (size_t i = 1; n > 0 && i < bytes && out[i]; i++) out[i] = (char)tolower((unsigned char)out[i]);
}

/* Rows scaled to length 1, at the positions of their images; images that cannot be read have zeros. */
static glofnd_status place_rows(gf_error *err, gf_features *f, int64_t images, float **out) {
    *out = calloc((size_t)images * (size_t)f->dim, sizeof **out);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld embeddings", (long long)images);
    gf_features_unit(f);
    for (int64_t i = 0; i < f->n; i++) memcpy(*out + f->label[i] * f->dim, f->x + i * f->dim, (size_t)f->dim * sizeof **out);
    return GLOFND_OK;
}

static glofnd_status encode_images(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *report,
                                   gf_associations *out, float **rows) {
    const int64_t n = gf_dataset_describe(data).n;
    gf_features f = {0};
    int64_t *id = malloc((size_t)n * sizeof *id);
    int32_t *position = malloc((size_t)n * sizeof *position);
    glofnd_status status = id && position ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld images", (long long)n);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) id[i] = i, position[i] = (int32_t)i;
    const gf_encode_spec spec = {.ids = id,
                                 .id_count = n,
                                 .labels = position,
                                 .unreadable = report->unreadable,
                                 .progress = report->progress,
                                 .user = report->user};
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, data, &spec, &f);
    if (status == GLOFND_OK) status = place_rows(err, &f, n, rows);
    out->unreadable = n - f.n;
    gf_features_free(&f);
    free(id);
    free(position);
    return status;
}

/* One row per cue. */
static glofnd_status encode_cues(gf_error *err, gf_run_encoder *e, const gf_winogavil *w, float **rows) {
    gf_prompts p = {0};
    char text[1024];
    glofnd_status status = gf_string_list_add(err, &p.templates, "{}", 2);
    for (int64_t i = 0; i < w->cue.n && status == GLOFND_OK; i++) {
        gf_association_prompt(gf_string_list_get(&w->cue, i), text, sizeof text);
        status = gf_string_list_add(err, &p.classes, text, strlen(text));
    }
    if (status == GLOFND_OK) status = gf_zeroshot_classifier(err, e, &p, rows);
    gf_prompts_free(&p);
    return status;
}

static glofnd_status run(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const gf_dataset *data,
                         const gf_winogavil *w, const gf_encode_spec *report, gf_associations *out) {
    float *images = NULL, *cues = NULL;
    FAIL_IF(err, gf_dataset_describe(data).n != w->image.n, GLOFND_E_FORMAT, "the table of WinoGAViL has changed");
    glofnd_status status = encode_images(err, image, data, report, out, &images);
    if (status == GLOFND_OK) status = encode_cues(err, text, w, &cues);
    if (status == GLOFND_OK) gf_associations_score(w, images, cues, gf_run_encoder_dim(image), out);
    free(images);
    free(cues);
    return status;
}

glofnd_status gf_associations_run(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const char *spec,
                                  const gf_encode_spec *report, gf_associations *out) {
    gf_dataset *data = NULL;
    gf_winogavil w = {0};
    *out = (gf_associations){0};
    glofnd_status status = gf_dataset_open(err, spec, &data);
    if (status == GLOFND_OK) status = gf_winogavil_read(err, gf_dataset_root(data), &w);
    if (status == GLOFND_OK) status = run(err, image, text, data, &w, report, out);
    gf_winogavil_free(&w);
    gf_dataset_free(data);
    return status;
}
