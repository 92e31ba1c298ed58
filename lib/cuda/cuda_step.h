/* cuda_step.h - the kernels of a step that work per anchor and per row, between the passes of cuda_pass.h.
 *
 *     keys      samples of one anchor, if there may be some                  (cuda_keys.cu)
 *     begin     unit rows, positives; ids checked, state gathered: `open`    (cuda_step_begin.cu)
 *     count     negatives above the old lambda, where it moves
 *     decide    lambda moves                                                  (cuda_step_rows.cu)
 *     stats     pass B
 *     finish    rows without negatives are rescued, losses, links, new state to the store     (cuda_step_rows.cu)
 *     grad      pass C
 *     write     through the normalisation to the caller's gradients; totals   (cuda_step_write.cu)
 * In small batches everything from count to finish is one kernel             (cuda_step_rows.cu). In larger ones count, decide and
 * stats may be one                                                            (gf_cuda_move of cuda_pass.h).
 * The formulas are those of method/formulas.
 */
#pragma once

#include "cuda/cuda_ctx.h"
#include "method/formulas/neighbours.h"
#include "method/formulas/row.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cuda_step { /* arguments of all kernels, by value; pointers are device memory */
    gf_plan plan;
    int64_t row0, dim;
    const int64_t *id;   /* [cols] */
    const int64_t *slot; /* [rows] rows of the store; NULL: those of the ids. Keys: -1 if a key has none */
    const int32_t *label, *group;
    const int32_t *positives, *next_positive; /* [cols] several positives: groups; the next sample of the same one */
    const void *bank[2];                      /* [cols][dim] float16, averages before the step; NULL: those of the store */
    gf_cuda_side side[2];
    gf_cuda_control *control;
    int64_t *seen_ids;               /* [2][2 cols] */
    const int32_t *copy, *next_copy; /* [rows] repeats; NULL: all ids differ */
    double *partial, *row_totals;
    gf_link *links;        /* finish: out [rows][2]; unpack, sum_grad: in [cols][2] */
    void *grad_a, *grad_b; /* [rows] rows of grad_dtype numbers, grad_stride apart */
    int64_t grad_stride[2];
    glofnd_dtype grad_dtype;
    struct gf_device_store store;
    glofnd_anchor *state; /* [sides][store.n + 1] rows of the caller, in place of those of the store; NULL: none */
    const float *tau;     /* the temperature; NULL: that of the plan */
    const float *bias;    /* SIGMOID: the same */
    int ranks;            /* the host adds up sums over ranks */
    float margin;         /* largest difference between two computations of one similarity: 0 with EXACT */
} gf_cuda_step;

/* Row of the store that holds the state of own sample a. */
GF_HD int64_t gf_state_place(const gf_cuda_step *x, int64_t a) { return x->slot ? x->slot[a] : x->id[x->row0 + a]; }

enum {                     /* tasks of `open`: all at once, unless a selection comes in between */
       GF_CUDA_SPREAD = 1, /* labels and groups to rows */
       GF_CUDA_GATHER = 2, /* ids checked, state read */
       GF_CUDA_OPEN = 4    /* thresholds */
};

/* Keys of rows and candidates, and what follows from them: side[].unpaired, copy and next_copy. extra_id: of the candidates of each
 * side; NULL: unknown. table, count: gf_device_ctx.key_table, key_count. */
cudaError_t gf_cuda_make_keys(const gf_cuda_step *x, const int64_t *const *extra_id, int32_t *table, int32_t *count,
                              int32_t *groups, cudaStream_t stream);
