/* context.c - life of a context. */
#define _GNU_SOURCE
#include "method/context.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "glofnd.h"
#include "method/build_commit.h" /* written by the build: GF_BUILD_COMMIT */
#include "method/options.h"
#include "method/store.h"
#include "method/workspace.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/parallel.h"
#include "util/text.h"

/* ----- workspace ----- */

/* The layout is a list of `take` calls, run twice: once to add up sizes, once to set pointers. */

#define SLACK 64 /* rows past the end that tile kernels may read or, with zeros, write */

typedef struct cursor {
    char *base; /* NULL: only count */
    size_t used;
} cursor;

static void *take(cursor *at, int64_t count, size_t size) {
    const size_t bytes = ((size_t)count * size + 63) / 64 * 64, here = at->used;
    at->used += bytes;
    return at->base && count > 0 ? at->base + here : NULL;
}

#define TAKE(at, pointer, count) ((pointer) = take((at), (count), sizeof *(pointer)))

static size_t most_tiles(const gf_shape *s) { return s->dim >= GF_WIDE_DIM ? GF_WIDE_TILES_KEPT : GF_TILES_KEPT; }

/* 1: S is small enough to be kept from the sums to the gradient. */
static int keeps_tiles(const gf_shape *s) {
    return s->rows == s->cols && !s->topk && gf_cpu_tiles_bytes(s->all, s->all, s->tile, s->sides == 1) <= most_tiles(s);
}

gf_shape gf_shape_of(const glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim) {
    const gf_step_batch q = {.rows = rows, .cols = cols, .dim = dim};
    return gf_shape_of_batch(c, &q);
}

gf_shape gf_shape_of_batch(const glofnd_ctx *c, const gf_step_batch *q) {
    const glofnd_options *o = &c->o;
    const int64_t rows = q->rows, cols = q->cols, dim = q->dim;
    const int sides = gf_sides(o), per_sample = 2 / sides;
    gf_shape s = {.rows = rows, .cols = cols, .dim = dim, .sides = sides, .per_sample = per_sample, .threads = c->threads};
    s.bf16 = o->math == GLOFND_MATH_BF16;
    s.own = rows * per_sample;
    s.all = cols * per_sample;
    for (int i = 0; i < sides; i++) s.candidates[i] = q->candidates[i].n, s.keyed |= o->repeats || q->candidates[i].id != NULL;
    s.several = q->positives != NULL, s.keyed |= s.several;
    const int64_t candidates = GF_MAX(s.candidates[0], s.candidates[1]);
    s.negatives = (cols - 1) * per_sample + candidates;
    s.tile = s.all <= 1024 ? 64 : 128;
    s.learns = gf_learns_thresholds(o);
    s.topk = o->detector == GLOFND_DETECT_FNC && o->fnc_rule != GLOFND_FNC_QUANTILE;
    s.support = GF_MAX(1, o->fnc_support);
    s.mutual = o->detector == GLOFND_DETECT_MUTUAL;
    s.bank = o->similarity == GLOFND_SIMILARITY_BANK && (s.learns || (o->detector == GLOFND_DETECT_FNC && !s.topk));
    s.guide_dim = gf_flags_by_guide(o) ? q->guide_dim : 0;
    s.marks = s.bank || s.mutual || gf_flags_by_guide(o);
    s.components = o->detector == GLOFND_DETECT_COMPONENTS;
    s.neighbours = s.bank ? o->neighbours : 0;
    s.ring = s.learns && o->learner == GLOFND_LEARN_RING ? o->ring_rows : 0;
    s.window_cap = s.learns ? GF_MAX(64, s.negatives / 8 < 1024 ? gf_pad(s.negatives / 8) : 1024) : 0; /* whole panels */
    double fraction;
    gf_quantile_place(s.negatives, s.bank ? per_sample : 1, o->alpha, &s.best, &fraction);
    s.best = GF_MAX(s.best, 1 + (int64_t)(o->alpha * (double)GF_MAX(s.negatives, s.ring)) + 1);
    s.list_cap = gf_cpu_lists_capacity(s.all + candidates, o->alpha, s.best, s.tile);
    if (s.learns ? s.list_cap > s.window_cap : o->detector != GLOFND_DETECT_FNC || s.support > 1) s.list_cap = 0;
    s.rounds = s.list_cap > 0 && candidates == 0 && !s.learns && !s.topk && !s.bf16 && sides == 1 &&
               !keeps_tiles(&s) && /* one rank uses it */
               gf_cpu_rounding_pays(s.all, dim);
    return s;
}

