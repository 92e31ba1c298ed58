/* dnn_wino.c - see dnn_wino.h.
 *
 * forward, back_data: the weights are transformed once; then every task takes a block of tiles through input transform, 36
 * products and output transform, all in scratch of its own that stays in the second-level cache.
 * back_weights: the planes of a span of tiles are made by all threads, then each product is one thread's; sums over tiles are
 * added span after span, so that nothing depends on which thread did what.
 */
#include "nn/cpu/dnn_wino.h"

#include "device/pair_passes.h"
#include "nn/cpu/kernels/net_kernels.h"
#include "util/array.h"
#include "util/parallel.h"

#define PLANES GF_WINO_PLANES
#define SIDE GF_WINO_OUT
#define STEP 8                  /* rows of the product's register block */
#define SKEW 16                 /* floats between rows: rows of powers of two would fall into the same cache sets */
#define DEPTH 256               /* words of one product: 32 columns of it fill a first-level cache */
#define WEIGHT_ROWS 32          /* rows of weights per task */
#define BLOCK_BYTES (768 << 10) /* planes of a block: most of a second-level cache */
#define BLOCK_BYTES_MAX (6 << 20)
#define SPAN_BYTES (4 << 20) /* planes of a span, at least: some of a third-level cache */

static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }
static int64_t up(int64_t n, int64_t size) { return parts(n, size) * size; }
static void *unconst(const void *p) { return (void *)(uintptr_t)p; }

/* ----- sizes ------------------------------------------------------------------------------------------------------- */

int gf_wino_suits(const gf_nn_shape *s) {
    if (s->kind != GF_NN_CONV || s->kernel != 3 || s->stride != 1 || s->pad != 1) return 0;
    if (s->in % GF_PANEL != 0 || s->out % GF_PANEL != 0) return 0;
    const int64_t tiles = parts(s->h, SIDE) * parts(s->w, SIDE), capacity = tiles * SIDE * SIDE;
    return 2 * s->h * s->w >= capacity && s->n * tiles >= 64; /* few tiles do not pay for the weights' transform */
}

static int64_t row_floats(int64_t channels) { return channels + SKEW; }

/* Planes an odd number of cache lines apart, so that the 36 stores of a transform fall into different sets. */
static int64_t plane_floats(int64_t rows, int64_t row) {
    const int64_t n = up(rows * row, 16);
    return n / 16 % 2 ? n : n + 16;
}

static int64_t block_floats(const gf_wino *w, const gf_nn_shape *s) {
    return PLANES * (plane_floats(w->block, row_floats(s->in)) + plane_floats(w->block, row_floats(s->out)) + w->block);
}

static int64_t span_floats(const gf_wino *w, const gf_nn_shape *s) {
    return PLANES * (plane_floats(w->span, row_floats(s->in)) + plane_floats(w->span, s->out));
}

static int64_t weight_floats(const gf_nn_shape *s) { return PLANES * s->in * s->out; }
static int64_t step_floats(const gf_nn_shape *s) { return PLANES * GF_MAX(s->in, s->out); }

size_t gf_wino_plan(gf_wino *w, const gf_nn_shape *s, int threads) {
    const int64_t down = parts(s->h, SIDE), across = parts(s->w, SIDE), tiles = s->n * down * across;
    const int64_t tile_bytes = PLANES * (int64_t)sizeof(float) * (row_floats(s->in) + row_floats(s->out));
    const int64_t weight_bytes = weight_floats(s) * (int64_t)sizeof(float);
    *w = (gf_wino){.down = down, .across = across, .tiles = tiles, .threads = threads};
    w->int16 = s->type == GF_TYPE_BF16 && GF_MAX(s->in, s->out) <= GF_INT16_DEPTH && gf_cpu_kernels_get()->tile->int16_is_fast();
    /* Wide layers read many weights for every block: blocks grow until that is as little as their own planes. */
    const int64_t block = GF_MAX(BLOCK_BYTES, GF_MIN(weight_bytes / 4, BLOCK_BYTES_MAX)) / tile_bytes;
    w->block = up(GF_MAX(STEP, GF_MIN(block, parts(tiles, threads))), STEP);
    w->span = up(GF_MIN(GF_MAX(SPAN_BYTES, weight_bytes) / tile_bytes + 1, tiles), STEP);
    const int64_t pass = threads * block_floats(w, s), back = s->training ? span_floats(w, s) : 0;
    return sizeof(float) * (size_t)(weight_floats(s) + step_floats(s) + GF_MAX(pass, back));
}

/* ----- tiles of a batch -------------------------------------------------------------------------------------------- */

typedef struct place {
    int64_t image, y, x; /* of the first output */
} place;

static place place_of(const gf_wino *w, int64_t tile) {
    const int64_t each = w->down * w->across, at = tile % each;
    return (place){tile / each, at / w->across * SIDE, at % w->across * SIDE};
}

static gf_wino_image image_of(const gf_nn_shape *s, const void *data, int64_t channels, int64_t image) {
    const size_t bytes = (size_t)(s->h * s->w * channels) * gf_type_bytes(s->type);
    return (gf_wino_image){s->type, (char *)unconst(data) + (size_t)image * bytes, s->h, s->w, channels};
}

