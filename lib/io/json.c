/* json.c - see json.h. */
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/text.h"

typedef struct parser {
    gf_error *err;
    const char *where, *begin, *at, *end;
    int depth, lenient;
    gf_json *j;
    size_t used; /* of j->text, which is as long as the input: nothing becomes longer */
} parser;

static glofnd_status not_json(const parser *p, const char *why) {
    GF_FAIL(p->err, GLOFND_E_FORMAT, "'%.300s' is not JSON: %s (byte %zu)", p->where, why, (size_t)(p->at - p->begin));
}

static glofnd_status no_memory(const parser *p) { GF_FAIL(p->err, GLOFND_E_MEMORY, "no memory to read '%.300s'", p->where); }

static void skip_blanks(parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

/* ----- texts ----- */

/* The four digits at `at`; -1: they are none. */
static int32_t hex4(const char *at) {
    int32_t x = 0;
    for (int k = 0; k < 4; k++) {
        const char c = at[k];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        x = 16 * x + digit;
    }
    return x;
}

static void put_character(parser *p, int32_t c) {
    char *to = p->j->text + p->used;
    if (c < 0x80) *to++ = (char)c;
    else if (c < 0x800) *to++ = (char)(0xc0 | c >> 6), *to++ = (char)(0x80 | (c & 63));
    else if (c < 0x10000) *to++ = (char)(0xe0 | c >> 12), *to++ = (char)(0x80 | (c >> 6 & 63)), *to++ = (char)(0x80 | (c & 63));
    else
        *to++ = (char)(0xf0 | c >> 18), *to++ = (char)(0x80 | (c >> 12 & 63)), *to++ = (char)(0x80 | (c >> 6 & 63)),
        *to++ = (char)(0x80 | (c & 63));
    p->used = (size_t)(to - p->j->text);
}

static const char escape_letter[] = "\"\\/bfnrt", escaped[] = "\"\\/\b\f\n\r\t";

/* \n and the like; \uXXXX, or two of them that are one character beyond U+FFFF. */
static glofnd_status read_escape(parser *p, int zeros) {
    if (p->at[1] != 'u') {
        const char *known = p->at[1] ? strchr(escape_letter, p->at[1]) : NULL;
        if (!known) return not_json(p, "an unknown escape");
        put_character(p, escaped[known - escape_letter]);
        p->at += 2;
        return GLOFND_OK;
    }
    int32_t c = hex4(p->at + 2);
    if (c < 0) return not_json(p, "\\u needs four hexadecimal digits");
    if (c == 0 && !zeros) return not_json(p, "\\u0000");
    if (c >= 0xd800 && c < 0xe000) {
        const int32_t low = c < 0xdc00 && p->at[6] == '\\' && p->at[7] == 'u' ? hex4(p->at + 8) : -1;
        if (low < 0xdc00 || low >= 0xe000) return not_json(p, "half of a character");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p->at += 6;
    }
    p->at += 6;
    put_character(p, c);
    return GLOFND_OK;
}

/* *begin: where it is in the tree's texts; *bytes: its length. */
static glofnd_status read_text(parser *p, int zeros, size_t *begin, int64_t *bytes) {
    *begin = p->used;
    if (*p->at != '"') return not_json(p, "expected a text in quotes");
    p->at++;
    while (*p->at != '"') {
        if (*p->at == '\\') {
            TRY(read_escape(p, zeros));
            continue;
        }
        const size_t n = (unsigned char)*p->at < ' ' ? 0 : gf_utf8_bytes((const unsigned char *)p->at);
        if (n == 0) return not_json(p, p->at >= p->end ? "a text is not closed" : "a control character, or broken UTF-8");
        memcpy(p->j->text + p->used, p->at, n);
        p->used += n, p->at += n;
    }
    p->at++;
    *bytes = (int64_t)(p->used - *begin);
    p->j->text[p->used++] = 0;
    return GLOFND_OK;
}

/* ----- numbers and words ----- */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int read_word(parser *p, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(p->at, word, n) != 0) return 0;
    p->at += n;
    return 1;
}

static int read_non_number(parser *p, gf_json_node *node) {
    double x;
    if (read_word(p, "NaN")) x = (double)NAN;
    else if (read_word(p, "Infinity")) x = (double)INFINITY;
    else if (read_word(p, "-Infinity")) x = -(double)INFINITY;
    else return 0;
    node->kind = GF_JSON_REAL;
    node->real = x;
    return 1;
}

/* ----- arrays and objects ----- */

