/* parquet_read.c - reading Parquet files, see parquet.h: the footer with the schema and the places of its columns; values of a
 * page; pages of a column; rows of a column. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "io/parquet.h"
#include "io/parquet_codec.h"
#include "util/array.h"
#include "util/dtype.h"
#include "util/text.h"

/* ----- the footer -----
 *
 * The file ends with a struct FileMetaData, its length and the magic. The schema is a tree in depth-first order; its leaves are
 * the columns, in the order in which every row group lists them. */

enum { FOOTER_MAX = 1 << 28, DEPTH_MAX = 12, NAME_MAX_BYTES = 1000 };

typedef struct schema_node {
    int64_t type, length, repetition, children, converted;
    int half, scaled, map; /* by its logical type: float16; a decimal, date, time or timestamp; a map */
    const uint8_t *name;
    size_t name_bytes;
} schema_node;

typedef struct footer {
    gf_parquet *f;
    gf_error *err;
    gf_thrift t;
    size_t leaf_capacity, chunk_capacity, group_capacity;
    int64_t chunks;
    char path[NAME_MAX_BYTES]; /* of the node, and where its parts end */
    size_t path_end[DEPTH_MAX + 1];
    int def[DEPTH_MAX + 1], rep[DEPTH_MAX + 1], list[DEPTH_MAX + 1]; /* levels; list: def of the list around */
    int map[DEPTH_MAX + 1];                                          /* 1: within a map */
    int64_t open[DEPTH_MAX + 1];                                     /* children that follow */
    int depth;
} footer;

static glofnd_status corrupt_footer(const footer *x, const char *what) {
    GF_FAIL(x->err, GLOFND_E_FORMAT, "%.300s: the Parquet footer is corrupt: %s", x->f->path, what);
}

/* ----- schema ----- */

static schema_node read_node(footer *x) {
    schema_node n = {.type = -1, .converted = -1};
    for (gf_thrift_struct s = gf_thrift_begin(&x->t); gf_thrift_field(&x->t, &s);) {
        switch (s.id) {
        case 1: n.type = gf_thrift_integer(&x->t, &s); break;
        case 2: n.length = gf_thrift_integer(&x->t, &s); break;
        case 3: n.repetition = gf_thrift_integer(&x->t, &s); break;
        case 4: n.name = gf_thrift_binary(&x->t, &s, &n.name_bytes); break;
        case 5: n.children = gf_thrift_integer(&x->t, &s); break;
        case 6: n.converted = gf_thrift_integer(&x->t, &s); break;
        case 10:
            if (gf_thrift_enter(&x->t, &s)) {
                for (gf_thrift_struct type_s = gf_thrift_begin(&x->t); gf_thrift_field(&x->t, &type_s);) {
                    if (type_s.id == 15) n.half = 1;
                    if (type_s.id == 2) n.map = 1;
                    if (type_s.id >= 5 && type_s.id <= 8) n.scaled = 1;
                    gf_thrift_skip(&x->t, &type_s);
                }
            }
            break;
        default: gf_thrift_skip(&x->t, &s);
        }
    }
    n.map |= n.converted == 1 || n.converted == 2; /* the same in older files */
    return n;
}

static int width_of(const schema_node *n) {
    static const int width[] = {1, 4, 8, 12, 4, 8, 0};
    return n->type == GF_PARQUET_FIXED_BYTES ? (int)n->length : width[n->type];
}

static glofnd_status add_leaf(footer *x, const schema_node *n, size_t path_bytes) {
    gf_parquet *f = x->f;
    if (n->type < 0 || n->type > GF_PARQUET_FIXED_BYTES) return corrupt_footer(x, "a column has no type");
    if (n->type == GF_PARQUET_FIXED_BYTES && (n->length < 1 || n->length > 1 << 20))
        return corrupt_footer(x, "the length of a value");
    FAIL_IF(x->err, !gf_grow(&f->leaf, &x->leaf_capacity, (size_t)f->leaves + 1, sizeof *f->leaf), GLOFND_E_MEMORY,
            "%.300s: no memory for its columns", f->path);
    gf_parquet_leaf *l = &f->leaf[f->leaves];
    *l = (gf_parquet_leaf){.type = (int)n->type,
                           .width = width_of(n),
                           .max_def = x->def[x->depth],
                           .max_rep = x->rep[x->depth],
                           .map = x->map[x->depth],
                           .list_def = x->list[x->depth]};
    l->half = n->half && l->type == GF_PARQUET_FIXED_BYTES && l->width == 2;
    l->scaled = n->scaled || (n->converted >= 5 && n->converted <= 10); /* the same in older files */
    l->path = strndup(x->path, path_bytes);
    FAIL_IF(x->err, !l->path, GLOFND_E_MEMORY, "%.300s: no memory for its columns", f->path);
    l->top = x->path_end[1];
    f->leaves++;
    return GLOFND_OK;
}

/* Puts the node at the end of the path: below the root at depth 1. */
static glofnd_status enter_node(footer *x, const schema_node *n) {
    const size_t start = x->depth > 0 ? x->path_end[x->depth - 1] : 0, point = x->depth > 1;
    if (n->name_bytes == 0 || n->name_bytes + point >= sizeof x->path - start) return corrupt_footer(x, "the name of a column");
    if (memchr(n->name, 0, n->name_bytes)) return corrupt_footer(x, "a zero byte in the name of a column");
    if (point) x->path[start] = '.';
    memcpy(x->path + start + point, n->name, n->name_bytes);
    x->path_end[x->depth] = start + point + n->name_bytes;
    if (n->repetition < 0 || n->repetition > 2) return corrupt_footer(x, "the repetition of a column");
    x->def[x->depth] = x->def[x->depth - 1] + (n->repetition != 0);
    x->rep[x->depth] = x->rep[x->depth - 1] + (n->repetition == 2);
    x->map[x->depth] = x->map[x->depth - 1] || n->map;
    x->list[x->depth] = n->repetition == 2 ? x->def[x->depth] : x->list[x->depth - 1];
    return GLOFND_OK;
}

