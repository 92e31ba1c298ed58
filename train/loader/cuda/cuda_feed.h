/* cuda_feed.h - batches of views for a network on the device, one ahead of its step.
 *
 *     put(batch 0)
 *     loop: take(batch k) -> the network's stream works on it;  put(batch k + 1), meanwhile
 * put copies pictures and jobs to the device and makes the 8-bit views, on a stream of the feed, with low priority. take
 * normalises them into the network's input, on the network's stream. Each waits for the other by events; the host waits only for
 * its own buffers.
 */
#pragma once

#include "image/view_job.h"
#include "nn/nn_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gf_cuda_feed gf_cuda_feed;

typedef struct gf_cuda_feed_spec {
    int size;           /* pixels of a view's side */
    int64_t views;      /* of a batch, all together */
    gf_type type;       /* of the network's input [views][size][size][channels] */
    int channels;       /* 3, or 8 with zeros */
    const float *level; /* [3][256] normalised value of a byte */
    void *stream;       /* cudaStream_t of the network */
} gf_cuda_feed_spec;

/* E_UNSUPPORTED: views of this size cannot be made on the device. */
glofnd_status gf_cuda_feed_create(gf_error *err, const gf_cuda_feed_spec *spec, gf_cuda_feed **out);
void gf_cuda_feed_free(gf_cuda_feed *f); /* waits; NULL is fine */
void gf_cuda_feed_wait(gf_cuda_feed *f); /* until nothing of the host's memory is read any more; NULL is fine */
/* Keeps all pictures of a dataset on the device; jobs of later puts refer to them. E_MEMORY: they do not fit, nothing changed. */
glofnd_status gf_cuda_feed_keep(gf_error *err, gf_cuda_feed *f, const uint8_t *pixels, size_t bytes);
/* jobs [views] are copied at once. runs [count]: their pixels; must not change until gf_cuda_feed_wait_copied or the next put
 * returns, and be pinned to be copied in the background; count 0 with kept pictures. */
glofnd_status gf_cuda_feed_put(gf_error *err, gf_cuda_feed *f, const gf_view_job *jobs, const gf_pixels *runs, int count);
glofnd_status gf_cuda_feed_wait_copied(gf_error *err, gf_cuda_feed *f);
/* Writes the views of the last put to the network's input. */
glofnd_status gf_cuda_feed_take(gf_error *err, gf_cuda_feed *f, void *input);
size_t gf_cuda_feed_held(const gf_cuda_feed *f); /* bytes on the device; NULL: 0 */
/* For tests: the 8-bit views of the last put [views][size][size][3] to the host; waits. */
glofnd_status gf_cuda_feed_bytes(gf_error *err, gf_cuda_feed *f, uint8_t *rgb);

/* Memory that copies can run from in the background; NULL: none. */
void *gf_cuda_pinned_alloc(size_t bytes);
void gf_cuda_pinned_free(void *memory);

#ifdef __cplusplus
}
#endif
