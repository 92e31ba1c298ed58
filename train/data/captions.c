/* captions.c - see captions.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/captions.h"

#include <string.h>

#include "text/words.h"
#include "util/rng.h"

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next line that is not blank, from *at on, which moves after it. 0: none is left. */
static int next_caption(const char **at, gf_caption *out) {
    while (**at) {
        const char *start = *at, *end = strchrnul(start, '\n');
        *at = *end ? end + 1 : end;
        while (start < end && is_blank(*start)) start++;
        while (end > start && is_blank(end[-1])) end--;
        *out = (gf_caption){start, (size_t)(end - start)};
        if (out->n > 0) return 1;
    }
    return 0;
}

int64_t gf_captions_count(const char *text) {
    gf_caption c;
    int64_t n = 0;
    while (text && next_caption(&text, &c)) n++;
    return n;
}

gf_caption gf_caption_at(const char *text, int64_t k) {
    gf_caption c;
    for (int64_t i = 0; text && k >= 0 && next_caption(&text, &c); i++)
        if (i == k) return c;
    return (gf_caption){"", 0};
}

gf_caption gf_caption_draw(const char *text, uint64_t seed, uint32_t epoch, uint64_t sample) {
    const int64_t n = gf_captions_count(text);
    if (n <= 1) return gf_caption_at(text, 0);
    gf_rng r = gf_rng_at(seed, GF_RNG_CAPTION, epoch, sample, 0);
    return gf_caption_at(text, gf_rng_below(&r, n));
}

/* ----- a vocabulary ----- */

/* Counts the words of a sample. One that is unreadable, or too long for the tokenizer, is counted as such. */
static glofnd_status add_sample(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *sample, gf_bpe_counts *counts,
                                gf_captions_read *met) {
    gf_error why = {{0}};
    glofnd_status status = gf_dataset_text(&why, d, i, sample);
    const size_t n = status == GLOFND_OK && sample->text ? strlen(sample->text) : 0;
    if (n > GF_WORDS_TEXT_MAX) {
        char name[256];
        gf_dataset_name(d, i, name, sizeof name);
        status = gf_fail(&why, GLOFND_E_FORMAT, "'%s' has a caption of %llu bytes; the limit is %llu", name,
                         (unsigned long long)n, (unsigned long long)GF_WORDS_TEXT_MAX);
    }
    if (status == GLOFND_OK) {
        const int64_t captions = gf_captions_count(sample->text);
        if (captions == 0) met->without++;
        met->captions += captions;
        return sample->text ? gf_bpe_counts_add(err, counts, sample->text, n) : GLOFND_OK;
    }
    FAIL_IF(err, status != GLOFND_E_FORMAT && status != GLOFND_E_IO, status, "%s", why.text);
    if (met->unreadable++ == 0) met->first = why;
    return GLOFND_OK;
}

glofnd_status gf_captions_require(gf_error *err, const gf_dataset *d) {
    FAIL_IF(
        err, !gf_dataset_describe(d).has_text, GLOFND_E_ARGUMENT,
        "this dataset has no captions; shapes:, wds: with .txt files, csv: with texts in its column title (?caption=COLUMN) and "
        "cifar100:DIR?captions=1 have");
    return GLOFND_OK;
}

glofnd_status gf_captions_learn(gf_error *err, const gf_dataset *d, int merges, const char *path,
                                void (*progress)(int64_t done, int64_t total), gf_captions_read *met, gf_bpe_learned *out) {
    gf_bpe_counts *counts;
    *met = (gf_captions_read){0};
    TRY(gf_captions_require(err, d));
    TRY(gf_bpe_counts_create(err, &counts));
    const int64_t n = gf_dataset_describe(d).n;
    gf_sample sample = {0};
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        if (progress && i % 10000 == 0) progress(i, n);
        status = add_sample(err, d, i, &sample, counts, met);
    }
    gf_sample_free(&sample);
    met->words = gf_bpe_counts_words(counts, &met->different);
    if (status == GLOFND_OK && met->words == 0) {
        char first[256] = "";
        gf_dataset_name(d, 0, first, sizeof first);
        status = gf_fail(err, GLOFND_E_FORMAT,
                         "no word to learn from: %lld samples have no caption and %lld are unreadable, beginning with '%s'",
                         (long long)met->without, (long long)met->unreadable, first);
    }
    if (status == GLOFND_OK) status = gf_bpe_learn(err, counts, merges, path, out);
    gf_bpe_counts_free(counts);
    return status;
}