static glofnd_status read_schema(footer *x, const gf_thrift_struct *field) {
    const int64_t count = gf_thrift_list(&x->t, field, GF_THRIFT_STRUCT);
    const schema_node root = read_node(x);
    if (x->t.failed || count < 1 || root.children < 1) return corrupt_footer(x, "no schema");
    if (x->f->leaves > 0) return corrupt_footer(x, "two schemas");
    x->open[0] = root.children;
    for (int64_t i = 1; i < count; i++) {
        while (x->depth > 0 && x->open[x->depth] == 0) x->depth--;
        if (x->open[x->depth] == 0) return corrupt_footer(x, "the schema has more nodes than its tree");
        const schema_node n = read_node(x);
        if (x->t.failed) return corrupt_footer(x, "it ends within the schema");
        x->open[x->depth++]--;
        if (x->depth > DEPTH_MAX || n.children < 0) return corrupt_footer(x, "the schema is too deep");
        TRY(enter_node(x, &n));
        x->open[x->depth] = n.children;
        if (n.children == 0) TRY(add_leaf(x, &n, x->path_end[x->depth]));
    }
    for (int d = 0; d <= x->depth; d++)
        if (x->open[d] != 0) return corrupt_footer(x, "the schema has fewer nodes than its tree");
    return GLOFND_OK;
}

/* ----- row groups ----- */

static void read_column_data(footer *x, const gf_thrift_struct *field, gf_parquet_chunk *c) {
    int64_t data = 0, dictionary = 0, bytes = 0;
    if (!gf_thrift_enter(&x->t, field)) return;
    for (gf_thrift_struct s = gf_thrift_begin(&x->t); gf_thrift_field(&x->t, &s);) {
        switch (s.id) {
        case 1: c->type = gf_thrift_integer(&x->t, &s); break;
        case 4: c->codec = gf_thrift_integer(&x->t, &s); break;
        case 5: c->values = gf_thrift_integer(&x->t, &s); break;
        case 7: bytes = gf_thrift_integer(&x->t, &s); break;
        case 9: data = gf_thrift_integer(&x->t, &s); break;
        case 11: dictionary = gf_thrift_integer(&x->t, &s); break;
        default: gf_thrift_skip(&x->t, &s);
        }
    }
    const int64_t start = dictionary > 0 && dictionary < data ? dictionary : data;
    c->start = start > 0 ? (uint64_t)start : 0;
    c->bytes = bytes > 0 ? (uint64_t)bytes : 0;
}

static glofnd_status read_chunk(footer *x, gf_parquet_chunk *c) {
    *c = (gf_parquet_chunk){.type = -1};
    for (gf_thrift_struct s = gf_thrift_begin(&x->t); gf_thrift_field(&x->t, &s);) {
        FAIL_IF(x->err, s.id == 1, GLOFND_E_UNSUPPORTED, "%.300s: a column is in another file; only whole files are read",
                x->f->path);
        FAIL_IF(x->err, s.id == 8 || s.id == 9, GLOFND_E_UNSUPPORTED, "%.300s: a column is encrypted", x->f->path);
        if (s.id == 3) read_column_data(x, &s, c);
        else gf_thrift_skip(&x->t, &s);
    }
    if (x->t.failed) return corrupt_footer(x, "it ends within a row group");
    if (c->values < 0 || c->start > x->f->data || c->bytes > x->f->data - c->start)
        return corrupt_footer(x, "a column lies outside of the file");
    return GLOFND_OK;
}

static glofnd_status read_chunks(footer *x, const gf_thrift_struct *field, int64_t *found) {
    gf_parquet *f = x->f;
    const int64_t count = gf_thrift_list(&x->t, field, GF_THRIFT_STRUCT);
    if (count != f->leaves || *found) return corrupt_footer(x, "a row group has another number of columns than the schema");
    FAIL_IF(x->err, !gf_grow(&f->chunk, &x->chunk_capacity, (size_t)(x->chunks + count), sizeof *f->chunk), GLOFND_E_MEMORY,
            "%.300s: no memory for its row groups", f->path);
    for (int64_t i = 0; i < count; i++) {
        gf_parquet_chunk *c = &f->chunk[x->chunks + i];
        TRY(read_chunk(x, c));
        if (c->type != f->leaf[i].type) return corrupt_footer(x, "a column has another type than in the schema");
    }
    x->chunks += count;
    *found = count;
    return GLOFND_OK;
}

static glofnd_status read_group(footer *x) {
    gf_parquet *f = x->f;
    int64_t rows = -1, found = 0;
    for (gf_thrift_struct s = gf_thrift_begin(&x->t); gf_thrift_field(&x->t, &s);) {
        if (s.id == 1) TRY(read_chunks(x, &s, &found));
        else if (s.id == 3) rows = gf_thrift_integer(&x->t, &s);
        else gf_thrift_skip(&x->t, &s);
    }
    if (x->t.failed) return corrupt_footer(x, "it ends within a row group");
    if (rows < 0 || found == 0 || rows > INT64_MAX - f->first[f->groups]) return corrupt_footer(x, "the rows of a row group");
    FAIL_IF(x->err, !gf_grow(&f->first, &x->group_capacity, (size_t)f->groups + 2, sizeof *f->first), GLOFND_E_MEMORY,
            "%.300s: no memory for its row groups", f->path);
    f->first[f->groups + 1] = f->first[f->groups] + rows;
    f->groups++;
    return GLOFND_OK;
}

static glofnd_status parse_footer(gf_error *err, gf_parquet *f, const uint8_t *bytes, size_t n) {
    footer x = {.f = f, .err = err, .t = gf_thrift_of(bytes, n)};
    int64_t stated = -1;
    FAIL_IF(err, !gf_grow(&f->first, &x.group_capacity, 1, sizeof *f->first), GLOFND_E_MEMORY, "%.300s: no memory", f->path);
    f->first[0] = 0;
    for (gf_thrift_struct s = gf_thrift_begin(&x.t); gf_thrift_field(&x.t, &s);) {
        FAIL_IF(err, s.id == 8, GLOFND_E_UNSUPPORTED, "%.300s: the file is encrypted", f->path);
        if (s.id == 2) TRY(read_schema(&x, &s));
        else if (s.id == 3) stated = gf_thrift_integer(&x.t, &s);
        else if (s.id == 4) {
            const int64_t count = gf_thrift_list(&x.t, &s, GF_THRIFT_STRUCT);
            for (int64_t i = 0; i < count; i++) TRY(read_group(&x));
        } else gf_thrift_skip(&x.t, &s);
    }
    if (x.t.failed) return corrupt_footer(&x, "it ends early");
    f->rows = f->first[f->groups];
    if (f->leaves == 0) return corrupt_footer(&x, "no schema");
    if (stated != f->rows) return corrupt_footer(&x, "its number of rows is not that of its row groups");
    return GLOFND_OK;
}

/* ----- opening ----- */

