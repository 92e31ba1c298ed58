/* dnn_conv.c - convolution and pooling. 3 x 3 windows of stride 1 have own kernels, the others are oneDNN's.
 *
 * Winograd's method, forward and back_data: the weights are transformed once; then every task takes a block of tiles through
 * input transform, 36 products and output transform, all in scratch of its own that stays in the second-level cache.
 * back_weights: the planes of a span of tiles are made by all threads, then each product is one thread's; sums over tiles are
 * added span after span, so that nothing depends on which thread did what.
 *
 * oneDNN: weights live in torch's layout (float32). The forward primitive's own format is kept packed until they change; the one
 * of the gradient of x is often another, and is made in scratch when needed: weights change every step, so keeping it would save
 * nothing. */
#include "device/pair_passes.h"
#include "nn/cpu/dnn.h"
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

/* ----- sizes ------------------------------------------------------------------------------------------------------- */

int gf_wino_suits(const gf_nn_shape *s) {
    if (s->kind != GF_NN_CONV || s->kernel != 3 || s->stride != 1 || s->pad != 1) return 0;
    if (s->in % GF_PANEL != 0 || s->out % GF_PANEL != 0) return 0;
    const int64_t tiles = GF_PARTS(s->h, SIDE) * GF_PARTS(s->w, SIDE), capacity = tiles * SIDE * SIDE;
    return 2 * s->h * s->w >= capacity && s->n * tiles >= 64; /* few tiles do not pay for the weights' transform */
}

/* Planes an odd number of cache lines apart, so that the 36 stores of a transform fall into different sets. */
static int64_t plane_floats(int64_t rows, int64_t row) { return (GF_PARTS(rows * row, 16) | 1) * 16; }

size_t gf_wino_plan(gf_wino *w, const gf_nn_shape *s, int threads) {
    const int64_t down = GF_PARTS(s->h, SIDE), across = GF_PARTS(s->w, SIDE), tiles = s->n * down * across;
    const int64_t in = s->in + SKEW, out = s->out + SKEW, tile_bytes = PLANES * (int64_t)sizeof(float) * (in + out);
    *w = (gf_wino){.down = down, .across = across, .tiles = tiles, .ops = gf_net_kernels_get()->wino, .threads = threads};
    w->int16 = s->type == GF_TYPE_BF16 && GF_MAX(s->in, s->out) <= GF_INT16_DEPTH && gf_cpu_kernels_get()->tile->int16_is_fast();
    w->weight_floats = PLANES * s->in * s->out;
    w->step_floats = PLANES * GF_MAX(s->in, s->out);
    /* Wide layers read many weights for every block: blocks grow until that is as little as their own planes. */
    const int64_t weight_bytes = w->weight_floats * (int64_t)sizeof(float);
    const int64_t block = GF_MAX(BLOCK_BYTES, GF_MIN(weight_bytes / 4, BLOCK_BYTES_MAX)) / tile_bytes;
    w->block = GF_PARTS(GF_MAX(STEP, GF_MIN(block, GF_PARTS(tiles, threads))), STEP) * STEP;
    w->block_floats = PLANES * (plane_floats(w->block, in) + plane_floats(w->block, out) + w->block);
    w->span = GF_PARTS(GF_MIN(GF_MAX(SPAN_BYTES, weight_bytes) / tile_bytes + 1, tiles), STEP) * STEP;
    const int64_t span_floats = s->training ? PLANES * (plane_floats(w->span, in) + plane_floats(w->span, s->out)) : 0;
    return sizeof(float) * (size_t)(w->weight_floats + w->step_floats + GF_MAX(threads * w->block_floats, span_floats));
}

/* ----- tiles of a batch -------------------------------------------------------------------------------------------- */

/* The image [h][w][channels] of data that a tile lies in, and where its first output is. */
static gf_wino_image tile_image(const gf_wino *w, const gf_nn_shape *s, const void *data, int64_t channels, int64_t tile,
                                int64_t *y, int64_t *x) {
    const int64_t each = w->down * w->across, at = tile % each;
    const size_t bytes = (size_t)(s->h * s->w * channels) * gf_type_bytes[s->type];
    *y = at / w->across * SIDE, *x = at % w->across * SIDE;
    return (gf_wino_image){s->type, (char *)(uintptr_t)data + (size_t)(tile / each) * bytes, s->h, s->w, channels};
}

/* ----- the product ------------------------------------------------------------------------------------------------- */

