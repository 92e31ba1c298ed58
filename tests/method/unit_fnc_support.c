/* unit_fnc_support.c - FNC as in its paper: pairs scored by support views, by the mean of their similarities, the top k of a row
 * or all above a fixed threshold; against plain loops in double. Also on a GPU (GLOFND_TEST_DEVICE=cuda). */
#include "support/test.h"

#include "support/on_device.h"
#include "util/rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 37, DIM = 11, K = 3, ROWS = 2 * B };

typedef struct scene {
    float view[2][B * DIM], support[K * B * DIM];
    int64_t id[B];
    double z[ROWS][DIM], s[K][B][DIM]; /* unit; rows 2i and 2i + 1 are the views of sample i */
} scene;

static void unit(const float *from, double *to) {
    double square = 0.0;
    for (int d = 0; d < DIM; d++) square += (double)from[d] * (double)from[d];
    for (int d = 0; d < DIM; d++) to[d] = (double)from[d] / sqrt(square);
}

static scene make_scene(void) {
    static scene x;
    gf_rng r = gf_rng_at(7, GF_RNG_INIT, 0, 0, 0);
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < B * DIM; i++) x.view[v][i] = (float)gf_rng_normal(&r);
    for (int i = 0; i < K * B * DIM; i++) x.support[i] = (float)gf_rng_normal(&r);
    for (int i = 0; i < B; i++) {
        x.id[i] = i;
        for (int v = 0; v < 2; v++) unit(x.view[v] + i * DIM, x.z[2 * i + v]);
        for (int k = 0; k < K; k++) unit(x.support + (k * B + i) * DIM, x.s[k][i]);
    }
    return x;
}

/* Score of row r against column c. */
static double score(const scene *x, int r, int c, int copies) {
    double sum = 0.0;
    for (int k = 0; k < copies; k++) {
        double dot = 0.0;
        for (int d = 0; d < DIM; d++) dot += x->s[k][r / 2][d] * x->z[c][d];
        sum += dot;
    }
    return sum / copies;
}

static int64_t keep_at(int r, int c) { return (((int64_t)(r / 2) * 2 + r % 2) * 2 + c % 2) * B + c / 2; }

/* 1: fewer than k negatives of the row have a larger score. */
static int in_top(const scene *x, int r, int c, int copies, int k) {
    int larger = 0;
    for (int o = 0; o < ROWS; o++) larger += o / 2 != r / 2 && score(x, r, o, copies) > score(x, r, c, copies);
    return larger < k;
}

static void check(int rule, int copies) {
    const scene x = make_scene();
    const double alpha = 0.05, threshold = 0.3;
    char why[256];
    glofnd_options o;
    glofnd_ctx *c = NULL;
    glofnd_store *s = NULL;
    void *links = NULL;
    assert_int_equal(posix_memalign(&links, 64, (size_t)B * GLOFND_LINK_BYTES), 0);
    uint8_t *keep = calloc(4 * B * B, 1);
    glofnd_stats stats = {.size = sizeof stats};
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.detector = GLOFND_DETECT_FNC, o.fnc_rule = rule, o.alpha = alpha, o.fnc_threshold = threshold;
    o.fnc_support = copies;
    on_device_choose(&o);
    if (glofnd_ctx_create(&o, &c, why, sizeof why) != GLOFND_OK) fail_msg("%s", why);
    assert_int_equal(glofnd_store_create(c, &(glofnd_store_spec){.size = sizeof(glofnd_store_spec), .n = B}, &s), GLOFND_OK);
    const glofnd_batch_extra extra = {.size = sizeof extra, .support_a = x.support};
    const glofnd_batch q = {.size = sizeof q, .n = B, .dim = DIM, .a = x.view[0], .b = x.view[1], .id = x.id, .extra = &extra};
    if (on_device_step_rows(c, s, &q, NULL, links, &stats) != GLOFND_OK) fail_msg("%s", glofnd_ctx_error(c));
    assert_int_equal(on_device_step_mask(c, &q, NULL, links, keep), GLOFND_OK);
    const int k = (int)ceil(alpha * 2 * (B - 1));
    int64_t flagged = 0;
    for (int r = 0; r < ROWS; r++)
        for (int col = 0; col < ROWS; col++) {
            if (col / 2 == r / 2) continue;
            const int wanted = rule == GLOFND_FNC_TOPK ? in_top(&x, r, col, copies, k) : score(&x, r, col, copies) > threshold;
            if (wanted == keep[keep_at(r, col)]) fail_msg("rule %d, %d views: row %d column %d", rule, copies, r, col);
            flagged += wanted;
        }
    assert_true(flagged > 0 && fabs((double)flagged - stats.flagged) < 0.5);
    glofnd_store_free(s);
    glofnd_ctx_free(c);
    free(keep);
    free(links);
}

TEST(scores_are_means) {
    for (int rule = GLOFND_FNC_TOPK; rule <= GLOFND_FNC_THRESHOLD; rule++)
        for (int copies = 1; copies <= K; copies++) check(rule, copies);
}

/* The quantile of the authors' code takes no support. */
TEST(what_does_not_go_together) {
    glofnd_options o;
    char why[256];
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.detector = GLOFND_DETECT_FNC, o.fnc_support = 1;
    assert_int_equal(glofnd_options_check(&o, why, sizeof why), GLOFND_E_OPTION);
    assert_non_null(strstr(why, "fnc_support"));
}