static glofnd_status read_bytes_at(gf_error *err, const gf_parquet *f, uint64_t offset, void *out, size_t n) {
    if (f->fd >= 0) return gf_file_read_at(err, f->fd, f->path, offset, out, n);
    FAIL_IF(err, offset > f->size || n > f->size - offset, GLOFND_E_FORMAT, "'%.300s' is cut short", f->path);
    if (n) memcpy(out, f->bytes + offset, n);
    return GLOFND_OK;
}

static glofnd_status read_footer(gf_error *err, gf_parquet *f) {
    uint8_t tail[8] = {0};
    FAIL_IF(err, f->size < 12, GLOFND_E_FORMAT, "%.300s: not a Parquet file: it has %llu bytes", f->path,
            (unsigned long long)f->size);
    TRY(read_bytes_at(err, f, f->size - 8, tail, 8));
    FAIL_IF(err, memcmp(tail + 4, "PARE", 4) == 0, GLOFND_E_UNSUPPORTED, "%.300s: the file is encrypted", f->path);
    FAIL_IF(err, memcmp(tail + 4, "PAR1", 4) != 0, GLOFND_E_FORMAT,
            "%.300s: not a Parquet file, or cut: it does not end with PAR1", f->path);
    const uint64_t n = (uint64_t)tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    FAIL_IF(err, n > f->size - 12 || n > FOOTER_MAX, GLOFND_E_FORMAT, "%.300s: a Parquet footer of %llu bytes in a file of %llu",
            f->path, (unsigned long long)n, (unsigned long long)f->size);
    f->data = f->size - 8 - n;
    uint8_t *bytes = malloc(n ? (size_t)n : 1);
    FAIL_IF(err, !bytes, GLOFND_E_MEMORY, "%.300s: no memory for its footer", f->path);
    glofnd_status status = read_bytes_at(err, f, f->data, bytes, (size_t)n);
    if (status == GLOFND_OK) status = parse_footer(err, f, bytes, (size_t)n);
    free(bytes);
    return status;
}

static glofnd_status finish_open(gf_error *err, const char *path, gf_parquet *f, gf_parquet *out) {
    f->path = strdup(path);
    if (!f->path && f->fd >= 0) close(f->fd);
    FAIL_IF(err, !f->path, GLOFND_E_MEMORY, "%.300s: no memory", path);
    const glofnd_status status = read_footer(err, f);
    if (status == GLOFND_OK) *out = *f;
    else gf_parquet_close(f);
    return status;
}

glofnd_status gf_parquet_open(gf_error *err, const char *path, gf_parquet *out) {
    gf_parquet f = {.fd = -1};
    gf_file_stamp stamp = {0};
    TRY(gf_file_open(err, path, &f.fd, &stamp));
    f.size = stamp.size;
    return finish_open(err, path, &f, out);
}

glofnd_status gf_parquet_open_bytes(gf_error *err, const char *name, const uint8_t *bytes, size_t n, gf_parquet *out) {
    gf_parquet f = {.fd = -1, .bytes = bytes, .size = n};
    return finish_open(err, name, &f, out);
}

void gf_parquet_close(gf_parquet *f) {
    if (f->path && f->fd >= 0) close(f->fd);
    for (int64_t i = 0; i < f->leaves; i++) free(f->leaf[i].path);
    free(f->leaf);
    free(f->chunk);
    free(f->first);
    free(f->path);
    *f = (gf_parquet){.fd = -1};
}

/* ----- values of a page: repeated and bit-packed integers ----- */

static gf_hybrid hybrid_of(const uint8_t *bytes, size_t n, int width) {
    return (gf_hybrid){.at = bytes, .end = bytes + n, .width = width};
}

/* A run: an even head repeats one value head / 2 times, an odd one has head / 2 groups of 8 packed values. The last group may be
 * cut after the bytes that are used. */
static int next_run(gf_hybrid *h) {
    uint64_t head;
    if (!gf_varint_take(&h->at, h->end, 35, &head)) return 0;
    const size_t left = (size_t)(h->end - h->at), bytes = ((size_t)h->width + 7) / 8;
    if (head & 1) {
        const uint64_t stated = (head >> 1) * 8;
        h->packed = h->width ? GF_MIN(stated, (uint64_t)left * 8 / (uint64_t)h->width) : stated;
        h->bit = 0;
        return h->packed > 0;
    }
    if (left < bytes) return 0;
    h->value = 0;
    for (size_t i = 0; i < bytes; i++) h->value |= (uint32_t)h->at[i] << 8 * i;
    h->at += bytes;
    h->repeat = head >> 1;
    return h->repeat > 0;
}

/* out [n]. 0: the bytes end before, or are corrupt. */
static int hybrid_take(gf_hybrid *h, uint32_t *out, size_t n) {
    while (n > 0) {
        if (h->repeat == 0 && h->packed == 0 && !next_run(h)) return 0;
        const size_t some = (size_t)GF_MIN((uint64_t)n, h->repeat ? h->repeat : h->packed);
        if (h->repeat) {
            for (size_t i = 0; i < some; i++) out[i] = h->value;
            h->repeat -= some;
        } else {
            for (size_t i = 0; i < some; i++) {
                const uint8_t *p = h->at + h->bit / 8;
                const int shift = (int)(h->bit & 7), bytes = (shift + h->width + 7) / 8;
                uint64_t x = 0;
                for (int j = 0; j < bytes; j++) x |= (uint64_t)p[j] << 8 * j;
                h->bit += (uint64_t)h->width;
                out[i] = (uint32_t)(x >> shift & (((uint64_t)1 << h->width) - 1));
            }
            h->packed -= some;
            if (h->packed == 0) h->at += (h->bit + 7) / 8;
        }
        out += some, n -= some;
    }
    return 1;
}

/* ----- values of a page: dictionaries ----- */

static uint32_t little32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void dictionary_free(gf_dictionary *d) {
    free(d->at);
    *d = (gf_dictionary){0};
}

/* Of n bytes with `count` values of the type; `width` bytes each, 0: texts. 1: done; 0: corrupt; -1: no memory. */
static int dictionary_init(gf_dictionary *d, const uint8_t *bytes, size_t n, size_t count, int width) {
    *d = (gf_dictionary){.bytes = bytes, .count = count};
    if (width > 0) return count <= n / (size_t)width;
    if (count > n / 4) return 0;
    d->at = malloc((count + 1) * sizeof *d->at);
    size_t at = 0;
    for (size_t i = 0; d->at && i < count; i++) {
        if (n - at < 4 || little32(bytes + at) > n - at - 4) {
            dictionary_free(d);
            return 0;
        }
        d->at[i] = (uint32_t)at;
        at += 4 + (size_t)little32(bytes + at);
    }
    if (d->at) d->at[count] = (uint32_t)at;
    return d->at ? 1 : -1;
}