static void lay_embed(cursor *at, gf_embed *e, int64_t rows, int64_t dim, int64_t ld, int packed) {
    *e = (gf_embed){.rows = rows, .dim = dim, .ld = ld};
    TAKE(at, e->row, rows ? (gf_pad(rows) + SLACK) * ld : 0);
    TAKE(at, e->col, packed && rows ? gf_pad(rows) * dim : 0);
}

static void lay_gradient(cursor *at, gf_side *side, const gf_shape *s, int64_t ld) {
    const int64_t n = s->all + SLACK, own = s->own + SLACK;
    gf_grad_in *in = &side->weights;
    gf_grad_out *out = &side->grads;
    TAKE(at, in->inv_tau, n), TAKE(at, in->theta, n), TAKE(at, in->floor, n), TAKE(at, in->log_w, n), TAKE(at, in->w, n);
    TAKE(at, in->attract, n), TAKE(at, in->align, n), TAKE(at, in->tie, n), TAKE(at, in->group, n), TAKE(at, in->label, n);
    in->marks = side->limits.marks, in->marks_ld = side->limits.marks_ld; /* made anew, from the links */
    TAKE(at, in->marks_col, s->marks ? in->marks_ld * own : 0);
    TAKE(at, out->grad, (gf_pad(s->topk ? s->all : s->own) + SLACK) * ld);
    TAKE(at, out->same, own), TAKE(at, out->hits, own), TAKE(at, out->col_sum, s->own), TAKE(at, out->col_moment, s->own);
    TAKE(at, side->pos, n);
}

/* Rounded copies of rows whose products are of bf16 numbers. */
static void lay_rounded(cursor *at, gf_embed *e) {
    e->ld16 = gf_cpu_embed_ld16(e->dim);
    TAKE(at, e->row16, (gf_pad(e->rows) + SLACK) * e->ld16);
    TAKE(at, e->col16, gf_pad(e->rows) * ((e->dim + 1) / 2));
    TAKE(at, e->pair, (gf_pad(e->rows) + SLACK) / 2 * e->ld);
}

