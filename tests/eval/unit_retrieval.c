/* unit_retrieval.c - recalls and the nearest columns against plain loops; ties, a caption each, a single pair, hostile input. */
#include "support/test.h"

#include "eval/zeroshot.h"
#include "pairs/nearest.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct pairs {
    float *image, *text;
    int64_t *owner;
    gf_retrieval_input in;
} pairs;

/* Captions near their image. signs: embeddings of +-1, which gives many ties. */
static pairs make(int64_t images, int64_t texts, int64_t dim, int signs, uint64_t seed) {
    rng g = {seed};
    pairs p = {
        .image = malloc((size_t)(images * dim) * sizeof *p.image),
        .text = malloc((size_t)(texts * dim) * sizeof *p.text),
        .owner = malloc((size_t)texts * sizeof *p.owner),
    };
    for (int64_t i = 0; i < images * dim; i++) p.image[i] = (float)rng_normal(&g);
    for (int64_t i = 0; i < texts; i++) p.owner[i] = texts == images ? i : rng_below(&g, images);
    for (int64_t i = 0; i < texts * dim; i++)
        p.text[i] = p.image[p.owner[i / dim] * dim + i % dim] + 1.5f * (float)rng_normal(&g);
    for (int64_t i = 0; signs && i < images * dim; i++) p.image[i] = p.image[i] < 0 ? -1.0f : 1.0f;
    for (int64_t i = 0; signs && i < texts * dim; i++) p.text[i] = p.text[i] < 0 ? -1.0f : 1.0f;
    p.in = (gf_retrieval_input){
        .image = p.image, .text = p.text, .images = images, .texts = texts, .dim = dim, .owner = p.owner, .job = {.threads = 2}};
    return p;
}

static void drop(pairs *p) {
    free(p->image);
    free(p->text);
    free(p->owner);
}

static double cosine(const float *a, const float *b, int64_t dim) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < dim; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0.0;
}

/* Number of columns that come before column `mine`; values closer than 1e-6 count as equal. */
static int64_t place_of(const float *row, const float *col, int64_t cols, int64_t dim, int64_t mine) {
    const double s = cosine(row, col + mine * dim, dim);
    int64_t before = 0;
    for (int64_t c = 0; c < cols; c++) {
        const double other = cosine(row, col + c * dim, dim);
        before += other > s + 1e-6 || (fabs(other - s) <= 1e-6 && c < mine);
    }
    return before;
}

static void by_hand(const gf_retrieval_input *in, gf_retrieval *out) {
    *out = (gf_retrieval){0};
    for (int64_t t = 0; t < in->texts; t++) {
        const int64_t place = place_of(in->text + t * in->dim, in->image, in->images, in->dim, in->owner[t]);
        for (int k = 0; k < GF_RECALLS; k++) out->ir.at[k] += (place < gf_recall_at[k]) / (double)in->texts;
    }
    for (int64_t i = 0; i < in->images; i++) {
        int64_t best = INT64_MAX;
        for (int64_t t = 0; t < in->texts; t++) {
            if (in->owner[t] != i) continue;
            const int64_t place = place_of(in->image + i * in->dim, in->text, in->texts, in->dim, t);
            best = place < best ? place : best;
        }
        out->queries += best < INT64_MAX;
        for (int k = 0; k < GF_RECALLS; k++) out->tr.at[k] += best < gf_recall_at[k];
    }
    for (int k = 0; k < GF_RECALLS; k++) out->tr.at[k] /= (double)out->queries;
}

static void compare(int64_t images, int64_t texts, int64_t dim, int signs) {
    gf_error err = {{0}};
    gf_retrieval found, expected;
    pairs p = make(images, texts, dim, signs, 7 + (uint64_t)images);
    assert_int_equal(gf_retrieval_measure(&err, &p.in, &found), GLOFND_OK);
    by_hand(&p.in, &expected);
    assert_int_equal(found.queries, expected.queries);
    for (int k = 0; k < GF_RECALLS; k++) {
        assert_float_equal(found.ir.at[k], expected.ir.at[k], 1e-12);
        assert_float_equal(found.tr.at[k], expected.tr.at[k], 1e-12);
    }
    assert_float_equal(found.ir.mean, (found.ir.at[0] + found.ir.at[1] + found.ir.at[2]) / 3, 1e-12);
    assert_float_equal(found.mean, (found.ir.mean + found.tr.mean) / 2, 1e-12);
    drop(&p);
}

