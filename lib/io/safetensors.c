/* safetensors.c - see safetensors.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "io/json.h"
#include "util/dtype.h"
#include "util/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they lie in the file: little endian");

#define METADATA "__metadata__"
#define NO_CHECKSUM "0000000000000000" /* in the place of the checksum while it is worked out */
#define MAX_DEPTH 3                    /* { tensor: { shape: [ */

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
#define GF_ST_X(name, bytes) {#name, bytes},
    GF_ST_TYPE_LIST(GF_ST_X)
#undef GF_ST_X
};
enum { TYPES = sizeof types / sizeof types[0] };

size_t gf_st_type_bytes(gf_st_type type) { return types[type].bytes; }

const char *gf_st_type_name(gf_st_type type) { return types[type].name; }

/* ----- what both directions need ----- */

/* A name of the file as messages may show it: short, and without what could steer a terminal. */
typedef struct shown {
    char text[100];
} shown;

static shown shown_name(const char *name) {
    shown s;
    size_t n = 0;
    if (!name) name = "";
    for (; name[n] && n + 1 < sizeof s.text; n++) s.text[n] = name[n] >= ' ' && name[n] < 127 ? name[n] : '?';
    s.text[n] = 0;
    return s;
}

/* count from shape; 0 if an extent is negative or the bytes do not fit int64_t. Extents after a zero must fit as well. */
static int set_count(gf_st_tensor *t) {
    const int64_t width = (int64_t)gf_st_type_bytes(t->type);
    int64_t bytes = width;
    int empty = 0;
    for (int k = 0; k < t->rank; k++) {
        const int64_t extent = t->shape[k];
        if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))) return 0;
        empty |= extent == 0;
    }
    t->count = empty ? 0 : bytes / width;
    return 1;
}

static uint64_t tensor_bytes(const gf_st_tensor *t) { return (uint64_t)t->count * gf_st_type_bytes(t->type); }

/* ----- the header, read ----- */

static int by_place(const void *x, const void *y) {
    const gf_st_tensor *a = x, *b = y;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if ((a->count > 0) != (b->count > 0)) return a->count > 0 ? 1 : -1; /* empty ones lie before what starts there */
    return strcmp(a->name, b->name);
}

