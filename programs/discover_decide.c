/* discover_decide.c - see discover_decide.h. */
#include "programs/discover_decide.h"

#include <string.h>

#include "programs/row_scores.h"
#include "util/text.h"

static int read_keep(const cli_call *call, const char *keep, cli_decide *out) {
    static const char score[] = "score:";
    out->keep = keep;
    if (keep && strncmp(keep, score, sizeof score - 1) == 0 && keep[sizeof score - 1]) {
        out->spec.keep = GF_KEEP_SCORE;
        return CLI_OK;
    }
    for (gf_keep_rule k = GF_KEEP_FIRST; gf_keep_rule_name(k); k++)
        if (k != GF_KEEP_SCORE && strcmp(keep ? keep : "first", gf_keep_rule_name(k)) == 0) {
            out->spec.keep = k;
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

static int overlaps(const cli_decide *c, int k) {
    const gf_row_split *a = &c->spec.split[k];
    for (int j = 0; j < k; j++) {
        const gf_row_split *b = &c->spec.split[j];
        if (strcmp(a->name, b->name) == 0) return 1;
        if (c->ranges && a->first < b->first + b->rows && b->first < a->first + a->rows) return 1;
    }
    return 0;
}

int cli_decide_read(const cli_call *call, const char *keep, const gf_option_strings *split, int rows, cli_decide *out) {
    out->ranges = rows;
    const int code = read_keep(call, keep, out);
    if (code != CLI_OK) return code;
    if (split->count > GF_SPLITS_MAX) return cli_misused(call, "--split: at most %d splits", GF_SPLITS_MAX);
    for (int k = 0; k < split->count; k++) {
        gf_row_split *s = &out->spec.split[k];
        const char *equal = strchr(split->at[k], '=');
        if (!equal || !equal[1] || !is_name(split->at[k], (size_t)(equal - split->at[k])))
            return cli_misused(call, "--split: \"%s\"; expected NAME=%s, NAME of at most %d letters, digits, - . _", split->at[k],
                               rows ? "FIRST:END" : "SPEC", GF_SPLIT_NAME);
        memcpy(s->name, split->at[k], (size_t)(equal - split->at[k]));
        out->split[k] = equal + 1;
        if (rows && !read_range(equal + 1, s))
            return cli_misused(call, "--split: \"%s\"; with EMB or --from expected a range of rows, %s=FIRST:END", split->at[k],
                               s->name);
        if (overlaps(out, k)) return cli_misused(call, "--split: %s has the name or rows of an earlier split", s->name);
        out->spec.splits++;
    }
    return CLI_OK;
}

void cli_decide_place(cli_decide *c, const int64_t *rows) {
    for (int k = 0; k < c->spec.splits; k++) {
        c->spec.split[k].first = k ? c->spec.split[k - 1].first + rows[k - 1] : 0;
        c->spec.split[k].rows = rows[k];
    }
}

glofnd_status cli_decide_check(gf_error *err, const cli_decide *c, int64_t n) {
    for (int k = 0; k < c->spec.splits; k++) {
        const gf_row_split *s = &c->spec.split[k];
        FAIL_IF(err, s->first > n || s->rows > n - s->first, GLOFND_E_OPTION, "--split %s ends at row %lld; there are %lld rows",
                s->name, (long long)(s->first + s->rows), (long long)n);
    }
    return GLOFND_OK;
}

static int size_of_row(const void *user, int64_t row, int64_t *pixels, uint64_t *bytes) {
    const gf_discover_html *h = user;
    int k = h->image_sets - 1;
    while (k > 0 && row < h->images[k].first) k--;
    return gf_dataset_image_size(h->images[k].data, row - h->images[k].first, pixels, bytes);
}

glofnd_status cli_decide_scores(gf_error *err, cli_decide *c, const gf_discover_data *d, const gf_discover_result *r,
                                const gf_discover_html *images) {
    if (c->spec.keep == GF_KEEP_SCORE) TRY(gf_row_scores_read(err, strchr(c->keep, ':') + 1, d->n, &c->score));
    if (c->spec.keep == GF_KEEP_LARGEST)
        TRY(gf_row_scores_of_images(err, d, r, images->image_sets ? size_of_row : NULL, images, &c->score));
    c->spec.score = c->score;
    return GLOFND_OK;
}
