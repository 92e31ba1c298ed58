/* cuda_wgmma.cu - passes B and C for many rows of 128 dimensions on Hopper: warpgroup products, columns fetched by the copy engine. */
#include "cuda/passes/cuda_grad_mma.cuh"
#include "cuda/passes/cuda_stats_mma.cuh"
#include "cuda/sm90/hopper.cuh"
#include "cuda/sm90/tile_wgmma.cuh"

/* ---------- Tensor maps for the copy engine ----------
 *
 * The driver encodes them; its function is looked up at run time, so that nothing links with the driver.
 */

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                                 const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

cudaError_t gf_box_map(CUtensorMap *map, const void *x, int rank, const int64_t *size, const int *box) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t e = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
#endif
    if (e != cudaSuccess) return e;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    cuuint64_t sizes[4], strides[4];
    cuuint32_t boxes[4];
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < rank; i++) {
        sizes[i] = static_cast<cuuint64_t>(size[i]), boxes[i] = static_cast<cuuint32_t>(box[i]);
        strides[i] = i ? strides[i - 1] * sizes[i] : 2 * sizes[i]; /* of dimension i + 1, in bytes */
    }
    const CUresult made = reinterpret_cast<encode_tiled>(
        entry)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(rank), const_cast<void *>(x), sizes, strides, boxes,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t gf_wide_map(CUtensorMap *map, const __nv_bfloat16 *x, int rows, int width, int box_rows) {
    const int64_t size[2] = {width, rows};
    const int box[2] = {64, box_rows};
    return gf_box_map(map, x, 2, size, box);
}

cudaError_t gf_wg_map(CUtensorMap *map, const __nv_bfloat16 *x, int rows, int box_rows) {
    return gf_wide_map(map, x, rows, 128, box_rows);
}

/* ---------- Pass B ----------
 *
 * Four warpgroups compute: while some sum, the tensor cores work for the others.
 */

template <class C, unsigned FLAGS>
static __device__ __forceinline__ void sum_similarities(const gf_tile_args &a, gf_wg_shared<C> &sm, int r0, int tiles) {
    const int row = gf_wg_row<C>(), group = gf_wg_index(), turn = group / C::GM;
    const float blank = FLAGS & (GF_MASK | GF_ABOVE) ? CUDART_NAN_F : FLAGS & GF_MOMENT ? GF_NO_PAIR : -CUDART_INF_F;
    gf_stats_rows<C> x;
    gf_stats_begin<C>(a, FLAGS, x, r0 + row);
    gf_barrier_wait(gf_shared_address(&sm.rows_full), 0);
    for (int j = turn; j < tiles; j += C::GN) {
        float s[1][16][4];
        const int c0 = j * GF_WG_COLS;
        gf_wg_start_scores(s[0], sm, j, group % C::GM);
        gf_wg_wait<0>();
        gf_wg_pin(s[0]);
        gf_wg_release(sm, j);
        if (gf_has_blanks(a, r0, C::BM, c0, GF_WG_COLS)) gf_blank<C>(a, s, r0 + row, c0, blank);
        gf_stats_tile<C, FLAGS>(a, x, s, c0);
    }
    gf_sync<C>();
    gf_stats_finish<C>(a, FLAGS, x, r0, row, turn, reinterpret_cast<gf_row_sums<float> *>(sm.columns));
}

template <class C, unsigned FLAGS>
static __global__ void __launch_bounds__(C::ALL, 1)
    stats_wgmma(const __grid_constant__ gf_tile_args a, const __grid_constant__ CUtensorMap rows,
                const __grid_constant__ CUtensorMap columns) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_wg_shared<C> &sm = *reinterpret_cast<gf_wg_shared<C> *>(shared);
    const int r0 = blockIdx.x * C::BM, tiles = (a.k.rows + GF_WG_COLS - 1) / GF_WG_COLS;
    gf_wg_start(sm, &rows, r0, 1);
    if (threadIdx.x < C::WORKERS) {
        gf_wg_take_registers<112>(); /* 512 x 112 + 128 x 24 of the 640 x 96 the block starts with: more would never be granted */
        sum_similarities<C, FLAGS>(a, sm, r0, tiles);
    } else {
        gf_wg_give_registers();
        for (int j = 0; threadIdx.x == C::WORKERS && j < tiles; j++) {
            gf_wg_wait_empty(sm, j);
            gf_wg_fetch(sm, &columns, j, j);
        }
    }
}

