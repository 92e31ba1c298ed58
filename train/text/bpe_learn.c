/* bpe_learn.c - see bpe.h.
 *
 * Every pair of symbols has its count and a superset of its words. A heap holds pairs by the count they had when
 * they were put there; counts that have fallen since are put right when they come out. Joining a pair touches only the words
 * that have it.
 */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "text/words.h"
#include "util/array.h"

/* ----- the different words, counted ----- */

struct gf_bpe_counts {
    gf_words split; /* scratch of the caption under way */
    uint8_t *bytes; /* all different words */
    size_t used, bytes_capacity;
    struct gf_bpe_counted {
        size_t at; /* in bytes; up to that of the next one, or `used` */
        int64_t times;
    } * word; /* [n], in order of appearance */
    int64_t n;
    size_t capacity;
    int64_t *slots;  /* hash table of word numbers + 1 */
    int64_t slots_n; /* a power of two */
    int64_t total;
};

static inline size_t gf_bpe_counted_end(const gf_bpe_counts *c, int64_t i) { return i + 1 < c->n ? c->word[i + 1].at : c->used; }

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

static int64_t find_slot(const gf_bpe_counts *c, const uint8_t *bytes, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    int64_t slot = (int64_t)((h ^ h >> 32) & (uint64_t)(c->slots_n - 1));
    for (; c->slots[slot]; slot = (slot + 1) & (c->slots_n - 1)) {
        const int64_t i = c->slots[slot] - 1;
        const size_t at = c->word[i].at;
        if (gf_bpe_counted_end(c, i) - at == n && memcmp(c->bytes + at, bytes, n) == 0) break;
    }
    return slot;
}

static glofnd_status count_word(gf_error *err, gf_bpe_counts *c, const uint8_t *bytes, size_t n) {
    c->total++;
    int64_t slot = find_slot(c, bytes, n);
    if (c->slots[slot]) {
        c->word[c->slots[slot] - 1].times++;
        return GLOFND_OK;
    }
    FAIL_IF(err,
            !gf_grow(&c->bytes, &c->bytes_capacity, c->used + n, 1) ||
                !gf_grow(&c->word, &c->capacity, (size_t)c->n + 1, sizeof *c->word),
            GLOFND_E_MEMORY, "no memory for %lld different words", (long long)c->n);
    if (c->n * 2 >= c->slots_n) {
        int64_t *old = c->slots, *slots = calloc((size_t)c->slots_n * 2, sizeof *slots);
        FAIL_IF(err, !slots, GLOFND_E_MEMORY, "no memory for %lld different words", (long long)c->n);
        c->slots = slots;
        c->slots_n *= 2;
        for (int64_t i = 0; i < c->n; i++) {
            const size_t at = c->word[i].at;
            c->slots[find_slot(c, c->bytes + at, gf_bpe_counted_end(c, i) - at)] = i + 1;
        }
        free(old);
    }
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
    while ((kind = gf_words_next(&c->split, &bytes, &size)) != GF_WORD_END)
        if (kind == GF_WORD && size <= GF_BPE_WORD_MAX) TRY(count_word(err, c, bytes, size));
    return GLOFND_OK;
}

int64_t gf_bpe_counts_words(const gf_bpe_counts *c, int64_t *different) {
    *different = c->n;
    return c->total;
}

/* ----- what is learned ----- */

#define PAIR_COUNT_MIN 2 /* a pair that comes once is no pattern */
#define FILE_HEAD "#version: 0.2 - byte-pair merges learned by glofnd"

typedef struct pair {
    uint32_t key; /* left << 16 | right */
    int64_t times;
    int64_t *words; /* [n] those that have it, and some that had it once; may repeat */
    int64_t n;
    size_t capacity;
    int queued; /* the merge, from 1, after which it went to the heap last */
} pair;

typedef struct candidate {
    int64_t times;
    uint32_t key;
} candidate;