/* ----- values of a page: numbers and texts ----- */

static float to_float(const uint8_t *p, int type, int half) {
    float x;
    double y;
    uint16_t h;
    if (half) {
        memcpy(&h, p, sizeof h);
        return gf_f16_to_float(h);
    }
    if (type == GF_PARQUET_DOUBLE) {
        memcpy(&y, p, sizeof y);
        return (float)y;
    }
    memcpy(&x, p, sizeof x);
    return x;
}

/* Integers, of INT32 and INT64. */
static int page_integer(gf_page_values *v, int64_t *out) {
    const size_t width = (size_t)v->width;
    if (v->encoding == GF_ENCODING_DELTA) {
        if (!gf_delta_next(&v->delta, out)) return 0;
        if (width == 4) *out = (int64_t)(int32_t)(uint32_t)*out; /* sums are modulo 2^32 */
        return 1;
    }
    const uint8_t *p = v->at;
    uint8_t bytes[8] = {0};
    uint32_t place;
    if (v->encoding == GF_ENCODING_PLAIN) {
        if ((size_t)(v->end - v->at) < width) return 0;
        v->at += width;
    } else if (v->encoding == GF_ENCODING_SPLIT) {
        if (v->next == v->count) return 0;
        for (size_t k = 0; k < width; k++) bytes[k] = v->at[k * v->count + v->next];
        v->next++;
        p = bytes;
    } else {
        if (!hybrid_take(&v->place, &place, 1) || place >= v->dict->count) return 0;
        p = v->dict->bytes + (size_t)place * width;
    }
    uint64_t x = little32(p);
    if (width == 8) x |= (uint64_t)little32(p + 4) << 32;
    *out = width == 8 ? (int64_t)x : (int64_t)(int32_t)(uint32_t)x;
    return 1;
}

/* Numbers of any type but INT96. 0: the page does not have so many values, or is corrupt. */
static int page_floats(gf_page_values *v, float *out, size_t n) {
    if (v->type == GF_PARQUET_INT32 || v->type == GF_PARQUET_INT64) {
        for (size_t i = 0; i < n; i++) {
            int64_t x;
            if (!page_integer(v, &x)) return 0;
            out[i] = (float)x;
        }
        return 1;
    }
    if (v->encoding == GF_ENCODING_PLAIN) {
        const size_t width = (size_t)v->width;
        if ((size_t)(v->end - v->at) / width < n) return 0;
        if (v->type == GF_PARQUET_FLOAT) memcpy(out, v->at, n * width);
        else
            for (size_t i = 0; i < n; i++) out[i] = to_float(v->at + i * width, v->type, v->half);
        v->at += n * width;
        return 1;
    }
    if (v->encoding != GF_ENCODING_SPLIT) {
        enum { SOME = 256 };
        uint32_t place[SOME];
        for (size_t done = 0; done < n;) {
            const size_t some = GF_MIN(n - done, SOME);
            if (!hybrid_take(&v->place, place, some)) return 0;
            for (size_t i = 0; i < some; i++) {
                if (place[i] >= v->dict->count) return 0;
                out[done + i] = to_float(v->dict->bytes + (size_t)place[i] * (size_t)v->width, v->type, v->half);
            }
            done += some;
        }
        return 1;
    }
    /* Byte k of value i is at k * count + i. */
    if (v->count - v->next < n) return 0;
    for (size_t i = 0; i < n; i++, v->next++) {
        uint8_t bytes[8] = {0};
        for (size_t k = 0; k < (size_t)v->width; k++) bytes[k] = v->at[k * v->count + v->next];
        out[i] = to_float(bytes, v->type, v->half);
    }
    return 1;
}

/* Texts; *text points into the page or the dictionary. */
static int page_text(gf_page_values *v, const uint8_t **text, size_t *n) {
    uint32_t place;
    if (v->encoding == GF_ENCODING_DELTA_LENGTH || v->encoding == GF_ENCODING_DELTA_TEXT)
        return gf_delta_texts_next(&v->texts, text, n);
    if (v->encoding == GF_ENCODING_PLAIN) {
        const size_t left = (size_t)(v->end - v->at);
        if (left < 4 || little32(v->at) > left - 4) return 0;
        *n = little32(v->at);
        *text = v->at + 4;
        v->at += 4 + *n;
        return 1;
    }
    if (!v->dict || !hybrid_take(&v->place, &place, 1) || place >= v->dict->count) return 0;
    *text = v->dict->bytes + v->dict->at[place] + 4;
    *n = v->dict->at[place + 1] - v->dict->at[place] - 4;
    return 1;
}

/* ----- pages of a column in a row group, one in memory at a time ----- */

enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };
enum { PAGE_MAX = 1 << 30, HEAD_FIRST = 1 << 12, HEAD_MAX = 1 << 24 };

typedef struct page_head {
    int64_t type, unpacked, packed, crc;
    int has_crc;
    int64_t values, encoding, def_encoding, rep_encoding;
    int64_t def_bytes, rep_bytes, compressed; /* of version 2 */
    size_t bytes;                             /* of the head itself */
} page_head;

static void read_data_head(gf_thrift *t, const gf_thrift_struct *field, int v2, page_head *h) {
    if (!gf_thrift_enter(t, field)) return;
    for (gf_thrift_struct s = gf_thrift_begin(t); gf_thrift_field(t, &s);) {
        if (s.id == 1) h->values = gf_thrift_integer(t, &s);
        else if (s.id == (v2 ? 4 : 2)) h->encoding = gf_thrift_integer(t, &s);
        else if (!v2 && s.id == 3 && s.type == GF_THRIFT_I32) h->def_encoding = gf_thrift_integer(t, &s);
        else if (!v2 && s.id == 4 && s.type == GF_THRIFT_I32) h->rep_encoding = gf_thrift_integer(t, &s);
        else if (v2 && s.id == 5) h->def_bytes = gf_thrift_integer(t, &s);
        else if (v2 && s.id == 6) h->rep_bytes = gf_thrift_integer(t, &s);
        else if (v2 && s.id == 7) h->compressed = gf_thrift_integer(t, &s);
        else gf_thrift_skip(t, &s);
    }
}

