/* bpe_load.c - reads a merges file. See bpe.h.
 *
 * Every part must have been made by a line before, and every line must make a symbol that is new. So a merge never makes
 * possible one that should have come earlier, which bpe_encode.c relies on.
 */
#include <stdlib.h>
#include <string.h>

#include "text/bpe_file.h"
#include "text/bpe_table.h"
#include "text/unicode.h"

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
        const int byte = gf_bpe_byte(gf_utf8_next(at, end));
        if (byte < 0) BAD_LINE(p, "'%.300s', line %lld: a character that stands for no byte", p->name, p->line);
        bytes[n++] = (uint8_t)byte;
    }
    if (n == 0) BAD_LINE(p, "'%.300s', line %lld: not two symbols with a space between them", p->name, p->line);
    *symbol = gf_symbols_find(&p->b->symbols, bytes, n);
    if (*symbol < 0) BAD_LINE(p, "'%.300s', line %lld: a part that no line before it has made", p->name, p->line);
    return GLOFND_OK;
}

static glofnd_status add_merge(parser *p, int32_t left, int32_t right) {
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

static glofnd_status read_line(parser *p, const uint8_t *line, const uint8_t *end) {
    int32_t left, right;
    if (end - line > LINE_BYTES_MAX) BAD_LINE(p, "'%.300s', line %lld: longer than %d bytes", p->name, p->line, LINE_BYTES_MAX);
    TRY(read_part(p, &line, end, &left));
    TRY(read_part(p, &line, end, &right));
    while (line < end && is_blank(*line)) line++;
    if (line < end) BAD_LINE(p, "'%.300s', line %lld: more than two symbols", p->name, p->line);
    return add_merge(p, left, right);
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

static glofnd_status fill(parser *p, const char *text, size_t n) {
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
    const glofnd_status status = fill(&p, text, n);
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
