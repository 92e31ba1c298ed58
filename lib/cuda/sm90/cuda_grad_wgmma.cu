/* cuda_grad_wgmma.cu - pass C for many rows of 128 dimensions on Hopper: warpgroup products, columns fetched by the copy engine.
 *
 * While one warpgroup turns its next tile of S into weights, the tensor cores compute S and P Z for the other.
 * FLAGS: none or GF_MASK, as in cuda_grad_mma.cuh, with or without GF_QUALITY (then it is the best for few rows, too).
 */
#include "cuda/passes/cuda_grad_mma.cuh"
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_wgmma.cuh"

template <class C, unsigned FLAGS>
static __device__ __forceinline__ void weigh(const gf_tile_args &a, gf_grad_rows<C> &x, float (&s)[1][16][4], gf_wg_shared<C> &sm,
                                             int r0, int j, float k) {
    const int row = gf_wg_row<C>(), c0 = j * GF_WG_COLS, stage = j % GF_WG_STAGES;
    if (gf_has_blanks(a, r0, C::BM, c0, GF_WG_COLS)) gf_blank<C>(a, s, r0 + row, c0, -CUDART_INF_F);
    gf_plain_weights<C, FLAGS>(s, x, sm.w[stage], sm.theta[stage], sm.label[stage], k);
}

/* The two warpgroups use the tensor cores in turns. Without this they would share them, finish at the same time, and leave them
 * idle while both weigh. Barriers 2 and 3. */
static __device__ __forceinline__ void wait_for_turn(int group) { asm volatile("bar.sync %0, 256;" ::"r"(2 + group) : "memory"); }
static __device__ __forceinline__ void give_turn(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(2 + group) : "memory"); }

/* True if the other warpgroup has a turn after that of `group` with tile j. */
template <class C> static __device__ __forceinline__ bool is_awaited(int group, int j, int tiles) {
    return C::GN == 2 ? j + 3 < tiles : group == 0 || j + 2 < tiles;
}

/* out = P Z over the warpgroup's turns. There is at least one. */
template <class C, unsigned FLAGS>
static __device__ __forceinline__ void weigh_columns(const gf_tile_args &a, gf_grad_rows<C> &x, float (&out)[1][16][4],
                                                     gf_wg_shared<C> &sm, int r0, int tiles) {
    const float k = a.row.inv_tau[0] * gf_exp_fast::scale;
    float s[1][16][4];
    uint32_t p[1][8][4];
    const int group = gf_wg_index();
    int j = group / C::GM;
    gf_wg_start_scores(s[0], sm, j, group % C::GM);
    gf_wg_wait<0>();
    gf_wg_pin(s[0]);
    weigh<C, FLAGS>(a, x, s, sm, r0, j, k);
    gf_round_weights<C>(p, s);
    if (group == 1 && C::GN < tiles) give_turn(0);
    for (; j + C::GN < tiles; j += C::GN) {
        wait_for_turn(group);
        gf_wg_start_scores(s[0], sm, j + C::GN, group % C::GM);
        gf_wg_sums(out[0], p[0], gf_shared_address(sm.columns[j % GF_WG_STAGES]));
        if (is_awaited<C>(group, j, tiles)) give_turn(1 - group);
        gf_wg_wait<1>();
        gf_wg_pin(s[0]);
        weigh<C, FLAGS>(a, x, s, sm, r0, j + C::GN, k);
        gf_wg_wait<0>();
        gf_wg_pin(out[0]);
        gf_wg_release(sm, j);
        gf_round_weights<C>(p, s);
    }
    gf_wg_sums(out[0], p[0], gf_shared_address(sm.columns[j % GF_WG_STAGES]));
    gf_wg_wait<0>();
    gf_wg_pin(out[0]);
}

/* Columns of the row's own sample that have its label: equal, but no pairs. */
static __device__ __forceinline__ int like_itself(const gf_tile_args &a, int r, int label) {
    int count = 0;
    if (a.shift < 0) return count;
    const int sample = (a.q0 + r) >> a.shift, first = sample << a.shift, after = (sample + 1) << a.shift;
    for (int c = first; c < after && c < a.k.rows; c++) count += a.col.label[c] == label;
    return count;
}

/* Joins the counts of the GN warpgroups of a row, in the memory of the labels, which are no longer read. */
template <class C>
static __device__ __forceinline__ void write_quality(const gf_tile_args &a, gf_wg_shared<C> &sm, gf_grad_rows<C> &x, int r0,
                                                     int row, int turn) {
    const int lane = threadIdx.x % 32;
    int2 *parts = reinterpret_cast<int2 *>(sm.label); /* [GN][BM] */
    static_assert(sizeof(int2) * C::GN * C::BM <= sizeof sm.label, "parts fit where the labels were");
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int lanes = 1; lanes < 4; lanes *= 2) {
            x.same[i] += __shfl_xor_sync(0xffffffffu, x.same[i], lanes);
            x.hits[i] += __shfl_xor_sync(0xffffffffu, x.hits[i], lanes);
        }
        if (lane % 4 == 0) parts[turn * C::BM + row + 8 * i + lane / 4] = make_int2(x.same[i], x.hits[i]);
    }
    gf_sync<C>();
    const int at = threadIdx.x, r = r0 + at;
    if (at >= C::BM || r >= a.q.rows) return;
    int2 sum = parts[at];
    for (int i = 1; i < C::GN; i++) sum.x += parts[i * C::BM + at].x, sum.y += parts[i * C::BM + at].y;
    const int label = a.row.label[r];
    a.row.same[r] = label < 0 ? 0 : sum.x - like_itself(a, r, label); /* an anchor without label equals no other */
    a.row.hits[r] = label < 0 ? 0 : sum.y;
}

