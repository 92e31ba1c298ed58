/* unit_optim.c - optimizers and schedules against values worked out by hand; the golden D cases are in tests/replay. */
#include "support/test.h"

#include "optim/optim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define near(a, b) assert_true(fabs((double)(a) - (double)(b)) <= 1e-6 * fmax(1.0, fabs((double)(b))))

static void update(const gf_optim_rule *rule, double lr, int64_t step, const gf_param *tensors, size_t count) {
    const gf_optim_scalars now = gf_optim_scalars_at(rule, lr, step);
    gf_optim_update(rule, &now, tensors, count);
}

static void all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) assert_true(isfinite(x[i]));
}

/* ----- rules and norm ------------------------------------------------------------------------------------------- */

TEST(rules_follow_axes_and_name) {
    assert_true(gf_param_decays(2, "layer1.conv.weight"));
    assert_true(gf_param_decays(4, NULL));
    assert_false(gf_param_decays(1, "layer1.conv.weight"));
    assert_false(gf_param_decays(2, "layer1.bn.weight"));
    assert_false(gf_param_decays(2, "ln_final.weight"));
    assert_false(gf_param_decays(2, "attn.in_proj_bias"));
    assert_true(gf_param_adapts(2));
    assert_false(gf_param_adapts(1));
    assert_false(gf_param_adapts(0));
}

TEST(norm_is_exact_for_any_length) {
    float x[29], y[29];
    for (int i = 0; i < 29; i++) x[i] = 3.0f, y[i] = 1.0f;
    for (size_t n = 0; n <= 29; n++) {
        near(gf_param_norm(x, NULL, 0.0, n), 3.0 * sqrt((double)n));
        near(gf_param_norm(x, y, 2.0, n), 5.0 * sqrt((double)n));
    }
    const float huge[2] = {3e38f, 3e38f}, tiny[2] = {1e-42f, 1e-42f};
    assert_true(isfinite(gf_param_norm(huge, NULL, 0.0, 2)));
    assert_true(gf_param_norm(tiny, NULL, 0.0, 2) > 0.0);
}

/* ----- SGD ------------------------------------------------------------------------------------------------------ */

TEST(sgd_momentum_two_steps) {
    float p = 1.0f, mu = 0.0f;
    float g = 0.5f;
    const gf_param t = {&p, &g, &mu, NULL, 1, 1, 0};
    const gf_optim_rule o = {.kind = GF_OPTIM_SGD, .momentum = 0.9, .weight_decay = 0.1};
    update(&o, 0.1, 1, &t, 1);
    near(mu, 0.6); /* 0.5 + 0.1 * 1 */
    near(p, 0.94);
    update(&o, 0.1, 1, &t, 1);
    near(mu, 1.134); /* 0.54 + 0.5 + 0.094 */
    near(p, 0.8266);
}

TEST(sgd_nesterov_looks_ahead) {
    float p = 1.0f, mu = 0.0f;
    float g = 0.5f;
    const gf_param t = {&p, &g, &mu, NULL, 1, 0, 0};
    const gf_optim_rule o = {.kind = GF_OPTIM_SGD, .momentum = 0.9, .weight_decay = 0.1, .nesterov = 1};
    update(&o, 0.1, 1, &t, 1);
    near(mu, 0.5); /* decay flag off */
    near(p, 1.0 - 0.1 * (0.5 + 0.9 * 0.5));
    update(&o, 0.1, 1, &t, 1);
    near(mu, 0.95);
    near(p, 0.905 - 0.1 * (0.5 + 0.9 * 0.95));
}

TEST(sgd_without_momentum_needs_no_state) {
    float p[2] = {1.0f, -2.0f};
    float g[2] = {1.0f, 0.0f};
    const gf_param t = {p, g, NULL, NULL, 2, 1, 0};
    update(&(gf_optim_rule){.kind = GF_OPTIM_SGD, .weight_decay = 0.5}, 0.1, 1, &t, 1);
    near(p[0], 1.0 - 0.1 * 1.5);
    near(p[1], -2.0 + 0.1 * 1.0);
}

/* ----- LARS ----------------------------------------------------------------------------------------------------- */

static const gf_optim_rule lars = {.kind = GF_OPTIM_LARS, .momentum = 0.9, .weight_decay = 0.5, .trust = 0.01};

TEST(lars_scales_by_norms_of_decayed_gradient) {
    float p[2] = {3.0f, 4.0f}, mu[2] = {0.0f, 0.0f};
    float g[2] = {-1.5f, 1.0f}; /* decayed: {0, 3}, so |p| = 5, |d| = 3 */
    const gf_param t = {p, g, mu, NULL, 2, 1, 1};
    update(&lars, 2.0, 1, &t, 1);
    near(mu[0], 0.0);
    near(mu[1], 0.01 * 5.0 / 3.0 * 3.0);
    near(p[0], 3.0);
    near(p[1], 4.0 - 2.0 * 0.05);
}

