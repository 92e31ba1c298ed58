/* mat5.c - see mat5.h.
 *
 * A file is a header of 128 bytes and elements: a tag (kind, bytes) and data, padded to 8 bytes; up to 4 bytes of data may lie
 * inside the tag. A variable is an element of kind "matrix", whose data is a list of elements again, or a packed one, whose data
 * is a zlib stream of one such element.
 */
#include "data/official/mat5.h"

#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_ZLIB
#include <zlib.h>
#endif

#include "io/file.h"
#include "util/array.h"

#define HEADER 128
#define PACKED_RATIO_MAX 1100 /* zlib's best is about 1030 */

/* Kinds of elements. */
enum { MI_INT8 = 1, MI_UINT8, MI_INT16, MI_UINT16, MI_INT32, MI_UINT32, MI_SINGLE, MI_DOUBLE = 9 };
enum { MI_INT64 = 12, MI_UINT64, MI_MATRIX, MI_COMPRESSED, MI_UTF8, MI_UTF16 };
enum { MX_CELL = 1, MX_STRUCT = 2, MX_CHAR = 4, MX_DOUBLE = 6, MX_UINT64 = 15 }; /* classes of arrays; 6 to 15 are numbers */

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

typedef struct element {
    uint32_t kind;
    bytes data;
} element;

static uint32_t u32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static size_t left(const bytes *b) { return (size_t)(b->end - b->at); }

/* The element at the front, which is taken off. */
static glofnd_status next_element(gf_error *err, const char *name, bytes *b, element *out) {
    *out = (element){0};
    FAIL_IF(err, left(b) < 8, GLOFND_E_FORMAT, "'%.300s' is corrupt: it ends inside of an element", name);
    const uint32_t first = u32(b->at), small = first >> 16;
    const size_t size = small ? small : u32(b->at + 4), room = small ? 4 : left(b) - 8;
    out->kind = small ? first & 0xffff : first;
    FAIL_IF(err, size > room, GLOFND_E_FORMAT, "'%.300s' is corrupt: an element of %llu bytes, where %llu are left", name,
            (unsigned long long)size, (unsigned long long)room);
    const uint8_t *data = b->at + (small ? 4 : 8);
    out->data = (bytes){data, data + size};
    const size_t padded = out->kind == MI_COMPRESSED ? size : (size + 7) / 8 * 8;
    b->at = small ? b->at + 8 : padded > room ? b->end : data + padded;
    return GLOFND_OK;
}

static int bytes_of(uint32_t kind) {
    static const uint8_t bytes_by_kind[] = {
        [MI_INT8] = 1,  [MI_UINT8] = 1,  [MI_UTF8] = 1,   [MI_INT16] = 2,  [MI_UINT16] = 2, [MI_UTF16] = 2,
        [MI_INT32] = 4, [MI_UINT32] = 4, [MI_SINGLE] = 4, [MI_DOUBLE] = 8, [MI_INT64] = 8,  [MI_UINT64] = 8};
    return kind < sizeof bytes_by_kind ? bytes_by_kind[kind] : 0;
}

/* ----- arrays ----- */

static void free_array(gf_mat_array *a) {
    const int64_t children = a->kind == GF_MAT_STRUCTS ? a->n * a->fields : a->n;
    for (int64_t i = 0; a->child && i < children; i++) free_array(&a->child[i]);
    free(a->child);
    a->child = NULL;
}

static glofnd_status read_array(gf_error *err, const char *name, bytes b, int depth, gf_mat_array *a);

/* Every child takes a tag of 8 bytes at least, so that their number is bounded by the file. */
static glofnd_status read_children(gf_error *err, const char *name, bytes *b, int depth, int64_t count, gf_mat_array *a) {
    FAIL_IF(err, depth >= GF_MAT_NESTING_MAX, GLOFND_E_FORMAT, "'%.300s' nests arrays deeper than %d", name, GF_MAT_NESTING_MAX);
    FAIL_IF(err, (uint64_t)count > left(b) / 8, GLOFND_E_FORMAT, "'%.300s' is corrupt: %lld arrays in %llu bytes", name,
            (long long)count, (unsigned long long)left(b));
    if (count == 0) return GLOFND_OK;
    a->child = calloc((size_t)count, sizeof *a->child);
    FAIL_IF(err, !a->child, GLOFND_E_MEMORY, "no memory for %lld arrays of '%.300s'", (long long)count, name);
    for (int64_t i = 0; i < count; i++) {
        element e = {0};
        TRY(next_element(err, name, b, &e));
        FAIL_IF(err, e.kind != MI_MATRIX, GLOFND_E_FORMAT, "'%.300s' is corrupt: something else in place of an array", name);
        TRY(read_array(err, name, e.data, depth + 1, &a->child[i]));
    }
    return GLOFND_OK;
}

