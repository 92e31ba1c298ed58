/* cuda_quantile.cu - exact order statistics of rows of similarities that are never written, with the bits of cuda_select.cu.
 *
 * A thread block has some rows and makes their similarities four times, each time for eight more bits of the order-preserving key
 * of the wanted one: it counts the keys that begin with the bits known so far by their next eight, in shared memory. A block of
 * which no row is wanted ends at once: one launch serves a batch, whether all of its anchors are new or none.
 */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_exact.cuh"
#include "cuda/passes/tile_mma.cuh"
#include "cuda/step/select/cuda_order.cuh"

#define DIGITS 256
#define NONE 0xffffffffu /* no key */

struct wish {
    int64_t best;
    double fraction;
    float *value;
    const uint8_t *wanted; /* [samples] */
};

/* Search of a block: of every row, the wanted key. */
template <int ROWS> struct search {
    int count[ROWS][DIGITS]; /* keys by their digit; digit d of row r is at (d + r) % DIGITS, against bank conflicts */
    unsigned prefix[ROWS];   /* its digits so far */
    unsigned above[ROWS];    /* the smallest key above all that begin with them; noted with the last digit */
    int rank[ROWS];          /* its rank, from 1 on, among the keys that begin with them; 0: the row has no pairs */
};

/* ---- similarities of a block: a thread has OWN of its ROWS rows ---- */

template <class C> struct rounded_rows { /* on tensor cores */
    static constexpr int ROWS = C::BM, OWN = 2, THREADS = C::THREADS, BYTES = C::TILES;
    static_assert(C::MT == 1, "two rows per thread");
    static __device__ __forceinline__ int row(int i) { return threadIdx.x / 32 / C::WN * 16 + 8 * i + threadIdx.x % 32 / 4; }
    template <class Visit>
    static __device__ __forceinline__ void each(const gf_tile_args &a, unsigned char *shared, int r0, Visit visit) {
        gf_each_tile<C>(a, shared, r0, CUDART_NAN_F, [&](const float(&acc)[1][C::NT][4], int) {
#pragma unroll
            for (int n = 0; n < C::NT; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) visit(i / 2, acc[0][n][i]);
        });
    }
};

struct exact_rows { /* in float32 */
    static constexpr int ROWS = GF_EXACT_TILE, OWN = 4, THREADS = GF_EXACT_THREADS, BYTES = sizeof(gf_exact_shared);
    static __device__ __forceinline__ int row(int i) { return 4 * (threadIdx.x / 16) + i; }
    template <class Visit>
    static __device__ __forceinline__ void each(const gf_tile_args &a, unsigned char *shared, int r0, Visit visit) {
        for (int c0 = 0; c0 < a.k.rows; c0 += GF_EXACT_TILE) {
            float s[4][4];
            gf_exact_product(s, a.q, r0, a.k, c0, a.ld, *reinterpret_cast<gf_exact_shared *>(shared));
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    visit(i, gf_is_pair(a, r0 + row(i), c0 + 4 * (threadIdx.x % 16) + j) ? s[i][j] : CUDART_NAN_F);
        }
        __syncthreads();
    }
};

/* ---- the search ---- */

/* Counts the keys that begin with the prefix by the digit at `shift`. */
template <class S>
static __device__ __forceinline__ void count_digits(const gf_tile_args &a, search<S::ROWS> &x, unsigned char *shared, int r0,
                                                    int shift) {
    unsigned prefix[S::OWN];
#pragma unroll
    for (int i = 0; i < S::OWN; i++) prefix[i] = x.prefix[S::row(i)];
    S::each(a, shared, r0, [&](int i, float v) {
        const unsigned key = gf_order_key(v), digit = key >> shift & (DIGITS - 1);
        const int r = S::row(i);
        if (!(v == v)) return;
        if ((key ^ prefix[i]) >> shift < DIGITS) atomicAdd(&x.count[r][(digit + r) % DIGITS], 1);
        else if (shift == 0 && key > prefix[i] && key < x.above[r]) atomicMin(&x.above[r], key);
    });
}

