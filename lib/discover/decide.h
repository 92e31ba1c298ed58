/* decide.h - decisions from a discovery: rows to keep and to remove, outliers, wrong labels, leaks between splits, a subset.
 *
 *     gf_decide(err, &spec, &s, &d, &r, &out);     after gf_discover_run()
 *     gf_decide_write(err, &folder, &report);      keep.txt, remove.txt, ... (discover_files.c)
 * A row is removed if it is a duplicate of a row that is kept, or bad; all others are kept. Groups of duplicates are chains: rows
 * connected by duplicates, of which several may be kept. Positions are those of discover.h: position p is row d.good[p], and
 * positions ascend with rows.
 */
#pragma once

#include "discover/discover.h"
#include "pairs/pairs_sweep.h"

typedef enum gf_keep_rule {
    GF_KEEP_FIRST,   /* the lowest row first */
    GF_KEEP_CENTRAL, /* the highest mean similarity to the others of its chain first; needs d.x or rows */
    GF_KEEP_SCORE,   /* the highest score first */
    GF_KEEP_LARGEST, /* the same, of image sizes */
    GF_KEEP_LABEL    /* rows with the most frequent label of their chain first */
} gf_keep_rule;

#define GF_SPLITS_MAX 16
#define GF_SPLIT_NAME 32 /* characters of a name */
#define GF_OUTLIER_NEIGHBOURS 10
#define GF_OUTLIERS_LISTED 1000 /* by default */

typedef struct gf_row_split { /* rows first .. first + rows - 1 */
    char name[GF_SPLIT_NAME + 1];
    int64_t first, rows;
} gf_row_split;

typedef struct gf_decide_spec {
    gf_keep_rule keep;   /* which of two duplicates is kept; equal by this rule: the lower row */
    const double *score; /* [d.n] larger is better; NaN: worst. SCORE and LARGEST */
    gf_row_split split[GF_SPLITS_MAX];
    int splits;                /* 0: none. Rows of an earlier split are kept rather than those of a later one */
    int64_t outliers;          /* to list at most */
    int64_t negatives;         /* most similar ones that are not above the threshold, of each row: at most GF_BELOW_MAX */
    int64_t sample;            /* rows of a diverse subset; needs d.x or rows */
    int graph;                 /* also the graph of neighbours */
    const gf_row_source *rows; /* the embeddings, where d.x is not in memory; NULL: none */
    const float *pred_probs;   /* [d.n][pred_classes] probability of label 0, 1, ... of each row, from a classifier that has not
                                * learned the row's label: label issues are those of confident learning. NULL: neighbours decide */
    int64_t pred_classes;      /* above every label */
    int64_t most;              /* rows to keep at most, by a lower similarity of duplicates if need be; 0: as many as there are */
    int probe;                 /* 1: evidence of a classifier, next to the votes of the neighbours; needs d.x or rows */
} gf_decide_spec;

typedef struct gf_outlier {
    int32_t position, nearest; /* nearest one that is no duplicate; -1: none is listed */
    float similarity;          /* to it */
    float score; /* mean similarity of the nearest ones, GF_OUTLIER_NEIGHBOURS at most, that are no duplicates; none: lambda */
} gf_outlier;

typedef struct gf_label_issue {
    int32_t position, suggested;
    int32_t votes, best, own; /* labelled mutual neighbours; with the suggested label; with the label of the row */
    double score;             /* > 0: evidence for the suggested label minus that for the own one; pred_probs: - log of
                         * the own label's probability */
    double probability;       /* that the label is wrong and the suggested one right; pred_probs: of the suggested label */
} gf_label_issue;

typedef struct gf_leak_pair {
    int32_t a, b; /* positions */
} gf_leak_pair;

typedef struct gf_decisions {
    int32_t *kept;     /* [f.n] itself: kept; else the most similar of the rows it is a duplicate of that were kept before */
    float *similarity; /* [f.n] to that row; NaN: kept */
    int64_t keep, duplicates, bad;
    int64_t other_label;                 /* removed rows with another label than the row that is kept for them */
    gf_dup_choice choice[GF_DUP_LIMITS]; /* [choices] what other limits of duplicates would find */
    int choices;
    double limit;        /* similarity of a removed row to its kept one, at least: that of duplicates, or what `most` needs */
    int64_t unchecked;   /* kept rows with more duplicates than are listed, whose embeddings are not there to compare */
    gf_outlier *outlier; /* [outliers] lowest score first */
    int64_t outliers, outliers_found;
    double outlier_limit;  /* a score below it is that of an outlier */
    gf_label_issue *issue; /* [issues] highest score first */
    int64_t issues;
    int issues_confident;                        /* 1: of confident learning, by pred_probs */
    int64_t leak[GF_SPLITS_MAX][GF_SPLITS_MAX];  /* rows of split a with a row of split b in their group (a = b: another row) */
    int64_t exact[GF_SPLITS_MAX][GF_SPLITS_MAX]; /* the same of equal bytes */
    /* [unlisted_count] rows of a split that have a row of another split in their group (with dup_exact: of their bytes), but
     * in no listed pair; each with the lowest such row. With them the list of leaks has every row that `leak` counts. */
    gf_leak_pair *unlisted;
    int64_t unlisted_count;
    int32_t *sample; /* [samples] positions in the order of choice */
    int64_t samples;
    double sample_reach; /* smallest similarity of a kept row to its most similar sample */
} gf_decisions;

glofnd_status gf_decide(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                        const gf_discover_result *r, gf_decisions *out);
void gf_decisions_free(gf_decisions *x); /* accepts a zeroed struct */

/* "first", "central", ...: its name; NULL: no such rule. */
const char *gf_keep_rule_name(gf_keep_rule rule);
/* The split of a row; -1: none. */
int gf_split_of(const gf_decide_spec *c, int64_t row);
/* Part of gf_decide(): sets issue and issues (label_issues.c). */
glofnd_status gf_label_issues(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                              const gf_discover_result *r, gf_decisions *out);
/* Part of that: *evidence [good_n][classes], log probabilities by a classifier that has not seen the row, up to a term and a factor.
 * class_of [good_n]: -1: unknown. The caller frees it. */
glofnd_status gf_probe_labels(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                              const int32_t *class_of, int64_t classes, float **evidence);

/* ----- the embeddings, in memory or read again ----- */

typedef struct row_piece { /* usable rows: positions `first` and following ones */
    const gf_discover_data *d;
    const float *x; /* rows from `base` on */
    int64_t base, first, count;
} row_piece;

static inline const float *gf_piece_row(const row_piece *p, int64_t position) {
    return p->x + ((int64_t)p->d->good[position] - p->base) * p->d->dim;
}

/* Visits all usable rows, piece by piece; needs d->x or c->rows. */
glofnd_status gf_decide_visit_rows(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                                   void (*visit)(void *user, const row_piece *piece), void *user);
