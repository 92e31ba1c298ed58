/* unit_texts.c - texts that are computed up to their end alone, packed: embeddings and gradients are those of whole texts, for
 * every length, and do not depend on what follows the end; how long texts are computed, and loading them in parts.
 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/nn_ops.h"

/* ----- how long texts are computed --------------------------------------------------------------------------------- */

/* At least the mean, at most the context, an eighth too long at most; numbers count the lengths there are. */
TEST(lengths_are_rounded_up_to_few) {
    for (int64_t max = 2; max <= 4096; max += max < 100 ? 1 : 37) {
        int64_t before = 0;
        int number = -1;
        for (int64_t mean = 1; mean <= max; mean++) {
            const int64_t length = gf_nn_text_length(mean, max);
            assert_true(length >= mean && length <= max && 8 * (length - mean) < length && length >= before);
            number += length != before;
            before = length;
            assert_int_equal(gf_nn_text_length(length, max), length);
            assert_int_equal(gf_nn_text_length_number(length, max), number);
        }
        assert_int_equal(before, max);
    }
    assert_int_equal(gf_nn_text_length_number(77, 77), 33);
}

#ifdef GF_HAVE_DNNL

#include "nn/graph.h"
#include "support/nn_reference.h"
#include "support/random.h"
#include "support/small_encoders.h"

enum { TEXTS = 9, LONG = 77, WORDS = 50 };

/* Sums of the two orders of rows differ by their rounding alone. */
#define LIMIT 2e-6

static const gf_net_spec spec = {.arch = GF_ARCH_TEXT,
                                 .batch = TEXTS,
                                 .embed_dim = 24,
                                 .width = 48,
                                 .layers = 3,
                                 .heads = 3,
                                 .context = LONG,
                                 .vocab = WORDS,
                                 .training = 1,
                                 .seed = 9,
                                 .threads = 2};

typedef struct texts {
    int32_t token[TEXTS][LONG];
} texts;

/* The last of `length` tokens is the end; what follows is drawn from `rest` on: it must not matter. */
static texts draw(const int *length, uint64_t rest) {
    texts t;
    for (int i = 0; i < TEXTS; i++) {
        rng g = {(uint64_t)i + 1}, after = {rest + (uint64_t)i};
        for (int k = 0; k < LONG; k++)
            t.token[i][k] = (int32_t)(k < length[i] - 1 ? rng_below(&g, WORDS - 1) : rest ? rng_below(&after, WORDS) : 0);
        t.token[i][length[i] - 1] = WORDS - 1;
    }
    return t;
}

static void step(gf_net *n, const texts *t) {
    gf_error err = {""};
    float d[TEXTS * 24];
    rng g = {77};
    for (int i = 0; i < TEXTS * 24; i++) d[i] = (float)rng_normal(&g);
    if (t) net_ok(gf_net_load_tokens(&err, n, t->token[0], 0, TEXTS), &err);
    net_ok(gf_net_forward(&err, n, NULL, TEXTS, 1, NULL, NULL), &err);
    net_ok(gf_net_backward(&err, n, d), &err);
}

static const float *embeddings(const gf_net *n) {
    const gf_graph *g = &n->graph;
    return (const float *)(const void *)(n->arena + g->block[g->value[g->projection].data].offset);
}

static int64_t numbers(const gf_net *n) { return n->graph.params.numbers; }

typedef struct pair { /* of equal weights */
    gf_net *packed, *whole;
} pair;

static pair make(gf_net_spec s) {
    pair p = {.packed = net_new(s)};
    s.whole_texts = 1;
    p.whole = net_new(s);
    return p;
}

static void drop(pair p) {
    gf_net_free(p.packed);
    gf_net_free(p.whole);
}

/* Both take the step; `length` is how long texts are computed on average. */
static void compare(pair p, const texts *t, int64_t length, double limit) {
    step(p.packed, t);
    step(p.whole, t);
    assert_int_equal(gf_net_text_length(p.packed), length);
    assert_int_equal(gf_net_text_length(p.whole), LONG);
    const double z = ref_distance_floats(embeddings(p.packed), embeddings(p.whole), TEXTS * 24);
    const double d = ref_distance_floats(p.packed->grads, p.whole->grads, numbers(p.whole));
    if (!(z <= limit && d <= limit)) fail_msg("embeddings are off by %.3g, gradients by %.3g, over %.3g", z, d, limit);
}