static void lay_side(cursor *at, gf_side *side, const gf_shape *s, int i, int64_t ld) {
    lay_embed(at, &side->z, s->all, s->dim, ld, 1);
    if (s->bf16 && !s->topk) lay_rounded(at, &side->z); /* a top k ranks, so it takes all digits */
    lay_embed(at, &side->support, s->topk ? s->all * s->support : 0, s->dim, ld, 0);
    lay_embed(at, &side->bank, s->bank ? s->all : 0, s->dim, ld, 1);
    TAKE(at, side->bank_rows, s->bank ? s->cols * s->dim : 0);
    const int64_t candidates = s->candidates[i];
    lay_embed(at, &side->extra, candidates, s->dim, ld, 1);
    if (s->bf16 && !s->topk && candidates > 0) lay_rounded(at, &side->extra);
    TAKE(at, side->extra_norm, candidates), TAKE(at, side->extra_grad, candidates ? (gf_pad(candidates) + SLACK) * ld : 0);
    TAKE(at, side->extra_none, candidates ? candidates + SLACK : 0),
        TAKE(at, side->extra_key, candidates ? candidates + SLACK : 0);
    TAKE(at, side->unpaired, s->keyed ? s->own : 0);
    TAKE(at, side->others, s->several ? s->own : 0);
    lay_embed(at, &side->ring, s->ring, s->dim, ld, 1);
    if (s->bf16 && s->ring > 0) lay_rounded(at, &side->ring);
    TAKE(at, side->norm, s->all + SLACK), TAKE(at, side->positive, s->own);
    const int64_t n = s->own + SLACK;
    gf_sum_in *in = &side->limits;
    gf_sum_out *out = &side->sums;
    TAKE(at, in->inv_tau, n), TAKE(at, in->lo, n), TAKE(at, in->hi, n), TAKE(at, in->mid, n), TAKE(at, in->tie, n);
    in->marks_ld = gf_pad(s->all) / 32;
    TAKE(at, in->marks, s->marks ? in->marks_ld * n : 0);
    TAKE(at, out->peak, n), TAKE(at, out->sum, n), TAKE(at, out->moment, n), TAKE(at, out->flagged_s, n);
    TAKE(at, out->kept, n), TAKE(at, out->window_n, n), TAKE(at, out->window_le, n), TAKE(at, out->above, n);
    TAKE(at, out->window, s->window_cap * n);
    TAKE(at, side->detector_kept, s->own), TAKE(at, side->floor, n), TAKE(at, side->equals, n);
    lay_gradient(at, side, s, ld);
    TAKE(at, side->quantile, s->own + SLACK), TAKE(at, side->row_id, s->own);
    /* Lists of candidates; they come before the sums, when the windows are not in use yet. */
    const int64_t listed = s->list_cap > 0 ? s->own + SLACK : 0;
    gf_lists *x = &side->lists;
    x->capacity = s->learns && s->list_cap > 0 ? s->window_cap : s->list_cap;
    TAKE(at, x->count, listed), TAKE(at, x->limit, listed);
    if (s->learns) x->value = side->sums.window;
    else TAKE(at, x->value, s->list_cap * listed);
    TAKE(at, x->column, s->topk || s->rounds ? s->list_cap * listed : 0);
    if (s->rounds) {
        gf_rounded *rounded = &side->rounded;
        const int64_t rows = s->all;
        const int64_t dim = s->dim;
        rounded->ld = gf_cpu_embed_ld16(dim);
        TAKE(at, rounded->row, (gf_pad(rows) + SLACK) * rounded->ld);
        TAKE(at, rounded->col, gf_pad(rows) * ((dim + 1) / 2));
        TAKE(at, rounded->step, gf_pad(rows) + SLACK), TAKE(at, rounded->lost, gf_pad(rows) + SLACK);
    }
    TAKE(at, side->theta, s->mutual ? s->all : 0);
    TAKE(at, side->state, s->rows), TAKE(at, side->fresh_state, s->rows), TAKE(at, side->open, s->rows);
}

/* Lists of threads other than the first are merged into its own. */
static void lay_near(cursor *at, gf_near *x, const gf_shape *s) {
    const int64_t on = s->neighbours > 0, block = on * s->threads * s->dim * GF_NEIGHBOUR_BLOCK;
    TAKE(at, x->anchor, on * gf_pad(s->rows) * s->dim), TAKE(at, x->pull, on * s->rows * s->dim), TAKE(at, x->dot, on * s->rows);
    TAKE(at, x->list, s->threads * s->rows * s->neighbours), TAKE(at, x->found, on * s->rows);
    TAKE(at, x->nearest, on * s->cols), TAKE(at, x->sum, on * s->cols);
    TAKE(at, x->rows, block), TAKE(at, x->panels, block);
}

/* Bytes of tiles that a smaller batch on one rank may keep where this one does not. */
static size_t tiles_of_smaller(const gf_shape *s) {
    const size_t bytes = gf_cpu_tiles_bytes(s->own, s->own, s->tile, s->sides == 1);
    if (s->topk || keeps_tiles(s)) return 0;
    return bytes < most_tiles(s) ? bytes : most_tiles(s);
}