/* Number of keys of row r whose digit is d; lane l has digits 255 - 8 l downwards. */
template <int ROWS> static __device__ __forceinline__ int at_digit(const search<ROWS> &x, int r, int d) {
    return x.count[r][(d + r) % DIGITS];
}
static __device__ __forceinline__ int first_digit() { return DIGITS - 1 - 8 * (threadIdx.x % 32); }

/* The digit of the key of that rank, in all threads of the warp; the rank becomes that among the keys which have it. */
template <int ROWS> static __device__ __forceinline__ int choose_digit(const search<ROWS> &x, int r, int &rank) {
    const unsigned all = 0xffffffffu;
    int own = 0, digit = first_digit();
    for (int i = 0; i < 8; i++) own += at_digit(x, r, digit - i);
    int before = own;
    for (int lanes = 1; lanes < 32; lanes *= 2) {
        const int lower = __shfl_up_sync(all, before, lanes);
        if (int(threadIdx.x % 32) >= lanes) before += lower;
    }
    before -= own;
    const bool here = before < rank && rank <= before + own;
    if (here)
        for (int n = at_digit(x, r, digit); before + n < rank; n = at_digit(x, r, digit)) before += n, digit--;
    const int lane = __ffs(int(__ballot_sync(all, here))) - 1;
    rank -= __shfl_sync(all, before, lane);
    return __shfl_sync(all, digit, lane);
}

/* Number of keys of row r, in all threads of the warp. */
template <int ROWS> static __device__ __forceinline__ int count_all(const search<ROWS> &x, int r) {
    int sum = 0;
    for (int i = threadIdx.x % 32; i < DIGITS; i += 32) sum += x.count[r][i];
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    return sum;
}

/* The smallest digit above d that some key has; DIGITS: none. */
template <int ROWS> static __device__ __forceinline__ int next_digit(const search<ROWS> &x, int r, int d) {
    int next = DIGITS;
    for (int i = 0; i < 8; i++)
        if (first_digit() - i > d && at_digit(x, r, first_digit() - i)) next = first_digit() - i;
    for (int lanes = 16; lanes > 0; lanes /= 2) next = min(next, __shfl_xor_sync(0xffffffffu, next, lanes));
    return next;
}

static __device__ float value_between(unsigned key, unsigned next, double fraction) {
    const double value = double(gf_order_value(key));
    return next == NONE ? float(value) : float(value + fraction * (double(gf_order_value(next)) - value));
}

/* One warp per row. The last digit ends the search. */
template <class S>
static __device__ __forceinline__ void choose_digits(search<S::ROWS> &x, const wish &w, int r0, int rows, int shift) {
    for (int r = threadIdx.x / 32; r < S::ROWS; r += S::THREADS / 32) {
        int rank = x.rank[r];
        if (shift == 24) {
            const int pairs = count_all(x, r);
            rank = int(w.best < 1 ? min(1, pairs) : w.best < pairs ? w.best : pairs);
        }
        if (rank == 0) { /* no pairs */
            if (shift == 0 && threadIdx.x % 32 == 0 && r0 + r < rows) w.value[r0 + r] = CUDART_NAN_F;
            if (threadIdx.x % 32 == 0) x.rank[r] = 0;
            continue;
        }
        const int digit = choose_digit(x, r, rank), next = shift == 0 ? next_digit(x, r, digit) : DIGITS;
        if (threadIdx.x % 32) continue;
        const unsigned before = x.prefix[r], key = before | unsigned(digit) << shift;
        x.rank[r] = rank, x.prefix[r] = key;
        if (shift || r0 + r >= rows) continue;
        const unsigned above = rank > 1 ? key : next < DIGITS ? before | unsigned(next) : x.above[r];
        w.value[r0 + r] = value_between(key, w.fraction > 0.0 ? above : NONE, w.fraction);
    }
}

