/* golden_resnet.c - whole nets against PyTorch in float64: features, projection, loss, every gradient, running statistics, eval
 * mode. The numbers come from tools/make_resnet_golden.py, which also says how the lines are made; weights, images and all else
 * are drawn here from the same streams. TOLERANCE bounds every difference relative to the norm of the tensor.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "nn/net.h"

#define TOLERANCE 1e-4
#define LINE_NUMBERS 6          /* norm, sum, four projections */

enum { NORMS = 1, IMAGES, COARSE, LOSS, SIGNS };        /* "epoch" of the streams, as in the script */

typedef struct golden {
    FILE *file;
    char name[64];
    gf_net_spec spec;
    double worst;
    char worst_at[160];
} golden;

/* ----- the file ---------------------------------------------------------------------------------------------------- */

static gf_arch arch_of(const char *text) {
    static const char *const names[] = {"resnet8", "resnet18", "resnet34", "resnet50"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) return (gf_arch)i;
    fail_msg("unknown arch %s", text);
    return GF_ARCH_RESNET8;
}

static golden open_golden(const char *name) {
    golden g = {0};
    char path[1024], arch[32];
    const char *slash = strrchr(__FILE__, '/');
    const int folder = slash ? (int)(slash - __FILE__) : 1;
    snprintf(g.name, sizeof g.name, "%s", name);
    snprintf(path, sizeof path, "%.*s/data/resnet/%s.txt", folder, slash ? __FILE__ : ".", name);
    g.file = fopen(path, "r");
    if (!g.file) fail_msg("cannot open %s", path);
    long long batch, seed;
    assert_int_equal(fscanf(g.file, "case %31s %d %lld %d %d %d %lld\n", arch, &g.spec.cifar_stem, &batch, &g.spec.size,
                            &g.spec.head_hidden, &g.spec.head_out, &seed), 7);
    g.spec.arch = arch_of(arch);
    g.spec.batch = batch;
    g.spec.seed = (uint64_t)seed;
    g.spec.training = 1;
    return g;
}

/* ----- the same numbers as the script ------------------------------------------------------------------------------- */

static void measure(uint64_t seed, const float *x, int64_t count, double out[LINE_NUMBERS]) {
    memset(out, 0, sizeof(double) * LINE_NUMBERS);
    for (int64_t i = 0; i < count; i++) {
        out[0] += (double)x[i] * (double)x[i];
        out[1] += (double)x[i];
    }
    out[0] = sqrt(out[0]);
    for (unsigned k = 0; k < 4; k++) {
        gf_rng r = gf_rng_at(seed, GF_RNG_INIT, SIGNS, k, 0);
        uint32_t word = 0;
        for (int64_t i = 0; i < count; i++) {
            if (i % 32 == 0) word = gf_rng_u32(&r);
            out[2 + k] += word >> (i % 32) & 1 ? -(double)x[i] : (double)x[i];
        }
    }
}

/* Compares x with the next line, which must be of that name and shape. `extra` widens the norm differences are relative to. */
static void expect(golden *g, const char *kind, const char *name, const char *shape, const float *x, int64_t count,
                   double extra) {
    char want_name[128], want_shape[64], have_name[128];
    double want[LINE_NUMBERS], have[LINE_NUMBERS];
    snprintf(have_name, sizeof have_name, "%s%s", kind, name);
    assert_int_equal(fscanf(g->file, "%127s %63s %lf %lf %lf %lf %lf %lf\n", want_name, want_shape, &want[0], &want[1], &want[2],
                            &want[3], &want[4], &want[5]), 8);
    assert_string_equal(have_name, want_name);
    assert_string_equal(shape, want_shape);
    measure(g->spec.seed, x, count, have);
    for (int i = 0; i < LINE_NUMBERS; i++) {
        /* An error e moves a projection by about |e|, but the sum by up to sqrt(count) |e|: all its parts may have one sign. */
        const double error = fabs(have[i] - want[i]) / (want[0] + extra) / (i == 1 ? sqrt((double)count) : 1.0);
        if (error <= g->worst) continue;
        g->worst = error;
        snprintf(g->worst_at, sizeof g->worst_at, "%s, number %d", have_name, i);
        if (!(error <= TOLERANCE)) print_error("%s %s number %d: %.9g, not %.9g\n", g->name, have_name, i, have[i], want[i]);
    }
}

static void expect_tensor(golden *g, const char *kind, const gf_tensor *t, const float *x) {
    char shape[64] = "";
    for (int i = 0; i < t->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), i ? "x%lld" : "%lld", (long long)t->shape[i]);
    expect(g, kind, t->name, shape, x, t->count, 0);
}

static void expect_results(golden *g, const char *kind, gf_net *n, const float *features, const float *projection) {
    char shape[64];
    const int64_t c = gf_net_features(n);
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)g->spec.batch, (long long)c);
    expect(g, kind, "features", shape, features, g->spec.batch * c, 0);
    snprintf(shape, sizeof shape, "%lldx%d", (long long)g->spec.batch, g->spec.head_out);
    expect(g, kind, "projection", shape, projection, g->spec.batch * g->spec.head_out, 0);
}