static size_t lay(gf_workspace *ws, const gf_shape *s, char *base) {
    cursor at = {base, 0};
    const int64_t ld = gf_cpu_embed_ld(s->dim);
    memset(ws->side, 0, sizeof ws->side);
    for (int i = 0; i < s->sides; i++) lay_side(&at, &ws->side[i], s, i, ld);
    ws->near.key = 0;
    lay_near(&at, &ws->near, s);
    const int64_t guided = s->guide_dim > 0 ? s->all : 0;
    lay_embed(&at, &ws->guide, guided, s->guide_dim, gf_cpu_embed_ld(s->guide_dim), 1);
    TAKE(&at, ws->guide_theta, guided);
    TAKE(&at, ws->links, 2 * s->cols);
    TAKE(&at, ws->id_scratch, 4 * s->cols);
    TAKE(&at, ws->theta_sum, s->mutual ? s->all : 0);
    TAKE(&at, ws->key, s->keyed ? s->all + SLACK : 0), TAKE(&at, ws->key_table, s->keyed ? 2 * s->cols : 0);
    TAKE(&at, ws->key_count, s->keyed ? 3 * s->cols : 0);
    TAKE(&at, ws->first_positive, s->several ? s->cols : 0), TAKE(&at, ws->next_positive, s->several ? s->cols : 0);
    TAKE(&at, ws->copy, s->rows), TAKE(&at, ws->next_copy, s->rows);
    TAKE(&at, ws->last_copy, s->keyed ? s->cols : 0);
    TAKE(&at, ws->row_log_u, s->keyed ? s->own : 0), TAKE(&at, ws->row_grad_tau, s->keyed ? s->own : 0);
    const int64_t apart = s->keyed && s->rows < s->cols ? s->cols : 0;
    TAKE(&at, ws->apart, apart), TAKE(&at, ws->next_apart, apart), TAKE(&at, ws->shared, GF_SHARED * apart);
    TAKE(&at, ws->key_row, s->rows);
    ws->tile_scratch = take(&at, 1, gf_cpu_scratch_bytes(s->tile, (int)s->threads));
    ws->select_scratch = take(&at, 1, gf_cpu_select_bytes(s->best, (int)s->threads));
    ws->tiles = keeps_tiles(s) ? take(&at, 1, gf_cpu_tiles_bytes(s->all, s->all, s->tile, s->sides == 1)) : NULL;
    return at.used;
}

size_t gf_workspace_bytes(const gf_shape *shape) {
    gf_workspace plan = {0};
    return lay(&plan, shape, NULL) + tiles_of_smaller(shape);
}

static glofnd_status get_workspace(glofnd_ctx *c) {
    if (!c->ws) c->ws = calloc(1, sizeof *c->ws);
    FAIL_IF(&c->err, !c->ws, GLOFND_E_MEMORY, "no memory for the workspace");
    return GLOFND_OK;
}

static void drop_block(gf_workspace *ws) {
    if (!ws->borrowed) free(ws->block);
    ws->block = NULL;
    ws->bytes = 0;
    ws->borrowed = 0;
    ws->shape = (gf_shape){0};
}

glofnd_status gf_workspace_adopt(glofnd_ctx *c, void *memory, size_t bytes) {
    TRY(get_workspace(c));
    drop_block(c->ws);
    c->ws->block = memory;
    c->ws->bytes = memory ? bytes : 0;
    c->ws->borrowed = memory != NULL;
    return GLOFND_OK;
}

glofnd_status gf_workspace_lay_out(glofnd_ctx *c, const gf_shape *shape, int smaller_too) {
    _Static_assert(sizeof(gf_shape) % sizeof(int64_t) == 0, "no padding");
    if (c->ws && !smaller_too && memcmp(&c->ws->shape, shape, sizeof *shape) == 0) return GLOFND_OK;
    gf_workspace plan = {0};
    const size_t bytes = smaller_too ? gf_workspace_bytes(shape) : lay(&plan, shape, NULL);
    TRY(get_workspace(c));
    if (bytes > c->ws->bytes) {
        gf_workspace *ws = c->ws;
        FAIL_IF(&c->err, ws->borrowed, GLOFND_E_MEMORY,
                "%lld rows against %lld of dimension %lld need a workspace of %zu bytes; glofnd_ctx_workspace was given %zu",
                (long long)shape->rows, (long long)shape->cols, (long long)shape->dim, bytes, ws->bytes);
        void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
        FAIL_IF(&c->err, !block, GLOFND_E_MEMORY,
                "no memory for a workspace of %zu bytes (%lld rows against %lld, dimension %lld)", bytes, (long long)shape->rows,
                (long long)shape->cols, (long long)shape->dim);
        gf_prefer_huge_pages(block, bytes);
        drop_block(ws);
        ws->block = block;
        ws->bytes = bytes;
    }
    c->ws->shape = *shape;
    memset(c->ws->block, 0, bytes); /* kernels read padding: it must hold numbers, not signalling NaN */
    lay(c->ws, shape, c->ws->block);
    return GLOFND_OK;
}

