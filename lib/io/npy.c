/* npy.c - see npy.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "util/dtype.h"
#include "util/string_list.h"

#define PREFIX_BYTES 12  /* longest fixed part: magic 6, version 2, header length 2 (v1) or 4 (v2, v3) */
#define HEADER_MAX 65535 /* longest text header taken, in any version */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they lie in the file: little endian");

static const struct {
    const char *descr;
    size_t bytes;
    const char *plain;
} types[] = {
#define GF_NPY_X(name, descr, bytes, plain) {descr, bytes, plain},
    GF_NPY_TYPE_LIST(GF_NPY_X)
#undef GF_NPY_X
};

size_t gf_npy_type_bytes(gf_npy_type type) { return types[type].bytes; }

const char *gf_npy_type_name(gf_npy_type type) { return types[type].plain; }

void gf_npy_free(gf_npy *a) {
    if (!a) return;
    free(a->data);
    memset(a, 0, sizeof *a);
}

/* ----- elements ----- */

double gf_npy_f64(const gf_npy *a, int64_t i) {
    switch (a->type) {
    case GF_NPY_F4: return ((const float *)a->data)[i];
    case GF_NPY_F8: return ((const double *)a->data)[i];
    case GF_NPY_F2: return (double)gf_f16_to_float(((const uint16_t *)a->data)[i]);
    case GF_NPY_I8: return (double)((const int64_t *)a->data)[i];
    case GF_NPY_I4: return ((const int32_t *)a->data)[i];
    case GF_NPY_U1: return ((const uint8_t *)a->data)[i];
    }
    return 0.0;
}

int64_t gf_npy_i64(const gf_npy *a, int64_t i) {
    if (a->type == GF_NPY_I8) return ((const int64_t *)a->data)[i];
    const double x = gf_npy_f64(a, i);
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : 0; /* NaN fails both tests */
}

/* ----- the header -----
 *
 * A fixed part, then a Python dict literal with exactly the keys descr, fortran_order
 * and shape, such as  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padded with blanks and a newline.
 *
 * A cursor walks the text and never reads past its end; the text need not be terminated. */

typedef struct text_type { /* of an array of texts */
    char kind;             /* 'U': letters of 4 bytes, 'S': bytes; 0: it has numbers */
    int64_t letters;       /* of every text */
} text_type;

enum { LETTERS_MAX = 1 << 16 };

typedef struct cursor {
    const char *at, *end;
    const char *name; /* of the file, for messages */
    gf_error *err;
    text_type *texts; /* NULL: texts are refused */
} cursor;

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEY_ALL = 7 };

