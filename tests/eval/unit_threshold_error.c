/* unit_threshold_error.c - errors and spreads of thresholds by hand; FNC's thresholds over random batches. */
#include "support/test.h"

#include "eval/detectors.h"
#include "support/random.h"
#include "util/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ON(n) (&(gf_sweep_job){.threads = (n)})

static gf_error err;

static int near(double a, double b) { return fabs(a - b) < 1e-7; }

TEST(errors_by_hand) {
    const float x[] = {0.5f, 0.25f, NAN, 0.0f, 1.0f, 0.5f}, optimum[] = {0.25f, 0.5f, 0.0f};
    const gf_threshold_error e = gf_threshold_error_of(x, optimum, 3, 2); /* 0.25, 0, -, -0.5, 1, 0.5 */
    assert_int_equal(e.count, 5);
    assert_true(near(e.mae, 2.25 / 5) && near(e.bias, 1.25 / 5) && near(e.rmse, sqrt(1.5625 / 5)));
    const gf_threshold_error none = gf_threshold_error_of(x + 2, optimum, 1, 1);
    assert_true(none.count == 0 && isnan(none.mae) && isnan(none.rmse));
}

/* Two anchors: draws 0.25, 0.75 around 0.5, and 0.5, 0.5; thresholds 0.75 (off by 0.25) and 0.5. */
TEST(draws_by_hand) {
    const float x[] = {0.75f, 0.5f, NAN}, draw[] = {0.25f, 0.75f, 0.5f, 0.5f, 0.0f, 1.0f};
    float mean[3];
    gf_draw_mean(draw, 3, 2, mean);
    assert_true(mean[0] == 0.5f && mean[1] == 0.5f && mean[2] == 0.5f);
    const gf_draw_error e = gf_draw_error_of(x, draw, 2, 2);
    assert_true(e.one.count == 4 && near(e.one.mae, 0.125) && near(e.one.bias, 0.125) && near(e.one.rmse, 0.25));
    assert_true(near(e.floor, 0.125 * sqrt(2.0)) && near(e.noise, 0.25)); /* squares: 1/16 and 0, of two draws twice that */
    assert_true(e.spread == 0.0);                                         /* less than the noise of two draws explains */
    const gf_draw_error more = gf_draw_error_of(x, draw, 3, 2);
    assert_true(more.one.count == 4 && near(more.one.mae, 0.125));
    assert_true(near(more.floor, 0.75 / 3 * sqrt(2.0))); /* draws of an anchor without a threshold count */
}

/* Draws of known noise around known thresholds, against thresholds of known bias and spread. */
TEST(parts_of_the_error_are_found) {
    enum { N = 4000, DRAWS = 5 };
    float *x = malloc(N * sizeof *x), *draw = malloc(N * DRAWS * sizeof *draw);
    rng g = {5};
    assert_non_null(x);
    assert_non_null(draw);
    for (int i = 0; i < N; i++) {
        const double exact = 0.1 * rng_normal(&g);
        x[i] = (float)(exact - 0.02 + 0.03 * rng_normal(&g));
        for (int k = 0; k < DRAWS; k++) draw[i * DRAWS + k] = (float)(exact + 0.04 * rng_normal(&g));
    }
    const gf_draw_error e = gf_draw_error_of(x, draw, N, DRAWS);
    double absolute = 0.0, square = 0.0;
    for (int i = 0; i < N * DRAWS; i++) {
        const double d = (double)x[i / DRAWS] - (double)draw[i];
        absolute += fabs(d) / (N * DRAWS), square += d * d / (N * DRAWS);
    }
    assert_true(near(e.one.mae, absolute) && near(e.one.rmse * e.one.rmse, square));
    assert_true(near(e.one.bias * e.one.bias + e.spread * e.spread + e.noise * e.noise, square));
    assert_true(fabs(e.one.bias + 0.02) < 0.003 && fabs(e.spread - 0.03) < 0.002 && fabs(e.noise - 0.04) < 0.001);
    assert_true(fabs(e.floor - 0.04 * sqrt(2.0 / 3.14159265358979)) < 0.001);
    free(x);
    free(draw);
}

TEST(spread_and_density) {
    const float x[] = {0.0f, NAN, 0.25f, 0.5f, 1.0f};
    const gf_spread s = gf_spread_of(x, 5);
    double density[4];
    assert_int_equal(s.count, 4);
    assert_true(near(s.mean, 0.4375) && s.min == 0.0 && s.max == 1.0 && near(s.std, sqrt(0.546875 / 4)));
    gf_density(x, 5, 0.0, 1.0, 4, density); /* edges belong to the part above them, the last one to the last part */
    assert_true(near(density[0], 1.0) && near(density[1], 1.0) && near(density[2], 1.0) && near(density[3], 1.0));
    gf_density(x, 5, 0.0, 0.5, 2, density);
    assert_true(near(density[0], 1.0) && near(density[1], 2.0)); /* 1.0 lies outside: three quarters are inside */
    assert_true(isnan(gf_spread_of(x + 1, 1).mean));
}

