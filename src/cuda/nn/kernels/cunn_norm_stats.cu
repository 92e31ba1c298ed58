/* cunn_norm_stats.cu - batch norm, the sums over rows: forward of x and x^2, backward of g and g (x - mean).
 *
 * One launch: every block sums its chunk of rows in float, the last block to finish adds the chunks' sums in double and in
 * order, and (for one rank) finishes: mean, deviation, scale, running averages; backward, gradients of gamma and beta and the
 * coefficients of dx. Forward sums differences from the first row, which stays exact where the mean is far from 0.
 * Bytes per number in bf16: forward 2; backward 4, and 4 to 6 more where there is a second gradient and g is written.
 */
#include "cuda/nn/kernels/cunn_norm.cuh"

enum { THREADS = 512, BLOCKS = 264, WIDE = 16, ROUNDS = 4 }; /* narrow tiles: fewer chunks for the last block to add */

/* ----- finish: one channel ----------------------------------------------------------------------------------------- */

__device__ static void set_line(const gf_nn_norm &n, int64_t i, double mean, double istd) {
    const double scale = (n.gamma ? (double)n.gamma[i] : 1.0) * istd;
    n.scale[i] = (float)scale;
    n.shift[i] = (float)((n.beta ? (double)n.beta[i] : 0.0) - mean * scale);
}

__device__ static float moved(float old, double now) {
    return (float)((1 - GF_NN_MOMENTUM) * (double)old + GF_NN_MOMENTUM * now);
}

__device__ static void finish_channel(const gf_nn_norm &n, int64_t i, double sum, double square, double count) {
    const double mean = sum / count, spread = square / count - mean * mean;
    const double var = spread < 0 ? 0 : spread, istd = 1 / sqrt(var + GF_NN_EPS); /* NaN passes */
    n.mean[i] = (float)mean;
    n.istd[i] = (float)istd;
    set_line(n, i, mean, istd);
    n.running_mean[i] = moved(n.running_mean[i], mean);
    n.running_var[i] = moved(n.running_var[i], var * count / (count - 1));
}

/* Gradients of gamma and beta are of the own rows; the coefficients of dx are of all. */
__device__ static void own_gradients(const gf_nn_norm &n, int64_t i, double sum, double product) {
    if (!n.dgamma) return;
    n.dbeta[i] = (float)sum;
    n.dgamma[i] = (float)(product * (double)n.istd[i]);
}

__device__ static void back_finish_channel(const gf_nn_norm &n, int64_t i, double sum, double product, double count) {
    const double scale = (double)n.scale[i], istd = (double)n.istd[i];
    n.coef[i] = (float)(-scale * istd * istd * product / count);
    n.coef[n.c + i] = (float)(-scale * sum / count);
}

/* ----- sums of a block, and of all blocks -------------------------------------------------------------------------- */

/* The block's sum of `part` over its rows, for each of the gx V 2 columns: scratch [chunk][2][c]. Threads of a warp that share a
 * group add up first; then one thread per column adds the results of the warps, or rows. */
template <int V> __device__ static void reduce_block(const gf_nn_norm &n, const walk &w, float (&part)[2 * V]) {
    extern __shared__ float partial[]; /* [rows left][gx 2 V] */
    const int columns = w.gx * 2 * V, thread = threadIdx.y * w.gx + threadIdx.x;
    const bool shuffled = w.gx < 32 && 32 % w.gx == 0;
    if (shuffled)
        for (int step = w.gx; step < 32; step <<= 1)
#pragma unroll
            for (int i = 0; i < 2 * V; i++) part[i] += __shfl_xor_sync(0xffffffffu, part[i], step);
    const int left = shuffled ? w.ry * w.gx / 32 : w.ry, mine = shuffled ? thread / 32 : threadIdx.y;
    if (!shuffled || thread % 32 < w.gx)
#pragma unroll
        for (int i = 0; i < 2 * V; i++) partial[mine * columns + (i / V) * w.gx * V + threadIdx.x * V + i % V] = part[i];
    __syncthreads();
    float *out = (float *)n.scratch + (int64_t)blockIdx.y * 2 * n.c;
    for (int k = thread; k < columns; k += w.gx * w.ry) {
        const int64_t channel = (int64_t)blockIdx.x * w.gx * V + k % (w.gx * V);
        float sum = 0.0f;
        for (int i = 0; i < left; i++) sum += partial[i * columns + k];
        if (channel < n.c) __stcg(out + (k / (w.gx * V)) * n.c + channel, sum);
    }
}