typedef struct left_side { /* element (row, k) of the left side */
    const float *data;
    size_t row, k;
} left_side;

/* c [m][c_row] (+)= a b, b in panels [n / GF_PANEL][panel / GF_PANEL][GF_PANEL]. */
static void multiply(float *c, size_t c_row, left_side a, const float *b, size_t panel, int64_t m, int64_t n, int64_t k,
                     int add) {
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    for (int64_t k0 = 0; k0 < k; k0 += DEPTH)
        ops->product(c, c_row, a.data + (size_t)k0 * a.k, a.row, a.k, b + k0 * GF_PANEL, GF_PANEL, panel, (int)m, (int)n,
                     (int)GF_MIN(DEPTH, k - k0), add || k0 > 0);
}

/* ----- forward and back_data --------------------------------------------------------------------------------------- */

typedef struct wino_pass {
    const gf_wino *w;
    const gf_nn_shape *s;
    gf_wino_weights weights;
    const void *from;
    void *to;
    float *u;    /* [36][cols / GF_PANEL][rows][GF_PANEL]; integers: the first half of each panel's rows */
    float *step; /* [36][cols] of integers */
    float *own;  /* [threads][block_floats] */
} wino_pass;

static void transform_weights(void *arg, int64_t task, int thread) {
    (void)thread;
    const wino_pass *p = arg;
    const int64_t chunks = GF_PARTS(p->weights.rows, WEIGHT_ROWS), r0 = task % chunks * WEIGHT_ROWS;
    p->w->ops->weights(p->u, &p->weights, task / chunks, r0, GF_MIN(r0 + WEIGHT_ROWS, p->weights.rows));
}

/* One panel of one plane of weights, in place. */
static void round_weights(void *arg, int64_t task, int thread) {
    (void)thread;
    const wino_pass *p = arg;
    float *panel = p->u + task * p->weights.rows * GF_PANEL;
    gf_cpu_kernels_get()->tile->panel_to_int16((uint32_t *)(void *)panel, panel, p->weights.rows, p->step + task * GF_PANEL);
}

static void run_block(void *arg, int64_t task, int thread) {
    const wino_pass *p = arg;
    const gf_tile_ops *ops = gf_cpu_kernels_get()->tile;
    const int64_t rows = p->weights.rows, cols = p->weights.cols, t0 = task * p->w->block;
    const int64_t t1 = GF_MIN(t0 + p->w->block, p->w->tiles), whole = GF_PARTS(t1 - t0, STEP) * STEP;
    const int64_t v_row = rows + SKEW, v_plane = plane_floats(p->w->block, v_row);
    const int64_t m_row = cols + SKEW, m_plane = plane_floats(p->w->block, m_row);
    const size_t panel = (size_t)(rows * GF_PANEL);
    float *v = p->own + thread * p->w->block_floats, *m = v + PLANES * v_plane, *step = m + PLANES * m_plane;
    int64_t y, x;
    for (int64_t t = t0; t < t1; t++) {
        const gf_wino_image image = tile_image(p->w, p->s, p->from, rows, t, &y, &x);
        const gf_wino_planes to = {v + (t - t0) * v_row, (size_t)v_plane, GF_PANEL};
        p->w->ops->input(&to, &image, y, x);
        for (int i = 0; p->w->int16 && i < PLANES; i++) {
            float *row = to.data + i * v_plane;
            step[i * p->w->block + t - t0] = ops->row_to_int16((int16_t *)(void *)row, row, rows);
        }
    }
    for (int i = 0; i < PLANES; i++) {
        const float *u = p->u + i * rows * cols;
        if (!p->w->int16) {
            multiply(m + i * m_plane, (size_t)m_row, (left_side){v + i * v_plane, (size_t)v_row, 1}, u, panel, whole, cols, rows,
                     0);
            continue;
        }
        gf_int16_words a = {(const uint32_t *)(const void *)(v + i * v_plane), (size_t)v_row, 1, step + i * p->w->block};
        gf_int16_words b = {(const uint32_t *)(const void *)u, panel, GF_PANEL, p->step + i * cols};
        for (int64_t k0 = 0; k0 < rows / 2; k0 += DEPTH, a.word += DEPTH, b.word += DEPTH * GF_PANEL)
            ops->product_int16(m + i * m_plane, (size_t)m_row, &a, &b, (int)whole, (int)cols, (int)GF_MIN(DEPTH, rows / 2 - k0),
                               k0 > 0);
    }
    for (int64_t t = t0; t < t1; t++) {
        const gf_wino_image image = tile_image(p->w, p->s, p->to, cols, t, &y, &x);
        const gf_wino_planes from = {m + (t - t0) * m_row, (size_t)m_plane, GF_PANEL};
        p->w->ops->output(&image, &from, y, x);
    }
}

