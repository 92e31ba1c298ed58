/* cuda_pairs.h - discovery on the GPU, behind pairs/pairs_search.h: the same results as the CPU's, to the bit.
 *
 *     gf_cuda_pairs_open(err, x, row, n, dim, &c);      embeddings to the device
 *     gf_cuda_pairs_find(err, c, &task, &found);        all of them against all
 *     gf_cuda_pairs_query(err, c, y, row, m, &task, &found);    others against these
 *     gf_cuda_pairs_close(c);
 * All pointers are host memory. Needs cuBLASLt to be fast; without it every similarity is a float32 one.
 */
#ifndef GF_CUDA_PAIRS_CUDA_PAIRS_H
#define GF_CUDA_PAIRS_CUDA_PAIRS_H

#include "util/status.h"

#define GF_CUDA_PAIRS_TOP 2048 /* `top` at most */

typedef struct gf_cuda_pairs gf_cuda_pairs;

typedef struct gf_cuda_pairs_task { /* as gf_pairs_task */
    int64_t rank, top, edge;
    float dup;
    const float *lambda;
    const int32_t *skip, *label;
    size_t memory; /* bytes on the device for similarities and lists, at most; it takes what it finds useful */
    int64_t list;  /* room of a row's list; 0: chosen */
    int exact;     /* 1: without tensor cores */
    int (*step)(void *user, double share); /* part of the work that is done; 1: stop. NULL: neither */
    void *user;
} gf_cuda_pairs_task;

typedef struct gf_cuda_pairs_found { /* as gf_pairs_found; NULL: not wanted */
    float *lambda;
    int64_t *above, *mutual, *hits, *copies;
    int32_t *other;
    float *similarity;
    int32_t *edge_other;
    float *edge_similarity;
    int32_t *mutual_root, *copy_root;
} gf_cuda_pairs_found;

/* Bytes on the device: of the embeddings; of all else that find takes, where so much is free (0: not known). */
size_t gf_cuda_pairs_embeddings(int64_t n, int64_t dim);
size_t gf_cuda_pairs_work(int64_t n, int64_t top, size_t memory);

glofnd_status gf_cuda_pairs_open(gf_error *err, const float *x, const int32_t *row, int64_t n, int64_t dim, gf_cuda_pairs **out);
int64_t gf_cuda_pairs_count(const gf_cuda_pairs *c); /* of the embeddings */
glofnd_status gf_cuda_pairs_find(gf_error *err, gf_cuda_pairs *c, const gf_cuda_pairs_task *t, const gf_cuda_pairs_found *f);
glofnd_status gf_cuda_pairs_query(gf_error *err, gf_cuda_pairs *c, const float *x, const int32_t *row, int64_t n,
                                  const gf_cuda_pairs_task *t, const gf_cuda_pairs_found *f);
void gf_cuda_pairs_close(gf_cuda_pairs *c); /* NULL is fine */

#endif