/* Most heads are small; statistics of long texts make them large. */
static glofnd_status read_head(gf_error *err, gf_parquet_cursor *c, page_head *h) {
    for (uint64_t try = HEAD_FIRST;; try = HEAD_MAX) {
        const size_t n = (size_t)GF_MIN(try, c->end - c->at);
        TRY(gf_file_reserve(err, c->f->path, n, &c->packed, &c->packed_capacity));
        TRY(read_bytes_at(err, c->f, c->at, c->packed, n));
        gf_thrift t = gf_thrift_of(c->packed, n);
        *h = (page_head){.type = -1, .unpacked = -1, .packed = -1, .values = -1, .encoding = -1, .compressed = 1};
        h->def_encoding = h->rep_encoding = GF_ENCODING_RLE;
        for (gf_thrift_struct s = gf_thrift_begin(&t); gf_thrift_field(&t, &s);) {
            switch (s.id) {
            case 1: h->type = gf_thrift_integer(&t, &s); break;
            case 2: h->unpacked = gf_thrift_integer(&t, &s); break;
            case 3: h->packed = gf_thrift_integer(&t, &s); break;
            case 4: h->crc = gf_thrift_integer(&t, &s), h->has_crc = 1; break;
            case 5:
            case 7: read_data_head(&t, &s, 0, h); break;
            case 8: read_data_head(&t, &s, 1, h); break;
            default: gf_thrift_skip(&t, &s);
            }
        }
        h->bytes = (size_t)(t.at - t.start);
        if (!t.failed) break;
        FAIL_IF(err, n == c->end - c->at || try == HEAD_MAX, GLOFND_E_FORMAT, "%s: the head of a page at byte %llu is corrupt",
                c->where, (unsigned long long)c->at);
    }
    c->at += h->bytes;
    FAIL_IF(err,
            h->packed < 0 || h->unpacked < 0 || h->packed > PAGE_MAX || h->unpacked > PAGE_MAX ||
                (uint64_t)h->packed > c->end - c->at,
            GLOFND_E_FORMAT, "%s: a page of %lld bytes, %lld unpacked, where %llu are left", c->where, (long long)h->packed,
            (long long)h->unpacked, (unsigned long long)(c->end - c->at));
    return GLOFND_OK;
}

/* The bytes of the page, as they are in the file, to c->packed. */
static glofnd_status read_packed(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    TRY(gf_file_reserve(err, c->f->path, (size_t)h->packed, &c->packed, &c->packed_capacity));
    TRY(read_bytes_at(err, c->f, c->at, c->packed, (size_t)h->packed));
    c->at += (uint64_t)h->packed;
    FAIL_IF(err, h->has_crc && gf_page_crc(c->packed, (size_t)h->packed) != (uint32_t)h->crc, GLOFND_E_FORMAT,
            "%s: a page is corrupt: its checksum differs", c->where);
    return GLOFND_OK;
}

static int codec_of(const gf_parquet_cursor *c) { return (int)c->f->chunk[c->group * c->f->leaves + c->leaf].codec; }

static glofnd_status read_dictionary(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    FAIL_IF(err,
            c->dict.bytes || h->values < 0 || (h->encoding != GF_ENCODING_PLAIN && h->encoding != GF_ENCODING_PLAIN_DICTIONARY),
            GLOFND_E_FORMAT, "%s: the dictionary is corrupt, or a second one", c->where);
    TRY(read_packed(err, c, h));
    TRY(gf_page_codec_bound(err, c->where, codec_of(c), (size_t)h->packed, (size_t)h->unpacked));
    TRY(gf_file_reserve(err, c->f->path, (size_t)h->unpacked, &c->dictionary, &c->dictionary_capacity));
    TRY(gf_page_unpack(err, c->where, codec_of(c), c->packed, (size_t)h->packed, c->dictionary, (size_t)h->unpacked));
    const int done = dictionary_init(&c->dict, c->dictionary, (size_t)h->unpacked, (size_t)h->values, l->width);
    FAIL_IF(err, done < 0, GLOFND_E_MEMORY, "%s: no memory for its dictionary", c->where);
    FAIL_IF(err, done == 0, GLOFND_E_FORMAT, "%s: a dictionary of %lld bytes cannot hold the %lld values it states", c->where,
            (long long)h->unpacked, (long long)h->values);
    return GLOFND_OK;
}

static int bits_for(int max) {
    int bits = 0;
    while (max >> bits) bits++;
    return bits;
}

/* Levels of version 1: a length, then the hybrid. */
static int take_levels(const uint8_t **at, const uint8_t *end, int max, gf_hybrid *out) {
    if (max == 0) return 1;
    if (end - *at < 4) return 0;
    const uint32_t n = (uint32_t)(*at)[0] | (uint32_t)(*at)[1] << 8 | (uint32_t)(*at)[2] << 16 | (uint32_t)(*at)[3] << 24;
    *at += 4;
    if (n > (size_t)(end - *at)) return 0;
    *out = hybrid_of(*at, n, bits_for(max));
    *at += n;
    return 1;
}

static glofnd_status begin_deltas(gf_error *err, gf_parquet_cursor *c, gf_page_values *v) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const int integers = v->encoding == GF_ENCODING_DELTA;
    const size_t n = (size_t)(v->end - v->at);
    size_t last = 0;
    FAIL_IF(err, integers ? l->type != GF_PARQUET_INT32 && l->type != GF_PARQUET_INT64 : l->type != GF_PARQUET_BYTES,
            GLOFND_E_FORMAT, "%s: a delta encoding (%d) that its type cannot have", c->where, v->encoding);
    const int valid = integers ? gf_delta_begin(&v->delta, v->at, n)
                               : gf_delta_texts_begin(&v->texts, v->at, n, v->encoding == GF_ENCODING_DELTA_TEXT, &last);
    FAIL_IF(err, !valid, GLOFND_E_FORMAT, "%s: the differences of a page are corrupt", c->where);
    if (v->encoding != GF_ENCODING_DELTA_TEXT) return GLOFND_OK;
    TRY(gf_file_reserve(err, c->f->path, last + 1, &c->last_text, &c->last_text_capacity));
    v->texts.last = c->last_text;
    return GLOFND_OK;
}

