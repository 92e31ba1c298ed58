/* golden_net.c - see golden_net.h. */
#include "support/golden_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/source_file.h"
#include "util/rng.h"

#define LINE_NUMBERS 6 /* norm, sum, four projections */

enum { NORMS = 1, IMAGES, COARSE, LOSS, SIGNS, TOWER, TOKENS }; /* "epoch" of the streams, as in the scripts */

typedef struct golden {
    FILE *file;
    char name[64];
    gf_net_spec spec;
    double tolerance, worst;
    char worst_at[160];
} golden;

/* ----- the file ---------------------------------------------------------------------------------------------------- */

static gf_arch arch_of(const char *text) {
    static const char *const names[] = {"resnet8", "resnet18", "resnet34", "resnet50", "clip_resnet50", "vit", "text"};
    for (int i = 0; i < 7; i++)
        if (strcmp(text, names[i]) == 0) return (gf_arch)i;
    fail_msg("unknown arch %s", text);
    return GF_ARCH_RESNET8;
}

static FILE *open_case(const char *folder, const char *name) {
    char file[512];
    snprintf(file, sizeof file, "tests/fixtures/%s/%s.txt", folder, name);
    FILE *f = fopen(source_file(file), "r");
    if (!f) fail_msg("cannot open %s", source_file(file));
    return f;
}

static golden open_golden(const char *name, int encoder) {
    golden g = {0};
    char arch[32];
    gf_net_spec *s = &g.spec;
    snprintf(g.name, sizeof g.name, "%s", name);
    g.file = open_case(encoder ? "clip" : "resnet", name);
    long long batch, seed;
    if (encoder)
        assert_int_equal(fscanf(g.file, "tower %31s %lld %d %d %d %d %d %d %d %d %d %lld\n", arch, &batch, &s->size,
                                &s->embed_dim, &s->width, &s->layers, &s->heads, &s->patch, &s->context, &s->vocab,
                                &s->quick_gelu, &seed),
                         12);
    else
        assert_int_equal(fscanf(g.file, "case %31s %d %lld %d %d %d %lld\n", arch, &s->cifar_stem, &batch, &s->size,
                                &s->head_hidden, &s->head_out, &seed),
                         7);
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
                            &want[3], &want[4], &want[5]),
                     8);
    assert_string_equal(have_name, want_name);
    assert_string_equal(shape, want_shape);
    measure(g->spec.seed, x, count, have);
    for (int i = 0; i < LINE_NUMBERS; i++) {
        /* An error e moves a projection by about |e|, but the sum by up to sqrt(count) |e|: all its parts may have one sign. */
        const double error = fabs(have[i] - want[i]) / (want[0] + extra) / (i == 1 ? sqrt((double)count) : 1.0);
        if (error <= g->worst) continue;
        g->worst = error;
        snprintf(g->worst_at, sizeof g->worst_at, "%s, number %d", have_name, i);
        if (!(error <= g->tolerance)) print_error("%s %s number %d: %.9g, not %.9g\n", g->name, have_name, i, have[i], want[i]);
    }
}

/* `at`: t->value or t->grad. */
static void expect_tensor(golden *g, const char *kind, gf_net *n, const gf_tensor *t, const float *at) {
    gf_error err = {""};
    char shape[64] = "";
    float *x = malloc(sizeof *x * (size_t)t->count);
    if (gf_net_get(&err, n, t, at, x) != GLOFND_OK) fail_msg("%s", err.text);
    for (int i = 0; i < t->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), i ? "x%lld" : "%lld", (long long)t->shape[i]);
    /* Softmax does not see what is added to all keys: the gradient of their bias is 0 but for rounding. */
    expect(g, kind, t->name, shape, x, t->count, strstr(t->name, "k_proj.bias") ? 0.1 : 0.0);
    free(x);
}

static float *fetch(gf_net *n, const float *from, int64_t count) {
    gf_error err = {""};
    float *x = malloc(sizeof *x * (size_t)count);
    if (gf_net_read(&err, n, x, from, sizeof *x * (size_t)count) != GLOFND_OK) fail_msg("%s", err.text);
    return x;
}

static int64_t outputs_of(const gf_net_spec *s) { return s->embed_dim ? s->embed_dim : s->head_out; }

static void expect_rows(golden *g, const char *kind, const char *name, gf_net *n, const float *at, int64_t c) {
    char shape[64];
    float *x = fetch(n, at, g->spec.batch * c);
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)g->spec.batch, (long long)c);
    expect(g, kind, name, shape, x, g->spec.batch * c, 0);
    free(x);
}

/* Features of encoders are between layers that the script does not see. */
static void expect_results(golden *g, const char *kind, gf_net *n, const float *features, const float *projection) {
    if (!g->spec.embed_dim) expect_rows(g, kind, "features", n, features, gf_net_features(n));
    expect_rows(g, kind, "projection", n, projection, outputs_of(&g->spec));
}

