/* cunn_norm_whole.cu - batch norm of one rank in one launch: sums over rows, then the pass that writes, with x (backward: x and
 * g) kept on the chip in between as far as it fits. For bf16.
 *
 * The channels are cut into tiles; a team of blocks does a tile after the other, each block its share of the rows. A thread
 * keeps the last of its rows in shared memory, in places of its own; the others it reads again, the latest first: those may
 * still be in the L2 cache. Between the two passes the blocks of a team wait for each other (a cooperative launch: all of them
 * run at once), and then each adds the sums of all in the same order: same bits every time.
 * Bytes per number where all fits: forward 4 (6 with a residual), backward 6; 2 and 4 less than in two launches. */
#include "nn/cuda/cunn_norm.cuh"

/* ----- Teams of blocks that make the sums and use them in the same launch ---------------------------------------- */

enum { V = 8, THREADS = 256, WARPS = THREADS / 32, PER_SM = 2, WIDEST = 8 }; /* WIDEST V: a tile, in pieces of 128 bytes */
typedef lanes<bf16, V> wide_lanes;

struct whole {
    int gx, ry;             /* threads: groups of V channels, a power of 2 up to WIDEST; rows */
    int tiles, teams, size; /* of channels; of blocks; blocks of a team */
    int slots;              /* rows that a thread keeps */
    int64_t each, step;     /* rows of a block; numbers between rows of a thread */
};

/* ----- of a block -------------------------------------------------------------------------------------------------- */

struct area {     /* of shared memory */
    uint4 *held;  /* [slots][arrays][THREADS]; points to the thread's own place */
    float *part;  /* [WARPS][S V gx], S sums per channel */
    double *wide; /* [THREADS]: sums over all rows [S][V gx] */
    float *line;  /* [6][V gx] */
};

template <int ARRAYS, int S> static __device__ inline area area_of(const whole &w) {
    extern __shared__ uint4 room[];
    area m;
    m.held = room + threadIdx.x;
    m.wide = (double *)(room + w.slots * ARRAYS * THREADS);
    m.part = (float *)(m.wide + THREADS);
    m.line = m.part + WARPS * S * V * w.gx;
    return m;
}

static inline size_t fixed_bytes(int gx, int sums) {
    return THREADS * sizeof(double) + sizeof(float) * (size_t)((WARPS * sums + 6) * V * gx);
}

struct share { /* of a thread: rows first, first + ry ...; the last of them, from `loose` on, stay on the chip */
    int team, column, count, loose;
    int64_t first;
};

static __device__ inline share share_of(const gf_nn_norm &n, const whole &w) {
    share s;
    const int block = (int)blockIdx.x % w.size;
    const int64_t last = min((block + 1) * w.each, n.rows);
    s.team = (int)blockIdx.x / w.size;
    s.column = (int)threadIdx.x % w.gx;
    s.first = block * w.each + (int)threadIdx.x / w.gx;
    s.count = s.first < last ? (int)((last - s.first + w.ry - 1) / w.ry) : 0;
    s.loose = s.count > w.slots ? s.count - w.slots : 0;
    return s;
}

/* A row that stays on the chip need not stay in the cache. */
template <int KEEP> static __device__ inline wide_lanes load_row(const bf16 *p) {
    if (KEEP) return wide_lanes{__ldcs(reinterpret_cast<const uint4 *>(p))};
    return wide_lanes::load(p);
}

/* ----- of a team --------------------------------------------------------------------------------------------------- */

/* tickets [teams]: blocks that have come, [teams] more: blocks that have left. All 0 between launches. */
static __device__ inline void meet(unsigned *come, unsigned all) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(come, 1u);
        while (*(volatile unsigned *)come < all) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}

static __device__ inline void leave_team(const whole &w, unsigned *tickets) {
    const int team = (int)blockIdx.x / w.size;
    if (threadIdx.x == 0 && atomicAdd(tickets + w.teams + team, 1u) == (unsigned)w.size - 1) {
        tickets[team] = 0;
        tickets[w.teams + team] = 0;
    }
}

/* m.wide [S][V gx] = sums of `part` over all threads of the team that have the channel; blocks in order.
 * scratch [tiles][size][S V gx]. */