static glofnd_status begin_values(gf_error *err, gf_parquet_cursor *c, const page_head *h, const uint8_t *at,
                                  const uint8_t *end) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    gf_page_values v = {.encoding = (int)h->encoding, .type = l->type, .width = l->width, .half = l->half, .at = at, .end = end};
    switch (h->encoding) {
    case GF_ENCODING_PLAIN: break;
    case GF_ENCODING_SPLIT:
        FAIL_IF(err, l->width == 0 || l->width > 8, GLOFND_E_FORMAT, "%s: bytes of texts are split", c->where);
        v.count = (size_t)(end - at) / (size_t)l->width;
        break;
    case GF_ENCODING_PLAIN_DICTIONARY:
    case GF_ENCODING_DICTIONARY:
        FAIL_IF(err, !c->dict.bytes, GLOFND_E_FORMAT, "%s: a page needs a dictionary, and there is none", c->where);
        FAIL_IF(err, at == end || *at > 32, GLOFND_E_FORMAT, "%s: places in the dictionary have no width, or one above 32",
                c->where);
        v.place = hybrid_of(at + 1, (size_t)(end - at - 1), *at);
        v.dict = &c->dict;
        break;
    case GF_ENCODING_DELTA:
    case GF_ENCODING_DELTA_LENGTH:
    case GF_ENCODING_DELTA_TEXT: TRY(begin_deltas(err, c, &v)); break;
    default:
        GF_FAIL(err, GLOFND_E_UNSUPPORTED,
                "%s: values have encoding %lld; PLAIN, dictionary, delta and BYTE_STREAM_SPLIT are read: write the column with "
                "one of these",
                c->where, (long long)h->encoding);
    }
    c->values = v;
    return GLOFND_OK;
}

static glofnd_status read_data(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const size_t n = (size_t)h->unpacked;
    FAIL_IF(err, (l->max_def && h->def_encoding != GF_ENCODING_RLE) || (l->max_rep && h->rep_encoding != GF_ENCODING_RLE),
            GLOFND_E_UNSUPPORTED, "%s: levels have encodings %lld and %lld; only RLE is read", c->where,
            (long long)h->rep_encoding, (long long)h->def_encoding);
    TRY(read_packed(err, c, h));
    TRY(gf_page_codec_bound(err, c->where, codec_of(c), (size_t)h->packed, n));
    TRY(gf_file_reserve(err, c->f->path, n, &c->page, &c->page_capacity));
    TRY(gf_page_unpack(err, c->where, codec_of(c), c->packed, (size_t)h->packed, c->page, n));
    const uint8_t *at = c->page, *end = c->page + n;
    FAIL_IF(err, !take_levels(&at, end, l->max_rep, &c->rep) || !take_levels(&at, end, l->max_def, &c->def), GLOFND_E_FORMAT,
            "%s: the levels of a page are corrupt", c->where);
    return begin_values(err, c, h, at, end);
}

/* Version 2: the levels come first and are never packed. */
static glofnd_status read_data_v2(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    FAIL_IF(err,
            h->rep_bytes < 0 || h->def_bytes < 0 || h->rep_bytes > h->packed || h->def_bytes > h->packed - h->rep_bytes ||
                h->rep_bytes + h->def_bytes > h->unpacked,
            GLOFND_E_FORMAT, "%s: the levels of a page are longer than the page", c->where);
    TRY(read_packed(err, c, h));
    const size_t levels = (size_t)(h->rep_bytes + h->def_bytes), n = (size_t)h->unpacked - levels;
    const size_t packed = (size_t)h->packed - levels;
    const int codec = h->compressed ? codec_of(c) : GF_CODEC_NONE;
    const int empty = n == 0 && packed == 0;
    if (!empty) TRY(gf_page_codec_bound(err, c->where, codec, packed, n));
    TRY(gf_file_reserve(err, c->f->path, levels + n, &c->page, &c->page_capacity));
    if (levels) memcpy(c->page, c->packed, levels);
    if (!empty) TRY(gf_page_unpack(err, c->where, codec, c->packed + levels, packed, c->page + levels, n));
    c->rep = hybrid_of(c->page, (size_t)h->rep_bytes, bits_for(l->max_rep));
    c->def = hybrid_of(c->page + h->rep_bytes, (size_t)h->def_bytes, bits_for(l->max_def));
    return begin_values(err, c, h, c->page + levels, c->page + levels + n);
}

/* *levels: levels that can be taken from the current page, the next one if it is used up; 0: the row group has no more. */
static glofnd_status levels_of_page(gf_error *err, gf_parquet_cursor *c, int64_t *levels) {
    while (c->page_left == 0 && c->left > 0) {
        page_head h;
        FAIL_IF(err, c->at >= c->end, GLOFND_E_FORMAT, "%s: its pages end %lld values early", c->where, (long long)c->left);
        TRY(read_head(err, c, &h));
        if (h.type == DICTIONARY_PAGE) TRY(read_dictionary(err, c, &h));
        else if (h.type != DATA_PAGE && h.type != DATA_PAGE_V2) c->at += (uint64_t)h.packed;
        else {
            FAIL_IF(err, h.values < 0 || h.values > c->left || h.values > INT32_MAX, GLOFND_E_FORMAT,
                    "%s: a page of %lld values where %lld are left", c->where, (long long)h.values, (long long)c->left);
            TRY(h.type == DATA_PAGE ? read_data(err, c, &h) : read_data_v2(err, c, &h));
            c->page_left = h.values;
            c->left -= h.values;
        }
    }
    *levels = c->page_left;
    return GLOFND_OK;
}

static glofnd_status enter_group(gf_error *err, gf_parquet_cursor *c, int64_t group) {
    const gf_parquet *f = c->f;
    const gf_parquet_chunk *k = &f->chunk[group * f->leaves + c->leaf];
    snprintf(c->where, sizeof c->where, "%.200s, row group %lld, column '%.80s'", f->path, (long long)group,
             f->leaf[c->leaf].path);
    dictionary_free(&c->dict);
    c->group = -1;
    TRY(gf_page_codec_check(err, c->where, k->codec));
    c->group = group, c->row = f->first[group], c->place = 0;
    c->at = k->start, c->end = k->start + k->bytes;
    c->left = k->values, c->page_left = 0;
    c->level = c->levels = 0;
    return GLOFND_OK;
}

/* ----- rows of a column -----
 *
 * A value comes with two levels: the repetition level is 0 where a row begins, and the definition level is at its maximum where
 * the value is there and neither it nor a list around it is null. A null in a list has levels of its own, a list that is null or
 * empty has one pair of levels; both have no value. Lists of different lengths are refused, with their row. */

int gf_parquet_is_real(const gf_parquet_leaf *l) {
    return l->type == GF_PARQUET_FLOAT || l->type == GF_PARQUET_DOUBLE || l->half;
}

int gf_parquet_is_integer(const gf_parquet_leaf *l) {
    return (l->type == GF_PARQUET_INT32 || l->type == GF_PARQUET_INT64) && !l->scaled;
}

/* reals: there are lists of floating-point numbers, so those of integers are something else. */
static int holds_numbers(const gf_parquet_leaf *l, int reals) {
    return l->max_rep == 1 && !l->map && (gf_parquet_is_real(l) || (!reals && gf_parquet_is_integer(l)));
}