/* The content of a matrix element. An empty one is an empty array. */
static glofnd_status read_array(gf_error *err, const char *name, bytes b, int depth, gf_mat_array *a) {
    element flags = {0}, own = {0};
    *a = (gf_mat_array){.kind = GF_MAT_OTHER};
    if (left(&b) == 0) return GLOFND_OK;
    TRY(next_element(err, name, &b, &flags));
    FAIL_IF(err, flags.kind != MI_UINT32 || flags.data.end - flags.data.at < 8, GLOFND_E_FORMAT,
            "'%.300s' is corrupt: an array without flags", name);
    element e = {0};
    TRY(next_element(err, name, &b, &e));
    const size_t rank = (size_t)(e.data.end - e.data.at) / 4;
    FAIL_IF(err, e.kind != MI_INT32 || rank < 1 || rank > GF_MAT_RANK_MAX, GLOFND_E_FORMAT,
            "'%.300s' is corrupt: an array without a shape of 1 to %d numbers", name, GF_MAT_RANK_MAX);
    a->rank = (int)rank;
    a->n = 1;
    for (size_t k = 0; k < rank; k++) {
        const uint32_t dim = u32(e.data.at + 4 * k);
        a->dim[k] = dim;
        FAIL_IF(err, dim > INT32_MAX || (dim && a->n > INT64_MAX / 64 / dim), GLOFND_E_FORMAT,
                "'%.300s' is corrupt: an impossible shape", name);
        a->n *= dim;
    }
    TRY(next_element(err, name, &b, &own));
    const size_t length = (size_t)(own.data.end - own.data.at);
    memcpy(a->name, own.data.at, length < sizeof a->name ? length : sizeof a->name - 1);
    const int class = u32(flags.data.at) & 0xff;
    a->kind = class == MX_CELL                           ? GF_MAT_CELLS
              : class == MX_STRUCT                       ? GF_MAT_STRUCTS
              : class == MX_CHAR                         ? GF_MAT_TEXT
              : class >= MX_DOUBLE && class <= MX_UINT64 ? GF_MAT_NUMBERS
                                                         : GF_MAT_OTHER;
    if (a->kind == GF_MAT_CELLS) return read_children(err, name, &b, depth, a->n, a);
    if (a->kind == GF_MAT_STRUCTS) {
        element names = {0};
        TRY(next_element(err, name, &b, &e));
        TRY(next_element(err, name, &b, &names));
        const uint32_t each = left(&e.data) == 4 ? u32(e.data.at) : 0;
        FAIL_IF(err, each < 1 || each > 1024 || names.kind != MI_INT8, GLOFND_E_FORMAT, "'%.300s' is corrupt: field names", name);
        const int64_t fields = (names.data.end - names.data.at) / each;
        FAIL_IF(err, fields > 4096 || (fields && a->n > INT64_MAX / 64 / fields), GLOFND_E_FORMAT,
                "'%.300s' is corrupt: too many fields", name);
        a->field_bytes = (int)each;
        a->field_names = (const char *)names.data.at;
        a->fields = (int)fields;
        return read_children(err, name, &b, depth, a->n * fields, a);
    }
    if (a->kind == GF_MAT_OTHER) return GLOFND_OK;
    /* Numbers and characters. Text in UTF-8 may have more bytes than characters: its bytes count. */
    if (a->n == 0) return GLOFND_OK;
    TRY(next_element(err, name, &b, &e));
    const int each = bytes_of(e.kind);
    const int64_t count = each ? (int64_t)(left(&e.data) / (size_t)each) : 0;
    if (a->kind == GF_MAT_TEXT && e.kind == MI_UTF8) a->n = count;
    FAIL_IF(err, count < a->n, GLOFND_E_FORMAT, "'%.300s' is corrupt: %lld of %lld numbers", name, (long long)count,
            (long long)a->n);
    a->element = (int)e.kind;
    a->element_bytes = each;
    a->data = e.data.at;
    return GLOFND_OK;
}

