/* row_scores.c - see row_scores.h. */
#include "data/row_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/file.h"
#include "io/npy.h"
#include "util/strings/number_text.h"

static int ends_in_npy(const char *path) {
    const size_t n = strlen(path);
    return n >= 4 && strcmp(path + n - 4, ".npy") == 0;
}

static glofnd_status read_npy(gf_error *err, const char *path, int64_t n, double *score) {
    gf_npy a = {0};
    TRY(gf_npy_read(err, path, &a));
    const int fits = a.rank == 1 && a.shape[0] == n;
    if (!fits)
        gf_fail(err, GLOFND_E_ARGUMENT,
                "%.300s: %lld numbers with %d axes for %lld embeddings; expected one axis, a number per row", path,
                (long long)a.count, a.rank, (long long)n);
    for (int64_t i = 0; fits && i < n; i++) score[i] = gf_npy_f64(&a, i);
    gf_npy_free(&a);
    return fits ? GLOFND_OK : GLOFND_E_ARGUMENT;
}

typedef struct lines {
    const char *path;
    double *score;
    int64_t n, used;
} lines;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    lines *x = user;
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r\n", end[-1])) *--end = 0;
    while (*line && strchr(" \t", *line)) line++;
    double value = NAN;
    const char *why = strcasecmp(line, "nan") == 0 ? NULL : gf_number_read(line, &value);
    FAIL_IF(err, why, GLOFND_E_FORMAT, "%.300s: line %d: \"%.40s\" %s", x->path, number, line, why);
    if (x->used < x->n) x->score[x->used] = value;
    x->used++;
    return GLOFND_OK;
}

static glofnd_status read_text(gf_error *err, const char *path, int64_t n, double *score) {
    lines x = {.path = path, .score = score, .n = n};
    TRY(gf_each_line(err, path, take_line, &x));
    FAIL_IF(err, x.used != n, GLOFND_E_ARGUMENT, "%.300s: %lld number%s for %lld embeddings; expected one per line and row", path,
            (long long)x.used, x.used == 1 ? "" : "s", (long long)n);
    return GLOFND_OK;
}

glofnd_status gf_row_scores_read(gf_error *err, const char *path, int64_t n, double **score) {
    *score = malloc((size_t)n * sizeof **score);
    FAIL_IF(err, !*score, GLOFND_E_MEMORY, "no memory for %lld scores", (long long)n);
    const glofnd_status status = ends_in_npy(path) ? read_npy(err, path, n, *score) : read_text(err, path, n, *score);
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
