/* cuda_stats_moving.cu - count, the move of lambda, and pass B at once, on Hopper, for whole rows of 128 dimensions.
 *
 * The sum needs the new lambda, the new lambda the number of pairs above the old one. So a thread sums what lies at or below a
 * bound that the new lambda will hardly fall below (gf_lambda_foreseen), and writes the few similarities above it into a list of
 * its own. When all columns have passed, the lists give the number above the old lambda; lambda moves; what lies at or below it
 * joins the sums, each thread's list in its order: the same bits every time. Where a bound was too high, or a list too short, the
 * thread block makes its sums again with the new lambda: two products, as count and stats would take.
 *
 * CLUSTER: thread blocks that share 64 rows, so that few rows use all multiprocessors; each has every CLUSTER-th tile of columns.
 */
#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/sm90/hopper.cuh"
#include "cuda/sm90/tile_wgmma.cuh"

#define FLAGS (GF_MASK | GF_COUNT)
#define ALPHA_MAX 0.02 /* with more, lists are too long */
#define SLOTS_MAX 128
#define AT_ONCE 8 /* values of a list that are fetched together */
#define CHECKED 4 /* columns of a thread, in eights of the tile, between two looks at the room that its list has */

struct job {
    gf_tile_args a;
    gf_cuda_moving m;
    int side;
    float *lists;   /* [blocks][slots][threads]: the first row's values from the front, the second's from the back */
    unsigned slots; /* of a thread: a power of two, and lists are aligned to the size of a block's, so that none crosses 4 GB */
};

template <class C> struct shared_memory {
    gf_wg_shared<C> tiles;
    glofnd_anchor fresh[C::BM];
    float lo[C::BM], mid[C::BM], joined[C::BM];
    int above[C::BM], kept[C::BM];
    int full, again;
    uint64_t decided; /* `again` is known to the warp that fetches */
};

template <int CLUSTER> static __device__ __forceinline__ int rank() { return CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER; }

/* x of the other thread block of the cluster. */
template <class T> static __device__ __forceinline__ T other(const T &x, int rank) {
    static_assert(sizeof(T) == 4, "one word");
    uint32_t word;
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\nld.shared::cluster.u32 %0, [there];\n}"
                 : "=r"(word)
                 : "r"(gf_shared_address(&x)), "r"(1 - rank)
                 : "memory");
    T value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* ---- lists ---- */

template <class C> struct thread_list {
    static constexpr int STEP = sizeof(float) * C::WORKERS;
    uint64_t front, back; /* where the next value of the first and of the second row goes: only the lower halves change */
    int above[2];         /* pairs above the old lambda that found no room */
    bool full;

    static __device__ __forceinline__ uint64_t first(const job &x) {
        return reinterpret_cast<uint64_t>(x.lists + size_t(blockIdx.x) * x.slots * C::WORKERS + threadIdx.x);
    }

    __device__ __forceinline__ void begin(const job &x) {
        front = first(x), back = front + (x.slots - 1) * STEP;
        above[0] = above[1] = 0;
        full = false;
    }

    /* Room for 2 CHECKED values of each row. */
    __device__ __forceinline__ bool has_room() const { return unsigned(back) - unsigned(front) >= 4 * CHECKED * STEP; }

    /* v to the list of row ROW if it is above lo; else e to the sum. */
    template <int ROW> __device__ __forceinline__ void add(float v, float lo, float e, float &sum) {
        uint64_t &at = ROW ? back : front;
        asm volatile("{\n.reg .pred above;\n.reg .b32 low, high;\nsetp.gt.f32 above, %2, %3;\n@above st.global.f32 [%1], %2;\n"
                     "mov.b64 {low, high}, %1;\n@above add.s32 low, low, %5;\nmov.b64 %1, {low, high};\n"
                     "@!above add.f32 %0, %0, %4;\n}"
                     : "+f"(sum), "+l"(at)
                     : "f"(v), "f"(lo), "f"(e), "n"(ROW ? -STEP : STEP));
    }

    /* body(row, v) for the values of both rows, each in their order; -inf fills up. Several loads are in flight at once. */
    template <class Body> __device__ __forceinline__ void each(const job &x, Body body) const {
        const uint64_t begin = first(x), end = begin + (x.slots - 1) * STEP;
        const unsigned n0 = unsigned(front - begin) / STEP, n1 = unsigned(end - back) / STEP, n = max(n0, n1);
        asm volatile("" ::: "memory"); /* after the stores */
        for (unsigned i = 0; i < n; i += AT_ONCE) {
            float u[AT_ONCE], v[AT_ONCE];
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++) {
                u[k] = i + k < n0 ? __ldca(reinterpret_cast<const float *>(begin + (i + k) * STEP)) : -CUDART_INF_F;
                v[k] = i + k < n1 ? __ldca(reinterpret_cast<const float *>(end - (i + k) * STEP)) : -CUDART_INF_F;
            }
#pragma unroll
            for (unsigned k = 0; k < AT_ONCE; k++) body(0, u[k]), body(1, v[k]);
        }
    }
};

