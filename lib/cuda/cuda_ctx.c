/* cuda_ctx.c - life of the CUDA part of a context, and its workspace: a list of `take` calls that add up sizes or hand out
 * memory.
 *
 * Gradient, the scratch of selections and partial sums of pass B are never needed at the same time, so they share one region:
 * pass C comes last.
 */
#include "cuda/cuda_step.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define ALIGN 256
#define PARTIAL_ROWS 128 /* minimum of rows of a block whose sums are added up at the end of a kernel */

/* ----- life ----- */

static void reset_failure(gf_cuda_control *c) {
    c->bad_embed = c->bad_support = c->bad_id = c->bad_tau = c->bad_bias = c->bad_row = GF_CUDA_FINE;
    c->bad_candidate[0] = c->bad_candidate[1] = GF_CUDA_FINE;
}

static glofnd_status open_parts(gf_error *err, gf_device_ctx *d) {
    CUDA_TRY(err, cudaGetDevice(&d->device));
    CUDA_TRY(err, cudaMallocHost((void **)&d->host, sizeof *d->host));
    CUDA_TRY(err, cudaMallocHost((void **)&d->noticed, sizeof *d->noticed));
    *d->noticed = 0;
    CUDA_TRY(err, cudaMalloc((void **)&d->control, sizeof *d->control));
    memset(d->host, 0, sizeof *d->host);
    reset_failure(d->host);
    CUDA_TRY(err, cudaMemcpy(d->control, d->host, sizeof *d->control, cudaMemcpyHostToDevice));
    return GLOFND_OK;
}

glofnd_status gf_cuda_open(gf_error *err, gf_device_ctx **out) {
    gf_device_ctx *d = calloc(1, sizeof *d);
    *out = NULL;
    FAIL_IF(err, !d, GLOFND_E_MEMORY, "no memory for a context");
    const glofnd_status status = open_parts(err, d);
    if (status != GLOFND_OK) gf_cuda_close(d);
    else *out = d;
    return status;
}

void gf_cuda_close(gf_device_ctx *d) {
    if (!d) return;
    cudaStreamSynchronize(d->stream);
    if (!d->borrowed) cudaFree(d->block);
    while (d->retired) {
        gf_retired *x = d->retired;
        d->retired = x->next;
        cudaFree(x->block);
        free(x);
    }
    cudaFree(d->control);
    cudaFreeHost(d->host);
    cudaFreeHost(d->noticed);
    free(d);
}

glofnd_status gf_cuda_check_current(gf_error *err, const gf_device_ctx *d) {
    int now = -1;
    CUDA_TRY(err, cudaGetDevice(&now));
    FAIL_IF(err, now != d->device, GLOFND_E_ARGUMENT,
            "the context was made on CUDA device %d, but device %d is current; call cudaSetDevice", d->device, now);
    return GLOFND_OK;
}

glofnd_status gf_cuda_stream(gf_error *err, gf_device_ctx *d, void *stream) {
    (void)err;
    d->stream = (cudaStream_t)stream;
    return GLOFND_OK;
}

