/* discover.h - false negatives and duplicates among embeddings: exact thresholds, what lies above them, and what it amounts to.
 *
 *     gf_discover_read(err, "emb.npy", NULL, &d);   gf_discover_sort(err, &d);
 *     gf_discover_run(err, &spec, &d, &r);          frees d.x as soon as it is packed
 *     gf_discover_write(err, "out", 0, &report);    (discover_files.h)
 * With n usable rows, an anchor has m = n - 1 others. Its threshold is the rank-th largest of its m similarities: rank is
 * ceil(alpha m), or k + 1 where the k most similar are wanted. A pair lies above it if its similarity is larger, as everywhere in
 * the method: rank - 1 others do, fewer where several are equal to the threshold.
 */
#ifndef GF_DISCOVER_DISCOVER_H
#define GF_DISCOVER_DISCOVER_H

#include "discover/discover_input.h"
#include "eval/flags/fn_precision_recall.h"
#include "eval/flags/threshold_error.h"
#include "pairs/pairs_search.h"
#include "util/components.h"

#define GF_DUP_EXACT 3.0 /* as dup: only rows of equal bytes are duplicates */

typedef struct gf_discover_spec {
    double alpha;                  /* share of the others, in (0, 1) */
    int64_t k;                     /* > 0: instead of alpha */
    int64_t top, max_pairs;        /* pairs to list per anchor; in all */
    int64_t edge;                  /* neighbours just below the threshold to keep, for the page; at most GF_PAIRS_EDGE */
    double dup;                    /* similarity of duplicates, or GF_DUP_EXACT */
    int learned;                   /* thresholds by the stochastic learner instead */
    int64_t batch, epochs, sample; /* of the learner; anchors its error is measured on */
    uint64_t seed;
    size_t memory; /* bytes of the lists of candidates */
    int threads;
    gf_job_progress watch;
    const gf_pairs_search *pass;
} gf_discover_spec;

typedef struct gf_discover_result {
    int64_t rank;
    gf_pairs_found f;                /* by position */
    gf_spread lambda;                /* of the thresholds */
    int64_t above, with_pairs;       /* directed pairs above the threshold of their anchor; anchors that have some */
    int64_t mutual_pairs, dup_pairs; /* not directed */
    int64_t dup_listed;              /* of dup_pairs, in the lists: an anchor's beyond `top` are not */
    int64_t listed, listed_of;       /* pairs in the lists: after max_pairs, before */
    float cutoff;                    /* max_pairs cut: pairs below this are not listed, of those equal to it the first cut_ties */
    int64_t cut_ties;
    gf_components parts, groups; /* connected by mutual pairs; by duplicates */
    int32_t *stored_copy;        /* query: [f.n] first position of d with the same bytes, -1: none; else NULL */
    int64_t stored_copies;       /* query: anchors that have one */
    gf_precision_recall quality; /* anchors 0: no labels */
    gf_threshold_error error;    /* of learned thresholds against exact ones, on a sample */
} gf_discover_result;

/* The rank for n usable rows; where there is none E_ARGUMENT, or E_OPTION: not with this alpha or k. */
glofnd_status gf_discover_rank(gf_error *err, const gf_discover_spec *s, int64_t n, int64_t *rank);
/* The similarity from which on rows of dim numbers are duplicates; INFINITY: only equal rows are. A dup so near to 1 that the
 * roundings of equal rows could fall below it is lowered by these. */
float gf_discover_dup(const gf_discover_spec *s, int64_t dim);
/* What the run will take. */
gf_pairs_plan gf_discover_plan_for(const gf_discover_spec *s, int64_t n, int64_t dim, int64_t rank);
glofnd_status gf_discover_run(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, gf_discover_result *r);
/* The rows of q against those of d, whose thresholds lambda [d->n] (NaN: a bad row) are stored. Frees d->x. r has f, lambda,
 * above, with_pairs, mutual_pairs (directed here), dup_pairs, what is listed, and stored copies. */
glofnd_status gf_discover_query(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, const float *lambda,
                                const gf_discover_data *q, gf_discover_result *r);
void gf_discover_result_free(gf_discover_result *r); /* a zeroed one is fine */

/* Thresholds [d->good_n] by the learner, visiting all rows `epochs` times in random batches. */
glofnd_status gf_discover_learn(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, double alpha, float *lambda);
/* Exact thresholds of a sample of anchors against learned ones. */
glofnd_status gf_discover_learn_error(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, void *state,
                                      int64_t rank, const float *lambda, gf_threshold_error *out);

/* Whether anchor i and position j of d are rows of equal bytes. */
int gf_discover_exact(const gf_discover_data *d, const gf_discover_result *r, int64_t i, int64_t j);
/* Whether neighbour k of anchor i is to be listed; `ties` counts, from 0, those equal to the cutoff and is kept by the caller. */
int gf_discover_listed(const gf_discover_result *r, int64_t i, int64_t k, int64_t *ties);
/* Of the two lists that have a pair, one speaks for it: that of the smaller position. */
int gf_discover_speaks(const gf_pairs_found *f, int64_t i, int64_t k);

#endif
