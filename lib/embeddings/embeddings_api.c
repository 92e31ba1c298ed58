/* embeddings_api.c - glofnd_embeddings of the public header: an embedding_set, with its names and labels. */
#include "embeddings/embeddings_api.h"

#include <limits.h>
#include <stdlib.h>

struct glofnd_embeddings {
    gf_embedding_set *set;
    gf_string_list names, labels;
    const char **name, **label; /* [n] into these; NULL: none */
};

gf_embedding_set *gf_embeddings_of(glofnd_embeddings *e) { return e->set; }

static glofnd_status point_at(gf_error *err, const glofnd_embeddings *e, const gf_string_list *texts, const char *what,
                              const char ***out) {
    const int64_t n = gf_embeddings_rows(e->set);
    FAIL_IF(err, texts->n != n, GLOFND_E_FORMAT, "%lld %s for %lld embeddings", (long long)texts->n, what, (long long)n);
    *out = malloc((size_t)n * sizeof **out);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld %s", (long long)n, what);
    for (int64_t i = 0; i < n; i++) (*out)[i] = gf_string_list_get(texts, i);
    return GLOFND_OK;
}

/* Names of columns or tensors that no file has would be without effect. */
static glofnd_status check_columns(gf_error *err, const glofnd_embedding_files *f, const gf_embedding_set *set) {
    const char *asked = f->column ? "column" : f->id ? "id" : f->label ? "label" : NULL;
    FAIL_IF(err, asked && !gf_embeddings_have_columns(set), GLOFND_E_OPTION,
            "%s names a column of Parquet files or tables; the embeddings are in none", asked);
    FAIL_IF(err, f->tensor && !gf_embeddings_have_tensors(set), GLOFND_E_OPTION,
            "tensor names one of .safetensors files; the embeddings are in none");
    return GLOFND_OK;
}

static glofnd_status open_files(gf_error *err, const glofnd_embedding_files *f, glofnd_embeddings *e) {
    const gf_embedding_input in = {
        .path = f->path, .paths = (int)f->paths, .tensor = f->tensor, .column = f->column, .id = f->id, .label = f->label};
    TRY(gf_embeddings_open(err, &in, &e->set));
    TRY(check_columns(err, f, e->set));
    if (gf_embeddings_have_names(e->set)) {
        TRY(gf_embeddings_names(err, e->set, &e->names));
        TRY(point_at(err, e, &e->names, "names", &e->name));
    }
    if (!f->label) return GLOFND_OK;
    TRY(gf_embeddings_labels(err, e->set, &e->labels));
    return point_at(err, e, &e->labels, "labels", &e->label);
}

static glofnd_status create(gf_error *err, const glofnd_embedding_files *f, glofnd_embeddings **out) {
    FAIL_IF(err, !f || !out, GLOFND_E_ARGUMENT, "%s is NULL", out ? "files" : "out");
    TRY(gf_struct_check(err, "files", "glofnd_embedding_files", f->size, sizeof *f, sizeof *f));
    FAIL_IF(err, !f->path || f->paths < 1 || f->paths > INT_MAX, GLOFND_E_ARGUMENT, "no path of a file of embeddings");
    for (int64_t i = 0; i < f->paths; i++)
        FAIL_IF(err, !f->path[i] || !f->path[i][0], GLOFND_E_ARGUMENT, "path %lld of files of embeddings is empty", (long long)i);
    glofnd_embeddings *e = calloc(1, sizeof *e);
    FAIL_IF(err, !e, GLOFND_E_MEMORY, "no memory for files of embeddings");
    const glofnd_status status = open_files(err, f, e);
    if (status == GLOFND_OK) *out = e;
    else glofnd_embeddings_close(e);
    return status;
}

glofnd_status glofnd_embeddings_open(const glofnd_embedding_files *files, glofnd_embeddings **out, char *why, size_t why_bytes) {
    gf_error err = {""};
    if (out) *out = NULL;
    return gf_explain(create(&err, files, out), &err, why, why_bytes);
}

void glofnd_embeddings_close(glofnd_embeddings *e) {
    if (!e) return;
    gf_embeddings_close(e->set);
    gf_string_list_free(&e->names);
    gf_string_list_free(&e->labels);
    free(e->name);
    free(e->label);
    free(e);
}

glofnd_status glofnd_embeddings_describe(const glofnd_embeddings *e, glofnd_embeddings_info *out) {
    if (!e || !out || gf_struct_check(NULL, "", "", out->size, sizeof *out, sizeof *out) != GLOFND_OK) return GLOFND_E_ARGUMENT;
    *out = (glofnd_embeddings_info){.size = sizeof *out,
                                    .n = gf_embeddings_rows(e->set),
                                    .dim = gf_embeddings_dim(e->set),
                                    .files = gf_embeddings_files(e->set),
                                    .columns = gf_embeddings_columns(e->set),
                                    .name = e->name,
                                    .label = e->label};
    return GLOFND_OK;
}

static glofnd_status read_rows(gf_error *err, glofnd_embeddings *e, int64_t first, int64_t rows, float *x) {
    FAIL_IF(err, !e || (!x && rows > 0), GLOFND_E_ARGUMENT, "%s is NULL", e ? "x" : "the files of embeddings");
    return gf_embeddings_read(err, e->set, first, rows, x);
}

glofnd_status glofnd_embeddings_read(glofnd_embeddings *e, int64_t first, int64_t rows, float *x, char *why, size_t why_bytes) {
    gf_error err = {""};
    return gf_explain(read_rows(&err, e, first, rows, x), &err, why, why_bytes);
}
