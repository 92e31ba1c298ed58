/* npy_header.c - parser of the .npy header: a fixed part, then a Python dict literal with exactly the keys descr, fortran_order
 * and shape, such as  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padded with blanks and a newline.
 *
 * A cursor walks the text and never reads past its end; the text need not be terminated. */
#include "io/npy_header.h"

#include <string.h>

typedef struct cursor {
    const char *at, *end;
    const char *name; /* of the file, for messages */
    gf_error *err;
} cursor;

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 };

static int peek(const cursor *c) { return c->at < c->end ? (unsigned char)*c->at : -1; }

static void skip_blanks(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Takes `ch`, blanks before it allowed; 0 if something else stands there. */
static int take(cursor *c, char ch) {
    skip_blanks(c);
    if (peek(c) != ch) return 0;
    c->at++;
    return 1;
}

static int take_word(cursor *c, const char *word) {
    const size_t n = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return 0;
    c->at += n;
    return 1;
}

static glofnd_status expect(cursor *c, char ch, const char *where) {
    FAIL_IF(c->err, !take(c, ch), GLOFND_E_FORMAT, "%.300s: .npy header: '%c' expected %s", c->name, ch, where);
    return GLOFND_OK;
}

/* A quoted string without escapes; *s points into the text. */
static glofnd_status take_string(cursor *c, const char *what, const char **s, size_t *n) {
    skip_blanks(c);
    const int quote = peek(c);
    FAIL_IF(c->err, quote != '\'' && quote != '"', GLOFND_E_FORMAT, "%.300s: .npy header: a quoted string expected for %s%s",
            c->name, what, quote == '[' ? "; records (structured arrays) are not supported" : "");
    *s = ++c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\' && *c->at >= ' ') c->at++;
    FAIL_IF(c->err, peek(c) != quote, GLOFND_E_FORMAT, "%.300s: .npy header: the string for %s does not end", c->name, what);
    *n = (size_t)(c->at++ - *s);
    return GLOFND_OK;
}

static glofnd_status parse_descr(cursor *c, gf_npy *out) {
    static const struct {
        const char *descr;
        gf_npy_type type;
    } known[] = {
#define GF_NPY_X(name, descr, bytes, plain) {descr, GF_NPY_##name},
        GF_NPY_TYPE_LIST(GF_NPY_X)
#undef GF_NPY_X
    };
    const char *s = NULL;
    size_t n = 0;
    TRY(take_string(c, "descr", &s, &n));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (n != strlen(known[i].descr) || memcmp(s + 1, known[i].descr + 1, n - 1) != 0) continue;
        if (s[0] == known[i].descr[0] || (s[0] == '>' && known[i].descr[0] == '<')) {
            out->type = known[i].type;
            out->swapped = s[0] == '>';
            return GLOFND_OK;
        }
    }
    /* the types that the caller accepts are not known here: these serve all */
    const int numbers = n >= 2 && strchr("<>=|", s[0]) && strchr("fiub", s[1]);
    GF_FAIL(c->err, GLOFND_E_FORMAT, "%.300s: .npy element type '%.*s' is not supported%s", c->name, (int)(n < 40 ? n : 40), s,
            numbers ? "; save x.astype(\"float32\"), or of labels and indices .astype(\"int64\")" : "");
}

static glofnd_status parse_order(cursor *c, gf_npy *out) {
    out->fortran = take_word(c, "True");
    if (out->fortran || take_word(c, "False")) return GLOFND_OK;
    GF_FAIL(c->err, GLOFND_E_FORMAT, "%.300s: .npy header: fortran_order must be True or False", c->name);
}

/* A decimal number, optionally with the L of Python 2. */
static glofnd_status parse_extent(cursor *c, int64_t *out) {
    skip_blanks(c);
    FAIL_IF(c->err, peek(c) < '0' || peek(c) > '9', GLOFND_E_FORMAT, "%.300s: .npy header: shape must hold integers >= 0",
            c->name);
    int64_t x = 0;
    for (; peek(c) >= '0' && peek(c) <= '9'; c->at++) {
        const int digit = peek(c) - '0';
        FAIL_IF(c->err, x > (INT64_MAX - digit) / 10, GLOFND_E_FORMAT,
                "%.300s: .npy header: an extent of shape does not fit 63 bits", c->name);
        x = x * 10 + digit;
    }
    if (peek(c) == 'L') c->at++;
    *out = x;
    return GLOFND_OK;
}

