/* bpe.c - see bpe.h: the symbols of a vocabulary, merges files, words to tokens, tokens to text.
 *
 * In a merges file every part must have been made by a line before, and every line must make a symbol that is new. So a merge
 * never makes possible one that should have come earlier, which encoding relies on: a word begins as one symbol per byte; then the
 * pair of neighbours with the lowest rank is joined, leftmost first, until no pair has a rank. Short words look through all pairs
 * each time. Long ones, where that would take quadratic time, keep the pairs in a heap.
 */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_ZLIB
#include <zlib.h>
#endif

#include "io/blockfile.h"
#include "io/file.h"
#include "util/array.h"

#define SLOTS (1u << 17) /* more than twice the symbols */

/* ----- the alphabet: visible Latin-1 characters stand for themselves, the others, in order, for 256, 257 ... ----- */

static int is_visible(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; }

uint32_t gf_bpe_letter(uint8_t byte) {
    uint32_t letter = 256;
    for (int b = 0; b < byte; b++) letter += !is_visible(b);
    return is_visible(byte) ? byte : letter;
}

static int byte_of_letter(uint32_t letter) {
    if (letter < 256) return is_visible((int)letter) ? (int)letter : -1;
    for (int b = 0, next = 256; b < 256; b++) {
        if (is_visible(b)) continue;
        if ((uint32_t)next++ == letter) return b;
    }
    return -1;
}

/* ----- the table ----- */