glofnd_status gf_parquet_find(gf_error *err, const gf_parquet *f, const char *name, int64_t *leaf) {
    int64_t found = -1, count = 0;
    int reals = 0;
    for (int64_t i = 0; i < f->leaves; i++)
        reals += f->leaf[i].max_rep == 1 && !f->leaf[i].map && gf_parquet_is_real(&f->leaf[i]);
    for (int64_t i = 0; i < f->leaves; i++) {
        const gf_parquet_leaf *l = &f->leaf[i];
        if (name && strcmp(l->path, name) == 0) {
            *leaf = i;
            return GLOFND_OK;
        }
        if (name ? strlen(name) == l->top && memcmp(name, l->path, l->top) == 0 : holds_numbers(l, reals)) found = i, count++;
    }
    if (count != 1) {
        const int several = count > 1;
        char list[220] = "";
        for (int64_t i = 0; i < f->leaves && strlen(list) < 150; i++)
            if (name || !several || holds_numbers(&f->leaf[i], reals))
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", *list ? ", " : "", f->leaf[i].path);
        FAIL_IF(err, !name && several, GLOFND_E_ARGUMENT,
                "%.150s: more than one list of numbers; choose one with column=NAME: %s", f->path, list);
        int images = 0;
        for (int64_t i = 0; i < f->leaves; i++) images |= gf_ends_with(f->leaf[i].path, ".bytes");
        FAIL_IF(err, !name, GLOFND_E_ARGUMENT, "%.150s: no column is a list of numbers, one list per row; it has %s%s", f->path,
                list, images ? ": compare images in Python: glofnd.discover(dataset[\"image\"], embed=\"pixels\")" : "");
        GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: %s column '%.60s'; it has %s", f->path, several ? "more than one" : "no", name,
                list);
    }
    *leaf = found;
    return GLOFND_OK;
}

/* ----- cursor ----- */

void gf_parquet_cursor_init(gf_parquet_cursor *c, const gf_parquet *f, int64_t leaf) {
    *c = (gf_parquet_cursor){.f = f, .leaf = leaf, .group = -1};
}

void gf_parquet_cursor_free(gf_parquet_cursor *c) {
    dictionary_free(&c->dict);
    free(c->packed);
    free(c->page);
    free(c->dictionary);
    free(c->last_text);
    *c = (gf_parquet_cursor){.group = -1};
}

static glofnd_status bad_row(gf_error *err, const gf_parquet_cursor *c, const char *what) {
    GF_FAIL(err, GLOFND_E_FORMAT, "%s: row %lld %s", c->where, (long long)c->row, what);
}

/* The next levels, at most n, all of one page; the next row group if this one is used up. */
static glofnd_status next_levels(gf_error *err, gf_parquet_cursor *c, int64_t n, uint32_t *rep, uint32_t *def, int64_t *got) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    int64_t left = 0;
    if (c->group >= 0) TRY(levels_of_page(err, c, &left));
    while (left == 0) {
        if (c->place != 0) return bad_row(err, c, "ends early");
        if (c->group >= 0 && c->row != c->f->first[c->group + 1]) return bad_row(err, c, "is missing: the column ends before it");
        FAIL_IF(err, c->group + 1 >= c->f->groups, GLOFND_E_FORMAT, "%.300s: no row %lld", c->f->path, (long long)c->row);
        TRY(enter_group(err, c, c->group + 1));
        TRY(levels_of_page(err, c, &left));
    }
    *got = GF_MIN(n, GF_MIN(left, GF_PARQUET_BATCH));
    FAIL_IF(err,
            (l->max_rep && !hybrid_take(&c->rep, rep, (size_t)*got)) || (l->max_def && !hybrid_take(&c->def, def, (size_t)*got)),
            GLOFND_E_FORMAT, "%s: the levels of a page end early, at row %lld", c->where, (long long)c->row);
    c->page_left -= *got;
    return GLOFND_OK;
}

/* The next level is that of lists of dim numbers. */
static glofnd_status check_level(gf_error *err, gf_parquet_cursor *c, int64_t dim) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const uint32_t rep = c->rep_level[c->level], def = c->def_level[c->level];
    FAIL_IF(err, rep == 0 && c->place != 0, GLOFND_E_FORMAT, "%s: row %lld has %lld numbers; expected %lld, as in the first row",
            c->where, (long long)c->row, (long long)c->place, (long long)dim);
    if (rep != 0 && c->place == 0) {
        c->row--;
        return bad_row(err, c, "has more numbers than the first row");
    }
    if (rep > 1 || (l->max_def && def > (uint32_t)l->max_def)) return bad_row(err, c, "is corrupt: a level above its maximum");
    if (rep > 0 && def < (uint32_t)l->list_def && l->max_def)
        return bad_row(err, c, "is corrupt: a value continues a list that has not begun");
    return c->row < c->f->first[c->group + 1] ? GLOFND_OK : bad_row(err, c, "is beyond the rows of its group");
}

static void advance_row(gf_parquet_cursor *c, int64_t dim, int64_t numbers) {
    c->place += numbers;
    if (c->place == dim) c->place = 0, c->row++;
    c->level++;
}

static glofnd_status take_lists(gf_error *err, gf_parquet_cursor *c, int64_t rows, int64_t dim, float *out) {
    const int64_t end = c->row + rows;
    while (c->row < end) {
        if (c->level == c->levels) {
            int64_t got = 0;
            TRY(next_levels(err, c, GF_PARQUET_BATCH, c->rep_level, c->def_level, &got));
            c->level = 0, c->levels = got;
        }
        /* Numbers up to a null, and that; or to the end of the rows, or of the levels that were read. */
        int64_t values = 0;
        while (c->level < c->levels && c->row < end) {
            TRY(check_level(err, c, dim));
            const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
            if (l->max_def && c->def_level[c->level] != (uint32_t)l->max_def) break;
            advance_row(c, dim, 1);
            values++;
        }
        /* Numbers to *out, which is NULL if they are not wanted. */
        float waste[GF_PARQUET_BATCH];
        FAIL_IF(err, values > 0 && !page_floats(&c->values, out ? out : waste, (size_t)values), GLOFND_E_FORMAT,
                "%s: the values of a page end early or are corrupt, near row %lld", c->where, (long long)c->row);
        if (out) out += values;
        if (c->level != c->levels && c->row != end) {
            const int64_t missing = c->def_level[c->level] < (uint32_t)c->f->leaf[c->leaf].list_def ? dim : 1;
            for (int64_t i = 0; out && i < missing; i++) *(out)++ = NAN;
            advance_row(c, dim, missing);
        }
    }
    return GLOFND_OK;
}

