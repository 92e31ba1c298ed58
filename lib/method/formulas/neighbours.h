/* neighbours.h - attraction by neighbours: every anchor is drawn to the averages of its nearest samples in the whole store.
 *
 *     c_a = (1/K) sum of the averages b_j of the K most similar other samples, those with b_a . b_j > 0
 *     loss += -(weight k / B) sum over the rows r of the attracted anchors of z_r . c_a; k = 1, or 1/(2 tau) for SIMCLR, SIGMOID
 * The averages are those of the store before the step, b_a the new one, rounded to float16 as the store will have it. Attracted
 * are the share `neighbour_share` of the batch's anchors whose nearest neighbour is the most similar. Neighbours are constants
 * for the gradient. A window of neighbour_rows samples is searched, at a place that the batch decides.
 */
#pragma once

#include "method/formulas/loss.h"
#include "method/formulas/plan.h"
#include "util/host_device.h"

#define GF_NEIGHBOURS_MAX 8

typedef struct gf_neighbour {
    float s;      /* similarity; 0: none */
    int32_t slot; /* row of the store */
} gf_neighbour;

/* The more similar one first; of equal ones that of the smaller row: any order of insertions gives the same list. */
GF_HD int gf_neighbour_before(float s, int32_t slot, const gf_neighbour *b) { return s > b->s || (s == b->s && slot < b->slot); }

/* list [k], sorted, ends with zeros. */
GF_HD void gf_neighbour_insert(gf_neighbour *list, int k, float s, int32_t slot) {
    if (!(s > 0.0f) || !gf_neighbour_before(s, slot, &list[k - 1])) return;
    int i = k - 1;
    for (; i > 0 && gf_neighbour_before(s, slot, &list[i - 1]); i--) list[i] = list[i - 1];
    list[i].s = s, list[i].slot = slot;
}

/* 1: anchor a of the batch is attracted. list [cols][k]. */
GF_HD int gf_neighbour_attracted(double share, int64_t cols, int64_t a, const gf_neighbour *list, int64_t k) {
    if (!(list[a * k].s > 0.0f)) return 0;
    if (share >= 1.0) return 1;
    int64_t before = 0;
    for (int64_t b = 0; b < cols; b++) before += list[b * k].s > list[a * k].s || (list[b * k].s == list[a * k].s && b < a);
    return (double)before < share * (double)cols;
}

/* The factor of z_r . c_a in the loss. */
GF_HD double gf_neighbour_scale(const gf_plan *p, double tau) {
    const int halved = p->o.loss == GLOFND_LOSS_SIMCLR || p->o.loss == GLOFND_LOSS_SIGMOID;
    const double of_positive = halved ? gf_softmax_weight(&p->o) / tau : 1.0;
    return p->o.neighbour_weight * of_positive / (double)p->cols;
}

/* A number of the batch but for its ids: the own samples among it, the epoch. The second half of a step is for the batch whose
 * neighbours the first one found. */
static inline uint64_t gf_neighbour_key(const gf_step_batch *q) {
    uint64_t key = 0xcbf29ce484222325u ^ (uint64_t)(uint32_t)q->epoch;
    key = (key * 0x100000001b3u ^ (uint64_t)q->row0) * 0x100000001b3u ^ (uint64_t)q->rows;
    return key * 0x100000001b3u ^ (uint64_t)q->cols;
}

/* First of the `gf_neighbour_count` consecutive rows of the store that are searched; they go on at row 0 after the last. */
GF_HD int64_t gf_neighbour_count(const glofnd_options *o, int64_t n) {
    return o->neighbour_rows > 0 && o->neighbour_rows < n ? o->neighbour_rows : n;
}

GF_HD int64_t gf_neighbour_first(const glofnd_options *o, int64_t n, int64_t id, int32_t epoch) {
    if (gf_neighbour_count(o, n) == n) return 0;
    uint64_t x = (uint64_t)id * 0x9e3779b97f4a7c15u + (uint64_t)(uint32_t)epoch * 0xd1b54a32d192ed03u + 0x2545f4914f6cdd1du;
    x = (x ^ (x >> 32)) * 0x9e3779b97f4a7c15u;
    return (int64_t)((x >> 16) % (uint64_t)n);
}
