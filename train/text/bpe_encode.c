/* bpe_encode.c - words to tokens, and back. See bpe.h.
 *
 * A word begins as one symbol per byte; then the pair of neighbours with the lowest rank is joined, leftmost first, until no
 * pair has a rank. Short words look through all pairs each time. Long ones, where that would take quadratic time, keep the
 * pairs in a heap.
 */
#include <stdlib.h>
#include <string.h>

#include "text/bpe_table.h"
#include "text/unicode.h"

#define SHORT_WORD 48

typedef struct output {
    int32_t *ids;
    int n, max; /* max: without the end */
} output;

static void put(output *out, int32_t id) {
    if (out->n < out->max) out->ids[out->n++] = id;
}

static uint32_t symbol_at(const gf_bpe *b, const uint8_t *word, size_t n, size_t i) {
    return b->symbols.of_byte[word[i]] + (i + 1 == n ? GF_BPE_BYTES : 0u);
}

/* ----- short words ----- */

static void encode_short(const gf_bpe *b, const uint8_t *word, size_t size, output *out) {
    uint32_t symbol[SHORT_WORD], rank[SHORT_WORD]; /* rank[i]: of symbols i and i + 1 */
    int n = (int)size;
    for (int i = 0; i < n; i++) symbol[i] = symbol_at(b, word, size, (size_t)i);
    for (int i = 0; i + 1 < n; i++) rank[i] = gf_bpe_rank(b, symbol[i], symbol[i + 1]);
    while (n > 1) {
        int best = 0;
        for (int i = 1; i + 1 < n; i++) best = rank[i] < rank[best] ? i : best;
        if (rank[best] == GF_BPE_NO_RANK) break;
        symbol[best] = GF_BPE_BASE + rank[best];
        n--;
        for (int i = best + 1; i < n; i++) {
            symbol[i] = symbol[i + 1];
            rank[i - 1] = rank[i];
        }
        if (best > 0) rank[best - 1] = gf_bpe_rank(b, symbol[best - 1], symbol[best]);
        if (best + 1 < n) rank[best] = gf_bpe_rank(b, symbol[best], symbol[best + 1]);
    }
    for (int i = 0; i < n; i++) put(out, (int32_t)symbol[i]);
}

/* ----- long words: neighbours are linked, pairs wait in a heap of rank << 32 | place ----- */

typedef struct chain {
    const gf_bpe *b;
    uint64_t *heap; /* [2 n]: every join takes at least one out and puts at most two in */
    int64_t heap_n;
    uint32_t *symbol, *rank, *next, *before; /* [n] each; rank: with the next, GF_BPE_NO_RANK if none or gone */
    uint32_t n;
} chain;

static void push(chain *c, uint64_t x) {
    int64_t i = c->heap_n++;
    for (; i > 0 && c->heap[(i - 1) / 2] > x; i = (i - 1) / 2) c->heap[i] = c->heap[(i - 1) / 2];
    c->heap[i] = x;
}

static uint64_t pop(chain *c) {
    const uint64_t top = c->heap[0], x = c->heap[--c->heap_n];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < c->heap_n; i = child) {
        if (child + 1 < c->heap_n && c->heap[child + 1] < c->heap[child]) child++;
        if (c->heap[child] >= x) break;
        c->heap[i] = c->heap[child];
    }
    c->heap[i] = x;
    return top;
}

static void rank_pair(chain *c, uint32_t i) {
    const uint32_t next = c->next[i];
    c->rank[i] = next < c->n ? gf_bpe_rank(c->b, c->symbol[i], c->symbol[next]) : GF_BPE_NO_RANK;
    if (c->rank[i] != GF_BPE_NO_RANK) push(c, (uint64_t)c->rank[i] << 32 | i);
}

static void join(chain *c, uint32_t i) {
    const uint32_t gone = c->next[i];
    c->symbol[i] = GF_BPE_BASE + c->rank[i];
    c->rank[gone] = GF_BPE_NO_RANK;
    c->next[i] = c->next[gone];
    if (c->next[i] < c->n) c->before[c->next[i]] = i;
    rank_pair(c, i);
    if (i > 0) rank_pair(c, c->before[i]);
}

static glofnd_status reserve(gf_error *err, gf_bpe_scratch *s, size_t n) {
    if (n <= s->capacity) return GLOFND_OK;
    void *block = malloc(n * 32);
    FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory for a word of %llu bytes", (unsigned long long)n);
    free(s->block);
    s->block = block;
    s->capacity = n;
    return GLOFND_OK;
}