/* ---- tiles ---- */

/* Tiles of columns of this thread block. */
template <int CLUSTER> static __device__ __forceinline__ int own_tiles(int cols) {
    const int tiles = (cols + GF_WG_COLS - 1) / GF_WG_COLS;
    return (tiles - rank<CLUSTER>() + CLUSTER - 1) / CLUSTER;
}

/* All tiles, once more if `again`. No pair: -inf, whose exponential is 0. */
template <class C, int CLUSTER, class Add>
static __device__ __forceinline__ void each_tile(const gf_tile_args &a, gf_wg_shared<C> &sm, int r0, int again, Add add) {
    const int row = gf_wg_row<C>(), group = gf_wg_index(), tiles = own_tiles<CLUSTER>(a.k.rows);
    for (int j = group / C::GM; j < tiles; j += C::GN) {
        float s[1][16][4];
        const int turn = again * tiles + j, c0 = (j * CLUSTER + rank<CLUSTER>()) * GF_WG_COLS;
        gf_wg_start_scores(s[0], sm, turn, group % C::GM);
        gf_wg_wait<0>();
        gf_wg_pin(s[0]);
        gf_wg_release(sm, turn);
        if (gf_has_blanks(a, r0, C::BM, c0, GF_WG_COLS)) gf_blank<C>(a, s, r0 + row, c0, -CUDART_INF_F);
        add(s[0]);
    }
}

/* mid: of the thread's first row; that of the second is 8 further. */
template <class C>
static __device__ __forceinline__ void sum_or_list(gf_stats_rows<C> &x, thread_list<C> &list, const float *mid,
                                                   const float (&s)[16][4]) {
#pragma unroll
    for (int n0 = 0; n0 < 16; n0 += CHECKED) {
        if (list.has_room()) {
#pragma unroll
            for (int n = n0; n < n0 + CHECKED; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float u = s[n][i], v = s[n][2 + i];
                    list.template add<0>(u, x.view[0].lo, gf_exp_fast::of(x.view[0].k * u), x.sums[0].sum);
                    list.template add<1>(v, x.view[1].lo, gf_exp_fast::of(x.view[1].k * v), x.sums[1].sum);
                }
        } else {
            list.full = true;
#pragma unroll
            for (int n = n0; n < n0 + CHECKED; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) list.above[i / 2] += s[n][i] > mid[i / 2 * 8];
        }
    }
}

/* A pair of the thread's row h, lambda known. */
template <class C> static __device__ __forceinline__ void add_kept(gf_stats_rows<C> &x, int h, float v) {
    const float e = gf_exp_fast::of(x.view[h].k * v);
    if (v > x.view[h].lo) x.sums[h].kept--;
    else x.sums[h].sum += e;
}

template <class C> static __device__ __forceinline__ void sum_again(gf_stats_rows<C> &x, const float (&s)[16][4]) {
#pragma unroll
    for (int i = 0; i < 64; i++) add_kept<C>(x, i / 2 % 2, s[i / 4][i % 4]);
}

