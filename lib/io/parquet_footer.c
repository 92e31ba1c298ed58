/* parquet_footer.c - opening a Parquet file: the schema and the places of its columns; see parquet.h.
 *
 * The file ends with a struct FileMetaData, its length and the magic. The schema is a tree in depth-first order; its leaves are
 * the columns, in the order in which every row group lists them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "io/page_codec.h"
#include "io/parquet.h"
#include "io/thrift.h"
#include "util/array.h"

enum { FOOTER_MAX = 1 << 28, DEPTH_MAX = 12, NAME_MAX_BYTES = 1000 };

typedef struct schema_node {
    int64_t type, length, repetition, children, converted;
    int half, scaled; /* by its logical type: float16; a decimal, date, time or timestamp */
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
    int64_t open[DEPTH_MAX + 1];                                     /* children that follow */
    int depth;
} footer;

static glofnd_status corrupt(const footer *x, const char *what) {
    GF_FAIL(x->err, GLOFND_E_FORMAT, "%.300s: the Parquet footer is corrupt: %s", x->f->path, what);
}

/* ----- schema ----- */

static void read_logical_type(footer *x, const gf_thrift_struct *field, schema_node *node) {
    if (!gf_thrift_enter(&x->t, field)) return;
    for (gf_thrift_struct s = gf_thrift_begin(&x->t); gf_thrift_field(&x->t, &s);) {
        if (s.id == 15) node->half = 1;
        if (s.id >= 5 && s.id <= 8) node->scaled = 1;
        gf_thrift_skip(&x->t, &s);
    }
}

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
        case 10: read_logical_type(x, &s, &n); break;
        default: gf_thrift_skip(&x->t, &s);
        }
    }
    return n;
}

static int width_of(const schema_node *n) {
    static const int width[] = {1, 4, 8, 12, 4, 8, 0};
    return n->type == GF_PARQUET_FIXED_BYTES ? (int)n->length : width[n->type];
}

