/* sample.c - see sample.h. */
#include "support/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/die.h"

#define CLUSTERS 100 /* as classes in a usual dataset: about one negative in a hundred is false */

uint64_t sample_random(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static float normal(uint64_t *state) {
    const double u = ((double)(sample_random(state) >> 11) + 0.5) * 0x1p-53, v = (double)(sample_random(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

static void *array(int64_t count, size_t size) {
    void *at = calloc((size_t)count, size);
    if (!at) die("no memory for a batch");
    return at;
}

static void reserve(sample *s, int64_t batch, int64_t dim) {
    s->a = array(batch * dim, sizeof *s->a), s->b = array(batch * dim, sizeof *s->b);
    s->id = array(batch, sizeof *s->id), s->label = array(batch, sizeof *s->label);
    s->q = (glofnd_batch){.size = sizeof s->q, .n = batch, .dim = dim, .a = s->a, .b = s->b, .id = s->id, .label = s->label};
}

/* A sample is half a cluster's centre and noise; a view is the sample and half as much noise again. */
void sample_init(sample *s, int64_t batch, int64_t dim) {
    uint64_t state = 1;
    float *centre = array(CLUSTERS * dim, sizeof *centre);
    reserve(s, batch, dim);
    for (int64_t j = 0; j < CLUSTERS * dim; j++) centre[j] = normal(&state);
    for (int64_t i = 0; i < batch; i++) {
        s->id[i] = i;
        s->label[i] = (int32_t)(sample_random(&state) % CLUSTERS);
        for (int64_t j = 0; j < dim; j++) {
            const float x = 0.5f * centre[s->label[i] * dim + j] + normal(&state);
            s->a[i * dim + j] = x + 0.5f * normal(&state);
            s->b[i * dim + j] = x + 0.5f * normal(&state);
        }
    }
    free(centre);
}

void sample_free(sample *s) {
    free(s->a), free(s->b), free(s->id), free(s->label);
    *s = (sample){0};
}

void sample_pick(sample *to, const sample *from, const int64_t *order) {
    const int64_t dim = from->q.dim;
    for (int64_t i = 0; i < to->q.n; i++) {
        memcpy(to->a + i * dim, from->a + order[i] * dim, sizeof(float) * (size_t)dim);
        memcpy(to->b + i * dim, from->b + order[i] * dim, sizeof(float) * (size_t)dim);
        to->id[i] = from->id[order[i]];
        to->label[i] = from->label[order[i]];
    }
}

void sample_shuffle(int64_t *order, int64_t n, uint64_t *state) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)(sample_random(state) % (uint64_t)(i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}