typedef struct learner {
    gf_error *err;
    const gf_bpe_counts *counts;
    gf_symbols symbols;
    uint16_t *text;   /* the words as symbols, each at its bytes' place: words only become shorter */
    uint32_t *length; /* [words] in symbols */
    int64_t *done;    /* [words] the last merge, from 1, that visited the word */
    pair *pairs;      /* hash table; times < 0: free */
    int64_t pairs_n, slots;
    candidate *heap;
    int64_t heap_n;
    size_t heap_capacity;
    uint32_t *merges; /* [made] keys */
    int made;
} learner;

static const char no_memory[] = "no memory to learn a vocabulary";

/* The most frequent first, then the smaller numbers. */
static int goes_before(candidate a, candidate b) { return a.times != b.times ? a.times > b.times : a.key < b.key; }

static glofnd_status push_candidate(learner *l, candidate x) {
    FAIL_IF(l->err, !gf_grow(&l->heap, &l->heap_capacity, (size_t)l->heap_n + 1, sizeof *l->heap), GLOFND_E_MEMORY, no_memory);
    int64_t i = l->heap_n++;
    for (; i > 0 && goes_before(x, l->heap[(i - 1) / 2]); i = (i - 1) / 2) l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = x;
    return GLOFND_OK;
}

static int64_t slot_of(const pair *pairs, int64_t slots, uint32_t key) {
    int64_t slot = (int64_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (slots - 1);
    while (pairs[slot].times >= 0 && pairs[slot].key != key) slot = (slot + 1) & (slots - 1);
    return slot;
}

static glofnd_status grow_pairs(learner *l) {
    const int64_t slots = l->slots ? l->slots * 2 : 1 << 14;
    pair *pairs = malloc((size_t)slots * sizeof *pairs);
    FAIL_IF(l->err, !pairs, GLOFND_E_MEMORY, no_memory);
    for (int64_t i = 0; i < slots; i++) pairs[i] = (pair){.times = -1};
    for (int64_t i = 0; i < l->slots; i++)
        if (l->pairs[i].times >= 0) pairs[slot_of(pairs, slots, l->pairs[i].key)] = l->pairs[i];
    free(l->pairs);
    l->pairs = pairs;
    l->slots = slots;
    return GLOFND_OK;
}

/* One more place of a word has this pair. */
static glofnd_status add_pair(learner *l, uint32_t left, uint32_t right, int64_t word) {
    if (l->pairs_n * 2 >= l->slots) TRY(grow_pairs(l));
    const uint32_t key = left << 16 | right;
    pair *p = &l->pairs[slot_of(l->pairs, l->slots, key)];
    if (p->times < 0) *p = (pair){.key = key}, l->pairs_n++;
    p->times += l->counts->word[word].times;
    if (p->n > 0 && p->words[p->n - 1] == word) return GLOFND_OK;
    FAIL_IF(l->err, !gf_grow(&p->words, &p->capacity, (size_t)p->n + 1, sizeof *p->words), GLOFND_E_MEMORY, no_memory);
    p->words[p->n++] = word;
    return GLOFND_OK;
}

/* New or more frequent pairs go to the heap after the merge that made them: all of them have `made` as a part. */
static glofnd_status push_around(learner *l, int64_t word, uint32_t made) {
    const uint16_t *s = l->text + l->counts->word[word].at;
    for (uint32_t i = 0; i + 1 < l->length[word]; i++) {
        if (s[i] != made && s[i + 1] != made) continue;
        const uint32_t key = (uint32_t)s[i] << 16 | s[i + 1];
        pair *p = &l->pairs[slot_of(l->pairs, l->slots, key)];
        if (p->queued == l->made) continue;
        p->queued = l->made;
        TRY(push_candidate(l, (candidate){p->times, key}));
    }
    return GLOFND_OK;
}

/* Joins (left, right) wherever the word has it. Pairs that overlap a place where it was are gone; those with the new symbol
 * are new. */
static glofnd_status join_in_word(learner *l, int64_t word, uint32_t left, uint32_t right, uint32_t made) {
    uint16_t *s = l->text + l->counts->word[word].at;
    const uint32_t n = l->length[word];
    uint8_t joined[GF_BPE_WORD_MAX] = {0}; /* this symbol will be part of the new one */
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!joined[i] && s[i] == left && s[i + 1] == right) joined[i] = joined[i + 1] = 1;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (joined[i] || joined[i + 1])
            l->pairs[slot_of(l->pairs, l->slots, (uint32_t)s[i] << 16 | s[i + 1])].times -= l->counts->word[word].times;
    uint32_t out = 0;
    for (uint32_t i = 0; i < n; out++) {
        s[out] = joined[i] ? (uint16_t)made : s[i];
        i += joined[i] ? 2 : 1;
    }
    l->length[word] = out;
    for (uint32_t i = 0; i + 1 < out; i++)
        if (s[i] == made || s[i + 1] == made) TRY(add_pair(l, s[i], s[i + 1], word));
    return GLOFND_OK;
}