/* ---- rows ---- */

static __device__ __forceinline__ bool is_open(const job &x, int r) {
    return r < x.a.q.rows && x.m.open[x.side][r / x.m.per_sample];
}

/* Bounds of the block's rows; past the end: nothing is listed. */
template <class C> static __device__ __forceinline__ void foresee(const job &x, shared_memory<C> &sm, int r0) {
    const int at = threadIdx.x, r = r0 + at;
    if (at == 0) sm.full = sm.again = 0;
    if (at >= C::BM) return;
    float lo = CUDART_INF_F, mid = CUDART_INF_F;
    if (r < x.a.q.rows) {
        sm.fresh[at] = x.m.fresh[x.side][r / x.m.per_sample];
        lo = mid = x.a.row.mid[r];
    }
    if (is_open(x, r)) lo = fminf(lo, gf_lambda_foreseen(&x.m.foresight, &sm.fresh[at]));
    sm.lo[at] = lo, sm.mid[at] = mid, sm.above[at] = 0;
}

template <class C>
static __device__ __forceinline__ void count_above(const job &x, shared_memory<C> &sm, const thread_list<C> &list, int row) {
    const float mid[2] = {sm.mid[gf_stats_place(row, 0)], sm.mid[gf_stats_place(row, 1)]};
    int n[2] = {list.above[0], list.above[1]};
    list.each(x, [&](int h, float v) { n[h] += v > mid[h]; });
#pragma unroll
    for (int h = 0; h < 2; h++) {
        n[h] += __shfl_xor_sync(0xffffffffu, n[h], 1);
        n[h] += __shfl_xor_sync(0xffffffffu, n[h], 2);
        if (threadIdx.x % 4 == 0) atomicAdd(&sm.above[gf_stats_place(row, h)], n[h]);
    }
    if (list.full) sm.full = 1;
}

/* Pairs of a row above the old lambda, over all columns. */
template <class C, int CLUSTER> static __device__ __forceinline__ int all_above(const shared_memory<C> &sm, int at) {
    return sm.above[at] + (CLUSTER > 1 ? other(sm.above[at], rank<CLUSTER>()) : 0);
}

/* Lambda of the block's anchors moves; sm.mid then holds the deciding thresholds. All blocks of a cluster compute the same. */
template <class C, int CLUSTER> static __device__ __forceinline__ void decide(const job &x, shared_memory<C> &sm, int r0) {
    const int at = threadIdx.x, r = r0 + at;
    if (at == 0 && (sm.full || (CLUSTER > 1 && other(sm.full, rank<CLUSTER>())))) sm.again = 1;
    if (at >= C::BM || r >= x.a.q.rows) return;
    glofnd_anchor row = sm.fresh[at];
    if (is_open(x, r)) {
        const int above = all_above<C, CLUSTER>(sm, at) + (x.m.per_sample == 2 ? all_above<C, CLUSTER>(sm, at ^ 1) : 0);
        gf_lambda_descend(&x.m.learner, &row, double(above), double(x.m.per_sample * x.m.negatives[x.side]));
    }
    const float limit = gf_lambda_threshold(row.lambda);
    if (limit < sm.lo[at]) sm.again = 1;
    sm.mid[at] = limit;
    if (rank<CLUSTER>() > 0) return;
    x.a.row.lo[r] = limit;
    if (r % x.m.per_sample == 0) x.m.fresh[x.side][r / x.m.per_sample] = row;
}

template <int CLUSTER> static __device__ __forceinline__ void sync_cluster() {
    if (CLUSTER == 1) return;
    __syncwarp();
    gf_cluster_sync();
}

