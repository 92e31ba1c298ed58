/* cuda_select.cu - exact order statistics of rows of similarities.
 *
 * The similarities of some rows are written (cuda_kernels.cuh), then one block per row finds the wanted one, eight bits of its
 * order-preserving key at a time. Atomics count only integers, so the result depends on the values alone.
 */
#include "cuda/cuda_order.cuh"
#include "cuda/passes/cuda_kernels.cuh"

#define THREADS 512
#define WARPS (THREADS / 32)

struct select_args {
    const float *s; /* [rows of this chunk][columns] */
    int cols, r0;
    int64_t best;
    double fraction, alpha;
    int by_id, round_up, smallest;
    float *value;
    int32_t *tie;
};

/* Sum over the block, in every thread. */
static __device__ int block_sum(int x, int *shared) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    int sum = 0;
    for (int w = 0; w < WARPS; w++) sum += shared[w];
    return sum;
}

/* The wanted rank of a row: as on the CPU, util/array.c and cpu_select.c. */
static __device__ int rank_of(const select_args &a, int count) {
    int64_t best = a.best;
    if (a.by_id) best = a.round_up ? int64_t(ceil(a.alpha * double(count) * (1.0 - 1e-14))) : llround(a.alpha * double(count));
    if (best < 1) best = 1;
    return int(best < count ? best : count);
}

/* Key of the rank-th largest. */
static __device__ unsigned find_key(const float *s, int cols, int rank, int *histogram) {
    __shared__ unsigned chosen;
    __shared__ int left;
    unsigned prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += THREADS) histogram[i] = 0;
        __syncthreads();
        for (int c = threadIdx.x; c < cols; c += THREADS) {
            const float v = s[c];
            if (v == v && (gf_order_key(v) & mask) == prefix) atomicAdd(&histogram[gf_order_key(v) >> shift & 255], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = 255, seen = 0;
            while (digit > 0 && seen + histogram[digit] < rank) seen += histogram[digit--];
            chosen = prefix | unsigned(digit) << shift;
            left = rank - seen;
        }
        __syncthreads();
        prefix = chosen, rank = left, mask |= 255u << shift;
        __syncthreads();
    }
    return prefix;
}

/* Smallest value above `value`, or value itself if `rank` - 1 values are not all above it. */
static __device__ float next_above(const float *s, int cols, unsigned key, int greater, int rank) {
    __shared__ unsigned next;
    if (greater < rank - 1) return gf_order_value(key);
    if (threadIdx.x == 0) next = 0xffffffffu;
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += THREADS)
        if (s[c] == s[c] && gf_order_key(s[c]) > key) atomicMin(&next, gf_order_key(s[c]));
    __syncthreads();
    return gf_order_value(next);
}

/* Column of the n-th entry equal to the key, n >= 1, in the order of columns. */
static __device__ int nth_equal(const float *s, int cols, unsigned key, int n) {
    __shared__ int count[WARPS], found;
    if (threadIdx.x == 0) found = -1;
    for (int c0 = 0; c0 < cols; c0 += THREADS) {
        const int c = c0 + threadIdx.x;
        const bool equal = c < cols && s[c] == s[c] && gf_order_key(s[c]) == key;
        const unsigned ballot = __ballot_sync(0xffffffffu, equal);
        if (threadIdx.x % 32 == 0) count[threadIdx.x / 32] = __popc(ballot);
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < WARPS; w++) {
            if (w < int(threadIdx.x / 32)) before += count[w];
            total += count[w];
        }
        before += __popc(ballot & ((1u << threadIdx.x % 32) - 1));
        if (equal && before + 1 == n) found = c;
        __syncthreads();
        n -= total;
        if (n <= 0) break;
    }
    return found;
}