static glofnd_status add_leaf(footer *x, const schema_node *n, size_t path_bytes) {
    gf_parquet *f = x->f;
    if (n->type < 0 || n->type > GF_PARQUET_FIXED_BYTES) return corrupt(x, "a column has no type");
    if (n->type == GF_PARQUET_FIXED_BYTES && (n->length < 1 || n->length > 1 << 20)) return corrupt(x, "the length of a value");
    FAIL_IF(x->err, !gf_grow(&f->leaf, &x->leaf_capacity, (size_t)f->leaves + 1, sizeof *f->leaf), GLOFND_E_MEMORY,
            "%.300s: no memory for its columns", f->path);
    gf_parquet_leaf *l = &f->leaf[f->leaves];
    *l = (gf_parquet_leaf){.type = (int)n->type,
                           .width = width_of(n),
                           .max_def = x->def[x->depth],
                           .max_rep = x->rep[x->depth],
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
    if (n->name_bytes == 0 || n->name_bytes + point >= sizeof x->path - start) return corrupt(x, "the name of a column");
    if (memchr(n->name, 0, n->name_bytes)) return corrupt(x, "a zero byte in the name of a column");
    if (point) x->path[start] = '.';
    memcpy(x->path + start + point, n->name, n->name_bytes);
    x->path_end[x->depth] = start + point + n->name_bytes;
    if (n->repetition < 0 || n->repetition > 2) return corrupt(x, "the repetition of a column");
    x->def[x->depth] = x->def[x->depth - 1] + (n->repetition != 0);
    x->rep[x->depth] = x->rep[x->depth - 1] + (n->repetition == 2);
    x->list[x->depth] = n->repetition == 2 ? x->def[x->depth] : x->list[x->depth - 1];
    return GLOFND_OK;
}

static glofnd_status read_schema(footer *x, const gf_thrift_struct *field) {
    const int64_t count = gf_thrift_list(&x->t, field, GF_THRIFT_STRUCT);
    const schema_node root = read_node(x);
    if (x->t.failed || count < 1 || root.children < 1) return corrupt(x, "no schema");
    if (x->f->leaves > 0) return corrupt(x, "two schemas");
    x->open[0] = root.children;
    for (int64_t i = 1; i < count; i++) {
        while (x->depth > 0 && x->open[x->depth] == 0) x->depth--;
        if (x->open[x->depth] == 0) return corrupt(x, "the schema has more nodes than its tree");
        const schema_node n = read_node(x);
        if (x->t.failed) return corrupt(x, "it ends within the schema");
        x->open[x->depth++]--;
        if (x->depth > DEPTH_MAX || n.children < 0) return corrupt(x, "the schema is too deep");
        TRY(enter_node(x, &n));
        x->open[x->depth] = n.children;
        if (n.children == 0) TRY(add_leaf(x, &n, x->path_end[x->depth]));
    }
    for (int d = 0; d <= x->depth; d++)
        if (x->open[d] != 0) return corrupt(x, "the schema has fewer nodes than its tree");
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
    if (x->t.failed) return corrupt(x, "it ends within a row group");
    if (c->values < 0 || c->start > x->f->data || c->bytes > x->f->data - c->start)
        return corrupt(x, "a column lies outside of the file");
    return GLOFND_OK;
}

static glofnd_status read_chunks(footer *x, const gf_thrift_struct *field, int64_t *found) {
    gf_parquet *f = x->f;
    const int64_t count = gf_thrift_list(&x->t, field, GF_THRIFT_STRUCT);
    if (count != f->leaves || *found) return corrupt(x, "a row group has another number of columns than the schema");
    FAIL_IF(x->err, !gf_grow(&f->chunk, &x->chunk_capacity, (size_t)(x->chunks + count), sizeof *f->chunk), GLOFND_E_MEMORY,
            "%.300s: no memory for its row groups", f->path);
    for (int64_t i = 0; i < count; i++) {
        gf_parquet_chunk *c = &f->chunk[x->chunks + i];
        TRY(read_chunk(x, c));
        if (c->type != f->leaf[i].type) return corrupt(x, "a column has another type than in the schema");
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
    if (x->t.failed) return corrupt(x, "it ends within a row group");
    if (rows < 0 || found == 0 || rows > INT64_MAX - f->first[f->groups]) return corrupt(x, "the rows of a row group");
    FAIL_IF(x->err, !gf_grow(&f->first, &x->group_capacity, (size_t)f->groups + 2, sizeof *f->first), GLOFND_E_MEMORY,
            "%.300s: no memory for its row groups", f->path);
    f->first[f->groups + 1] = f->first[f->groups] + rows;
    f->groups++;
    return GLOFND_OK;
}

glofnd_status gf_parquet_parse_footer(gf_error *err, gf_parquet *f, const uint8_t *bytes, size_t n) {
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
    if (x.t.failed) return corrupt(&x, "it ends early");
    f->rows = f->first[f->groups];
    if (f->leaves == 0) return corrupt(&x, "no schema");
    if (stated != f->rows) return corrupt(&x, "its number of rows is not that of its row groups");
    return GLOFND_OK;
}

/* ----- opening ----- */

glofnd_status gf_parquet_read_at(gf_error *err, const gf_parquet *f, uint64_t offset, void *out, size_t n) {
    if (f->fd >= 0) return gf_file_read_at(err, f->fd, f->path, offset, out, n);
    FAIL_IF(err, offset > f->size || n > f->size - offset, GLOFND_E_FORMAT, "'%.300s' is cut short", f->path);
    if (n) memcpy(out, f->bytes + offset, n);
    return GLOFND_OK;
}

static glofnd_status read_footer(gf_error *err, gf_parquet *f) {
    uint8_t tail[8] = {0};
    FAIL_IF(err, f->size < 12, GLOFND_E_FORMAT, "%.300s: not a Parquet file: it has %llu bytes", f->path,
            (unsigned long long)f->size);
    TRY(gf_parquet_read_at(err, f, f->size - 8, tail, 8));
    FAIL_IF(err, memcmp(tail + 4, "PARE", 4) == 0, GLOFND_E_UNSUPPORTED, "%.300s: the file is encrypted", f->path);
    FAIL_IF(err, memcmp(tail + 4, "PAR1", 4) != 0, GLOFND_E_FORMAT,
            "%.300s: not a Parquet file, or cut: it does not end with PAR1", f->path);
    const uint64_t n = (uint64_t)tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    FAIL_IF(err, n > f->size - 12 || n > FOOTER_MAX, GLOFND_E_FORMAT, "%.300s: a Parquet footer of %llu bytes in a file of %llu",
            f->path, (unsigned long long)n, (unsigned long long)f->size);
    f->data = f->size - 8 - n;
    uint8_t *bytes = malloc(n ? (size_t)n : 1);
    FAIL_IF(err, !bytes, GLOFND_E_MEMORY, "%.300s: no memory for its footer", f->path);
    glofnd_status status = gf_parquet_read_at(err, f, f->data, bytes, (size_t)n);
    if (status == GLOFND_OK) status = gf_parquet_parse_footer(err, f, bytes, (size_t)n);
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