static void put_tensor(gf_net *n, const gf_tensor *t, const float *x) {
    gf_error err = {""};
    if (gf_net_put(&err, n, t, t->value, x) != GLOFND_OK) fail_msg("%s", err.text);
}

static void move_norms(const gf_net_spec *s, gf_net *n, gf_tensor *t, int count) {
    const char *closing = s->arch == GF_ARCH_RESNET50 ? ".bn3.weight" : ".bn2.weight";
    for (int i = 0; i < count; i++) {
        if (t[i].rank != 1 || !t[i].grad) continue;
        gf_rng r = gf_rng_at(s->seed, GF_RNG_INIT, NORMS, 0, (uint32_t)i);
        const int closes = strncmp(t[i].name, "layer", 5) == 0 && strstr(t[i].name, closing);
        const double lo = strstr(t[i].name, ".bias") ? -0.5 : closes ? 0.1 : 0.5, hi = closes ? 0.3 : lo + 1.0;
        float *x = malloc(sizeof *x * (size_t)t[i].count);
        for (int64_t k = 0; k < t[i].count; k++) x[k] = (float)gf_rng_range(&r, lo, hi);
        put_tensor(n, &t[i], x);
        free(x);
    }
}

static uint32_t hash_of(const char *name) { /* FNV-1a */
    uint32_t h = 0x811C9DC5u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x01000193u;
    return h;
}

/* Encoders: every tensor from the stream of its name. */
static void draw_weights(const gf_net_spec *s, gf_net *n, gf_tensor *t, int count) {
    for (int i = 0; i < count; i++) {
        if (!t[i].grad) continue;
        const size_t length = strlen(t[i].name);
        const int is_bias = strcmp(t[i].name + length - 4, "bias") == 0;
        double lo = 0.5, hi = 1.5;
        if (strstr(t[i].name, "embedding") || (t[i].rank == 1 && is_bias)) lo = -0.5, hi = 0.5;
        else if (t[i].rank > 1) hi = sqrt(3.0 * (double)t[i].shape[0] / (double)t[i].count), lo = -hi;
        else if (strstr(t[i].name, ".layer") && strstr(t[i].name, ".bn3.weight")) lo = 0.1, hi = 0.3;
        gf_rng r = gf_rng_at(s->seed, GF_RNG_INIT, TOWER, 0, hash_of(t[i].name));
        float *x = malloc(sizeof *x * (size_t)t[i].count);
        for (int64_t k = 0; k < t[i].count; k++) x[k] = (float)gf_rng_range(&r, lo, hi);
        put_tensor(n, &t[i], x);
        free(x);
    }
}

/* Biases the script moved away from the kink of ReLU. */
static void copy_nudges(golden *g, gf_net *n, gf_tensor *t, int count) {
    char name[128];
    double value;
    int at, i;
    while (fscanf(g->file, "nudge %127s %d %lf\n", name, &at, &value) == 3) {
        for (i = 0; i < count && strcmp(t[i].name, name) != 0; i++) continue;
        assert_true(i < count && at >= 0 && at < t[i].count);
        float *x = fetch(n, t[i].value, t[i].count);
        x[at] = (float)value;
        put_tensor(n, &t[i], x);
        free(x);
    }
}

static float *make_images(const gf_net_spec *s) {
    double coarse[32 * 4 * 4 * 3];
    assert_true(s->batch <= 32);
    const int64_t count = s->batch * s->size * s->size * 3, square = s->size / 4;
    float *x = malloc(sizeof *x * (size_t)count);
    gf_rng fine = gf_rng_at(s->seed, GF_RNG_INIT, IMAGES, 0, 0), rough = gf_rng_at(s->seed, GF_RNG_INIT, COARSE, 0, 0);
    for (int64_t i = 0; i < s->batch * 4 * 4 * 3; i++) coarse[i] = gf_rng_range(&rough, -2.0, 2.0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i % 3, col = i / 3 % s->size, row = i / 3 / s->size % s->size, image = i / 3 / s->size / s->size;
        x[i] = (float)(gf_rng_range(&fine, -0.5, 0.5) + coarse[((image * 4 + row / square) * 4 + col / square) * 3 + c]);
    }
    return x;
}

/* Random tokens, the last of the vocabulary as the end, then zeros. */
static int32_t *make_tokens(const gf_net_spec *s) {
    int32_t *t = malloc(sizeof *t * (size_t)(s->batch * s->context));
    gf_rng r = gf_rng_at(s->seed, GF_RNG_INIT, TOKENS, 0, 0);
    for (int64_t i = 0; i < s->batch * s->context; i++) {
        const int64_t text = i / s->context, at = i % s->context, end = 2 + 3 * text % (s->context - 2);
        const int32_t drawn = (int32_t)(gf_rng_uniform(&r) * (s->vocab - 1));
        t[i] = at < end ? drawn : at == end ? s->vocab - 1 : 0;
    }
    return t;
}

