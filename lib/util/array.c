/* array.c - see array.h. */
#include "util/array.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int gf_grow(void *pointer, size_t *capacity, size_t count, size_t bytes) {
    void *old, *grown = NULL;
    if (count <= *capacity) return 1;
    memcpy(&old, pointer, sizeof old); /* pointers to different types have no common type */
    if (count <= SIZE_MAX / 4 / bytes) grown = realloc(old, 2 * count * bytes);
    if (!grown) return 0;
    memcpy(pointer, &grown, sizeof grown);
    *capacity = 2 * count;
    return 1;
}

/* ----- order ----- */

int gf_order_int32(const void *x, const void *y) {
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

/* Quickselect with the median of three: no random numbers, so equal inputs take equal paths. */
float gf_kth_largest(float *v, int64_t n, int64_t k) {
    int64_t left = 0, right = n - 1;
    const int64_t at = k - 1;
    while (left < right) {
        const float a = v[left], b = v[left + (right - left) / 2], c = v[right];
        const float pivot = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
        int64_t i = left, j = right;
        while (i <= j) { /* Hoare: larger to the left, equal ones are split between both sides */
            while (v[i] > pivot) i++;
            while (v[j] < pivot) j--;
            if (i > j) break;
            const float smaller = v[i];
            v[i++] = v[j], v[j--] = smaller;
        }
        if (at <= j) right = j;
        else if (at >= i) left = i;
        else break;
    }
    return v[at];
}

int64_t gf_top_count(int64_t n, double alpha) {
    const int64_t count = (int64_t)ceil(alpha * (double)n * (1.0 - 1e-14));
    return count < 1 ? 1 : count;
}

void gf_quantile_place(int64_t n, int64_t copies, double alpha, int64_t *best, double *fraction) {
    const int64_t distinct = n / copies;
    const double position = (1.0 - alpha) * (double)(distinct - 1), below = floor(position);
    *best = (distinct - (int64_t)below - 1) * copies + 1; /* the first of equal ones: the next larger is another value */
    *fraction = position - below;
}

float gf_between(float *v, int64_t n, int64_t best, double fraction) {
    const float value = gf_kth_largest(v, n, best);
    if (best < 2 || fraction <= 0.0) return value;
    float next = v[0];
    for (int64_t i = 1; i < best - 1; i++) next = fminf(next, v[i]);
    return (float)((double)value + fraction * ((double)next - (double)value));
}

float gf_quantile(float *v, int64_t n, double alpha) {
    int64_t best;
    double fraction;
    gf_quantile_place(n, 1, alpha, &best, &fraction);
    return gf_between(v, n, best, fraction);
}