/* Several positives, where the plan has them: after the keys; between temperatures and losses; between pass C and `write`. */
cudaError_t gf_cuda_link_positives(const gf_cuda_step *x, int32_t *next, cudaStream_t stream);
cudaError_t gf_cuda_sum_positives(const gf_cuda_step *x, cudaStream_t stream);
cudaError_t gf_cuda_positives_gradient(const gf_cuda_step *x, cudaStream_t stream);
/* repeats, after finish: the state of every anchor, by all rows of its samples. */
cudaError_t gf_cuda_close_copies(const gf_cuda_step *x, cudaStream_t stream);
/* Unit rows by `job`, and the tasks of `open`, in one launch. */
cudaError_t gf_cuda_begin(const gf_cuda_step *x, const gf_cuda_embed_job *job, int what, cudaStream_t stream);
cudaError_t gf_cuda_open_rows(const gf_cuda_step *x, int what, cudaStream_t stream);
/* Shared lambda: the quantiles of the own anchors of a side: control->quantile. */
cudaError_t gf_cuda_sum_quantiles(const gf_cuda_step *x, int side, cudaStream_t stream);
/* SHRINKAGE, ranks: a sum over the own rows of a side to control->quantile. part: pool_part there. */
cudaError_t gf_cuda_pool_sum(const gf_cuda_step *x, int side, int part, double at, double scale, cudaStream_t stream);
/* SHRINKAGE, ranks: the pool moves by control->moves. On one rank the end of the step does it. */
cudaError_t gf_cuda_move_pool(const gf_cuda_step *x, cudaStream_t stream);
/* Shared lambda: negatives above it: control->above. */
cudaError_t gf_cuda_count_above(const gf_cuda_step *x, int side, cudaStream_t stream);
cudaError_t gf_cuda_decide(const gf_cuda_step *x, cudaStream_t stream);
cudaError_t gf_cuda_finish(const gf_cuda_step *x, cudaStream_t stream);
/* From count to finish at once, where gf_cuda_is_small; pass[i]: pass B of side i. */
int gf_cuda_is_small(const gf_cuda_step *x, const gf_cuda_pass *pass);
cudaError_t gf_cuda_small(const gf_cuda_step *x, const gf_cuda_pass pass[2], cudaStream_t stream);
/* Totals of the first half; ends the step. `write` does it too. */
cudaError_t gf_cuda_sum_rows(const gf_cuda_step *x, cudaStream_t stream);
cudaError_t gf_cuda_unpack(const gf_cuda_step *x, cudaStream_t stream);
cudaError_t gf_cuda_write(const gf_cuda_step *x, int sums_rows, cudaStream_t stream);
/* Numbers of the candidates of a side as columns: they are nobody's anchors, and weigh nothing. */
cudaError_t gf_cuda_open_candidates(const gf_cuda_step *x, int side, cudaStream_t stream);
/* Their gradients to the caller. */
cudaError_t gf_cuda_write_candidates(const gf_cuda_step *x, int side, void *grad, cudaStream_t stream);
/* Precision, recall, and the part of the official per-rank loss that pass C computes. */
cudaError_t gf_cuda_sum_grad(const gf_cuda_step *x, cudaStream_t stream);
/* Loss, grad_tau and grad_bias of the last step, in the order of the stream; NaN if it failed, which the host can then notice. */
cudaError_t gf_cuda_put_loss(const gf_device_ctx *d, const gf_plan *plan, int graded, float *loss, float *grad_tau,
                             float *grad_bias);
/* BANK: averages of all rows; those of the own rows to the store. */
cudaError_t gf_cuda_bank(const gf_cuda_step *x, cudaStream_t stream);
cudaError_t gf_cuda_bank_save(const gf_cuda_step *x, cudaStream_t stream);
/* Components of the graph of nearest samples in a batch, whose embeddings are at z [sides]: group [samples]. `value`, `column`
 * [sides][rows of z] are for the nearest rows; scratch: gf_cuda_select_scratch bytes for so many rows. */
cudaError_t gf_cuda_components(const gf_cuda_embed *z, int sides, float *const *value, int32_t *const *column, void *scratch,
                               int64_t scratch_rows, int32_t *group, cudaStream_t stream);
/* FNC THRESHOLD, as a top k: quantile and tie of the own rows of a side. */
cudaError_t gf_cuda_fix_thresholds(const gf_cuda_step *x, int side, cudaStream_t stream);
/* FIXED: theta [all] = the guide's thresholds [cols] by row; NaN becomes infinite. */
cudaError_t gf_cuda_spread_guide(const gf_cuda_step *x, const float *threshold, float *theta, cudaStream_t stream);
/* FNC: the first of `copies` support vectors of every row of a side becomes their mean. */
cudaError_t gf_cuda_average_support(const gf_cuda_step *x, int side, int64_t copies, cudaStream_t stream);
/* Appends the embeddings of the batch to the ring. */
cudaError_t gf_cuda_ring_push(const gf_cuda_step *x, cudaStream_t stream);
/* out [n] = 0, 1, 2 ... */
cudaError_t gf_cuda_iota(int64_t *out, int64_t n, cudaStream_t stream);
/* keep [rows][2 cols] from (sample, view) to [view][sample]. */
cudaError_t gf_cuda_by_view(uint8_t *keep, const uint8_t *mask, int64_t rows, int64_t cols, cudaStream_t stream);

/* cuda_step.c: entries of gf_device. */
glofnd_status gf_cuda_run_step(gf_error *err, gf_device_ctx *device, const gf_device_step *call);
glofnd_status gf_cuda_run_rows(gf_error *err, gf_device_ctx *device, const gf_device_step *call);
glofnd_status gf_cuda_run_grad(gf_error *err, gf_device_ctx *device, const gf_device_step *call);
glofnd_status gf_cuda_run_mask(gf_error *err, gf_device_ctx *device, const gf_device_step *call);
glofnd_status gf_cuda_run_components(gf_error *err, gf_device_ctx *device, const gf_device_step *call, int32_t *group);
glofnd_status gf_cuda_thresholds(gf_error *err, gf_device_ctx *d, const gf_device_thresholds *x);

/* ---------- Attraction by neighbours, as on the CPU ---------- */

/* Parts that a window of the store is searched in for so many anchors: together they fill the GPU. */
int64_t gf_cuda_neighbour_parts(int64_t anchors);

/* After the bank, before its rows are saved: neighbours of the own anchors, and what they add to the loss. */
cudaError_t gf_cuda_neighbours(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream);
/* Between pass C and the gradients of the caller. */
cudaError_t gf_cuda_neighbours_gradient(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream);
/* After the totals. */
cudaError_t gf_cuda_neighbours_loss(const gf_cuda_step *x, const gf_cuda_near *near, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
