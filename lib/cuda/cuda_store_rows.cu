/* cuda_store_rows.cu - single records in and out of a store: one thread per word of a record. Averages: one warp per anchor. */
#include <cuda_bf16.h>

#include "cuda/cuda_store.h"

#define THREADS 256

static __global__ void __launch_bounds__(THREADS)
    move(uint32_t *records, uint8_t *touched, int words, int put, const int64_t *id, int64_t n, uint32_t *packed) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= n * words) return;
    const int64_t row = id[at / words], from = row * words + at % words;
    if (!put) {
        packed[at] = records[from];
        return;
    }
    records[from] = packed[at];
    if (at % words == 0) touched[row / GF_STORE_BLOCK] = 1;
}

cudaError_t gf_cuda_move_records(const gf_device_store *s, int put, const int64_t *id, int64_t n, unsigned char *packed) {
    const int words = static_cast<int>(s->record_bytes / 4);
    const int64_t blocks = (n * words + THREADS - 1) / THREADS;
    move<<<static_cast<unsigned>(blocks), THREADS, 0, s->stream>>>(reinterpret_cast<uint32_t *>(s->records), s->touched, words,
                                                                   put, id, n, reinterpret_cast<uint32_t *>(packed));
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS)
    move_average(const gf_device_store s, size_t offset, int put, int64_t dim, const int64_t *id, int64_t n, uint16_t *rows) {
    const int64_t i = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (i >= n || id[i] < 0 || id[i] >= s.n) return;
    uint16_t *at = reinterpret_cast<uint16_t *>(s.records + static_cast<size_t>(id[i]) * s.record_bytes + offset);
    uint16_t *row = rows + i * dim;
    for (int64_t d = threadIdx.x % 32; d < dim; d += 32) {
        if (put) at[d] = row[d];
        else row[d] = at[d];
    }
    if (put && threadIdx.x % 32 == 0) s.touched[id[i] / GF_STORE_BLOCK] = 1;
}

cudaError_t gf_cuda_move_averages(const gf_device_store *s, int put, int side, int64_t dim, const int64_t *id, int64_t n,
                                  uint16_t *rows) {
    const int64_t blocks = (n + THREADS / 32 - 1) / (THREADS / 32);
    const size_t offset = gf_bank_offset(s->modalities, s->temperatures, dim, side);
    move_average<<<static_cast<unsigned>(blocks), THREADS, 0, s->stream>>>(*s, offset, put, dim, id, n, rows);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) halves(const float *f32, __nv_bfloat16 *hi, __nv_bfloat16 *lo, int64_t count) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= count) return;
    hi[at] = __float2bfloat16_rn(f32[at]);
    lo[at] = __float2bfloat16_rn(f32[at] - __bfloat162float(hi[at]));
}

cudaError_t gf_cuda_ring_halves(const gf_device_store *s, int side, int64_t count) {
    const gf_cuda_embed *ring = &s->ring[side];
    const int64_t numbers = count * ring->f32.ld;
    halves<<<static_cast<unsigned>((numbers + THREADS - 1) / THREADS), THREADS, 0, s->stream>>>(
        ring->f32.row, static_cast<__nv_bfloat16 *>(ring->hi), static_cast<__nv_bfloat16 *>(ring->lo), numbers);
    return cudaGetLastError();
}