/* True in all threads of the last block of this tile; results of the others are then visible. */
__device__ static bool comes_last(const walk &w, unsigned *ticket) {
    __shared__ unsigned before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        before = atomicAdd(ticket, 1u);
        if (before == (unsigned)w.chunks - 1) *ticket = 0;
    }
    __syncthreads();
    __threadfence();
    return before == (unsigned)w.chunks - 1;
}

/* Adds the chunks: `slices` threads per channel, each a fixed share of them, then in order. done(channel, first, second). */
template <int V, typename Done> __device__ static void add_chunks(const gf_nn_norm &n, const walk &w, Done done) {
    extern __shared__ double wide[]; /* [slices][2][channels]: as large as the floats before, or smaller */
    const int channels = w.gx * V, all = w.gx * w.ry, thread = threadIdx.y * w.gx + threadIdx.x;
    int slices = all / channels;
    if (slices < 1) slices = 1;
    const int share = (w.chunks + slices - 1) / slices;
    __syncthreads();
    for (int k = thread; k < channels * slices; k += all) {
        const int slice = k / channels;
        const int64_t channel = (int64_t)blockIdx.x * channels + k % channels;
        double first = 0.0, second = 0.0;
        if (channel < n.c) {
            const float *from = (const float *)n.scratch + channel;
            const int end = min((slice + 1) * share, w.chunks);
#pragma unroll 8
            for (int i = slice * share; i < end; i++) {
                first += (double)__ldcg(from + (int64_t)i * 2 * n.c);
                second += (double)__ldcg(from + (int64_t)i * 2 * n.c + n.c);
            }
        }
        if (slices == 1) {
            if (channel < n.c) done(channel, first, second);
        } else {
            wide[2 * slice * channels + k % channels] = first;
            wide[(2 * slice + 1) * channels + k % channels] = second;
        }
    }
    if (slices == 1) return;
    __syncthreads();
    const int64_t channel = (int64_t)blockIdx.x * channels + thread;
    if (thread >= channels || channel >= n.c) return;
    double first = 0.0, second = 0.0;
    for (int i = 0; i < slices; i++) first += wide[2 * i * channels + thread], second += wide[(2 * i + 1) * channels + thread];
    done(channel, first, second);
}