static glofnd_status encode_long(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const uint8_t *word, size_t size,
                                 output *out) {
    TRY(reserve(err, s, size));
    chain c = {.b = b, .heap = s->block, .n = (uint32_t)size};
    c.symbol = (uint32_t *)(c.heap + 2 * size);
    c.rank = c.symbol + size;
    c.next = c.rank + size;
    c.before = c.next + size;
    for (uint32_t i = 0; i < c.n; i++) {
        c.symbol[i] = symbol_at(b, word, size, i);
        c.next[i] = i + 1;
        c.before[i] = i - 1; /* of the first: not used */
    }
    for (uint32_t i = 0; i < c.n; i++) rank_pair(&c, i);
    while (c.heap_n > 0) {
        const uint64_t top = pop(&c);
        const uint32_t i = (uint32_t)top;
        if (c.rank[i] == top >> 32) join(&c, i); /* else: joined otherwise meanwhile */
    }
    for (uint32_t i = 0; i < c.n && out->n < out->max; i = c.next[i]) put(out, (int32_t)c.symbol[i]);
    return GLOFND_OK;
}

/* ----- captions ----- */

static glofnd_status encode_words(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, output *out) {
    const uint8_t *word;
    size_t size;
    gf_word_kind kind;
    while (out->n < out->max && (kind = gf_words_next(&s->words, &word, &size)) != GF_WORD_END) {
        if (kind == GF_WORD_START_MARK) put(out, gf_bpe_start(b));
        else if (kind == GF_WORD_END_MARK) put(out, gf_bpe_end(b));
        else if (size <= SHORT_WORD) encode_short(b, word, size, out);
        else TRY(encode_long(err, b, s, word, size, out));
    }
    return GLOFND_OK;
}

static glofnd_status encode(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const char *text, size_t n, output *out) {
    TRY(gf_words_begin(err, &s->words, text, n));
    put(out, gf_bpe_start(b));
    return encode_words(err, b, s, out);
}

glofnd_status gf_bpe_encode(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const char *text, size_t n, int context,
                            int32_t *ids, int *count) {
    FAIL_IF(err, context < 2, GLOFND_E_ARGUMENT, "a context of %d tokens; start and end need two", context);
    gf_bpe_scratch own = {0};
    output out = {.ids = ids, .max = context - 1};
    const glofnd_status status = encode(err, b, s ? s : &own, text, n, &out);
    gf_bpe_scratch_free(&own);
    TRY(status);
    *count = out.n + 1;
    ids[out.n] = gf_bpe_end(b);
    memset(ids + *count, 0, (size_t)(context - *count) * sizeof *ids);
    return GLOFND_OK;
}

void gf_bpe_scratch_free(gf_bpe_scratch *s) {
    gf_words_free(&s->words);
    free(s->block);
    *s = (gf_bpe_scratch){0};
}

/* ----- back to text ----- */

/* In place: each end of a word becomes a space. */
static size_t end_words(uint8_t *text, size_t n) {
    const size_t mark = strlen(GF_BPE_WORD_END);
    size_t out = 0;
    for (size_t i = 0; i < n;) {
        const int here = n - i >= mark && memcmp(text + i, GF_BPE_WORD_END, mark) == 0;
        text[out++] = here ? ' ' : text[i];
        i += here ? mark : 1;
    }
    return out;
}

static size_t repair(const uint8_t *bytes, size_t n, uint8_t *out) {
    const uint8_t *at = bytes, *const end = bytes + n;
    size_t used = 0;
    while (at < end) used += (size_t)gf_utf8_put(gf_utf8_next(&at, end), out + used);
    return used;
}

glofnd_status gf_bpe_decode(gf_error *err, const gf_bpe *b, const int32_t *ids, int64_t count, char **out) {
    const gf_symbols *s = &b->symbols;
    size_t size = 0, used = 0;
    *out = NULL;
    for (int64_t i = 0; i < count; i++) {
        FAIL_IF(err, ids[i] < 0 || ids[i] >= s->n, GLOFND_E_INDEX, "token %d; the vocabulary has %d", (int)ids[i], (int)s->n);
        size += s->at[ids[i] + 1] - s->at[ids[i]];
    }
    uint8_t *text = malloc(size * 4 + 2); /* repaired text, at most three bytes for one; then the original bytes */
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "no memory for %lld tokens", (long long)count);
    uint8_t *raw = text + size * 3 + 1;
    for (int64_t i = 0; i < count; i++) {
        const size_t n = s->at[ids[i] + 1] - s->at[ids[i]];
        memcpy(raw + used, s->bytes + s->at[ids[i]], n);
        used += n;
    }
    used = end_words(text, repair(raw, used, text));
    text[used] = 0;
    *out = (char *)text;
    return GLOFND_OK;
}
