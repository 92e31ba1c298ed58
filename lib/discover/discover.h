/* discover.h - false negatives and duplicates among embeddings: exact thresholds, the pairs above them, and statistics.
 *
 *     gf_discover_read_set(err, set, &d);           from files
 *     gf_discover_classify(err, &d);
 *     gf_discover_run(err, &spec, &d, &r);          frees d.x once it is packed
 *     gf_discover_write(err, "out", 0, &report);    (discover_files.h)
 * With n usable rows, an anchor has m = n - 1 others. Its threshold is the rank-th largest of its m similarities: rank is
 * ceil(alpha m), or k + 1 to flag the k most similar. A pair is above the threshold if its similarity is larger, as everywhere in
 * the method: rank - 1 others are, fewer where several are equal to the threshold.
 */
#pragma once

#include "embeddings/embedding_set.h"
#include "pairs/flag_stats.h"
#include "pairs/pairs_search.h"
#include "util/components.h"

/* ----- input: embeddings of any model, with labels and names; usable rows, bad rows and exact copies ----- */

enum { GF_ROW_GOOD, GF_ROW_NOT_FINITE, GF_ROW_ZERO };

typedef struct gf_discover_data {
    int64_t n, dim;
    float *x;               /* [n][dim]; NULL after gf_discover_free_rows() */
    int32_t *label;         /* [n] negative: unknown; NULL: no labels */
    gf_string_list classes; /* names of labels 0, 1, 2 ...; empty: labels are numbers */
    const char **name;      /* [n]; NULL: no names */
    char *name_text;        /* the bytes of the names */
    char **unreadable;      /* [n] why the image of a row cannot be read; NULL: it can, or there is none. NULL: all can */
    /* set by gf_discover_classify() */
    uint8_t *kind; /* [n] GF_ROW_* */
    int64_t good_n;
    int32_t *good;    /* [good_n] usable rows; position p is row good[p] */
    int32_t *copy_of; /* [good_n] smallest position with the same bytes, possibly its own */
    int64_t distinct; /* positions that are not a copy of an earlier one */
    uint32_t crc;     /* of x: identifies the embeddings of a stored result */
} gf_discover_data;

/* Reads all rows of a set, and its names if it has some; only the names; labels and names of embedding_set.h, instead of those that d has. */
glofnd_status gf_discover_read_set(gf_error *err, gf_embedding_set *set, gf_discover_data *d);
glofnd_status gf_discover_read_set_names(gf_error *err, gf_embedding_set *set, gf_discover_data *d);
glofnd_status gf_discover_read_labels(gf_error *err, const char *path, const char *column, gf_discover_data *d);
glofnd_status gf_discover_read_names(gf_error *err, const char *path, const char *id, gf_discover_data *d);
/* Appends the rows of `part`, with labels and names if both have them (or d is empty), and frees it. E_ARGUMENT: the numbers
 * per row differ. Both are not classified yet. */
glofnd_status gf_discover_append(gf_error *err, gf_discover_data *d, gf_discover_data *part);
/* Sets kind, good, copy_of, distinct and crc. */
glofnd_status gf_discover_classify(gf_error *err, gf_discover_data *d);
/* Subtracts the mean of the usable rows of d from d and from `new` (NULL: none), and classifies both again. */
glofnd_status gf_discover_center(gf_error *err, gf_discover_data *d, gf_discover_data *new);
/* same [q->good_n]: the smallest position of d with the same bytes; -1: none. Both are classified and have x and equal dim. */
glofnd_status gf_discover_match_rows(gf_error *err, const gf_discover_data *d, const gf_discover_data *q, int32_t *same);
/* Sets unreadable[row]. d->n is known. */
glofnd_status gf_discover_set_unreadable(gf_error *err, gf_discover_data *d, int64_t row, const char *why);
/* "unreadable", "zero" or "not finite", of a bad row. */
const char *gf_discover_bad_kind(const gf_discover_data *d, int64_t row);
void gf_discover_free_rows(gf_discover_data *d);
void gf_discover_free_names(gf_discover_data *d);
void gf_discover_data_free(gf_discover_data *d); /* accepts a zeroed struct */

/* ----- search ----- */

/* What is asked for. The settings of the search are in `task`: top (as asked for; a task has n - 1 at most), below, memory, threads,
 * watch and, for a search by cells, only_dup and probe; gf_discover_task() sets the rest. */
typedef struct gf_discover_spec {
    double alpha;                  /* share of the others above the threshold, in (0, 1); not used if k > 0 */
    int64_t k;                     /* > 0: the number of others above the threshold */
    int64_t max_pairs;             /* listed pairs in total */
    int dup_exact;                 /* 1: only rows of equal bytes are duplicates, and dup is not used */
    double dup;                    /* minimum similarity of duplicates */
    int dup_fits;                  /* 1: dup may be raised after the search, by gf_discover_fit_dup() */
    int learned;                   /* thresholds by the stochastic learner instead of exact ones */
    int64_t batch, epochs, sample; /* of the learner; anchors for measuring its error */
    uint64_t seed;
    int keep_rows; /* d.x stays, for decisions that need it */
    gf_pairs_task task;
    const gf_pairs_search *search;
} gf_discover_spec;