TEST(equals_plain_loops) {
    compare(130, 130, 16, 0); /* a caption each */
    compare(200, 700, 12, 0); /* several tiles of captions; images without any */
    compare(90, 20, 8, 0);
    compare(3, 9, 5, 0); /* fewer than 10 */
    compare(1, 1, 4, 0);
    compare(1, 40, 4, 0);
    compare(1100, 300, 9, 0); /* several tiles of images */
}

/* Embeddings of +-1 in 4 dimensions: 16 different ones, so nearly every rank is decided by the index. */
TEST(ties_go_to_the_smaller_index) {
    compare(150, 400, 4, 1);
    compare(700, 700, 4, 1);
    compare(64, 64, 1, 1);
}

TEST(all_equal) {
    gf_retrieval found;
    pairs p = make(20, 40, 3, 0, 5);
    for (int64_t i = 0; i < 60; i++) p.image[i] = 1.0f;
    for (int64_t i = 0; i < 120; i++) p.text[i] = 2.0f;
    for (int64_t i = 0; i < 40; i++) p.owner[i] = i / 2;
    assert_int_equal(gf_retrieval_measure(NULL, &p.in, &found), GLOFND_OK);
    assert_float_equal(found.ir.at[0], 1.0 / 20, 1e-12); /* only captions of image 0 */
    assert_float_equal(found.ir.at[2], 10.0 / 20, 1e-12);
    assert_float_equal(found.tr.at[2], 5.0 / 20, 1e-12); /* ten captions are of five images */
    assert_float_equal(found.ir_chance.at[1], 5.0 / 20, 1e-12);
    assert_float_equal(found.tr_chance.at[0], 2.0 / 40, 1e-12);
    assert_float_equal(found.tr_chance.at[1], 1 - (38.0 * 37 * 36 * 35 * 34) / (40.0 * 39 * 38 * 37 * 36), 1e-12);
    drop(&p);
}

TEST(threads_do_not_matter) {
    gf_retrieval a, b;
    pairs p = make(300, 900, 20, 0, 11);
    p.in.job.threads = 1;
    assert_int_equal(gf_retrieval_measure(NULL, &p.in, &a), GLOFND_OK);
    p.in.job.threads = 3;
    assert_int_equal(gf_retrieval_measure(NULL, &p.in, &b), GLOFND_OK);
    assert_memory_equal(&a, &b, sizeof a);
    drop(&p);
}

TEST(nearest_are_in_order) {
    pairs p = make(1300, 70, 10, 0, 13);
    enum { K = 20 };
    int64_t *best = malloc(70 * K * sizeof *best), few[70 * 3];
    const gf_sweep_job job = {.threads = 2};
    const gf_vectors rows = {.x = p.text, .n = 70, .dim = 10};
    gf_vectors cols = {.x = p.image, .n = 1300, .dim = 10};
    assert_int_equal(gf_nearest(NULL, &rows, &cols, K, &job, best), GLOFND_OK);
    for (int64_t r = 0; r < 70; r++)
        for (int i = 0; i < K; i++) assert_int_equal(place_of(p.text + r * 10, p.image, 1300, 10, best[r * K + i]), i);
    cols.n = 2;
    assert_int_equal(gf_nearest(NULL, &rows, &cols, 3, &job, few), GLOFND_OK);
    for (int64_t r = 0; r < 70; r++) assert_true(few[r * 3] + few[r * 3 + 1] == 1 && few[r * 3 + 2] == -1);
    assert_int_equal(gf_nearest(NULL, &rows, &cols, 0, &job, few), GLOFND_E_ARGUMENT);
    free(best);
    drop(&p);
}

TEST(says_what_is_wrong) {
    gf_error err = {{0}};
    gf_retrieval found;
    pairs p = make(5, 8, 3, 0, 17);
    p.owner[6] = 5;
    assert_int_equal(gf_retrieval_measure(&err, &p.in, &found), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "caption 6 belongs to image 5"));
    p.owner[6] = -1;
    assert_int_equal(gf_retrieval_measure(&err, &p.in, &found), GLOFND_E_ARGUMENT);
    p.owner[6] = 0;
    p.text[3 * 4 + 1] = NAN;
    assert_int_equal(gf_retrieval_measure(&err, &p.in, &found), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "caption 4"));
    p.text[3 * 4 + 1] = 0.0f;
    p.image[0] = INFINITY;
    assert_int_equal(gf_retrieval_measure(&err, &p.in, &found), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "image 0"));
    p.in.texts = 0;
    assert_int_equal(gf_retrieval_measure(&err, &p.in, &found), GLOFND_E_ARGUMENT);
    drop(&p);
}