static void run_pass(const gf_wino *w, const gf_nn_shape *s, gf_wino_weights weights, const void *from, void *to,
                     float *scratch) {
    float *step = scratch + w->weight_floats;
    wino_pass p = {w, s, weights, from, to, scratch, step, step + w->step_floats};
    gf_parallel(w->threads, weights.cols / GF_PANEL * GF_PARTS(weights.rows, WEIGHT_ROWS), transform_weights, &p);
    if (w->int16) gf_parallel(w->threads, PLANES * weights.cols / GF_PANEL, round_weights, &p);
    gf_parallel(w->threads, GF_PARTS(w->tiles, w->block), run_block, &p);
}

void gf_wino_forward(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a) {
    const gf_wino_weights g = {(float *)(uintptr_t)a->weight, s->in, s->out, 9, 9 * s->in, 0};
    run_pass(w, s, g, a->x, a->y, a->scratch);
}

void gf_wino_back_data(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a) {
    const gf_wino_weights g = {(float *)(uintptr_t)a->weight, s->out, s->in, 9 * s->in, 9, 1};
    run_pass(w, s, g, a->dy, a->dx, a->scratch);
}

/* ----- back_weights ------------------------------------------------------------------------------------------------ */

typedef struct wino_gradient {
    const gf_wino *w;
    const gf_nn_shape *s;
    gf_wino_weights weights;
    const void *x, *dy;
    float *du;    /* [36][in][out] */
    float *v, *n; /* planes of x [36][span][in], of dy [36][out / GF_PANEL][span][GF_PANEL] */
    int64_t v_plane, n_plane;
    int64_t t0, t1; /* the span */
} wino_gradient;

static void span_tiles(void *arg, int64_t task, int thread) {
    (void)thread;
    const wino_gradient *g = arg;
    const gf_nn_shape *s = g->s;
    const int64_t from = g->t0 + task * STEP, to = GF_MIN(from + STEP, g->t1);
    for (int64_t t = from; t < to; t++) {
        int64_t row, col;
        const gf_wino_image x = tile_image(g->w, s, g->x, s->in, t, &row, &col);
        const gf_wino_image dy = tile_image(g->w, s, g->dy, s->out, t, &row, &col);
        const gf_wino_planes v = {g->v + (t - g->t0) * (s->in + SKEW), (size_t)g->v_plane, GF_PANEL};
        const gf_wino_planes n = {g->n + (t - g->t0) * GF_PANEL, (size_t)g->n_plane, (size_t)(g->w->span * GF_PANEL)};
        g->w->ops->input(&v, &x, row, col);
        g->w->ops->spread(&n, &dy, row, col);
    }
}

static void span_product(void *arg, int64_t plane, int thread) {
    (void)thread;
    const wino_gradient *g = arg;
    const gf_nn_shape *s = g->s;
    multiply(g->du + plane * s->in * s->out, (size_t)s->out, (left_side){g->v + plane * g->v_plane, 1, (size_t)(s->in + SKEW)},
             g->n + plane * g->n_plane, (size_t)(g->w->span * GF_PANEL), s->in, s->out, g->t1 - g->t0, g->t0 > 0);
}

static void finish_weights(void *arg, int64_t task, int thread) {
    (void)thread;
    const wino_gradient *g = arg;
    const int64_t chunks = GF_PARTS(g->weights.rows, WEIGHT_ROWS), r0 = task % chunks * WEIGHT_ROWS;
    g->w->ops->gradient(&g->weights, g->du, task / chunks, r0, GF_MIN(r0 + WEIGHT_ROWS, g->weights.rows));
}

void gf_wino_back_weights(const gf_wino *w, const gf_nn_shape *s, const gf_nn_args *a) {
    wino_gradient g = {
        .w = w, .s = s, .weights = {a->weight_grad, s->in, s->out, 9, 9 * s->in, 0}, .x = a->x, .dy = a->dy, .du = a->scratch};
    g.v_plane = plane_floats(w->span, s->in + SKEW);
    g.n_plane = plane_floats(w->span, s->out);
    g.v = g.du + w->weight_floats;
    g.n = g.v + PLANES * g.v_plane;
    for (; g.t0 < w->tiles; g.t0 = g.t1) {
        g.t1 = GF_MIN(g.t0 + w->span, w->tiles);
        gf_parallel(w->threads, GF_PARTS(g.t1 - g.t0, STEP), span_tiles, &g);
        gf_parallel(w->threads, PLANES, span_product, &g);
    }
    gf_parallel(w->threads, s->out / GF_PANEL * GF_PARTS(s->in, WEIGHT_ROWS), finish_weights, &g);
}

