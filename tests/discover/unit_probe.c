/* The classifier of labels against its definition: fitted again without the row, in plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide.h"
#include "support/test.h"
#include "util/rng.h"

enum { ROWS = 400, DIMS = 21, CLASSES = 4 };

static gf_error err;
static float x[ROWS * DIMS];
static int32_t good[ROWS], class_of[ROWS];

static void fill(void) {
    gf_rng g = gf_rng_at(7, GF_RNG_INIT, 0, 0, 0);
    for (int i = 0; i < ROWS; i++) {
        good[i] = i;
        class_of[i] = i == 5 ? 3 : i % 17 == 0 ? -1 : i % 3; /* one row is alone in its class, some have no label */
        for (int k = 0; k < DIMS; k++)
            x[i * DIMS + k] = (float)(gf_rng_normal(&g) * (1.0 + 0.3 * k) + (k % 3 == i % 3) +
                                      0.5 * (k > 0 ? (double)x[i * DIMS + k - 1] : 0.0));
    }
}

static double scatter[DIMS][DIMS], mean[CLASSES][DIMS], all[DIMS];
static int count[CLASSES];

/* Means and the scatter around them, of all labelled rows but one. */
static int measure(int without) {
    int n = 0;
    memset(scatter, 0, sizeof scatter), memset(mean, 0, sizeof mean), memset(all, 0, sizeof all), memset(count, 0, sizeof count);
    for (int i = 0; i < ROWS; i++) {
        if (class_of[i] < 0 || i == without) continue;
        count[class_of[i]]++, n++;
        for (int k = 0; k < DIMS; k++) mean[class_of[i]][k] += (double)x[i * DIMS + k], all[k] += (double)x[i * DIMS + k];
    }
    for (int c = 0; c < CLASSES; c++)
        for (int k = 0; k < DIMS; k++) mean[c][k] /= count[c] ? count[c] : 1;
    for (int i = 0; i < ROWS; i++) {
        if (class_of[i] < 0 || i == without) continue;
        const double *m = mean[class_of[i]];
        for (int a = 0; a < DIMS; a++)
            for (int b = 0; b < DIMS; b++) scatter[a][b] += ((double)x[i * DIMS + a] - m[a]) * ((double)x[i * DIMS + b] - m[b]);
    }
    return n;
}

/* v' scatter^-1 v, by elimination. */
static double distance(const double *v) {
    static double s[DIMS][DIMS + 1];
    double sum = 0.0;
    for (int a = 0; a < DIMS; a++) memcpy(s[a], scatter[a], sizeof scatter[a]), s[a][DIMS] = v[a];
    for (int a = 0; a < DIMS; a++)
        for (int b = 0; b < DIMS; b++) {
            if (b == a) continue;
            const double f = s[b][a] / s[a][a];
            for (int k = a; k <= DIMS; k++) s[b][k] -= f * s[a][k];
        }
    for (int a = 0; a < DIMS; a++) sum += v[a] * s[a][DIMS] / s[a][a];
    return sum;
}

static gf_discover_data data_of(void) { return (gf_discover_data){.n = ROWS, .dim = DIMS, .x = x, .good = good, .good_n = ROWS}; }

TEST(a_row_is_predicted_by_a_fit_without_it) {
    const gf_decide_spec c = {0};
    const gf_discover_spec s = {.task = {.threads = 1, .memory = 1 << 30}};
    const gf_discover_data d = data_of();
    double more[DIMS], grand[DIMS], trace = 0.0;
    float *e = NULL;
    int whole[CLASSES];
    fill();
    assert_int_equal(gf_probe_labels(&err, &c, &s, &d, class_of, CLASSES, &e), GLOFND_OK);
    const int n = measure(-1);
    memcpy(whole, count, sizeof count);
    for (int k = 0; k < DIMS; k++) trace += scatter[k][k];
    for (int k = 0; k < DIMS; k++) more[k] = 0.01 * scatter[k][k] + 1e-6 * trace / DIMS, grand[k] = all[k] / n;
    for (int i = 0; i < ROWS; i += 5) {
        const int g = class_of[i], alone = g >= 0 && whole[g] == 1;
        double expected[CLASSES];
        measure(alone ? -1 : i);
        for (int k = 0; k < DIMS; k++) scatter[k][k] += more[k];
        for (int k = 0; k < CLASSES; k++) {
            double v[DIMS];
            const double left = whole[k] - (k == g);
            for (int a = 0; a < DIMS; a++) v[a] = (double)x[i * DIMS + a] - (alone && k == g ? grand[a] : mean[k][a]);
            expected[k] = -0.5 * (n - CLASSES) * distance(v) + log(left > 0.5 ? left : 0.5);
        }
        for (int k = 1; k < CLASSES; k++) {
            const double want = expected[k] - expected[0], is = (double)e[i * CLASSES + k] - (double)e[i * CLASSES];
            assert_true(fabs(is - want) < 1e-3 * (1.0 + fabs(want)));
        }
    }
    free(e);
}

static glofnd_status read_again(gf_error *e, void *user, int64_t first, int64_t rows, float *to) {
    (void)e, (void)user;
    memcpy(to, x + first * DIMS, (size_t)(rows * DIMS) * sizeof *to);
    return GLOFND_OK;
}

TEST(threads_and_reading_again_change_no_bit_of_a_probe) {
    const gf_row_source source = {.read = read_again, .n = ROWS, .dim = DIMS};
    const gf_decide_spec memory = {0}, again = {.rows = &source};
    gf_discover_spec s = {.task = {.threads = 1, .memory = 1 << 30}};
    gf_discover_data d = data_of();
    float *one = NULL, *two = NULL, *three = NULL;
    fill();
    for (int i = 0; i < ROWS - 3; i++) good[i] = i + 2 * (i > 40); /* some rows are bad */
    d.good_n = ROWS - 3;
    assert_int_equal(gf_probe_labels(&err, &memory, &s, &d, class_of, CLASSES, &one), GLOFND_OK);
    s.task.threads = 3;
    assert_int_equal(gf_probe_labels(&err, &memory, &s, &d, class_of, CLASSES, &two), GLOFND_OK);
    d.x = NULL;
    assert_int_equal(gf_probe_labels(&err, &again, &s, &d, class_of, CLASSES, &three), GLOFND_OK);
    assert_memory_equal(one, two, sizeof *one * CLASSES * (ROWS - 3));
    assert_memory_equal(one, three, sizeof *one * CLASSES * (ROWS - 3));
    free(one), free(two), free(three);
}

TEST(a_probe_that_cannot_be_fitted_says_why) {
    const gf_decide_spec c = {0};
    gf_discover_spec s = {.task = {.threads = 1, .memory = 1 << 30}};
    gf_discover_data d = data_of();
    float *e = NULL;
    fill();
    int32_t same[ROWS] = {0};
    assert_int_equal(gf_probe_labels(&err, &c, &s, &d, same, 1, &e), GLOFND_E_OPTION);
    assert_non_null(strstr(err.text, "needs two labels"));
    s.task.memory = 1000;
    assert_int_equal(gf_probe_labels(&err, &c, &s, &d, class_of, CLASSES, &e), GLOFND_E_MEMORY);
    s.task.memory = 1 << 30, d.x = NULL;
    assert_int_equal(gf_probe_labels(&err, &c, &s, &d, class_of, CLASSES, &e), GLOFND_E_ARGUMENT);
    atomic_int stop = 1;
    d.x = x, s.task.watch.stop = &stop;
    assert_int_equal(gf_probe_labels(&err, &c, &s, &d, class_of, CLASSES, &e), GLOFND_E_CANCELLED);
    assert_null(e);
}
