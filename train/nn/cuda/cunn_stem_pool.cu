/* cunn_stem_pool.cu - the stem of ResNet as one: convolution of images, the sums of its batch norm, and max pooling.
 *
 * Batch norm and ReLU keep the order of numbers, or turn it around where gamma < 0: so the maximum of the result over 3 x 3
 * windows is the result of the maximum, or minimum, of x. Forward writes x (for backward), its sums per channel and block, and
 * the extreme of each window with its place; batch norm then has a quarter of the numbers. Backward its sums are of these, too:
 * only they have a gradient g. The gradient of x, dx = scale (sum of the g of its windows) + a x + b, is made where the gradient
 * of the weights reads it, and never written.
 *
 * Forward, a block walks down a strip of 14 columns and keeps the last line of the tile above; neighbouring strips compute two
 * columns twice.
 */
#include "nn/cuda/cunn_norm_line.cuh"
#include "nn/cuda/cunn_stem.cuh"

typedef stem<7, 2, 64, 16> tall; /* forward */
typedef stem<7, 2, 64, 8> flat;  /* backward */

enum { OUT = 64, GROUPS = OUT / 8, LINE = TW * (OUT + PAD), OWN = 14, THREADS = 256 }; /* LINE: of x in shared memory */

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* x of the tile to lines 1 to TH. */
__device__ static void stage_tile(bf16 *stage, const float (&acc)[LINES][OUT / 8][4]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < LINES; m++) {
        bf16 *const line = stage + (1 + threadIdx.x / 32 * LINES + m) * LINE + lane / 4 * (OUT + PAD) + lane % 4 * 2;
#pragma unroll
        for (int o = 0; o < OUT / 8; o++) {
            *(uint32_t *)(line + o * 8) = pack(acc[m][o][0], acc[m][o][1]);
            *(uint32_t *)(line + 8 * (OUT + PAD) + o * 8) = pack(acc[m][o][2], acc[m][o][3]);
        }
    }
}

/* Writes x of the strip's own columns, and adds it to the sums of the thread's 8 channels. */
__device__ static void keep_tile(const stem_job &j, const tile_place &t, const bf16 *stage, float (&sum)[8], float (&square)[8]) {
    for (int i = threadIdx.x; i < tall::TH * OWN * GROUPS; i += THREADS) {
        const int c = i % GROUPS * 8, column = 1 + i / GROUPS % OWN, line = i / GROUPS / OWN;
        const int y = t.y0 + line, x = t.x0 + column;
        if (y >= j.oh || x >= j.ow) continue;
        const lanes<bf16, 8> piece = lanes<bf16, 8>::load(stage + (1 + line) * LINE + column * (OUT + PAD) + c);
        float v[8];
        if (j.y) *(uint4 *)(j.y + ((t.image * j.oh + y) * j.ow + x) * OUT + c) = piece.raw;
        piece.floats(v);
#pragma unroll
        for (int k = 0; k < 8; k++) sum[k] += v[k], square[k] = fmaf(v[k], v[k], square[k]);
    }
}

__device__ static uint32_t larger(uint32_t a, uint32_t b) { /* of two pairs of bf16; NaN passes */
    const __nv_bfloat162 r = __hmax2_nan(*reinterpret_cast<__nv_bfloat162 *>(&a), *reinterpret_cast<__nv_bfloat162 *>(&b));
    return *reinterpret_cast<const uint32_t *>(&r);
}

__device__ static uint32_t equal(uint32_t a, uint32_t b) { /* 0xffff where they are */
    return __heq2_mask(*reinterpret_cast<__nv_bfloat162 *>(&a), *reinterpret_cast<__nv_bfloat162 *>(&b));
}

