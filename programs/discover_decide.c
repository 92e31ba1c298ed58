/* discover_decide.c - what `glofnd discover` decides by: --keep and its scores, --split; see discover_job.h. */
#include "programs/discover_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io/npy.h"
#include "util/text.h"

static int read_keep(const cli_call *call, const char *keep, gf_keep_rule *rule) {
    static const char score[] = "score:";
    if (keep && strncmp(keep, score, sizeof score - 1) == 0 && keep[sizeof score - 1]) {
        *rule = GF_KEEP_SCORE;
        return CLI_OK;
    }
    for (gf_keep_rule k = GF_KEEP_FIRST; gf_keep_rule_name(k); k++)
        if (k != GF_KEEP_SCORE && strcmp(keep ? keep : "first", gf_keep_rule_name(k)) == 0) {
            *rule = k;
            return CLI_OK;
        }
    return cli_misused(call, "--keep: \"%s\"; expected first, central, largest, label or score:FILE", keep);
}

/* Names stand in file headings and on pages: letters, digits, and - . _ only. */
static int is_name(const char *text, size_t n) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return n > 0 && n <= GF_SPLIT_NAME && strspn(text, letters) >= n;
}

/* "A:B": rows A to B - 1. */
static int read_range(const char *text, gf_row_split *out) {
    char first[24];
    const char *colon = strchr(text, ':');
    int64_t end;
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof first) return 0;
    memcpy(first, text, (size_t)(colon - text));
    first[colon - text] = 0;
    if (gf_integer_read(first, &out->first) || gf_integer_read(colon + 1, &end) || out->first < 0 || end <= out->first) return 0;
    out->rows = end - out->first;
    return 1;
}

static int overlaps(const cli_discover_job *j, int k) {
    const gf_row_split *a = &j->decide.split[k];
    for (int i = 0; i < k; i++) {
        const gf_row_split *b = &j->decide.split[i];
        if (strcmp(a->name, b->name) == 0) return 1;
        if (j->split_ranges && a->first < b->first + b->rows && b->first < a->first + a->rows) return 1;
    }
    return 0;
}

int cli_decide_read(const cli_call *call, cli_discover_job *j) {
    const gf_option_strings *split = &j->f->split;
    const int rows = j->split_ranges, code = read_keep(call, j->f->keep, &j->decide.keep);
    if (code != CLI_OK) return code;
    if (split->count > GF_SPLITS_MAX) return cli_misused(call, "--split: at most %d splits", GF_SPLITS_MAX);
    for (int k = 0; k < split->count; k++) {
        gf_row_split *s = &j->decide.split[k];
        const char *equal = strchr(split->at[k], '=');
        if (!equal || !equal[1] || !is_name(split->at[k], (size_t)(equal - split->at[k])))
            return cli_misused(call, "--split: \"%s\"; expected NAME=%s, NAME of at most %d letters, digits, - . _", split->at[k],
                               rows ? "FIRST:END" : "SPEC", GF_SPLIT_NAME);
        memcpy(s->name, split->at[k], (size_t)(equal - split->at[k]));
        j->split_source[k] = equal + 1;
        if (rows && !read_range(equal + 1, s))
            return cli_misused(call, "--split: \"%s\"; with EMB or --from expected a range of rows, %s=FIRST:END", split->at[k],
                               s->name);
        if (overlaps(j, k)) return cli_misused(call, "--split: %s has the name or rows of an earlier split", s->name);
        j->decide.splits++;
    }
    return CLI_OK;
}

void cli_decide_place(cli_discover_job *j, const int64_t *rows) {
    gf_decide_spec *c = &j->decide;
    for (int k = 0; k < c->splits; k++) {
        c->split[k].first = k ? c->split[k - 1].first + rows[k - 1] : 0;
        c->split[k].rows = rows[k];
    }
}

glofnd_status cli_decide_check(gf_error *err, const cli_discover_job *j) {
    const gf_decide_spec *c = &j->decide;
    const int64_t n = j->d.n;
    for (int k = 0; k < c->splits; k++) {
        const gf_row_split *s = &c->split[k];
        FAIL_IF(err, s->first > n || s->rows > n - s->first, GLOFND_E_OPTION, "--split %s ends at row %lld; there are %lld rows",
                s->name, (long long)(s->first + s->rows), (long long)n);
    }
    return GLOFND_OK;
}

/* ----- scores of rows, by which one of a group of duplicates is kept ----- */

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

/* Size of the image of a row: that of the dataset, or the file that its name is. 0: none can be measured. */
static int size_of_image(const cli_discover_job *j, int64_t row, sized *out) {
    const gf_discover_html *h = &j->page;
    int k = h->image_sets - 1;
    if (k < 0) return j->d.name && gf_image_file_size(j->d.name[row], &out->pixels, &out->bytes);
    while (k > 0 && row < h->images[k].first) k--;
    return gf_dataset_image_size(h->images[k].data, row - h->images[k].first, &out->pixels, &out->bytes);
}

glofnd_status cli_decide_scores(gf_error *err, cli_discover_job *j) {
    if (j->decide.keep == GF_KEEP_SCORE) {
        /* score [n] from a .npy of numbers with one axis, or a text with a number per line ("nan": none). */
        const char *path = strchr(j->f->keep, ':') + 1;
        const int64_t n = j->d.n;
        j->score = malloc((size_t)n * sizeof *j->score);
        FAIL_IF(err, !j->score, GLOFND_E_MEMORY, "no memory for %lld scores", (long long)n);
        scores x = {path, j->score, n};
        const glofnd_status status = read_scores(err, &x);
        if (status != GLOFND_OK) {
            free(j->score);
            j->score = NULL;
        }
        TRY(status);
    }
    if (j->decide.keep == GF_KEEP_LARGEST) {
        /* score [d.n]: rank of the image of each row in a group by its pixels, then by the bytes of its file; NaN: unreadable, or in no
 * group. */
        const gf_discover_data *d = &j->d;
        const gf_discover_result *r = &j->r;
        sized *list = malloc((size_t)(r->groups.nodes + 1) * sizeof *list);
        int64_t found = 0;
        j->score = malloc((size_t)d->n * sizeof *j->score);
        if (!list || !j->score) {
            free(list);
            GF_FAIL(err, GLOFND_E_MEMORY, "no memory for sizes of images");
        }
        for (int64_t row = 0; row < d->n; row++) (j->score)[row] = NAN;
        for (int64_t i = 0; i < d->good_n; i++) {
            sized *x = &list[found];
            if (r->groups.of[i] < 0) continue;
            *x = (sized){.row = d->good[i]};
            found += size_of_image(j, x->row, x);
        }
        if (found) qsort(list, (size_t)found, sizeof *list, by_size);
        for (int64_t k = 0, rank = 0; k < found; k++) {
            rank += k > 0 && by_size(&list[k - 1], &list[k]) != 0;
            (j->score)[list[k].row] = (double)rank;
        }
        free(list);
        FAIL_IF(
            err, r->groups.nodes && !found, GLOFND_E_ARGUMENT,
            "--keep largest: no image of a duplicate can be measured; names must be paths of JPEG, PNG or WebP files, or --data "
            "of such");
    }
    j->decide.score = j->score;
    return GLOFND_OK;
}
