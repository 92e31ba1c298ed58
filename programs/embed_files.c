/* embed_files.c - see embed_files.h. */
#include "programs/embed_files.h"

#include <stdio.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/npy.h"
#include "run/run_folder.h"
#include "util/text.h"

enum { NAME = 1024 };

/* ----- targets ----- */

static int ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static glofnd_status check_npy(gf_error *err, const char *flag, const char *path) {
    FAIL_IF(err, path && !ends_with(path, ".npy"), GLOFND_E_OPTION, "%s: %.300s; expected a name that ends in .npy", flag, path);
    return GLOFND_OK;
}

glofnd_status embed_targets_check(gf_error *err, const embed_targets *t) {
    static const char *const flag[] = {"--out", "--labels", "--samples", "--names"};
    const char *const path[] = {t->out, t->labels, t->samples, t->names};
    for (size_t i = 0; i < 4; i++) TRY(gf_own_files_check(err, flag[i], path[i]));
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            FAIL_IF(err, path[i] && path[k] && gf_path_same(path[i], path[k]), GLOFND_E_OPTION,
                    "--out, --labels, --samples and --names must be different files");
    FAIL_IF(err, !ends_with(t->out, ".npy") && !ends_with(t->out, ".safetensors") && !ends_with(t->out, ".csv"), GLOFND_E_OPTION,
            "--out: the name %.300s says no format; expected .npy, .safetensors or .csv at its end", t->out);
    TRY(check_npy(err, "--labels", t->labels));
    TRY(check_npy(err, "--samples", t->samples));
    for (size_t i = 0; i < 4; i++)
        if (path[i]) TRY(gf_writer_check(err, path[i]));
    return GLOFND_OK;
}

/* ----- writing ----- */

/* On one line, in UTF-8, whatever the file is called. */
static void name_of(const embed_rows *r, int64_t row, char out[NAME]) {
    gf_dataset_name(r->data, r->sample[row], out, NAME);
    gf_utf8_trim(out);
    gf_utf8_clean(out, ' ');
}

static glofnd_status write_names(gf_error *err, const char *path, const embed_rows *r) {
    gf_writer w;
    char name[NAME];
    TRY(gf_writer_open(err, &w, path));
    for (int64_t i = 0; i < r->f->n; i++) {
        name_of(r, i, name);
        gf_put(&w, name, strlen(name));
        gf_put(&w, "\n", 1);
    }
    return gf_writer_finish(&w);
}

static void put_text(gf_writer *w, const char *text) { gf_put(w, text, strlen(text)); }

/* In quotes, which are doubled inside. */
static void put_quoted(gf_writer *w, const char *text) {
    put_text(w, "\"");
    for (; *text; text++) {
        if (*text == '"') put_text(w, "\"");
        gf_put(w, text, 1);
    }
    put_text(w, "\"");
}

static glofnd_status write_csv(gf_error *err, const char *path, const embed_rows *r) {
    gf_writer w;
    char text[64], name[NAME];
    TRY(gf_writer_open(err, &w, path));
    put_text(&w, "sample,name,label");
    for (int64_t k = 0; k < r->f->dim; k++) snprintf(text, sizeof text, ",x%lld", (long long)k), put_text(&w, text);
    put_text(&w, "\n");
    for (int64_t i = 0; i < r->f->n; i++) {
        snprintf(text, sizeof text, "%lld,", (long long)r->sample[i]), put_text(&w, text);
        name_of(r, i, name), put_quoted(&w, name);
        snprintf(text, sizeof text, ",%d", (int)r->f->label[i]), put_text(&w, text);
        for (int64_t k = 0; k < r->f->dim; k++)
            snprintf(text, sizeof text, ",%.9g", (double)r->f->x[i * r->f->dim + k]), put_text(&w, text);
        put_text(&w, "\n");
    }
    return gf_writer_finish(&w);
}

static glofnd_status write_safetensors(gf_error *err, const char *path, const embed_rows *r) {
    const gf_features *f = r->f;
    const gf_st_tensor list[] = {
        {.name = "embeddings", .type = GF_ST_F32, .rank = 2, .shape = {f->n, f->dim}, .data = f->x},
        {.name = "labels", .type = GF_ST_I32, .rank = 1, .shape = {f->n}, .data = f->label},
        {.name = "samples", .type = GF_ST_I64, .rank = 1, .shape = {f->n}, .data = r->sample},
    };
    return gf_st_write(err, path, list, 3, NULL, 0);
}

static glofnd_status write_npy(gf_error *err, const char *path, gf_npy_type type, int rank, int64_t n, int64_t dim,
                               const void *x) {
    const gf_npy a = {.type = type, .rank = rank, .shape = {n, dim}, .data = (void *)x};
    return gf_npy_write(err, path, &a);
}

glofnd_status embed_write(gf_error *err, const embed_targets *t, const embed_rows *r) {
    const gf_features *f = r->f;
    if (ends_with(t->out, ".csv")) TRY(write_csv(err, t->out, r));
    else if (ends_with(t->out, ".safetensors")) TRY(write_safetensors(err, t->out, r));
    else TRY(write_npy(err, t->out, GF_NPY_F4, 2, f->n, f->dim, f->x));
    if (t->labels) TRY(write_npy(err, t->labels, GF_NPY_I4, 1, f->n, 0, f->label));
    if (t->samples) TRY(write_npy(err, t->samples, GF_NPY_I8, 1, f->n, 0, r->sample));
    return t->names ? write_names(err, t->names, r) : GLOFND_OK;
}