/* One window, 8 channels as 4 pairs; flip: the sign bits of channels whose minimum counts. First: the window's pixel. */
__device__ static void pool_window(const stem_job &j, const bf16 *first, int y, int x, const uint32_t (&flip)[4], int64_t to) {
    uint32_t key[9][4], best[4], place[4];
#pragma unroll
    for (int k = 0; k < 4; k++) best[k] = 0xff80ff80u, place[k] = 0x00ff00ffu; /* -inf */
#pragma unroll
    for (int p = 0; p < 9; p++) {
        const int r = y + p / 3, q = x + p % 3;
        uint4 raw = *(const uint4 *)(first + p / 3 * LINE + p % 3 * (OUT + PAD));
        const bool inside = r >= 0 && r < j.oh && q >= 0 && q < j.ow;
        key[p][0] = raw.x, key[p][1] = raw.y, key[p][2] = raw.z, key[p][3] = raw.w;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            key[p][k] = inside ? key[p][k] ^ flip[k] : 0xff80ff80u;
            best[k] = larger(best[k], key[p][k]);
        }
    }
#pragma unroll
    for (int p = 8; p >= 0; p--) /* the first of equal ones counts */
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t same = equal(key[p][k], best[k]);
            place[k] = (place[k] & ~same) | (0x00010001u * p & same);
        }
    *(uint4 *)(j.pooled + to) = make_uint4(best[0] ^ flip[0], best[1] ^ flip[1], best[2] ^ flip[2], best[3] ^ flip[3]);
    if (j.winner)
        *(uint2 *)(j.winner + to) = make_uint2(__byte_perm(place[0], place[1], 0x6420), __byte_perm(place[2], place[3], 0x6420));
}

__device__ static void pool_tile(const stem_job &j, const tile_place &t, const bf16 *stage, const uint32_t (&flip)[4]) {
    constexpr int ROWS = tall::TH / 2, COLUMNS = OWN / 2;
    for (int i = threadIdx.x; i < ROWS * COLUMNS * GROUPS; i += THREADS) {
        const int c = i % GROUPS * 8, column = i / GROUPS % COLUMNS, row = i / GROUPS / COLUMNS;
        const int py = t.y0 / 2 + row, px = (t.x0 + 1) / 2 + column;
        if (py >= j.ph || px >= j.pw) continue;
        pool_window(j, stage + 2 * row * LINE + 2 * column * (OUT + PAD) + c, t.y0 - 1 + 2 * row, t.x0 + 2 * column, flip,
                    ((t.image * j.ph + py) * j.pw + px) * OUT + c);
    }
}

/* Sums of the block to part [blocks][2][OUT]; shared: [THREADS][16]. */
__device__ static void write_sums(const stem_job &j, float *shared, const float (&sum)[8], const float (&square)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) shared[threadIdx.x * 16 + k] = sum[k], shared[threadIdx.x * 16 + 8 + k] = square[k];
    __syncthreads();
    if (threadIdx.x >= 2 * OUT) return;
    const int which = threadIdx.x / OUT, c = threadIdx.x % OUT;
    float all = 0.0f;
    for (int i = c / 8; i < THREADS; i += GROUPS) all += shared[i * 16 + which * 8 + c % 8];
    j.part[((int64_t)blockIdx.x * 2 + which) * OUT + c] = all;
}

/* Tile k of a block: strips blockIdx.x, blockIdx.x + gridDim.x ... from top to bottom. */
__device__ static bool place_in_strip(const stem_job &j, int k, tile_place *t) {
    const int strip = (int)blockIdx.x + k / j.tiles_y * (int)gridDim.x;
    *t = {strip / j.tiles_x, k % j.tiles_y * tall::TH, strip % j.tiles_x * OWN - 1};
    return strip < j.tiles;
}

static constexpr size_t pool_bytes = sizeof(bf16) * (OUT * (tall::COLUMNS + PAD) + (tall::TH + 1) * LINE + 2 * tall::PATCH);

