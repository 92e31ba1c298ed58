/* settings.h - the inside of glofnd_options: what a step is asked for. The table in method/options.c has the key, the range, the
 * default and the help text of each field.
 */
#pragma once

#include "glofnd.h"

/* What the two embeddings of a sample are. */
typedef int32_t glofnd_pairing;
enum { GLOFND_PAIRING_VIEWS = 0, GLOFND_PAIRING_IMAGE_TEXT = 1 };

/* Image and text: whose rows have a loss. FORWARD: those of the first embedding alone, against the second (query to document); the
 * others are only columns, and the store of their side stays as it is. */
typedef int32_t glofnd_directions;
enum { GLOFND_DIRECTIONS_BOTH = 0, GLOFND_DIRECTIONS_FORWARD = 1 };

/* The loss. `c` is the number of kept negatives of a row, B the global batch, S a cosine similarity. Two views of an image: the
 * sum over both views, divided by B; SIMCLR: the mean over the 2 B rows. Image and text: the sum over both sides, divided by B;
 * SIMCLR: their mean.
 *   SOGCLR    -S_pos + tau log(c u), u the anchor's moving average of mean exp(S/tau)      SogCLR, FastCLIP v1
 *   SIMCLR    log((n/c) sum_kept exp(S/tau) + exp(S_pos/tau)) - S_pos/tau                  NT-Xent, InfoNCE, CLIP
 *   FASTCLIP  the form of SOGCLR with a learnable tau and a penalty rho * tau              FastCLIP v3
 *   ISOGCLR   the same with a temperature per anchor and side, learned in the store        iSogCLR, FastCLIP v2
 *   SIGMOID   every pair by itself, log(1 + exp(-y (S/tau + b))), y = 1 for positives, -1 for kept negatives; b is learnable. Every
 *             pair is seen from both of its anchors, with weight 1/2 each                       SigLIP */
typedef int32_t glofnd_loss;
enum {
    GLOFND_LOSS_SOGCLR = 0,
    GLOFND_LOSS_SIMCLR = 1,
    GLOFND_LOSS_FASTCLIP = 2,
    GLOFND_LOSS_ISOGCLR = 3,
    GLOFND_LOSS_SIGMOID = 4
};

/* The rule that flags false negatives.
 *   NONE     no pair is flagged
 *   GLOFND   S > lambda_i, learned per anchor
 *   SINGLE   S > lambda, one learned value for all anchors
 *   FNC      the most similar of this batch: see fnc_rule
 *   ORACLE   same label (an upper bound, for experiments)
 *   GROUPS   same group: pseudo-labels, or ids of duplicated contents
 *   COMPONENTS  same connected component of the graph of nearest neighbours in the batch, WCL (experimental)
 *   POSITIVE           S > S_pos + margin, S_pos the similarity of the row's own positive; nothing is learned
 *   POSITIVE_RELATIVE  S > S_pos + margin |S_pos|
 *   MUTUAL   S > lambda of both ends of the pair, learned per anchor as with GLOFND; candidates have no end of their own
 *   FIXED    S of a guide's embeddings > the guide's threshold of the anchor: batch.guide; nothing is learned
 *   FIXED_MUTUAL  ... > the guide's thresholds of both ends
 * If batch.group is given, pairs of one group are flagged too, with every detector that does not flag by label. */
typedef int32_t glofnd_detector;
enum {
    GLOFND_DETECT_NONE = 0,
    GLOFND_DETECT_GLOFND = 1,
    GLOFND_DETECT_SINGLE = 2,
    GLOFND_DETECT_FNC = 3,
    GLOFND_DETECT_ORACLE = 4,
    GLOFND_DETECT_GROUPS = 5,
    GLOFND_DETECT_COMPONENTS = 6, /* experimental */
    GLOFND_DETECT_POSITIVE = 7,
    GLOFND_DETECT_POSITIVE_RELATIVE = 8,
    GLOFND_DETECT_MUTUAL = 9,
    GLOFND_DETECT_FIXED = 10,
    GLOFND_DETECT_FIXED_MUTUAL = 11
};

/* The treatment of a flagged pair.
 *   DROP     it leaves the denominator
 *   ATTRACT  it leaves the denominator and joins the positives: S_pos becomes (S_pos + sum_flagged S) / (1 + flagged)
 *   WEIGHT   it counts omega in [0,1]: mean and count become sum omega exp(S/tau) / sum omega
 * SIGMOID: no term; y = 1; omega times its term. */
typedef int32_t glofnd_action;
enum { GLOFND_ACTION_DROP = 0, GLOFND_ACTION_ATTRACT = 1, GLOFND_ACTION_WEIGHT = 2 };