TEST(lars_vectors_take_plain_steps) {
    float p[2] = {3.0f, 4.0f}, mu[2] = {1.0f, 0.0f};
    float g[2] = {1.0f, 2.0f};
    const gf_param t = {p, g, mu, NULL, 2, gf_param_decays(1, NULL), gf_param_adapts(1)};
    update(&lars, 0.1, 1, &t, 1);
    near(mu[0], 1.9);
    near(mu[1], 2.0);
    near(p[0], 3.0 - 0.19);
    near(p[1], 4.0 - 0.2);
}

/* Ratio 1 where a norm is zero: weights still at zero, no gradient at all, or decay that cancels the gradient. */
TEST(lars_zero_norms_give_ratio_one) {
    float p[2] = {0.0f, 0.0f}, mu[2] = {0.0f, 0.0f};
    float g[2] = {1.0f, -1.0f}, none[2] = {0.0f, 0.0f};
    gf_param t = {p, g, mu, NULL, 2, 1, 1};
    update(&lars, 0.1, 1, &t, 1);
    near(p[0], -0.1);
    near(p[1], 0.1);
    float q[2] = {0.0f, 0.0f}, nu[2] = {0.25f, 0.0f};
    t = (gf_param){q, none, nu, NULL, 2, 1, 1};
    update(&lars, 0.1, 1, &t, 1);
    near(nu[0], 0.225);
    near(q[0], -0.0225);
    assert_true(q[1] == 0.0f);
    float r[1] = {2.0f}, xi[1] = {0.0f};
    float cancel[1] = {-1.0f};
    t = (gf_param){r, cancel, xi, NULL, 1, 1, 1};
    update(&lars, 0.1, 1, &t, 1);
    assert_true(r[0] == 2.0f && xi[0] == 0.0f);
}

TEST(lars_stays_finite_for_vanishing_gradients) {
    float p[3] = {1.0f, 1e-42f, 2.0f}, mu[3] = {0.0f, 0.0f, 0.0f};
    float g[3] = {1e-44f, 0.0f, 0.0f}; /* ratio about 1e42: more than float32 can hold */
    const gf_optim_rule o = {.kind = GF_OPTIM_LARS, .momentum = 0.9, .weight_decay = 0.0, .trust = 0.001};
    const gf_param t = {p, g, mu, NULL, 3, 1, 1};
    update(&o, 0.1, 1, &t, 1);
    all_finite(p, 3);
    all_finite(mu, 3);
    near(mu[0], 0.001 * sqrt(5.0));
    assert_true(mu[1] == 0.0f);
}

/* ----- AdamW ---------------------------------------------------------------------------------------------------- */

static const gf_optim_rule adam = {.kind = GF_OPTIM_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};

TEST(adamw_first_step_is_signed_lr) {
    float p[3] = {1.0f, 1.0f, 1.0f}, m[3] = {0}, v[3] = {0};
    float g[3] = {5.0f, -1e-3f, 0.0f};
    const gf_param t = {p, g, m, v, 3, 0, 0};
    update(&adam, 0.01, 1, &t, 1);
    near(p[0], 0.99);
    near(p[1], 1.0 + 0.01 * 1e-3 / (1e-3 + 1e-8));
    assert_true(p[2] == 1.0f); /* 0 / (0 + eps) */
    near(m[0], 0.5);
    near(v[0], 0.25);
}

TEST(adamw_decays_before_the_step) {
    float p = 2.0f, m = 0.0f, v = 0.0f;
    float g = 1.0f;
    const gf_param t = {&p, &g, &m, &v, 1, 1, 0};
    update(&adam, 0.01, 1, &t, 1);
    near(p, 2.0 * (1.0 - 0.001) - 0.01);
    const double m2 = 0.9 * 0.1 + 0.1, v2 = 0.99 * 0.01 + 0.01;
    update(&adam, 0.01, 2, &t, 1);
    near(p, 1.988 * 0.999 - 0.01 * (m2 / (1 - 0.81)) / (sqrt(v2 / (1 - 0.9801)) + 1e-8));
}

TEST(adamw_eps_stands_outside_the_root) {
    float p = 0.0f, m = 0.0f, v = 0.0f;
    float g = 1e-3f;
    const gf_optim_rule o = {.kind = GF_OPTIM_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-3};
    const gf_param t = {&p, &g, &m, &v, 1, 0, 0};
    update(&o, 1.0, 1, &t, 1);
    near(p, -0.5); /* 1e-3 / (1e-3 + 1e-3) */
}

