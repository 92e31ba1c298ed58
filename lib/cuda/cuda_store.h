/* cuda_store.h - the state of the anchors on the device. Records are those of method/formulas/record.h, one per anchor, so that a
 * step touches one or two sectors per anchor; all-zero bytes mean never seen. */
#pragma once

#include "cuda/cuda_ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cuda_shared { /* in device memory */
    gf_record shared[2];
    int64_t ring_head, ring_count;
} gf_cuda_shared;

struct gf_device_store {
    cudaStream_t stream; /* of the context that made it, then of the last step */
    int64_t n;
    int modalities, temperatures;
    size_t record_bytes;
    unsigned char *records; /* [n][record_bytes]: device memory, or pinned and mapped host memory */
    int on_host;
    uint8_t *touched; /* [blocks] */
    gf_cuda_shared *state;
    int64_t ring_rows, ring_dim, ring_ld;
    gf_cuda_embed ring[2]; /* rows [capacity][ld] with the halves that tensor cores read */
    int64_t *ring_id[2];   /* [capacity] */
    struct gf_cuda_staging *staging;
};

glofnd_status gf_cuda_store_open(gf_error *err, gf_device_ctx *d, const gf_store_spec *spec, size_t record_bytes,
                                 gf_device_store **out);
/* The store of a step on `stream`, or one without records for rows of the caller in its place. */
struct gf_device_store gf_cuda_store_of(const gf_device_step *x, cudaStream_t stream);
size_t gf_cuda_store_held(const gf_device_store *s); /* bytes on the device */
void gf_cuda_store_close(gf_device_store *s);
glofnd_status gf_cuda_store_touched(gf_error *err, gf_device_store *s, uint8_t *blocks);
glofnd_status gf_cuda_store_range(gf_error *err, gf_device_store *s, int put, int64_t first, int64_t count, void *records);
glofnd_status gf_cuda_store_rows(gf_error *err, gf_device_store *s, int put, const int64_t *id, int64_t n, void *records);
glofnd_status gf_cuda_store_state(gf_error *err, gf_device_store *s, int put, gf_device_state *state);
glofnd_status gf_cuda_store_ring(gf_error *err, gf_device_store *s, int put, int side, int64_t count, float *rows, int64_t *id);
glofnd_status gf_cuda_store_bank(gf_error *err, gf_device_ctx *d, gf_device_store *s, int put, int side, int64_t dim,
                                 const int64_t *id, int64_t n, void *rows);

/* cuda_store_rows.cu: n records between the store and `packed` (device). */
cudaError_t gf_cuda_move_records(const gf_device_store *s, int put, const int64_t *id, int64_t n, unsigned char *packed);
/* n averages of one side between the store and `rows` (device) [n][dim]; ids outside of the store are passed over. */
cudaError_t gf_cuda_move_averages(const gf_device_store *s, int put, int side, int64_t dim, const int64_t *id, int64_t n,
                                  uint16_t *rows);
/* Computes the halves of the first `count` ring rows from their f32. */
cudaError_t gf_cuda_ring_halves(const gf_device_store *s, int side, int64_t count);

#ifdef __cplusplus
}
#endif