static __global__ void __launch_bounds__(THREADS, 2) pool_kernel(stem_job j, const float *gamma) {
    extern __shared__ uint4 memory[];
    bf16 *const w = (bf16 *)memory, *const stage = w + OUT * (tall::COLUMNS + PAD), *const patch = stage + (tall::TH + 1) * LINE;
    float sum[8] = {0.0f}, square[8] = {0.0f};
    uint32_t flip[4] = {0, 0, 0, 0};
    for (int k = 0; k < 8 && gamma; k++)
        if (gamma[threadIdx.x % GROUPS * 8 + k] < 0.0f) flip[k / 2] |= k % 2 ? 0x80000000u : 0x8000u;
    tile_place t, next;
    bool more = place_in_strip(j, 0, &t);
    if (more) fetch_patch<tall>(patch, j, t);
    copy_commit();
    load_weights<tall>(w, j.w);
    for (int k = 0; more; k++, t = next) {
        more = place_in_strip(j, k + 1, &next);
        if (more) fetch_patch<tall>(patch + (k + 1) % 2 * tall::PATCH, j, next);
        copy_commit();
        copy_wait<1>();
        float acc[LINES][OUT / 8][4] = {0.0f};
        multiply_tile<tall>(acc, patch + k % 2 * tall::PATCH, w);
        stage_tile(stage, acc);
        __syncthreads();
        keep_tile(j, t, stage, sum, square);
        pool_tile(j, t, stage, flip);
        __syncthreads();
        for (int i = threadIdx.x; i < LINE / 8; i += THREADS) ((uint4 *)stage)[i] = ((uint4 *)(stage + tall::TH * LINE))[i];
    }
    __syncthreads();
    write_sums(j, (float *)stage, sum, square);
}

/* ----- statistics -------------------------------------------------------------------------------------------------- */

enum { SLICES = 8 };

/* Adds the blocks' sums in order. count 0: n.sums only, for ranks to add. */
static __global__ void __launch_bounds__(OUT *SLICES) stats_kernel(gf_nn_norm n, double count) {
    __shared__ double sums[SLICES][2][OUT];
    const int c = threadIdx.x, slice = threadIdx.y;
    const float *const part = (const float *)n.scratch;
    double sum = 0.0, square = 0.0;
#pragma unroll 4
    for (int i = slice; i < STEM_BLOCKS; i += SLICES)
        sum += (double)part[2 * i * OUT + c], square += (double)part[(2 * i + 1) * OUT + c];
    sums[slice][0][c] = sum, sums[slice][1][c] = square;
    __syncthreads();
    if (slice) return;
    for (int i = 1; i < SLICES; i++) sum += sums[i][0][c], square += sums[i][1][c];
    n.sums[c] = sum, n.sums[OUT + c] = square;
    if (count > 0) keep_line(n, c, line_of_sums(n, c, sum, square, count), count);
}

/* ----- gradient of the weights ------------------------------------------------------------------------------------- */

enum { WINDOWS_Y = 5, WINDOWS_X = 9, WINDOWS = WINDOWS_Y * WINDOWS_X }; /* that meet a tile of 8 x 16 pixels */

struct back_stage { /* in shared memory, of one tile */
    bf16 patch[flat::PATCH], x[flat::TH * LINE], g[WINDOWS * OUT];
    uint8_t winner[WINDOWS * OUT];
};

/* g and winner of the windows that meet a tile; outside of the image g is 0. */
__device__ static void fetch_windows(back_stage *to, const stem_job &j, const tile_place &t) {
    for (int i = threadIdx.x; i < WINDOWS * GROUPS; i += blockDim.x) {
        const int w = i / GROUPS, c = i % GROUPS * 8, py = t.y0 / 2 + w / WINDOWS_X, px = t.x0 / 2 + w % WINDOWS_X;
        const bool inside = py < j.ph && px < j.pw;
        const int64_t from = inside ? ((t.image * j.ph + py) * j.pw + px) * OUT + c : 0;
        copy_start<16>(to->g + w * OUT + c, j.dy + from, inside);
        copy_start<8>((bf16 *)(to->winner + w * OUT + c), (const bf16 *)(j.winner + from), inside);
    }
}

