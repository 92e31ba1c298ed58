/* small_encoders.c - see small_encoders.h. */
#include "small_encoders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/random.h"

const gf_net_spec text_spec = {.arch = GF_ARCH_TEXT,
                               .batch = BATCH,
                               .embed_dim = EMBED,
                               .width = 32,
                               .layers = 2,
                               .heads = 2,
                               .context = CONTEXT,
                               .vocab = VOCAB,
                               .training = 1,
                               .seed = 5,
                               .threads = 2};
const gf_net_spec vit_spec = {.arch = GF_ARCH_VIT,
                              .batch = BATCH,
                              .size = 16,
                              .embed_dim = EMBED,
                              .width = 32,
                              .layers = 2,
                              .heads = 2,
                              .patch = 4,
                              .training = 1,
                              .seed = 5,
                              .threads = 2};
const gf_net_spec clip_spec = {.arch = GF_ARCH_CLIP_RESNET50,
                               .batch = BATCH,
                               .size = 32,
                               .embed_dim = EMBED,
                               .width = 8,
                               .training = 1,
                               .seed = 5,
                               .threads = 2};
const gf_net_spec resnet_spec = {.arch = GF_ARCH_RESNET8,
                                 .cifar_stem = 1,
                                 .batch = BATCH,
                                 .size = 16,
                                 .embed_dim = EMBED,
                                 .training = 1,
                                 .seed = 5,
                                 .threads = 2};

void net_ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

gf_net *net_new(gf_net_spec s) {
    gf_error err = {""};
    gf_net *n = NULL;
    net_ok(gf_net_create(&err, &s, &n), &err);
    return n;
}

void net_load(gf_net *n, int64_t first) {
    gf_error err = {""};
    const gf_net_spec *s = &n->spec;
    const int64_t pixels = (int64_t)s->size * s->size * 3;
    for (int64_t i = 0; i < s->batch; i++) {
        rng g = {(uint64_t)(first + i)};
        if (s->arch == GF_ARCH_TEXT) {
            int32_t tokens[CONTEXT];
            for (int k = 0; k < CONTEXT; k++) tokens[k] = (int32_t)rng_below(&g, VOCAB);
            net_ok(gf_net_load_tokens(&err, n, tokens, i, 1), &err);
        } else {
            float *x = malloc(sizeof *x * (size_t)pixels);
            for (int64_t k = 0; k < pixels; k++) x[k] = (float)rng_normal(&g);
            net_ok(gf_net_load(&err, n, x, i, 1), &err);
            free(x);
        }
    }
}

const float *net_forward(gf_net *n, int64_t first, int train) {
    gf_error err = {""};
    const float *z;
    net_load(n, first);
    net_ok(gf_net_forward(&err, n, NULL, n->spec.batch, train, NULL, &z), &err);
    assert_non_null(z);
    return z;
}

void net_backward(gf_net *n, int64_t first) {
    gf_error err = {""};
    float *d = malloc(sizeof *d * (size_t)(n->spec.batch * EMBED));
    for (int64_t i = 0; i < n->spec.batch; i++) {
        rng g = {(uint64_t)(first + i + 1000)};
        for (int k = 0; k < EMBED; k++) d[i * EMBED + k] = (float)rng_normal(&g);
    }
    net_ok(gf_net_backward(&err, n, d), &err);
    free(d);
}

gf_tensor *net_tensor(gf_net *n, const char *name) {
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count; i++)
        if (strcmp(t[i].name, name) == 0) return &t[i];
    fail_msg("there is no %s", name);
    return NULL;
}