/* count from shape, with every product checked so that count * element size fits int64_t. */
static glofnd_status set_count(gf_error *err, const char *name, gf_npy *a) {
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

static int peek(const cursor *c) { return c->at < c->end ? (unsigned char)*c->at : -1; }

static void skip_blanks(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Takes `ch`, blanks before it allowed; 0 if something else stands there. */
static int take_char(cursor *c, char ch) {
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
    FAIL_IF(c->err, !take_char(c, ch), GLOFND_E_FORMAT, "%.300s: .npy header: '%c' expected %s", c->name, ch, where);
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
    if (c->texts && n >= 3 && n <= 8 && strchr("<>|", s[0]) && strchr("US", s[1])) {
        int64_t letters = 0;
        size_t k = 2;
        for (; k < n && s[k] >= '0' && s[k] <= '9'; k++) letters = letters * 10 + (s[k] - '0');
        FAIL_IF(c->err, k < n || letters > LETTERS_MAX, GLOFND_E_FORMAT, "%.300s: .npy element type '%.*s': at most %d letters",
                c->name, (int)n, s, (int)LETTERS_MAX);
        *c->texts = (text_type){s[1], letters};
        out->type = GF_NPY_U1;
        out->swapped = s[0] == '>';
        return GLOFND_OK;
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

/* (), (3,), (3, 4) or (3, 4,); a bare (3) is a number in Python and refused as NumPy does. */
static glofnd_status parse_shape(cursor *c, gf_npy *out) {
    int comma = 1;
    out->rank = 0;
    TRY(expect(c, '(', "before shape"));
    while (!take_char(c, ')')) {
        FAIL_IF(c->err, !comma, GLOFND_E_FORMAT, "%.300s: .npy header: ',' expected between the extents of shape", c->name);
        FAIL_IF(c->err, out->rank == GF_NPY_MAX_RANK, GLOFND_E_FORMAT, "%.300s: .npy shape has more than %d axes", c->name,
                GF_NPY_MAX_RANK);
        /* A decimal number, optionally with the L of Python 2. */
        int64_t *extent_out = &out->shape[out->rank++];
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
        *extent_out = x;
        comma = take_char(c, ',');
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

/* Fixed part: `bytes` holds the first `size` bytes of the file (up to PREFIX_BYTES are read). Gives start and length of the text
 * header. */
static glofnd_status parse_prefix(gf_error *err, const char *name, const unsigned char *bytes, size_t size, size_t *start,
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
    FAIL_IF(err, *length > HEADER_MAX, GLOFND_E_FORMAT, "%.300s: .npy header of %zu bytes; expected at most %d", name, *length,
            HEADER_MAX);
    return GLOFND_OK;
}

/* Text header: fills type, rank, shape, count, swapped and fortran of *out, and leaves data alone. */
static glofnd_status parse_header_text(gf_error *err, const char *name, const char *text, size_t length, text_type *texts,
                                       gf_npy *out) {
    cursor c = {text, text + length, name, err, texts};
    int seen = 0, comma = 1;
    TRY(expect(&c, '{', "at the start"));
    while (!take_char(&c, '}')) {
        FAIL_IF(err, !comma, GLOFND_E_FORMAT, "%.300s: .npy header: ',' expected between the keys", name);
        TRY(parse_entry(&c, out, &seen));
        comma = take_char(&c, ',');
    }
    skip_blanks(&c);
    FAIL_IF(err, c.at != c.end, GLOFND_E_FORMAT, "%.300s: .npy header: text after the closing brace", name);
    FAIL_IF(err, seen != KEY_ALL, GLOFND_E_FORMAT, "%.300s: .npy header: key '%s' is missing", name,
            !(seen & KEY_DESCR)   ? "descr"
            : !(seen & KEY_ORDER) ? "fortran_order"
                                  : "shape");
    return set_count(err, name, out);
}

/* ----- arrays in big endian or in Fortran order become what all others are ----- */

void gf_npy_swap(void *data, int64_t count, size_t bytes) {
    unsigned char *p = data;
    for (int64_t i = 0; i < count; i++, p += bytes) {
        for (size_t k = 0; k < bytes / 2; k++) {
            const unsigned char other = p[bytes - 1 - k];
            p[bytes - 1 - k] = p[k];
            p[k] = other;
        }
    }
}

/* Puts data that was read as it lies in the file in C order and little endian. */
static glofnd_status normalize(gf_error *err, const char *name, gf_npy *a) {
    const size_t bytes = gf_npy_type_bytes(a->type);
    if (a->swapped) gf_npy_swap(a->data, a->count, bytes);
    if (a->fortran && a->rank > 1 && a->count > 0) {
        unsigned char *rows = malloc((size_t)a->count * bytes);
        FAIL_IF(err, !rows, GLOFND_E_MEMORY, "%.300s: no memory for %lld elements", name, (long long)a->count);
        /* The first index varies fastest in `from`, the last one in `to`. */
        unsigned char *to = rows;
        const unsigned char *from = a->data;
        int64_t index[GF_NPY_MAX_RANK] = {0}, stride[GF_NPY_MAX_RANK] = {0}, at = 0, step = 1;
        for (int k = 0; k < a->rank; k++) stride[k] = step, step *= a->shape[k];
        for (int64_t i = 0; i < a->count; i++, to += bytes) {
            memcpy(to, from + (size_t)at * bytes, bytes);
            for (int k = a->rank - 1; k >= 0; k--) {
                at += stride[k];
                if (++index[k] < a->shape[k]) break;
                at -= stride[k] * a->shape[k];
                index[k] = 0;
            }
        }
        free(a->data);
        a->data = rows;
    }
    a->swapped = a->fortran = 0;
    return GLOFND_OK;
}

/* ----- reading ----- */

/* `have` data bytes must be exactly what type and shape say. */
static glofnd_status check_size(gf_error *err, const char *name, uint64_t have, const gf_npy *a) {
    const uint64_t need = (uint64_t)a->count * gf_npy_type_bytes(a->type);
    FAIL_IF(err, need > have, GLOFND_E_FORMAT, "%.300s: cut: the header promises %llu bytes of data, the file has %llu", name,
            (unsigned long long)need, (unsigned long long)have);
    FAIL_IF(err, need < have, GLOFND_E_FORMAT, "%.300s: %llu bytes after the data; the header promises %llu", name,
            (unsigned long long)(have - need), (unsigned long long)need);
    FAIL_IF(err, need > SIZE_MAX, GLOFND_E_MEMORY, "%.300s: too large for this machine", name);
    return GLOFND_OK;
}

/* Only after that is memory taken. */
static glofnd_status allocate_data(gf_error *err, const char *name, uint64_t have, gf_npy *a) {
    TRY(check_size(err, name, have, a));
    const size_t need = (size_t)have;
    a->data = malloc(need ? need : 1);
    FAIL_IF(err, !a->data, GLOFND_E_MEMORY, "%.300s: no memory for %zu bytes", name, need);
    return GLOFND_OK;
}

glofnd_status gf_npy_decode(gf_error *err, const char *name, const void *bytes, size_t size, gf_npy *out) {
    const unsigned char *raw = bytes;
    size_t start = 0, length = 0;
    gf_npy a = {0};
    TRY(parse_prefix(err, name, raw, size, &start, &length));
    FAIL_IF(err, size - start < length, GLOFND_E_FORMAT, "%.300s: cut within the .npy header", name);
    TRY(parse_header_text(err, name, (const char *)raw + start, length, NULL, &a));
    TRY(allocate_data(err, name, size - start - length, &a));
    memcpy(a.data, raw + start + length, size - start - length);
    const glofnd_status status = normalize(err, name, &a);
    if (status == GLOFND_OK) *out = a;
    else gf_npy_free(&a);
    return status;
}

/* UTF-8 of a letter; returns its bytes. What is no letter becomes U+FFFD. */
static size_t put_letter(uint32_t x, char *to) {
    if (x > 0x10ffff || (x >= 0xd800 && x < 0xe000)) x = 0xfffd;
    if (x < 0x80) return to[0] = (char)x, 1;
    if (x < 0x800) return to[0] = (char)(0xc0 | x >> 6), to[1] = (char)(0x80 | (x & 0x3f)), 2;
    const size_t n = x < 0x10000 ? 3 : 4;
    to[0] = (char)(n == 3 ? 0xe0 | x >> 12 : 0xf0 | x >> 18);
    for (size_t k = 1; k < n; k++) to[k] = (char)(0x80 | (x >> 6 * (n - 1 - k) & 0x3f));
    return n;
}

static glofnd_status add_texts(gf_error *err, const char *path, const gf_npy *a, text_type type, const uint8_t *data,
                               gf_string_list *out) {
    const int64_t width = type.letters * (type.kind == 'U' ? 4 : 1);
    char *text = malloc((size_t)type.letters * 4 + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "%.300s: no memory for a text", path);
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < a->count && status == GLOFND_OK; i++) {
        const uint8_t *p = data + i * width;
        size_t used = 0, end = 0;
        for (int64_t k = 0; k < type.letters; k++) {
            const uint8_t *b = p + 4 * k;
            const uint32_t x = type.kind == 'S' ? p[k]
                               : a->swapped     ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
                                                : (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
            if (type.kind == 'S') text[used++] = (char)x;
            else used += put_letter(x, text + used);
            if (x) end = used;
        }
        if (memchr(text, 0, end)) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: text %lld has a zero byte", path, (long long)i);
        else status = gf_string_list_add(err, out, text, end);
    }
    free(text);
    return status;
}

glofnd_status gf_npy_read_texts(gf_error *err, const char *path, gf_string_list *out, int *texts) {
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0, start = 0, length = 0;
    gf_npy a = {0};
    text_type type = {0};
    *texts = 0;
    glofnd_status status = gf_file_read(err, path, GF_LIST_BYTES_MAX, &bytes, &capacity, &size);
    if (status == GLOFND_OK) status = parse_prefix(err, path, bytes, size, &start, &length);
    if (status == GLOFND_OK && size - start < length)
        status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: cut within the .npy header", path);
    if (status == GLOFND_OK) status = parse_header_text(err, path, (const char *)bytes + start, length, &type, &a);
    *texts = status == GLOFND_OK && type.kind;
    if (*texts) {
        const uint64_t have = size - start - length, width = (uint64_t)type.letters * (type.kind == 'U' ? 4 : 1);
        if (a.rank != 1) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: texts with %d axes; expected one", path, a.rank);
        else if (width ? have % width || have / width != (uint64_t)a.count : have || a.count > INT32_MAX)
            status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: %llu bytes of data for %lld texts of %lld letters", path,
                             (unsigned long long)have, (long long)a.count, (long long)type.letters);
        else status = add_texts(err, path, &a, type, bytes + start + length, out);
    }
    free(bytes);
    return status;
}

/* Exactly n bytes; a file that shrinks while it is read is an error like any other. */
static glofnd_status read_exactly(gf_error *err, FILE *f, const char *path, void *to, size_t n) {
    FAIL_IF(err, fread(to, 1, n, f) != n, GLOFND_E_IO, "%.300s: cannot be read: %s", path,
            ferror(f) ? strerror(errno) : "it ends early");
    return GLOFND_OK;
}

static glofnd_status read_stream(gf_error *err, FILE *f, int fd, const char *path, int header_only, gf_npy *a) {
    struct stat st;
    uint64_t data_bytes = 0;
    FAIL_IF(err, fstat(fd, &st) != 0, GLOFND_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
    FAIL_IF(err, !S_ISREG(st.st_mode), GLOFND_E_IO, "%.300s: not a regular file", path);
    const uint64_t size = (uint64_t)st.st_size;
    unsigned char prefix[PREFIX_BYTES];
    const size_t n = size < sizeof prefix ? (size_t)size : sizeof prefix;
    size_t start = 0, length = 0;
    TRY(read_exactly(err, f, path, prefix, n));
    TRY(parse_prefix(err, path, prefix, n, &start, &length));
    FAIL_IF(err, size - start < length, GLOFND_E_FORMAT, "%.300s: cut within the .npy header", path);
    FAIL_IF(err, fseek(f, (long)start, SEEK_SET) != 0, GLOFND_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
    char *text = malloc(length ? length : 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "%.300s: no memory for the .npy header", path);
    glofnd_status status = read_exactly(err, f, path, text, length);
    if (status == GLOFND_OK) status = parse_header_text(err, path, text, length, NULL, a);
    free(text);
    a->at = (uint64_t)start + length;
    data_bytes = size - start - length;
    TRY(status);
    if (header_only) return check_size(err, path, data_bytes, a);
    TRY(allocate_data(err, path, data_bytes, a));
    TRY(read_exactly(err, f, path, a->data, (size_t)data_bytes));
    return normalize(err, path, a);
}

static glofnd_status read_file(gf_error *err, const char *path, int header_only, gf_npy *out) {
    gf_npy a = {0};
    FAIL_IF(err, !path || !out, GLOFND_E_ARGUMENT, "gf_npy_read: path and output must not be NULL");
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); /* a FIFO must not hang before the type is known */
    FILE *f = fd >= 0 ? gf_stream_of(fd, "r") : NULL;
    if (!f) {
        const int why = errno;
        if (fd >= 0) close(fd);
        GF_FAIL(err, GLOFND_E_IO, "%.300s: cannot be opened: %s", path, strerror(why));
    }
    const glofnd_status status = read_stream(err, f, fd, path, header_only, &a);
    fclose(f);
    if (status == GLOFND_OK) *out = a;
    else gf_npy_free(&a);
    return status;
}

glofnd_status gf_npy_read(gf_error *err, const char *path, gf_npy *out) { return read_file(err, path, 0, out); }

glofnd_status gf_npy_read_header(gf_error *err, const char *path, gf_npy *out) { return read_file(err, path, 1, out); }

/* ----- writing ----- */

/* Version 1 header in `text` [256], padded so that data starts at a multiple of 64; returns its length. The longest is rank 8
 * with 19-digit extents: 56 + 8 * 21 bytes. */
static size_t format_header(char text[256], const gf_npy *a) {
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    size_t n = 10 + (size_t)snprintf(text + 10, 246, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[a->type].descr);
    for (int k = 0; k < a->rank; k++)
        n += (size_t)snprintf(text + n, 256 - n, "%lld%s", (long long)a->shape[k],
                              k + 1 < a->rank ? ", "
                              : a->rank == 1  ? ","
                                              : "");
    n += (size_t)snprintf(text + n, 256 - n, "), }");
    while ((n + 1) % 64) text[n++] = ' ';
    text[n++] = '\n';
    text[8] = (char)((n - 10) & 255);
    text[9] = (char)((n - 10) >> 8);
    return n;
}

static glofnd_status check_array(gf_error *err, const char *path, gf_npy *a) {
    FAIL_IF(err, a->rank < 0 || a->rank > GF_NPY_MAX_RANK, GLOFND_E_ARGUMENT, "%.300s: rank %d; expected 0 to %d", path, a->rank,
            GF_NPY_MAX_RANK);
    FAIL_IF(err, (unsigned)a->type >= sizeof types / sizeof types[0] || a->type == GF_NPY_F2, GLOFND_E_ARGUMENT,
            "%.300s: elements must be float32, float64, int64, int32 or uint8 to be written", path);
    FAIL_IF(err, set_count(err, path, a) != GLOFND_OK, GLOFND_E_ARGUMENT, "%.300s: shape is negative or too large", path);
    return GLOFND_OK;
}

glofnd_status gf_npy_write(gf_error *err, const char *path, const gf_npy *array) {
    char header[256];
    gf_writer w;
    FAIL_IF(err, !path || !array, GLOFND_E_ARGUMENT, "gf_npy_write: path and array must not be NULL");
    gf_npy a = *array;
    TRY(check_array(err, path, &a));
    FAIL_IF(err, !a.data && a.count > 0, GLOFND_E_ARGUMENT, "%.300s: an array of %lld elements without data", path,
            (long long)a.count);
    TRY(gf_writer_open(err, &w, path));
    gf_put(&w, header, format_header(header, &a));
    gf_put(&w, a.data, (size_t)a.count * gf_npy_type_bytes(a.type));
    return gf_writer_finish(&w);
}

glofnd_status gf_npy_write_rows(gf_error *err, const char *path, const gf_npy *array, gf_npy_fill *fill, const void *arg) {
    enum { BYTES = 1 << 22 };
    char header[256];
    gf_writer w;
    gf_npy a = *array;
    TRY(check_array(err, path, &a));
    FAIL_IF(err, a.rank < 1, GLOFND_E_ARGUMENT, "%.300s: a number has no rows", path);
    const size_t row = a.shape[0] ? (size_t)(a.count / a.shape[0]) * gf_npy_type_bytes(a.type) : 0;
    const int64_t each = row && row < BYTES ? (int64_t)(BYTES / row) : 1;
    void *some = malloc((size_t)each * row + 1);
    FAIL_IF(err, !some, GLOFND_E_MEMORY, "no memory to write '%.300s'", path);
    glofnd_status status = gf_writer_open(err, &w, path);
    if (status == GLOFND_OK) {
        gf_put(&w, header, format_header(header, &a));
        for (int64_t first = 0; row && first < a.shape[0] && w.status == GLOFND_OK; first += each) {
            const int64_t rows = a.shape[0] - first < each ? a.shape[0] - first : each;
            fill(arg, first, rows, some);
            gf_put(&w, some, (size_t)rows * row);
        }
        status = gf_writer_finish(&w);
    }
    free(some);
    return status;
}

/* ----- a value for every row, from an array or a text ----- */

typedef struct reading {
    const gf_row_values *v;
    int64_t rows;
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    reading *r = user;
    char *end = line + strlen(line);
    (void)number;
    while (end > line && strchr(" \t\r\n", end[-1])) *--end = 0;
    return r->v->line(err, r->v->user, line + strspn(line, " \t"), r->rows++);
}

glofnd_status gf_row_values_read(gf_error *err, const gf_row_values *v, int64_t *rows) {
    const size_t n = strlen(v->path);
    reading r = {v, 0};
    if (n > 4 && strcasecmp(v->path + n - 4, ".npy") == 0) {
        gf_npy a = {0};
        TRY(gf_npy_read(err, v->path, &a));
        const glofnd_status status = v->array(err, v->user, &a);
        *rows = a.count;
        gf_npy_free(&a);
        return status;
    }
    TRY(gf_each_line(err, v->path, take_line, &r));
    *rows = r.rows;
    return GLOFND_OK;
}
