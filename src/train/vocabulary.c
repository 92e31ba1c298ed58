/* vocabulary.c - see vocabulary.h. */
#include "train/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/bpe_file.h"
#include "data/captions_learn.h"
#include "io/crc32c.h"

static glofnd_status read_text(gf_error *err, const char *path, char **text, size_t *n, gf_bpe **out) {
    TRY(gf_bpe_file_read(err, path, text, n));
    const glofnd_status status = gf_bpe_parse(err, path, *text, *n, out);
    if (status == GLOFND_OK) return status;
    free(*text);
    *text = NULL;
    return status;
}

/* The given file, unpacked; parsed first, so that a bad one is not copied. */
static glofnd_status copy(gf_error *err, const char *from, const char *path, char *line, size_t bytes) {
    gf_bpe *bpe = NULL;
    char *text = NULL;
    size_t n = 0;
    TRY(read_text(err, from, &text, &n, &bpe));
    const glofnd_status status = gf_bpe_file_write(err, path, text, n);
    snprintf(line, bytes, "vocabulary: %d tokens of %s", (int)gf_bpe_vocab(bpe), from);
    gf_bpe_free(bpe);
    free(text);
    return status;
}

glofnd_status gf_vocabulary_write(gf_error *err, const gf_config *c, const gf_dataset *d, const char *path, char *line,
                                  size_t bytes) {
    gf_captions_read met;
    gf_bpe_learned learned;
    if (*c->vocab) return copy(err, c->vocab, path, line, bytes);
    TRY(gf_captions_learn(err, d, c->vocab_merges, path, NULL, &met, &learned));
    snprintf(line, bytes, "vocabulary: %d tokens, learned from %lld captions with %lld different words", (int)learned.vocab,
             (long long)met.captions, (long long)met.different);
    return GLOFND_OK;
}

glofnd_status gf_vocabulary_load(gf_error *err, const char *path, gf_bpe **out, uint32_t *crc) {
    char *text = NULL;
    size_t n = 0;
    TRY(read_text(err, path, &text, &n, out));
    *crc = gf_crc32c(0, text, n);
    free(text);
    return GLOFND_OK;
}