__device__ static void fetch_back(back_stage *to, const stem_job &j, const tile_place &t) {
    fetch_patch<flat>(to->patch, j, t);
    fetch_tile<flat>(to->x, j.y, j, t);
    fetch_windows(to, j, t);
}

struct window { /* g and winner of 8 channels, as loaded */
    uint4 g;
    uint2 winner;
};

__device__ static window window_at(const back_stage *s, int y, int x, int c) {
    const int at = (y * WINDOWS_X + x) * OUT + c;
    return {*(const uint4 *)(s->g + at), *(const uint2 *)(s->winner + at)};
}

/* sum += g of a window where its winner is `place`. */
__device__ static void add_window(float (&sum)[8], const window &w, int place) {
    const uint32_t want = 0x01010101u * place, low = __vcmpeq4(w.winner.x, want), high = __vcmpeq4(w.winner.y, want);
    const lanes<bf16, 8> mine = {make_uint4(w.g.x & __byte_perm(low, 0, 0x1100), w.g.y & __byte_perm(low, 0, 0x3322),
                                            w.g.z & __byte_perm(high, 0, 0x1100), w.g.w & __byte_perm(high, 0, 0x3322))};
    float v[8];
    mine.floats(v);
#pragma unroll
    for (int k = 0; k < 8; k++) sum[k] += v[k];
}

struct dx_line { /* of the thread's 8 channels: dx = scale g + a x + b */
    float scale[8], a[8], b[8];
};

__device__ static void write_stem_dx(bf16 *at, const float (&sum)[8], const dx_line &l, bool inside) {
    float v[8];
    lanes<bf16, 8>::load(at).floats(v);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = inside ? fmaf(l.scale[k], sum[k], fmaf(l.a[k], v[k], l.b[k])) : 0.0f;
    lanes<bf16, 8>::store(at, v);
}

/* x of a tile becomes dx; 0 outside of the image. A thread has pixels 2 q and 2 q + 1 of a line: an even line or column is the
 * middle of one window, an odd one the last of one and the first of the next. Threads of a warp have one line. */
__device__ static void turn_into_dx(back_stage *s, const stem_job &j, const tile_place &t, const dx_line &l) {
    for (int i = threadIdx.x; i < flat::TH * (TW / 2) * GROUPS; i += blockDim.x) {
        const int c = i % GROUPS * 8, q = i / GROUPS % (TW / 2), y = i / GROUPS / (TW / 2);
        bf16 *const at = s->x + (y * TW + 2 * q) * (OUT + PAD) + c;
        float even[8] = {0.0f}, odd[8] = {0.0f};
        const window a = window_at(s, y / 2, q, c), b = window_at(s, y / 2, q + 1, c);
        const int row = y & 1 ? 6 : 3; /* of the upper window */
        add_window(even, a, row + 1);
        add_window(odd, a, row + 2);
        add_window(odd, b, row);
        if (y & 1) {
            const window d = window_at(s, y / 2 + 1, q, c), e = window_at(s, y / 2 + 1, q + 1, c);
            add_window(even, d, 1);
            add_window(odd, d, 2);
            add_window(odd, e, 0);
        }
        const bool line = t.y0 + y < j.oh;
        write_stem_dx(at, even, l, line && t.x0 + 2 * q < j.ow);
        write_stem_dx(at + OUT + PAD, odd, l, line && t.x0 + 2 * q + 1 < j.ow);
    }
}

