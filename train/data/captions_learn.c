/* captions_learn.c - see captions_learn.h. */
#include "data/captions_learn.h"

#include <string.h>

#include "text/bpe_words.h"
#include "text/captions.h"

#define PROGRESS_EVERY 10000

static glofnd_status add_captions(gf_error *err, const char *text, gf_bpe_counts *counts, gf_captions_read *met) {
    const int64_t n = gf_captions_count(text);
    if (n == 0) met->without++;
    met->captions += n;
    return text ? gf_bpe_counts_add(err, counts, text, strlen(text)) : GLOFND_OK;
}

/* gf_dataset_text; a caption too long for the tokenizer is unreadable, too. */
static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *sample) {
    char name[256];
    TRY(gf_dataset_text(err, d, i, sample));
    const size_t n = sample->text ? strlen(sample->text) : 0;
    if (n <= GF_WORDS_TEXT_MAX) return GLOFND_OK;
    gf_dataset_name(d, i, name, sizeof name);
    GF_FAIL(err, GLOFND_E_FORMAT, "'%s' has a caption of %llu bytes; the limit is %llu", name, (unsigned long long)n,
            (unsigned long long)GF_WORDS_TEXT_MAX);
}

static glofnd_status add_sample(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *sample, gf_bpe_counts *counts,
                                gf_captions_read *met) {
    gf_error why = {{0}};
    const glofnd_status status = read_text(&why, d, i, sample);
    if (status == GLOFND_OK) return add_captions(err, sample->text, counts, met);
    FAIL_IF(err, status != GLOFND_E_FORMAT && status != GLOFND_E_IO, status, "%s", why.text);
    if (met->unreadable++ == 0) met->first = why;
    return GLOFND_OK;
}

static glofnd_status read_all(gf_error *err, const gf_dataset *d, void (*progress)(int64_t, int64_t), gf_bpe_counts *counts,
                              gf_captions_read *met) {
    const int64_t n = gf_dataset_describe(d).n;
    gf_sample sample = {0};
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        if (progress && i % PROGRESS_EVERY == 0) progress(i, n);
        status = add_sample(err, d, i, &sample, counts, met);
    }
    gf_sample_free(&sample);
    met->words = gf_bpe_counts_words(counts, &met->different);
    return status;
}

glofnd_status gf_captions_require(gf_error *err, const gf_dataset *d) {
    FAIL_IF(
        err, !gf_dataset_describe(d).has_text, GLOFND_E_ARGUMENT,
        "this dataset has no captions; shapes:, wds: with .txt files, csv: with texts in its column title (?caption=COLUMN) and "
        "cifar100:DIR?captions=1 have");
    return GLOFND_OK;
}

static glofnd_status need_words(gf_error *err, const gf_dataset *d, const gf_captions_read *met) {
    char first[256] = "";
    if (met->words > 0) return GLOFND_OK;
    gf_dataset_name(d, 0, first, sizeof first);
    GF_FAIL(err, GLOFND_E_FORMAT,
            "no word to learn from: %lld samples have no caption and %lld are unreadable, beginning with '%s'",
            (long long)met->without, (long long)met->unreadable, first);
}

glofnd_status gf_captions_learn(gf_error *err, const gf_dataset *d, int merges, const char *path,
                                void (*progress)(int64_t done, int64_t total), gf_captions_read *met, gf_bpe_learned *out) {
    gf_bpe_counts *counts;
    *met = (gf_captions_read){0};
    TRY(gf_captions_require(err, d));
    TRY(gf_bpe_counts_create(err, &counts));
    glofnd_status status = read_all(err, d, progress, counts, met);
    if (status == GLOFND_OK) status = need_words(err, d, met);
    if (status == GLOFND_OK) status = gf_bpe_learn(err, counts, merges, path, out);
    gf_bpe_counts_free(counts);
    return status;
}