template <int S>
static __device__ inline void add_team(float (&part)[S * V], const gf_nn_norm &n, const whole &w, const area &m, int tile,
                                       int round, unsigned *tickets) {
    const int columns = S * V * w.gx, lane = threadIdx.x % 32, warp = threadIdx.x / 32, team = (int)blockIdx.x / w.size;
    float *sums = (float *)n.scratch + (int64_t)tile * w.size * columns;
    for (int step = w.gx; step < 32; step <<= 1)
#pragma unroll
        for (int i = 0; i < S * V; i++) part[i] += __shfl_xor_sync(0xffffffffu, part[i], step);
    if (lane < w.gx)
#pragma unroll
        for (int i = 0; i < S * V; i++) m.part[warp * columns + (i / V * w.gx + lane) * V + i % V] = part[i];
    __syncthreads();
    if (threadIdx.x < columns) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) sum += m.part[i * columns + threadIdx.x];
        __stcg(sums + (int64_t)(blockIdx.x % w.size) * columns + threadIdx.x, sum);
    }
    meet(tickets + team, (unsigned)(round * w.size));
    const int slices = THREADS / columns, share = (w.size + slices - 1) / slices; /* columns <= THREADS */
    const int slice = threadIdx.x / columns, end = slice < slices ? min((slice + 1) * share, w.size) : 0;
    const float *from = sums + threadIdx.x % columns;
    double sum = 0.0;
#pragma unroll 8
    for (int i = slice * share; i < end; i++) sum += (double)__ldcg(from + (int64_t)i * columns);
    m.wide[threadIdx.x] = sum;
    __syncthreads();
    sum = 0.0;
    for (int i = 0; i < slices && threadIdx.x < columns; i++) sum += m.wide[i * columns + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < columns) m.wide[threadIdx.x] = sum;
    __syncthreads();
}

/* ----- on the host ------------------------------------------------------------------------------------------------- */

static inline int gx_of(int64_t c) {
    int gx = 1;
    while (2 * gx <= WIDEST && c / V % (2 * gx) == 0) gx *= 2;
    return gx;
}

/* 0: not for this norm, or this device. arrays: kept on the chip. */
static inline int whole_of(const gf_nn_engine *s, const gf_nn_norm *n, int arrays, int sums, whole *w) {
    if (n->type != GF_TYPE_BF16 || n->c % V || !s->team_blocks) return 0;
    w->gx = gx_of(n->c); /* sums V gx <= THREADS */
    w->ry = THREADS / w->gx;
    w->tiles = (int)(n->c / V / w->gx);
    const size_t slot = sizeof(uint4) * THREADS * (size_t)arrays;
    const int slots = (int)((s->team_shared - fixed_bytes(w->gx, sums)) / slot);
    const int64_t rounds = (n->rows + w->ry - 1) / w->ry; /* rows of a thread, if one block did them all */
    w->teams = 1; /* as many as keep two thirds of their rows on the chip; the cache has room for the rest */
    while (w->tiles % (2 * w->teams) == 0 && 2 * w->teams <= s->team_blocks &&
           2 * (rounds * 2 * w->teams / s->team_blocks) < 3 * slots)
        w->teams *= 2;
    w->size = s->team_blocks / w->teams;
    if (w->size > rounds) w->size = (int)rounds;
    const int64_t own = (rounds + w->size - 1) / w->size;
    w->each = own * w->ry;
    w->size = (int)((n->rows + w->each - 1) / w->each);
    w->slots = own < slots ? (int)own : slots;
    w->step = (int64_t)w->ry * n->c;
    return 1;
}

/* 1: launched. */
template <typename Kernel>
static inline int launch_whole(gf_nn_engine *s, Kernel kernel, const gf_nn_norm *n, const whole *w, int arrays, int sums,
                               const char *at) {
    const size_t bytes = fixed_bytes(w->gx, sums) + sizeof(uint4) * THREADS * (size_t)(arrays * w->slots);
    cudaError_t e = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    gf_nn_norm norm = *n, other = n->shortcut ? *n->shortcut : *n;
    whole walk = *w;
    unsigned *tickets = s->tickets;
    void *args[] = {&norm, &other, &walk, &tickets};
    const dim3 grid((unsigned)(w->teams * w->size));
    if (e == cudaSuccess) e = cudaLaunchCooperativeKernel((const void *)kernel, grid, dim3(THREADS), args, bytes, s->stream);
    if (e == cudaErrorCooperativeLaunchTooLarge) { /* a debugger's copy of the kernel may need more */
        cudaGetLastError();
        return 0;
    }
    gf_cunn_note(s, e, at);
    return 1;
}