static __device__ void pick_rank(const select_args &a, const float *s, int r, int *histogram, int *shared) {
    int count = 0, greater = 0;
    for (int c = threadIdx.x; c < a.cols; c += THREADS) count += s[c] == s[c];
    const int rank = rank_of(a, block_sum(count, shared));
    if (rank < 1) {
        if (threadIdx.x == 0) a.value[r] = CUDART_NAN_F;
        return;
    }
    const unsigned key = find_key(s, a.cols, rank, histogram);
    for (int c = threadIdx.x; c < a.cols; c += THREADS) greater += s[c] == s[c] && gf_order_key(s[c]) > key;
    greater = block_sum(greater, shared);
    float value = gf_order_value(key);
    if (rank > 1 && a.fraction > 0.0) {
        const float next = next_above(s, a.cols, key, greater, rank);
        value = float(double(value) + a.fraction * (double(next) - double(value)));
    }
    const int tie = a.tie ? nth_equal(s, a.cols, key, rank - greater) : 0;
    if (threadIdx.x) return;
    a.value[r] = value;
    if (a.tie) a.tie[r] = tie;
}

static __device__ void pick_smallest(const select_args &a, const float *s, int r, int *shared) {
    __shared__ unsigned smallest;
    if (threadIdx.x == 0) smallest = gf_order_key(CUDART_INF_F);
    __syncthreads();
    unsigned own = 0xffffffffu;
    for (int c = threadIdx.x; c < a.cols; c += THREADS)
        if (s[c] == s[c]) own = min(own, gf_order_key(s[c]));
    atomicMin(&smallest, own);
    __syncthreads();
    int equal = 0;
    for (int c = threadIdx.x; c < a.cols; c += THREADS) equal += s[c] == s[c] && gf_order_key(s[c]) == smallest;
    equal = block_sum(equal, shared);
    if (threadIdx.x == 0) a.value[r] = gf_order_value(smallest), a.tie[r] = equal;
}

static __global__ void __launch_bounds__(THREADS) select(const select_args a) {
    __shared__ __align__(16) int histogram[256], shared[WARPS]; /* aligned: wide reads stay inside */
    const float *s = a.s + int64_t(blockIdx.x) * a.cols;
    const int r = a.r0 + blockIdx.x;
    if (a.smallest) pick_smallest(a, s, r, shared);
    else pick_rank(a, s, r, histogram, shared);
}

size_t gf_cuda_select_scratch(int64_t rows, int64_t cols) {
    return sizeof(float) * static_cast<size_t>(gf_product_rows(rows, cols)) * static_cast<size_t>(cols);
}

/* True if only values are asked for, and similarities need not be written: they are made several times instead, which is slower
 * in float32, unless few samples are wanted. */
static bool is_quantile(const gf_cuda_select *p) {
    const gf_select *x = &p->s;
    const bool rounded = p->math != GF_CUDA_EXACT && p->k->f32.ld <= (p->math == GF_CUDA_BF16 ? 1024 : 512);
    return (p->wanted || rounded) && !x->row_id && !p->live && x->copies <= 1 && !x->tie && !x->smallest;
}

cudaError_t gf_cuda_select_rows(const gf_cuda_select *p, cudaStream_t stream) {
    const gf_select *x = &p->s;
    if (is_quantile(p)) return gf_quantile_rows(p, stream);
    gf_product_args product = {};
    product.q = gf_operand_of(p->q), product.k = gf_operand_of(p->k);
    product.ld = static_cast<int>(p->k->f32.ld), product.q0 = static_cast<int>(x->q0), product.shift = x->shift;
    product.row_id = x->row_id, product.col_id = x->col_id;
    product.s = static_cast<float *>(x->scratch), product.live = p->live;
    select_args a = {product.s,         product.k.rows, 0,           x->best,  x->fraction, x->alpha,
                     x->row_id != NULL, x->round_up,    x->smallest, x->value, x->tie};
    const int chunk = static_cast<int>(gf_product_rows(product.q.rows, product.k.rows));
    for (int r0 = 0; r0 < product.q.rows; r0 += chunk) {
        product.r0 = a.r0 = r0, product.rows = min(chunk, product.q.rows - r0);
        const cudaError_t e = gf_product_of_copies(product, x->copies, x->copy_stride * product.ld, p->math, stream);
        if (e != cudaSuccess) return e;
        select<<<product.rows, THREADS, 0, stream>>>(a);
        const cudaError_t launched = cudaGetLastError();
        if (launched != cudaSuccess) return launched;
    }
    return cudaSuccess;
}