/* ----- files ----- */

static glofnd_status keep_block(gf_error *err, gf_mat *m, uint8_t *block) {
    if (gf_grow(&m->block, &m->block_capacity, m->blocks + 1, sizeof *m->block)) {
        m->block[m->blocks++] = block;
        return GLOFND_OK;
    }
    free(block);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the variables of a file");
}

static glofnd_status add_variable(gf_error *err, const char *name, bytes b, gf_mat *m) {
    FAIL_IF(err, !gf_grow(&m->variable, &m->capacity, m->variables + 1, sizeof *m->variable), GLOFND_E_MEMORY,
            "no memory for the variables of '%.300s'", name);
    return read_array(err, name, b, 0, &m->variable[m->variables++]);
}

#ifdef GF_HAVE_ZLIB
/* zlib counts in 32 bits: in and out are refilled until all `n` bytes are there. */
static int inflate_all(z_stream *z, uint8_t *out, size_t n) {
    z->next_out = out;
    for (size_t done = 0; done < n;) {
        z->avail_out = n - done > 1u << 30 ? 1u << 30 : (uInt)(n - done);
        const uInt before = z->avail_out;
        const int code = inflate(z, Z_SYNC_FLUSH);
        done += before - z->avail_out;
        if (code == Z_STREAM_END) return done == n;
        if (code != Z_OK || before == z->avail_out) return 0;
    }
    return 1;
}

/* A tag, then the array of the size that it says. */
static glofnd_status unpack_variable(gf_error *err, const char *name, bytes packed, gf_mat *m) {
    uint8_t tag[8];
    z_stream z = {.next_in = (Bytef *)packed.at, .avail_in = (uInt)left(&packed)};
    FAIL_IF(err, inflateInit(&z) != Z_OK, GLOFND_E_MEMORY, "no memory to unpack '%.300s'", name);
    glofnd_status status = GLOFND_OK;
    uint8_t *block = NULL;
    size_t n = 0;
    if (!inflate_all(&z, tag, 8) || u32(tag) != MI_MATRIX)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' is corrupt: a packed variable cannot be unpacked", name);
    else n = u32(tag + 4);
    if (status == GLOFND_OK && (n > GF_MAT_VARIABLE_MAX || n / PACKED_RATIO_MAX > left(&packed)))
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s': a variable of %llu bytes, packed in %llu, is refused", name,
                         (unsigned long long)n, (unsigned long long)left(&packed));
    if (status == GLOFND_OK && !(block = malloc(n + 1)))
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %llu bytes of '%.300s'", (unsigned long long)n, name);
    if (status == GLOFND_OK && !inflate_all(&z, block, n))
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' is corrupt: a packed variable ends too early", name);
    inflateEnd(&z);
    if (status != GLOFND_OK) free(block);
    TRY(status);
    TRY(keep_block(err, m, block));
    return add_variable(err, name, (bytes){block, block + n}, m);
}
#else
static glofnd_status unpack_variable(gf_error *err, const char *name, bytes packed, gf_mat *m) {
    (void)packed, (void)m;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is packed, and this build is without zlib", name);
}
#endif

static glofnd_status parse_file(gf_error *err, const char *name, bytes b, gf_mat *m) {
    FAIL_IF(err, left(&b) >= 8 && memcmp(b.at, "\x89HDF\r\n\x1a\n", 8) == 0, GLOFND_E_FORMAT,
            "'%.300s' is an HDF5 file; expected a MATLAB file of version 5 to 7", name);
    FAIL_IF(err, left(&b) < HEADER || memcmp(b.at + 124, "\x00\x01IM", 4) != 0, GLOFND_E_FORMAT,
            "'%.300s' is not a MATLAB file of version 5 to 7 (version 7.3 and files of big-endian machines are not read)", name);
    b.at += HEADER;
    while (left(&b) >= 8) {
        element e = {0};
        TRY(next_element(err, name, &b, &e));
        if (e.kind == MI_COMPRESSED) TRY(unpack_variable(err, name, e.data, m));
        else if (e.kind == MI_MATRIX) TRY(add_variable(err, name, e.data, m));
    }
    return GLOFND_OK;
}

