/* features_scale.c - normalisation of features; see features.h. Sums in double, in the order of the rows. */
#include <math.h>
#include <stdlib.h>

#include "eval/features.h"

void gf_features_unit(gf_features *f) {
    for (int64_t i = 0; i < f->n; i++) {
        float *row = f->x + i * f->dim;
        double sum = 0.0;
        for (int64_t a = 0; a < f->dim; a++) sum += (double)row[a] * (double)row[a];
        const double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        for (int64_t a = 0; a < f->dim; a++) row[a] = (float)(scale * (double)row[a]);
    }
}

/* mean, deviation [dim] */
static void moments(const gf_features *f, double *mean, double *deviation) {
    for (int64_t a = 0; a < f->dim; a++) mean[a] = deviation[a] = 0.0;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t a = 0; a < f->dim; a++) mean[a] += (double)f->x[i * f->dim + a];
    for (int64_t a = 0; a < f->dim; a++) mean[a] /= (double)f->n;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t a = 0; a < f->dim; a++) {
            const double d = (double)f->x[i * f->dim + a] - mean[a];
            deviation[a] += d * d;
        }
    for (int64_t a = 0; a < f->dim; a++) deviation[a] = sqrt(deviation[a] / (double)f->n);
}

static void apply(gf_features *f, const double *mean, const double *deviation) {
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t a = 0; a < f->dim; a++) {
            float *x = &f->x[i * f->dim + a];
            *x = (float)(((double)*x - mean[a]) / (deviation[a] > 0.0 ? deviation[a] : 1.0));
        }
}

glofnd_status gf_features_standardise(gf_error *err, gf_features *train, gf_features *test) {
    double *mean = malloc(2 * (size_t)train->dim * sizeof *mean), *deviation = mean + train->dim;
    FAIL_IF(err, !mean, GLOFND_E_MEMORY, "no memory to standardise %lld features", (long long)train->dim);
    moments(train, mean, deviation);
    apply(train, mean, deviation);
    if (test) apply(test, mean, deviation);
    free(mean);
    return GLOFND_OK;
}
