/* fault_net.c - memory of a net: each allocation of gf_net_create may fail once with nothing worse than E_MEMORY and no leak,
 * and forward and backward take none; those of texts none but for the first of each length. Counts what our own code takes; what
 * oneDNN takes inside is its own affair.
 */
#include "support/test.h"

#include "nn/net.h"
#include "support/faults.h"
#include <stdlib.h>
#include <string.h>

static const gf_net_spec spec = {
    .arch = GF_ARCH_RESNET8, .batch = 4, .size = 16, .head_hidden = 32, .head_out = 16, .training = 1, .threads = 2};

static const gf_net_spec text = {.arch = GF_ARCH_TEXT,
                                 .batch = 4,
                                 .embed_dim = 16,
                                 .width = 16,
                                 .layers = 1,
                                 .heads = 2,
                                 .context = 6,
                                 .vocab = 20,
                                 .training = 1,
                                 .threads = 2};

/* many: allocations that there are at least. */
static void fail_everywhere(const gf_net_spec *s, long many) {
    gf_net *n = NULL;
    gf_error err;
    long at = 0;
    for (;; at++) {
        err.text[0] = '\0';
        faults_at(at);
        const glofnd_status status = gf_net_create(&err, s, &n);
        if (!faults_end()) break;
        assert_int_equal(status, GLOFND_E_MEMORY);
        assert_null(n);
        assert_non_null(strstr(err.text, "memory"));
    }
    assert_true(at > many);
    assert_non_null(n);
    gf_net_free(n);
}

TEST(every_allocation_may_fail) {
    fail_everywhere(&spec, 50);
    fail_everywhere(&text, 50);
}

/* The engine is another net's: what fails must leave it whole. */
TEST(a_net_beside_another_may_fail) {
    gf_error err = {""};
    gf_net *image = NULL;
    gf_net_spec beside = text;
    static float x[4 * 16 * 16 * 3];
    if (gf_net_create(&err, &spec, &image) != GLOFND_OK) fail_msg("%s", err.text);
    beside.engine_owner = image;
    fail_everywhere(&beside, 15); /* products of layers that were made stay with the engine */
    assert_int_equal(gf_net_forward(&err, image, x, 4, 1, NULL, NULL), GLOFND_OK);
    gf_net_free(image);
}

static glofnd_status step_of_texts(gf_error *err, gf_net *n, const int32_t *tokens) {
    static const float d[4 * 16] = {1, 2, 3};
    TRY(gf_net_load_tokens(err, n, tokens, 0, 4));
    TRY(gf_net_forward(err, n, NULL, 4, 1, NULL, NULL));
    return gf_net_backward(err, n, d);
}

/* Two lengths: each may allocate once, and fail; and never again, in any order. */
TEST(steps_of_texts_allocate_once_per_length) {
    gf_net *n = NULL;
    gf_error err = {""};
    static const int32_t texts[2][4 * 6] = {{1, 2, 19}, {1, 2, 3, 4, 5, 19, 1, 2, 3, 4, 19, 0, 1, 2, 3, 4, 5, 19}};
    if (gf_net_create(&err, &text, &n) != GLOFND_OK) fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        long at = 0;
        for (;; at++) {
            faults_at(at);
            const glofnd_status status = step_of_texts(&err, n, texts[i]);
            if (!faults_end()) break;
            assert_int_equal(status, GLOFND_E_MEMORY);
        }
        assert_true(at > 0);
    }
    faults_at(-1);
    for (int i = 0; i < 4; i++) assert_int_equal(step_of_texts(&err, n, texts[i % 2]), GLOFND_OK);
    assert_int_equal(faults_count(), 0);
    gf_net_free(n);
}

TEST(a_step_allocates_nothing) {
    gf_net *n = NULL;
    gf_error err = {""};
    static float x[4 * 16 * 16 * 3], d[4 * 16];
    if (gf_net_create(&err, &spec, &n) != GLOFND_OK) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 37 % 101) / 50;
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) d[i] = (float)(i * 13 % 17) / 9;
    faults_at(-1);
    assert_int_equal(gf_net_forward(&err, n, x, 4, 1, NULL, NULL), GLOFND_OK);
    assert_int_equal(gf_net_backward(&err, n, d), GLOFND_OK);
    gf_net_touch(n);
    assert_int_equal(gf_net_forward(&err, n, x, 3, 0, NULL, NULL), GLOFND_OK);
    assert_int_equal(faults_count(), 0);
    gf_net_free(n);
}

#ifndef GF_HAVE_DNNL
TEST_SKIP("built without a library that it needs")
#endif