glofnd_status gf_mat_parse(gf_error *err, const char *name, uint8_t *bytes_, size_t size, gf_mat *out) {
    *out = (gf_mat){0};
    TRY(keep_block(err, out, bytes_));
    const glofnd_status status = parse_file(err, name, (bytes){bytes_, bytes_ + size}, out);
    if (status != GLOFND_OK) gf_mat_free(out);
    return status;
}

glofnd_status gf_mat_read(gf_error *err, const char *path, gf_mat *out) {
    uint8_t *content = NULL;
    size_t capacity = 0, size = 0;
    *out = (gf_mat){0};
    const glofnd_status status = gf_file_read(err, path, GF_MAT_FILE_MAX, &content, &capacity, &size);
    if (status == GLOFND_OK) return gf_mat_parse(err, path, content, size, out);
    free(content);
    return status;
}

void gf_mat_free(gf_mat *m) {
    for (size_t i = 0; i < m->variables; i++) free_array(&m->variable[i]);
    for (size_t i = 0; i < m->blocks; i++) free(m->block[i]);
    free(m->variable);
    free(m->block);
    *m = (gf_mat){0};
}

/* ----- access ----- */

const gf_mat_array *gf_mat_find(const gf_mat *m, const char *name) {
    for (size_t i = 0; i < m->variables; i++)
        if (strcmp(m->variable[i].name, name) == 0) return &m->variable[i];
    return NULL;
}

const gf_mat_array *gf_mat_field(const gf_mat_array *a, int64_t i, const char *field) {
    if (!a || a->kind != GF_MAT_STRUCTS || i < 0 || i >= a->n) return NULL;
    for (int k = 0; k < a->fields; k++) {
        const char *name = a->field_names + (size_t)k * (size_t)a->field_bytes;
        const size_t length = strnlen(name, (size_t)a->field_bytes);
        if (length == strlen(field) && memcmp(name, field, length) == 0) return &a->child[i * a->fields + k];
    }
    return NULL;
}

const gf_mat_array *gf_mat_cell(const gf_mat_array *a, int64_t i) {
    return a && a->kind == GF_MAT_CELLS && i >= 0 && i < a->n ? &a->child[i] : NULL;
}

static uint64_t word(const uint8_t *p, int n) {
    uint64_t x = 0;
    for (int k = n - 1; k >= 0; k--) x = x << 8 | p[k];
    return x;
}

static double number_of(int kind, uint64_t x) {
    float single;
    double wide;
    const uint32_t low = (uint32_t)x;
    switch (kind) {
    case MI_INT8: return (int8_t)x;
    case MI_INT16: return (int16_t)x;
    case MI_INT32: return (int32_t)x;
    case MI_INT64: return (double)(int64_t)x;
    case MI_SINGLE: return memcpy(&single, &low, sizeof single), (double)single;
    case MI_DOUBLE: return memcpy(&wide, &x, sizeof wide), wide;
    default: return (double)x;
    }
}

int gf_mat_integer(const gf_mat_array *a, int64_t i, int64_t lo, int64_t hi, int64_t *out) {
    if (!a || a->kind != GF_MAT_NUMBERS || !a->data || i < 0 || i >= a->n) return 0;
    const double x = number_of(a->element, word(a->data + (size_t)i * (size_t)a->element_bytes, a->element_bytes));
    if (!(x >= (double)lo && x <= (double)hi) || x != (double)(int64_t)x) return 0;
    *out = (int64_t)x;
    return 1;
}

int gf_mat_text(const gf_mat_array *a, char *out, size_t size) {
    size_t used = 0;
    if (!a || a->kind != GF_MAT_TEXT || size == 0) return 0;
    for (int64_t i = 0; a->data && i < a->n; i++) {
        const uint32_t c = (uint32_t)word(a->data + (size_t)i * (size_t)a->element_bytes, a->element_bytes);
        if (used + 4 > size) return 0;
        if (c == 0 || c > 0xffff) continue;
        if (c < 0x80 || a->element == MI_UTF8) out[used++] = (char)c;
        else if (c < 0x800) out[used++] = (char)(0xc0 | c >> 6), out[used++] = (char)(0x80 | (c & 0x3f));
        else {
            out[used++] = (char)(0xe0 | c >> 12);
            out[used++] = (char)(0x80 | (c >> 6 & 0x3f));
            out[used++] = (char)(0x80 | (c & 0x3f));
        }
    }
    out[used] = 0;
    return 1;
}