static gf_view_set make_set(int64_t rows, int64_t dim) {
    gf_view_set s;
    rng g = {3};
    assert_int_equal(gf_view_set_alloc(&err, &s, rows, dim), GLOFND_OK);
    for (int64_t i = 0; i < rows * dim; i++) s.z[i] = (float)rng_normal(&g);
    for (int64_t i = 0; i < rows; i++) s.id[i] = i / 2, s.label[i] = 0;
    return s;
}

/* Every sample gets a threshold per draw and view, the one of its batch, for any number of threads. */
TEST(fnc_draws_are_batches_of_the_permutation) {
    enum { SAMPLES = 23, BATCH = 5, DRAWS = 3, DIM = 6, SEED = 9 };
    gf_view_set s = make_set(2 * SAMPLES, DIM), batch = make_set(2 * BATCH, DIM);
    float out[SAMPLES * DRAWS * 2], again[SAMPLES * DRAWS * 2], theta[2 * BATCH];
    for (int i = 0; i < SAMPLES * DRAWS * 2; i++) out[i] = NAN;
    assert_int_equal(gf_fnc_batch_thresholds(&err, &s, 2, BATCH, DRAWS, 0.2, SEED, ON(1), out), GLOFND_OK);
    assert_int_equal(gf_fnc_batch_thresholds(&err, &s, 2, BATCH, DRAWS, 0.2, SEED, ON(3), again), GLOFND_OK);
    assert_memory_equal(out, again, sizeof out);
    for (int i = 0; i < SAMPLES * DRAWS * 2; i++) assert_true(out[i] > -1.0f && out[i] < 1.0f);
    for (int draw = 0; draw < DRAWS; draw++) { /* the second batch of each deal, by hand */
        for (int i = 0; i < BATCH; i++) {
            const int64_t sample = gf_permute(SEED, (uint32_t)draw, SAMPLES, BATCH + i);
            memcpy(batch.z + 2 * i * DIM, s.z + 2 * sample * DIM, 2 * DIM * sizeof *s.z);
        }
        assert_int_equal(gf_fnc_thresholds(&err, &batch, 0.2, ON(1), theta), GLOFND_OK);
        for (int i = 0; i < 2 * BATCH; i++) {
            const int64_t sample = gf_permute(SEED, (uint32_t)draw, SAMPLES, BATCH + i / 2);
            assert_true(out[(sample * DRAWS + draw) * 2 + i % 2] == theta[i]);
        }
    }
    assert_int_equal(gf_fnc_batch_thresholds(&err, &s, 2, SAMPLES + 1, 1, 0.2, SEED, ON(1), out), GLOFND_E_ARGUMENT);
    s.z[4] = INFINITY;
    assert_int_equal(gf_fnc_batch_thresholds(&err, &s, 2, BATCH, DRAWS, 0.2, SEED, ON(2), out), GLOFND_E_NUMERIC);
    gf_view_set_free(&s);
    gf_view_set_free(&batch);
}

/* Rows that are compared with others meet those of their batch. */
TEST(fnc_draws_of_images_and_texts) {
    enum { SAMPLES = 23, BATCH = 5, DRAWS = 2, DIM = 6, SEED = 9 };
    gf_view_set s = make_set(SAMPLES, DIM), t = make_set(SAMPLES, DIM);
    gf_view_set rows = make_set(BATCH, DIM), columns = make_set(BATCH, DIM);
    float out[SAMPLES * DRAWS], theta[BATCH];
    rng g = {11};
    for (int64_t i = 0; i < SAMPLES * DIM; i++) t.z[i] = (float)rng_normal(&g);
    for (int64_t i = 0; i < SAMPLES; i++) s.id[i] = t.id[i] = i;
    s.others = &t, rows.others = &columns;
    assert_int_equal(gf_fnc_batch_thresholds(&err, &s, 1, BATCH, DRAWS, 0.2, SEED, ON(2), out), GLOFND_OK);
    for (int draw = 0; draw < DRAWS; draw++) { /* the first batch of each deal, by hand */
        for (int i = 0; i < BATCH; i++) {
            const int64_t sample = gf_permute(SEED, (uint32_t)draw, SAMPLES, i);
            memcpy(rows.z + i * DIM, s.z + sample * DIM, DIM * sizeof *s.z);
            memcpy(columns.z + i * DIM, t.z + sample * DIM, DIM * sizeof *t.z);
            rows.id[i] = columns.id[i] = sample;
        }
        assert_int_equal(gf_fnc_thresholds(&err, &rows, 0.2, ON(1), theta), GLOFND_OK);
        for (int i = 0; i < BATCH; i++) assert_true(out[gf_permute(SEED, (uint32_t)draw, SAMPLES, i) * DRAWS + draw] == theta[i]);
    }
    gf_view_set_free(&s);
    gf_view_set_free(&t);
    gf_view_set_free(&rows);
    gf_view_set_free(&columns);
}
