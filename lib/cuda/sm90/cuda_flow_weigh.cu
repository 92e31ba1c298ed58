/* cuda_flow_weigh.cu - the weights P of a piece, for pass C of wide embeddings and the largest batches on Hopper, bf16. See
 * tile_flow.cuh for the tiles and cuda_large_grad.cu for the pieces.
 */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_flow.cuh"
#include "cuda/passes/tile_large_grad.cuh"

struct shared_numbers {
    gf_flow_ring tiles;
    float w[2][2][GF_WIDE], theta[2][2][GF_WIDE]; /* of the columns: of tiles in turn, per warpgroup */
};

/* Work of a thread: its two rows. */
template <unsigned FLAGS> struct weigh_work {
    const gf_weigh_job &x;
    shared_numbers &sm;
    const int group, at; /* at: the warp's first row in the piece */
    float k, peak, w[2], theta[2];
    float next_w, next_theta; /* of a column of the next tile */
    int turn;                 /* 0, 1: where the columns' numbers of the tile in use are */
    uint32_t word[2][4];      /* weights of 4 blocks of columns, of each row */
    __nv_bfloat16 *to;        /* where the weights of the tile in use go: the thread's first row */

    __device__ __forceinline__ weigh_work(const gf_weigh_job &job, shared_numbers &shared, int)
        : x(job), sm(shared), group(gf_wg_index()), at(blockIdx.x * GF_LARGE_ROWS + gf_wide_row()), next_w(0.0f),
          next_theta(0.0f), turn(0), to(NULL) {
        k = x.a.row.inv_tau[0] * gf_exp_fast::scale, peak = gf_fixed_peak(x.a.row.inv_tau[0]) * gf_exp_fast::scale;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int r = at + 8 * i + threadIdx.x % 32 / 4;
            w[i] = r < x.rows ? x.a.row.w[x.row0 + r] : 0.0f;
            theta[i] = FLAGS & GF_MASK && r < x.rows ? x.a.row.theta[x.row0 + r] : 0.0f;
        }
    }

    __device__ __forceinline__ void begin(int j) {
        const int c = min(x.col0 + j * GF_WIDE + int(threadIdx.x % 128), x.a.k.rows - 1);
        next_w = __ldg(x.a.col.w + c);
        if (FLAGS & GF_MASK) next_theta = __ldg(x.a.col.theta + c);
    }

    /* Barriers 5 and 6: of a warpgroup. It has written the columns' numbers. */
    __device__ __forceinline__ void end(float (&s)[1][16][4], int j) {
        const int c0 = x.col0 + j * GF_WIDE, lane = threadIdx.x % 32;
        turn ^= 1;
        sm.w[turn][group][threadIdx.x % 128] = next_w;
        if (FLAGS & GF_MASK) sm.theta[turn][group][threadIdx.x % 128] = next_theta;
        asm volatile("bar.sync %0, 128;" ::"r"(5 + group) : "memory");
        if (gf_has_blanks(x.a, x.row0 + blockIdx.x * GF_LARGE_ROWS, GF_LARGE_ROWS, c0, GF_WIDE))
            gf_blank<gf_wide_shape>(x.a, s, x.row0 + at, c0, -CUDART_INF_F);
        to = x.weights[0] + size_t(at + lane / 4) * x.pitch + j * GF_WIDE + 8 * (lane % 4);
    }

    /* S becomes P; -inf, which is no pair, becomes 0. Eight weights per thread and store, rounded. */
    __device__ __forceinline__ void part(const float (&s)[16][4], int p) {
        const int t = 2 * (threadIdx.x % 4);
#pragma unroll
        for (int n = 2 * p; n < 2 * p + 2; n++) {
            const float2 wc = *reinterpret_cast<const float2 *>(&sm.w[turn][group][8 * n + t]);
            float2 limit = {};
            float weight[4];
            if (FLAGS & GF_MASK) limit = *reinterpret_cast<const float2 *>(&sm.theta[turn][group][8 * n + t]);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float v = s[n][i], e = gf_exp_fast::of(fmaf(v, k, -peak));
                float both = FLAGS & GF_MASK && !(v <= theta[i / 2]) ? 0.0f : w[i / 2];
                if (!(FLAGS & GF_MASK) || v <= (i % 2 ? limit.y : limit.x)) both += i % 2 ? wc.y : wc.x;
                weight[i] = e * both;
            }
#pragma unroll
            for (int h = 0; h < 2; h++) word[h][n % 4] = gf_pack(weight[2 * h], weight[2 * h + 1]);
        }
#pragma unroll
        for (int h = 0; p % 2 == 1 && h < 2; h++) {
            gf_large_transpose(word[h]);
            if (at + 8 * h + int(threadIdx.x % 32 / 4) < x.rows)
                *reinterpret_cast<uint4 *>(to + size_t(8 * h) * x.pitch + 16 * (p - 1)) =
                    make_uint4(word[h][0], word[h][1], word[h][2], word[h][3]);
        }
    }

    __device__ __forceinline__ void close(int) {}
    __device__ __forceinline__ void finish() {}
};

template <unsigned FLAGS>
static __global__ void __launch_bounds__(GF_LARGE_WORKERS + 128, 1)
    flow_weigh(const __grid_constant__ gf_weigh_job x, const __grid_constant__ gf_large_maps maps) {
    extern __shared__ __align__(1024) unsigned char shared[];
    gf_flow_run<weigh_work<FLAGS>>(x, *reinterpret_cast<shared_numbers *>(shared), maps, x.row0 + blockIdx.x * GF_LARGE_ROWS,
                                   x.col0, blockIdx.y, x.pitch / GF_WIDE, x.turns);
}

cudaError_t gf_flow_weigh(const gf_weigh_job &x, cudaStream_t stream) {
    gf_large_maps maps = {};
    const cudaError_t e = gf_flow_map(&maps, x.a);
    if (e != cudaSuccess) return e;
    return gf_large_launch(x.a.flags & GF_MASK ? flow_weigh<GF_MASK> : flow_weigh<0>,
                           dim3(gf_large_grid(x.rows, 1), static_cast<unsigned>(x.turns)), 1, sizeof(shared_numbers), stream, x,
                           maps);
}