/* ----- convolution: own kernels where they suit, else oneDNN --------------------------------------------------------- */

glofnd_status gf_dnn_conv_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const gf_dnn_window window = {s->kernel, s->stride, s->pad};
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    const int64_t w[4] = {s->out, s->in, s->kernel, s->kernel};
    const dnnl_data_type_t type = gf_dnn_type(s->type);
    gf_md x, y;          /* NHWC */
    gf_md plain;         /* torch's weights */
    gf_md any, any_grad; /* as the primitive likes; gradients are float32 */
    op->short_conv = gf_wino_suits(s);
    if (op->short_conv) {
        sizes->scratch = gf_wino_plan(&op->wino, s, gf_dnn_threads(op->dnn));
        return GLOFND_OK;
    }
    TRY(gf_dnn_md(err, op->dnn, 4, (int64_t[]){s->n, s->in, s->h, s->w}, type, dnnl_nhwc, &x));
    TRY(gf_dnn_md(err, op->dnn, 4, (int64_t[]){s->n, s->out, oh, ow}, type, dnnl_nhwc, &y));
    TRY(gf_dnn_md(err, op->dnn, 4, w, dnnl_f32, dnnl_oihw, &plain));
    TRY(gf_dnn_md(err, op->dnn, 4, w, type, dnnl_format_tag_any, &any));
    TRY(gf_dnn_md(err, op->dnn, 4, w, dnnl_f32, dnnl_format_tag_any, &any_grad));

    const dnnl_prop_kind_t prop = s->training ? dnnl_forward_training : dnnl_forward_inference;
    TRY(gf_dnn_conv(err, op->dnn, prop, x, any, y, &window, NULL, &op->forward));
    const gf_md packed = gf_prim_md(&op->forward, dnnl_query_weights_md);
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_SRC, x));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_WEIGHTS, packed));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_DST, y));
    TRY(gf_dnn_reorder(err, op->dnn, plain, packed, &op->pack));
    sizes->packed = gf_md_bytes(packed);

    if (s->training && s->input_grad) {
        TRY(gf_dnn_conv(err, op->dnn, dnnl_backward_data, x, any, y, &window, &op->forward, &op->back_data));
        const gf_md chosen = gf_prim_md(&op->back_data, dnnl_query_weights_md);
        TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_DST, y));
        TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_WEIGHTS, chosen));
        TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_SRC, x));
        if (!gf_md_equal(chosen, packed)) {
            op->spare = gf_dnn_round(gf_md_bytes(chosen));
            TRY(gf_dnn_reorder(err, op->dnn, plain, chosen, &op->pack_back));
        }
    }
    if (s->training) {
        TRY(gf_dnn_conv(err, op->dnn, dnnl_backward_weights, x, any_grad, y, &window, &op->forward, &op->back_weights));
        const gf_md chosen = gf_prim_md(&op->back_weights, dnnl_query_diff_weights_md);
        TRY(gf_dnn_slot(err, op->dnn, &op->back_weights, DNNL_ARG_SRC, x));
        TRY(gf_dnn_slot(err, op->dnn, &op->back_weights, DNNL_ARG_DIFF_DST, y));
        TRY(gf_dnn_slot(err, op->dnn, &op->back_weights, DNNL_ARG_DIFF_WEIGHTS, chosen));
        if (!gf_md_equal(chosen, plain)) {
            const size_t bytes = gf_dnn_round(gf_md_bytes(chosen));
            if (bytes > op->spare) op->spare = bytes;
            TRY(gf_dnn_reorder(err, op->dnn, chosen, plain, &op->unpack));
        }
    }
    const gf_prim *all[] = {&op->forward, &op->back_data, &op->back_weights, &op->pack, &op->pack_back, &op->unpack};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->scratch > sizes->scratch) sizes->scratch = all[i]->scratch;
    sizes->scratch += op->spare;
    return GLOFND_OK;
}