/* ----- Forward --------------------------------------------------------------------------------------------------- */

enum { FORWARD_AT_ONCE = 4 };

/* ----- forward ----------------------------------------------------------------------------------------------------- */

template <int FROM_CHIP, int RESIDUAL>
__device__ static void write_rows(const gf_nn_norm &n, const whole &w, const uint4 *held, const float (&scale)[V],
                                  const float (&shift)[V], int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = to - 1; k >= from; k -= FORWARD_AT_ONCE) {
        wide_lanes in[FORWARD_AT_ONCE], add[FORWARD_AT_ONCE];
#pragma unroll
        for (int j = 0; j < FORWARD_AT_ONCE; j++) {
            const int64_t at = base + (int64_t)(k - j) * w.step;
            if (k - j >= from)
                in[j] = FROM_CHIP ? wide_lanes{held[(k - j - loose) * THREADS]} : wide_lanes::load((const bf16 *)n.x + at);
            if (RESIDUAL && k - j >= from) add[j] = wide_lanes::load((const bf16 *)n.residual + at);
        }
#pragma unroll
        for (int j = 0; j < FORWARD_AT_ONCE; j++) {
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
    for (int k = from; k < to; k += FORWARD_AT_ONCE) {
        wide_lanes in[FORWARD_AT_ONCE];
#pragma unroll
        for (int j = 0; j < FORWARD_AT_ONCE; j++)
            if (k + j < to) in[j] = load_row<KEEP>((const bf16 *)n.x + base + (int64_t)(k + j) * w.step);
#pragma unroll
        for (int j = 0; j < FORWARD_AT_ONCE; j++) {
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

/* ----- Backward: sums of g and g (x - mean), then dx ------------------------------------------------------------- */

enum { ALL, BY_X, BY_BITS }; /* which gradients ReLU lets through */

struct back_lines { /* of a thread's channels; a, b: dx = scale g + a x + b */
    float mean[V], scale[V], shift[V], a[V], b[V];
};

struct back_row { /* as loaded */
    wide_lanes x, dy, dy2;
    unsigned bits;
};

template <int MASK, int TWO, int KEEP> __device__ static back_row load_back(const gf_nn_norm &n, int64_t at) {
    back_row r;
    r.x = load_row<KEEP>((const bf16 *)n.x + at);
    r.dy = load_row<KEEP>((const bf16 *)n.dy + at);
    if (TWO) r.dy2 = load_row<1>((const bf16 *)n.dy2 + at);
    if (MASK == BY_BITS) r.bits = n.positive[at / V];
    return r;
}

/* The sums of rows from .. to - 1 of the thread. g replaces dy where it is the gradient of a residual; and where it is a sum
 * that would have to be made again. */
template <int MASK, int TWO, int KEEP>
__device__ static void sum_back(float (&part)[2 * V], const back_lines &line, const gf_nn_norm &n, const whole &w, uint4 *held,
                                int64_t base, int from, int to, int loose) {
    constexpr int AT_ONCE = TWO ? 2 : MASK == BY_X ? 3 : 4; /* as many as registers hold */
#pragma unroll 1
    for (int k = from; k < to; k += AT_ONCE) {
        back_row row[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (k + j < to) row[j] = load_back<MASK, TWO, KEEP>(n, base + (int64_t)(k + j) * w.step);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k + j >= to) break;
            float v[V], g[V], h[V];
            row[j].x.floats(v);
            row[j].dy.floats(g);
            if (TWO) row[j].dy2.floats(h);
#pragma unroll
            for (int i = 0; i < V; i++) {
                if (TWO) g[i] = (float)(bf16)(g[i] + h[i]);
                if (MASK == BY_X && !(fmaf(line.scale[i], v[i], line.shift[i]) > 0.0f)) g[i] = 0.0f;
                if (MASK == BY_BITS && !(row[j].bits >> i & 1u)) g[i] = 0.0f;
                part[i] += g[i];
                part[V + i] = fmaf(g[i], v[i] - line.mean[i], part[V + i]);
            }
            if (n.residual || (TWO && !KEEP)) wide_lanes::store((bf16 *)n.dy + base + (int64_t)(k + j) * w.step, g);
            if (KEEP) held[2 * (k + j - loose) * THREADS] = row[j].x.raw;
            if (KEEP) wide_lanes::store((bf16 *)(held + (2 * (k + j - loose) + 1) * THREADS), g);
        }
    }
}

/* dx of rows to - 1 down to from; g from the chip, or as sum_back left dy. */
template <int MASK, int FROM_CHIP>
__device__ static void write_back(const back_lines &line, const gf_nn_norm &n, const whole &w, const uint4 *held, int64_t base,
                                  int from, int to, int loose) {
    constexpr int AT_ONCE = 4;
#pragma unroll 1
    for (int k = to - 1; k >= from; k -= AT_ONCE) {
        wide_lanes in[AT_ONCE], grad[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            const uint4 *const place = held + 2 * (k - j - loose) * THREADS;
            in[j] = FROM_CHIP ? wide_lanes{place[0]} : wide_lanes::load((const bf16 *)n.x + at);
            grad[j] = FROM_CHIP ? wide_lanes{place[THREADS]} : wide_lanes::load((const bf16 *)n.dy + at);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            float v[V], g[V];
            in[j].floats(v);
            grad[j].floats(g);
#pragma unroll
            for (int i = 0; i < V; i++) {
                if (MASK == BY_X && !FROM_CHIP && !(fmaf(line.scale[i], v[i], line.shift[i]) > 0.0f)) g[i] = 0.0f;
                g[i] = fmaf(line.scale[i], g[i], fmaf(line.a[i], v[i], line.b[i]));
            }
            wide_lanes::store((bf16 *)n.dx + base + (int64_t)(k - j) * w.step, g);
        }
    }
}

/* m.line [3][channels of the tile]: a, b, scale. The first block of the team keeps the gradients of gamma and beta. */
__device__ static void set_coefs(const gf_nn_norm &n, const whole &w, const area &m, int tile) {
    const int channels = w.gx * V;
    if (threadIdx.x < channels) {
        const int64_t i = (int64_t)tile * channels + threadIdx.x;
        const double sum = m.wide[threadIdx.x], product = m.wide[channels + threadIdx.x];
        const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
        m.line[threadIdx.x] = coef.x;
        m.line[channels + threadIdx.x] = fmaf(-coef.x, n.mean[i], coef.y);
        m.line[2 * channels + threadIdx.x] = n.scale[i];
        if (blockIdx.x % w.size == 0) own_gradients(n, i, sum, product);
    }
    __syncthreads();
}

template <int MASK, int TWO>
static __global__ void __launch_bounds__(THREADS, PER_SM) backward_kernel(gf_nn_norm n, gf_nn_norm, whole w, unsigned *tickets) {
    const area m = area_of<2, 2>(w);
    const share s = share_of(n, w);
    for (int tile = s.team, round = 1; tile < w.tiles; tile += w.teams, round++) {
        const int64_t at = ((int64_t)tile * w.gx + s.column) * V, base = s.first * n.c + at;
        float part[2 * V] = {0.0f};
        back_lines line;
#pragma unroll
        for (int i = 0; i < V; i++) {
            line.mean[i] = n.mean[at + i];
            if (MASK == BY_X) line.scale[i] = n.scale[at + i], line.shift[i] = n.shift[at + i];
        }
        sum_back<MASK, TWO, 0>(part, line, n, w, m.held, base, 0, s.loose, s.loose);
        sum_back<MASK, TWO, 1>(part, line, n, w, m.held, base, s.loose, s.count, s.loose);
        add_team<2>(part, n, w, m, tile, round, tickets);
        set_coefs(n, w, m, tile);
#pragma unroll
        for (int i = 0; i < V; i++) {
            line.a[i] = m.line[s.column * V + i], line.b[i] = m.line[(w.gx + s.column) * V + i];
            line.scale[i] = m.line[(2 * w.gx + s.column) * V + i];
        }
        write_back<MASK, 1>(line, n, w, m.held, base, s.loose, s.count, s.loose);
        write_back<TWO ? ALL : MASK, 0>(line, n, w, m.held, base, 0, s.loose, s.loose);
    }
    leave_team(w, tickets);
}

template <int MASK> static int launch(gf_nn_engine *s, const gf_nn_norm *n, const whole *w) {
    return launch_whole(s, n->dy2 ? backward_kernel<MASK, 1> : backward_kernel<MASK, 0>, n, w, 2, 2, "batch norm, backward");
}

int gf_cunn_norm_backward_whole(gf_nn_engine *s, const gf_nn_norm *n) {
    whole w;
    if ((n->relu && n->residual && !n->positive) || !whole_of(s, n, 2, 2, &w)) return 0;
    if (!n->relu) return launch<ALL>(s, n, &w);
    return n->residual ? launch<BY_BITS>(s, n, &w) : launch<BY_X>(s, n, &w);
}

/* ----- Backward of a norm and that of its shortcut --------------------------------------------------------------- */

/* Three sums, then dx and dx2; x, x2 and g are kept on the chip in between. See cunn_norm.cu for what is computed. */

enum { PAIR_AT_ONCE = 2 };

struct both_row { /* as loaded */
    wide_lanes x, x2, dy, dy2;
    unsigned bits;
};

/* Sums of rows from .. to - 1 of the thread. g replaces dy where it is read again. */
template <int TWO, int KEEP>
__device__ static void sum_both(float (&part)[3 * V], const float (&mean)[2][V], const gf_nn_norm &n, const gf_nn_norm &m,
                                const whole &w, uint4 *held, int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = from; k < to; k += PAIR_AT_ONCE) {
        both_row row[PAIR_AT_ONCE];
#pragma unroll
        for (int j = 0; j < PAIR_AT_ONCE; j++) {
            const int64_t at = base + (int64_t)(k + j) * w.step;
            if (k + j >= to) break;
            row[j].x = load_row<KEEP>((const bf16 *)n.x + at), row[j].x2 = load_row<KEEP>((const bf16 *)m.x + at);
            row[j].dy = load_row<1>((const bf16 *)n.dy + at);
            if (TWO) row[j].dy2 = load_row<1>((const bf16 *)n.dy2 + at);
            row[j].bits = n.relu ? n.positive[at / V] : 255;
        }
#pragma unroll
        for (int j = 0; j < PAIR_AT_ONCE; j++) {
            if (k + j >= to) break;
            float v[V], u[V], g[V], h[V];
            row[j].x.floats(v);
            row[j].x2.floats(u);
            row[j].dy.floats(g);
            if (TWO) row[j].dy2.floats(h);
#pragma unroll
            for (int i = 0; i < V; i++) {
                if (TWO) g[i] = (float)(bf16)(g[i] + h[i]);
                if (!(row[j].bits >> i & 1u)) g[i] = 0.0f;
                part[i] += g[i];
                part[V + i] = fmaf(g[i], v[i] - mean[0][i], part[V + i]);
                part[2 * V + i] = fmaf(g[i], u[i] - mean[1][i], part[2 * V + i]);
            }
            uint4 *const place = held + 3 * (k + j - loose) * THREADS;
            if (!KEEP) wide_lanes::store((bf16 *)n.dy + base + (int64_t)(k + j) * w.step, g);
            if (KEEP) place[0] = row[j].x.raw, place[THREADS] = row[j].x2.raw;
            if (KEEP) wide_lanes::store((bf16 *)(place + 2 * THREADS), g);
        }
    }
}

struct both_lines { /* of a thread's channels: dx = scale g + a x + b */
    float a[V], b[V], scale[V];
};

__device__ static void write_one(bf16 *dx, const both_lines &l, const wide_lanes &x, const float (&g)[V]) {
    float v[V];
    x.floats(v);
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = fmaf(l.scale[i], g[i], fmaf(l.a[i], v[i], l.b[i]));
    wide_lanes::store(dx, v);
}

template <int FROM_CHIP>
__device__ static void write_both(const both_lines (&line)[2], const gf_nn_norm &n, const gf_nn_norm &m, const whole &w,
                                  const uint4 *held, int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = to - 1; k >= from; k -= PAIR_AT_ONCE) {
        wide_lanes in[PAIR_AT_ONCE], in2[PAIR_AT_ONCE], grad[PAIR_AT_ONCE];
#pragma unroll
        for (int j = 0; j < PAIR_AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            const uint4 *const place = held + 3 * (k - j - loose) * THREADS;
            in[j] = FROM_CHIP ? wide_lanes{place[0]} : wide_lanes::load((const bf16 *)n.x + at);
            in2[j] = FROM_CHIP ? wide_lanes{place[THREADS]} : wide_lanes::load((const bf16 *)m.x + at);
            grad[j] = FROM_CHIP ? wide_lanes{place[2 * THREADS]} : wide_lanes::load((const bf16 *)n.dy + at);
        }
#pragma unroll
        for (int j = 0; j < PAIR_AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            float g[V];
            grad[j].floats(g);
            write_one((bf16 *)n.dx + at, line[0], in[j], g);
            write_one((bf16 *)m.dx + at, line[1], in2[j], g);
        }
    }
}

/* lines [3][channels of the tile]: a, b, scale of one of the norms. */
__device__ static void set_pair_coefs(const gf_nn_norm &n, float *lines, int channels, int64_t i, double sum, double product,
                                      bool keeps) {
    const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
    lines[threadIdx.x] = coef.x;
    lines[channels + threadIdx.x] = fmaf(-coef.x, n.mean[i], coef.y);
    lines[2 * channels + threadIdx.x] = n.scale[i];
    if (keeps) own_gradients(n, i, sum, product);
}

template <int TWO>
static __global__ void __launch_bounds__(THREADS, PER_SM) both_kernel(gf_nn_norm n, gf_nn_norm m, whole w, unsigned *tickets) {
    const area r = area_of<3, 3>(w);
    const share s = share_of(n, w);
    const int channels = w.gx * V;
    for (int tile = s.team, round = 1; tile < w.tiles; tile += w.teams, round++) {
        const int64_t at = ((int64_t)tile * w.gx + s.column) * V, base = s.first * n.c + at;
        float part[3 * V] = {0.0f}, mean[2][V];
#pragma unroll
        for (int i = 0; i < V; i++) mean[0][i] = n.mean[at + i], mean[1][i] = m.mean[at + i];
        sum_both<TWO, 0>(part, mean, n, m, w, r.held, base, 0, s.loose, s.loose);
        sum_both<TWO, 1>(part, mean, n, m, w, r.held, base, s.loose, s.count, s.loose);
        add_team<3>(part, n, w, r, tile, round, tickets);
        if (threadIdx.x < channels) {
            const int64_t i = (int64_t)tile * channels + threadIdx.x;
            const double sum = r.wide[threadIdx.x];
            const bool keeps = blockIdx.x % w.size == 0;
            set_pair_coefs(n, r.line, channels, i, sum, r.wide[channels + threadIdx.x], keeps);
            set_pair_coefs(m, r.line + 3 * channels, channels, i, sum, r.wide[2 * channels + threadIdx.x], keeps);
        }
        __syncthreads();
        both_lines line[2];
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int i = 0; i < V; i++) {
                const float *const from = r.line + 3 * k * channels + s.column * V + i;
                line[k].a[i] = from[0], line[k].b[i] = from[channels], line[k].scale[i] = from[2 * channels];
            }
        write_both<1>(line, n, m, w, r.held, base, s.loose, s.count, s.loose);
        write_both<0>(line, n, m, w, r.held, base, 0, s.loose, s.loose);
    }
    leave_team(w, tickets);
}

int gf_cunn_norm_pair_back_whole(gf_nn_engine *s, const gf_nn_norm *n) {
    whole w;
    if ((n->relu && !n->positive) || !whole_of(s, n, 3, 3, &w)) return 0;
    return launch_whole(s, n->dy2 ? both_kernel<1> : both_kernel<0>, n, &w, 3, 3, "batch norm with a shortcut, backward");
}