static glofnd_status parse_tensors(gf_error *err, gf_st_file *f, const gf_json *j, uint64_t data_bytes) {
    f->tensors = calloc((size_t)j->node[0].count + 1, sizeof *f->tensors);
    FAIL_IF(err, !f->tensors, GLOFND_E_MEMORY, "%.300s: no memory for its %lld tensors", f->path, (long long)j->node[0].count);
    for (int64_t k = j->node[0].first; k >= 0; k = j->node[k].next) {
        const char *name = gf_json_text(j, j->node[k].key);
        if (strcmp(name, METADATA) == 0) {
            FAIL_IF(err, j->node[k].kind != GF_JSON_OBJECT, GLOFND_E_FORMAT, "%.300s: " METADATA " is not an object", f->path);
            f->texts = calloc((size_t)j->node[k].count + 1, sizeof *f->texts);
            FAIL_IF(err, !f->texts, GLOFND_E_MEMORY, "%.300s: no memory for its " METADATA, f->path);
            for (int64_t l = j->node[k].first; l >= 0; l = j->node[l].next) {
                const char *key = gf_json_text(j, j->node[l].key);
                FAIL_IF(err, j->node[l].kind != GF_JSON_TEXT, GLOFND_E_FORMAT, "%.200s: '%s' in " METADATA " is not a text",
                        f->path, shown_name(key).text);
                f->texts[f->text_count++] = (gf_st_text){.key = key, .text = gf_json_text(j, j->node[l].text)};
            }
            continue;
        }
        const char *path = f->path;
        gf_st_tensor *t = &f->tensors[f->count];
        t->name = name;
        FAIL_IF(err, j->node[k].kind != GF_JSON_OBJECT || j->node[k].count != 3, GLOFND_E_FORMAT,
                "%.200s: tensor '%s' is not described by dtype, shape and data_offsets", path, shown_name(t->name).text);
        const int64_t dtype = gf_json_find(j, k, "dtype");
        FAIL_IF(err, dtype < 0 || j->node[dtype].kind != GF_JSON_TEXT, GLOFND_E_FORMAT, "%.200s: tensor '%s' has no dtype", path,
                shown_name(t->name).text);
        const char *type = gf_json_text(j, j->node[dtype].text);
        int known = 0;
        while (known < TYPES && strcmp(type, types[known].name) != 0) known++;
        FAIL_IF(err, known == TYPES, GLOFND_E_FORMAT,
                "%.200s: tensor '%s' has the dtype '%s'; known are F32 F16 BF16 F64 I64 I32 I8 U8 BOOL", path,
                shown_name(t->name).text, shown_name(type).text);
        t->type = (gf_st_type)known;
        const int64_t shape = gf_json_find(j, k, "shape");
        FAIL_IF(err, shape < 0 || j->node[shape].kind != GF_JSON_ARRAY, GLOFND_E_FORMAT, "%.200s: tensor '%s' has no shape", path,
                shown_name(t->name).text);
        FAIL_IF(err, j->node[shape].count > GF_ST_MAX_RANK, GLOFND_E_FORMAT,
                "%.200s: tensor '%s' has %lld axes; at most %d are read", path, shown_name(t->name).text,
                (long long)j->node[shape].count, GF_ST_MAX_RANK);
        t->rank = 0;
        for (int64_t i = j->node[shape].first; i >= 0; i = j->node[i].next)
            t->shape[t->rank++] = j->node[i].kind == GF_JSON_INTEGER ? j->node[i].integer : -1;
        FAIL_IF(err, !set_count(t), GLOFND_E_FORMAT, "%.200s: tensor '%s' has a shape that is too large, or not of integers",
                path, shown_name(t->name).text);
        /* t->at becomes the start within the data; the end must be where type and shape put it, and inside the data. */
        const int64_t range = gf_json_find(j, k, "data_offsets");
        const int two = range >= 0 && j->node[range].kind == GF_JSON_ARRAY && j->node[range].count == 2;
        const int64_t first = two ? j->node[range].first : -1, last = two ? j->node[first].next : -1;
        FAIL_IF(err, !two || j->node[first].kind != GF_JSON_INTEGER || j->node[last].kind != GF_JSON_INTEGER, GLOFND_E_FORMAT,
                "%.200s: tensor '%s' has no data_offsets [begin, end]", path, shown_name(t->name).text);
        const int64_t begin = j->node[first].integer, end = j->node[last].integer;
        FAIL_IF(err, begin < 0 || end < begin || (uint64_t)end > data_bytes, GLOFND_E_FORMAT,
                "%.200s: tensor '%s' lies at bytes %lld to %lld of %llu", path, shown_name(t->name).text, (long long)begin,
                (long long)end, (unsigned long long)data_bytes);
        FAIL_IF(err, (uint64_t)(end - begin) != tensor_bytes(t), GLOFND_E_FORMAT,
                "%.200s: tensor '%s' has %lld bytes; its type and shape need %llu", path, shown_name(t->name).text,
                (long long)(end - begin), (unsigned long long)tensor_bytes(t));
        t->at = (uint64_t)begin;
        f->count++;
    }
    return GLOFND_OK;
}

/* text [length + 1] */
static glofnd_status parse_header(gf_error *err, gf_st_file *f, const char *text, size_t length, uint64_t data_bytes) {
    gf_json j = {0};
    gf_error why = {""};
    FAIL_IF(err, length < 2 || text[0] != '{', GLOFND_E_FORMAT, "%.300s: not a safetensors file: no header in braces", f->path);
    FAIL_IF(err, memchr(text, 0, length), GLOFND_E_FORMAT, "%.300s: zero bytes in the header", f->path);
    const glofnd_status read = gf_json_read(&why, "header", text, length, MAX_DEPTH, 0, &j);
    FAIL_IF(err, read != GLOFND_OK, read, "%.300s: %.200s", f->path, why.text);
    const glofnd_status status = parse_tensors(err, f, &j, data_bytes);
    f->names = j.text; /* names and texts lie there */
    j.text = NULL;
    gf_json_free(&j);
    if (status != GLOFND_OK) return status;
    /* Side by side from 0 to the end of the data; then places become those in the file. */
    const uint64_t data_at = 8 + length;
    uint64_t end = 0;
    if (f->count > 1) qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_place);
    for (int64_t i = 0; i < f->count; i++) {
        gf_st_tensor *t = &f->tensors[i];
        FAIL_IF(err, t->at != end, GLOFND_E_FORMAT, "%.200s: %s before tensor '%s': byte %llu instead of %llu", f->path,
                t->at < end ? "an overlap" : "a hole", shown_name(t->name).text, (unsigned long long)t->at,
                (unsigned long long)end);
        end += tensor_bytes(t);
        t->at += data_at;
    }
    FAIL_IF(err, end != data_bytes, GLOFND_E_FORMAT, "%.300s: %llu bytes after the last tensor", f->path,
            (unsigned long long)(data_bytes - end));
    return GLOFND_OK;
}