/* ----- the merges ----- */

/* The next pair to join. 0: none comes often enough. A pair that spells a symbol there already is passed over for good: a file
 * in which two lines make the same symbol would number the tokens differently for different readers. */
static glofnd_status choose_pair(learner *l, uint32_t *key, uint8_t *joined, size_t *size) {
    *size = 0;
    while (l->heap_n > 0) {
        const candidate top = l->heap[0], x = l->heap[--l->heap_n];
        int64_t i = 0;
        for (int64_t child; (child = 2 * i + 1) < l->heap_n; i = child) {
            if (child + 1 < l->heap_n && goes_before(l->heap[child + 1], l->heap[child])) child++;
            if (!goes_before(l->heap[child], x)) break;
            l->heap[i] = l->heap[child];
        }
        l->heap[i] = x;
        const int64_t now = l->pairs[slot_of(l->pairs, l->slots, top.key)].times;
        if (top.times < PAIR_COUNT_MIN) return GLOFND_OK;
        if (now != top.times) {
            if (now >= PAIR_COUNT_MIN && now < top.times) TRY(push_candidate(l, (candidate){now, top.key}));
            continue;
        }
        *size = gf_symbols_join(&l->symbols, (int32_t)(top.key >> 16), (int32_t)(top.key & 0xffff), joined);
        *key = top.key;
        if (*size > 0 && gf_symbols_find(&l->symbols, joined, *size) < 0) return GLOFND_OK;
        *size = 0;
    }
    return GLOFND_OK;
}

