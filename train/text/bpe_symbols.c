/* bpe_symbols.c - see bpe_symbols.h. */
#include "text/bpe_symbols.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define SLOTS (1u << 17) /* more than twice the symbols */

/* ----- the alphabet: visible Latin-1 characters stand for themselves, the others, in order, for 256, 257 ... ----- */

static int is_visible(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; }

static int hidden_before(int byte) {
    int n = 0;
    for (int b = 0; b < byte; b++) n += !is_visible(b);
    return n;
}

uint32_t gf_bpe_letter(uint8_t byte) { return is_visible(byte) ? byte : 256u + (uint32_t)hidden_before(byte); }

int gf_bpe_byte(uint32_t letter) {
    if (letter < 256) return is_visible((int)letter) ? (int)letter : -1;
    for (int b = 0, next = 256; b < 256; b++) {
        if (is_visible(b)) continue;
        if ((uint32_t)next++ == letter) return b;
    }
    return -1;
}

/* ----- the table ----- */

static uint32_t first_slot(const uint8_t *bytes, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 29) & (SLOTS - 1);
}

static uint32_t find_slot(const gf_symbols *s, const uint8_t *bytes, size_t n) {
    uint32_t slot = first_slot(bytes, n);
    for (; s->slots[slot]; slot = (slot + 1) & (SLOTS - 1)) {
        const uint32_t i = s->slots[slot] - 1u;
        if (s->at[i + 1] - s->at[i] == n && memcmp(s->bytes + s->at[i], bytes, n) == 0) break;
    }
    return slot;
}

int32_t gf_symbols_find(const gf_symbols *s, const uint8_t *bytes, size_t n) {
    return (int32_t)s->slots[find_slot(s, bytes, n)] - 1;
}

glofnd_status gf_symbols_add(gf_error *err, gf_symbols *s, const uint8_t *bytes, size_t n) {
    FAIL_IF(err, !gf_grow(&s->bytes, &s->capacity, s->used + n, 1), GLOFND_E_MEMORY, "no memory for a vocabulary");
    if (n > 0) {
        memcpy(s->bytes + s->used, bytes, n);
        s->slots[find_slot(s, bytes, n)] = (uint16_t)(s->n + 1);
    }
    s->used += n;
    s->at[++s->n] = (uint32_t)s->used;
    return GLOFND_OK;
}

size_t gf_symbols_join(const gf_symbols *s, int32_t left, int32_t right, uint8_t *out) {
    const size_t a = s->at[left + 1] - s->at[left], b = s->at[right + 1] - s->at[right];
    if (a + b > GF_BPE_SYMBOL_MAX) return 0;
    memcpy(out, s->bytes + s->at[left], a);
    memcpy(out + a, s->bytes + s->at[right], b);
    return a + b;
}

/* Adds the bytes that are visible, or those that are not, with `tail` after each. */
static glofnd_status add_bytes(gf_error *err, gf_symbols *s, int visible, const char *tail) {
    uint8_t text[8];
    const size_t more = strlen(tail);
    memcpy(text + 1, tail, more);
    for (int b = 0; b < GF_BPE_BYTES; b++) {
        if (is_visible(b) != visible) continue;
        text[0] = (uint8_t)b;
        if (!more) s->of_byte[b] = (uint16_t)s->n;
        TRY(gf_symbols_add(err, s, text, 1 + more));
    }
    return GLOFND_OK;
}

glofnd_status gf_symbols_init(gf_error *err, gf_symbols *s) {
    memset(s, 0, sizeof *s);
    s->slots = calloc(SLOTS, sizeof *s->slots);
    FAIL_IF(err, !s->slots, GLOFND_E_MEMORY, "no memory for a vocabulary");
    for (int end = 0; end < 2; end++) {
        TRY(add_bytes(err, s, 1, end ? GF_BPE_WORD_END : ""));
        TRY(add_bytes(err, s, 0, end ? GF_BPE_WORD_END : ""));
    }
    return GLOFND_OK;
}

void gf_symbols_free(gf_symbols *s) {
    free(s->bytes);
    free(s->slots);
    s->bytes = NULL;
    s->slots = NULL;
}