static uint32_t find_slot(const gf_symbols *s, const uint8_t *bytes, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    uint32_t slot = (uint32_t)(h ^ h >> 29) & (SLOTS - 1);
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

/* ----- merges files, packed and not ----- */

#ifdef GF_HAVE_ZLIB

#define GZIP_WINDOW (15 + 16) /* the largest window, with gzip's frame */
#define FIRST_CAPACITY ((size_t)1 << 20)

static glofnd_status inflate_all(gf_error *err, const char *name, z_stream *z, char **text, size_t *size) {
    size_t capacity = 0;
    for (;;) {
        /* Makes sure that something fits after `*size`. */
        if (!(*size < capacity)) {
            FAIL_IF(err, capacity >= GF_BPE_FILE_MAX, GLOFND_E_FORMAT, "'%.400s' unpacks to more than %llu bytes", name,
                    (unsigned long long)GF_BPE_FILE_MAX);
            const size_t bigger = capacity ? capacity * 2 : FIRST_CAPACITY;
            char *grown = realloc(*text, bigger);
            FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory to unpack '%.400s'", name);
            *text = grown;
            capacity = bigger;
        }
        z->next_out = (Bytef *)*text + *size;
        z->avail_out = (uInt)(capacity - *size);
        const int code = inflate(z, Z_NO_FLUSH);
        *size = capacity - z->avail_out;
        if (code == Z_STREAM_END && z->avail_in == 0) return GLOFND_OK;
        /* Another member may follow the end of one. */
        const int next = code == Z_STREAM_END ? inflateReset(z) : code;
        FAIL_IF(err, next == Z_MEM_ERROR, GLOFND_E_MEMORY, "no memory to unpack '%.400s'", name);
        FAIL_IF(err, next != Z_OK, GLOFND_E_FORMAT, "'%.400s': corrupt gzip%s%.60s", name, z->msg ? ": " : ", or cut short",
                z->msg ? z->msg : "");
    }
}

glofnd_status gf_gunzip(gf_error *err, const char *name, const uint8_t *bytes, size_t n, char **text, size_t *size) {
    z_stream z = {0};
    *text = NULL;
    *size = 0;
    FAIL_IF(err, n > GF_BPE_FILE_MAX, GLOFND_E_FORMAT, "'%.400s' has more than %llu bytes", name,
            (unsigned long long)GF_BPE_FILE_MAX);
    FAIL_IF(err, inflateInit2(&z, GZIP_WINDOW) != Z_OK, GLOFND_E_MEMORY, "no memory to unpack '%.400s'", name);
    z.next_in = (Bytef *)(uintptr_t)bytes; /* not written to */
    z.avail_in = (uInt)n;
    const glofnd_status status = inflate_all(err, name, &z, text, size);
    inflateEnd(&z);
    if (status != GLOFND_OK) free(*text), *text = NULL;
    return status;
}

/* No name and no time go into the file: equal text, equal bytes. */
static glofnd_status write_packed(gf_error *err, gf_writer *w, const char *path, const char *text, size_t n) {
    z_stream z = {0};
    FAIL_IF(err, n > GF_BPE_FILE_MAX || deflateInit2(&z, 9, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK,
            GLOFND_E_MEMORY, "no memory to pack '%.400s'", path);
    const uLong capacity = deflateBound(&z, (uLong)n);
    Bytef *packed = malloc(capacity);
    int code = Z_MEM_ERROR;
    if (packed) {
        z.next_in = (Bytef *)(uintptr_t)text;
        z.avail_in = (uInt)n;
        z.next_out = packed;
        z.avail_out = (uInt)capacity;
        code = deflate(&z, Z_FINISH);
        if (code == Z_STREAM_END) gf_put(w, packed, capacity - z.avail_out);
    }
    free(packed);
    deflateEnd(&z);
    FAIL_IF(err, code != Z_STREAM_END, GLOFND_E_MEMORY, "no memory to pack '%.400s'", path);
    return GLOFND_OK;
}

#else

glofnd_status gf_gunzip(gf_error *err, const char *name, const uint8_t *bytes, size_t n, char **text, size_t *size) {
    (void)bytes, (void)n, (void)text, (void)size;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is gzip, and this build is without zlib; unpack it first (gunzip)", name);
}

static glofnd_status write_packed(gf_error *err, gf_writer *w, const char *path, const char *text, size_t n) {
    (void)w, (void)text, (void)n;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' cannot be packed: this build is without zlib; choose a name without .gz", path);
}

#endif

glofnd_status gf_bpe_file_read(gf_error *err, const char *path, char **text, size_t *n) {
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    *text = NULL;
    glofnd_status status = gf_file_read(err, path, GF_BPE_FILE_MAX, &bytes, &capacity, n);
    if (status == GLOFND_OK && (*n < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b)) {
        *text = (char *)bytes;
        return GLOFND_OK;
    }
    const size_t packed = *n;
    if (status == GLOFND_OK) status = gf_gunzip(err, path, bytes, packed, text, n);
    free(bytes);
    return status;
}

glofnd_status gf_bpe_file_write(gf_error *err, const char *path, const char *text, size_t n) {
    const size_t length = strlen(path);
    const int pack = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    glofnd_status status = GLOFND_OK;
    if (pack) status = write_packed(err, &w, path, text, n);
    else gf_put(&w, text, n);
    if (status == GLOFND_OK) status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}

/* ----- merges files, parsed ----- */

#define GF_BPE_NO_RANK 0xffffffffu
#define GF_BPE_PAIR_SLOTS (1u << 17)

struct gf_bpe {
    gf_symbols symbols; /* with the two marks at the end */
    int32_t merges;     /* with the unused token, where there is one */
    uint64_t *pairs;    /* hash table: (left << 16 | right) << 32 | rank + 1; 0: free */
};

static inline uint32_t gf_bpe_pair_slot(uint32_t pair) { return (pair * 0x9e3779b1u) >> 15; }

/* Line of the merge that joins them; lower ones come first. The symbol made is GF_BPE_BASE + rank. */
static inline uint32_t gf_bpe_rank(const gf_bpe *b, uint32_t left, uint32_t right) {
    const uint32_t pair = left << 16 | right;
    for (uint32_t slot = gf_bpe_pair_slot(pair); b->pairs[slot]; slot = (slot + 1) & (GF_BPE_PAIR_SLOTS - 1))
        if (b->pairs[slot] >> 32 == pair) return (uint32_t)b->pairs[slot] - 1;
    return GF_BPE_NO_RANK;
}

#define LINE_BYTES_MAX 4096

typedef struct parser {
    gf_error *err;
    const char *name;
    long long line; /* for messages, from 1 */
    gf_bpe *b;
} parser;

#define BAD_LINE(p, ...) GF_FAIL((p)->err, GLOFND_E_FORMAT, __VA_ARGS__)

static int is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The symbol that is written from *at up to a blank or the end of the line; *at moves after it. */
static glofnd_status read_part(parser *p, const uint8_t **at, const uint8_t *end, int32_t *symbol) {
    uint8_t bytes[LINE_BYTES_MAX];
    size_t n = 0;
    while (*at < end && is_blank(**at)) (*at)++;
    while (*at < end && !is_blank(**at)) {
        const int byte = byte_of_letter(gf_utf8_next(at, end));
        if (byte < 0) BAD_LINE(p, "'%.300s', line %lld: a character that stands for no byte", p->name, p->line);
        bytes[n++] = (uint8_t)byte;
    }
    if (n == 0) BAD_LINE(p, "'%.300s', line %lld: not two symbols with a space between them", p->name, p->line);
    *symbol = gf_symbols_find(&p->b->symbols, bytes, n);
    if (*symbol < 0) BAD_LINE(p, "'%.300s', line %lld: a part that no line before it has made", p->name, p->line);
    return GLOFND_OK;
}

static glofnd_status read_line(parser *p, const uint8_t *line, const uint8_t *end) {
    int32_t left, right;
    if (end - line > LINE_BYTES_MAX) BAD_LINE(p, "'%.300s', line %lld: longer than %d bytes", p->name, p->line, LINE_BYTES_MAX);
    TRY(read_part(p, &line, end, &left));
    TRY(read_part(p, &line, end, &right));
    while (line < end && is_blank(*line)) line++;
    if (line < end) BAD_LINE(p, "'%.300s', line %lld: more than two symbols", p->name, p->line);
    gf_bpe *b = p->b;
    uint8_t joined[GF_BPE_SYMBOL_MAX];
    const size_t n = gf_symbols_join(&b->symbols, left, right, joined);
    if (n == 0) BAD_LINE(p, "'%.300s', line %lld: a symbol of more than %d bytes", p->name, p->line, GF_BPE_SYMBOL_MAX);
    if (gf_symbols_find(&b->symbols, joined, n) >= 0)
        BAD_LINE(p, "'%.300s', line %lld: makes a symbol that is there already", p->name, p->line);
    TRY(gf_symbols_add(p->err, &b->symbols, joined, n));
    const uint32_t pair = (uint32_t)left << 16 | (uint32_t)right;
    uint32_t slot = gf_bpe_pair_slot(pair);
    while (b->pairs[slot]) slot = (slot + 1) & (GF_BPE_PAIR_SLOTS - 1);
    b->pairs[slot] = (uint64_t)pair << 32 | (uint32_t)(++b->merges);
    return GLOFND_OK;
}

static glofnd_status read_lines(parser *p, const uint8_t *text, const uint8_t *end) {
    const uint8_t *at = memchr(text, '\n', (size_t)(end - text));
    for (; at && p->b->merges < GF_BPE_MERGES_MAX; at = memchr(at, '\n', (size_t)(end - at))) {
        const uint8_t *line = ++at, *stop = memchr(line, '\n', (size_t)(end - line));
        p->line++;
        if (line == end) { /* the text ends with a line break: a token that nothing uses, as in open_clip */
            p->b->merges++;
            return gf_symbols_add(p->err, &p->b->symbols, NULL, 0);
        }
        TRY(read_line(p, line, stop ? stop : end));
    }
    return GLOFND_OK;
}

static glofnd_status read_merges(parser *p, const char *text, size_t n) {
    gf_bpe *b = p->b;
    b->pairs = calloc(GF_BPE_PAIR_SLOTS, sizeof *b->pairs);
    FAIL_IF(p->err, !b->pairs, GLOFND_E_MEMORY, "no memory for a vocabulary");
    TRY(gf_symbols_init(p->err, &b->symbols));
    FAIL_IF(p->err, n == 0, GLOFND_E_FORMAT, "'%.400s' is empty; it must be a merges file", p->name);
    TRY(read_lines(p, (const uint8_t *)text, (const uint8_t *)text + n));
    TRY(gf_symbols_add(p->err, &b->symbols, (const uint8_t *)GF_WORDS_START, strlen(GF_WORDS_START)));
    return gf_symbols_add(p->err, &b->symbols, (const uint8_t *)GF_WORDS_END, strlen(GF_WORDS_END));
}

glofnd_status gf_bpe_parse(gf_error *err, const char *name, const char *text, size_t n, gf_bpe **out) {
    *out = NULL;
    gf_bpe *b = calloc(1, sizeof *b);
    FAIL_IF(err, !b, GLOFND_E_MEMORY, "no memory for a vocabulary");
    parser p = {.err = err, .name = name, .line = 1, .b = b};
    const glofnd_status status = read_merges(&p, text, n);
    if (status == GLOFND_OK) *out = b;
    else gf_bpe_free(b);
    return status;
}

glofnd_status gf_bpe_load(gf_error *err, const char *path, gf_bpe **out) {
    char *text = NULL;
    size_t n = 0;
    *out = NULL;
    TRY(gf_bpe_file_read(err, path, &text, &n));
    const glofnd_status status = gf_bpe_parse(err, path, text, n, out);
    free(text);
    return status;
}

void gf_bpe_free(gf_bpe *b) {
    if (!b) return;
    gf_symbols_free(&b->symbols);
    free(b->pairs);
    free(b);
}

int32_t gf_bpe_vocab(const gf_bpe *b) { return b->symbols.n; }

int32_t gf_bpe_start(const gf_bpe *b) { return GF_BPE_BASE + b->merges; }

int32_t gf_bpe_end(const gf_bpe *b) { return GF_BPE_BASE + b->merges + 1; }

/* ----- words to tokens ----- */

#define SHORT_WORD 48

typedef struct output {
    int32_t *ids;
    int n, max; /* max: without the end */
} output;

static void put_token(output *out, int32_t id) {
    if (out->n < out->max) out->ids[out->n++] = id;
}

static uint32_t symbol_at(const gf_bpe *b, const uint8_t *word, size_t n, size_t i) {
    return b->symbols.of_byte[word[i]] + (i + 1 == n ? GF_BPE_BYTES : 0u);
}

/* ----- long words: neighbours are linked, pairs wait in a heap of rank << 32 | place ----- */

typedef struct chain {
    const gf_bpe *b;
    uint64_t *heap; /* [2 n]: every join takes at least one out and puts at most two in */
    int64_t heap_n;
    uint32_t *symbol, *rank, *next, *before; /* [n] each; rank: with the next, GF_BPE_NO_RANK if none or gone */
    uint32_t n;
} chain;

static void rank_pair(chain *c, uint32_t i) {
    const uint32_t next = c->next[i];
    c->rank[i] = next < c->n ? gf_bpe_rank(c->b, c->symbol[i], c->symbol[next]) : GF_BPE_NO_RANK;
    if (c->rank[i] == GF_BPE_NO_RANK) return;
    const uint64_t x = (uint64_t)c->rank[i] << 32 | i;
    int64_t j = c->heap_n++;
    for (; j > 0 && c->heap[(j - 1) / 2] > x; j = (j - 1) / 2) c->heap[j] = c->heap[(j - 1) / 2];
    c->heap[j] = x;
}

static glofnd_status encode_long(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const uint8_t *word, size_t size,
                                 output *out) {
    if (size > s->capacity) {
        void *block = malloc(size * 32);
        FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory for a word of %llu bytes", (unsigned long long)size);
        free(s->block);
        s->block = block;
        s->capacity = size;
    }
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
        const uint64_t top = c.heap[0], x = c.heap[--c.heap_n];
        int64_t j = 0;
        for (int64_t child; (child = 2 * j + 1) < c.heap_n; j = child) {
            if (child + 1 < c.heap_n && c.heap[child + 1] < c.heap[child]) child++;
            if (c.heap[child] >= x) break;
            c.heap[j] = c.heap[child];
        }
        c.heap[j] = x;
        const uint32_t i = (uint32_t)top;
        if (c.rank[i] != top >> 32) continue; /* joined otherwise meanwhile */
        const uint32_t gone = c.next[i];
        c.symbol[i] = GF_BPE_BASE + c.rank[i];
        c.rank[gone] = GF_BPE_NO_RANK;
        c.next[i] = c.next[gone];
        if (c.next[i] < c.n) c.before[c.next[i]] = i;
        rank_pair(&c, i);
        if (i > 0) rank_pair(&c, c.before[i]);
    }
    for (uint32_t i = 0; i < c.n && out->n < out->max; i = c.next[i]) put_token(out, (int32_t)c.symbol[i]);
    return GLOFND_OK;
}

static glofnd_status encode_caption(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const char *text, size_t n, output *out) {
    TRY(gf_words_begin(err, &s->words, text, n));
    put_token(out, gf_bpe_start(b));
    const uint8_t *word;
    size_t size;
    gf_word_kind kind;
    while (out->n < out->max && (kind = gf_words_next(&s->words, &word, &size)) != GF_WORD_END)
        if (kind == GF_WORD_START_MARK) put_token(out, gf_bpe_start(b));
        else if (kind == GF_WORD_END_MARK) put_token(out, gf_bpe_end(b));
        else if (size <= SHORT_WORD) {
            uint32_t symbol[SHORT_WORD], rank[SHORT_WORD]; /* rank[i]: of symbols i and i + 1 */
            int symbols = (int)size;
            for (int i = 0; i < symbols; i++) symbol[i] = symbol_at(b, word, size, (size_t)i);
            for (int i = 0; i + 1 < symbols; i++) rank[i] = gf_bpe_rank(b, symbol[i], symbol[i + 1]);
            while (symbols > 1) {
                int best = 0;
                for (int i = 1; i + 1 < symbols; i++) best = rank[i] < rank[best] ? i : best;
                if (rank[best] == GF_BPE_NO_RANK) break;
                symbol[best] = GF_BPE_BASE + rank[best];
                symbols--;
                for (int i = best + 1; i < symbols; i++) symbol[i] = symbol[i + 1], rank[i - 1] = rank[i];
                if (best > 0) rank[best - 1] = gf_bpe_rank(b, symbol[best - 1], symbol[best]);
                if (best + 1 < symbols) rank[best] = gf_bpe_rank(b, symbol[best], symbol[best + 1]);
            }
            for (int i = 0; i < symbols; i++) put_token(out, (int32_t)symbol[i]);
        } else TRY(encode_long(err, b, s, word, size, out));
    return GLOFND_OK;
}

glofnd_status gf_bpe_encode(gf_error *err, const gf_bpe *b, gf_bpe_scratch *s, const char *text, size_t n, int context,
                            int32_t *ids, int *count) {
    FAIL_IF(err, context < 2, GLOFND_E_ARGUMENT, "a context of %d tokens; start and end need two", context);
    gf_bpe_scratch own = {0};
    output out = {.ids = ids, .max = context - 1};
    const glofnd_status status = encode_caption(err, b, s ? s : &own, text, n, &out);
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