/* The update rule of lambda, with g = alpha - (share of the anchor's negatives above lambda).
 *   ADAM           bias correction by the visits of the anchor
 *   SGD            lambda - lr * g, projected to [-1, 1]                                    (the paper's equation)
 *   ADAM_OFFICIAL  bias correction by epoch + 1                                             (the authors' code)
 *   RING           exact quantile against a ring of recent embeddings, averaged per anchor; no g
 *   SHRINKAGE      Robbins-Monro steps by counts, shrunk towards the quantile of all anchors together    (lambda.h)
 *   AUTO           SHRINKAGE; ADAM with compat OFFICIAL, or where an option of Adam is set: gf_learner_rule() */
typedef int32_t glofnd_learner;
enum {
    GLOFND_LEARN_ADAM = 0,
    GLOFND_LEARN_SGD = 1,
    GLOFND_LEARN_ADAM_OFFICIAL = 2,
    GLOFND_LEARN_RING = 3,
    GLOFND_LEARN_SHRINKAGE = 4,
    GLOFND_LEARN_AUTO = 5
};

/* ONE: every lambda starts at 1, nothing is flagged at first. QUANTILE: at the quantile of the first batch that shows the anchor
 * (compat OFFICIAL: of every batch in the epoch update_epoch). AUTO: QUANTILE, and ONE with compat OFFICIAL, as the authors do. */
typedef int32_t glofnd_lambda_init;
enum { GLOFND_INIT_ONE = 0, GLOFND_INIT_QUANTILE = 1, GLOFND_INIT_AUTO = 2 };

/* QUANTILE: above the row's interpolated (1-alpha) quantile (the authors' code; flags ceil(alpha (n-1))). TOPK: exactly the
 * ceil(alpha n) best, ties to the smaller column. THRESHOLD: all above fnc_threshold. Both scored by batch.support_a/b where
 * given: the mean of the similarities of a sample's support vectors to the other embedding. */
typedef int32_t glofnd_fnc_rule;
enum { GLOFND_FNC_QUANTILE = 0, GLOFND_FNC_TOPK = 1, GLOFND_FNC_THRESHOLD = 2 };

/* PAPER: the equations of the paper. OFFICIAL: what the authors' code computes; docs/method.md lists the differences. */
typedef int32_t glofnd_compat;
enum { GLOFND_COMPAT_PAPER = 0, GLOFND_COMPAT_OFFICIAL = 1 };

/* Precision of products of embeddings; sums and per-row arithmetic do not depend on it.
 *   AUTO     CUDA: BF16 where tau >= 0.05, else SPLIT. CPU: EXACT
 *   EXACT    float32, no tensor cores; FNC TOPK always. On the CPU also SPLIT
 *   BF16     S is wrong by up to 4e-3, typically 2e-4 at dim 128
 *   SPLIT    three BF16 products: S is wrong by up to 3e-5, typically 1e-6 */
typedef int32_t glofnd_math;
enum { GLOFND_MATH_AUTO = 0, GLOFND_MATH_EXACT = 1, GLOFND_MATH_BF16 = 2, GLOFND_MATH_SPLIT = 3 };

/* Experimental. The similarities that thresholds are learned from and compared with, for GLOFND, SINGLE and FNC QUANTILE.
 *   EMBEDDING  of the two embeddings, as in the loss
 *   BANK       of the samples' averages: each sample keeps an exponential average of its unit embeddings, over views and visits,
 *              in 2 dim bytes of the store. Both views share it; the average used by a step has taken its two views in */
typedef int32_t glofnd_similarity;
enum { GLOFND_SIMILARITY_EMBEDDING = 0, GLOFND_SIMILARITY_BANK = 1 };

#define GF_TAU_MAX 1.0 /* ISOGCLR: largest individual temperature */

struct glofnd_options {
    glofnd_pairing pairing;
    glofnd_directions directions;
    glofnd_loss loss;
    glofnd_detector detector;
    glofnd_action action;
    glofnd_compat compat;
    int32_t repeats;      /* 1: an id may occur several times in a batch: see docs/method.md */
    int32_t normalize;    /* 1: embeddings come raw and are normalised inside; 0: they are unit vectors already */
    double alpha;         /* fraction of negatives to flag, in (0,1); 0: GLOFND, SINGLE and FNC flag nothing */
    double omega;         /* weight of a flagged pair under ACTION_WEIGHT */
    double attract_omega; /* ACTION_ATTRACT: the weight that attracted pairs keep in the denominator, in [0,1]. 0: they leave it.
                             1: they stay, as in SupCon. SIGMOID: the weight of their term as negatives, beside that with y = 1 */