glofnd_status gf_cuda_copy(gf_error *err, gf_device_ctx *d, void *to, const void *from, size_t bytes) {
    TRY(gf_cuda_check_current(err, d));
    CUDA_TRY(err, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    return GLOFND_OK;
}

/* ----- workspace ----- */

typedef struct cursor {
    char *base; /* NULL: only count */
    size_t used;
} cursor;

static void *take(cursor *at, int64_t count, size_t size) {
    const size_t bytes = ((size_t)count * size + ALIGN - 1) / ALIGN * ALIGN, here = at->used;
    at->used += bytes;
    return at->base && count > 0 ? at->base + here : NULL;
}

#define TAKE(at, pointer, count) ((pointer) = take((at), (count), sizeof *(pointer)))

static void lay_embed(cursor *at, gf_cuda_embed *e, int64_t rows, int64_t dim, int64_t ld, gf_cuda_math math) {
    *e = (gf_cuda_embed){.f32 = {.rows = rows, .dim = dim, .ld = ld}};
    TAKE(at, e->f32.row, rows * ld);
    e->hi = take(at, math == GF_CUDA_EXACT ? 0 : rows * ld, 2);
    e->lo = take(at, math == GF_CUDA_SPLIT ? rows * ld : 0, 2);
}

/* For a selection of this shape and of every smaller one: at 16 MB selections work in pieces, and smaller ones may need more. */
static size_t scratch_bytes(int64_t rows, int64_t cols) {
    const size_t now = gf_cuda_select_scratch(rows, cols), all = sizeof(float) * (size_t)rows * (size_t)cols;
    const size_t max = all < (size_t)16 << 20 ? all : (size_t)16 << 20;
    return now > max ? now : max;
}

/* The most columns of a row. */
static int64_t columns(const gf_shape *s) { return s->all + GF_MAX(s->candidates[0], s->candidates[1]); }

/* Bytes for the weights of pass C: of all pairs up to 64 MB, then of a 16th of them up to 128 MB, but at least of one block of
 * rows. */
static size_t weights_bytes(const gf_shape *s, gf_cuda_math math) {
    const size_t row = (math == GF_CUDA_SPLIT ? 4 : 2) * (size_t)((columns(s) + 255) / 256 * 256), mb = (size_t)1 << 20;
    const size_t rows = (size_t)(s->own + 255) / 256 * 256, part = row * rows / 16;
    const size_t max = (part < 64 * mb ? 64 * mb : part < 128 * mb ? part : 128 * mb) / row;
    return row * (rows < max ? rows : max < 128 ? 128 : max / 128 * 128);
}

/* Bytes for partial sums of wide embeddings, so that one product serves rows and columns: a sum and a count for every column and
 * 128 rows, of image and text a moment, too. At most twice the gradient: then rows and columns have products of their own. */
static size_t parts_bytes(const gf_shape *s, int64_t ld) {
    const size_t own = (size_t)s->own, all = (size_t)s->all, grads = sizeof(float) * (size_t)(s->sides * ld) * own;
    const size_t parts = (own + 127) / 128 * ((all + 255) / 256 * 256) * (s->sides == 2 ? 10 : 6) + 16 * 32 * own;
    return s->own != columns(s) ? 0 : parts < 2 * grads ? parts : 2 * grads;
}

/* All arrays of a step, from `base` on; NULL: only their bytes, which it returns. */
static size_t lay_workspace(gf_device_ctx *d, const gf_shape *s, gf_cuda_math math, char *base) {
    cursor at = {base, 0};
    const int64_t ld = gf_cuda_embed_ld(s->dim);
    d->weights_bytes = gf_cuda_has_wide(d->device, ld, math) ? weights_bytes(s, math) : 0;
    d->weights = take(&at, (int64_t)d->weights_bytes, 1);
    memset(d->side, 0, sizeof d->side);
    for (int i = 0; i < s->sides; i++) {
        gf_cuda_side *side = &d->side[i];
        gf_cuda_rows *own = &side->own, *every = &side->every;
        const int64_t every_row = s->all + s->candidates[i];
        lay_embed(&at, &side->z, every_row, s->dim, ld, math);
        lay_embed(&at, &side->support, s->topk ? s->all * s->support : 0, s->dim, ld, math);
        side->support.f32.rows = s->topk ? s->all : 0; /* of one copy */
        lay_embed(&at, &side->bank, s->bank ? s->all : 0, s->dim, ld, math);
        TAKE(&at, own->inv_tau, s->own), TAKE(&at, own->lo, s->own), TAKE(&at, own->mid, s->own), TAKE(&at, own->peak, s->own);
        TAKE(&at, own->sum, s->own), TAKE(&at, own->moment, s->own), TAKE(&at, own->flagged_s, s->own);
        TAKE(&at, own->kept, s->own), TAKE(&at, own->tie, s->own), TAKE(&at, own->above, s->own);
        TAKE(&at, own->same, s->own), TAKE(&at, own->hits, s->own);
        own->col_sum = own->sum, own->col_moment = own->moment; /* of pass C, when those of pass B have been used */
        own->marks_ld = gf_pad(columns(s)) / 32;
        TAKE(&at, own->marks, s->marks ? s->own * own->marks_ld : 0);
        TAKE(&at, own->marks_col, s->marks ? s->own * own->marks_ld : 0);
        TAKE(&at, every->inv_tau, every_row), TAKE(&at, every->theta, every_row), TAKE(&at, every->floor, every_row);
        TAKE(&at, every->log_w, every_row), TAKE(&at, every->w, every_row), TAKE(&at, every->attract, every_row);
        TAKE(&at, every->align, every_row), TAKE(&at, every->tie, every_row);
        TAKE(&at, every->group, every_row), TAKE(&at, every->label, every_row);
        TAKE(&at, side->norm, every_row), TAKE(&at, side->positive, s->all), TAKE(&at, side->pos, s->all);
        TAKE(&at, side->quantile, s->own), TAKE(&at, side->row_id, s->own);
        TAKE(&at, side->unpaired, s->keyed ? s->own : 0), TAKE(&at, side->key, s->keyed ? every_row : 0);
        TAKE(&at, side->others, s->several ? s->own : 0);
        TAKE(&at, side->copy_log_u, s->keyed ? s->own : 0), TAKE(&at, side->copy_grad_tau, s->keyed ? s->own : 0);
        TAKE(&at, side->fresh, s->rows), TAKE(&at, side->starts, s->rows), TAKE(&at, side->open, s->rows);
    }
    const int64_t guided = s->guide_dim > 0 ? s->all : 0;
    lay_embed(&at, &d->guide, guided, s->guide_dim, gf_cuda_embed_ld(s->guide_dim), gf_cuda_guide_math(math));
    TAKE(&at, d->guide_theta, guided);
    /* A few anchors are searched for in more parts, and may need more memory than all. */
    const int64_t cols = s->neighbours > 0 ? s->cols : 0, rows = s->neighbours > 0 ? s->rows : 0;
    const int64_t lists = GF_MAX(cols * gf_cuda_neighbour_parts(s->cols), rows * gf_cuda_neighbour_parts(s->rows));
    TAKE(&at, d->near.parts, GF_NEIGHBOURS_MAX * lists), TAKE(&at, d->near.list, s->neighbours * cols);
    TAKE(&at, d->near.pull, rows * s->dim), TAKE(&at, d->near.dot, rows), TAKE(&at, d->near.found, rows);
    TAKE(&at, d->links, 2 * s->cols);
    TAKE(&at, d->places, s->rows);
    TAKE(&at, d->key_table, s->keyed ? 2 * s->cols : 0), TAKE(&at, d->key_count, s->keyed ? 3 * s->cols : 0);
    TAKE(&at, d->groups, s->several ? 2 * s->cols : 0), TAKE(&at, d->next_positive, s->several ? s->cols : 0);
    TAKE(&at, d->copy, s->keyed ? s->rows : 0), TAKE(&at, d->next_copy, s->keyed ? s->rows : 0);
    for (int i = 0; i < s->sides; i++) {
        TAKE(&at, d->nearest.value[i], s->components ? s->all : 0);
        TAKE(&at, d->nearest.column[i], s->components ? s->all : 0);
    }
    d->partial = take(&at, s->sides * ((s->own + PARTIAL_ROWS - 1) / PARTIAL_ROWS), sizeof(gf_totals));
    TAKE(&at, d->row_totals, s->sides * s->own * GF_ROW_FIELDS);
    /* The region that gradient, selections and partial sums use in turns. */
    cursor grads = at, scratch = at;
    const size_t selection = scratch_bytes(s->own, GF_MAX(columns(s), s->ring));
    const size_t parts = gf_cuda_has_wide(d->device, ld, math) ? parts_bytes(s, ld) : 0;
    for (int i = 0; i < s->sides; i++) {
        TAKE(&grads, d->side[i].every.grad, s->own * ld);
        TAKE(&grads, d->side[i].extra_grad, s->candidates[i] * ld);
    }
    const size_t shared_lists = ld == 128 && math == GF_CUDA_BF16 ? gf_cuda_move_bytes(s->own, columns(s)) : 0;
    d->scratch = take(&scratch, 1, GF_MAX(selection, GF_MAX(parts, shared_lists)));
    const size_t end = grads.used > scratch.used ? grads.used : scratch.used;
    d->scratch_bytes = end - at.used;
    return end;
}

/* Two tables of 2 cols entries, the second for slots. */
static size_t table_bytes(const gf_shape *s) { return (4 * sizeof(int64_t) * (size_t)s->cols + ALIGN - 1) / ALIGN * ALIGN; }

static glofnd_status drop_block(gf_error *err, gf_device_ctx *d) {
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    if (d->captured && !d->borrowed && d->block) {
        /* Graphs that hold steps of this context keep their memory. */
        gf_retired *x = malloc(sizeof *x);
        FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory for a context");
        *x = (gf_retired){d->retired, d->block};
        d->retired = x;
    } else if (!d->borrowed) cudaFree(d->block);
    d->block = NULL, d->bytes = d->arrays_bytes = d->table_bytes = 0, d->borrowed = 0;
    memset(&d->shape, 0, sizeof d->shape);
    return GLOFND_OK;
}

/* 1: work queued on the stream becomes part of a graph, so that nothing can be waited for or allocated. */
int gf_cuda_is_capturing(const gf_device_ctx *d) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(d->stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

static glofnd_status grow(gf_error *err, gf_device_ctx *d, const gf_shape *s, size_t bytes) {
    FAIL_IF(
        err, gf_cuda_is_capturing(d), GLOFND_E_UNSUPPORTED,
        "the stream is being captured, and the workspace is too small: run a step of %lld rows against %lld of dimension %lld "
        "before, or reserve it",
        (long long)s->rows, (long long)s->cols, (long long)s->dim);
    FAIL_IF(err, d->borrowed, GLOFND_E_MEMORY,
            "%lld rows against %lld of dimension %lld need a workspace of %zu bytes; glofnd_ctx_workspace was given %zu",
            (long long)s->rows, (long long)s->cols, (long long)s->dim, bytes, d->bytes);
    TRY(drop_block(err, d)); /* before the new one is allocated: both may not fit */
    void *block = NULL;
    const cudaError_t e = cudaMalloc(&block, bytes);
    if (e != cudaSuccess) (void)cudaGetLastError();
    FAIL_IF(err, e == cudaErrorMemoryAllocation, GLOFND_E_MEMORY,
            "no device memory for a workspace of %zu bytes (%lld rows against %lld, dimension %lld): use a smaller batch, or "
            "device=cpu",
            bytes, (long long)s->rows, (long long)s->cols, (long long)s->dim);
    CUDA_TRY(err, e);
    d->block = block;
    d->bytes = bytes;
    return GLOFND_OK;
}

/* Arrays of any layout stay clear of the tables of any other, so that captured graphs of both can be replayed in turns. */
glofnd_status gf_cuda_prepare(gf_error *err, gf_device_ctx *d, const gf_shape *shape, gf_cuda_math math) {
    TRY(gf_cuda_check_current(err, d));
    if (!d->captured && gf_cuda_is_capturing(d)) d->captured = 1;
    if (memcmp(&d->shape, shape, sizeof *shape) == 0 && d->math == (int)math) return GLOFND_OK;
    gf_device_ctx plan = *d;
    const size_t arrays = lay_workspace(&plan, shape, math, NULL), table = table_bytes(shape);
    if (GF_MAX(arrays, d->arrays_bytes) + GF_MAX(table, d->table_bytes) > d->bytes) TRY(grow(err, d, shape, arrays + table));
    char *end = d->block + d->bytes / ALIGN * ALIGN;
    if (table > d->table_bytes) CUDA_TRY(err, cudaMemsetAsync(end - table, 0, table - d->table_bytes, d->stream));
    d->arrays_bytes = GF_MAX(arrays, d->arrays_bytes);
    d->table_bytes = GF_MAX(table, d->table_bytes);
    lay_workspace(d, shape, math, d->block);
    d->seen_ids = (int64_t *)(void *)(end - table);
    d->near_key = 0;
    d->shape = *shape;
    d->math = (int)math;
    return GLOFND_OK;
}

/* What needs most memory: SPLIT, unless the options ask for bf16. */
static gf_cuda_math largest_math(const gf_shape *s) { return s->bf16 ? GF_CUDA_BF16 : GF_CUDA_SPLIT; }

glofnd_status gf_cuda_reserve(gf_error *err, gf_device_ctx *d, const gf_shape *shape, size_t *bytes) {
    const size_t cleared = d->table_bytes;
    TRY(gf_cuda_prepare(err, d, shape, largest_math(shape)));
    d->near_key = 0;
    if (d->table_bytes != cleared) CUDA_TRY(err, cudaStreamSynchronize(d->stream)); /* the first step may be on another stream */
    if (bytes) *bytes = d->bytes;
    return GLOFND_OK;
}

glofnd_status gf_cuda_workspace_bytes(gf_error *err, gf_device_ctx *d, const gf_shape *shape, size_t *bytes) {
    gf_device_ctx plan = *d;
    (void)err;
    *bytes = lay_workspace(&plan, shape, largest_math(shape), NULL) + table_bytes(shape) + ALIGN; /* the caller aligns to less */
    return GLOFND_OK;
}

glofnd_status gf_cuda_workspace(gf_error *err, gf_device_ctx *d, void *memory, size_t bytes) {
    const size_t skip = (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN;
    TRY(gf_cuda_check_current(err, d));
    TRY(drop_block(err, d));
    if (!memory) return GLOFND_OK;
    d->block = (char *)memory + skip;
    d->bytes = bytes > skip ? bytes - skip : 0;
    d->borrowed = 1;
    return GLOFND_OK;
}

/* ----- failures that only the device sees, and totals ----- */

/* guided: a step of detector FIXED, whose guide is noted as support. */
static glofnd_status report_failure(gf_error *err, const gf_cuda_control *c, int guided) {
    const int64_t e = c->bad_embed, s = c->bad_support, i = c->bad_id, r = c->bad_row;
    FAIL_IF(err, c->bad_tau != GF_CUDA_FINE, GLOFND_E_OPTION,
            "the temperature in device memory (glofnd_ctx_tau) is not in [0.001, 100]");
    FAIL_IF(err, c->bad_bias != GF_CUDA_FINE, GLOFND_E_OPTION,
            "the bias in device memory (glofnd_ctx_bias) is not in [-1000, 1000]");
    FAIL_IF(err, e != GF_CUDA_FINE, GLOFND_E_NUMERIC,
            "batch.%s: row %lld holds numbers that are not finite, or is not a unit row "
            "without normalize",
            e & 1 ? "b" : "a", (long long)(e >> 1));
    for (int side = 0; side < 2; side++)
        FAIL_IF(err, c->bad_candidate[side] != GF_CUDA_FINE, GLOFND_E_NUMERIC,
                "batch.negatives_%c: row %lld holds numbers that are not finite, or is not a unit row without normalize",
                "ab"[side], (long long)(c->bad_candidate[side] >> 1));
    FAIL_IF(err, s != GF_CUDA_FINE && guided, GLOFND_E_NUMERIC, "batch.guide: row %lld holds numbers that are not finite",
            (long long)(s >> 1));
    FAIL_IF(err, s != GF_CUDA_FINE, GLOFND_E_NUMERIC, "batch.support_%s: row %lld holds numbers that are not finite",
            s & 1 ? "b" : "a", (long long)(s >> 1));
    FAIL_IF(err, i == GF_CUDA_NO_ROOM, GLOFND_E_MEMORY,
            "the store has no room for the keys of the batch, and a graph holds it: glofnd_store_reserve() before the capture");
    FAIL_IF(err, i != GF_CUDA_FINE && i >= GF_CUDA_MISFIT, GLOFND_E_ARGUMENT,
            "batch.positives[%lld] differs from that of a sample before it, but both samples have the id of batch.id[%lld]",
            (long long)(i - GF_CUDA_MISFIT), (long long)(i - GF_CUDA_MISFIT));
    FAIL_IF(err, i != GF_CUDA_FINE && i >= GF_CUDA_APART, GLOFND_E_INDEX,
            "the samples with the id of batch.id[%lld] are on different ranks; copies of a sample must lie on one rank",
            (long long)(i - GF_CUDA_APART));
    FAIL_IF(err, i != GF_CUDA_FINE && i >= GF_CUDA_LONELY, GLOFND_E_INDEX,
            "all other samples and candidates have the id of batch.id[%lld] or are its positives: it has no negative",
            (long long)(i - GF_CUDA_LONELY));
    FAIL_IF(err, i != GF_CUDA_FINE, GLOFND_E_INDEX, "batch.id[%lld], or the slot given for it, %s", (long long)(i >> 1),
            i & 1 ? "occurs twice; all must differ" : "is outside the store");
    FAIL_IF(err, r != GF_CUDA_FINE, r & 1 ? GLOFND_E_ARGUMENT : GLOFND_E_NUMERIC,
            "state: on side %d the row of batch.id[%lld] (one behind the last: the shared one) %s", (int)(r >> 1 & 1),
            (long long)(r >> 2), r & 1 ? "is one that no step leaves behind" : "holds numbers that are not finite");
    return GLOFND_OK;
}

glofnd_status gf_cuda_totals(gf_error *err, gf_device_ctx *d, gf_totals *sum) {
    FAIL_IF(err, gf_cuda_is_capturing(d), GLOFND_E_UNSUPPORTED,
            "the stream is being captured: statistics, and the failure of an earlier step, can be read afterwards only");
    CUDA_TRY(err, cudaMemcpyAsync(d->host, d->control, sizeof *d->host, cudaMemcpyDeviceToHost, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    *sum = d->host->sum;
    *d->noticed = 0;
    const glofnd_status status = report_failure(err, d->host, d->shape.guide_dim > 0);
    if (status == GLOFND_OK) return GLOFND_OK;
    reset_failure(d->host);
    CUDA_TRY(err, cudaMemcpyAsync(d->control, d->host, offsetof(gf_cuda_control, starts), cudaMemcpyHostToDevice, d->stream));
    CUDA_TRY(err, cudaStreamSynchronize(d->stream));
    return status;
}

glofnd_status gf_cuda_loss(gf_error *err, gf_device_ctx *d, const gf_plan *plan, int graded, float *loss, float *grad_tau,
                           float *grad_bias) {
    gf_totals sum;
    TRY(gf_cuda_check_current(err, d));
    if (loss || grad_tau || grad_bias) CUDA_TRY(err, gf_cuda_put_loss(d, plan, graded, loss, grad_tau, grad_bias));
    return *(volatile int32_t *)d->noticed ? gf_cuda_totals(err, d, &sum) : GLOFND_OK;
}
