/* cmd_data_bpe.c - glofnd data bpe: learns a byte-pair vocabulary from the captions of a dataset. */
#include <stdio.h>
#include <unistd.h>

#include "data/captions.h"
#include "programs/cli.h"
#include "programs/data_verbs.h"

static void show(int64_t done, int64_t total) { gf_print(stderr, "\r%lld of %lld samples", (long long)done, (long long)total); }

static void print_result(const gf_captions_read *met, const gf_bpe_learned *learned, const char *out) {
    gf_print(stdout, "captions   %lld, %lld words, %lld different\n", (long long)met->captions, (long long)met->words,
             (long long)met->different);
    if (met->without) gf_print(stdout, "without    %lld samples have no caption\n", (long long)met->without);
    if (met->unreadable)
        gf_print(stdout, "unreadable %lld samples left out, the first: %s\n", (long long)met->unreadable, met->first.text);
    gf_print(stdout, "vocabulary %d tokens, %d merges, written to %s\n", (int)learned->vocab, learned->merges, out);
}

int cli_data_bpe(const char *spec, const char *out, int64_t merges) {
    const int terminal = isatty(STDERR_FILENO);
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    gf_captions_read met = {0};
    gf_bpe_learned learned = {0};
    glofnd_status status = gf_dataset_open(&err, spec, &d);
    if (status == GLOFND_OK) status = gf_captions_learn(&err, d, (int)merges, out, terminal ? show : NULL, &met, &learned);
    if (terminal) gf_print(stderr, "\r\033[K");
    if (status == GLOFND_OK) print_result(&met, &learned, out);
    gf_dataset_free(d);
    return status == GLOFND_OK ? CLI_OK : cli_failed("data", status, &err);
}
