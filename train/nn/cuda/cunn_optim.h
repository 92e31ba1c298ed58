/* cunn_optim.h - interface between cunn_optim.c (memory, order) and cunn_optim_kernels.cu. */
#pragma once

#include "nn/cuda/cunn.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GF_CUNN_CHUNK = 8192 }; /* numbers of a block; a tensor is divided into chunks, of which the last may be short */

typedef struct gf_cunn_chunk {
    int tensor;
    int64_t from; /* first number in it */
} gf_cunn_chunk;

typedef struct gf_cunn_steps { /* all on the device */
    gf_param *params;          /* [count] */
    int *first;                /* [count + 1] chunk the tensor begins with */
    gf_cunn_chunk *chunks;     /* [chunk_count] */
    double *sums;              /* [chunk_count][3]: g^2, p^2, (g + decay p)^2 */
    double *ratio;             /* [count] of LARS */
    double *norm;              /* [1] of the whole gradient */
    gf_optim_scalars *now;     /* [1] */
    int count, chunk_count;
} gf_cunn_steps;

void gf_cunn_optim_now(gf_nn_engine *s, gf_optim_scalars *dst, gf_optim_scalars value);
void gf_cunn_optim_run(gf_nn_engine *s, const gf_cunn_steps *t, const gf_optim_rule *rule);

#ifdef __cplusplus
}
#endif
