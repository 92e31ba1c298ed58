/* cuda_select.c - order statistics on the GPU against the CPU's, and the same bits of S from every kernel. */
#include "support/test.h"

#include "support/cuda_main.h"
#include "support/cuda_problem.h"

/* ---- order statistics ---- */

static void check_select(problem *p, gf_select s, const int64_t *row_id, const int64_t *col_id, const int64_t *live) {
    const int64_t n = p->s.rows;
    float *want = malloc(sizeof *want * (size_t)n), *got = malloc(sizeof *got * (size_t)n);
    int32_t *tie = calloc((size_t)n, sizeof *tie), *got_tie = calloc((size_t)n, sizeof *got_tie);
    const int ties = s.tie != NULL;
    gf_embed k = p->z[1].cpu;
    if (live) k.rows = *live;
    s.q = &p->own.cpu, s.k = &k, s.value = want, s.tie = ties ? tie : NULL, s.scratch = p->scratch, s.threads = 1, s.q0 = p->s.q0;
    s.row_id = row_id, s.col_id = col_id;
    gf_cpu_select(&s);
    gf_cuda_select x = {.q = &p->own.gpu,
                        .k = &p->z[1].gpu,
                        .q0 = p->s.q0,
                        .shift = s.shift,
                        .best = s.best,
                        .fraction = s.fraction,
                        .alpha = s.alpha,
                        .round_up = s.round_up,
                        .math = p->math};
    x.value = device_copy(NULL, sizeof *got * (size_t)n), x.scratch = p->gpu_scratch;
    x.tie = ties ? device_copy(NULL, sizeof *tie * (size_t)n) : NULL;
    if (row_id) {
        x.row_id = device_copy(row_id, sizeof *row_id * (size_t)n);
        x.col_id = device_copy(col_id, sizeof *col_id * (size_t)p->s.cols);
    }
    if (live) x.live = device_copy(live, sizeof *live);
    CUDA(gf_cuda_select_rows(&x, NULL));
    CUDA(cudaMemcpy(got, x.value, sizeof *got * (size_t)n, cudaMemcpyDeviceToHost));
    if (ties) CUDA(cudaMemcpy(got_tie, x.tie, sizeof *tie * (size_t)n, cudaMemcpyDeviceToHost));
    for (int64_t r = 0; r < n; r++) {
        if (!(fabs((double)got[r] - (double)want[r]) <= (p->math == GF_CUDA_SPLIT ? 3e-5 : 1e-6)))
            near_by(p, 0, "selected value", r, (double)got[r], (double)want[r], 0.0);
        if (ties && p->math != GF_CUDA_SPLIT) /* there neighbours may change places */
            same_count(p, 0, "tie", r, got_tie[r], tie[r]);
    }
    cudaFree(x.value), cudaFree(x.tie);
    if (row_id) cudaFree((void *)(uintptr_t)x.row_id), cudaFree((void *)(uintptr_t)x.col_id);
    cudaFree((void *)(uintptr_t)x.live);
    free(want), free(got), free(tie), free(got_tie);
}

static void check_selects(problem *p) {
    int32_t wanted;
    int64_t *row_id = malloc(sizeof *row_id * (size_t)p->s.rows), *col_id = malloc(sizeof *col_id * (size_t)p->s.cols);
    for (int64_t r = 0; r < p->s.rows; r++) row_id[r] = r % 50;
    for (int64_t c = 0; c < p->s.cols; c++) col_id[c] = c % 70;
    const int64_t live = p->s.cols / 2 + 3;
    check_select(p, (gf_select){.shift = p->s.shift, .best = 5, .fraction = 0.37}, NULL, NULL, NULL);
    check_select(p, (gf_select){.shift = p->s.shift, .best = 1, .tie = &wanted}, NULL, NULL, NULL);
    check_select(p, (gf_select){.shift = p->s.shift, .best = 9, .tie = &wanted}, NULL, NULL, NULL);
    check_select(p, (gf_select){.shift = -1, .best = p->s.cols, .alpha = 0.07}, row_id, col_id, NULL);
    check_select(p, (gf_select){.shift = -1, .best = p->s.cols, .alpha = 0.07, .round_up = 1}, row_id, col_id, &live);
    free(row_id), free(col_id);
}

/* ---- the same bits everywhere ---- */

