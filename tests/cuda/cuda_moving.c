/* cuda_moving.c - count, the move of lambda and stats in one kernel against the three one after the other: the same counts, so
 * the same lambdas; the same pairs in the sums. Hopper only: elsewhere the step has the three. */
#include "support/test.h"

#include "support/cuda_checks.h"
#include "support/cuda_main.h"
#include "support/few_processors.h"

#define ALPHA 0.02 /* 8 to 16 of some hundred columns */

/* Where lambda of an anchor lies, and what its moments foretell. */
typedef enum state_kind {
    SETTLED, /* at its quantile, gradients as usual */
    LOW,     /* far below: most pairs are above, lists overflow */
    SUDDEN,  /* above all pairs, though gradients were 0 so far: it falls below what was foreseen */
    KINDS
} state_kind;

typedef struct anchors {
    glofnd_anchor *host, *fresh;
    uint8_t *open;
    int64_t count;
} anchors;

/* Between the largest similarities of a row; a float above 1 is 1, which flags nothing. */
static float quantile_of(const problem *p, int64_t r, int64_t best) {
    double *s = malloc(sizeof *s * (size_t)p->s.cols);
    for (int64_t c = 0; c < p->s.cols; c++) s[c] = similarity(&p->own, r, &p->z[1], c);
    qsort(s, (size_t)p->s.cols, sizeof *s, by_value);
    const float value = in_gap(s, p->s.cols, p->s.cols - best, 2e-6);
    free(s);
    return value < 1.0f ? value : 1.0f;
}

static glofnd_anchor state_of(const problem *p, int64_t r, state_kind kind, rng *g) {
    glofnd_anchor row = {.clock = 40, .log_u = -INFINITY};
    row.m = (float)(0.001 * rng_normal(g)), row.v = 1e-5f;
    row.lambda = quantile_of(p, r, kind == LOW ? p->s.cols * 2 / 3 : kind == SUDDEN ? 3 : 12);
    if (kind == SUDDEN) row.lambda += 0.02f, row.m = 0.0f, row.v = 1e-14f;
    return row;
}

