/* bpe_symbols.h - the symbols of a byte-pair vocabulary by number, and the alphabet of its files.
 *
 * Symbols 0..255 are the bytes in the order of CLIP, 256..511 the same at the end of a word, then one per merge. A symbol is
 * the bytes it stands for; the end of a word is written "</w>" among them, as the files do. Files write each byte as one
 * visible character.
 */
#pragma once

#include "util/status.h"

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
int gf_bpe_byte(uint32_t letter);
