/* cuda_checks.h - passes of a problem on the GPU compared with the CPU's. */
#pragma once

#include "support/cuda_problem.h"

static gf_cuda_tau known_tau; /* of the passes that are checked */

/* Sums are relative to the peak that each side chose. */
static inline void compare_stats(problem *p, unsigned flags, const gf_cuda_rows *got) {
    const double tol = tolerance(p);
    const cpu_rows *x = &p->row;
    for (int64_t r = 0; r < p->s.rows; r++) {
        const double scale = exp((double)got->peak[r] - (double)x->peak[r]);
        near_by(p, flags, "sum", r, got->sum[r] * (flags & GF_SHIFT ? scale : 1.0), x->sum[r], tol);
        if (flags & GF_MOMENT)
            near_by(p, flags, "moment", r, got->moment[r] * (flags & GF_SHIFT ? scale : 1.0), x->moment[r], 20 * tol);
        if (flags & GF_ATTRACT) near_by(p, flags, "flagged_s", r, got->flagged_s[r], x->flagged_s[r], 1e-4);
        if (flags & GF_COUNT) same_count(p, flags, "kept", r, got->kept[r], x->kept[r]);
    }
}

/* ---- passes ---- */

static inline void clear_cpu(problem *p, unsigned flags) {
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].role != IN && fields[i].cpu != NOWHERE)
            memset(get_at(&p->row, fields[i].cpu), 0, (size_t)p->s.rows * fields[i].size);
    for (int64_t r = 0; r < p->s.rows; r++) p->row.peak[r] = flags & GF_SHIFT ? -INFINITY : 0.0f;
    memset(p->row.grad, 0, sizeof(float) * (size_t)(p->s.rows * p->z[0].cpu.ld));
}

/* Runs it twice, over different poison. The bits must be the same. */
static inline gf_cuda_rows twice(problem *p, const gf_cuda_pass *x,
                                 cudaError_t (*pass)(const gf_cuda_pass *, int, cudaStream_t)) {
    CUDA(pass(x, 1, NULL));
    gf_cuda_rows first = fetch(p);
    CUDA(pass(x, 1, NULL));
    gf_cuda_rows again = fetch(p);
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].gpu != NOWHERE)
            assert_memory_equal(get_at(&first, fields[i].gpu), get_at(&again, fields[i].gpu), (size_t)p->s.rows * fields[i].size);
    assert_memory_equal(first.grad, again.grad, sizeof(float) * (size_t)(p->s.rows * p->z[0].ld));
    free_results(&first);
    return again;
}

static inline void check_stats(problem *p, unsigned flags) {
    const gf_sum_pass c = cpu_sums(p, flags);
    gf_cuda_pass x = gpu_pass(p, flags);
    x.tau = known_tau;
    clear_cpu(p, flags);
    gf_cpu_sum(&c);
    gf_cuda_rows got = twice(p, &x, gf_cuda_stats);
    compare_stats(p, flags, &got);
    free_results(&got);
}

static inline void check_count(problem *p) {
    const unsigned flags = GF_COUNT | GF_GROUP; /* then the CPU counts, too */
    const gf_sum_pass c = cpu_sums(p, flags);
    const gf_cuda_pass x = gpu_pass(p, flags);
    clear_cpu(p, flags);
    gf_cpu_sum(&c);
    gf_cuda_rows got = twice(p, &x, gf_cuda_count);
    for (int64_t r = 0; r < p->s.rows; r++) same_count(p, flags, "above", r, got.above[r], p->row.above[r]);
    free_results(&got);
}

static inline double grad_error(const problem *p, const gf_cuda_rows *got) {
    double error = 0.0, size = 0.0;
    for (int64_t r = 0; r < p->s.rows; r++)
        for (int64_t d = 0; d < p->s.dim; d++) {
            const double want = (double)p->row.grad[r * p->z[0].cpu.ld + d], have = (double)got->grad[r * p->z[0].ld + d];
            error += (have - want) * (have - want), size += want * want;
        }
    return sqrt(error / size);
}