static void move_norms(const gf_net_spec *s, gf_tensor *t, int count) {
    const char *closing = s->arch == GF_ARCH_RESNET50 ? ".bn3.weight" : ".bn2.weight";
    for (int i = 0; i < count; i++) {
        if (t[i].rank != 1 || !t[i].grad) continue;
        gf_rng r = gf_rng_at(s->seed, GF_RNG_INIT, NORMS, 0, (uint32_t)i);
        const int closes = strncmp(t[i].name, "layer", 5) == 0 && strstr(t[i].name, closing);
        const double lo = strstr(t[i].name, ".bias") ? -0.5 : closes ? 0.1 : 0.5, hi = closes ? 0.3 : lo + 1.0;
        for (int64_t k = 0; k < t[i].count; k++) t[i].value[k] = (float)gf_rng_range(&r, lo, hi);
    }
}

/* Biases the script moved away from the kink of ReLU. */
static void copy_nudges(golden *g, gf_tensor *t, int count) {
    char name[128];
    double value;
    int at, i;
    while (fscanf(g->file, "nudge %127s %d %lf\n", name, &at, &value) == 3) {
        for (i = 0; i < count && strcmp(t[i].name, name) != 0; i++) continue;
        assert_true(i < count && at >= 0 && at < t[i].count);
        t[i].value[at] = (float)value;
    }
}

static float *make_images(const gf_net_spec *s) {
    double coarse[32 * 4 * 4 * 3];
    assert_true(s->batch <= 32);
    const int64_t count = s->batch * s->size * s->size * 3;
    float *x = malloc(sizeof *x * (size_t)count);
    gf_rng fine = gf_rng_at(s->seed, GF_RNG_INIT, IMAGES, 0, 0), rough = gf_rng_at(s->seed, GF_RNG_INIT, COARSE, 0, 0);
    for (int64_t i = 0; i < s->batch * 4 * 4 * 3; i++) coarse[i] = gf_rng_range(&rough, -2.0, 2.0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i % 3, col = i / 3 % s->size, row = i / 3 / s->size % s->size, image = i / 3 / s->size / s->size;
        x[i] = (float)(gf_rng_range(&fine, -0.5, 0.5) + coarse[((image * 4 + row / 8) * 4 + col / 8) * 3 + c]);
    }
    return x;
}

static float *make_loss(const gf_net_spec *s) {
    const int64_t count = s->batch * s->head_out;
    float *w = malloc(sizeof *w * (size_t)count);
    gf_rng r = gf_rng_at(s->seed, GF_RNG_INIT, LOSS, 0, 0);
    for (int64_t i = 0; i < count; i++) w[i] = (float)gf_rng_normal(&r);
    return w;
}

/* ----- the test ---------------------------------------------------------------------------------------------------- */

static void train_part(golden *g, gf_net *n, const float *x, gf_tensor *t, int count) {
    gf_error err = {""};
    const float *features, *projection;
    float *w = make_loss(&g->spec), loss = 0;
    if (gf_net_forward(&err, n, x, g->spec.batch, 1, &features, &projection) != GLOFND_OK) fail_msg("%s", err.text);
    expect_results(g, "", n, features, projection);
    double sum = 0, size = 0;
    for (int64_t i = 0; i < g->spec.batch * g->spec.head_out; i++) {
        sum += (double)w[i] * (double)projection[i];
        size += (double)w[i] * (double)w[i];
    }
    loss = (float)sum;
    expect(g, "", "loss", "1", &loss, 1, sqrt(size));   /* relative to the norm of its gradient: the sum itself may cancel */
    if (gf_net_backward(&err, n, w) != GLOFND_OK) fail_msg("%s", err.text);
    for (int i = 0; i < count; i++)
        if (t[i].grad) expect_tensor(g, "grad:", &t[i], t[i].grad);
    free(w);
}

static void check_case(const char *name) {
    golden g = open_golden(name);
    gf_error err = {""};
    gf_net *n = NULL;
    gf_tensor *t;
    const float *features, *projection;
    if (gf_net_create(&err, &g.spec, &n) != GLOFND_OK) fail_msg("%s", err.text);
    const int count = gf_net_tensors(n, &t);
    move_norms(&g.spec, t, count);
    copy_nudges(&g, t, count);
    gf_net_touch(n);
    for (int i = 0; i < count; i++)
        if (t[i].grad) expect_tensor(&g, "weight:", &t[i], t[i].value);
    float *x = make_images(&g.spec);
    train_part(&g, n, x, t, count);
    for (int i = 0; i < count; i++)
        if (!t[i].grad) expect_tensor(&g, "buffer:", &t[i], t[i].value);
    if (gf_net_forward(&err, n, x, g.spec.batch, 0, &features, &projection) != GLOFND_OK) fail_msg("%s", err.text);
    expect_results(&g, "eval:", n, features, projection);
    assert_int_equal(fgetc(g.file), EOF);
    print_message("%-18s worst %.2e of the norm, at %s\n", name, g.worst, g.worst_at);
    fclose(g.file);
    gf_net_free(n);
    free(x);
    assert_true(g.worst <= TOLERANCE);
}

#define CASE(name) \
    static void name(void **state) { (void)state; check_case(#name); }
CASE(resnet8_cifar)
CASE(resnet18_cifar)
CASE(resnet18_imagenet)
CASE(resnet34_imagenet)
CASE(resnet50_cifar)
CASE(resnet50_imagenet)

int main(void) {
#ifndef GF_HAVE_DNNL
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet8_cifar),     cmocka_unit_test(resnet18_cifar), cmocka_unit_test(resnet18_imagenet),
        cmocka_unit_test(resnet34_imagenet), cmocka_unit_test(resnet50_cifar), cmocka_unit_test(resnet50_imagenet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
