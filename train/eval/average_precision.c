/* average_precision.c - see average_precision.h. */
#include "eval/average_precision.h"

#include <math.h>
#include <stdlib.h>

typedef struct ranked {
    double score;
    int64_t i;
    int positive;
} ranked;

static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

/* Largest precision at each of the eleven recalls. 10 right >= step positives: no rounding of a recall. */
static double eleven_points(const ranked *list, int64_t n, int64_t positives) {
    double best[11] = {0}, sum = 0.0;
    int64_t right = 0;
    for (int64_t i = 0; i < n; i++) {
        right += list[i].positive;
        const double precision = (double)right / (double)(i + 1);
        for (int step = 0; step <= 10 && 10 * right >= step * positives; step++) best[step] = fmax(best[step], precision);
    }
    for (int step = 0; step <= 10; step++) sum += best[step];
    return sum / 11.0;
}

glofnd_status gf_average_precision11(gf_error *err, const double *score, const uint8_t *positive, int64_t n, double *out) {
    int64_t count = 0, positives = 0;
    ranked *list = malloc(((size_t)n + 1) * sizeof *list);
    FAIL_IF(err, !list, GLOFND_E_MEMORY, "no memory to rank %lld images", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (positive[i] > 1) continue;
        positives += positive[i];
        list[count++] = (ranked){score[i], i, positive[i]};
    }
    qsort(list, (size_t)count, sizeof *list, by_score);
    *out = positives ? eleven_points(list, count, positives) : NAN;
    free(list);
    return GLOFND_OK;
}