template <class C, unsigned FLAGS>
static __device__ __forceinline__ void sum_rows(const gf_tile_args &a, gf_wg_shared<C> &sm, int r0, int tiles) {
    const int row = gf_wg_row<C>();
    gf_grad_rows<C> x = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int r = r0 + row + 8 * i + threadIdx.x % 32 / 4;
        x.w[i] = r < a.q.rows ? a.row.w[r] : 0.0f;
        x.theta[i] = FLAGS & GF_MASK && r < a.q.rows ? a.row.theta[r] : 0.0f;
        if (FLAGS & GF_QUALITY && r < a.q.rows) x.label[i] = a.row.label[r];
    }
    float out[1][16][4] = {};
    gf_barrier_wait(gf_shared_address(&sm.rows_full), 0);
    if (gf_wg_turn<C>() < tiles) weigh_columns<C, FLAGS>(a, x, out, sm, r0, tiles);
    if (C::GN > 1 || FLAGS & GF_QUALITY) gf_sync<C>(); /* all tiles have been read: partial results may take their place */
    if (FLAGS & GF_QUALITY) write_quality<C>(a, sm, x, r0, row, gf_wg_turn<C>());
    gf_write_grad<C>(a, out, r0, row, gf_wg_turn<C>(), reinterpret_cast<float *>(sm.columns));
}

/* One warp fetches tiles of columns, and the numbers of their anchors. */
template <class C, unsigned FLAGS>
static __device__ __forceinline__ void fetch_columns(const gf_tile_args &a, gf_wg_shared<C> &sm, const CUtensorMap *columns,
                                                     int tiles) {
    for (int j = 0; j < tiles; j++) {
        const int stage = j % GF_WG_STAGES, lane = threadIdx.x % 32;
        gf_wg_wait_empty(sm, j);
        if (lane == 0) gf_wg_fetch(sm, columns, j, j);
#pragma unroll
        for (int i = 0; i < GF_WG_COLS; i += 32) {
            const int c = j * GF_WG_COLS + i + lane;
            sm.w[stage][i + lane] = c < a.k.rows ? a.col.w[c] : 0.0f;
            if (FLAGS & GF_MASK) sm.theta[stage][i + lane] = c < a.k.rows ? a.col.theta[c] : 0.0f;
            if (FLAGS & GF_QUALITY) sm.label[stage][i + lane] = c < a.k.rows ? a.col.label[c] : -1;
        }
        gf_barrier_arrive(gf_shared_address(&sm.full[stage]));
    }
}

template <class C, unsigned FLAGS>
static __global__ void __launch_bounds__(C::ALL, 1)
    grad_wgmma(const __grid_constant__ gf_tile_args a, const __grid_constant__ CUtensorMap rows,
               const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_wg_shared<C> &sm = *reinterpret_cast<gf_wg_shared<C> *>(shared);
    const int r0 = blockIdx.x * C::BM, tiles = (a.k.rows + GF_WG_COLS - 1) / GF_WG_COLS;
    gf_wg_start(sm, &rows, r0, 33);
    if (threadIdx.x < C::WORKERS) {
        gf_wg_take_registers<240>();
        sum_rows<C, FLAGS>(a, sm, r0, tiles);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x < C::WORKERS + 32) fetch_columns<C, FLAGS>(a, sm, &columns, tiles);
    }
}

template <class C, unsigned FLAGS> static cudaError_t launch(const gf_tile_args &a, cudaStream_t stream) {
    return gf_wg_launch<C>(grad_wgmma<C, FLAGS>, a, stream);
}

template <unsigned FLAGS> static cudaError_t launch_any(const gf_tile_args &a, cudaStream_t stream) {
    if (gf_block_rows(a.q.rows) <= 64) return launch<gf_wg_shape<1, 2>, FLAGS>(a, stream);
    return launch<gf_wg_shape<2, 1>, FLAGS>(a, stream);
}

bool gf_grad_can_wgmma(const gf_tile_args &a) { return a.ld == 128 && gf_grad_pass::labelled_flags(a) != GF_ANY_FLAGS; }

cudaError_t gf_grad_wgmma(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.flags & (GF_MASK | GF_QUALITY)) {
    case 0: return launch_any<0>(a, stream);
    case GF_MASK: return launch_any<GF_MASK>(a, stream);
    case GF_QUALITY: return launch_any<GF_QUALITY>(a, stream);
    default: return launch_any<GF_MASK | GF_QUALITY>(a, stream);
    }
}