static void all_alike(int *length, int k) {
    for (int i = 0; i < TEXTS; i++) length[i] = k;
}

TEST(every_length_gives_what_whole_texts_give) {
    int length[TEXTS];
    const pair p = make(spec);
    for (int k = 1; k <= LONG; k++) {
        all_alike(length, k);
        const texts t = draw(length, 5);
        compare(p, &t, gf_nn_text_length(k, LONG), LIMIT);
    }
    assert_memory_equal(p.packed->grads, p.whole->grads, sizeof(float) * (size_t)numbers(p.whole)); /* 77: the same work */
    assert_memory_equal(embeddings(p.packed), embeddings(p.whole), sizeof(float) * TEXTS * 24);
    drop(p);
}

static void compare_mixed(gf_net_spec s, double limit) {
    static const int mixed[][TEXTS] = {{1, 77, 2, 40, 3, 15, 16, 17, 33},
                                       {77, 1, 1, 1, 1, 1, 1, 1, 1},
                                       {1, 1, 1, 1, 1, 1, 1, 1, 77},
                                       {14, 9, 22, 11, 8, 30, 13, 12, 10},
                                       {77, 77, 77, 77, 77, 77, 77, 77, 1}};
    static const int64_t means[] = {24, 10, 10, 15, 72};
    const pair p = make(s);
    for (int i = 0; i < 5; i++) {
        const texts t = draw(mixed[i], 7);
        compare(p, &t, means[i], limit);
    }
    drop(p);
}

TEST(mixed_lengths_give_what_whole_texts_give) { compare_mixed(spec, LIMIT); }

TEST(mixed_lengths_in_bf16_too) {
    gf_net_spec s = spec;
    s.precision = GF_BF16;
    gf_error err = {""};
    gf_net *n = NULL;
    if (gf_net_create(&err, &s, &n) == GLOFND_E_UNSUPPORTED) skip(); /* oneDNN needs AVX-512 for it */
    gf_net_free(n);
    compare_mixed(s, 1e-2);
}

/* Bit for bit, as nothing after the end is read: neither a different padding nor the texts before have a part in it. */
TEST(what_follows_the_end_does_not_matter) {
    static const int length[TEXTS] = {14, 9, 22, 11, 8, 30, 13, 12, 10}, others[TEXTS] = {70, 1, 60, 3, 55, 77, 31, 2, 9};
    const texts zeros = draw(length, 0), words = draw(length, 11), between = draw(others, 3);
    gf_net *a = net_new(spec), *b = net_new(spec);
    step(a, &zeros);
    step(b, &between);
    step(b, &words);
    assert_memory_equal(embeddings(a), embeddings(b), sizeof(float) * TEXTS * 24);
    assert_memory_equal(a->grads, b->grads, sizeof(float) * (size_t)numbers(a));
    gf_net_free(a), gf_net_free(b);
}

/* Without an end, with two, and with nothing but zeros: a text ends at the first of its largest tokens. */
TEST(texts_without_an_end_have_one_too) {
    int length[TEXTS];
    all_alike(length, 5);
    texts t = draw(length, 0);
    memset(t.token[0], 0, sizeof t.token[0]);
    for (int k = 0; k < LONG; k++) t.token[1][k] = k % WORDS;     /* the largest is not the last: position 49 */
    for (int k = 0; k < LONG; k++) t.token[2][k] = k * 40 / LONG; /* and here the first of the 39s */
    t.token[3][30] = WORDS - 1;
    const pair p = make(spec);
    compare(p, &t, 18, LIMIT); /* 1 + 50 + 77 - 1 + 6 * 5 = 157 */
    drop(p);
}

