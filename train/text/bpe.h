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

#include "text/words.h"
#include "util/status.h"

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

/* n bytes of text, cleaned and split as in words.h, to ids [context]: start, tokens, end, zeros. What does not fit is cut,
 * and the last number is then end. *count: without the zeros; the end is at count - 1. context >= 2. Bytes that are not UTF-8
 * count as U+FFFD; E_ARGUMENT: more than GF_WORDS_TEXT_MAX bytes. `s` may be NULL: memory is then taken for this call only. */
glofnd_status gf_bpe_encode(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const char *text, size_t n, int context,
                            int32_t *ids, int *count);
void gf_bpe_scratch_free(gf_bpe_scratch *s);

/* ----- the symbols of a vocabulary, for bpe_learn.c too -----
 *
 * Symbols 0..255 are the bytes in the order of CLIP, 256..511 the same at the end of a word, then one per merge. A symbol is
 * the bytes it stands for; the end of a word is written "</w>" among them, as the files do. Files write each byte as one
 * visible character.
 */

#define GF_BPE_BYTES 256
#define GF_BPE_BASE (2 * GF_BPE_BYTES)
#define GF_BPE_MERGES_MAX (49152 - 256 - 2)
#define GF_BPE_VOCAB_MAX (GF_BPE_BASE + GF_BPE_MERGES_MAX + 2) /* with the marks of start and end: below 2^16 */
#define GF_BPE_SYMBOL_MAX 1024                                 /* bytes of one */
#define GF_BPE_WORD_END "</w>"

typedef struct gf_symbols {
    uint8_t *bytes; /* all symbols, one after the other */
    size_t used, capacity;
    uint32_t at[GF_BPE_VOCAB_MAX + 1]; /* symbol i is bytes[at[i] .. at[i+1]) */
    int32_t n;
    uint16_t *slots;                /* hash table of symbol numbers + 1 */
    uint16_t of_byte[GF_BPE_BYTES]; /* symbol of a byte inside a word; + 256: at its end */
} gf_symbols;

/* The 512 symbols of single bytes. */
glofnd_status gf_symbols_init(gf_error *err, gf_symbols *s);
void gf_symbols_free(gf_symbols *s);
/* -1: not there. */
int32_t gf_symbols_find(const gf_symbols *s, const uint8_t *bytes, size_t n);
/* Adds a symbol, at most GF_BPE_VOCAB_MAX in all; it must be new unless it is empty. */
glofnd_status gf_symbols_add(gf_error *err, gf_symbols *s, const uint8_t *bytes, size_t n);
/* Writes `left` then `right` to `out` [GF_BPE_SYMBOL_MAX] and returns the size; 0: too long. */
size_t gf_symbols_join(const gf_symbols *s, int32_t left, int32_t right, uint8_t *out);

/* The character of a file that stands for a byte, and back; -1: stands for none. */
uint32_t gf_bpe_letter(uint8_t byte);

/* ----- merges files: text that may be gzip ----- */

#define GF_BPE_FILE_MAX ((size_t)64 << 20) /* bytes, packed or not */

/* The text of the file, unpacked if it begins as gzip does; to be freed. E_FORMAT: corrupt, or more than GF_BPE_FILE_MAX. */
glofnd_status gf_bpe_file_read(gf_error *err, const char *path, char **text, size_t *n);
/* The same from memory. `bytes` may be freed afterwards. */
glofnd_status gf_gunzip(gf_error *err, const char *name, const uint8_t *bytes, size_t n, char **text, size_t *size);
/* Writes the file under its name only when it is complete; a name that ends in .gz is packed. */
glofnd_status gf_bpe_file_write(gf_error *err, const char *path, const char *text, size_t n);

/* ----- learning a vocabulary from captions -----
 *
 *     gf_bpe_counts *c;  TRY(gf_bpe_counts_create(err, &c));
 *     for every caption: TRY(gf_bpe_counts_add(err, c, text, n));
 *     TRY(gf_bpe_learn(err, c, merges, path, &result));  gf_bpe_counts_free(c);
 *
 * Captions are cleaned and split as for encoding; only the different words and how often each came are kept. Then, again and
 * again, the most frequent pair of neighbouring symbols becomes a symbol; of equally frequent ones, the pair with the smaller
 * numbers. Same captions in any order, same vocabulary.
 */

typedef struct gf_bpe_counts gf_bpe_counts;

typedef struct gf_bpe_learned {
    int merges; /* fewer than requested if no pair occurs twice any more */
    int32_t vocab;
} gf_bpe_learned;

glofnd_status gf_bpe_counts_create(gf_error *err, gf_bpe_counts **out);
void gf_bpe_counts_free(gf_bpe_counts *c);
/* Words of more than GF_BPE_WORD_MAX bytes are left out: no language has them. */
#define GF_BPE_WORD_MAX 256
glofnd_status gf_bpe_counts_add(gf_error *err, gf_bpe_counts *c, const char *text, size_t n);
int64_t gf_bpe_counts_words(const gf_bpe_counts *c, int64_t *different);
/* Learns and writes the merges file: gzip if the name ends in .gz. E_ARGUMENT: no words. */
glofnd_status gf_bpe_learn(gf_error *err, const gf_bpe_counts *c, int merges, const char *path, gf_bpe_learned *out);