static size_t shared_bytes(const walk &w, int v) {
    const bool shuffled = w.gx < 32 && 32 % w.gx == 0;
    const int left = shuffled ? w.ry * w.gx / 32 : w.ry, channels = w.gx * v;
    int slices = w.gx * w.ry / channels;
    if (slices < 1) slices = 1;
    const size_t floats = sizeof(float) * 2 * (size_t)left * (size_t)channels;
    const size_t doubles = sizeof(double) * 2 * (size_t)slices * (size_t)channels;
    return floats > doubles ? floats : doubles;
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* count 0: n.sums only, for ranks to add. */
template <typename T, int V>
static __global__ void __launch_bounds__(THREADS) sums_kernel(gf_nn_norm n, walk w, double count, unsigned *tickets) {
    const int64_t c = n.c, group = (int64_t)blockIdx.x * w.gx + threadIdx.x, at = group * V;
    const int64_t last = min((blockIdx.y + 1) * w.chunk_rows, n.rows);
    float part[2 * V] = {0.0f}, pivot[V] = {0.0f};
    if (at < c) {
        const T *x = (const T *)n.x + at;
        lanes<T, V>::load(x).floats(pivot);
        for (int64_t r = blockIdx.y * w.chunk_rows + threadIdx.y; r < last; r += ROUNDS * w.ry) {
            lanes<T, V> in[ROUNDS];
#pragma unroll
            for (int k = 0; k < ROUNDS; k++)
                if (r + k * w.ry < last) in[k] = lanes<T, V>::load(x + (r + k * w.ry) * c);
#pragma unroll
            for (int k = 0; k < ROUNDS; k++) {
                if (r + k * w.ry >= last) break;
                float v[V];
                in[k].floats(v);
#pragma unroll
                for (int i = 0; i < V; i++) {
                    const float d = v[i] - pivot[i];
                    part[i] += d;
                    part[V + i] = fmaf(d, d, part[V + i]);
                }
            }
        }
    }
    reduce_block<V>(n, w, part);
    if (!comes_last(w, tickets + blockIdx.x)) return;
    add_chunks<V>(n, w, [&](int64_t i, double s1, double s2) {
        const double first = (double)(float)((const T *)n.x)[i], rows = (double)n.rows;
        const double sum = s1 + rows * first, square = s2 + 2 * first * s1 + rows * first * first;
        n.sums[i] = sum;
        n.sums[n.c + i] = square;
        if (count > 0) finish_channel(n, i, sum, square, count);
    });
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

/* Gradient of one number through ReLU. */
enum { ALL, BY_X, BY_BITS, BY_Y };

template <typename T, int V> struct grad_row { /* inputs of one row for the sums, as loaded */
    lanes<T, V> x, dy, dy2, y;
    unsigned bits;
};

template <typename T, int V> struct grad_lines { /* of a thread's channels */
    float mean[V], scale[V], shift[V];
};

template <typename T, int V, int MASK, int TWO> __device__ static grad_row<T, V> load_row(const gf_nn_norm &n, int64_t at) {
    grad_row<T, V> r;
    r.x = lanes<T, V>::load((const T *)n.x + at);
    r.dy = lanes<T, V>::load((const T *)n.dy + at);
    if (TWO) r.dy2 = lanes<T, V>::load((const T *)n.dy2 + at);
    if (MASK == BY_Y) r.y = lanes<T, V>::load((const T *)n.y + at);
    if (MASK == BY_BITS) r.bits = n.positive[at / 8];
    return r;
}

/* part += g, g (x - mean); keep: g is written over dy, and exactly the written value is summed. */
template <typename T, int V, int MASK, int TWO>
__device__ static void sum_row(float (&part)[2 * V], const grad_row<T, V> &r, const grad_lines<T, V> &line, T *dy, int keep) {
    float v[V], g[V], h[V];
    r.x.floats(v);
    r.dy.floats(g);
    if (TWO) {
        r.dy2.floats(h);
#pragma unroll
        for (int i = 0; i < V; i++) g[i] += h[i];
    }
    if (MASK == BY_Y) r.y.floats(h);
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (MASK == BY_X && !(fmaf(line.scale[i], v[i], line.shift[i]) > 0.0f)) g[i] = 0.0f;
        if (MASK == BY_BITS && !(r.bits >> i & 1u)) g[i] = 0.0f;
        if (MASK == BY_Y && !(h[i] > 0.0f)) g[i] = 0.0f;
    }
    if (keep) lanes<T, V>::store(dy, g);
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (keep) g[i] = (float)(T)g[i];
        part[i] += g[i];
        part[V + i] = fmaf(g[i], v[i] - line.mean[i], part[V + i]);
    }
}

