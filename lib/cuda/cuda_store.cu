/* cuda_store.cu - what a store holds, on the device: single records in and out, the bank of averages, and the ring of recent rows. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/cuda_step.cuh"

/* ---------- Records in and out: one thread per word of a record. Averages: one warp per anchor ---------- */

#define THREADS 256

static __global__ void __launch_bounds__(THREADS)
    move(uint32_t *records, uint8_t *touched, int words, int last, int put, const int64_t *id, int64_t n, uint32_t *packed) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= n * words) return;
    const int64_t row = id[at / words], from = row * words + at % words;
    if (!put) {
        packed[at] = row < 0 ? 0 : records[from]; /* a key without a row */
        return;
    }
    if (row < 0 || at % words >= last) return;
    records[from] = packed[at];
    if (at % words == 0) touched[row / GF_STORE_BLOCK] = 1;
}

/* ----- keys ----- */

static __device__ bool has_state(const gf_device_store &s, int64_t row) {
    const uint32_t *word = reinterpret_cast<const uint32_t *>(s.records + static_cast<size_t>(row) * s.record_bytes);
    uint32_t any = 0;
    for (size_t w = 0; w < s.record_bytes / 4 - 2; w++) any |= word[w];
    return any != 0;
}

/* The last steps of MurmurHash3, as on the CPU. */
static __device__ uint64_t first_slot(const gf_device_store &s, int64_t key) {
    uint64_t h = static_cast<uint64_t>(key);
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return (h ^ h >> 33) & static_cast<uint64_t>(s.n - 2);
}

/* Key 0, which marks free slots, has the last row for itself; behind the slots is noted whether it is there, so that it counts. */
static __device__ int64_t place_of_zero(const gf_device_store &s, bool insert) {
    unsigned long long *there = reinterpret_cast<unsigned long long *>(&s.key[s.n - 1]);
    if (insert && atomicCAS(there, 0ull, 1ull) == 0) atomicAdd(reinterpret_cast<unsigned long long *>(s.used), 1ull);
    return s.n - 1;
}

static __device__ int64_t find_place(const gf_device_store &s, int64_t key, bool insert, bool *full) {
    const uint64_t slots = static_cast<uint64_t>(s.n - 1);
    if (key == 0) return place_of_zero(s, insert);
    uint64_t at = first_slot(s, key);
    for (uint64_t tries = 0; tries < slots; tries++, at = (at + 1) & (slots - 1)) {
        unsigned long long *slot = reinterpret_cast<unsigned long long *>(&s.key[at]);
        unsigned long long have = *reinterpret_cast<volatile unsigned long long *>(slot);
        if (have == 0 && !insert) return -1;
        if (have == 0) have = atomicCAS(slot, 0ull, static_cast<unsigned long long>(key));
        if (have == static_cast<unsigned long long>(key)) return static_cast<int64_t>(at);
        if (have != 0) continue;
        uint32_t *last = reinterpret_cast<uint32_t *>(s.records + (at + 1) * s.record_bytes) - 2; /* the record's key */
        last[0] = static_cast<uint32_t>(key), last[1] = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
        const unsigned long long used = atomicAdd(reinterpret_cast<unsigned long long *>(s.used), 1ull);
        if (used >= static_cast<unsigned long long>(gf_cuda_store_room(slots))) *full = true;
        return static_cast<int64_t>(at);
    }
    *full |= insert;
    return -1;
}

static __global__ void __launch_bounds__(THREADS)
    find_places(const gf_device_store s, const int64_t *key, int64_t n, int insert, int64_t *place, gf_cuda_control *control) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    bool full = false;
    if (i >= n) return;
    place[i] = find_place(s, key[i], insert && !(control && gf_failed(control)), &full);
    if (full && control) atomicMin(reinterpret_cast<long long *>(&control->bad_id), static_cast<long long>(GF_CUDA_NO_ROOM));
}