/* Positions that no text reaches have no gradient. */
TEST(positions_out_of_reach_have_no_gradient) {
    static const int length[TEXTS] = {4, 9, 20, 11, 8, 20, 13, 12, 10};
    const texts t = draw(length, 1);
    gf_net *n = net_new(spec);
    step(n, &t);
    const float *grad = net_tensor(n, "positional_embedding")->grad;
    for (int64_t i = 0; i < LONG * spec.width; i++) assert_true(i < 20 * spec.width ? grad[i] != 0.0f : grad[i] == 0.0f);
    gf_net_free(n);
}

/* ----- loading ----------------------------------------------------------------------------------------------------- */

TEST(texts_may_come_in_parts) {
    static const int length[TEXTS] = {14, 9, 22, 11, 8, 30, 13, 12, 10};
    const texts t = draw(length, 0);
    gf_error err = {""};
    gf_net *once = net_new(spec), *parts = net_new(spec);
    step(once, &t);
    for (int i = TEXTS - 1; i >= 0; i -= 2) net_ok(gf_net_load_tokens(&err, parts, t.token[i], i, 1), &err);
    for (int i = 1; i < TEXTS; i += 2) net_ok(gf_net_load_tokens(&err, parts, t.token[i], i, 1), &err);
    step(parts, NULL);
    assert_memory_equal(once->grads, parts->grads, sizeof(float) * (size_t)numbers(once));
    step(parts, NULL); /* the texts stay */
    assert_memory_equal(once->grads, parts->grads, sizeof(float) * (size_t)numbers(once));
    gf_net_free(once), gf_net_free(parts);
}

/* Texts of the batch before, here long ones, are gone. */
TEST(an_incomplete_batch_is_no_longer_than_its_texts) {
    int length[TEXTS];
    gf_error err = {""};
    gf_net_spec s = spec;
    const float *z;
    float first[2 * 24];
    s.training = 0;
    gf_net *n = net_new(s);
    all_alike(length, LONG);
    texts t = draw(length, 0);
    net_ok(gf_net_load_tokens(&err, n, t.token[0], 0, TEXTS), &err);
    net_ok(gf_net_forward(&err, n, NULL, TEXTS, 0, NULL, &z), &err);
    all_alike(length, 12);
    t = draw(length, 0);
    net_ok(gf_net_load_tokens(&err, n, t.token[0], 0, 2), &err);
    net_ok(gf_net_forward(&err, n, NULL, 2, 0, NULL, &z), &err);
    assert_int_equal(gf_net_text_length(n), 4); /* 2 * 12 + 7 */
    memcpy(first, z, sizeof first);
    net_ok(gf_net_load_tokens(&err, n, t.token[0], 0, TEXTS), &err);
    net_ok(gf_net_forward(&err, n, NULL, TEXTS, 0, NULL, &z), &err);
    assert_int_equal(gf_net_text_length(n), 12);
    assert_true(ref_distance_floats(first, z, 2 * 24) <= LIMIT);
    gf_net_free(n);
}

/* ----- several ranks ----------------------------------------------------------------------------------------------- */

static glofnd_status others_are_longer(gf_error *err, void *user, int64_t *x) {
    (void)err;
    int *calls = user;
    ++*calls;
    *x = *x < 36 ? 36 : *x;
    return GLOFND_OK;
}

/* All ranks compute the length of the rank that needs most, so that they play the same record. */
TEST(ranks_agree_on_the_longest) {
    static const int length[TEXTS] = {14, 9, 22, 11, 8, 30, 13, 12, 10};
    const texts t = draw(length, 2);
    int calls = 0;
    const gf_sync_norm ranks = {.count = 2, .user = &calls, .largest = others_are_longer};
    gf_net_spec s = spec;
    s.ranks = &ranks;
    const pair p = make(s);
    assert_int_equal(calls, 0);
    compare(p, &t, 36, LIMIT);
    assert_int_equal(calls, 2);
    drop(p);
}

TEST(one_length_more_than_an_index_holds_is_refused) {
    gf_error err = {""};
    gf_net_spec s = spec;
    gf_net *n = NULL;
    s.batch = 1 << 20, s.context = 4096;
    assert_int_equal(gf_net_create(&err, &s, &n), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "tokens"));
}

#endif
