/* shard_parquet.c - embeddings in a list column of a Parquet file, or in a column per dimension, names in another one; see
 * embedding_set.h. Columns per dimension are read one after the other: all of them open at once would take a page of memory
 * each. */
#include <stdlib.h>
#include <string.h>

#include "embeddings/column_roles.h"
#include "embeddings/embedding_set.h"
#include "io/file.h"
#include "io/parquet.h"

#define VALUES_PER_BYTE ((int64_t)1 << 20) /* more than any page packs: a footer cannot ask for memory without limit */

typedef struct parquet_shard {
    gf_parquet f;
    gf_parquet_cursor c;
    int64_t id, label;  /* leaves of names, labels; -1: none */
    uint8_t *dimension; /* [leaves] 1: a column per dimension; NULL: lists */
} parquet_shard;

static glofnd_status check_size(gf_error *err, const gf_shard *s, const gf_parquet *f, int64_t leaf, int64_t each) {
    for (int64_t g = 0; g < f->groups; g++) {
        const gf_parquet_chunk *c = &f->chunk[g * f->leaves + leaf];
        const double values = (double)(f->first[g + 1] - f->first[g]) * (double)each;
        FAIL_IF(err, values > (double)c->bytes * (double)VALUES_PER_BYTE, GLOFND_E_FORMAT,
                "%.300s, row group %lld: %.3g numbers in %llu bytes; the footer is corrupt", s->path, (long long)g, values,
                (unsigned long long)c->bytes);
    }
    return GLOFND_OK;
}

static int has_lists(const gf_parquet *f) {
    for (int64_t i = 0; i < f->leaves; i++)
        if (f->leaf[i].max_rep && (gf_parquet_is_real(&f->leaf[i]) || gf_parquet_is_integer(&f->leaf[i]))) return 1;
    return 0;
}

/* As tables do it (shard_table.c): all columns of numbers but an id and labels; names are the only text, but
 * labels, or else the id. */
static glofnd_status choose_dimensions(gf_error *err, const gf_embedding_input *in, const gf_string_list *titles, gf_shard *s) {
    parquet_shard *p = s->state;
    int64_t texts = 0, text = -1, id = -1;
    p->dimension = calloc((size_t)p->f.leaves + 1, 1);
    FAIL_IF(err, !p->dimension, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
    for (int64_t i = 0; i < p->f.leaves; i++) {
        const gf_parquet_leaf *l = &p->f.leaf[i];
        const gf_column_role role = gf_parquet_is_real(l) ? GF_COLUMN_DIMENSION : gf_column_role_of(titles, i);
        const int flat = l->max_rep == 0 && strlen(l->path) == l->top, number = gf_parquet_is_real(l) || gf_parquet_is_integer(l);
        if (!flat || i == p->id || i == p->label) continue;
        if (l->type == GF_PARQUET_BYTES && role != GF_COLUMN_LABEL) text = i, texts++;
        if (number && role == GF_COLUMN_ID && id < 0) id = i;
        if (!number || role != GF_COLUMN_DIMENSION) continue;
        p->dimension[i] = 1, s->dim++;
        TRY(check_size(err, s, &p->f, i, 1));
    }
    if (!in->id) p->id = texts == 1 ? text : id;
    return GLOFND_OK;
}

static glofnd_status choose_columns(gf_error *err, const gf_embedding_input *in, const gf_string_list *titles, gf_shard *s) {
    parquet_shard *p = s->state;
    int64_t leaf = -1;
    const int wide = !in->column && !has_lists(&p->f);
    if (wide) TRY(choose_dimensions(err, in, titles, s));
    if (!wide || s->dim == 0) {
        TRY(gf_parquet_find(err, &p->f, in->column, &leaf));
        TRY(gf_parquet_list_length(err, &p->f, leaf, &s->dim));
        TRY(check_size(err, s, &p->f, leaf, s->dim));
        gf_parquet_cursor_init(&p->c, &p->f, leaf);
    }
    const gf_column_choice c = {titles, p->dimension, leaf, p->id, p->label};
    gf_columns_describe(&c, s->columns, sizeof s->columns);
    return GLOFND_OK;
}

static glofnd_status open_parquet(gf_error *err, const gf_embedding_input *in, gf_shard *s) {
    parquet_shard *p = calloc(1, sizeof *p);
    gf_string_list titles = {0};
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
    s->state = p;
    TRY(gf_parquet_open(err, s->path, &p->f));
    p->id = p->label = -1;
    if (p->f.rows == 0) return GLOFND_OK;
    if (in->id) TRY(gf_parquet_find(err, &p->f, in->id, &p->id));
    if (in->label) TRY(gf_parquet_find(err, &p->f, in->label, &p->label));
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < p->f.leaves && status == GLOFND_OK; i++)
        status = gf_string_list_add(err, &titles, p->f.leaf[i].path, p->f.leaf[i].top);
    if (status == GLOFND_OK) status = choose_columns(err, in, &titles, s);
    gf_string_list_free(&titles);
    s->rows = p->f.rows;
    s->named = p->id >= 0;
    return status;
}

