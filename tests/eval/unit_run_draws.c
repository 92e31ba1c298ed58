/* unit_run_draws.c - draws of views of a trained run: draw 0 has the views of batches of augmented views, and no view occurs
 * twice. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#ifdef GF_HAVE_DNNL
#include "eval/encode.h"
#include "support/source_file.h"

enum { SAMPLES = 64 };
static gf_error err;

static double distance(const float *a, const float *b, int64_t dim) {
    double square = 0.0;
    for (int64_t i = 0; i < dim; i++) square += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(square);
}

/* Largest or smallest distance of row r of x and row r + shift of y, over all rows that have both. */
static double far_of(const gf_view_set *x, const gf_view_set *y, int shift, int largest) {
    double found = largest ? 0.0 : INFINITY;
    for (int64_t r = 0; r + shift < x->n; r += 1 + shift) {
        const double d = distance(x->z + r * x->dim, y->z + (r + shift) * y->dim, x->dim);
        found = largest ? fmax(found, d) : fmin(found, d);
    }
    return found;
}

static void draw(gf_trained_run *run, const gf_view_set *like, int number, gf_view_set *out) {
    int64_t id[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) id[i] = like->id[2 * i];
    if (gf_trained_run_draw(&err, run, id, SAMPLES, number, out) != GLOFND_OK) fail_msg("%s", err.text);
    assert_int_equal(out->n, 2 * SAMPLES);
    for (int r = 0; r < 2 * SAMPLES; r++) assert_true(out->id[r] == like->id[r] && out->label[r] == like->label[r]);
}

TEST(draws_are_views_of_their_own) {
    const gf_trained_run_spec spec = {.run = source_file("tests/fixtures/run-0.1")};
    gf_trained_run *run;
    gf_view_set batch, first, second, third;
    if (gf_trained_run_create(&err, &spec, &run) != GLOFND_OK) fail_msg("%s", err.text);
    assert_int_equal(gf_trained_run_augmented(&err, run, SAMPLES, SAMPLES, 1, &batch), GLOFND_OK);
    draw(run, &batch, 0, &first);
    draw(run, &batch, 1, &second);
    draw(run, &batch, 2, &third);
    assert_true(far_of(&batch, &first, 0, 1) < 1e-4);
    const gf_view_set *set[] = {&first, &second, &third};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) assert_true(k == i || far_of(set[i], set[k], 0, 0) > 1e-3);
        for (int k = 0; k < 3; k++) assert_true(far_of(set[i], set[k], 1, 0) > 1e-3); /* first view of i, second of k */
    }
    gf_view_set_free(&batch);
    gf_view_set_free(&first);
    gf_view_set_free(&second);
    gf_view_set_free(&third);
    gf_trained_run_free(run);
}
#else
static void draws_are_views_of_their_own(void **state) {
    (void)state;
    skip();
}
#endif
