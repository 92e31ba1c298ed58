/* row_scores.c - see row_scores.h. */
#include "programs/row_scores.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "io/npy.h"
#include "util/text.h"

typedef struct scores {
    const char *path;
    double *score; /* [n] */
    int64_t n;
} scores;

static glofnd_status take_array(gf_error *err, void *user, const gf_npy *a) {
    const scores *x = user;
    FAIL_IF(err, a->rank != 1 || a->shape[0] != x->n, GLOFND_E_ARGUMENT,
            "%.300s: %lld numbers with %d axes for %lld embeddings; expected one axis, a number per row", x->path,
            (long long)a->count, a->rank, (long long)x->n);
    for (int64_t i = 0; i < x->n; i++) x->score[i] = gf_npy_f64(a, i);
    return GLOFND_OK;
}

static glofnd_status take_line(gf_error *err, void *user, const char *text, int64_t row) {
    const scores *x = user;
    double value = NAN;
    const char *why = strcasecmp(text, "nan") == 0 ? NULL : gf_number_read(text, &value);
    FAIL_IF(err, why, GLOFND_E_FORMAT, "%.300s: line %lld: \"%.40s\" %s", x->path, (long long)row + 1, text, why);
    if (row < x->n) x->score[row] = value;
    return GLOFND_OK;
}

static glofnd_status read_scores(gf_error *err, scores *x) {
    const gf_row_values v = {.path = x->path, .array = take_array, .line = take_line, .user = x};
    int64_t rows = 0;
    TRY(gf_row_values_read(err, &v, &rows));
    FAIL_IF(err, rows != x->n, GLOFND_E_ARGUMENT, "%.300s: %lld number%s for %lld embeddings; expected one per line and row",
            x->path, (long long)rows, rows == 1 ? "" : "s", (long long)x->n);
    return GLOFND_OK;
}

glofnd_status gf_row_scores_read(gf_error *err, const char *path, int64_t n, double **score) {
    *score = malloc((size_t)n * sizeof **score);
    FAIL_IF(err, !*score, GLOFND_E_MEMORY, "no memory for %lld scores", (long long)n);
    scores x = {path, *score, n};
    const glofnd_status status = read_scores(err, &x);
    if (status != GLOFND_OK) {
        free(*score);
        *score = NULL;
    }
    return status;
}

/* ----- sizes of images ----- */

typedef struct sized {
    int64_t pixels, row;
    uint64_t bytes;
} sized;

static int by_size(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->pixels != y->pixels) return x->pixels < y->pixels ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int of_file(const gf_discover_data *d, int64_t row, sized *out) {
    return d->name && gf_image_file_size(d->name[row], &out->pixels, &out->bytes);
}

glofnd_status gf_row_scores_of_images(gf_error *err, const gf_discover_data *d, const gf_discover_result *r,
                                      gf_row_image_size image, const void *user, double **score) {
    sized *list = malloc((size_t)(r->groups.nodes + 1) * sizeof *list);
    int64_t found = 0;
    *score = malloc((size_t)d->n * sizeof **score);
    if (!list || !*score) {
        free(list);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for sizes of images");
    }
    for (int64_t row = 0; row < d->n; row++) (*score)[row] = NAN;
    for (int64_t i = 0; i < d->good_n; i++) {
        sized *x = &list[found];
        if (r->groups.of[i] < 0) continue;
        *x = (sized){.row = d->good[i]};
        found += image ? image(user, x->row, &x->pixels, &x->bytes) : of_file(d, x->row, x);
    }
    if (found) qsort(list, (size_t)found, sizeof *list, by_size);
    for (int64_t k = 0, rank = 0; k < found; k++) {
        rank += k > 0 && by_size(&list[k - 1], &list[k]) != 0;
        (*score)[list[k].row] = (double)rank;
    }
    free(list);
    FAIL_IF(err, r->groups.nodes && !found, GLOFND_E_ARGUMENT,
            "--keep largest: no image of a duplicate can be measured; names must be paths of JPEG, PNG or WebP files, or --data "
            "of such");
    return GLOFND_OK;
}