template <class S>
static __global__ void __launch_bounds__(S::THREADS) quantile(const __grid_constant__ gf_tile_args a, const wish w) {
    extern __shared__ __align__(1024) unsigned char shared[];
    search<S::ROWS> &x = *reinterpret_cast<search<S::ROWS> *>(shared + S::BYTES);
    const int r0 = blockIdx.x * S::ROWS, r = r0 + threadIdx.x;
    const bool own = threadIdx.x < S::ROWS;
    if (!__syncthreads_or(own && r < a.q.rows && w.wanted[a.shift > 0 ? r >> a.shift : r])) return;
    if (own) x.prefix[threadIdx.x] = 0, x.above[threadIdx.x] = NONE, x.rank[threadIdx.x] = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < S::ROWS * DIGITS; i += S::THREADS) x.count[0][i] = 0;
        __syncthreads();
        count_digits<S>(a, x, shared, r0, shift);
        __syncthreads();
        choose_digits<S>(x, w, r0, a.q.rows, shift);
        __syncthreads();
    }
}

/* ---- launches ---- */

template <class S> static cudaError_t launch(const gf_tile_args &a, const wish &w, cudaStream_t stream) {
    static_assert(S::BYTES % 16 == 0 && S::THREADS >= S::ROWS, "");
    constexpr int SHARED = S::BYTES + static_cast<int>(sizeof(search<S::ROWS>));
    const cudaError_t e = cudaFuncSetAttribute(quantile<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (e != cudaSuccess) return e;
    quantile<S><<<(a.q.rows + S::ROWS - 1) / S::ROWS, S::THREADS, SHARED, stream>>>(a, w);
    return cudaGetLastError();
}

/* Tiles and counts within 163 KB. Few rows: 16 per block, where their tiles fit. */
template <int D, int HALVES> static cudaError_t launch_rounded(const gf_tile_args &a, const wish &w, cudaStream_t stream) {
    constexpr int ROW = 2 * D * HALVES;
    constexpr int WM = ROW <= 512 ? 4 : 2, WN = ROW <= 1024 ? 2 : 1, NT = ROW <= 512 ? 4 : 2;
    typedef gf_mma_shape<D, HALVES, WM, WN, 1, NT> many_rows;
    if constexpr (ROW <= 1024)
        if (gf_block_rows(a.q.rows) < 64)
            return launch<rounded_rows<gf_mma_shape<D, HALVES, 1, ROW <= 512 ? 8 : 4, 1, 2>>>(a, w, stream);
    return launch<rounded_rows<many_rows>>(a, w, stream);
}

template <int HALVES> static cudaError_t launch_width(const gf_tile_args &a, const wish &w, cudaStream_t stream) {
    switch (a.ld) {
    case 64: return launch_rounded<64, HALVES>(a, w, stream);
    case 128: return launch_rounded<128, HALVES>(a, w, stream);
    case 256: return launch_rounded<256, HALVES>(a, w, stream);
    case 512: return launch_rounded<512, HALVES>(a, w, stream);
    case 768:
        if constexpr (HALVES == 1) return launch_rounded<768, 1>(a, w, stream);
        break;
    case 1024:
        if constexpr (HALVES == 1) return launch_rounded<1024, 1>(a, w, stream);
        break;
    default: break;
    }
    return launch<exact_rows>(a, w, stream); /* as gf_product */
}

cudaError_t gf_quantile_rows(const gf_cuda_select *p, cudaStream_t stream) {
    gf_tile_args a = {};
    a.q = gf_operand_of(p->q), a.k = gf_operand_of(p->k);
    a.ld = static_cast<int>(p->k->f32.ld), a.q0 = static_cast<int>(p->s.q0), a.shift = p->s.shift;
    const wish w = {p->s.best, p->s.fraction, p->s.value, p->wanted};
    if (p->math == GF_CUDA_EXACT) return launch<exact_rows>(a, w, stream);
    return p->math == GF_CUDA_BF16 ? launch_width<1>(a, w, stream) : launch_width<2>(a, w, stream);
}