/* (), (3,), (3, 4) or (3, 4,); a bare (3) is a number in Python and refused as NumPy does. */
static glofnd_status parse_shape(cursor *c, gf_npy *out) {
    int comma = 1;
    out->rank = 0;
    TRY(expect(c, '(', "before shape"));
    while (!take(c, ')')) {
        FAIL_IF(c->err, !comma, GLOFND_E_FORMAT, "%.300s: .npy header: ',' expected between the extents of shape", c->name);
        FAIL_IF(c->err, out->rank == GF_NPY_MAX_RANK, GLOFND_E_FORMAT, "%.300s: .npy shape has more than %d axes", c->name,
                GF_NPY_MAX_RANK);
        TRY(parse_extent(c, &out->shape[out->rank++]));
        comma = take(c, ',');
    }
    FAIL_IF(c->err, out->rank == 1 && !comma, GLOFND_E_FORMAT, "%.300s: .npy header: shape must be a tuple: (n,)", c->name);
    return GLOFND_OK;
}

/* One "key: value"; `seen` collects KEY_* bits. */
static glofnd_status parse_entry(cursor *c, gf_npy *out, int *seen) {
    static const struct {
        const char *key;
        int bit;
    } keys[] = {{"descr", KEY_DESCR}, {"fortran_order", KEY_ORDER}, {"shape", KEY_SHAPE}};
    const char *s = NULL;
    size_t n = 0;
    int bit = 0;
    TRY(take_string(c, "a key", &s, &n));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (n == strlen(keys[i].key) && memcmp(s, keys[i].key, n) == 0) bit = keys[i].bit;
    const int shown = (int)(n < 40 ? n : 40);
    FAIL_IF(c->err, !bit, GLOFND_E_FORMAT, "%.300s: .npy header: unknown key '%.*s'; expected descr, fortran_order, shape",
            c->name, shown, s);
    FAIL_IF(c->err, *seen & bit, GLOFND_E_FORMAT, "%.300s: .npy header: key '%.*s' is given twice", c->name, shown, s);
    *seen |= bit;
    TRY(expect(c, ':', "after a key"));
    return bit == KEY_DESCR ? parse_descr(c, out) : bit == KEY_ORDER ? parse_order(c, out) : parse_shape(c, out);
}

glofnd_status gf_npy_parse_text(gf_error *err, const char *name, const char *text, size_t length, gf_npy *out) {
    cursor c = {text, text + length, name, err};
    int seen = 0, comma = 1;
    TRY(expect(&c, '{', "at the start"));
    while (!take(&c, '}')) {
        FAIL_IF(err, !comma, GLOFND_E_FORMAT, "%.300s: .npy header: ',' expected between the keys", name);
        TRY(parse_entry(&c, out, &seen));
        comma = take(&c, ',');
    }
    skip_blanks(&c);
    FAIL_IF(err, c.at != c.end, GLOFND_E_FORMAT, "%.300s: .npy header: text after the closing brace", name);
    FAIL_IF(err, seen != KEY_ALL, GLOFND_E_FORMAT, "%.300s: .npy header: key '%s' is missing", name,
            !(seen & KEY_DESCR)   ? "descr"
            : !(seen & KEY_ORDER) ? "fortran_order"
                                  : "shape");
    return gf_npy_set_count(err, name, out);
}

glofnd_status gf_npy_parse_prefix(gf_error *err, const char *name, const unsigned char *bytes, size_t size, size_t *start,
                                  size_t *length) {
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    FAIL_IF(err, size < 10 || memcmp(bytes, magic, sizeof magic) != 0, GLOFND_E_FORMAT,
            "%.300s: not a .npy file: it does not begin with \\x93NUMPY; write the array by np.save(FILE, x)", name);
    const int major = bytes[6], minor = bytes[7];
    FAIL_IF(err, major < 1 || major > 3 || minor != 0, GLOFND_E_FORMAT, "%.300s: .npy version %d.%d; expected 1.0, 2.0 or 3.0",
            name, major, minor);
    if (major == 1) {
        *start = 10;
        *length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    } else {
        FAIL_IF(err, size < 12, GLOFND_E_FORMAT, "%.300s: cut within the fixed part of the .npy header", name);
        *start = 12;
        *length = (size_t)bytes[8] | (size_t)bytes[9] << 8 | (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    FAIL_IF(err, *length > GF_NPY_MAX_HEADER, GLOFND_E_FORMAT, "%.300s: .npy header of %zu bytes; expected at most %d", name,
            *length, GF_NPY_MAX_HEADER);
    return GLOFND_OK;
}

glofnd_status gf_npy_set_count(gf_error *err, const char *name, gf_npy *a) {
    const int64_t most = INT64_MAX / (int64_t)gf_npy_type_bytes(a->type);
    int64_t count = 1, empty = 0;
    for (int k = 0; k < a->rank; k++) {
        if (a->shape[k] == 0) empty = 1;
        else {
            FAIL_IF(err, a->shape[k] < 0 || count > most / a->shape[k], GLOFND_E_FORMAT,
                    "%.300s: shape is negative or its product does not fit 63 bits", name);
            count *= a->shape[k];
        }
    }
    a->count = empty ? 0 : count;
    return GLOFND_OK;
}