TEST(adamw_stays_finite) {
    float p[4] = {1.0f, 1.0f, 1.0f, 0.0f}, m[4] = {0}, v[4] = {0};
    float g[4] = {1e18f, 1e-44f, -1e18f, 0.0f};
    const gf_param t = {p, g, m, v, 4, 1, 0};
    for (int64_t k = 1; k <= 50; k++) update(&adam, 0.01, k, &t, 1);
    all_finite(p, 4);
    all_finite(m, 4);
    all_finite(v, 4);
    assert_true(p[3] == 0.0f);
    update(&adam, 0.01, INT64_C(1) << 40, &t, 1);
    all_finite(p, 4);
}

/* ----- lists ---------------------------------------------------------------------------------------------------- */

/* A list of tensors is the same as its tensors one by one, and a repeated run has the same bits. */
TEST(list_equals_single_calls) {
    float p[2][37], m[2][37], v[2][37], g[37];
    for (int i = 0; i < 37; i++) {
        g[i] = sinf((float)i);
        for (int r = 0; r < 2; r++) p[r][i] = cosf((float)(i * i)), m[r][i] = 0.01f * (float)i, v[r][i] = 0.02f;
    }
    const gf_param list[2] = {{p[0], g, m[0], v[0], 20, 1, 1}, {p[0] + 20, g + 20, m[0] + 20, v[0] + 20, 17, 0, 0}};
    const gf_param a = {p[1], g, m[1], v[1], 20, 1, 1}, b = {p[1] + 20, g + 20, m[1] + 20, v[1] + 20, 17, 0, 0};
    update(&adam, 0.01, 3, list, 2);
    update(&adam, 0.01, 3, &b, 1);
    update(&adam, 0.01, 3, &a, 1);
    update(&lars, 0.1, 1, list, 2);
    update(&lars, 0.1, 1, &b, 1);
    update(&lars, 0.1, 1, &a, 1);
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
}

/* Two tensors, gradient of norm 5: clipped over both together, and only if it is longer. */
TEST(long_gradients_are_shortened) {
    static const gf_nn_backend host = {.name = "host"};
    for (int longer = 0; longer < 2; longer++) {
        float p[2] = {1.0f, 1.0f}, g[2] = {3.0f, -4.0f}, mu[2] = {0.0f, 0.0f};
        const gf_param t[2] = {{p, g, mu, NULL, 1, 0, 0}, {p + 1, g + 1, mu + 1, NULL, 1, 0, 0}};
        const gf_optim_rule rule = {.kind = GF_OPTIM_SGD, .clip = longer ? 2.0 : 5.1};
        gf_error err = {""};
        gf_optim *o = NULL;
        double norm = 0.0;
        assert_int_equal(gf_optim_create(&err, &host, NULL, &rule, t, 2, &o), GLOFND_OK);
        assert_int_equal(gf_optim_set(&err, o, 0.1, 1), GLOFND_OK);
        assert_int_equal(gf_optim_step(&err, o), GLOFND_OK);
        assert_int_equal(gf_optim_norm(&err, o, &norm), GLOFND_OK);
        near(norm, 5.0); /* as it was */
        near(p[0], 1.0 - 0.1 * (longer ? 2.0 / (5.0 + 1e-6) : 1.0) * 3.0);
        near(p[1], 1.0 + 0.1 * (longer ? 2.0 / (5.0 + 1e-6) : 1.0) * 4.0);
        gf_optim_free(o);
    }
}

enum { LARGE = 150001, SMALL = 7 };

typedef struct pair_of_tensors { /* more numbers than a thread takes at a time, and few */
    float p[LARGE + SMALL], g[LARGE + SMALL], m[LARGE + SMALL], v[LARGE + SMALL];
    gf_param list[2];
} pair_of_tensors;

static void fill_pair(pair_of_tensors *x) {
    for (int i = 0; i < LARGE + SMALL; i++)
        x->p[i] = cosf((float)i), x->g[i] = sinf((float)(3 * i)), x->m[i] = 0.01f * cosf((float)(7 * i)), x->v[i] = 0.02f;
    x->list[0] = (gf_param){x->p, x->g, x->m, x->v, LARGE, 1, 1};
    x->list[1] = (gf_param){x->p + LARGE, x->g + LARGE, x->m + LARGE, x->v + LARGE, SMALL, 0, 0};
}