/* ----- the file, read ----- */

static glofnd_status read_at(gf_error *err, const gf_st_file *f, uint64_t at, void *to, size_t n) {
    unsigned char *p = to;
    while (n > 0) {
        const ssize_t got = pread(f->fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        FAIL_IF(err, got < 0, GLOFND_E_IO, "%.300s: cannot be read: %s", f->path, strerror(errno));
        FAIL_IF(err, got == 0, GLOFND_E_IO, "%.300s: cannot be read: it was cut meanwhile", f->path);
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return GLOFND_OK;
}

static glofnd_status open_and_parse(gf_error *err, gf_st_file *f) {
    unsigned char prefix[8];
    uint64_t size = 0;
    struct stat st;
    f->fd = gf_open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); /* nonblocking: a pipe without writer must not hang */
    FAIL_IF(err, f->fd < 0, GLOFND_E_IO, "%.300s: cannot be opened: %s", f->path, strerror(errno));
    FAIL_IF(err, fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode), GLOFND_E_IO, "%.300s: not a regular file", f->path);
    size = (uint64_t)st.st_size;
    FAIL_IF(err, size < sizeof prefix, GLOFND_E_FORMAT, "%.300s: not a safetensors file: %llu bytes only", f->path,
            (unsigned long long)size);
    TRY(read_at(err, f, 0, prefix, sizeof prefix));
    const uint64_t length = gf_le64(prefix);
    const int impossible = length > GF_ST_MAX_HEADER || length > size - 8;
    /* Common other formats: torch.save writes zip archives, and formerly pickles. */
    const char *is = !impossible                                             ? NULL
                     : memcmp(prefix, "PK\3\4", 4) == 0                      ? "a zip archive, as torch.save writes it"
                     : prefix[0] == 0x80 && prefix[1] >= 2 && prefix[1] <= 5 ? "a pickle, as torch.save wrote it"
                                                                             : NULL;
    FAIL_IF(err, is, GLOFND_E_FORMAT,
            "%.200s: not a safetensors file but %s; convert it: python -m glofnd convert %.200s x.safetensors", f->path, is,
            f->path);
    FAIL_IF(err, length > GF_ST_MAX_HEADER, GLOFND_E_FORMAT, "%.300s: not a safetensors file: a header of %llu bytes", f->path,
            (unsigned long long)length);
    FAIL_IF(err, impossible, GLOFND_E_FORMAT, "%.300s: cut: a header of %llu bytes in a file of %llu", f->path,
            (unsigned long long)length, (unsigned long long)size);
    char *text = malloc((size_t)length + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "%.300s: no memory for its header", f->path);
    text[length] = 0;
    glofnd_status status = read_at(err, f, sizeof prefix, text, (size_t)length);
    if (status == GLOFND_OK) status = parse_header(err, f, text, (size_t)length, size - sizeof prefix - length);
    free(text);
    return status;
}

glofnd_status gf_st_open(gf_error *err, const char *path, gf_st_file *out) {
    gf_st_file f = {.fd = -1, .path = strdup(path)};
    FAIL_IF(err, !f.path, GLOFND_E_MEMORY, "%.300s: no memory", path);
    const glofnd_status status = open_and_parse(err, &f);
    if (status == GLOFND_OK) *out = f;
    else gf_st_close(&f);
    return status;
}

void gf_st_close(gf_st_file *f) {
    if (!f || !f->path) return;
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f->tensors);
    free(f->texts);
    free(f->names);
    *f = (gf_st_file){.fd = -1};
}