/* MASK as above; TWO: there is a second part of the gradient. */
template <typename T, int V, int MASK, int TWO>
static __global__ void __launch_bounds__(THREADS)
    back_sums_kernel(gf_nn_norm n, walk w, int keep, double count, unsigned *tickets) {
    constexpr int AT_ONCE = TWO || MASK == BY_Y ? 2 : 4;
    const int64_t c = n.c, at = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    const int64_t last = at < c ? min((blockIdx.y + 1) * w.chunk_rows, n.rows) : 0;
    float part[2 * V] = {0.0f};
    grad_lines<T, V> line;
#pragma unroll
    for (int i = 0; i < V && at < c; i++) {
        line.mean[i] = n.mean[at + i];
        if (MASK == BY_X) line.scale[i] = n.scale[at + i], line.shift[i] = n.shift[at + i];
    }
    for (int64_t r = blockIdx.y * w.chunk_rows + threadIdx.y; r < last; r += AT_ONCE * w.ry) {
        grad_row<T, V> row[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (r + k * w.ry < last) row[k] = load_row<T, V, MASK, TWO>(n, (r + k * w.ry) * c + at);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (r + k * w.ry < last) sum_row<T, V, MASK, TWO>(part, row[k], line, (T *)n.dy + (r + k * w.ry) * c + at, keep);
    }
    reduce_block<V>(n, w, part);
    if (!comes_last(w, tickets + blockIdx.x)) return;
    add_chunks<V>(n, w, [&](int64_t i, double sum, double product) {
        n.sums[i] = sum;
        n.sums[n.c + i] = product;
        own_gradients(n, i, sum, product);
        if (count > 0) back_finish_channel(n, i, sum, product, count);
    });
}

/* ----- single steps, for several ranks and for eval mode ----------------------------------------------------------- */

enum { FINISH, BACK_FINISH, EVAL };

static __global__ void channel_kernel(gf_nn_norm n, int what, double count) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n.c) return;
    if (what == FINISH) finish_channel(n, i, n.sums[i], n.sums[n.c + i], count);
    if (what == BACK_FINISH) back_finish_channel(n, i, n.sums[i], n.sums[n.c + i], count);
    if (what == EVAL) set_line(n, i, (double)n.running_mean[i], 1 / sqrt((double)n.running_var[i] + GF_NN_EPS));
}

static void channels(gf_nn_engine *s, const gf_nn_norm *n, int what, double count) {
    channel_kernel<<<(unsigned)((n->c + 255) / 256), 256, 0, s->stream>>>(*n, what, count);
    gf_cunn_note(s, cudaGetLastError(), "batch norm");
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

template <typename T, int V> static void sums(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    const walk w = walk_over(n->rows, n->c, V, THREADS, BLOCKS, WIDE);
    sums_kernel<T, V><<<dim3(w.tiles, w.chunks), dim3(w.gx, w.ry), shared_bytes(w, V), s->stream>>>(*n, w, count, s->tickets);
    gf_cunn_note(s, cudaGetLastError(), "statistics of batch norm");
}

template <typename T, int V, int MASK> static void back_sums_by(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    const walk w = walk_over(n->rows, n->c, V, THREADS, BLOCKS, WIDE);
    const dim3 grid(w.tiles, w.chunks), block(w.gx, w.ry);
    if (n->dy2) back_sums_kernel<T, V, MASK, 1><<<grid, block, shared_bytes(w, V), s->stream>>>(*n, w, 1, count, s->tickets);
    else
        back_sums_kernel<T, V, MASK, 0>
            <<<grid, block, shared_bytes(w, V), s->stream>>>(*n, w, n->residual != NULL, count, s->tickets);
    gf_cunn_note(s, cudaGetLastError(), "statistics of batch norm, backward");
}

template <typename T, int V> static void back_sums(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    if (!n->relu) back_sums_by<T, V, ALL>(s, n, count);
    else if (!n->residual) back_sums_by<T, V, BY_X>(s, n, count);
    else if (V == 8 && n->positive) back_sums_by<T, V, BY_BITS>(s, n, count);
    else back_sums_by<T, V, BY_Y>(s, n, count);
}

static size_t chunk_bytes(int64_t rows, int64_t c, int v) {
    return sizeof(float) * 2 * (size_t)c * (size_t)walk_over(rows, c, v, THREADS, BLOCKS, WIDE).chunks;
}

size_t gf_cunn_norm_scratch(int64_t rows, int64_t c) {
    const size_t a = chunk_bytes(rows, c, gf_lanes(GF_TYPE_BF16, c)), b = chunk_bytes(rows, c, gf_lanes(GF_TYPE_F32, c));
    return a > b ? a : b;
}

void gf_cunn_norm_sums(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, sums, s, n, 0.0); }
void gf_cunn_norm_stats(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, sums, s, n, (double)n->rows); }
void gf_cunn_norm_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) { channels(s, n, FINISH, count); }
void gf_cunn_norm_eval(gf_nn_engine *s, const gf_nn_norm *n) { channels(s, n, EVAL, 0.0); }
void gf_cunn_norm_back_sums(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, back_sums, s, n, 0.0); }
void gf_cunn_norm_back_stats(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, back_sums, s, n, (double)n->rows); }
void gf_cunn_norm_back_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) { channels(s, n, BACK_FINISH, count); }