static float *make_loss(const gf_net_spec *s) {
    const int64_t count = s->batch * outputs_of(s);
    float *w = malloc(sizeof *w * (size_t)count);
    gf_rng r = gf_rng_at(s->seed, GF_RNG_INIT, LOSS, 0, 0);
    for (int64_t i = 0; i < count; i++) w[i] = (float)gf_rng_normal(&r);
    return w;
}

/* ----- the test ---------------------------------------------------------------------------------------------------- */

static void forward(golden *g, gf_net *n, int train, const float **features, const float **projection) {
    gf_error err = {""};
    const int reads = g->spec.arch == GF_ARCH_TEXT;
    float *x = reads ? NULL : make_images(&g->spec);
    int32_t *tokens = reads ? make_tokens(&g->spec) : NULL;
    if (tokens && gf_net_load_tokens(&err, n, tokens, 0, g->spec.batch) != GLOFND_OK) fail_msg("%s", err.text);
    if (gf_net_forward(&err, n, x, g->spec.batch, train, features, projection) != GLOFND_OK) fail_msg("%s", err.text);
    free(tokens);
    free(x);
}

static void train_part(golden *g, gf_net *n, gf_tensor *t, int count) {
    gf_error err = {""};
    const float *features, *projection;
    const int64_t outputs = g->spec.batch * outputs_of(&g->spec);
    float *w = make_loss(&g->spec), *d = gf_net_alloc(n, sizeof *d * (size_t)outputs), loss = 0;
    forward(g, n, 1, &features, &projection);
    expect_results(g, "", n, features, projection);
    double sum = 0, size = 0;
    float *p = fetch(n, projection, outputs);
    for (int64_t i = 0; i < outputs; i++) {
        sum += (double)w[i] * (double)p[i];
        size += (double)w[i] * (double)w[i];
    }
    loss = (float)sum;
    expect(g, "", "loss", "1", &loss, 1, sqrt(size)); /* relative to the norm of its gradient: the sum itself may cancel */
    if (gf_net_write(&err, n, d, w, sizeof *d * (size_t)outputs) != GLOFND_OK) fail_msg("%s", err.text);
    if (gf_net_backward(&err, n, d) != GLOFND_OK) fail_msg("%s", err.text);
    for (int i = 0; i < count; i++)
        if (t[i].grad) expect_tensor(g, "grad:", n, &t[i], t[i].grad);
    gf_net_release(n, d);
    free(w);
    free(p);
}

static int by_name(const void *a, const void *b) { return strcmp(((const gf_tensor *)a)->name, ((const gf_tensor *)b)->name); }

static void check(const char *name, int encoder, glofnd_device device, gf_precision precision, double tolerance) {
    golden g = open_golden(name, encoder);
    g.tolerance = tolerance;
    g.spec.device = device;
    g.spec.precision = precision;
    g.spec.exact = g.spec.deterministic = 1;
    gf_error err = {""};
    gf_net *n = NULL;
    gf_tensor *mine;
    const float *features, *projection;
    if (gf_net_create(&err, &g.spec, &n) != GLOFND_OK) fail_msg("%s", err.text);
    const int count = gf_net_tensors(n, &mine);
    gf_tensor *t = malloc(sizeof *t * (size_t)count);
    memcpy(t, mine, sizeof *t * (size_t)count);
    if (encoder) qsort(t, (size_t)count, sizeof *t, by_name);
    if (encoder) draw_weights(&g.spec, n, t, count);
    else move_norms(&g.spec, n, t, count);
    copy_nudges(&g, n, t, count);
    gf_net_touch(n);
    for (int i = 0; i < count; i++)
        if (t[i].grad) expect_tensor(&g, "weight:", n, &t[i], t[i].value);
    train_part(&g, n, t, count);
    for (int i = 0; i < count; i++)
        if (!t[i].grad) expect_tensor(&g, "buffer:", n, &t[i], t[i].value);
    forward(&g, n, 0, &features, &projection);
    expect_results(&g, "eval:", n, features, projection);
    assert_int_equal(fgetc(g.file), EOF);
    print_message("%-18s worst %.2e of the norm, at %s\n", name, g.worst, g.worst_at);
    fclose(g.file);
    gf_net_free(n);
    free(t);
    assert_true(g.worst <= tolerance);
}

void golden_net_check(const char *name, glofnd_device device, gf_precision precision, double tolerance) {
    check(name, 0, device, precision, tolerance);
}

void golden_tower_check(const char *name, glofnd_device device, gf_precision precision, double tolerance) {
    check(name, 1, device, precision, tolerance);
}
