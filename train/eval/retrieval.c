/* retrieval.c - see retrieval.h. */
#include "eval/retrieval.h"

#include <stdlib.h>

#include "pairs/nearest.h"
#include "util/array.h"

const int gf_recall_at[GF_RECALLS] = {1, 5, 10};

enum { K_MAX = 10 }; /* the largest of gf_recall_at */

static glofnd_status check(gf_error *err, const gf_retrieval_input *in) {
    FAIL_IF(err, in->images < 1 || in->texts < 1, GLOFND_E_ARGUMENT,
            "%lld images and %lld captions; expected at least one of each", (long long)in->images, (long long)in->texts);
    for (int64_t i = 0; i < in->texts; i++)
        FAIL_IF(err, in->owner[i] < 0 || in->owner[i] >= in->images, GLOFND_E_ARGUMENT,
                "caption %lld belongs to image %lld; there are %lld images", (long long)i, (long long)in->owner[i],
                (long long)in->images);
    return GLOFND_OK;
}

/* Counts a query whose first match is at `place` (from 0; K_MAX: none). */
static void count(gf_recalls *r, int place) {
    for (int k = 0; k < GF_RECALLS; k++) r->at[k] += place < gf_recall_at[k];
}

static void finish(gf_recalls *r, int64_t queries) {
    r->mean = 0.0;
    for (int k = 0; k < GF_RECALLS; k++) {
        r->at[k] /= (double)queries;
        r->mean += r->at[k] / GF_RECALLS;
    }
}

static gf_vectors image_vectors(const gf_retrieval_input *in) {
    return (gf_vectors){.x = in->image, .n = in->images, .dim = in->dim, .name = "embedding of image"};
}

static gf_vectors text_vectors(const gf_retrieval_input *in) {
    return (gf_vectors){.x = in->text, .n = in->texts, .dim = in->dim, .name = "embedding of caption"};
}

static glofnd_status find_images(gf_error *err, const gf_retrieval_input *in, int64_t *best, gf_recalls *out) {
    const gf_vectors texts = text_vectors(in), images = image_vectors(in);
    const gf_sweep_job job = gf_sweep_stage(&in->job, "images of captions");
    TRY(gf_nearest(err, &texts, &images, K_MAX, &job, best));
    for (int64_t i = 0; i < in->texts; i++) {
        int place = 0;
        while (place < K_MAX && best[i * K_MAX + place] != in->owner[i]) place++;
        count(out, place);
    }
    finish(out, in->texts);
    return GLOFND_OK;
}

/* Images without a caption have no match and do not count as queries. */
static glofnd_status find_texts(gf_error *err, const gf_retrieval_input *in, int64_t queries, int64_t *best, gf_recalls *out) {
    const gf_vectors texts = text_vectors(in), images = image_vectors(in);
    const gf_sweep_job job = gf_sweep_stage(&in->job, "captions of images");
    TRY(gf_nearest(err, &images, &texts, K_MAX, &job, best));
    for (int64_t i = 0; i < in->images; i++) {
        const int64_t *found = best + i * K_MAX;
        int place = 0;
        while (place < K_MAX && !(found[place] >= 0 && in->owner[found[place]] == i)) place++;
        count(out, place);
    }
    finish(out, queries);
    return GLOFND_OK;
}

/* Probability that at least one of `own` is among the first k of n in random order. */
static double chance(int64_t n, int64_t own, int k) {
    double none = 1.0;
    for (int i = 0; i < k && i < n; i++) none *= n - i > own ? (double)(n - i - own) / (double)(n - i) : 0.0;
    return 1.0 - none;
}

static void set_chance(const gf_retrieval_input *in, const int64_t *captions, gf_retrieval *out) {
    for (int k = 0; k < GF_RECALLS; k++) {
        out->ir_chance.at[k] = chance(in->images, 1, gf_recall_at[k]);
        for (int64_t i = 0; i < in->images; i++) out->tr_chance.at[k] += chance(in->texts, captions[i], gf_recall_at[k]);
    }
    finish(&out->ir_chance, 1);
    finish(&out->tr_chance, out->queries);
}

glofnd_status gf_retrieval_measure(gf_error *err, const gf_retrieval_input *in, gf_retrieval *out) {
    *out = (gf_retrieval){.images = in->images, .texts = in->texts};
    TRY(check(err, in));
    const int64_t rows = GF_MAX(in->images, in->texts);
    int64_t *best = malloc((size_t)rows * K_MAX * sizeof *best), *captions = calloc((size_t)in->images, sizeof *captions);
    glofnd_status status =
        best && captions ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory to rank %lld queries", (long long)rows);
    for (int64_t i = 0; status == GLOFND_OK && i < in->texts; i++) out->queries += captions[in->owner[i]]++ == 0;
    if (status == GLOFND_OK) status = find_images(err, in, best, &out->ir);
    if (status == GLOFND_OK) status = find_texts(err, in, out->queries, best, &out->tr);
    if (status == GLOFND_OK) set_chance(in, captions, out);
    out->mean = 0.5 * (out->ir.mean + out->tr.mean);
    free(best);
    free(captions);
    return status;
}
