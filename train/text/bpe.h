/* bpe.h - CLIP's byte-pair encoding: captions to token numbers and back.
 *
 *     gf_bpe *b;               TRY(gf_bpe_load(err, "bpe_simple_vocab_16e6.txt.gz", &b));
 *     gf_bpe_scratch s = {0};  int32_t ids[GF_BPE_CONTEXT];  int count;
 *     TRY(gf_bpe_encode(err, b, &s, text, strlen(text), GF_BPE_CONTEXT, ids, &count));
 *     gf_bpe_scratch_free(&s);  gf_bpe_free(b);
 *
 * Numbers are those of open_clip's SimpleTokenizer with the same file: 256 bytes, 256 bytes that end a word, one token per
 * merge, start, end. A loaded vocabulary is not changed by use: any number of threads may share it, each with a scratch of its
 * own.
 */
#pragma once

#include "text/bpe_words.h"

#define GF_BPE_CONTEXT 77

typedef struct gf_bpe gf_bpe;

typedef struct gf_bpe_scratch { /* all zero: new; memory is kept from call to call */
    gf_words words;
    void *block; /* of the word under way, if it is long */
    size_t capacity;
} gf_bpe_scratch;

/* A merges file, gzip or plain text: a line that is skipped, then "LEFT RIGHT" lines, of which the first 48894 count. E_FORMAT
 * names file and line: corrupt, a part that no earlier line defines, or a symbol defined twice. E_UNSUPPORTED: gzip in a build
 * without zlib.
 *
 * As in open_clip, a line break after the last of fewer than 48894 lines makes a token of its own that nothing uses. */
glofnd_status gf_bpe_load(gf_error *err, const char *path, gf_bpe **out);
/* The same from the text of such a file; `name` is for messages. */
glofnd_status gf_bpe_parse(gf_error *err, const char *name, const char *text, size_t n, gf_bpe **out);
void gf_bpe_free(gf_bpe *b);

int32_t gf_bpe_vocab(const gf_bpe *b); /* numbers are below it */
int32_t gf_bpe_start(const gf_bpe *b);
int32_t gf_bpe_end(const gf_bpe *b);

/* n bytes of text, cleaned and split as in bpe_words.h, to ids [context]: start, tokens, end, zeros. What does not fit is cut,
 * and the last number is then end. *count: without the zeros; the end is at count - 1. context >= 2. Bytes that are not UTF-8
 * count as U+FFFD; E_ARGUMENT: more than GF_WORDS_TEXT_MAX bytes. `s` may be NULL: memory is then taken for this call only. */
glofnd_status gf_bpe_encode(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const char *text, size_t n, int context,
                            int32_t *ids, int *count);
void gf_bpe_scratch_free(gf_bpe_scratch *s);

/* The text of `count` numbers, closed by 0, to be freed: words are followed by a space each, start and end are written as they
 * are named; U+FFFD where the bytes are no UTF-8. E_INDEX: a number outside the vocabulary. */
glofnd_status gf_bpe_decode(gf_error *err, const gf_bpe *b, const int32_t *ids, int64_t count, char **out);
