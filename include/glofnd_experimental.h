/* glofnd_experimental.h - section 7 of glofnd.h, which includes this file where GLOFND_EXPERIMENTAL is defined. Its calls have
 * the symbol version GLOFND_EXPERIMENTAL and may change in every minor version of the library.
 */
#ifndef GLOFND_EXPERIMENTAL_H
#define GLOFND_EXPERIMENTAL_H

#ifndef GLOFND_H
#error "define GLOFND_EXPERIMENTAL and include glofnd.h"
#endif

/* ----- What experimental options take from a batch: glofnd_batch.extra ----- */

typedef struct glofnd_batch_extra {
    size_t size;           /* sizeof(glofnd_batch_extra) */
    const void *support_a; /* [fnc_support][n][dim] or NULL: FNC TOPK, THRESHOLD: embeddings of extra views of the samples */
    const void *support_b; /* image-text: of the text. Two views: unused */
    /* BANK: [n][dim] float16, the averages before this step as glofnd_bank_get() gives them, per side; NULL in glofnd_step():
     * those of the store. glofnd_step_rows(), _grad() and _mask() need them. */
    const void *bank_a, *bank_b;
} glofnd_batch_extra;

/* Counters of the last step on c whose stats were read. */
typedef struct glofnd_counters {
    size_t size;       /* set by the caller: sizeof(glofnd_counters) */
    int64_t repeats;   /* times the merged first pass had to be done again; speed only */
    double neighbours; /* samples that attract an anchor by the option of this name, mean */
} glofnd_counters;
GLOFND_API glofnd_status glofnd_ctx_counters(glofnd_ctx *c, glofnd_counters *out);

/* ----- Several ranks -----
 *
 * Gather embeddings and ids, call glofnd_step_rows(), gather the links, call glofnd_step_grad(). The batch is the whole one, of
 * all ranks; glofnd_own_rows says which part is this rank's. Statistics are of the own rows: loss, grad_tau and grad_scale are
 * divided by the whole batch, so their sums over ranks are those of the batch. A rank writes the state of its own rows only: an
 * anchor that a different rank will draw next must be moved there with glofnd_anchors_get() and glofnd_anchors_put(), or always be
 * drawn by the rank that holds it. */

typedef struct glofnd_own_rows {
    size_t size;         /* sizeof(glofnd_own_rows) */
    int64_t first, rows; /* own samples are first .. first+rows-1 of the batch */
    const int64_t *slot; /* [rows] or NULL: the row of the store that holds the state of each own sample, all different; ids are
                            then free to exceed the store. NULL: the row of its id. For a store that holds only what was drawn */
} glofnd_own_rows;

/* `sum` must add the n doubles over all ranks in place, return 0, and give every rank the same bits. The steps call it for what
 * all anchors share (learner SHRINKAGE, so mostly AUTO; SINGLE, lambda_warmup, u's first batch under compat OFFICIAL), which without
 * it is E_ARGUMENT when not all rows are own; on the CPU also for neighbour_share < 1, then it is one number per sample of the
 * batch, and with option repeats if an id occurs twice, then up to three per such sample. On a GPU copies of a sample must lie on one
 * rank. NULL: one rank. */
GLOFND_API glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user);

/* CUDA: a sum that only queues. x is in memory of the device, and the work is to be queued on the stream of c. With it and
 * glofnd_ctx_reduce(), steps of several ranks wait only until SHRINKAGE has started, with compat OFFICIAL, and with detector
 * MUTUAL. Ignored on the CPU. NULL: none. */
GLOFND_API glofnd_status glofnd_ctx_reduce_queued(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user);

/* The state of anchors as bytes, all sides and averages at once, for other ranks of the same version: records [n][row_bytes of
 * glofnd_store_describe()], in memory of the device of c, as are the ids. CUDA only queues, in the order of steps, and passes over
 * ids that the store does not have. An anchor without state is all zeros. put takes the bytes of get; an id may repeat if its
 * records are equal. A record ends with the averages of its sides, float16 [dim], each filled up to a multiple of 4 bytes; in a
 * store of keys 8 bytes follow. */
GLOFND_API glofnd_status glofnd_records_get(glofnd_ctx *c, const glofnd_store *s, const int64_t *id, int64_t n, void *records);
GLOFND_API glofnd_status glofnd_records_put(glofnd_ctx *c, glofnd_store *s, const int64_t *id, int64_t n, const void *records);

/* Bytes of links per sample: what the other rows need to know of its two rows. They are to be gathered over ranks of the same
 * version, nothing else; their alignment is that of a float. */
#define GLOFND_LINK_BYTES 64

/* First call: thresholds, weights, new state of the own rows; writes links [rows][GLOFND_LINK_BYTES]. `own` NULL, here and below:
 * all rows, one rank. */
GLOFND_API glofnd_status glofnd_step_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, const glofnd_own_rows *own,
                                          void *links, glofnd_stats *stats);
/* Second call, with the links of all ranks [n][GLOFND_LINK_BYTES] in the order of the batch: gradient [rows] of the own rows in
 * both roles, as anchor and as negative of the others. `stats` (may be NULL) is what the first call filled; WANT_QUALITY is added
 * to it.
 * Option `neighbours`: every rank searches for its own anchors, so its store must hold the averages of all samples, each at its
 * id: own.slot is then E_ARGUMENT, unless all rows are own. A rank writes those of its own samples; glofnd_bank_get() and
 * glofnd_bank_put() take them to the others before the next step. The context keeps what the first call found: the second one
 * must follow it, for the same batch, with glofnd_step_mask() at most between them, else it is E_ARGUMENT; on a GPU, where ids
 * are not looked at, a different batch of equal size and epoch is not noticed. */