glofnd_status gf_dnn_conv_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    if (op->short_conv) return GLOFND_OK;
    return gf_dnn_run(err, op->dnn, &op->pack, (const void *[]){a->weight, a->packed}, (char *)a->scratch + op->spare);
}

glofnd_status gf_dnn_conv_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const double start = gf_dnn_start();
    if (op->short_conv) gf_wino_forward(&op->wino, &op->shape, a);
    else TRY(gf_dnn_run(err, op->dnn, &op->forward, (const void *[]){a->x, a->packed, a->y}, (char *)a->scratch + op->spare));
    gf_dnn_charge(GF_TIME_FORWARD, start);
    return GLOFND_OK;
}

glofnd_status gf_dnn_conv_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    const void *x = a->x, *dy = a->dy;
    void *scratch = (char *)a->scratch + op->spare;
    double start = gf_dnn_start();
    if (op->short_conv) gf_wino_back_weights(&op->wino, &op->shape, a);
    else {
        void *grad = op->unpack.primitive ? a->scratch : a->weight_grad;
        TRY(gf_dnn_run(err, op->dnn, &op->back_weights, (const void *[]){x, dy, grad}, scratch));
        if (op->unpack.primitive) TRY(gf_dnn_run(err, op->dnn, &op->unpack, (const void *[]){grad, a->weight_grad}, scratch));
    }
    gf_dnn_charge(GF_TIME_BACK_WEIGHTS, start);
    if (!op->shape.input_grad) return GLOFND_OK;
    start = gf_dnn_start();
    if (op->short_conv) gf_wino_back_data(&op->wino, &op->shape, a);
    else {
        void *weights = op->pack_back.primitive ? a->scratch : a->packed;
        if (op->pack_back.primitive) TRY(gf_dnn_run(err, op->dnn, &op->pack_back, (const void *[]){a->weight, weights}, scratch));
        TRY(gf_dnn_run(err, op->dnn, &op->back_data, (const void *[]){dy, weights, a->dx}, scratch));
    }
    gf_dnn_charge(GF_TIME_BACK_DATA, start);
    return GLOFND_OK;
}

/* ----- pooling ------------------------------------------------------------------------------------------------------- */

/* Max pooling, where `saved` holds which input of each window won, and average pooling, which saves nothing. */

glofnd_status gf_dnn_pool_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    const gf_dnn_window w = {s->kernel, s->stride, s->pad};
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    const dnnl_prop_kind_t prop = s->training ? dnnl_forward_training : dnnl_forward_inference;
    /* Windows never reach into padding where they average, so that it does not matter whether it counts. */
    const dnnl_alg_kind_t method = s->kind == GF_NN_MAXPOOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
    const int remembers = s->kind == GF_NN_MAXPOOL && s->training;
    gf_md x, y, winners = NULL;
    TRY(gf_dnn_md(err, op->dnn, 4, (int64_t[]){s->n, s->in, s->h, s->w}, gf_dnn_type(s->type), dnnl_nhwc, &x));
    TRY(gf_dnn_md(err, op->dnn, 4, (int64_t[]){s->n, s->in, oh, ow}, gf_dnn_type(s->type), dnnl_nhwc, &y));
    TRY(gf_dnn_pool(err, op->dnn, method, prop, x, y, &w, NULL, &op->forward));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_SRC, x));
    TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_DST, y));
    if (remembers) {
        winners = gf_prim_md(&op->forward, dnnl_query_workspace_md);
        sizes->saved = gf_md_bytes(winners);
        TRY(gf_dnn_slot(err, op->dnn, &op->forward, DNNL_ARG_WORKSPACE, winners));
    }
    sizes->scratch = op->forward.scratch;
    if (!s->training) return GLOFND_OK;
    TRY(gf_dnn_pool(err, op->dnn, method, dnnl_backward_data, x, y, &w, &op->forward, &op->back_data));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_DST, y));
    TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_DIFF_SRC, x));
    if (remembers) TRY(gf_dnn_slot(err, op->dnn, &op->back_data, DNNL_ARG_WORKSPACE, winners));
    if (op->back_data.scratch > sizes->scratch) sizes->scratch = op->back_data.scratch;
    return GLOFND_OK;
}

glofnd_status gf_dnn_pool_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_dnn_run(err, op->dnn, &op->forward, (const void *[]){a->x, a->y, a->saved}, a->scratch);
}

glofnd_status gf_dnn_pool_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return gf_dnn_run(err, op->dnn, &op->back_data, (const void *[]){a->dy, a->dx, a->saved}, a->scratch);
}
