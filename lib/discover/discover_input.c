/* discover_input.c - the input of discovery: reading, joining and freeing it; see discover.h. */
#include <stdlib.h>
#include <string.h>

#include "discover/discover.h"
#include "embeddings/embedding_set.h"

/* ----- files ----- */

glofnd_status gf_discover_read_set(gf_error *err, gf_embedding_set *set, gf_discover_data *d) {
    TRY(gf_embeddings_load_set(err, set, &d->n, &d->dim, &d->x));
    return gf_embeddings_have_names(set) ? gf_discover_read_set_names(err, set, d) : GLOFND_OK;
}

glofnd_status gf_discover_read_set_names(gf_error *err, gf_embedding_set *set, gf_discover_data *d) {
    gf_string_list names = {0};
    glofnd_status status = gf_embeddings_names(err, set, &names);
    gf_discover_free_names(d);
    if (status == GLOFND_OK) status = gf_row_names_of_list(err, &names, d->n, &d->name, &d->name_text);
    gf_string_list_free(&names);
    return status;
}

static void discover_free_labels(gf_discover_data *d) {
    free(d->label);
    gf_string_list_free(&d->classes);
    d->label = NULL;
}

glofnd_status gf_discover_read_labels(gf_error *err, const char *path, const char *column, gf_discover_data *d) {
    discover_free_labels(d);
    return gf_row_labels_read(err, path, column, d->n, &d->label, &d->classes);
}

glofnd_status gf_discover_read_names(gf_error *err, const char *path, const char *id, gf_discover_data *d) {
    gf_discover_free_names(d);
    return gf_row_names_read(err, path, id, d->n, &d->name, &d->name_text);
}

/* ----- several sources as one ----- */

static glofnd_status append(gf_error *err, gf_discover_data *d, gf_discover_data *part) {
    FAIL_IF(err, part->dim != d->dim, GLOFND_E_ARGUMENT, "embeddings of %lld and of %lld dimensions do not go together",
            (long long)d->dim, (long long)part->dim);
    FAIL_IF(err, d->n + part->n >= INT32_MAX, GLOFND_E_ARGUMENT, "%lld rows in total; the limit is 2^31 - 2",
            (long long)(d->n + part->n));
    const size_t row = (size_t)d->dim * sizeof *d->x;
    float *x = realloc(d->x, (size_t)(d->n + part->n) * row);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)(d->n + part->n), (long long)d->dim);
    memcpy(x + d->n * d->dim, part->x, (size_t)part->n * row);
    d->x = x;
    if (d->label) {
        int32_t *label = part->label ? realloc(d->label, (size_t)(d->n + part->n) * sizeof *label) : NULL;
        FAIL_IF(err, part->label && !label, GLOFND_E_MEMORY, "no memory for labels");
        if (label) memcpy(label + d->n, part->label, (size_t)part->n * sizeof *label);
        else free(d->label);
        d->label = label;
    }
    /* All names in one new block. */
    size_t bytes = 1;
    if (d->name) {
        const int both = part->name != NULL;
        for (int64_t i = 0; both && i < d->n + part->n; i++) bytes += strlen(i < d->n ? d->name[i] : part->name[i - d->n]) + 1;
        char *text = both ? malloc(bytes) : NULL, *at = text;
        const char **name = both ? malloc((size_t)(d->n + part->n) * sizeof *name) : NULL;
        if (both && (!text || !name)) {
            free(text);
            free(name);
            GF_FAIL(err, GLOFND_E_MEMORY, "no memory for names");
        }
        for (int64_t i = 0; both && i < d->n + part->n; i++) {
            const char *one = i < d->n ? d->name[i] : part->name[i - d->n];
            name[i] = memcpy(at, one, strlen(one) + 1);
            at += strlen(one) + 1;
        }
        free(d->name);
        free(d->name_text);
        d->name = name, d->name_text = text;
    }
    if (d->unreadable || part->unreadable) {
        char **all = realloc(d->unreadable, (size_t)(d->n + part->n) * sizeof *all);
        FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory to note unreadable images");
        for (int64_t i = 0; !d->unreadable && i < d->n; i++) all[i] = NULL;
        for (int64_t i = 0; i < part->n; i++) all[d->n + i] = part->unreadable ? part->unreadable[i] : NULL;
        free(part->unreadable); /* its texts have moved */
        part->unreadable = NULL, d->unreadable = all;
    }
    d->n += part->n;
    return GLOFND_OK;
}

glofnd_status gf_discover_append(gf_error *err, gf_discover_data *d, gf_discover_data *part) {
    glofnd_status status = GLOFND_OK;
    if (d->n == 0) {
        gf_discover_data_free(d);
        *d = *part;
        *part = (gf_discover_data){0};
    } else status = append(err, d, part);
    gf_discover_data_free(part);
    return status;
}

/* ----- memory ----- */

void gf_discover_free_rows(gf_discover_data *d) {
    free(d->x);
    d->x = NULL;
}

glofnd_status gf_discover_set_unreadable(gf_error *err, gf_discover_data *d, int64_t row, const char *why) {
    FAIL_IF(err, row < 0 || row >= d->n, GLOFND_E_ARGUMENT, "no row %lld", (long long)row);
    if (!d->unreadable) d->unreadable = calloc((size_t)d->n, sizeof *d->unreadable);
    char *copy = d->unreadable ? strdup(why) : NULL;
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory to note an unreadable image");
    free(d->unreadable[row]);
    d->unreadable[row] = copy;
    return GLOFND_OK;
}

const char *gf_discover_bad_kind(const gf_discover_data *d, int64_t row) {
    if (d->unreadable && d->unreadable[row]) return "unreadable";
    return d->kind[row] == GF_ROW_ZERO ? "zero" : "not finite";
}

void gf_discover_free_names(gf_discover_data *d) {
    free(d->name);
    free(d->name_text);
    d->name = NULL, d->name_text = NULL;
}

void gf_discover_data_free(gf_discover_data *d) {
    free(d->x);
    discover_free_labels(d);
    free(d->name);
    free(d->name_text);
    for (int64_t i = 0; d->unreadable && i < d->n; i++) free(d->unreadable[i]);
    free(d->unreadable);
    free(d->kind);
    free(d->good);
    free(d->copy_of);
    *d = (gf_discover_data){0};
}