static float *written_similarities(problem *p) { /* the product that select works on, left in its scratch */
    const size_t bytes = sizeof(float) * (size_t)(p->s.rows * p->s.cols);
    float *s = malloc(bytes);
    gf_cuda_select x = {.shift = p->s.shift,
                        .best = 1,
                        .q0 = p->s.q0,
                        .scratch = p->gpu_scratch,
                        .q = &p->own.gpu,
                        .k = &p->z[1].gpu,
                        .math = p->math};
    x.value = device_copy(NULL, sizeof(float) * (size_t)p->s.rows);
    x.tie = device_copy(NULL, sizeof *x.tie * (size_t)p->s.rows); /* else nothing is written */
    CUDA(gf_cuda_select_rows(&x, NULL));
    CUDA(cudaMemcpy(s, p->gpu_scratch, bytes, cudaMemcpyDeviceToHost));
    cudaFree(x.value), cudaFree(x.tie);
    return s;
}

/* Thresholds are similarities themselves: lo = theta = S_rc for some c, so a difference of one bit changes a count. */
static void check_bits(problem *p) {
    const int64_t n = p->s.cols;
    float *s = written_similarities(p);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < n; c++)
            if (s[r * n + c] != s[c * n + r] && r / 2 != c / 2) fail_msg("S is not symmetric, math %d", (int)p->math);
    for (int64_t r = 0; r < n; r++) {
        p->row.theta[r] = s[r * n + (r + n / 2) % n], p->row.floor[r] = -INFINITY, p->row.label[r] = 1;
        p->row.log_w[r] = 0.0f, p->row.inv_tau[r] = 0.0f;
    }
    for (int i = 0; i < 2; i++)
        for (int f = 0; f < FIELDS; f++)
            if (fields[f].role == IN && fields[f].gpu != NOWHERE)
                CUDA(cudaMemcpy(get_at(&p->gpu[i], fields[f].gpu), get_at(&p->cpu[0], fields[f].cpu), (size_t)n * fields[f].size,
                                cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(p->gpu_row.lo, p->row.theta, (size_t)n * 4, cudaMemcpyHostToDevice));
    const unsigned flags = GF_MASK | GF_COUNT;
    gf_cuda_pass stats = gpu_pass(p, flags), grad = gpu_pass(p, flags | GF_QUALITY | GF_COLSUM);
    grad.col_role = 1;
    CUDA(gf_cuda_stats(&stats, 1, NULL));
    gf_cuda_rows got = fetch(p);
    CUDA(gf_cuda_grad(&grad, 1, NULL));
    gf_cuda_rows weighed = fetch(p);
    for (int64_t r = 0; r < n; r++) {
        int64_t kept = 0, flagged = 0, by_columns = 0;
        for (int64_t c = 0; c < n; c++) {
            if (r / 2 == c / 2) continue;
            kept += s[r * n + c] <= p->row.theta[r], flagged += s[r * n + c] > p->row.theta[r];
            by_columns += s[c * n + r] <= p->row.theta[c];
        }
        same_count(p, flags, "kept (bits)", r, got.kept[r], kept);
        same_count(p, flags, "flagged (bits)", r, weighed.hits[r], flagged);
        same_count(p, flags, "kept by the columns (bits)", r, (int64_t)llround(weighed.col_sum[r]), by_columns);
    }
    free_results(&got), free_results(&weighed), free(s);
}

/* ---- many rows: their kernels against those for few rows, which the cases above check ---- */

#define MANY 4300 /* more than 32 per multiprocessor of the largest GPU today */

static void fill(float *device, int64_t n, float value) {
    float *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++) x[i] = value;
    CUDA(cudaMemcpy(device, x, sizeof *x * (size_t)n, cudaMemcpyHostToDevice));
    free(x);
}