static inline void compare_grad(problem *p, unsigned flags, const gf_cuda_rows *got) {
    const double most = p->math == GF_CUDA_BF16 ? 4e-3 : p->math == GF_CUDA_EXACT ? tolerance(p) : 2 * tolerance(p);
    const double error = grad_error(p, got);
    if (!(error <= most))
        fail_msg("gradient is off by %g, flags 0x%x, math %d, %lld x %lld x %lld", error, flags, (int)p->math,
                 (long long)p->s.rows, (long long)p->s.cols, (long long)p->s.dim);
    for (int64_t r = 0; r < p->s.rows; r++) {
        const double tol = 4 * tolerance(p) + (flags & GF_ATTRACT ? 1e-3 : 0); /* what attracts cancels */
        if (flags & GF_COLSUM) near_by(p, flags, "column sum", r, got->col_sum[r], p->row.col_sum[r], tol);
        if (flags & GF_QUALITY) same_count(p, flags, "same", r, got->same[r], p->row.same[r]);
        if (flags & GF_QUALITY) same_count(p, flags, "hits", r, got->hits[r], p->row.hits[r]);
    }
}

/* Without GF_MASK thresholds are infinite, which is what a step passes then. */
static inline void set_thetas(problem *p, unsigned flags) {
    const size_t bytes = sizeof(float) * (size_t)p->s.cols;
    for (int i = 0; i < 2; i++) {
        cpu_rows *x = &p->cpu[i];
        for (int64_t r = 0; r < p->s.cols; r++) x->theta[r] = !(flags & GF_MASK) || r % 7 == 3 ? INFINITY : x->mid[r];
        CUDA(cudaMemcpy(p->gpu[i].theta, x->theta, bytes, cudaMemcpyHostToDevice));
    }
}

static inline void check_grad(problem *p, unsigned flags, int col_role) {
    gf_gradient_pass c = cpu_grads(p, flags); /* columns do not count */
    gf_cuda_pass x = gpu_pass(p, flags);
    x.tau = known_tau;
    clear_cpu(p, flags);
    set_thetas(p, flags);
    c.pairs.col_role = x.col_role = col_role;
    if (flags & GF_TIE && col_role) { /* the CPU adds to both ends of a pair instead */
        c.pairs.symmetric = 1, c.pairs.col_role = 0, c.col_out.grad = p->row.grad, c.col = c.row;
    }
    gf_cpu_gradient(&c);
    gf_cuda_rows got = twice(p, &x, gf_cuda_grad);
    compare_grad(p, flags, &got);
    free_results(&got);
}

/* The other side of image and text: its rows are the columns here. Shares all memory. */
static inline problem transposed(const problem *p) {
    problem t = *p;
    for (int i = 0; i < 2; i++)
        t.z[i] = p->z[1 - i], t.support[i] = p->support[1 - i], t.cpu[i] = p->cpu[1 - i], t.gpu[i] = p->gpu[1 - i];
    t.own = rows_of(&t.z[0], &t.s), t.own_support = rows_of(&t.support[0], &t.s);
    t.row = rows_from(t.cpu[0], 0, t.z[0].cpu.ld), t.gpu_row = gpu_rows_from(t.gpu[0], 0, t.z[0].ld);
    return t;
}

/* On the CPU and on the GPU: the same side by itself gets the same. */
static inline void check_side(problem *p, unsigned flags, cudaError_t (*pass)(const gf_cuda_pass *, int, cudaStream_t)) {
    const unsigned counted = pass == gf_cuda_count ? GF_COUNT | GF_GROUP : flags;
    const gf_sum_pass sums = cpu_sums(p, counted);
    gf_gradient_pass grads = cpu_grads(p, counted);
    gf_cuda_rows got = fetch(p);
    clear_cpu(p, counted);
    grads.pairs.col_role = 1;
    if (pass == gf_cuda_grad) gf_cpu_gradient(&grads), compare_grad(p, flags, &got);
    else gf_cpu_sum(&sums);
    if (pass == gf_cuda_stats) compare_stats(p, flags, &got);
    for (int64_t r = 0; pass == gf_cuda_count && r < p->s.rows; r++)
        same_count(p, flags, "above", r, got.above[r], p->row.above[r]);
    free_results(&got);
}

static inline void check_sides(problem *p, unsigned flags, cudaError_t (*pass)(const gf_cuda_pass *, int, cudaStream_t)) {
    problem t = transposed(p);
    gf_cuda_pass x[2] = {gpu_pass(p, flags), gpu_pass(&t, flags)};
    set_thetas(p, flags);
    x[0].tau = x[1].tau = known_tau;
    x[0].col_role = x[1].col_role = pass == gf_cuda_grad;
    CUDA(pass(x, 2, NULL));
    check_side(p, flags, pass);
    check_side(&t, flags, pass);
}

static inline void give_buffer(problem *p, size_t bytes) { p->buffer = device_copy(NULL, bytes), p->buffer_bytes = bytes; }

static inline void take_buffer(problem *p) {
    cudaFree(p->buffer);
    p->buffer = NULL, p->buffer_bytes = 0;
}