typedef struct gf_discover_result {
    int64_t rank;
    gf_pairs_found f;                /* by position */
    gf_spread lambda;                /* of the thresholds */
    int64_t above, with_pairs;       /* directed pairs above the threshold of their anchor; anchors with such pairs */
    int64_t mutual_pairs, dup_pairs; /* undirected */
    int64_t dup_listed;              /* listed ones of dup_pairs: at most `top` per anchor */
    int64_t listed, listed_of;       /* listed pairs: after the limit max_pairs, before */
    float cutoff;                    /* of max_pairs: pairs below are not listed, and of equal ones only the first cut_ties */
    int64_t cut_ties;
    gf_components parts, groups; /* connected by mutual pairs; by duplicates */
    int32_t *stored_copy;        /* query: [f.n] first position of d with the same bytes, -1: none; else NULL */
    int64_t stored_copies;       /* query: anchors with a stored copy */
    gf_precision_recall quality; /* anchors 0: no labels */
    gf_threshold_error error;    /* of learned thresholds against exact ones, on a sample */
} gf_discover_result;

/* The rank for n usable rows. E_ARGUMENT: too few rows; E_OPTION: alpha or k out of range. */
glofnd_status gf_discover_rank(gf_error *err, const gf_discover_spec *s, int64_t n, int64_t *rank);
/* Minimum similarity of duplicates for rows of dim numbers; INFINITY: only equal rows. A dup close to 1 is lowered by the
 * rounding error of equal rows. */
float gf_discover_dup(const gf_discover_spec *s, int64_t dim);
/* Cost of the run. */
gf_pairs_plan gf_discover_plan_for(const gf_discover_spec *s, int64_t n, int64_t dim, int64_t rank);
/* Seconds that the search is expected to take, measured on random rows now; NAN: not known. */
double gf_discover_seconds(const gf_discover_spec *s, int64_t n, int64_t dim, int64_t rank);
glofnd_status gf_discover_run(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, gf_discover_result *r);
/* Rows of q against rows of d, whose stored thresholds are lambda [d->n] (NaN: bad row). Frees d->x. Sets f, lambda, above,
 * with_pairs, mutual_pairs (directed here), dup_pairs, the listed counts and the stored copies of r. */
glofnd_status gf_discover_query(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, const float *lambda,
                                const gf_discover_data *q, gf_discover_result *r);
/* The result of only_dup with dup_exact: rows of equal bytes are known before any search. */
glofnd_status gf_discover_copies(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, gf_discover_result *r);
/* What gf_discover_run() searches. */
gf_pairs_task gf_discover_task(const gf_discover_spec *s, int64_t rank, int64_t n, int64_t dim);
/* The parts of gf_discover_run() after the search: totals, components, groups and quality of r->f. label [good_n] as of
 * gf_discover_labels(): by position, NULL if no row has one. */
glofnd_status gf_discover_statistics(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, const int32_t *label,
                                     gf_discover_result *r);
glofnd_status gf_discover_labels(gf_error *err, const gf_discover_data *d, int32_t **label);
void gf_discover_result_free(gf_discover_result *r); /* accepts a zeroed struct */

/* Duplicates become the listed pairs of similarity s->dup or more: those of a search with this dup, if no list is full of them. Sets
 * copies, copy_root, groups and the counts of duplicates. */
glofnd_status gf_discover_set_dup(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, gf_discover_result *r);
/* Raises s->dup where the embeddings are so dense that it would join natural neighbours: duplicates must be nearer than the tenth
 * neighbours of rows are, by the lower fence of a box plot of log(1 - similarity); and no list may be full of them. Leaves it as it
 * is without dup_fits, and where a list is full of copies. */
glofnd_status gf_discover_fit_dup(gf_error *err, gf_discover_spec *s, const gf_discover_data *d, gf_discover_result *r);

/* How many listed pairs, and how many rows, would be duplicates at some limits; for a choice of dup. */
#define GF_DUP_LIMITS 7
typedef struct gf_dup_choice {
    double limit;        /* 0.9 ... 0.999 */
    int64_t pairs, rows; /* rows: with a neighbour of that similarity; exact */
    int cut;             /* 1: a list is full of such pairs, so there may be more than `pairs` */
} gf_dup_choice;
/* Returns how many choices there are: 0 without lists of all neighbours. */
int gf_discover_dup_choices(const gf_discover_spec *s, const gf_discover_result *r, gf_dup_choice choice[GF_DUP_LIMITS]);

/* True if anchor i and position j of d have equal bytes. */
int gf_discover_exact(const gf_discover_data *d, const gf_discover_result *r, int64_t i, int64_t j);
/* True if neighbour k of anchor i is listed. *ties, 0 before the first call, counts the pairs equal to the cutoff. */
int gf_discover_listed(const gf_discover_result *r, int64_t i, int64_t k, int64_t *ties);
/* True for one of the two list entries of an undirected pair: that of the smaller position, if it is listed there. */
int gf_discover_canonical(const gf_pairs_found *f, int64_t i, int64_t k);
