/* vocabulary.c - see vocabulary.h. */
#include "loop/vocabulary.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/captions.h"
#include "io/blockfile.h"
#include "io/safetensors.h"
#include "text/bpe.h"

typedef struct merges { /* a merges file: its text, unpacked, and the tokenizer */
    char *text;
    size_t bytes;
    gf_bpe *bpe;
} merges;

static void merges_free(merges *m) {
    gf_bpe_free(m->bpe);
    free(m->text);
    *m = (merges){0};
}

static glofnd_status merges_read(gf_error *err, const char *path, merges *m) {
    *m = (merges){0};
    TRY(gf_bpe_file_read(err, path, &m->text, &m->bytes));
    const glofnd_status status = gf_bpe_parse(err, path, m->text, m->bytes, &m->bpe);
    if (status != GLOFND_OK) merges_free(m);
    return status;
}

/* The first line is a comment. */
static int same_merges(const merges *a, const merges *b) {
    const char *x = memchr(a->text, '\n', a->bytes), *y = memchr(b->text, '\n', b->bytes);
    if (!x || !y) return !x && !y;
    const size_t n = a->bytes - (size_t)(x - a->text);
    return n == b->bytes - (size_t)(y - b->text) && memcmp(x, y, n) == 0;
}

/* ----- the vocabulary that belongs to weights ----- */

/* Number of token embeddings in the weights to start from; 0: none that fit a text encoder of this width. */
static glofnd_status tokens_of_weights(gf_error *err, const gf_config *c, int64_t *tokens) {
    gf_st_file f = {0};
    *tokens = 0;
    if (!*c->init) return GLOFND_OK;
    TRY(gf_st_open(err, c->init, &f));
    const gf_st_tensor *t = gf_st_find(&f, "token_embedding.weight");
    if (t && t->rank == 2 && t->shape[1] == c->text_width) *tokens = t->shape[0];
    gf_st_close(&f);
    return GLOFND_OK;
}

static int is_file(char path[PATH_MAX], const char *folder, int length, const char *name) {
    const int n = snprintf(path, PATH_MAX, "%.*s%s", length, folder, name);
    return n >= 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

/* Beside the file, or in the run folder whose checkpoint it belongs to: RUN/checkpoints/step-N/. "": none. */
static void find_beside(const char *weights, char path[PATH_MAX]) {
    const char *end = strrchr(weights, '/');
    const int length = end ? (int)(end - weights) + 1 : 0;
    if (is_file(path, weights, length, GF_VOCABULARY_FILE)) return;
    if (is_file(path, weights, length, "../../" GF_VOCABULARY_FILE) && strstr(weights, GF_CHECKPOINTS "/" GF_CHECKPOINT)) return;
    *path = 0;
}

/* As many tokens, but different ones: embeddings would silently go to wrong tokens. */
static glofnd_status compare(gf_error *err, const gf_config *c, const char *theirs, int64_t tokens) {
    merges given = {0}, own = {0};
    glofnd_status status = merges_read(err, c->vocab, &given);
    if (status == GLOFND_OK) status = merges_read(err, theirs, &own);
    const int mixed = status == GLOFND_OK && gf_bpe_vocab(given.bpe) == tokens && !same_merges(&given, &own);
    merges_free(&given);
    merges_free(&own);
    TRY(status);
    FAIL_IF(err, mixed, GLOFND_E_OPTION,
            "vocab: %.200s has different tokens from %.200s, which belongs to the weights of init; leave vocab out to take that",
            c->vocab, theirs);
    return GLOFND_OK;
}

static glofnd_status check_size(gf_error *err, const gf_config *c, const char *theirs, int64_t tokens) {
    merges own;
    TRY(merges_read(err, theirs, &own));
    const int here = gf_bpe_vocab(own.bpe);
    merges_free(&own);
    FAIL_IF(err, here != tokens, GLOFND_E_OPTION,
            "vocab: %.200s has %d tokens, but %.200s embeddings of %lld; name the merges file that belongs to these weights",
            theirs, here, c->init, (long long)tokens);
    return GLOFND_OK;
}

glofnd_status gf_vocabulary_find(gf_error *err, const gf_config *c, char path[PATH_MAX]) {
    char theirs[PATH_MAX];
    int64_t tokens;
    snprintf(path, PATH_MAX, "%s", c->vocab);
    TRY(tokens_of_weights(err, c, &tokens));
    if (tokens == 0) return GLOFND_OK;
    find_beside(c->init, theirs);
    if (*c->vocab) return *theirs ? compare(err, c, theirs, tokens) : GLOFND_OK;
    FAIL_IF(
        err, !*theirs, GLOFND_E_OPTION,
        "vocab: it is empty, and %.200s has embeddings of %lld tokens; name the merges file they were trained with (OpenAI's: "
        "bpe_simple_vocab_16e6.txt.gz), or put it beside the weights as " GF_VOCABULARY_FILE,
        c->init, (long long)tokens);
    memcpy(path, theirs, sizeof theirs);
    return check_size(err, c, theirs, tokens);
}

/* ----- the vocabulary of a run ----- */

/* The given file, unpacked; parsed first, so that a bad one is not copied. */
static glofnd_status copy(gf_error *err, const char *from, const char *whose, const char *path, char *line, size_t bytes) {
    merges m;
    TRY(merges_read(err, from, &m));
    const glofnd_status status = gf_bpe_file_write(err, path, m.text, m.bytes);
    snprintf(line, bytes, "vocabulary: %d tokens of %s%s", (int)gf_bpe_vocab(m.bpe), from, whose);
    merges_free(&m);
    return status;
}

glofnd_status gf_vocabulary_write(gf_error *err, const gf_config *c, const gf_dataset *d, const char *path, char *line,
                                  size_t bytes) {
    gf_captions_read met;
    gf_bpe_learned learned;
    char from[PATH_MAX];
    TRY(gf_vocabulary_find(err, c, from));
    if (*from) return copy(err, from, *c->vocab ? "" : ", which belongs to the weights to start from", path, line, bytes);
    TRY(gf_captions_learn(err, d, c->vocab_merges, path, NULL, &met, &learned));
    snprintf(line, bytes, "vocabulary: %d tokens, learned from %lld captions with %lld different words", (int)learned.vocab,
             (long long)met.captions, (long long)met.different);
    return GLOFND_OK;
}

glofnd_status gf_vocabulary_load(gf_error *err, const char *path, gf_bpe **out, uint32_t *crc) {
    merges m;
    TRY(merges_read(err, path, &m));
    *crc = gf_crc32c(0, m.text, m.bytes);
    *out = m.bpe;
    free(m.text);
    return GLOFND_OK;
}