static double difference(const float *a, const float *b, int64_t n) {
    double most = 0.0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, isnan(a[i]) || isnan(b[i]) ? INFINITY : fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Thresholds are the 50th largest similarity of each row, in the bits select saw. Every weight is 0, 1 or 2, so one flag that two
 * kernels see differently moves the gradient by a whole embedding. */
static void check_many(unsigned mask) {
    rng g = {77};
    const float near[128] = {0};
    vectors z = make_vectors(&g, MANY, 128, 1, near, 1.0);
    cpu_rows host = host_rows(MANY, z.ld);
    gf_cuda_rows x = device_rows(&host, MANY, z.ld), got = result_rows(MANY, z.ld), want = result_rows(MANY, z.ld);
    void *scratch = device_copy(NULL, gf_cuda_select_scratch(MANY, MANY));
    fill(x.w, MANY, 1.0f), fill(x.floor, MANY, -INFINITY), fill(x.inv_tau, MANY, 1e-12f);
    const gf_cuda_select select = {
        .shift = 1, .best = 50, .value = x.theta, .scratch = scratch, .q = &z.gpu, .k = &z.gpu, .math = GF_CUDA_BF16};
    CUDA(gf_cuda_select_rows(&select, NULL));
    gf_cuda_pass p = {
        .shift = 1, .row = &x, .col = &x, .col_role = 1, .flags = mask, .q = &z.gpu, .k = &z.gpu, .math = GF_CUDA_BF16};
    CUDA(cudaMemcpy(x.lo, x.theta, sizeof(float) * MANY, cudaMemcpyDeviceToDevice));
    CUDA(cudaMemcpy(x.mid, x.theta, sizeof(float) * MANY, cudaMemcpyDeviceToDevice));
    if (!(mask & GF_MASK)) fill(x.theta, MANY, INFINITY);
    CUDA(gf_cuda_count(&p, 1, NULL)), CUDA(gf_cuda_stats(&p, 1, NULL)), CUDA(gf_cuda_grad(&p, 1, NULL)),
        CUDA(cudaDeviceSynchronize());
    download(&got, &x, MANY, z.ld);
    p.flags |= GF_SHIFT; /* the general kernels */
    CUDA(gf_cuda_stats(&p, 1, NULL)), CUDA(gf_cuda_grad(&p, 1, NULL)), CUDA(cudaDeviceSynchronize());
    download(&want, &x, MANY, z.ld);
    for (int64_t r = 0; r < MANY; r++) {
        assert_int_equal(got.above[r], 49);
        if (mask & GF_MASK) assert_int_equal(got.kept[r], MANY - 2 - 49);
        if (mask & GF_MASK) assert_int_equal(want.kept[r], MANY - 2 - 49);
        assert_true(fabs(got.sum[r] - (mask & GF_MASK ? MANY - 2 - 49 : MANY - 2)) < 0.01);
        if (mask & GF_MOMENT) assert_true(fabs(got.moment[r] - want.moment[r]) < 1e-3);
    }
    assert_true(difference(got.grad, want.grad, MANY * z.ld) < 1e-3);
    free_rows(&host), free_results(&got), free_results(&want), free_device_rows(&x), cudaFree(scratch), free_vectors(&z);
}

TEST(many_rows) {
    check_many(0), check_many(GF_MOMENT);
    check_many(GF_MASK | GF_COUNT), check_many(GF_MASK | GF_COUNT | GF_MOMENT);
}

/* ---- wanted samples alone: the bits of the selection that writes all similarities, which the cases above check ---- */

#define UNTOUCHED (-7.0f)

typedef enum share { NO_SAMPLE, SOME_SAMPLES, ALL_SAMPLES } share;

static int is_wanted(share w, int64_t sample) { return w == ALL_SAMPLES || (w == SOME_SAMPLES && sample % 97 == 5); }

static float *selected(gf_cuda_select x, int64_t n, const uint8_t *wanted, int ties) {
    float *value = malloc(sizeof *value * (size_t)n);
    for (int64_t r = 0; r < n; r++) value[r] = UNTOUCHED;
    x.value = device_copy(value, sizeof *value * (size_t)n), x.wanted = wanted;
    if (ties) x.tie = device_copy(NULL, sizeof *x.tie * (size_t)n); /* then similarities are written */
    CUDA(gf_cuda_select_rows(&x, NULL));
    CUDA(cudaMemcpy(value, x.value, sizeof *value * (size_t)n, cudaMemcpyDeviceToHost));
    cudaFree(x.value), cudaFree(x.tie);
    return value;
}

static void check_wanted(const gf_cuda_select *x, share w) {
    const int64_t n = x->q->f32.rows;
    uint8_t *host = malloc((size_t)n);
    int64_t rows = 0;
    for (int64_t i = 0; i < n; i++) host[i] = (uint8_t)is_wanted(w, i);
    uint8_t *wanted = device_copy(host, (size_t)n);
    float *want = selected(*x, n, NULL, 1), *got = selected(*x, n, wanted, 0);
    for (int64_t r = 0; r < n; r++) {
        if (w == NO_SAMPLE && got[r] != UNTOUCHED) fail_msg("row %lld: not wanted, but written", (long long)r);
        if (!host[r >> x->shift]) continue;
        rows++;
        if (memcmp(&got[r], &want[r], sizeof *got) != 0)
            fail_msg("math %d, dim %lld, best %lld, row %lld: %a instead of %a", (int)x->math, (long long)x->k->f32.dim,
                     (long long)x->best, (long long)r, (double)got[r], (double)want[r]);
    }
    assert_true(w == NO_SAMPLE ? rows == 0 : w == ALL_SAMPLES ? rows == n : rows > 0 || n < 6);
    free(host), free(want), free(got), cudaFree(wanted);
}

static void check_wanted_ranks(gf_cuda_select x, int64_t cols) {
    const int64_t best[] = {1, 2, 5, cols / 100 + 1, cols / 2, 2 * cols};
    const double fraction[] = {0.0, 0.5, 0.37, 0.99, 0.25, 0.5};
    for (size_t i = 0; i < sizeof best / sizeof *best; i++) {
        x.best = best[i], x.fraction = fraction[i];
        check_wanted(&x, ALL_SAMPLES);
    }
    x.best = 5;
    check_wanted(&x, SOME_SAMPLES), check_wanted(&x, NO_SAMPLE);
}

static void check_wanted_shapes(size_t count) {
    static const gf_cuda_math MATHS[] = {GF_CUDA_EXACT, GF_CUDA_BF16, GF_CUDA_SPLIT};
    for (int m = 0; m < 3; m++)
        for (size_t i = 0; i < count; i++) {
            problem *p = make(&shapes[i], MATHS[m], 31 + (unsigned)i);
            check_wanted_ranks((gf_cuda_select){.shift = p->s.shift,
                                                .q0 = p->s.q0,
                                                .scratch = p->gpu_scratch,
                                                .q = &p->own.gpu,
                                                .k = &p->z[1].gpu,
                                                .math = p->math},
                               p->s.cols);
            drop(p);
        }
}

TEST(wanted_samples) { check_wanted_shapes(sizeof shapes / sizeof *shapes); }

TEST(few_wanted_samples) { /* for sanitizers */
    check_wanted_shapes(2);
}

/* Every second vector is the one before, so that similarities occur twice. */
static void repeat_vectors(gf_cuda_embed *z) {
    const size_t ld = (size_t)z->f32.ld;
    for (int64_t r = 1; r < z->f32.rows; r += 2) {
        const size_t to = (size_t)r * ld, from = to - ld;
        CUDA(cudaMemcpy(z->f32.row + to, z->f32.row + from, 4 * ld, cudaMemcpyDeviceToDevice));
        CUDA(cudaMemcpy((uint16_t *)z->hi + to, (uint16_t *)z->hi + from, 2 * ld, cudaMemcpyDeviceToDevice));
        CUDA(cudaMemcpy((uint16_t *)z->lo + to, (uint16_t *)z->lo + from, 2 * ld, cudaMemcpyDeviceToDevice));
    }
}

/* Many rows and few, of every width that has a kernel of its own. */
TEST(wanted_samples_of_any_width) {
    static const int64_t DIMS[] = {64, 128, 256, 512, 768, 1000};
    static const float NEAR[1024] = {0};
    for (size_t i = 0; i < sizeof DIMS / sizeof *DIMS; i++) {
        rng g = {5};
        vectors z = make_vectors(&g, MANY, DIMS[i], 0, NEAR, 1.0);
        void *scratch = device_copy(NULL, gf_cuda_select_scratch(MANY, MANY));
        repeat_vectors(&z.gpu);
        for (int m = GF_CUDA_EXACT; m <= GF_CUDA_SPLIT; m++)
            for (int few = 0; few < 2; few++) {
                gf_cuda_embed own = z.gpu;
                if (few) own.f32.rows = 999;
                check_wanted_ranks((gf_cuda_select){.shift = few ? 0 : 1, .scratch = scratch, .q = &own, .k = &z.gpu, .math = m},
                                   MANY);
            }
        free_vectors(&z), cudaFree(scratch);
    }
}

/* Similarities that hardly differ: more than a list of the search holds. */
TEST(wanted_samples_in_a_crowd) {
    float near[128];
    rng g = {6};
    for (int d = 0; d < 128; d++) near[d] = 1.0f;
    vectors z = make_vectors(&g, 1000, 128, 0, near, 0.05);
    void *scratch = device_copy(NULL, gf_cuda_select_scratch(1000, 1000));
    for (int m = GF_CUDA_EXACT; m <= GF_CUDA_SPLIT; m++)
        check_wanted_ranks((gf_cuda_select){.shift = 1, .scratch = scratch, .q = &z.gpu, .k = &z.gpu, .math = m}, 1000);
    free_vectors(&z), cudaFree(scratch);
}

TEST(selections_and_bits) {
    const gf_cuda_math maths[] = {GF_CUDA_EXACT, GF_CUDA_BF16, GF_CUDA_SPLIT};
    for (int m = 0; m < 3; m++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            problem *p = make(&shapes[i], maths[m], 11 + (unsigned)i);
            check_selects(p);
            if (p->s.shift == 1 && p->s.rows == p->s.cols) check_bits(p);
            drop(p);
        }
}

TEST_NEEDS(no_cuda_device)