/* ----- the product ------------------------------------------------------------------------------------------------- */

typedef struct left { /* element (row, k) of the left side */
    const float *data;
    size_t row, k;
} left;

/* c [m][c_row] (+)= a b, b in panels [n / GF_PANEL][panel / GF_PANEL][GF_PANEL]. */
static void multiply(float *c, size_t c_row, left a, const float *b, size_t panel, int64_t m, int64_t n, int64_t k, int add) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    for (int64_t k0 = 0; k0 < k; k0 += DEPTH)
        ops->product(c, c_row, a.data + (size_t)k0 * a.k, a.row, a.k, b + k0 * GF_PANEL, GF_PANEL, panel, (int)m, (int)n,
                     (int)GF_MIN(DEPTH, k - k0), add || k0 > 0);
}

/* The same of integers: a [m] and b as panels, both with their steps. */
static void multiply_int16(float *c, size_t c_row, gf_int16_words a, gf_int16_words b, int64_t m, int64_t n, int64_t k) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    for (int64_t k0 = 0; k0 < k; k0 += DEPTH, a.word += DEPTH, b.word += DEPTH * GF_PANEL)
        ops->product_int16(c, c_row, &a, &b, (int)m, (int)n, (int)GF_MIN(DEPTH, k - k0), k0 > 0);
}

/* ----- forward and back_data --------------------------------------------------------------------------------------- */

typedef struct pass {
    const gf_wino *w;
    const gf_nn_shape *s;
    const gf_wino_ops *ops;
    gf_wino_weights weights;
    const void *from;
    void *to;
    float *u;    /* [36][cols / GF_PANEL][rows][GF_PANEL]; integers: the first half of each panel's rows */
    float *step; /* [36][cols] of integers */
    float *own;  /* [threads][block_floats] */
} pass;

static void transform_weights(void *arg, int64_t task, int thread) {
    (void)thread;
    const pass *p = arg;
    const int64_t chunks = parts(p->weights.rows, WEIGHT_ROWS), r0 = task % chunks * WEIGHT_ROWS;
    p->ops->weights(p->u, &p->weights, task / chunks, r0, GF_MIN(r0 + WEIGHT_ROWS, p->weights.rows));
}

/* One panel of one plane of weights, in place. */
static void round_weights(void *arg, int64_t task, int thread) {
    (void)thread;
    const pass *p = arg;
    float *panel = p->u + task * p->weights.rows * GF_PANEL;
    gf_cpu_kernels_get()->tile->panel_to_int16((uint32_t *)(void *)panel, panel, p->weights.rows, p->step + task * GF_PANEL);
}

static void load_block(const pass *p, float *v, size_t plane, float *step, int64_t t0, int64_t t1) {
    const gf_tile_ops *tile = gf_cpu_kernels_get()->tile;
    const int64_t rows = p->weights.rows;
    for (int64_t t = t0; t < t1; t++) {
        const place at = place_of(p->w, t);
        const gf_wino_image image = image_of(p->s, p->from, rows, at.image);
        const gf_wino_planes to = {v + (t - t0) * row_floats(rows), plane, GF_PANEL};
        p->ops->input(&to, &image, at.y, at.x);
        for (int i = 0; p->w->int16 && i < PLANES; i++) {
            float *row = to.data + (size_t)i * plane;
            step[i * p->w->block + t - t0] = tile->row_to_int16((int16_t *)(void *)row, row, rows);
        }
    }
}

static void store_block(const pass *p, float *m, size_t plane, int64_t t0, int64_t t1) {
    const int64_t cols = p->weights.cols;
    for (int64_t t = t0; t < t1; t++) {
        const place at = place_of(p->w, t);
        const gf_wino_image image = image_of(p->s, p->to, cols, at.image);
        const gf_wino_planes from = {m + (t - t0) * row_floats(cols), plane, GF_PANEL};
        p->ops->output(&image, &from, at.y, at.x);
    }
}

static void multiply_plane(const pass *p, int i, float *m, size_t m_row, const float *v, const float *step, int64_t tiles) {
    const int64_t rows = p->weights.rows, cols = p->weights.cols;
    const size_t panel = (size_t)(rows * GF_PANEL), v_row = (size_t)row_floats(rows);
    const float *u = p->u + i * rows * cols;
    if (p->w->int16)
        multiply_int16(m, m_row, (gf_int16_words){(const uint32_t *)(const void *)v, v_row, 1, step + i * p->w->block},
                       (gf_int16_words){(const uint32_t *)(const void *)u, panel, GF_PANEL, p->step + i * cols}, tiles, cols,
                       rows / 2);
    else multiply(m, m_row, (left){v, v_row, 1}, u, panel, tiles, cols, rows, 0);
}