/* Column `at` of x [rows][dim]. */
static glofnd_status read_column(gf_error *err, gf_parquet_cursor *c, int64_t first, int64_t rows, int64_t dim, float *at) {
    enum { SOME = 4096 };
    float part[SOME];
    TRY(gf_parquet_seek(err, c, first));
    for (int64_t done = 0; done < rows;) {
        const int64_t some = rows - done < SOME ? rows - done : SOME;
        TRY(gf_parquet_floats(err, c, some, 1, part));
        for (int64_t i = 0; i < some; i++) at[(done + i) * dim] = part[i];
        done += some;
    }
    return GLOFND_OK;
}

static glofnd_status read_columns(gf_error *err, gf_shard *s, int64_t first, int64_t rows, float *x) {
    parquet_shard *p = s->state;
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0, at = 0; i < p->f.leaves && status == GLOFND_OK; i++) {
        if (!p->dimension[i]) continue;
        gf_parquet_cursor_init(&p->c, &p->f, i);
        status = read_column(err, &p->c, first, rows, s->dim, x + at++);
        gf_parquet_cursor_free(&p->c);
    }
    return status;
}

static glofnd_status read_parquet(gf_error *err, gf_shard *s, int64_t first, int64_t rows, float *x) {
    parquet_shard *p = s->state;
    if (p->dimension) return read_columns(err, s, first, rows, x);
    TRY(gf_parquet_seek(err, &p->c, first));
    return gf_parquet_floats(err, &p->c, rows, s->dim, x);
}

static glofnd_status read_texts(gf_error *err, const gf_parquet *f, int64_t leaf, int null_is_empty, gf_string_list *out) {
    gf_parquet_cursor c;
    gf_parquet_cursor_init(&c, f, leaf);
    c.null_is_empty = null_is_empty;
    const glofnd_status status = gf_parquet_texts(err, &c, f->rows, out);
    gf_parquet_cursor_free(&c);
    return status;
}

static glofnd_status parquet_names(gf_error *err, gf_shard *s, gf_string_list *out) {
    const parquet_shard *p = s->state;
    FAIL_IF(err, p->id < 0, GLOFND_E_ARGUMENT, "%.300s: no column of names was chosen", s->path);
    return read_texts(err, &p->f, p->id, 0, out);
}

static glofnd_status parquet_labels(gf_error *err, gf_shard *s, gf_string_list *out) {
    const parquet_shard *p = s->state;
    FAIL_IF(err, p->label < 0, GLOFND_E_ARGUMENT, "%.300s: no column of labels was chosen", s->path);
    return read_texts(err, &p->f, p->label, 1, out);
}

glofnd_status gf_column_of_parquet(gf_error *err, const char *path, const char *column, int null_is_empty, gf_string_list *out) {
    gf_parquet f = {0};
    int64_t leaf = 0;
    TRY(gf_parquet_open(err, path, &f));
    glofnd_status status = gf_parquet_find(err, &f, column, &leaf);
    if (status == GLOFND_OK) status = read_texts(err, &f, leaf, null_is_empty, out);
    gf_parquet_close(&f);
    return status;
}

static void close_parquet(gf_shard *s) {
    parquet_shard *p = s->state;
    if (!p) return;
    gf_parquet_cursor_free(&p->c);
    gf_parquet_close(&p->f);
    free(p->dimension);
    free(p);
    s->state = NULL;
}

const gf_shard_kind gf_shard_parquet = {
    .open = open_parquet, .read = read_parquet, .names = parquet_names, .labels = parquet_labels, .close = close_parquet};