/* Writes the sums; those of a cluster in the first of its blocks. */
template <class C, int CLUSTER>
static __device__ __forceinline__ void finish(const job &x, shared_memory<C> &sm, gf_stats_rows<C> &y, int r0, int row) {
    const bool has = gf_stats_join<C>(FLAGS, y, row, gf_wg_turn<C>(), reinterpret_cast<gf_row_sums<float> *>(sm.tiles.columns));
#pragma unroll
    for (int h = 0; CLUSTER > 1 && has && h < 2; h++)
        sm.joined[gf_stats_place(row, h)] = y.sums[h].sum, sm.kept[gf_stats_place(row, h)] = y.sums[h].kept;
    sync_cluster<CLUSTER>();
#pragma unroll
    for (int h = 0; has && rank<CLUSTER>() == 0 && h < 2; h++) {
        const int at = gf_stats_place(row, h);
        if (CLUSTER > 1) y.sums[h].sum += other(sm.joined[at], 0), y.sums[h].kept += other(sm.kept[at], 0);
        if (r0 + at < x.a.q.rows) gf_write_sums(x.a, FLAGS, r0 + at, y.sums[h]);
    }
    sync_cluster<CLUSTER>(); /* its shared memory is no longer read */
}

template <class C, int CLUSTER> static __device__ __forceinline__ void sum_rows(const job &x, shared_memory<C> &sm, int r0) {
    const int row = gf_wg_row<C>(), lane = threadIdx.x % 32;
    gf_stats_rows<C> y;
    thread_list<C> list;
    foresee<C>(x, sm, r0);
    list.begin(x);
    gf_sync<C>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int at = gf_stats_place(row, h), r = r0 + at;
        y.view[h] = {r < x.a.q.rows ? x.a.row.inv_tau[r] * gf_exp_fast::scale : 0.0f, sm.lo[at], -1, -1, -1};
        y.sums[h] = gf_no_sums<float>();
    }
    const float *mid = sm.mid + row + lane / 4;
    gf_barrier_wait(gf_shared_address(&sm.tiles.rows_full), 0);
    each_tile<C, CLUSTER>(x.a, sm.tiles, r0, 0, [&](const float(&s)[16][4]) { sum_or_list<C>(y, list, mid, s); });
    count_above<C>(x, sm, list, row);
    gf_sync<C>();
    sync_cluster<CLUSTER>();
    decide<C, CLUSTER>(x, sm, r0);
    gf_sync<C>();
    if (threadIdx.x == 0) gf_barrier_arrive(gf_shared_address(&sm.decided));
#pragma unroll
    for (int h = 0; h < 2; h++) {
        y.view[h].lo = sm.mid[gf_stats_place(row, h)];
        if (rank<CLUSTER>() == 0 && gf_wg_turn<C>() == 0 && lane % 4 == 0) y.sums[h].kept = int(x.m.negatives[x.side]);
        if (sm.again) y.sums[h].sum = 0.0f;
    }
    if (sm.again) each_tile<C, CLUSTER>(x.a, sm.tiles, r0, 1, [&](const float(&s)[16][4]) { sum_again<C>(y, s); });
    else list.each(x, [&](int h, float v) { add_kept<C>(y, h, v); });
    gf_sync<C>(); /* no tile is read any more */
    finish<C, CLUSTER>(x, sm, y, r0, row);
}

template <class C, int CLUSTER>
static __device__ __forceinline__ void fetch_columns(gf_wg_shared<C> &sm, const CUtensorMap *columns, int cols, int again) {
    const int tiles = own_tiles<CLUSTER>(cols);
    for (int j = 0; threadIdx.x == C::WORKERS && j < tiles; j++) {
        gf_wg_wait_empty(sm, again * tiles + j);
        gf_wg_fetch(sm, columns, again * tiles + j, j * CLUSTER + rank<CLUSTER>());
    }
    __syncwarp();
}

