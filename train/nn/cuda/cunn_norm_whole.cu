/* cunn_norm_whole.cu - batch norm of one rank in one launch: sums over rows, then the pass that writes, with x (backward: x and
 * g) kept on the chip in between as far as it fits. For bf16.
 *
 * The channels are cut into tiles; a team of blocks does a tile after the other, each block its share of the rows. A thread
 * keeps the last of its rows in shared memory, in places of its own; the others it reads again, the latest first: those may
 * still be in the L2 cache. Between the two passes the blocks of a team wait for each other (a cooperative launch: all of them
 * run at once), and then each adds the sums of all in the same order: same bits every time.
 * Bytes per number where all fits: forward 4 (6 with a residual), backward 6; 2 and 4 less than in two launches.
 */
#include "nn/cuda/cunn_norm_line.cuh"
#include "nn/cuda/cunn_norm_whole.cuh"

enum { AT_ONCE = 4 };

/* ----- forward ----------------------------------------------------------------------------------------------------- */

template <int FROM_CHIP, int RESIDUAL>
__device__ static void write_rows(const gf_nn_norm &n, const whole &w, const uint4 *held, const float (&scale)[V],
                                  const float (&shift)[V], int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = to - 1; k >= from; k -= AT_ONCE) {
        wide_lanes in[AT_ONCE], add[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int64_t at = base + (int64_t)(k - j) * w.step;
            if (k - j >= from)
                in[j] = FROM_CHIP ? wide_lanes{held[(k - j - loose) * THREADS]} : wide_lanes::load((const bf16 *)n.x + at);
            if (RESIDUAL && k - j >= from) add[j] = wide_lanes::load((const bf16 *)n.residual + at);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            float v[V], res[V];
            unsigned bits = 0;
            in[j].floats(v);
            if (RESIDUAL) add[j].floats(res);
#pragma unroll
            for (int i = 0; i < V; i++) {
                v[i] = fmaf(scale[i], v[i], shift[i]);
                if (RESIDUAL) v[i] += res[i];
                if (n.relu && !(v[i] > 0.0f)) v[i] = v[i] < 0.0f ? 0.0f : v[i]; /* NaN passes */
                bits |= (unsigned)(v[i] > 0.0f) << i;
            }
            wide_lanes::store((bf16 *)n.y + at, v);
            if (n.positive) n.positive[at / V] = (uint8_t)bits;
        }
    }
}

template <int KEEP>
__device__ static void sum_rows(float (&part)[2 * V], const float (&pivot)[V], const gf_nn_norm &n, const whole &w, uint4 *held,
                                int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = from; k < to; k += AT_ONCE) {
        wide_lanes in[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (k + j < to) in[j] = load_row<KEEP>((const bf16 *)n.x + base + (int64_t)(k + j) * w.step);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k + j >= to) break;
            float v[V];
            if (KEEP) held[(k + j - loose) * THREADS] = in[j].raw;
            in[j].floats(v);
#pragma unroll
            for (int i = 0; i < V; i++) {
                const float d = v[i] - pivot[i];
                part[i] += d;
                part[V + i] = fmaf(d, d, part[V + i]);
            }
        }
    }
}

/* line [2][channels of the tile]: scale, shift; the first block of the team keeps what backward and evaluation need. */
__device__ static void set_lines(const gf_nn_norm &n, const whole &w, const area &m, int tile) {
    const int channels = w.gx * V;
    if (threadIdx.x < channels) {
        const int64_t i = (int64_t)tile * channels + threadIdx.x;
        const double first = (double)(float)((const bf16 *)n.x)[i], rows = (double)n.rows, s1 = m.wide[threadIdx.x];
        const double sum = s1 + rows * first, square = m.wide[channels + threadIdx.x] + 2 * first * s1 + rows * first * first;
        const norm_line l = line_of_sums(n, i, sum, square, rows);
        m.line[threadIdx.x] = l.scale, m.line[channels + threadIdx.x] = l.shift;
        if (blockIdx.x % w.size == 0) keep_line(n, i, l, rows);
    }
    __syncthreads();
}

template <int RESIDUAL>
static __global__ void __launch_bounds__(THREADS, PER_SM) forward_kernel(gf_nn_norm n, gf_nn_norm, whole w, unsigned *tickets) {
    const area m = area_of<1, 2>(w);
    const share s = share_of(n, w);
    for (int tile = s.team, round = 1; tile < w.tiles; tile += w.teams, round++) {
        const int64_t at = ((int64_t)tile * w.gx + s.column) * V, base = s.first * n.c + at;
        float part[2 * V] = {0.0f}, pivot[V], scale[V], shift[V];
        wide_lanes::load((const bf16 *)n.x + at).floats(pivot);
        sum_rows<0>(part, pivot, n, w, m.held, base, 0, s.loose, s.loose);
        sum_rows<1>(part, pivot, n, w, m.held, base, s.loose, s.count, s.loose);
        add_team<2>(part, n, w, m, tile, round, tickets);
        set_lines(n, w, m, tile);
#pragma unroll
        for (int i = 0; i < V; i++) scale[i] = m.line[s.column * V + i], shift[i] = m.line[(w.gx + s.column) * V + i];
        write_rows<1, RESIDUAL>(n, w, m.held, scale, shift, base, s.loose, s.count, s.loose);
        write_rows<0, RESIDUAL>(n, w, m.held, scale, shift, base, 0, s.loose, s.loose);
    }
    leave_team(w, tickets);
}

/* ----- launch ------------------------------------------------------------------------------------------------------ */

int gf_cunn_norm_forward_whole(gf_nn_engine *s, const gf_nn_norm *n) {
    whole w;
    if (n->shortcut || !whole_of(s, n, 1, 2, &w)) return 0;
    return launch_whole(s, n->residual ? forward_kernel<1> : forward_kernel<0>, n, &w, 1, 2, "batch norm");
}
