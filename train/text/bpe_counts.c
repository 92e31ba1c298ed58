/* bpe_counts.c - counts the different words of captions. See bpe_learn.h. */
#include "text/bpe_counts.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define FIRST_SLOTS 4096

glofnd_status gf_bpe_counts_create(gf_error *err, gf_bpe_counts **out) {
    gf_bpe_counts *c = calloc(1, sizeof *c);
    int64_t *slots = calloc(FIRST_SLOTS, sizeof *slots);
    if (!c || !slots) {
        free(c);
        free(slots);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory to count words");
    }
    c->slots = slots;
    c->slots_n = FIRST_SLOTS;
    *out = c;
    return GLOFND_OK;
}

void gf_bpe_counts_free(gf_bpe_counts *c) {
    if (!c) return;
    gf_words_free(&c->split);
    free(c->bytes);
    free(c->word);
    free(c->slots);
    free(c);
}

static uint64_t hash(const uint8_t *bytes, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static int64_t find_slot(const gf_bpe_counts *c, const uint8_t *bytes, size_t n) {
    int64_t slot = (int64_t)(hash(bytes, n) & (uint64_t)(c->slots_n - 1));
    for (; c->slots[slot]; slot = (slot + 1) & (c->slots_n - 1)) {
        const int64_t i = c->slots[slot] - 1;
        const size_t at = c->word[i].at;
        if (gf_bpe_counted_end(c, i) - at == n && memcmp(c->bytes + at, bytes, n) == 0) break;
    }
    return slot;
}

static glofnd_status grow_slots(gf_error *err, gf_bpe_counts *c) {
    int64_t *old = c->slots, *slots = calloc((size_t)c->slots_n * 2, sizeof *slots);
    FAIL_IF(err, !slots, GLOFND_E_MEMORY, "no memory for %lld different words", (long long)c->n);
    c->slots = slots;
    c->slots_n *= 2;
    for (int64_t i = 0; i < c->n; i++) {
        const size_t at = c->word[i].at;
        c->slots[find_slot(c, c->bytes + at, gf_bpe_counted_end(c, i) - at)] = i + 1;
    }
    free(old);
    return GLOFND_OK;
}

static glofnd_status make_room(gf_error *err, gf_bpe_counts *c, size_t n) {
    FAIL_IF(err,
            !gf_grow(&c->bytes, &c->bytes_capacity, c->used + n, 1) ||
                !gf_grow(&c->word, &c->capacity, (size_t)c->n + 1, sizeof *c->word),
            GLOFND_E_MEMORY, "no memory for %lld different words", (long long)c->n);
    return c->n * 2 >= c->slots_n ? grow_slots(err, c) : GLOFND_OK;
}

static glofnd_status count_word(gf_error *err, gf_bpe_counts *c, const uint8_t *bytes, size_t n) {
    c->total++;
    int64_t slot = find_slot(c, bytes, n);
    if (c->slots[slot]) {
        c->word[c->slots[slot] - 1].times++;
        return GLOFND_OK;
    }
    TRY(make_room(err, c, n));
    slot = find_slot(c, bytes, n);
    c->word[c->n].at = c->used;
    c->word[c->n].times = 1;
    memcpy(c->bytes + c->used, bytes, n);
    c->used += n;
    c->slots[slot] = ++c->n;
    return GLOFND_OK;
}

glofnd_status gf_bpe_counts_add(gf_error *err, gf_bpe_counts *c, const char *text, size_t n) {
    const uint8_t *bytes;
    size_t size;
    gf_word_kind kind;
    TRY(gf_words_begin(err, &c->split, text, n));
    while ((kind = gf_words_next(&c->split, &bytes, &size)) != GF_WORD_END) {
        if (kind == GF_WORD && size <= GF_BPE_WORD_MAX) TRY(count_word(err, c, bytes, size));
    }
    return GLOFND_OK;
}

int64_t gf_bpe_counts_words(const gf_bpe_counts *c, int64_t *different) {
    *different = c->n;
    return c->total;
}