static __global__ void __launch_bounds__(32 * flat::BACK_WARPS, 2) pool_back_kernel(stem_job j, gf_nn_norm n) {
    extern __shared__ uint4 memory[];
    back_stage *const stages = (back_stage *)memory;
    const int ky = threadIdx.x / 32;
    float acc[OUT / 16][flat::ROW / 8][4] = {0.0f};
    dx_line line;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const int c = threadIdx.x % GROUPS * 8 + k; /* the number of threads is a multiple of GROUPS */
        line.scale[k] = n.scale[c], line.a[k] = n.coef[c];
        line.b[k] = fmaf(-line.a[k], n.mean[c], n.coef[OUT + c]);
    }
    int tile = blockIdx.x, now = 0;
    if (tile < j.tiles) fetch_back(stages, j, place_of<flat>(j, tile));
    copy_commit();
    for (; tile < j.tiles; tile += gridDim.x, now ^= 1) {
        if (tile + (int)gridDim.x < j.tiles) fetch_back(stages + (now ^ 1), j, place_of<flat>(j, tile + gridDim.x));
        copy_commit();
        copy_wait<1>();
        turn_into_dx(stages + now, j, place_of<flat>(j, tile), line);
        __syncthreads();
        add_tile<flat>(acc, stages[now].patch, stages[now].x, ky, 0);
        __syncthreads();
    }
    write_part<flat>(j, acc, ky, 0);
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

int gf_cunn_stem_pools(const gf_nn_shape *conv, const gf_nn_shape *pool) {
    return gf_cunn_stem_scratch(conv) && conv->kernel == 7 && conv->pad == 3 && pool->kernel == 3 && pool->stride == 2 &&
           pool->pad == 1;
}

static int64_t pixels_of(const gf_nn_shape *s) {
    return s->n * gf_nn_out(s->h, s->kernel, s->stride, s->pad) * gf_nn_out(s->w, s->kernel, s->stride, s->pad);
}

/* saved: x, then the winners. */
static int64_t x_bytes(const gf_nn_shape *s) { return (int64_t)sizeof(bf16) * OUT * pixels_of(s); }

static int64_t pooled_pixels(const gf_nn_shape *s) {
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    return s->n * gf_nn_out(oh, 3, 2, 1) * gf_nn_out(ow, 3, 2, 1);
}

size_t gf_cunn_stem_saved(const gf_nn_shape *s) { return (size_t)(x_bytes(s) + OUT * pooled_pixels(s)); }

template <typename G> static stem_job pooled_job(const gf_nn_shape *s, const gf_nn_args *a) {
    stem_job j = job_of<G>(s, a);
    j.y = (bf16 *)a->saved;
    j.winner = a->saved ? (uint8_t *)a->saved + x_bytes(s) : nullptr;
    j.pooled = (bf16 *)a->y;
    j.ph = (int)gf_nn_out(j.oh, 3, 2, 1), j.pw = (int)gf_nn_out(j.ow, 3, 2, 1);
    return j;
}

void gf_cunn_stem_pool(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a) {
    stem_job j = pooled_job<tall>(shape, a);
    j.tiles_x = (j.pw + OWN / 2 - 1) / (OWN / 2);
    j.tiles = (int)shape->n * j.tiles_x; /* strips */
    if (!allow(s, pool_kernel, pool_bytes)) return;
    pool_kernel<<<STEM_BLOCKS, THREADS, pool_bytes, s->stream>>>(j, a->norm->gamma);
    gf_cunn_note(s, cudaGetLastError(), "stem");
}

void gf_cunn_stem_stats(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    stats_kernel<<<1, dim3(OUT, SLICES), 0, s->stream>>>(*n, count);
    gf_cunn_note(s, cudaGetLastError(), "statistics of the stem");
}

void gf_cunn_stem_pool_back(gf_nn_engine *s, const gf_nn_shape *shape, const gf_nn_args *a, void *dw) {
    const stem_job j = pooled_job<flat>(shape, a);
    const int blocks = GF_MIN(j.tiles, (int)STEM_BLOCKS);
    if (!allow(s, pool_back_kernel, 2 * sizeof(back_stage))) return;
    pool_back_kernel<<<(unsigned)blocks, 32 * flat::BACK_WARPS, 2 * sizeof(back_stage), s->stream>>>(j, *a->norm);
    add_parts<flat>(s, j, dw, blocks);
    gf_cunn_note(s, cudaGetLastError(), "stem, gradient of the weights");
}