    glofnd_learner learner;
    glofnd_lambda_init lambda_init;
    int32_t update_epoch;  /* first epoch that moves lambda */
    int32_t mask_epoch;    /* first epoch whose loss uses the flags; >= update_epoch */
    int32_t lambda_warmup; /* epochs from update_epoch on in which all anchors share one lambda */
    glofnd_fnc_rule fnc_rule;
    double lambda_lr, lambda_beta1, lambda_beta2;
    double lambda_decay; /* ADAM, SGD, per anchor: lambda_lr counts min(1, this / visits of the anchor). 0: it is constant */
    int64_t ring_rows;   /* RING: embeddings remembered */

    double fnc_threshold; /* FNC THRESHOLD: pairs of a larger score are flagged */
    double margin;        /* POSITIVE, POSITIVE_RELATIVE */
    int32_t fnc_support;  /* FNC TOPK, THRESHOLD: support vectors per sample of batch.support_a/b; 0: as 1 */

    glofnd_similarity similarity;
    double bank_momentum; /* BANK: weight of the old average, in [0,1) */
    /* BANK, two views: from mask_epoch on every anchor is also attracted by the averages of this many of its nearest samples in
     * the whole store, at most 8; 0: off. Several ranks: see glofnd_step_grad(). */
    int64_t neighbours;
    int64_t neighbour_rows;  /* samples searched in a step, a window of the store that moves; 0: all */
    double neighbour_weight; /* of this attraction; that of the other view is 1 */
    double neighbour_share;  /* fraction of the batch's anchors that are attracted: those with the most similar one. In (0,1] */

    double tau, gamma;      /* temperature; weight of the newest batch in u, in (0,1] */
    double bias;            /* SIGMOID: b */
    double rho;             /* FASTCLIP, ISOGCLR: penalty of the temperature */
    double tau_lr, tau_min; /* ISOGCLR: Adam of the individual temperatures, in [tau_min, GF_TAU_MAX] */

    glofnd_device device; /* fixed when the context is made */
    glofnd_math math;
    int32_t threads; /* 0: as many as OpenMP would use */
};

/* Sides with a threshold and a moving average of their own: 1 for two views of one image, 2 for image and text. Also the number
 * of modalities of the store. */
static inline int gf_sides(const glofnd_options *o) { return o->pairing == GLOFND_PAIRING_IMAGE_TEXT ? 2 : 1; }

/* Sides whose rows are anchors, with a loss, a threshold and a moving average: from the first one on. */
static inline int gf_anchored(const glofnd_options *o) { return o->directions == GLOFND_DIRECTIONS_FORWARD ? 1 : gf_sides(o); }

/* Thresholds are learned. */
static inline int gf_learns_thresholds(const glofnd_options *o) {
    return o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_SINGLE || o->detector == GLOFND_DETECT_MUTUAL;
}

/* Labels or groups flag, not similarities. */
static inline int gf_flags_by_group(const glofnd_options *o) {
    return o->detector == GLOFND_DETECT_ORACLE || o->detector == GLOFND_DETECT_GROUPS || o->detector == GLOFND_DETECT_COMPONENTS;
}

/* The threshold of a row follows from the similarity of its positive. */
static inline int gf_flags_by_positive(const glofnd_options *o) {
    return o->detector == GLOFND_DETECT_POSITIVE || o->detector == GLOFND_DETECT_POSITIVE_RELATIVE;
}

/* A guide flags. */
static inline int gf_flags_by_guide(const glofnd_options *o) {
    return o->detector == GLOFND_DETECT_FIXED || o->detector == GLOFND_DETECT_FIXED_MUTUAL;
}

/* What AUTO stands for: who sets an option of Adam means Adam. */
static inline glofnd_learner gf_learner_rule(const glofnd_options *o) {
    const int of_adam = o->lambda_init == GLOFND_INIT_ONE || o->lambda_lr != 0.05 || o->lambda_beta1 != 0.9 ||
                        o->lambda_beta2 != 0.98 || o->lambda_decay != 0.0;
    if (o->learner != GLOFND_LEARN_AUTO) return o->learner;
    return of_adam || o->compat == GLOFND_COMPAT_OFFICIAL ? GLOFND_LEARN_ADAM : GLOFND_LEARN_SHRINKAGE;
}

/* lambda starts at a quantile, not at 1. */
static inline int gf_starts_at_quantile(const glofnd_options *o) {
    return o->lambda_init == GLOFND_INIT_AUTO ? o->compat != GLOFND_COMPAT_OFFICIAL : o->lambda_init == GLOFND_INIT_QUANTILE;
}