glofnd_status gf_workspace_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim) {
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    TRY(gf_workspace_lay_out(c, &shape, 0));
    c->ws->configuration = c->configuration;
    return GLOFND_OK;
}

void gf_workspace_free(gf_workspace *ws) {
    if (!ws) return;
    drop_block(ws);
    free(ws);
}

/* ----- context ----- */

static void adopt(glofnd_ctx *c, const glofnd_options *o) {
    c->o = *o;
    c->threads = o->threads > 0 ? o->threads : gf_parallel_default();
    c->configuration++;
}

/* ---- devices ---- */

/* NULL and a text: there is none, or this library was built without it. */
static const gf_device *find_device(gf_error *err, glofnd_device device) {
    if (device == GLOFND_DEVICE_CUDA && gf_device_cuda) return gf_device_cuda;
    gf_fail(err, GLOFND_E_UNSUPPORTED,
            device == GLOFND_DEVICE_CUDA
                ? "device: this library was built without CUDA; build it where nvcc is found (cmake -DGLOFND_CUDA=ON), "
                  "or set device=cpu"
                : "device: %d is not an accelerator",
            (int)device);
    return NULL;
}

static glofnd_status check_device(gf_error *err, glofnd_device device) {
    if (device == GLOFND_DEVICE_CPU) return GLOFND_OK;
    const gf_device *d = find_device(err, device);
    return d ? d->check(err) : GLOFND_E_UNSUPPORTED;
}

glofnd_status glofnd_device_check(glofnd_device device, char *why, size_t why_bytes) {
    gf_error err = {""};
    return gf_explain(check_device(&err, device), &err, why, why_bytes);
}

static glofnd_status open_device(gf_error *err, glofnd_ctx *c) {
    if (c->o.device == GLOFND_DEVICE_CPU) return GLOFND_OK;
    TRY(check_device(err, c->o.device));
    c->device = find_device(err, c->o.device);
    return c->device->open(err, &c->on);
}

/* ---- life ---- */

static glofnd_status create(gf_error *err, const glofnd_options *o, glofnd_ctx **out) {
    FAIL_IF(err, !o || !out, GLOFND_E_ARGUMENT, "%s is NULL", out ? "options" : "out");
    TRY(gf_method_options_check(err, o));
    glofnd_ctx *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for a context");
    adopt(c, o);
    const glofnd_status status = open_device(err, c);
    if (status == GLOFND_OK) *out = c;
    else glofnd_ctx_free(c);
    return status;
}

glofnd_status glofnd_ctx_create(const glofnd_options *o, glofnd_ctx **out, char *why, size_t why_bytes) {
    gf_error err = {""};
    if (out) *out = NULL;
    return gf_explain(create(&err, o, out), &err, why, why_bytes);
}

void glofnd_ctx_free(glofnd_ctx *c) {
    if (!c) return;
    if (c->device) c->device->close(c->on);
    gf_workspace_free(c->ws);
    free(c);
}