template <class C, unsigned FLAGS> static cudaError_t launch_stats(const gf_tile_args &a, cudaStream_t stream) {
    return gf_wg_launch<C>(stats_wgmma<C, FLAGS>, a, stream);
}

template <unsigned FLAGS> static cudaError_t launch_any_stats(const gf_tile_args &a, cudaStream_t stream) {
    switch (gf_block_rows(a.q.rows)) {
    case 256: return launch_stats<gf_wg_shape<4, 1>, FLAGS>(a, stream);
    case 128: return launch_stats<gf_wg_shape<2, 2>, FLAGS>(a, stream);
    default: return launch_stats<gf_wg_shape<1, 4>, FLAGS>(a, stream);
    }
}

bool gf_stats_can_wgmma(const gf_tile_args &a) {
    gf_tile_args plain = a;
    plain.flags &= ~unsigned(GF_MOMENT);
    const unsigned flags = gf_stats_pass::plain_flags(plain);
    return a.ld == 128 && (flags == 0 || flags == GF_ABOVE || flags == (GF_MASK | GF_COUNT));
}

cudaError_t gf_stats_wgmma(const gf_tile_args &a, cudaStream_t stream) {
    if (a.flags & GF_ABOVE) return launch_any_stats<GF_ABOVE>(a, stream);
    switch (a.flags & (GF_MASK | GF_MOMENT)) {
    case 0: return launch_any_stats<0>(a, stream);
    case GF_MASK: return launch_any_stats<GF_MASK | GF_COUNT>(a, stream);
    case GF_MOMENT: return launch_any_stats<GF_MOMENT>(a, stream);
    default: return launch_any_stats<GF_MASK | GF_COUNT | GF_MOMENT>(a, stream);
    }
}

/* ---------- Pass C ----------
 *
 * While one warpgroup turns its next tile of S into weights, the tensor cores compute S and P Z for the other.
 * FLAGS: none or GF_MASK, as in cuda_grad_mma.cuh, with or without GF_QUALITY (then it is the best for few rows, too).
 */

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
static __device__ __forceinline__ void sum_weighted(const gf_tile_args &a, gf_wg_shared<C> &sm, int r0, int tiles) {
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
        sum_weighted<C, FLAGS>(a, sm, r0, tiles);
    } else {
        gf_wg_give_registers();
        if (threadIdx.x < C::WORKERS + 32) fetch_columns<C, FLAGS>(a, sm, &columns, tiles);
    }
}

template <class C, unsigned FLAGS> static cudaError_t launch_grad(const gf_tile_args &a, cudaStream_t stream) {
    return gf_wg_launch<C>(grad_wgmma<C, FLAGS>, a, stream);
}

template <unsigned FLAGS> static cudaError_t launch_any_grad(const gf_tile_args &a, cudaStream_t stream) {
    if (gf_block_rows(a.q.rows) <= 64) return launch_grad<gf_wg_shape<1, 2>, FLAGS>(a, stream);
    return launch_grad<gf_wg_shape<2, 1>, FLAGS>(a, stream);
}

bool gf_grad_can_wgmma(const gf_tile_args &a) { return a.ld == 128 && gf_grad_pass::labelled_flags(a) != GF_ANY_FLAGS; }

cudaError_t gf_grad_wgmma(const gf_tile_args &a, cudaStream_t stream) {
    switch (a.flags & (GF_MASK | GF_QUALITY)) {
    case 0: return launch_any_grad<0>(a, stream);
    case GF_MASK: return launch_any_grad<GF_MASK>(a, stream);
    case GF_QUALITY: return launch_any_grad<GF_QUALITY>(a, stream);
    default: return launch_any_grad<GF_MASK | GF_QUALITY>(a, stream);
    }
}
