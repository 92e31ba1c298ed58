/* cuda_select.cu - pass A: exact order statistics of rows of similarities. */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_exact.cuh"
#include "cuda/passes/tile_mma.cuh"

/* ---------- Floats as unsigned integers of the same order ---------- */

/* Larger floats have larger keys; -0 and 0 are one value. No NaN. */
__device__ __forceinline__ unsigned gf_order_key(float v) {
    const unsigned u = __float_as_uint(v + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

__device__ __forceinline__ float gf_order_value(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* What rows have of which some columns are no pairs, as both ends are one anchor: as place_of of cpu/cpu_passes.c. */
struct keyed_place {
    const int32_t *unpaired; /* NULL: there are no such rows */
    int64_t negatives;
    double alpha;
};

/* gf_quantile_place of util/array.c for row r, with the same bits; what is given, unless the row has such columns. */
__device__ __forceinline__ void gf_keyed_place(const keyed_place &x, int r, int64_t &best, double &fraction) {
    const int64_t left = x.unpaired ? x.negatives - x.unpaired[r] : 0;
    if (!x.unpaired || x.unpaired[r] == 0) return;
    const double position = __dmul_rn(1.0 - x.alpha, double(left - 1)), below = floor(position);
    best = left - int64_t(below);
    fraction = __dsub_rn(position, below);
}

/* ---------- From similarities that are written ----------
 *
 * The similarities of some rows are written (cuda_kernels.cuh), then one block per row finds the wanted one, eight bits of its
 * order-preserving key at a time. Atomics count only integers, so the result depends on the values alone.
 */

#define SELECT_THREADS 512
#define SELECT_WARPS (SELECT_THREADS / 32)

struct select_args {
    const float *s; /* [rows of this chunk][columns] */
    int cols, r0;
    int64_t best;
    double fraction, alpha;
    int by_id, round_up;
    float *value;
    int32_t *tie;
    keyed_place keyed;
};

/* Sum over the block, in every thread. */
static __device__ int block_sum(int x, int *shared) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    int sum = 0;
    for (int w = 0; w < SELECT_WARPS; w++) sum += shared[w];
    return sum;
}

/* The wanted rank of a row: as on the CPU, util/array.c and cpu_passes.c. */
static __device__ int rank_of(const select_args &a, int count, int64_t best) {
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
        for (int i = threadIdx.x; i < 256; i += SELECT_THREADS) histogram[i] = 0;
        __syncthreads();
        for (int c = threadIdx.x; c < cols; c += SELECT_THREADS) {
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
    for (int c = threadIdx.x; c < cols; c += SELECT_THREADS)
        if (s[c] == s[c] && gf_order_key(s[c]) > key) atomicMin(&next, gf_order_key(s[c]));
    __syncthreads();
    return gf_order_value(next);
}

/* Column of the n-th entry equal to the key, n >= 1, in the order of columns. */
static __device__ int nth_equal(const float *s, int cols, unsigned key, int n) {
    __shared__ int count[SELECT_WARPS], found;
    if (threadIdx.x == 0) found = -1;
    for (int c0 = 0; c0 < cols; c0 += SELECT_THREADS) {
        const int c = c0 + threadIdx.x;
        const bool equal = c < cols && s[c] == s[c] && gf_order_key(s[c]) == key;
        const unsigned ballot = __ballot_sync(0xffffffffu, equal);
        if (threadIdx.x % 32 == 0) count[threadIdx.x / 32] = __popc(ballot);
        __syncthreads();
        int before = 0, total = 0;
        for (int w = 0; w < SELECT_WARPS; w++) {
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
    for (int c = threadIdx.x; c < a.cols; c += SELECT_THREADS) count += s[c] == s[c];
    int64_t best = a.best;
    double fraction = a.fraction;
    gf_keyed_place(a.keyed, r, best, fraction);
    const int rank = rank_of(a, block_sum(count, shared), best);
    if (rank < 1) {
        if (threadIdx.x == 0) a.value[r] = CUDART_NAN_F;
        return;
    }
    const unsigned key = find_key(s, a.cols, rank, histogram);
    for (int c = threadIdx.x; c < a.cols; c += SELECT_THREADS) greater += s[c] == s[c] && gf_order_key(s[c]) > key;
    greater = block_sum(greater, shared);
    float value = gf_order_value(key);
    if (rank > 1 && fraction > 0.0) {
        const float next = next_above(s, a.cols, key, greater, rank);
        value = float(double(value) + fraction * (double(next) - double(value)));
    }
    const int tie = a.tie ? nth_equal(s, a.cols, key, rank - greater) : 0;
    if (threadIdx.x) return;
    a.value[r] = value;
    if (a.tie) a.tie[r] = tie;
}

static __global__ void __launch_bounds__(SELECT_THREADS) select(const select_args a) {
    __shared__ __align__(16) int histogram[256], shared[SELECT_WARPS]; /* aligned: wide reads stay inside */
    const float *s = a.s + int64_t(blockIdx.x) * a.cols;
    const int r = a.r0 + blockIdx.x;
    pick_rank(a, s, r, histogram, shared);
}

/* ---------- From similarities that are never written, with the same bits ----------
 *
 * A thread block has some rows and makes their similarities twice. First it counts them in bins of order-preserving keys: 32 for
 * each power of two from 2^-8 to 1. Then it collects those of the bin that holds the wanted one. Where a bin holds too many, or
 * the wanted one is smaller, it makes them four times more, each time for eight more bits of the wanted key. Counts and lists are
 * in shared memory. A block of which no row is wanted ends at once: one launch serves a batch, whether all of its anchors are new
 * or none.
 */

#define BINS 256
#define NONE 0xffffffffu                /* no key */
#define COARSE_SHIFT 18                 /* 5 bits of the mantissa */
#define COARSE_BASE (0xbb800000u >> 18) /* of the key of 2^-8 */

struct wish {
    int64_t best;
    double fraction;
    float *value;
    const uint8_t *wanted; /* [samples]; NULL: all are */
    keyed_place keyed;     /* of the kernels with keys */
};

/* Search of a block: of every row, the wanted key. */
template <int ROWS> struct search {
    unsigned bin[ROWS]
                [BINS];   /* number of keys; bin b of row r is at (b + r) % BINS, against bank conflicts. Then: the keys of one */
    unsigned at[ROWS];    /* coarse: the bin of the wanted key. Digits: its upper bits, which are those of the first bin */
    unsigned above[ROWS]; /* the smallest key above all of that bin */
    int listed[ROWS];     /* keys that are listed */
    int rank[ROWS];       /* of the wanted key, from 1 on, in its bin; 0: the row has no pairs */
};

/* ---- similarities of a block: a thread has OWN of its ROWS rows ---- */

template <class C> struct rounded_rows { /* on tensor cores */
    static constexpr int ROWS = C::BM, OWN = 2, THREADS = C::THREADS, BYTES = C::TILES;
    static_assert(C::MT == 1, "two rows per thread");
    static __device__ __forceinline__ int row(int i) { return threadIdx.x / 32 / C::WN * 16 + 8 * i + threadIdx.x % 32 / 4; }
    template <bool KEYED, class Visit>
    static __device__ __forceinline__ void each(const gf_tile_args &a, unsigned char *shared, int r0, Visit visit) {
        gf_each_tile<C>(a, shared, r0, CUDART_NAN_F, [&](float(&acc)[1][C::NT][4], int c) {
            if (KEYED) gf_blank_keys<C>(a, acc, r0 + threadIdx.x / 32 / C::WN * 16, c, CUDART_NAN_F);
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
    template <bool KEYED, class Visit>
    static __device__ __forceinline__ void each(const gf_tile_args &a, unsigned char *shared, int r0, Visit visit) {
        constexpr unsigned FLAGS = KEYED ? GF_ANY_KEYED : GF_ANY_FLAGS;
        for (int c0 = 0; c0 < a.k.rows; c0 += GF_EXACT_TILE) {
            float s[4][4];
            gf_exact_product(s, a.q, r0, a.k, c0, a.ld, *reinterpret_cast<gf_exact_shared *>(shared));
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    visit(i, gf_is_pair_of<FLAGS>(a, r0 + row(i), c0 + 4 * (threadIdx.x % 16) + j) ? s[i][j] : CUDART_NAN_F);
        }
        __syncthreads();
    }
};

/* ---- passes over the similarities ---- */

enum pass_kind { COUNT_COARSE, LIST_COARSE, COUNT_DIGITS };

/* The bin of a key; digits: BINS or more, if it is in none. The first and the last of coarse bins hold all that is below and
 * above, too. */
static __device__ __forceinline__ unsigned bin_of(unsigned key, unsigned at, pass_kind kind, int shift) {
    if (kind == COUNT_DIGITS) return (key >> shift) - at;
    return unsigned(min(max(int((key >> shift) - COARSE_BASE), 0), BINS - 1));
}

template <class S, bool KEYED>
static __device__ __forceinline__ void visit_keys(const gf_tile_args &a, search<S::ROWS> &x, unsigned char *shared, int r0,
                                                  pass_kind kind, int shift) {
    unsigned at[S::OWN];
#pragma unroll
    for (int i = 0; i < S::OWN; i++) at[i] = x.at[S::row(i)];
    S::template each<KEYED>(a, shared, r0, [&](int i, float v) {
        const unsigned key = gf_order_key(v), bin = bin_of(key, at[i], kind, shift);
        const int r = S::row(i);
        if (!(v == v)) return;
        if (kind == LIST_COARSE) {
            if (bin == at[i]) x.bin[r][atomicAdd(&x.listed[r], 1)] = key;
            else if (bin > at[i]) atomicMin(&x.above[r], key);
        } else if (bin < BINS) {
            atomicAdd(&x.bin[r][(bin + r) % BINS], 1u);
        } else if (shift == 0 && key > at[i]) {
            atomicMin(&x.above[r], key);
        }
    });
}

/* ---- bins of a row, by a warp; all its threads get the results ---- */

template <int ROWS> static __device__ __forceinline__ int at_bin(const search<ROWS> &x, int r, int bin) {
    return int(x.bin[r][(bin + r) % BINS]);
}

static __device__ __forceinline__ int lane_of() { return threadIdx.x % 32; }

/* Lane l has the bins 255 - 8 l downwards. */
static __device__ __forceinline__ int first_bin() { return BINS - 1 - 8 * lane_of(); }

template <int ROWS> static __device__ __forceinline__ int count_all(const search<ROWS> &x, int r) {
    int sum = 0;
    for (int i = lane_of(); i < BINS; i += 32) sum += int(x.bin[r][i]);
    return __reduce_add_sync(0xffffffffu, sum);
}

/* The bin of the key of that rank; the rank becomes that among the keys of the bin. */
template <int ROWS> static __device__ __forceinline__ int choose_bin(const search<ROWS> &x, int r, int &rank) {
    const unsigned all = 0xffffffffu;
    int own = 0, bin = first_bin();
    for (int i = 0; i < 8; i++) own += at_bin(x, r, bin - i);
    int before = own;
    for (int lanes = 1; lanes < 32; lanes *= 2) {
        const int lower = __shfl_up_sync(all, before, lanes);
        if (lane_of() >= lanes) before += lower;
    }
    before -= own;
    const bool here = before < rank && rank <= before + own;
    if (here)
        for (int n = at_bin(x, r, bin); before + n < rank; n = at_bin(x, r, bin)) before += n, bin--;
    const int lane = __ffs(int(__ballot_sync(all, here))) - 1;
    rank -= __shfl_sync(all, before, lane);
    return __shfl_sync(all, bin, lane);
}

/* The smallest bin above this one that holds a key; BINS: none. */
template <int ROWS> static __device__ __forceinline__ int next_bin(const search<ROWS> &x, int r, int bin) {
    int next = BINS;
    for (int i = 0; i < 8; i++)
        if (first_bin() - i > bin && at_bin(x, r, first_bin() - i)) next = first_bin() - i;
    return __reduce_min_sync(0xffffffffu, next);
}

/* ---- results ---- */

/* next: the smallest key above the wanted one. NONE: there is none. */
template <bool KEYED> static __device__ void write_value(const wish &w, int r, unsigned key, unsigned next) {
    const double value = double(gf_order_value(key));
    int64_t best = w.best;
    double fraction = w.fraction;
    if (KEYED) gf_keyed_place(w.keyed, r, best, fraction);
    const bool between = fraction > 0.0 && next != NONE;
    w.value[r] = between ? float(value + fraction * (double(gf_order_value(next)) - value)) : float(value);
}

/* The rank of the wanted key among all of the row. */
template <bool KEYED, int ROWS>
static __device__ __forceinline__ int first_rank(const search<ROWS> &x, const wish &w, int r0, int r) {
    const int pairs = count_all(x, r);
    int64_t best = w.best;
    double fraction = 0.0;
    if (KEYED) gf_keyed_place(w.keyed, r0 + r, best, fraction);
    return best < 1 ? min(1, pairs) : best < pairs ? int(best) : pairs;
}

/* Calls body(r) in the warp of each row. */
template <class S, class Body> static __device__ __forceinline__ void each_row(Body body) {
    for (int r = threadIdx.x / 32; r < S::ROWS; r += S::THREADS / 32) body(r);
}

/* True if every row can go on with a list of the keys of its bin. */
template <class S, bool KEYED>
static __device__ __forceinline__ bool choose_lists(search<S::ROWS> &x, const wish &w, int r0, int rows) {
    bool missed = false;
    each_row<S>([&](int r) {
        int rank = r0 + r < rows ? first_rank<KEYED>(x, w, r0, r) : 0;
        const int bin = rank ? choose_bin(x, r, rank) : BINS;
        missed |= bin == 0 || (rank && at_bin(x, r, bin) > BINS);
        if (lane_of() == 0) x.rank[r] = rank, x.at[r] = unsigned(bin);
    });
    return !__syncthreads_or(missed);
}

/* The wanted keys of rows whose lists are complete: bit by bit, the largest number that enough keys reach. */
template <class S, bool KEYED>
static __device__ __forceinline__ void pick_listed(const search<S::ROWS> &x, const wish &w, int r0, int rows) {
    each_row<S>([&](int r) {
        const unsigned all = 0xffffffffu;
        const int rank = x.rank[r];
        unsigned own[BINS / 32], key = 0;
        if (r0 + r >= rows) return;
        for (int i = 0; i < BINS / 32; i++) own[i] = lane_of() + 32 * i < x.listed[r] ? x.bin[r][lane_of() + 32 * i] : 0;
        const auto reaching = [&](unsigned limit) {
            int count = 0;
            for (int i = 0; i < BINS / 32; i++) count += own[i] >= limit;
            return __reduce_add_sync(all, count);
        };
        for (unsigned bit = 1u << 31; rank && bit; bit >>= 1)
            if (reaching(key | bit) >= rank) key |= bit;
        unsigned next = x.above[r];
        for (int i = 0; i < BINS / 32; i++)
            if (own[i] > key) next = min(next, own[i]);
        next = __reduce_min_sync(all, next);
        const bool repeated = reaching(key + 1) < rank - 1;
        if (lane_of() == 0 && rank) write_value<KEYED>(w, r0 + r, key, repeated ? key : next);
        if (lane_of() == 0 && !rank) w.value[r0 + r] = CUDART_NAN_F;
    });
}

/* Eight more bits of every wanted key; the last ones end the search. */
template <class S, bool KEYED>
static __device__ __forceinline__ void choose_digits(search<S::ROWS> &x, const wish &w, int r0, int rows, int shift) {
    each_row<S>([&](int r) {
        int rank = shift != 24 ? x.rank[r] : !KEYED || r0 + r < rows ? first_rank<KEYED>(x, w, r0, r) : 0;
        const int bin = rank ? choose_bin(x, r, rank) : 0, next = rank && shift == 0 ? next_bin(x, r, bin) : BINS;
        __syncwarp(); /* all have read the rank */
        if (lane_of()) return;
        const unsigned first = x.at[r], key = first + unsigned(bin);
        x.rank[r] = rank, x.at[r] = shift ? key << 8 : key;
        if (shift || r0 + r >= rows) return;
        if (rank) write_value<KEYED>(w, r0 + r, key, rank > 1 ? key : next < BINS ? first + unsigned(next) : x.above[r]);
        else w.value[r0 + r] = CUDART_NAN_F;
    });
}

/* ---- the kernel ---- */

template <class S> static __device__ __forceinline__ void start(search<S::ROWS> &x) {
    __syncthreads();
    for (int i = threadIdx.x; i < S::ROWS * BINS; i += S::THREADS) x.bin[0][i] = 0;
    if (threadIdx.x < S::ROWS)
        x.at[threadIdx.x] = 0, x.above[threadIdx.x] = NONE, x.listed[threadIdx.x] = 0, x.rank[threadIdx.x] = 0;
    __syncthreads();
}

template <class S, bool KEYED>
static __global__ void __launch_bounds__(S::THREADS) quantile(const __grid_constant__ gf_tile_args a, const wish w) {
    extern __shared__ __align__(1024) unsigned char shared[];
    search<S::ROWS> &x = *reinterpret_cast<search<S::ROWS> *>(shared + S::BYTES);
    const int r0 = blockIdx.x * S::ROWS, r = r0 + threadIdx.x;
    const bool own = threadIdx.x < S::ROWS;
    if (w.wanted && !__syncthreads_or(own && r < a.q.rows && w.wanted[a.shift > 0 ? r >> a.shift : r])) return;
    start<S>(x);
    pass_kind kind = COUNT_COARSE;
    for (int shift = COARSE_SHIFT;;) {
        visit_keys<S, KEYED>(a, x, shared, r0, kind, shift);
        __syncthreads();
        if (kind == LIST_COARSE) break;
        if (kind == COUNT_COARSE) {
            const bool lists = choose_lists<S, KEYED>(x, w, r0, a.q.rows);
            kind = lists ? LIST_COARSE : COUNT_DIGITS;
            if (!lists) shift = 24, start<S>(x);
            continue;
        }
        choose_digits<S, KEYED>(x, w, r0, a.q.rows, shift);
        if (shift == 0) return;
        shift -= 8;
        __syncthreads();
        for (int i = threadIdx.x; i < S::ROWS * BINS; i += S::THREADS) x.bin[0][i] = 0;
        __syncthreads();
    }
    pick_listed<S, KEYED>(x, w, r0, a.q.rows);
}

/* ---- launches ---- */

template <class S> static constexpr int shared_bytes() { return S::BYTES + static_cast<int>(sizeof(search<S::ROWS>)); }

template <class S> static cudaError_t launch(const gf_tile_args &a, const wish &w, cudaStream_t stream) {
    static_assert(S::BYTES % 16 == 0 && S::THREADS >= S::ROWS, "");
    auto *const made = a.row_key ? quantile<S, true> : quantile<S, false>;
    const cudaError_t e = cudaFuncSetAttribute(made, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes<S>());
    if (e != cudaSuccess) return e;
    made<<<(a.q.rows + S::ROWS - 1) / S::ROWS, S::THREADS, shared_bytes<S>(), stream>>>(a, w);
    return cudaGetLastError();
}

template <class S> static bool fits() {
    return shared_bytes<S>() <= gf_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
}

/* Few rows: 16 per block, where their tiles fit. Wide ones have more warps where there are 227 KB of shared memory, not 163. */
template <int D, int HALVES> static cudaError_t launch_rounded(const gf_tile_args &a, const wish &w, cudaStream_t stream) {
    constexpr int ROW = 2 * D * HALVES;
    typedef rounded_rows<gf_mma_shape<D, HALVES, ROW <= 512 ? 4 : 2, ROW <= 1024 ? 2 : 1, 1, ROW <= 512 ? 4 : 2>> many_rows;
    if constexpr (ROW <= 1024)
        if (gf_block_rows(a.q.rows) < 64)
            return launch<rounded_rows<gf_mma_shape<D, HALVES, 1, ROW <= 512 ? 8 : 4, 1, 2>>>(a, w, stream);
    if constexpr (ROW >= 1024) {
        typedef rounded_rows<gf_mma_shape<D, HALVES, ROW <= 1024 ? 4 : 2, 2, 1, 2>> more_warps;
        if (fits<more_warps>()) return launch<more_warps>(a, w, stream);
    }
    return launch<many_rows>(a, w, stream);
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

static cudaError_t quantile_rows(const gf_cuda_select *p, cudaStream_t stream) {
    gf_tile_args a = {};
    a.q = gf_operand_of(p->q), a.k = gf_operand_of(p->k);
    a.ld = static_cast<int>(p->k->f32.ld), a.q0 = static_cast<int>(p->q0), a.shift = p->shift;
    a.row_key = p->row_key, a.col_key = p->col_key;
    const wish w = {p->best, p->fraction, p->value, p->wanted, {p->unpaired, p->negatives, p->alpha}};
    if (p->math == GF_CUDA_EXACT) return launch<exact_rows>(a, w, stream);
    return p->math == GF_CUDA_BF16 ? launch_width<1>(a, w, stream) : launch_width<2>(a, w, stream);
}

/* ---------- The selection ---------- */

size_t gf_cuda_select_scratch(int64_t rows, int64_t cols) {
    return sizeof(float) * static_cast<size_t>(gf_product_rows(rows, cols)) * static_cast<size_t>(cols);
}

/* True if only values are asked for, and similarities need not be written: they are made several times instead, which is slower
 * in float32, unless few samples are wanted. */
static bool is_quantile(const gf_cuda_select *p) {
    const bool rounded = p->math != GF_CUDA_EXACT && p->k->f32.ld <= (p->math == GF_CUDA_BF16 ? 1024 : 512);
    return (p->wanted || rounded) && !p->row_id && !p->live && !p->tie;
}

cudaError_t gf_cuda_select_rows(const gf_cuda_select *p, cudaStream_t stream) {
    if (is_quantile(p)) return quantile_rows(p, stream);
    gf_product_args product = {};
    product.q = gf_operand_of(p->q), product.k = gf_operand_of(p->k);
    product.ld = static_cast<int>(p->k->f32.ld), product.q0 = static_cast<int>(p->q0), product.shift = p->shift;
    product.row_id = p->row_id, product.col_id = p->col_id;
    product.row_key = p->row_key, product.col_key = p->col_key;
    product.s = static_cast<float *>(p->scratch), product.live = p->live;
    select_args a = {product.s,
                     product.k.rows,
                     0,
                     p->best,
                     p->fraction,
                     p->alpha,
                     p->row_id != NULL,
                     p->round_up,
                     p->value,
                     p->tie,
                     {p->unpaired, p->negatives, p->alpha}};
    const int chunk = static_cast<int>(gf_product_rows(product.q.rows, product.k.rows));
    for (int r0 = 0; r0 < product.q.rows; r0 += chunk) {
        product.r0 = a.r0 = r0, product.rows = min(chunk, product.q.rows - r0);
        const cudaError_t e = gf_product(product, p->math, stream);
        if (e != cudaSuccess) return e;
        select<<<product.rows, SELECT_THREADS, 0, stream>>>(a);
        const cudaError_t launched = cudaGetLastError();
        if (launched != cudaSuccess) return launched;
    }
    return cudaSuccess;
}
