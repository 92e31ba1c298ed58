/* delta.c - see delta.h.
 *
 * Head: integers of a block, miniblocks of it, number of all integers (varints) and the first one (with its sign in the lowest
 * bit). A block: its smallest difference, a byte per miniblock with its width in bits, then the miniblocks. A difference is the
 * smallest one plus the packed bits; all sums are modulo 2^64. The last block has only the miniblocks that are needed.
 */
#include "io/delta.h"

#include <string.h>

#include "util/array.h"

enum { WIDTH_MAX = 64 };
#define BLOCK_MAX ((uint64_t)1 << 31)

static int take_varint(const uint8_t **at, const uint8_t *end, uint64_t *x) {
    *x = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static int take_signed(const uint8_t **at, const uint8_t *end, uint64_t *x) {
    if (!take_varint(at, end, x)) return 0;
    *x = (*x >> 1) ^ (UINT64_MAX * (*x & 1));
    return 1;
}

int gf_delta_begin(gf_delta *d, const uint8_t *bytes, size_t n) {
    uint64_t block;
    *d = (gf_delta){.at = bytes, .end = bytes + n, .first = 1};
    if (!take_varint(&d->at, d->end, &block) || !take_varint(&d->at, d->end, &d->minis)) return 0;
    if (!take_varint(&d->at, d->end, &d->left) || !take_signed(&d->at, d->end, &d->value)) return 0;
    if (block == 0 || block > BLOCK_MAX || d->minis == 0 || d->minis > block || block % d->minis || d->left > INT32_MAX) return 0;
    d->mini = block / d->minis;
    d->next_mini = d->minis;
    return d->mini % 32 == 0; /* so that miniblocks are whole bytes */
}

/* The head of the next block. */
static int next_block(gf_delta *d) {
    if (!take_signed(&d->at, d->end, &d->min_delta) || (uint64_t)(d->end - d->at) < d->minis) return 0;
    d->width = d->at;
    d->at += d->minis;
    d->next_mini = 0;
    return 1;
}

/* The next miniblock: d->at goes past it. */
static int next_mini(gf_delta *d) {
    if (d->next_mini == d->minis && !next_block(d)) return 0;
    const uint64_t width = d->width[d->next_mini++], bytes = d->mini / 8 * width;
    if (width > WIDTH_MAX || bytes > (uint64_t)(d->end - d->at)) return 0;
    d->bits = d->at;
    d->at += bytes;
    d->in_mini = d->mini, d->bit = 0;
    return 1;
}

static uint64_t next_difference(gf_delta *d) {
    const int width = d->width[d->next_mini - 1];
    uint64_t x = 0;
    for (int have = 0; have < width;) {
        const int shift = (int)(d->bit & 7), some = GF_MIN(8 - shift, width - have);
        const uint64_t part = (uint64_t)(d->bits[d->bit / 8] >> shift) & (((uint64_t)1 << some) - 1);
        x |= part << have;
        d->bit += (uint64_t)some;
        have += some;
    }
    d->in_mini--;
    return d->min_delta + x;
}

int gf_delta_next(gf_delta *d, int64_t *out) {
    if (d->left == 0) return 0;
    if (!d->first) {
        if (d->in_mini == 0 && !next_mini(d)) return 0;
        d->value += next_difference(d);
    }
    d->first = 0;
    d->left--;
    *out = (int64_t)d->value;
    return 1;
}

/* Continues by miniblocks, whose bytes are known without unpacking them. */
const uint8_t *gf_delta_end(const gf_delta *d) {
    gf_delta e = *d;
    uint64_t left = e.left > (uint64_t)e.first ? e.left - (uint64_t)e.first : 0;
    for (left -= GF_MIN(left, e.in_mini); left > 0; left -= GF_MIN(left, e.mini))
        if (!next_mini(&e)) return NULL;
    return e.at;
}

/* ----- texts ----- */

int gf_delta_texts_begin(gf_delta_texts *t, const uint8_t *bytes, size_t n, int with_prefix, size_t *last_bytes) {
    const uint8_t *end = bytes + n;
    *t = (gf_delta_texts){.with_prefix = with_prefix, .end = end};
    if (with_prefix) {
        if (!gf_delta_begin(&t->prefix, bytes, n) || !(bytes = gf_delta_end(&t->prefix))) return 0;
    }
    if (!gf_delta_begin(&t->length, bytes, (size_t)(end - bytes)) || !(t->at = gf_delta_end(&t->length))) return 0;
    *last_bytes = (size_t)(end - t->at); /* no text is longer than all bytes together */
    return !with_prefix || t->prefix.left == t->length.left;
}

int gf_delta_texts_next(gf_delta_texts *t, const uint8_t **text, size_t *n) {
    int64_t length, prefix = 0;
    if (!gf_delta_next(&t->length, &length) || (t->with_prefix && !gf_delta_next(&t->prefix, &prefix))) return 0;
    if (length < 0 || length > t->end - t->at || prefix < 0 || (uint64_t)prefix > t->last_n) return 0;
    *text = t->at, *n = (size_t)length;
    t->at += length;
    if (!t->with_prefix) return 1;
    if (length) memcpy(t->last + prefix, *text, *n);
    t->last_n = *n += (size_t)prefix;
    *text = t->last;
    return 1;
}