cudaError_t gf_cuda_find_places(const gf_device_store *s, const int64_t *key, int64_t n, int insert, int64_t *place,
                                gf_cuda_control *control, cudaStream_t stream) {
    find_places<<<static_cast<unsigned>((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*s, key, n, insert, place, control);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) move_keys(const gf_device_store from, const gf_device_store to) {
    const int64_t row = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    bool full = false;
    if (row >= from.n || (row < from.n - 1 && from.key[row] == 0) || !has_state(from, row)) return;
    const int64_t place = find_place(to, row < from.n - 1 ? from.key[row] : 0, true, &full);
    const uint32_t *old = reinterpret_cast<const uint32_t *>(from.records + static_cast<size_t>(row) * from.record_bytes);
    uint32_t *word = reinterpret_cast<uint32_t *>(to.records + static_cast<size_t>(place) * to.record_bytes);
    for (size_t w = 0; w < from.record_bytes / 4; w++) word[w] = old[w];
    to.touched[place / GF_STORE_BLOCK] = 1;
}

cudaError_t gf_cuda_move_keys(const gf_device_store *from, const gf_device_store *to, cudaStream_t stream) {
    move_keys<<<static_cast<unsigned>((from->n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*from, *to);
    return cudaGetLastError();
}

cudaError_t gf_cuda_move_records(const gf_device_store *s, int put, const int64_t *id, int64_t n, unsigned char *packed) {
    const int words = static_cast<int>(s->record_bytes / 4);
    const int64_t blocks = (n * words + THREADS - 1) / THREADS;
    move<<<static_cast<unsigned>(blocks), THREADS, 0, s->stream>>>(reinterpret_cast<uint32_t *>(s->records), s->touched, words,
                                                                   s->key ? words - 2 : words, put, id, n,
                                                                   reinterpret_cast<uint32_t *>(packed));
    return cudaGetLastError();
}

/* One warp per record. A record of zeros brings no key to the store: its anchor has no state. */
static __global__ void __launch_bounds__(THREADS)
    exchange_records(const gf_device_store s, int put, const int64_t *id, int64_t n, uint32_t *packed) {
    const int64_t i = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32, words = static_cast<int>(s.record_bytes / 4), state = s.key ? words - 2 : words;
    if (i >= n) return;
    uint32_t *own = packed + i * words;
    bool seen = false, full = false;
    for (int w = lane; put && w < state; w += 32) seen |= own[w] != 0;
    seen = __any_sync(0xffffffffu, seen);
    long long place = id[i] >= 0 && id[i] < s.n ? id[i] : -1;
    if (s.key && lane == 0) place = find_place(s, id[i], seen, &full);
    place = __shfl_sync(0xffffffffu, place, 0);
    uint32_t *there = reinterpret_cast<uint32_t *>(s.records + static_cast<size_t>(place < 0 ? 0 : place) * s.record_bytes);
    for (int w = lane; w < state; w += 32) {
        if (!put) own[w] = place < 0 ? 0 : there[w];
        else if (place >= 0) there[w] = own[w];
    }
    for (int w = state + lane; !put && w < words; w += 32) own[w] = 0;
    if (seen && place >= 0 && lane == 0) s.touched[place / GF_STORE_BLOCK] = 1;
}

cudaError_t gf_cuda_exchange_records(const gf_device_store *s, int put, const int64_t *id, int64_t n, void *packed) {
    const int64_t blocks = (n + THREADS / 32 - 1) / (THREADS / 32);
    exchange_records<<<static_cast<unsigned>(blocks), THREADS, 0, s->stream>>>(*s, put, id, n, static_cast<uint32_t *>(packed));
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

/* ---------- Embeddings that a step remembers. One warp per sample or row ---------- */

#define WARPS 4

/* ----- the bank, as on the CPU ----- */

static __device__ const __half *bank_of(const gf_cuda_step &x, int i, int64_t place) {
    const struct gf_device_store &s = x.store;
    const size_t offset = gf_bank_offset(s.modalities, s.temperatures, x.dim, i);
    return reinterpret_cast<const __half *>(s.records + static_cast<size_t>(place) * s.record_bytes + offset);
}

/* The average of sample j before this step; NULL: an id that is out of range, which fails the step. */
static __device__ const __half *old_average(const gf_cuda_step &x, int i, int64_t j) {
    if (x.bank[i]) return reinterpret_cast<const __half *>(x.bank[i]) + j * x.dim;
    const int64_t place = gf_state_place(&x, j); /* one rank */
    return place >= 0 && place < x.store.n ? bank_of(x, i, place) : nullptr;
}

static __device__ double warp_sum(double x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

static __device__ double sum_of_rows(const gf_cuda_embed &z, int64_t first, int rows, int64_t d) {
    double sum = 0.0;
    for (int v = 0; v < rows; v++) sum += double(z.f32.row[(first + v) * z.f32.ld + d]);
    return sum;
}

static __device__ void put_rounded(const gf_cuda_embed &to, int64_t at, float v) {
    const __nv_bfloat16 hi = __float2bfloat16_rn(v);
    to.f32.row[at] = v;
    if (to.hi) static_cast<__nv_bfloat16 *>(to.hi)[at] = hi;
    if (to.lo) static_cast<__nv_bfloat16 *>(to.lo)[at] = __float2bfloat16_rn(v - __bfloat162float(hi));
}

static __global__ void __launch_bounds__(32 * WARPS) average(const gf_cuda_step x) {
    const int64_t j = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int i = blockIdx.y, rows = x.plan.per_sample, lane = threadIdx.x % 32;
    if (j >= x.plan.cols) return;
    const gf_cuda_embed &z = x.side[i].z, &to = x.side[i].bank;
    const __half *old = old_average(x, i, j);
    const int64_t first = j * rows;
    double square = 0.0, length = 0.0;
    bool seen = false;
    for (int64_t d = lane; d < x.dim; d += 32) {
        const double sum = sum_of_rows(z, first, rows, d);
        square += sum * sum;
        seen |= old && __half2float(old[d]) != 0.0f;
    }
    seen = __any_sync(0xffffffffu, seen);
    const double m = seen ? x.plan.o.bank_momentum : 0.0, share = (1.0 - m) / fmax(sqrt(warp_sum(square)), 1e-12);
    const auto mixed = [&](int64_t d) {
        return (seen ? m * double(__half2float(old[d])) : 0.0) + share * sum_of_rows(z, first, rows, d);
    };
    for (int64_t d = lane; d < x.dim; d += 32) length += mixed(d) * mixed(d);
    length = fmax(sqrt(warp_sum(length)), 1e-12);
    for (int64_t d = lane; d < to.f32.ld; d += 32) {
        const float v = d < x.dim ? float(mixed(d) / length) : 0.0f;
        for (int k = 0; k < rows; k++) put_rounded(to, (first + k) * to.f32.ld + d, v);
    }
}

cudaError_t gf_cuda_bank(const gf_cuda_step *x, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((x->plan.cols + WARPS - 1) / WARPS);
    average<<<dim3(blocks, x->plan.sides), 32 * WARPS, 0, stream>>>(*x);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(32 * WARPS) save_average(const gf_cuda_step x) {
    const int64_t a = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int i = blockIdx.y;
    if (a >= x.plan.rows || gf_failed(x.control)) return;
    const gf_cuda_embed &from = x.side[i].bank;
    __half *to = const_cast<__half *>(bank_of(x, i, gf_state_place(&x, a)));
    const float *row = from.f32.row + (x.row0 + a) * x.plan.per_sample * from.f32.ld;
    for (int64_t d = threadIdx.x % 32; d < x.dim; d += 32) to[d] = __float2half_rn(row[d]);
}

cudaError_t gf_cuda_bank_save(const gf_cuda_step *x, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((x->plan.rows + WARPS - 1) / WARPS);
    save_average<<<dim3(blocks, x->plan.sides), 32 * WARPS, 0, stream>>>(*x);
    return cudaGetLastError();
}

/* ----- the ring ----- */

static __device__ void copy_row(const gf_cuda_embed &to, int64_t slot, const float *z) {
    for (int64_t d = threadIdx.x % 32; d < to.f32.ld; d += 32) {
        const int64_t at = slot * to.f32.ld + d;
        const float v = z[d];
        const __nv_bfloat16 hi = __float2bfloat16_rn(v);
        to.f32.row[at] = v;
        static_cast<__nv_bfloat16 *>(to.hi)[at] = hi;
        static_cast<__nv_bfloat16 *>(to.lo)[at] = __float2bfloat16_rn(v - __bfloat162float(hi));
    }
}

/* If the batch exceeds the ring only its last rows stay. */
static __global__ void __launch_bounds__(32 * WARPS) push(const gf_cuda_step x) {
    const int64_t all = x.plan.cols * x.plan.per_sample, capacity = x.store.ring_rows;
    const int64_t r = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    const int i = blockIdx.y;
    if (!gf_failed(x.control) && r < all && r >= all - capacity) {
        const int64_t slot = (x.store.state->ring_head + r) % capacity;
        const gf_cuda_embed &from = x.plan.bank ? x.side[i].bank : x.side[i].z;
        copy_row(x.store.ring[i], slot, from.f32.row + r * from.f32.ld);
        if (threadIdx.x % 32 == 0) x.store.ring_id[i][slot] = x.id[r / x.plan.per_sample];
    }
    if (!gf_is_last_block(x.control, gridDim.x * gridDim.y) || threadIdx.x || gf_failed(x.control)) return;
    gf_cuda_shared *s = x.store.state;
    s->ring_head = (s->ring_head + all) % capacity;
    s->ring_count = s->ring_count + all < capacity ? s->ring_count + all : capacity;
}

cudaError_t gf_cuda_ring_push(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t all = x->plan.cols * x->plan.per_sample;
    push<<<dim3(static_cast<unsigned>((all + WARPS - 1) / WARPS), x->plan.sides), 32 * WARPS, 0, stream>>>(*x);
    return cudaGetLastError();
}