static void run_block(void *arg, int64_t task, int thread) {
    const pass *p = arg;
    const int64_t rows = p->weights.rows, cols = p->weights.cols, t0 = task * p->w->block;
    const int64_t t1 = GF_MIN(t0 + p->w->block, p->w->tiles), whole = up(t1 - t0, STEP);
    const int64_t v_row = row_floats(rows), v_plane = plane_floats(p->w->block, v_row);
    const int64_t m_row = row_floats(cols), m_plane = plane_floats(p->w->block, m_row);
    float *v = p->own + thread * block_floats(p->w, p->s), *m = v + PLANES * v_plane, *step = m + PLANES * m_plane;
    load_block(p, v, (size_t)v_plane, step, t0, t1);
    for (int i = 0; i < PLANES; i++) multiply_plane(p, i, m + i * m_plane, (size_t)m_row, v + i * v_plane, step, whole);
    store_block(p, m, (size_t)m_plane, t0, t1);
}

static void run_pass(const gf_wino *w, const gf_nn_shape *s, gf_wino_weights weights, const void *from, void *to,
                     float *scratch) {
    float *step = scratch + weight_floats(s);
    pass p = {w, s, gf_net_kernels_get()->wino, weights, from, to, scratch, step, step + step_floats(s)};
    gf_parallel(w->threads, weights.cols / GF_PANEL * parts(weights.rows, WEIGHT_ROWS), transform_weights, &p);
    if (w->int16) gf_parallel(w->threads, PLANES * weights.cols / GF_PANEL, round_weights, &p);
    gf_parallel(w->threads, parts(w->tiles, w->block), run_block, &p);
}

void gf_wino_forward(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a) {
    const gf_wino_weights g = {unconst(a->weight), s->in, s->out, 9, 9 * s->in, 0};
    run_pass(w, s, g, a->x, a->y, a->scratch);
}

void gf_wino_back_data(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a) {
    const gf_wino_weights g = {unconst(a->weight), s->out, s->in, 9 * s->in, 9, 1};
    run_pass(w, s, g, a->dy, a->dx, a->scratch);
}

/* ----- back_weights ------------------------------------------------------------------------------------------------ */

typedef struct gathering {
    const gf_wino *w;
    const gf_nn_shape *s;
    const gf_wino_ops *ops;
    gf_wino_weights weights;
    const void *x, *dy;
    float *du;    /* [36][in][out] */
    float *v, *n; /* planes of x [36][span][in], of dy [36][out / GF_PANEL][span][GF_PANEL] */
    int64_t v_plane, n_plane;
    int64_t t0, t1; /* the span */
} gathering;

static void span_tiles(void *arg, int64_t task, int thread) {
    (void)thread;
    const gathering *g = arg;
    const gf_nn_shape *s = g->s;
    const int64_t from = g->t0 + task * STEP, to = GF_MIN(from + STEP, g->t1);
    for (int64_t t = from; t < to; t++) {
        const place at = place_of(g->w, t);
        const gf_wino_image x = image_of(s, g->x, s->in, at.image), dy = image_of(s, g->dy, s->out, at.image);
        const gf_wino_planes v = {g->v + (t - g->t0) * row_floats(s->in), (size_t)g->v_plane, GF_PANEL};
        const gf_wino_planes n = {g->n + (t - g->t0) * GF_PANEL, (size_t)g->n_plane, (size_t)(g->w->span * GF_PANEL)};
        g->ops->input(&v, &x, at.y, at.x);
        g->ops->spread(&n, &dy, at.y, at.x);
    }
}

static void span_product(void *arg, int64_t plane, int thread) {
    (void)thread;
    const gathering *g = arg;
    const gf_nn_shape *s = g->s;
    multiply(g->du + plane * s->in * s->out, (size_t)s->out, (left){g->v + plane * g->v_plane, 1, (size_t)row_floats(s->in)},
             g->n + plane * g->n_plane, (size_t)(g->w->span * GF_PANEL), s->in, s->out, g->t1 - g->t0, g->t0 > 0);
}

static void finish_weights(void *arg, int64_t task, int thread) {
    (void)thread;
    const gathering *g = arg;
    const int64_t chunks = parts(g->weights.rows, WEIGHT_ROWS), r0 = task % chunks * WEIGHT_ROWS;
    g->ops->gradient(&g->weights, g->du, task / chunks, r0, GF_MIN(r0 + WEIGHT_ROWS, g->weights.rows));
}

void gf_wino_back_weights(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a) {
    gathering g = {.w = w,
                   .s = s,
                   .ops = gf_net_kernels_get()->wino,
                   .weights = {a->weight_grad, s->in, s->out, 9, 9 * s->in, 0},
                   .x = a->x,
                   .dy = a->dy,
                   .du = a->scratch};
    g.v_plane = plane_floats(w->span, row_floats(s->in));
    g.n_plane = plane_floats(w->span, s->out);
    g.v = g.du + weight_floats(s);
    g.n = g.v + PLANES * g.v_plane;
    for (; g.t0 < w->tiles; g.t0 = g.t1) {
        g.t1 = GF_MIN(g.t0 + w->span, w->tiles);
        gf_parallel(w->threads, parts(g.t1 - g.t0, STEP), span_tiles, &g);
        gf_parallel(w->threads, PLANES, span_product, &g);
    }
    gf_parallel(w->threads, s->out / GF_PANEL * parts(s->in, WEIGHT_ROWS), finish_weights, &g);
}