/* mid: the thresholds of the old lambdas. Every seventh anchor is not open. */
static anchors make_anchors(problem *p, state_kind kind, unsigned seed) {
    const int64_t per = p->s.shift + 1, count = p->s.rows / per;
    anchors a = {.host = calloc((size_t)count, sizeof *a.host), .count = count};
    uint8_t *open = calloc((size_t)count, 1);
    rng g = {seed};
    for (int64_t i = 0; i < count; i++) {
        a.host[i] = state_of(p, i * per, i % 3 ? SETTLED : kind, &g);
        open[i] = i % 7 != 5;
        for (int64_t v = 0; v < per; v++) p->row.mid[i * per + v] = gf_lambda_threshold(a.host[i].lambda);
    }
    CUDA(cudaMemcpy(p->gpu_row.mid, p->row.mid, sizeof(float) * (size_t)p->s.rows, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(p->gpu_row.lo, p->row.mid, sizeof(float) * (size_t)p->s.rows, cudaMemcpyHostToDevice));
    a.fresh = device_copy(a.host, sizeof *a.host * (size_t)count);
    a.open = device_copy(open, (size_t)count);
    free(open);
    return a;
}

static void drop_anchors(anchors *a) { free(a->host), cudaFree(a->fresh), cudaFree(a->open); }

static gf_cuda_moving moving_of(const problem *p, const anchors *a) {
    gf_learner l = {.alpha = ALPHA, .lr = 0.05, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8};
    return (gf_cuda_moving){.learner = l,
                            .foresight = gf_foresight_of(&l),
                            .fresh = {a->fresh},
                            .open = {a->open},
                            .per_sample = p->s.shift + 1,
                            .negatives = {p->s.cols - p->s.shift - 1, p->s.cols - p->s.shift - 1}};
}

/* Moves the anchors on the CPU by the counts of gf_cuda_count; powers differ from the GPU's by roundings. */
static void compare_states(const anchors *a, const gf_cuda_moving *m, const int32_t *above) {
    glofnd_anchor *got = malloc(sizeof *got * (size_t)a->count);
    CUDA(cudaMemcpy(got, a->fresh, sizeof *got * (size_t)a->count, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < a->count; i++) {
        glofnd_anchor want = a->host[i];
        int64_t n = 0;
        for (int v = 0; v < m->per_sample; v++) n += above[i * m->per_sample + v];
        if (i % 7 != 5) gf_lambda_update(&m->learner, NULL, &want, (double)n, (double)(m->per_sample * m->negatives[0]));
        if (fabsf(got[i].lambda - want.lambda) > 1e-6f || fabsf(got[i].m - want.m) > 1e-9f || got[i].clock != want.clock)
            fail_msg("anchor %lld: lambda %.9g, want %.9g", (long long)i, (double)got[i].lambda, (double)want.lambda);
    }
    free(got);
}

/* The thresholds that the kernel left are in lo: stats by themselves must find the same. */
static void check_moving(problem *p, state_kind kind, int count, unsigned seed) {
    const unsigned flags = GF_MASK | GF_COUNT;
    anchors a = make_anchors(p, kind, seed);
    const gf_cuda_moving m = moving_of(p, &a);
    processors = count;
    give_buffer(p, gf_cuda_move_bytes(p->s.rows, p->s.cols));
    const gf_cuda_pass x = gpu_pass(p, flags);
    CUDA(gf_cuda_count(&x, 1, NULL));
    gf_cuda_rows counted = fetch(p);
    assert_true(gf_cuda_can_move(&x, 1, &m));
    CUDA(gf_cuda_move(&x, 1, &m, NULL));
    gf_cuda_rows moved = fetch(p);
    compare_states(&a, &m, counted.above);
    CUDA(cudaMemcpy(a.fresh, a.host, sizeof *a.host * (size_t)a.count, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(p->gpu_row.sum, 0xff, sizeof(double) * (size_t)p->s.rows));
    CUDA(gf_cuda_move(&x, 1, &m, NULL));
    gf_cuda_rows again = fetch(p);
    assert_memory_equal(moved.sum, again.sum, sizeof(double) * (size_t)p->s.rows);
    CUDA(gf_cuda_stats(&x, 1, NULL));
    gf_cuda_rows want = fetch(p);
    for (int64_t r = 0; r < p->s.rows; r++) {
        near_by(p, flags, "sum", r, moved.sum[r], want.sum[r], 3e-6);
        same_count(p, flags, "kept", r, moved.kept[r], want.kept[r]);
    }
    free_results(&counted), free_results(&moved), free_results(&again), free_results(&want);
    take_buffer(p);
    drop_anchors(&a);
}

/* Blocks of 64 rows with one and with two thread blocks; two views and two sides; some rows of a batch; rows that do not fill the
 * last block, columns that do not fill the last tile. */
static void check_shapes(state_kind kind) {
    static const shape SHAPES[] = {{700, 0, 700, 128, 1, 10.0f}, {830, 300, 260, 100, 1, 10.0f}, {385, 0, 385, 128, 0, 14.0f}};
    for (unsigned i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 91 + i);
        check_moving(p, kind, (int)((SHAPES[i].rows + 63) / 64), 7 + i);
        check_moving(p, kind, (int)((SHAPES[i].rows + 31) / 32), 17 + i);
        drop(p);
    }
}

TEST_WITH(settled, NULL, all_processors) { check_shapes(SETTLED); }

TEST_WITH(lists_overflow, NULL, all_processors) { check_shapes(LOW); }

TEST_WITH(lambda_falls_below_what_was_foreseen, NULL, all_processors) { check_shapes(SUDDEN); }

static const char *no_kernels(void) {
    const char *reason = no_cuda_device();
    return reason || gf_cuda_move_bytes(4096, 4096) > 0 ? reason : "no GPU with kernels for this";
}

TEST_NEEDS(no_kernels)
