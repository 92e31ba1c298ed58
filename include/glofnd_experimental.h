/* glofnd_experimental.h - section 7 of glofnd.h, which includes this file where GLOFND_EXPERIMENTAL is defined. Its calls have
 * the symbol version GLOFND_EXPERIMENTAL and may change in every minor version of the library.
 */
#ifndef GLOFND_EXPERIMENTAL_H
#define GLOFND_EXPERIMENTAL_H

#ifndef GLOFND_H
#error "define GLOFND_EXPERIMENTAL and include glofnd.h"
#endif

/* ----- Several ranks ----- */

/* `sum` must add the n doubles over all ranks in place, return 0, and give every rank the same bits. The steps call it for what
 * all anchors share (SINGLE, lambda_warmup, u's first batch under compat OFFICIAL), which without it is E_ARGUMENT when
 * rows < cols; on the CPU also for neighbour_share < 1, then it is cols numbers. NULL: one rank. */
GLOFND_API glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user);

/* Bytes of links per sample: what the other rows need to know of its two rows. They are to be gathered over ranks of the same
 * version, nothing else; their alignment is that of a float. */
#define GLOFND_LINK_BYTES 64

/* First call: thresholds, weights, new state of the own rows; writes links [rows][GLOFND_LINK_BYTES]. */
GLOFND_API glofnd_status glofnd_step_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *links,
                                          glofnd_stats *stats);
/* Second call, with the links of all ranks [cols][GLOFND_LINK_BYTES] in the order of the batch: gradient of the own rows in both
 * roles, as anchor and as negative of the others. `stats` (may be NULL) is what the first call filled; WANT_QUALITY is added to
 * it.
 * Option `neighbours`: every rank searches for its own anchors, so its store must hold the averages of all samples, each at its
 * id: rows < cols with batch.slot is E_ARGUMENT. A rank writes those of its own samples; glofnd_bank_get() and glofnd_bank_put()
 * take them to the others before the next step. The context keeps what the first call found: the second one must follow it, for
 * the same batch, with glofnd_step_mask() at most between them, else it is E_ARGUMENT; on a GPU, where ids are not looked at, a
 * different batch of equal size and epoch is not noticed. */
GLOFND_API glofnd_status glofnd_step_grad(glofnd_ctx *c, const glofnd_batch *q, const void *links, void *grad_a, void *grad_b,
                                          glofnd_stats *stats);
/* The pairs that a step keeps. keep [rows][2][2][cols] for two views: [own view][other's view]; [rows][2][cols] for image and
 * text: [side]. 1 = kept. `links` as for glofnd_step_grad. */
GLOFND_API glofnd_status glofnd_step_mask(glofnd_ctx *c, const glofnd_batch *q, const void *links, uint8_t *keep);

/* ----- Steps that never wait for the host ----- */

/* Writes the loss and d loss / d tau of the last step on c, as glofnd_stats has them, to memory of the device of c, one float32
 * each (either may be NULL). CUDA: queues the work, waits for nothing, and can be captured with the step; NaN if the step failed.
 * If the device has noticed by now that a step failed, this returns its status and text, once: a failure is reported by one of
 * the next such calls (with both NULL: only that), or by glofnd_ctx_stats(). */
GLOFND_API glofnd_status glofnd_ctx_loss(glofnd_ctx *c, float *loss, float *grad_tau);
/* Steps from now on read their temperature at `tau`, in memory of the device of c, when they run; NULL: from batch and options.
 * It must be in [0.001, 100]. ISOGCLR: E_UNSUPPORTED. CUDA: math AUTO is then SPLIT, since the host does not know tau. */
GLOFND_API glofnd_status glofnd_ctx_tau(glofnd_ctx *c, const float *tau);
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

/* The averages of similarity BANK: rows [n][dim] of float16, in host memory on every device; zeros: never seen. side and id as in
 * the rows calls, but no GLOFND_SHARED; dim is that of the store. put takes what get gives. */
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