glofnd_status glofnd_ctx_configure(glofnd_ctx *c, const glofnd_options *o) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !o, GLOFND_E_ARGUMENT, "options is NULL");
    TRY(gf_method_options_check(&c->err, o));
    FAIL_IF(&c->err, o->device != c->o.device, GLOFND_E_ARGUMENT, "device cannot change: make a new context");
    adopt(c, o);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(gf_shape_check(&c->err, rows, cols, dim));
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    if (c->device) return c->device->reserve(&c->err, c->on, &shape, bytes);
    TRY(gf_workspace_lay_out(c, &shape, 1));
    if (bytes) *bytes = c->ws->bytes;
    return GLOFND_OK;
}

/* ---- workspace in memory of the caller ---- */

glofnd_status glofnd_ctx_workspace_bytes(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !bytes, GLOFND_E_ARGUMENT, "bytes is NULL");
    TRY(gf_shape_check(&c->err, rows, cols, dim));
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    *bytes = c->device ? 0 : gf_workspace_bytes(&shape);
    if (!c->device) return GLOFND_OK;
    FAIL_IF(&c->err, !c->device->workspace_bytes, GLOFND_E_UNSUPPORTED, "%s allocates its own workspace", c->device->name);
    return c->device->workspace_bytes(&c->err, c->on, &shape, bytes);
}

glofnd_status glofnd_ctx_workspace(glofnd_ctx *c, void *memory, size_t bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)memory % 64 != 0, GLOFND_E_ARGUMENT, "the workspace is not aligned to 64 bytes");
    if (!c->device) return gf_workspace_adopt(c, memory, bytes);
    FAIL_IF(&c->err, !c->device->workspace, GLOFND_E_UNSUPPORTED, "%s allocates its own workspace", c->device->name);
    return c->device->workspace(&c->err, c->on, memory, bytes);
}

/* ---- ranks and streams ---- */

glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user) {
    if (!c) return GLOFND_E_ARGUMENT;
    c->reduce = sum;
    c->reduce_user = user;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_reduce_queued(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user) {
    if (!c) return GLOFND_E_ARGUMENT;
    c->queue_sum = sum;
    c->queue_user = user;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_tau(glofnd_ctx *c, const float *tau) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)tau % sizeof *tau != 0, GLOFND_E_ARGUMENT, "tau is not aligned to %zu bytes", sizeof *tau);
    c->tau_at = tau;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_bias(glofnd_ctx *c, const float *bias) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)bias % sizeof *bias != 0, GLOFND_E_ARGUMENT, "bias is not aligned to %zu bytes", sizeof *bias);
    c->bias_at = bias;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_state(glofnd_ctx *c, glofnd_anchor *rows, int64_t n) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)rows % sizeof(float) != 0, GLOFND_E_ARGUMENT, "rows is not aligned to %zu bytes", sizeof(float));
    FAIL_IF(&c->err, rows && (n < 1 || n > GF_STORE_MAX_N), GLOFND_E_ARGUMENT, "n is %lld; allowed: 1 .. 2^40", (long long)n);
    c->state_at = rows;
    c->state_n = rows ? n : 0;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_stream(glofnd_ctx *c, void *cuda_stream) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !c->device, GLOFND_E_UNSUPPORTED, "this context is for the CPU, which has no streams");
    return c->device->stream(&c->err, c->on, cuda_stream);
}

const char *glofnd_ctx_error(const glofnd_ctx *c) { return c ? c->err.text : ""; }

/* ----- version ----- */

/* Version of the library, and one line on how it was built. */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined(__clang__)
#define COMPILER "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

static char info[256];
static pthread_once_t info_once = PTHREAD_ONCE_INIT;

static void info_write(void) {
    snprintf(info, sizeof info, "glofnd %d.%d.%d, commit %s, %s %s, backends %s, cpu tiles %s", GLOFND_VERSION_MAJOR,
             GLOFND_VERSION_MINOR, GLOFND_VERSION_PATCH, GF_BUILD_COMMIT, COMPILER, GF_BUILD_TYPE, GF_BACKENDS,
             gf_cpu_kernels_get()->isa);
}

int glofnd_version_number(void) { return GLOFND_VERSION_NUMBER; }

const char *glofnd_build_info(void) {
    pthread_once(&info_once, info_write);
    return info;
}