static int by_text(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

static glofnd_status read_value(parser *p, int64_t *out);

static glofnd_status read_children(parser *p, int64_t parent, char close) {
    int64_t last = -1;
    p->at++;
    if (--p->depth < 0) return not_json(p, "nested too deeply");
    skip_blanks(p);
    while (*p->at != close) {
        size_t key = 0;
        int64_t child = -1, bytes;
        if (close == '}') {
            TRY(read_text(p, 0, &key, &bytes));
            skip_blanks(p);
            if (*p->at != ':') return not_json(p, "expected ':'");
            p->at++;
        }
        TRY(read_value(p, &child));
        gf_json_node *node = p->j->node; /* may have moved */
        node[child].key = key;
        if (last < 0) node[parent].first = child;
        else node[last].next = child;
        node[parent].count++;
        last = child;
        skip_blanks(p);
        if (*p->at == close) break;
        if (*p->at != ',') return not_json(p, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
        p->at++;
        skip_blanks(p);
        if (*p->at == close) return not_json(p, "nothing behind a comma");
    }
    p->at++, p->depth++;
    if (close != '}' || p->lenient) return GLOFND_OK;
    const gf_json *j = p->j;
    const char **key = malloc(((size_t)j->node[parent].count + 1) * sizeof *key);
    size_t n = 0;
    int twice = 0;
    if (!key) return no_memory(p);
    for (int64_t k = j->node[parent].first; k >= 0; k = j->node[k].next) key[n++] = gf_json_text(j, j->node[k].key);
    qsort(key, n, sizeof *key, by_text);
    for (size_t k = 1; k < n && !twice; k++) twice = strcmp(key[k - 1], key[k]) == 0;
    free(key);
    return twice ? not_json(p, "a duplicate key") : GLOFND_OK;
}

static glofnd_status read_value(parser *p, int64_t *out) {
    gf_json *j = p->j;
    if (!gf_grow(&j->node, &j->capacity, j->count + 1, sizeof *j->node)) return no_memory(p);
    *out = (int64_t)j->count++;
    gf_json_node *node = &j->node[*out];
    *node = (gf_json_node){.kind = GF_JSON_NULL, .first = -1, .next = -1};
    skip_blanks(p);
    switch (*p->at) {
    case '{': node->kind = GF_JSON_OBJECT; return read_children(p, *out, '}');
    case '[': node->kind = GF_JSON_ARRAY; return read_children(p, *out, ']');
    case '"': node->kind = GF_JSON_TEXT; return read_text(p, p->lenient, &node->text, &node->count);
    default: break;
    }
    if (read_word(p, "null")) return GLOFND_OK;
    if (read_word(p, "true")) node->kind = GF_JSON_TRUE;
    else if (read_word(p, "false")) node->kind = GF_JSON_FALSE;
    else if (!p->lenient || !read_non_number(p, node)) {
        const char *begin = p->at;
        if (*p->at == '-') p->at++;
        if (!is_digit(*p->at)) return not_json(p, "expected a value");
        if (*p->at == '0' && is_digit(p->at[1])) return not_json(p, "a number begins with 0");
        while (is_digit(*p->at)) p->at++;
        const char *whole = p->at;
        if (*p->at == '.') {
            for (p->at++; is_digit(*p->at);) p->at++;
            if (!is_digit(p->at[-1])) return not_json(p, "a number ends with a point");
        }
        if (*p->at == 'e' || *p->at == 'E') {
            p->at += p->at[1] == '-' || p->at[1] == '+' ? 2 : 1;
            if (!is_digit(*p->at)) return not_json(p, "an exponent without digits");
            while (is_digit(*p->at)) p->at++;
        }
        if (p->at == whole) {
            node->kind = GF_JSON_INTEGER;
            errno = 0;
            node->integer = strtoll(begin, NULL, 10);
            return errno == ERANGE ? not_json(p, "an integer of more than 64 bits") : GLOFND_OK;
        }
        char *copy = p->j->text + p->used; /* the number by itself, in the free part of the texts */
        memcpy(copy, begin, (size_t)(p->at - begin));
        copy[p->at - begin] = 0;
        node->kind = GF_JSON_REAL;
        return gf_measure_read(copy, &node->real) ? not_json(p, "a number too large for a double") : GLOFND_OK;
    }
    return GLOFND_OK;
}

/* ----- the tree ----- */

glofnd_status gf_json_read(gf_error *err, const char *where, const char *text, size_t n, int depth, int flags, gf_json *out) {
    gf_json j = {.text = malloc(n + 1)};
    parser p = {.err = err, .where = where, .begin = text, .at = text, .end = text + n, .depth = depth, .j = &j};
    int64_t root = 0;
    p.lenient = (flags & GF_JSON_LENIENT) != 0;
    if (!j.text) return no_memory(&p);
    glofnd_status status = read_value(&p, &root);
    if (status == GLOFND_OK) {
        skip_blanks(&p);
        if (p.at != p.end) status = not_json(&p, "something behind its end");
    }
    if (status == GLOFND_OK) *out = j;
    else gf_json_free(&j);
    return status;
}

void gf_json_free(gf_json *j) {
    free(j->node);
    free(j->text);
    *j = (gf_json){0};
}

int64_t gf_json_find(const gf_json *j, int64_t node, const char *key) {
    int64_t found = -1;
    if (!gf_json_is(j, node, GF_JSON_OBJECT)) return -1;
    for (int64_t k = j->node[node].first; k >= 0; k = j->node[k].next)
        if (strcmp(gf_json_text(j, j->node[k].key), key) == 0) found = k;
    return found;
}

const char *gf_json_find_text(const gf_json *j, int64_t node, const char *key) {
    const int64_t k = gf_json_find(j, node, key);
    return gf_json_is(j, k, GF_JSON_TEXT) ? gf_json_text(j, j->node[k].text) : NULL;
}

/* ----- writing ----- */

size_t gf_json_character(const char **text, char *out) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)*text;
    const size_t n = gf_utf8_bytes(p);
    *text += n ? n : 1;
    if (n == 0) {
        memcpy(out, "\\ufffd", 6);
        return 6;
    }
    const unsigned char control = n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? p[1] : p[0]; /* U+0080 to U+009F */
    if (control < 0x20 || (control >= 0x7f && control < 0xa0)) {
        memcpy(out, "\\u00", 4);
        out[4] = hex[control >> 4], out[5] = hex[control & 15];
        return 6;
    }
    const size_t escape = *p == '"' || *p == '\\';
    if (escape) *out = '\\';
    memcpy(out + escape, p, n);
    return escape + n;
}

void gf_json_quote(gf_text *out, const char *text) {
    gf_text_add(out, "\"");
    while (*text) {
        char character[GF_JSON_CHARACTER];
        const char *known = strchr(escaped + 3, *text); /* \b to \t */
        if (known) gf_text_add(out, "\\%c", escape_letter[known - escaped]), text++;
        else gf_text_add(out, "%.*s", (int)gf_json_character(&text, character), character);
    }
    gf_text_add(out, "\"");
}