/* gf_optim with any number of threads moves as the loops over whole tensors do, bit by bit. */
TEST(threads_do_not_change_bits) {
    static pair_of_tensors whole, cut;
    static const gf_nn_backend host = {.name = "host"};
    for (int run = 0; run < 9; run++) {
        const gf_optim_rule rule = {.kind = (gf_optim_kind)(run / 3),
                                    .momentum = 0.9,
                                    .weight_decay = 0.1,
                                    .trust = 0.001,
                                    .beta1 = 0.9,
                                    .beta2 = 0.98,
                                    .eps = 1e-6,
                                    .threads = 1 + run % 3};
        gf_error err = {""};
        gf_optim *o = NULL;
        fill_pair(&whole), fill_pair(&cut);
        update(&rule, 0.01, 3, whole.list, 2);
        assert_int_equal(gf_optim_create(&err, &host, NULL, &rule, cut.list, 2, &o), GLOFND_OK);
        assert_int_equal(gf_optim_set(&err, o, 0.01, 3), GLOFND_OK);
        assert_int_equal(gf_optim_step(&err, o), GLOFND_OK);
        gf_optim_free(o);
        assert_memory_equal(whole.p, cut.p, sizeof cut.p);
        assert_memory_equal(whole.m, cut.m, sizeof cut.m);
        assert_memory_equal(whole.v, cut.v, sizeof cut.v);
    }
}

TEST(empty_tensors_and_lists_are_fine) {
    const gf_param t = {NULL, NULL, NULL, NULL, 0, 1, 1};
    update(&(gf_optim_rule){.kind = GF_OPTIM_SGD, .momentum = 0.9}, 0.1, 1, &t, 1);
    update(&lars, 0.1, 1, &t, 1);
    update(&adam, 0.1, 1, &t, 1);
    update(&adam, 0.1, 1, NULL, 0);
}

/* ----- schedules ------------------------------------------------------------------------------------------------ */

TEST(cosine_by_epochs) {
    assert_true(gf_lr_cosine_epochs(0.8, 0.0, 10, 200) == 0.0);
    near(gf_lr_cosine_epochs(0.8, 2.5, 10, 200), 0.2);
    near(gf_lr_cosine_epochs(0.8, 10.0, 10, 200), 0.8);
    near(gf_lr_cosine_epochs(0.8, 105.0, 10, 200), 0.4);
    near(gf_lr_cosine_epochs(0.8, 200.0, 10, 200), 0.0);
    near(gf_lr_cosine_epochs(0.8, 0.0, 0, 100), 0.8);
    assert_true(gf_lr_cosine_epochs(0.8, 10.0, 10, 10) == 0.0); /* nothing but warm-up: over, not 0/0 */
}

TEST(cosine_by_steps) {
    near(gf_lr_cosine_steps(1.0, 0.1, 0, 4, 104), 0.25);
    near(gf_lr_cosine_steps(1.0, 0.1, 3, 4, 104), 1.0);
    near(gf_lr_cosine_steps(1.0, 0.1, 4, 4, 104), 1.0);
    near(gf_lr_cosine_steps(1.0, 0.1, 54, 4, 104), 0.55);
    near(gf_lr_cosine_steps(1.0, 0.1, 104, 4, 104), 0.1);
    near(gf_lr_cosine_steps(1.0, 0.1, 0, 0, 100), 1.0);
    near(gf_lr_cosine_steps(1.0, 0.1, 5, 5, 5), 0.1);
}

TEST(rates_scale_with_batch) {
    near(gf_lr_scaled_sqrt(0.075, 128), 0.848528137423857);
    near(gf_lr_scaled_linear(0.3, 512), 0.6);
}

TEST(temperature_rate_steps_at_threshold) {
    near(gf_lr_tau_threshold(3.0, 1.0 / 3.0, 0.03, log(1.0 / 0.031)), 3.0);
    near(gf_lr_tau_threshold(3.0, 1.0 / 3.0, 0.03, log(1.0 / 0.029)), 1.0);
    near(gf_lr_tau_threshold(3.0, 1.0 / 3.0, 1.0, 0.0), 1.0); /* at the threshold: reduced */
}

TEST(gamma_falls_from_one) {
    assert_true(gf_gamma_cosine(0.2, 0, 18) == 1.0);
    near(gf_gamma_cosine(0.2, 9, 18), 0.6);
    assert_true(gf_gamma_cosine(0.2, 18, 18) == 0.2);
    assert_true(gf_gamma_cosine(0.2, 1000, 18) == 0.2);
    assert_true(gf_gamma_cosine(0.2, 1, 0) == 0.2);
}

TEST(log_scale_stays_in_bounds) {
    near(gf_clamp_log_scale(2.0, 100.0), 2.0);
    near(gf_clamp_log_scale(9.0, 100.0), log(100.0));
    assert_true(gf_clamp_log_scale(-1.0, 100.0) == 0.0);
    assert_true(isnan(gf_clamp_log_scale(NAN, 100.0))); /* a diverged run must stay visible */
}
