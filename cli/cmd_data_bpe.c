/* cmd_data_bpe.c - glofnd data bpe: learns a byte-pair vocabulary from the captions of a dataset. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "data/bpe_learn.h"
#include "data/captions.h"
#include "data/dataset.h"
#include "data_verbs.h"

#define SHOW_EVERY 10000

typedef struct tally {
    int64_t captions, without, damaged;
    gf_error first;             /* why the first damaged sample was left out */
} tally;

static glofnd_status add_captions(gf_error *err, const char *text, gf_bpe_counts *counts, tally *t) {
    const int64_t n = gf_captions_count(text);
    if (n == 0) t->without++;
    t->captions += n;
    return text ? gf_bpe_counts_add(err, counts, text, strlen(text)) : GLOFND_OK;
}

/* Damaged samples are counted and left out; anything else ends it. */
static glofnd_status read_captions(gf_error *err, const gf_dataset *d, gf_bpe_counts *counts, tally *t) {
    const int64_t n = gf_dataset_describe(d).n;
    const int show = isatty(STDERR_FILENO);
    gf_sample sample = {0};
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        if (show && i % SHOW_EVERY == 0) fprintf(stderr, "\r%lld of %lld samples", (long long)i, (long long)n);
        status = gf_dataset_text(err, d, i, &sample);
        if (status == GLOFND_OK) {
            status = add_captions(err, sample.text, counts, t);
        } else if (status == GLOFND_E_FORMAT || status == GLOFND_E_IO) {
            if (t->damaged++ == 0) t->first = *err;
            status = GLOFND_OK;
        }
    }
    if (show) fprintf(stderr, "\r\033[K");
    gf_sample_free(&sample);
    return status;
}

static void print_result(const tally *t, const gf_bpe_counts *counts, const gf_bpe_learned *learned, const char *out) {
    int64_t different;
    const int64_t words = gf_bpe_counts_words(counts, &different);
    printf("captions   %lld, %lld words, %lld different\n", (long long)t->captions, (long long)words, (long long)different);
    if (t->without) printf("without    %lld samples have no caption\n", (long long)t->without);
    if (t->damaged) printf("damaged    %lld samples left out, the first: %s\n", (long long)t->damaged, t->first.text);
    printf("vocabulary %d tokens, %d merges, written to %s\n", (int)learned->vocab, learned->merges, out);
}

static glofnd_status learn(gf_error *err, const gf_dataset *d, const char *out, int64_t merges) {
    gf_bpe_counts *counts;
    gf_bpe_learned learned;
    tally t = {0};
    FAIL_IF(err, !gf_dataset_describe(d).has_text, GLOFND_E_ARGUMENT, "this data has no captions");
    TRY(gf_bpe_counts_create(err, &counts));
    glofnd_status status = read_captions(err, d, counts, &t);
    if (status == GLOFND_OK) status = gf_bpe_learn(err, counts, (int)merges, out, &learned);
    if (status == GLOFND_OK) print_result(&t, counts, &learned, out);
    gf_bpe_counts_free(counts);
    return status;
}

int cli_data_bpe(const char *spec, const char *out, int64_t merges) {
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    glofnd_status status = gf_dataset_open(&err, spec, &d);
    if (status == GLOFND_OK) status = learn(&err, d, out, merges);
    gf_dataset_free(d);
    return status == GLOFND_OK ? CLI_OK : cli_failed("data", status, &err);
}