GLOFND_API glofnd_status glofnd_step_grad(glofnd_ctx *c, const glofnd_batch *q, const glofnd_own_rows *own, const void *links,
                                          void *grad_a, void *grad_b, glofnd_stats *stats);
/* The pairs that a step keeps. keep [rows][2][2][n] for two views: [own view][other's view]; [rows][2][n] for image and text:
 * [side]. 1 = kept. `links` as for glofnd_step_grad. */
GLOFND_API glofnd_status glofnd_step_mask(glofnd_ctx *c, const glofnd_batch *q, const glofnd_own_rows *own, const void *links,
                                          uint8_t *keep);

/* ----- Steps that never wait for the host ----- */

/* Writes the loss and d loss / d tau of the last step on c, as glofnd_stats has them, to memory of the device of c, one float32
 * each (either may be NULL). CUDA: queues the work, waits for nothing, and can be captured with the step; NaN if the step failed.
 * If the device has noticed by now that a step failed, this returns its status and text, once: a failure is reported by one of
 * the next such calls (with both NULL: only that), or by glofnd_ctx_stats(). */
GLOFND_API glofnd_status glofnd_ctx_loss(glofnd_ctx *c, float *loss, float *grad_tau);
/* Steps from now on read their temperature at `tau`, in memory of the device of c, when they run; NULL: from batch and options.
 * It must be in [0.001, 100]. ISOGCLR: E_UNSUPPORTED. CUDA: math AUTO is then SPLIT, since the host does not know tau. */
GLOFND_API glofnd_status glofnd_ctx_tau(glofnd_ctx *c, const float *tau);
/* The same for the bias of loss sigmoid, which must be finite; other losses do not read it. NULL: from batch and options. */
GLOFND_API glofnd_status glofnd_ctx_bias(glofnd_ctx *c, const float *bias);
/* Writes d loss / d bias of the last step on c, one float32, as glofnd_ctx_loss() does its numbers. */
GLOFND_API glofnd_status glofnd_ctx_grad_bias(glofnd_ctx *c, float *grad_bias);
/* Steps from now on read and write the state of n anchors at `rows`, in memory of the device of c, when they run; their store is
 * NULL. rows [sides][n + 1]: row i is that of anchor i, row n that of GLOFND_SHARED, as glofnd_anchors_get() gives them. rows NULL:
 * the state is that of a store. A row of the batch that glofnd_anchors_put() would refuse fails the step; CUDA reports it as it does
 * a bad id. A step that fails changes no row. Learner RING and similarity BANK: E_UNSUPPORTED. */
GLOFND_API glofnd_status glofnd_ctx_state(glofnd_ctx *c, glofnd_anchor *rows, int64_t n);
/* *phase = a number that is equal for steps that queue the same work: a captured graph of one of them serves the others, if
 * sizes, types, pointers and options are equal, too. Of q it depends on epoch, want, tau, gamma and on there being groups. */
GLOFND_API glofnd_status glofnd_ctx_phase(glofnd_ctx *c, const glofnd_batch *q, uint64_t *phase);

/* ----- All state as arrays ----- */

/* The rows calls reach the state of all anchors and the shared lambda; these two reach the ring. The oldest embedding comes
 * first; n = ring_count of glofnd_store_describe(), dim = its ring_dim. id [n]; a, b [n][dim] unit rows of either modality; b is
 * unused with one modality. Host memory on every device. put replaces the whole ring: n <= ring_rows, ids >= -1, finite rows. */
GLOFND_API glofnd_status glofnd_ring_get(glofnd_ctx *c, const glofnd_store *s, int64_t *id, float *a, float *b);
GLOFND_API glofnd_status glofnd_ring_put(glofnd_ctx *c, glofnd_store *s, int64_t n, const int64_t *id, const float *a,
                                         const float *b);

/* Length of the averages that s keeps for similarity BANK; 0: none, or s is NULL. */
GLOFND_API int64_t glofnd_bank_dim(const glofnd_store *s);
/* The averages of similarity BANK: rows [n][dim] of float16, in host memory on every device; zeros: never seen. side and id as in
 * the rows calls, but no GLOFND_SHARED; dim is glofnd_bank_dim(). put takes what get gives. */
GLOFND_API glofnd_status glofnd_bank_get(glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                                         void *rows);
GLOFND_API glofnd_status glofnd_bank_put(glofnd_ctx *c, glofnd_store *s, int side, const int64_t *id, int64_t n,
                                         const void *rows);

/* ----- Workspace in memory of the caller ----- */

/* *bytes = the size of the workspace that glofnd_ctx_reserve() would allocate for these sizes. Allocates nothing. */
GLOFND_API glofnd_status glofnd_ctx_workspace_bytes(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes);
/* From now on the workspace lies in `memory` (on the device of c, aligned to 64 bytes), which must stay until the next such call
 * or glofnd_ctx_free(). A step that needs more than `bytes` is E_MEMORY. NULL: the context allocates again. CUDA waits for the
 * stream first. */
GLOFND_API glofnd_status glofnd_ctx_workspace(glofnd_ctx *c, void *memory, size_t bytes);

#endif /* GLOFND_EXPERIMENTAL_H */