static glofnd_status learn_merges(learner *l, int merges) {
    uint8_t joined[GF_BPE_SYMBOL_MAX];
    size_t size;
    uint32_t key;
    TRY(gf_symbols_init(l->err, &l->symbols));
    l->merges = malloc((size_t)merges * sizeof *l->merges + 1);
    FAIL_IF(l->err, !l->merges, GLOFND_E_MEMORY, no_memory);
    TRY(grow_pairs(l));
    const gf_bpe_counts *c = l->counts;
    l->text = malloc(c->used * sizeof *l->text);
    l->length = malloc((size_t)c->n * sizeof *l->length);
    l->done = calloc((size_t)c->n, sizeof *l->done);
    FAIL_IF(l->err, !l->text || !l->length || !l->done, GLOFND_E_MEMORY, no_memory);
    for (int64_t w = 0; w < c->n; w++) {
        const size_t at = c->word[w].at, end = gf_bpe_counted_end(c, w);
        for (size_t i = at; i < end; i++) l->text[i] = l->symbols.of_byte[c->bytes[i]];
        l->text[end - 1] = (uint16_t)(l->text[end - 1] + GF_BPE_BYTES);
        l->length[w] = (uint32_t)(end - at);
        for (size_t i = at; i + 1 < end; i++) TRY(add_pair(l, l->text[i], l->text[i + 1], w));
    }
    for (int64_t i = 0; i < l->slots; i++)
        if (l->pairs[i].times > 0) TRY(push_candidate(l, (candidate){l->pairs[i].times, l->pairs[i].key}));
    while (l->made < merges) {
        TRY(choose_pair(l, &key, joined, &size));
        if (size == 0) break;
        const uint32_t made = (uint32_t)l->symbols.n;
        TRY(gf_symbols_add(l->err, &l->symbols, joined, size));
        l->merges[l->made++] = key;
        pair *p = &l->pairs[slot_of(l->pairs, l->slots, key)];
        int64_t *const words = p->words, n = p->n;
        p->words = NULL; /* ours now: the table may move */
        p->n = 0, p->capacity = 0;
        glofnd_status status = GLOFND_OK;
        for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
            if (l->done[words[i]] == l->made) continue;
            l->done[words[i]] = l->made;
            status = join_in_word(l, words[i], key >> 16, key & 0xffff, made);
        }
        for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
            if (l->done[words[i]] != l->made) continue;
            l->done[words[i]] = 0;
            status = push_around(l, words[i], made);
        }
        free(words);
        TRY(status);
    }
    return GLOFND_OK;
}

static size_t put_symbol(const gf_symbols *s, uint32_t i, char *out) {
    size_t used = 0;
    for (uint32_t k = s->at[i]; k < s->at[i + 1]; k++)
        used += (size_t)gf_utf8_put(gf_bpe_letter(s->bytes[k]), (uint8_t *)out + used);
    return used;
}

/* No line break at the end: open_clip would take it for one more token. */
static glofnd_status write_merges(const learner *l, const char *path) {
    size_t capacity = sizeof FILE_HEAD;
    for (int m = 0; m < l->made; m++) {
        const uint32_t made = GF_BPE_BASE + (uint32_t)m;
        capacity += 2 + 2 * (size_t)(l->symbols.at[made + 1] - l->symbols.at[made]);
    }
    char *text = malloc(capacity);
    FAIL_IF(l->err, !text, GLOFND_E_MEMORY, no_memory);
    size_t used = strlen(FILE_HEAD);
    memcpy(text, FILE_HEAD, used);
    for (int m = 0; m < l->made; m++) {
        text[used++] = '\n';
        used += put_symbol(&l->symbols, l->merges[m] >> 16, text + used);
        text[used++] = ' ';
        used += put_symbol(&l->symbols, l->merges[m] & 0xffff, text + used);
    }
    const glofnd_status status = gf_bpe_file_write(l->err, path, text, used);
    free(text);
    return status;
}

glofnd_status gf_bpe_learn(gf_error *err, const gf_bpe_counts *c, int merges, const char *path, gf_bpe_learned *out) {
    FAIL_IF(err, c->n == 0, GLOFND_E_ARGUMENT, "no word to learn from");
    FAIL_IF(err, merges < 0 || merges > GF_BPE_MERGES_MAX, GLOFND_E_ARGUMENT, "%d merges; at most %d", merges, GF_BPE_MERGES_MAX);
    learner *l = calloc(1, sizeof *l);
    FAIL_IF(err, !l, GLOFND_E_MEMORY, no_memory);
    l->err = err;
    l->counts = c;
    glofnd_status status = learn_merges(l, merges);
    if (status == GLOFND_OK) status = write_merges(l, path);
    *out = (gf_bpe_learned){l->made, GF_BPE_BASE + l->made + 2};
    for (int64_t i = 0; i < l->slots; i++) free(l->pairs[i].words);
    gf_symbols_free(&l->symbols);
    free(l->text);
    free(l->length);
    free(l->done);
    free(l->pairs);
    free(l->heap);
    free(l->merges);
    free(l);
    return status;
}
