/* caption_tokens.c - see caption_tokens.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/caption_tokens.h"

#include <stdlib.h>

#include "data/captions.h"
#include "data/dataset_format.h"
#include "util/components.h"

glofnd_status gf_tokens_draw(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const gf_dataset *d, int64_t sample,
                             const char *text, uint64_t seed, uint32_t epoch, int context, int32_t *ids) {
    const gf_caption c = gf_caption_draw(text, seed, epoch, (uint64_t)sample);
    char name[256];
    int count;
    gf_dataset_name(d, sample, name, sizeof name);
    FAIL_IF(err, c.n == 0, GLOFND_E_FORMAT, "'%s' has no caption", name);
    FAIL_IF(err, c.n > GF_WORDS_TEXT_MAX, GLOFND_E_FORMAT, "'%s' has a caption of %llu bytes; the limit is %llu", name,
            (unsigned long long)c.n, (unsigned long long)GF_WORDS_TEXT_MAX);
    TRY(gf_bpe_encode(err, b, s, c.text, c.n, context, ids, &count));
    FAIL_IF(err, count <= 2 && context > 2, GLOFND_E_FORMAT, "'%s' has a caption without a word", name);
    return GLOFND_OK;
}

uint64_t gf_tokens_hash(const int32_t *ids, int context) { return gf_key_hash(ids, (size_t)context * sizeof *ids); }

/* ----- groups: connected components of the samples, named after their smallest members ----- */

static int by_image(const void *a, const void *b, void *content) {
    const gf_content *c = content;
    const uint64_t x = c[*(const int64_t *)a].image, y = c[*(const int64_t *)b].image;
    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b, void *content) {
    const gf_content *c = content;
    const uint64_t x = c[*(const int64_t *)a].text, y = c[*(const int64_t *)b].text;
    return (x > y) - (x < y);
}

static void join_equal(const gf_content *content, int64_t n, int (*order_by)(const void *, const void *, void *), int64_t *order,
                       int32_t *root) {
    qsort_r(order, (size_t)n, sizeof *order, order_by, (void *)(uintptr_t)content);
    for (int64_t i = 1; i < n; i++)
        if (order_by(&order[i - 1], &order[i], (void *)(uintptr_t)content) == 0)
            gf_components_join(root, (int32_t)order[i - 1], (int32_t)order[i]);
}

void gf_content_groups(const gf_content *content, int64_t n, int64_t *order, int32_t *group) {
    gf_components_init(group, n);
    for (int64_t i = 0; i < n; i++) order[i] = i;
    join_equal(content, n, by_image, order, group);
    join_equal(content, n, by_text, order, group);
    for (int64_t i = 0; i < n; i++) order[i] = 0;
    gf_components_flatten(group, n);
    for (int64_t i = 0; i < n; i++) order[group[i]]++;
    for (int64_t i = 0; i < n; i++)
        if (order[group[i]] == 1) group[i] = -1;
}