const gf_st_tensor *gf_st_find(const gf_st_file *f, const char *name) {
    for (int64_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

const char *gf_st_find_text(const gf_st_file *f, const char *key) {
    for (int64_t i = 0; i < f->text_count; i++)
        if (strcmp(f->texts[i].key, key) == 0) return f->texts[i].text;
    return NULL;
}

/* ----- elements, read ----- */

glofnd_status gf_st_read(gf_error *err, const gf_st_file *f, const gf_st_tensor *t, void *out, size_t bytes) {
    FAIL_IF(err, bytes != tensor_bytes(t), GLOFND_E_ARGUMENT, "%.200s: tensor '%s' has %llu bytes, and %zu are asked for",
            f->path, shown_name(t->name).text, (unsigned long long)tensor_bytes(t), bytes);
    return read_at(err, f, t->at, out, bytes);
}

static void convert_to_f32(float *out, const void *raw, gf_st_type type, size_t n) {
    const uint8_t *bytes = raw;
    switch (type) {
#define EACH(value)                                         \
    for (size_t i = 0; i < n; i++) out[i] = (float)(value); \
    return
    case GF_ST_F32: memcpy(out, raw, n * sizeof *out); return;
    case GF_ST_F16: EACH(gf_f16_to_float(((const uint16_t *)raw)[i]));
    case GF_ST_BF16: EACH(gf_bf16_to_float(((const uint16_t *)raw)[i]));
    case GF_ST_F64: EACH(((const double *)raw)[i]);
    case GF_ST_I64: EACH(((const int64_t *)raw)[i]);
    case GF_ST_I32: EACH(((const int32_t *)raw)[i]);
    case GF_ST_I8: EACH(((const int8_t *)raw)[i]);
    case GF_ST_U8: EACH(bytes[i]);
    case GF_ST_BOOL: EACH(bytes[i] != 0);
#undef EACH
    }
}

glofnd_status gf_st_read_f32(gf_error *err, const gf_st_file *f, const gf_st_tensor *t, float *out, int64_t count) {
    enum { CHUNK = 4096 };
    double chunk[CHUNK]; /* aligned for, and as wide as, the widest type */
    const size_t width = gf_st_type_bytes(t->type);
    FAIL_IF(err, count != t->count, GLOFND_E_ARGUMENT, "%.200s: tensor '%s' has %lld elements, and %lld are asked for", f->path,
            shown_name(t->name).text, (long long)t->count, (long long)count);
    if (t->type == GF_ST_F32) return read_at(err, f, t->at, out, (size_t)count * width);
    for (int64_t done = 0; done < count; done += CHUNK) {
        const size_t n = count - done < CHUNK ? (size_t)(count - done) : CHUNK;
        TRY(read_at(err, f, t->at + (uint64_t)done * width, chunk, n * width));
        convert_to_f32(out + done, chunk, t->type, n);
    }
    return GLOFND_OK;
}

/* ----- the checksum: over all bytes of the file, with zeros in its own place in the header's texts ----- */

static const char mark[] = "\"" GF_ST_CHECKSUM "\":\"";

/* Bytes in words of 8, wherever the pieces end. */
typedef struct sum {
    uint64_t h;
    unsigned char rest[8];
    size_t n;
} sum;

static void sum_add(sum *s, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n > 0 && s->n > 0 && s->n < 8; n--) s->rest[s->n++] = *p++;
    if (s->n == 8) s->h = gf_checksum(s->h, s->rest, 8), s->n = 0;
    const size_t words = s->n ? 0 : n & ~(size_t)7;
    s->h = gf_checksum(s->h, p, words);
    for (p += words, n -= words; n > 0; n--) s->rest[s->n++] = *p++;
}

static uint64_t sum_value(const sum *s) { return gf_checksum(s->h, s->rest, s->n); }

/* Place of the digits; NULL: no such text. */
static char *checksum_place(char *header, size_t length) {
    char *at = memmem(header, length, mark, strlen(mark));
    if (!at) return NULL;
    at += strlen(mark);
    if ((size_t)(header + length - at) <= GF_CHECKSUM_DIGITS) return NULL;
    return strspn(at, "0123456789abcdef") == GF_CHECKSUM_DIGITS && at[GF_CHECKSUM_DIGITS] == '"' ? at : NULL;
}

static glofnd_status compare_checksum(gf_error *err, gf_reader *r, char *header, size_t length, int *has) {
    sum s = {.h = GF_CHECKSUM_START};
    char stored[GF_CHECKSUM_DIGITS + 1] = "", found[GF_CHECKSUM_DIGITS + 1];
    unsigned char prefix[8];
    gf_get(r, header, length);
    TRY(r->status);
    char *at = checksum_place(header, length);
    *has = at != NULL;
    if (!at) return GLOFND_OK;
    memcpy(stored, at, GF_CHECKSUM_DIGITS);
    memcpy(at, NO_CHECKSUM, GF_CHECKSUM_DIGITS);
    gf_le64_put(prefix, length);
    sum_add(&s, prefix, sizeof prefix);
    sum_add(&s, header, length);
    while (r->status == GLOFND_OK && gf_reader_left(r) > 0) { /* the data */
        unsigned char part[1 << 14];
        const size_t n = gf_reader_left(r) < sizeof part ? (size_t)gf_reader_left(r) : sizeof part;
        gf_get(r, part, n);
        sum_add(&s, part, n);
    }
    TRY(r->status);
    snprintf(found, sizeof found, "%016llx", (unsigned long long)sum_value(&s));
    FAIL_IF(err, strcmp(stored, found) != 0, GLOFND_E_FORMAT,
            "%.300s is corrupt: its bytes have the checksum %s, and its header states %s; restore it from a copy", r->path, found,
            stored);
    return GLOFND_OK;
}

glofnd_status gf_st_check(gf_error *err, const gf_st_file *f, int *has) {
    gf_reader r;
    *has = 0;
    if (!gf_st_find_text(f, GF_ST_CHECKSUM)) return GLOFND_OK;
    TRY(gf_reader_open(err, &r, f->path));
    const uint64_t length = gf_get_u64(&r);
    char *header =
        r.status == GLOFND_OK && length <= GF_ST_MAX_HEADER && length <= gf_reader_left(&r) ? malloc(length + 1) : NULL;
    glofnd_status status = header ? GLOFND_OK : gf_fail(err, GLOFND_E_FORMAT, "%.300s was changed while it was read", f->path);
    if (header) header[length] = 0;
    if (status == GLOFND_OK) status = compare_checksum(err, &r, header, (size_t)length, has);
    free(header);
    gf_reader_close(&r);
    return status;
}

/* ----- writing ----- */

static int by_text(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

static int is_utf8(const char *text) {
    size_t n;
    for (; *text; text += n)
        if ((n = gf_utf8_bytes((const unsigned char *)text)) == 0) return 0;
    return 1;
}

/* Names of tensors, or keys of texts, [count], which are sorted: each is UTF-8 and differs from all others. */
static glofnd_status check_names(gf_error *err, const char *path, const char *what, const char **name, int64_t count) {
    qsort(name, (size_t)count, sizeof *name, by_text);
    for (int64_t i = 0; i < count; i++) {
        FAIL_IF(err, i > 0 && strcmp(name[i - 1], name[i]) == 0, GLOFND_E_ARGUMENT, "%.200s: two %s '%s'", path, what,
                shown_name(name[i]).text);
        FAIL_IF(err, !is_utf8(name[i]), GLOFND_E_ARGUMENT, "%.200s: the name '%s' is not UTF-8", path, shown_name(name[i]).text);
    }
    return GLOFND_OK;
}

/* name: space for as many as there are tensors or texts. */
static glofnd_status check_arguments(gf_error *err, const char *path, const gf_st_tensor *tensors, int64_t count,
                                     const gf_st_text *texts, int64_t text_count, const char **name) {
    for (int64_t i = 0; i < text_count; i++) {
        name[i] = texts[i].key;
        FAIL_IF(err, !texts[i].text || !is_utf8(texts[i].text), GLOFND_E_ARGUMENT, "%.200s: the text '%s' is not UTF-8", path,
                shown_name(texts[i].key).text);
    }
    TRY(check_names(err, path, "texts", name, text_count));
    for (int64_t i = 0; i < count; i++) {
        gf_st_tensor t = tensors[i];
        FAIL_IF(err, !t.name || strcmp(t.name, METADATA) == 0, GLOFND_E_ARGUMENT,
                "%.200s: a tensor without name, or called " METADATA, path);
        FAIL_IF(err, (unsigned)t.type >= TYPES || t.rank < 0 || t.rank > GF_ST_MAX_RANK || !set_count(&t), GLOFND_E_ARGUMENT,
                "%.200s: tensor '%s': its type, rank or shape cannot be written", path, shown_name(t.name).text);
        FAIL_IF(err, !t.data && t.count > 0, GLOFND_E_ARGUMENT, "%.200s: tensor '%s' of %lld elements has no data", path,
                shown_name(t.name).text, (long long)t.count);
        name[i] = t.name;
    }
    return check_names(err, path, "called", name, count);
}

static glofnd_status make_header(gf_error *err, const char *path, const gf_st_tensor *tensors, int64_t count,
                                 const gf_st_text *texts, int64_t text_count, gf_text *out) {
    int64_t begin = 0;
    gf_text_add(out, "{");
    for (int64_t i = 0; i < text_count; i++) {
        gf_text_add(out, i ? "," : "\"" METADATA "\":{");
        gf_json_quote(out, texts[i].key);
        gf_text_add(out, ":");
        gf_json_quote(out, strcmp(texts[i].key, GF_ST_CHECKSUM) == 0 ? NO_CHECKSUM : texts[i].text);
    }
    if (text_count > 0) gf_text_add(out, count > 0 ? "}," : "}");
    for (int64_t i = 0; i < count; i++) {
        gf_st_tensor t = tensors[i];
        int64_t end;
        set_count(&t);
        FAIL_IF(err, __builtin_add_overflow(begin, (int64_t)tensor_bytes(&t), &end), GLOFND_E_ARGUMENT, "%.300s: too large",
                path);
        if (i > 0) gf_text_add(out, ",");
        gf_json_quote(out, t.name);
        gf_text_add(out, ":{\"dtype\":\"%s\",\"shape\":[", gf_st_type_name(t.type));
        for (int k = 0; k < t.rank; k++) gf_text_add(out, "%s%lld", k ? "," : "", (long long)t.shape[k]);
        gf_text_add(out, "],\"data_offsets\":[%lld,%lld]}", (long long)begin, (long long)end);
        begin = end;
    }
    gf_text_add(out, "}");
    FAIL_IF(err, out->failed, GLOFND_E_MEMORY, "%.300s: no memory for its header", path);
    return GLOFND_OK;
}

static glofnd_status write_file(gf_error *err, const char *path, char *header, const gf_st_tensor *tensors, int64_t count) {
    const size_t length = strlen(header), padding = (8 - length % 8) % 8;
    gf_writer w;
    FAIL_IF(err, length + padding > GF_ST_MAX_HEADER, GLOFND_E_ARGUMENT, "%.300s: too many tensors for one file", path);
    /* Puts the checksum in the place of NO_CHECKSUM in a header, which `padding` blanks follow in the file, if it has one. */
    char *at = checksum_place(header, length), digits[GF_CHECKSUM_DIGITS + 1];
    unsigned char prefix[8];
    sum s = {.h = GF_CHECKSUM_START};
    if (at) {
        gf_le64_put(prefix, length + padding);
        sum_add(&s, prefix, sizeof prefix);
        sum_add(&s, header, length);
        sum_add(&s, "       ", padding);
        for (int64_t i = 0; i < count; i++) {
            gf_st_tensor t = tensors[i];
            set_count(&t);
            sum_add(&s, t.data, (size_t)tensor_bytes(&t));
        }
        snprintf(digits, sizeof digits, "%016llx", (unsigned long long)sum_value(&s));
        memcpy(at, digits, GF_CHECKSUM_DIGITS);
    }
    TRY(gf_writer_open(err, &w, path));
    gf_put_u64(&w, length + padding);
    gf_put(&w, header, length);
    gf_put(&w, "        ", padding);
    for (int64_t i = 0; i < count; i++) {
        gf_st_tensor t = tensors[i];
        set_count(&t);
        gf_put(&w, t.data, (size_t)tensor_bytes(&t));
    }
    return gf_writer_finish(&w);
}

glofnd_status gf_st_write(gf_error *err, const char *path, const gf_st_tensor *tensors, int64_t count, const gf_st_text *texts,
                          int64_t text_count) {
    gf_text header = {0};
    const char **name = malloc((size_t)(count > text_count ? count : text_count) * sizeof *name + 1);
    FAIL_IF(err, !name, GLOFND_E_MEMORY, "%.300s: no memory for its header", path);
    glofnd_status status = check_arguments(err, path, tensors, count, texts, text_count, name);
    free(name);
    if (status == GLOFND_OK) status = make_header(err, path, tensors, count, texts, text_count, &header);
    if (status == GLOFND_OK) status = write_file(err, path, header.at, tensors, count);
    gf_text_free(&header);
    return status;
}
