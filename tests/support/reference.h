/* reference.h - one training step as a specification: dense matrices, double precision, plain loops, O(B^2) memory.
 *
 * Written from the definitions alone and from none of the library's code, so that agreement of the two means something. Slow on
 * purpose: every line should be readable against the paper and docs/method.md.
 *
 * Index: row r = 2*i + w is (sample i, view or modality w); its positive is r^1. Columns are numbered the same way. With two
 * views every row of a different sample is a negative, n = 2(B-1); with image and text only those of the other modality, n = B-1.
 *
 * Behind the 2B columns come those of candidates beyond the batch: first those of a, then those of b. They are no rows.
 *
 * State is kept as glofnd_anchor, in float32, because that is the contract of the store; everything else is double.
 *     ref_store s;  ref_store_init(&s, &spec);
 *     ref_step r;   ref_step_run(&options, &s, &batch, NULL, &r);  ...  ref_step_free(&r);
 */
#pragma once

#include "glofnd.h"
#include "method/formulas/record.h"

typedef struct ref_ring { /* the last `capacity` embeddings, oldest overwritten first */
    int64_t capacity, dim, count, next;
    double *z;   /* [capacity][dim] */
    int64_t *id; /* [capacity] */
} ref_ring;

typedef struct ref_store {
    int64_t n;
    int modalities;
    glofnd_anchor *row[2]; /* [side][n] */
    uint16_t *bank[2];     /* [side][n][bank_dim] similarity BANK: averages, in float16; zeros: never seen */
    int64_t bank_dim;
    glofnd_anchor shared[2]; /* the one lambda of SINGLE and of the warm-up, per side */
    ref_ring ring[2];        /* that the anchors of a side are compared with: both views; or texts for images, images for texts */
} ref_store;

typedef struct ref_step {
    int64_t batch, rows, dim; /* B, 2B, d */
    int64_t cols, extra_a;    /* 2B and all candidates, C; candidates of a */
    int64_t *id;              /* [C] -1: unknown */
    int64_t *set; /* [C] columns of one number >= 0 are positives of each other; candidates: of the sample with their id */
    int two_views;
    int forward;           /* only even rows are anchors */
    double *h, *norm, *z;  /* [C][d], [C], [C][d] */
    double *sim;           /* [C][C], of which the first 2B rows have pairs */
    double *b;             /* [2B][d] vectors whose similarities are compared with thresholds: z, or averages (BANK) */
    double *judged;        /* [C][C] these similarities */
    int64_t copies;        /* of each: 2 where both views of a sample have one average */
    double *theta;         /* [2B] threshold (of the score, for FNC TOPK) */
    uint8_t *would, *flag; /* [C][C] flagged by the detector; flagged in the loss */
    double *tau;           /* [2B] temperature of the row in this step */
    double *count, *align; /* [2B] c_r, A_r */
    double *ghat, *u;      /* [2B] */
    double *dsim;          /* [C][C] dL/dS as a function of independent entries */
    double *dz, *grad;     /* [C][d] gradient of the unit vectors; of h */
    double *row_loss;      /* [2B] loss = sum */
    double *row_dtau;      /* [2B] shared tau: dL/dtau = sum. ISOGCLR: d/dtau_i without 1/B */
    double *row_dbias;     /* [2B] sigmoid: dL/dbias = sum */
    double *row_ratio;     /* [2B] compat OFFICIAL, image-text: g/(u+eps) */
    double bias;           /* sigmoid: of the step */
    double loss, grad_tau, grad_scale, grad_bias;
    double quantile_mean, kept_share, detector_share, lambda_mean, log_u_mean, tau_mean, precision, recall;
    double neighbours; /* that attract an anchor, mean */
    int64_t pairs, flagged, same, hits, rescued;
    double margin; /* smallest distance of a compared value to the threshold it was compared with */
} ref_step;

void ref_store_init(ref_store *s, const gf_store_spec *spec);
void ref_store_copy(ref_store *to, const ref_store *from);
void ref_store_free(ref_store *s);

/* One step of the whole batch. h: [C][d] in double instead of the embeddings of q; or NULL. */
void ref_step_run(const glofnd_options *o, ref_store *s, const glofnd_batch *q, const double *h, ref_step *r);
void ref_step_free(ref_step *r);

/* Stats of one rank of several for rows row0 .. row0+rows-1, and the factor of its gradient (1 but for compat OFFICIAL). */
typedef struct ref_rank {
    double loss, grad_tau, grad_scale, grad_bias, grad_factor;
} ref_rank;
ref_rank ref_rank_of(const glofnd_options *o, const glofnd_batch *q, const glofnd_own_rows *own, const ref_step *r);

/* Values to differentiate numerically, at embeddings h and temperatures tau[2B], with the flags found in step r.
 * ref_objective: the paper's objective, u = ghat as with gamma = 1. ref_surrogate: u constant as in r; its derivative is
 * what one step of the algorithm uses for any gamma. */
double ref_objective(const glofnd_options *o, const ref_step *r, const double *h, const double *tau);
double ref_surrogate(const glofnd_options *o, const ref_step *r, const double *h, const double *tau);

/* Shared by the parts of the reference. */
int ref_is_anchor(const ref_step *r, int64_t row);
int ref_is_negative(const ref_step *r, int64_t row, int64_t col);
int ref_is_positive(const ref_step *r, int64_t row, int64_t col);
int64_t ref_first_sample(const ref_step *r, int64_t i); /* of the batch, with the id of sample i */
int64_t ref_negatives(const ref_step *r, int64_t row);  /* n of a row */
double ref_quantile(const ref_step *r, int64_t row,
                    double alpha);                       /* interpolated, position (1-alpha)(n-1) of the n distinct ones */
double ref_kth_largest(double *x, int64_t n, int64_t k); /* sorts x; k from 1 */
double ref_kth_negative(const ref_step *r, int64_t row, int64_t k);
void ref_learn(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r);
void ref_ring_push(ref_store *s, const glofnd_batch *q, const ref_step *r);
void ref_loss(const glofnd_options *o, ref_store *s, const glofnd_batch *q, ref_step *r);
/* `before`: the averages before the step. */
void ref_neighbours(const glofnd_options *o, const ref_store *s, const uint16_t *before, const glofnd_batch *q, ref_step *r);
double ref_softmax_part(const glofnd_options *o);   /* weight of a row of a sample: SIMCLR, CLIP */
int ref_individual(const glofnd_options *o);        /* a temperature per anchor */
double ref_flagged_weight(const glofnd_options *o); /* of a flagged pair in the denominator */
int ref_official_pairs(const glofnd_options *o);    /* compat OFFICIAL with the loss form that has exp(-S_ii/tau) inside g */
