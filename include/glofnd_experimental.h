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
 * rows < cols. NULL: one rank. Since 0.1. */
GLOFND_API glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user);

/* Bytes of links per sample: what the other rows need to know of its two rows. They are to be gathered over ranks of the same
 * version, nothing else; their alignment is that of a float. Since 0.2. */
#define GLOFND_LINK_BYTES 64

/* First call: thresholds, weights, new state of the own rows; writes links [rows][GLOFND_LINK_BYTES]. Since 0.2. */
GLOFND_API glofnd_status glofnd_step_rows(glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q, void *links,
                                          glofnd_stats *stats);
/* Second call, with the links of all ranks [cols][GLOFND_LINK_BYTES] in the order of the batch: gradient of the own rows in both
 * roles, as anchor and as negative of the others. `stats` (may be NULL) is what the first call filled; WANT_QUALITY is added to
 * it. Since 0.2. */
GLOFND_API glofnd_status glofnd_step_grad(glofnd_ctx *c, const glofnd_batch *q, const void *links, void *grad_a, void *grad_b,
                                          glofnd_stats *stats);
/* The pairs that a step keeps. keep [rows][2][2][cols] for two views: [own view][other's view]; [rows][2][cols] for image and
 * text: [side]. 1 = kept. `links` as for glofnd_step_grad. Since 0.2. */
GLOFND_API glofnd_status glofnd_step_mask(glofnd_ctx *c, const glofnd_batch *q, const void *links, uint8_t *keep);

/* ----- Steps that never wait for the host ----- */

/* Writes the loss and d loss / d tau of the last step on c, as glofnd_stats has them, to memory of the device of c, one float32
 * each (either may be NULL). CUDA: queues the work, waits for nothing, and can be captured with the step; NaN if the step failed.
 * If the device has noticed by now that a step failed, this returns its status and text, once: a failure is reported by one of
 * the next such calls, or by glofnd_ctx_stats(). Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_loss(glofnd_ctx *c, float *loss, float *grad_tau);
/* Steps from now on read their temperature at `tau`, in memory of the device of c, when they run; NULL: from batch and options.
 * It must be in [0.001, 100]. ISOGCLR: E_UNSUPPORTED. CUDA: math AUTO is then SPLIT, since the host does not know tau.
 * Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_tau(glofnd_ctx *c, const float *tau);

/* ----- All state as arrays ----- */

/* The rows calls reach the state of all anchors and the shared lambda; these two reach the ring. The oldest embedding comes
 * first; n = ring_count of glofnd_store_describe(), dim = its ring_dim. id [n]; a, b [n][dim] unit rows of either modality; b is
 * unused with one modality. Host memory on every device. put replaces the whole ring: n <= ring_rows, ids >= -1, finite rows.
 * Since 0.2. */
GLOFND_API glofnd_status glofnd_ring_get(glofnd_ctx *c, const glofnd_store *s, int64_t *id, float *a, float *b);
GLOFND_API glofnd_status glofnd_ring_put(glofnd_ctx *c, glofnd_store *s, int64_t n, const int64_t *id, const float *a,
                                         const float *b);

/* ----- Workspace in memory of the caller ----- */

/* *bytes = the size of the workspace that glofnd_ctx_reserve() would allocate for these sizes. Allocates nothing. Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_workspace_bytes(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes);
/* From now on the workspace lies in `memory` (on the device of c, aligned to 64 bytes), which must stay until the next such call
 * or glofnd_ctx_free(). A step that needs more than `bytes` is E_MEMORY. NULL: the context allocates again. CUDA waits for the
 * stream first. Since 0.2. */
GLOFND_API glofnd_status glofnd_ctx_workspace(glofnd_ctx *c, void *memory, size_t bytes);

#endif /* GLOFND_EXPERIMENTAL_H */