template <class C, int CLUSTER>
static __global__ void __launch_bounds__(C::ALL, 1)
    stats_moving(const __grid_constant__ job x, const __grid_constant__ CUtensorMap rows,
                 const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    shared_memory<C> &sm = *reinterpret_cast<shared_memory<C> *>(shared);
    const int r0 = blockIdx.x / CLUSTER * C::BM;
    if (threadIdx.x == 0) gf_barrier_init(gf_shared_address(&sm.decided), 1);
    gf_wg_start(sm.tiles, &rows, r0, 1);
    if (threadIdx.x < C::WORKERS) {
        gf_wg_take_registers<112>();
        sum_rows<C, CLUSTER>(x, sm, r0);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x >= C::WORKERS + 32) return;
        fetch_columns<C, CLUSTER>(sm.tiles, &columns, x.a.k.rows, 0);
        sync_cluster<CLUSTER>();
        gf_barrier_wait(gf_shared_address(&sm.decided), 0);
        if (sm.again) fetch_columns<C, CLUSTER>(sm.tiles, &columns, x.a.k.rows, 1);
        sync_cluster<CLUSTER>();
        sync_cluster<CLUSTER>();
    }
}

/* ---- launches ---- */

typedef gf_wg_shape<1, 4> shape;

/* Thread blocks that share 64 rows: two, where there are multiprocessors for them. */
static int cluster_of(int rows) { return gf_block_rows(rows) < shape::BM ? 2 : 1; }

static int blocks_of(int rows) { return (rows + shape::BM - 1) / shape::BM * cluster_of(rows); }

/* Bytes of the lists of a block whose threads have so many slots. */
static size_t block_bytes(unsigned slots) { return sizeof(float) * shape::WORKERS * slots; }

/* Pairs of a thread's two rows. */
static unsigned pairs_of(int rows, int cols) { return 2u * static_cast<unsigned>(cols) / (4 * shape::GN * cluster_of(rows)); }

/* Slots of a thread: for 6 % of its pairs, but not more than SLOTS_MAX. Few pairs vary more: columns of one class may all be
 * those of one thread in four. */
static unsigned slots_of(int rows, int cols) {
    unsigned slots = 64;
    while (slots < SLOTS_MAX && slots < 4 * CHECKED + pairs_of(rows, cols) * 6 / 100) slots *= 2;
    return slots;
}

size_t gf_stats_moving_bytes(int rows, int cols) {
    return (static_cast<size_t>(blocks_of(rows)) + 1) * block_bytes(slots_of(rows, cols));
}

bool gf_stats_can_moving(const gf_tile_args &a, const gf_cuda_moving *m) {
    const bool enough = slots_of(a.q.rows, a.k.rows) >= 4 * CHECKED + pairs_of(a.q.rows, a.k.rows) * 4 / 100;
    return a.ld == 128 && a.flags == FLAGS && m->learner.alpha <= ALPHA_MAX && enough && a.buffer &&
           gf_stats_moving_bytes(a.q.rows, a.k.rows) <= a.buffer_bytes;
}

cudaError_t gf_stats_moving(const gf_tile_args &a, const gf_cuda_moving *m, int side, cudaStream_t stream) {
    const unsigned slots = slots_of(a.q.rows, a.k.rows);
    const size_t align = block_bytes(slots);
    const uintptr_t lists = (reinterpret_cast<uintptr_t>(a.buffer) + align - 1) / align * align;
    const job x = {a, *m, side, reinterpret_cast<float *>(lists), slots};
    const int bytes = sizeof(shared_memory<shape>);
    CUtensorMap rows, columns;
    cudaError_t e = gf_wg_map(&rows, a.q.hi, a.q.rows, shape::BM);
    if (e == cudaSuccess) e = gf_wg_map(&columns, a.k.hi, a.k.rows, GF_WG_COLS);
    const int cluster = cluster_of(a.q.rows);
    const auto kernel = cluster == 2 ? stats_moving<shape, 2> : stats_moving<shape, 1>;
    if (e == cudaSuccess) e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeClusterDimension;
    together.val.clusterDim.x = static_cast<unsigned>(cluster);
    together.val.clusterDim.y = together.val.clusterDim.z = 1;
    config.gridDim = dim3(static_cast<unsigned>(blocks_of(a.q.rows))), config.blockDim = dim3(shape::ALL);
    config.dynamicSmemBytes = bytes, config.stream = stream, config.attrs = &together, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, x, rows, columns);
}