glofnd_status gf_parquet_floats(gf_error *err, gf_parquet_cursor *c, int64_t rows, int64_t dim, float *out) {
    FAIL_IF(err, rows > c->f->rows - c->row, GLOFND_E_ARGUMENT, "%.300s: rows %lld to %lld of %lld", c->f->path,
            (long long)c->row, (long long)(c->row + rows - 1), (long long)c->f->rows);
    return take_lists(err, c, rows, dim, out);
}

glofnd_status gf_parquet_seek(gf_error *err, gf_parquet_cursor *c, int64_t row) {
    const gf_parquet *f = c->f;
    FAIL_IF(err, row < 0 || row > f->rows, GLOFND_E_ARGUMENT, "%.300s: row %lld of %lld", f->path, (long long)row,
            (long long)f->rows);
    if (c->group >= 0 && c->row == row && c->place == 0) return GLOFND_OK;
    if (row == f->rows) {
        c->group = -1, c->row = row; /* there is nothing to take */
        return GLOFND_OK;
    }
    int64_t group = 0;
    while (f->first[group + 1] <= row) group++;
    if (c->group != group || c->row > row || c->place != 0) TRY(enter_group(err, c, group));
    if (row == c->row) return GLOFND_OK;
    int64_t dim = 1;
    if (f->leaf[c->leaf].max_rep) TRY(gf_parquet_list_length(err, f, c->leaf, &dim));
    return take_lists(err, c, row - c->row, dim, NULL);
}

/* Goes on counting the numbers of the first list in the levels that were read; 0: it has ended. */
static int count_numbers(gf_parquet_cursor *c, int64_t *begun, int64_t *length) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    for (int64_t k = 0; k < c->levels; k++) {
        if (*begun && c->rep_level[k] == 0) return 0;
        if (*begun || !l->max_def || c->def_level[k] >= (uint32_t)l->list_def) ++*length, *begun = 1;
        else c->row++;
    }
    return 1;
}

glofnd_status gf_parquet_list_length(gf_error *err, const gf_parquet *f, int64_t leaf, int64_t *length) {
    const gf_parquet_leaf *l = &f->leaf[leaf];
    gf_parquet_cursor c;
    int64_t left = 1, begun = 0;
    FAIL_IF(err, !holds_numbers(l, 0), GLOFND_E_FORMAT,
            "%.200s, column '%.80s': not lists of numbers, one per row; those are what embeddings are read from", f->path,
            l->path);
    FAIL_IF(err, f->rows < 1, GLOFND_E_FORMAT, "%.300s: no rows", f->path);
    gf_parquet_cursor_init(&c, f, leaf);
    glofnd_status status = GLOFND_OK;
    *length = 0;
    while (status == GLOFND_OK && left > 0) {
        if (begun) status = levels_of_page(err, &c, &left); /* the list ends with its row group at the latest */
        if (status != GLOFND_OK || left == 0) break;
        if (c.row < f->rows) status = next_levels(err, &c, GF_PARQUET_BATCH, c.rep_level, c.def_level, &c.levels);
        else status = gf_fail(err, GLOFND_E_FORMAT, "%.200s, column '%.80s': every row is null", f->path, l->path);
        if (status == GLOFND_OK && !count_numbers(&c, &begun, length)) break;
        if (*length > GF_PARQUET_LIST_MAX && status == GLOFND_OK) status = bad_row(err, &c, "has more than 2^20 numbers");
    }
    gf_parquet_cursor_free(&c);
    return status;
}

/* ----- texts ----- */

static glofnd_status add_text(gf_error *err, gf_parquet_cursor *c, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const uint8_t *text = NULL;
    size_t n = 0;
    int64_t number = 0;
    char digits[24];
    if (l->type == GF_PARQUET_BYTES ? !page_text(&c->values, &text, &n) : !page_integer(&c->values, &number))
        return bad_row(err, c, "is corrupt: the values of its page end early");
    if (n > 0 && memchr(text, 0, n)) return bad_row(err, c, "has a zero byte; names are texts without");
    if (l->type == GF_PARQUET_BYTES) return gf_string_list_add(err, out, (const char *)text, n);
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return gf_string_list_add(err, out, digits, (size_t)length);
}

/* Integers beside missing ones, as pandas has them: NaN is none. */
static glofnd_status add_whole_number(gf_error *err, gf_parquet_cursor *c, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    char digits[24] = "";
    float x;
    if (!page_floats(&c->values, &x, 1)) return bad_row(err, c, "is corrupt: the values of its page end early");
    FAIL_IF(err, !isnan(x) && (x != floorf(x) || fabsf(x) >= 16777216.0f), GLOFND_E_FORMAT,
            "%.200s, column '%.80s': labels are read from texts or integers, one per row; row %lld has %.9g", c->f->path, l->path,
            (long long)c->row, (double)x);
    const int length = isnan(x) ? 0 : snprintf(digits, sizeof digits, "%d", (int)x);
    return gf_string_list_add(err, out, digits, (size_t)length);
}

glofnd_status gf_parquet_texts(gf_error *err, gf_parquet_cursor *c, int64_t rows, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    uint32_t rep[GF_PARQUET_BATCH] = {0}, def[GF_PARQUET_BATCH] = {0};
    int64_t got;
    const int floats = c->null_is_empty && (l->type == GF_PARQUET_FLOAT || l->type == GF_PARQUET_DOUBLE);
    const int fits = floats || l->type == GF_PARQUET_BYTES || l->type == GF_PARQUET_INT32 || l->type == GF_PARQUET_INT64;
    FAIL_IF(err, l->max_rep != 0 || !fits, GLOFND_E_FORMAT,
            "%.200s, column '%.80s': %s are read from texts or integers, one per row", c->f->path, l->path,
            c->null_is_empty ? "labels" : "names");
    FAIL_IF(err, rows > c->f->rows - c->row, GLOFND_E_ARGUMENT, "%.300s: it has %lld rows", c->f->path, (long long)c->f->rows);
    for (int64_t left = rows; left > 0; left -= got) {
        TRY(next_levels(err, c, left, rep, def, &got));
        for (int64_t k = 0; k < got; k++, c->row++) {
            const int null = l->max_def && def[k] != (uint32_t)l->max_def;
            if (null && !c->null_is_empty) return bad_row(err, c, "is null; a name is needed");
            if (c->row >= c->f->first[c->group + 1]) return bad_row(err, c, "is beyond the rows of its group");
            TRY(null ? gf_string_list_add(err, out, "", 0) : floats ? add_whole_number(err, c, out) : add_text(err, c, out));
        }
    }
    return GLOFND_OK;
}
