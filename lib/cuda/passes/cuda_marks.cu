/* cuda_marks.cu - bits of the flagged pairs, where more than a threshold decides; similarities are written for some rows at a
 * time, as for a selection. */
#include "cuda/passes/cuda_kernels.cuh"

#define THREADS 256

struct mark_args {
    gf_marking m;
    const float *s; /* [rows][columns] of the rows from r0, NaN where there is no pair */
    int r0, q0, cols;
    uint32_t *marks, *marks_col, *pulls;
    int32_t *pulled; /* [all rows of the pass] */
    int64_t ld;
};

static __device__ __forceinline__ gf_mark_end row_end(const mark_args &a, int r) {
    const gf_mark_end x = {gf_mark_place(&a.m.rule, a.m.rule.row_side, a.m.id, a.q0 + r), a.m.row_label[r], a.m.row_group[r]};
    return x;
}

static __device__ __forceinline__ gf_mark_end col_end(const mark_args &a, int c) {
    const gf_mark_end x = {gf_mark_place(&a.m.rule, a.m.rule.col_side, a.m.id, c), a.m.col_label[c], a.m.col_group[c]};
    return x;
}

/* One thread per pair; a warp makes a word. */
static __global__ void __launch_bounds__(THREADS) mark(const mark_args a) {
    const int r = a.r0 + blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    bool by_row = false, by_col = false, pulls = false;
    const float v = c < a.cols ? a.s[static_cast<int64_t>(blockIdx.y) * a.cols + c] : CUDART_NAN_F;
    if (v == v) {
        const gf_mark_end row = row_end(a, r), col = col_end(a, c);
        by_row = gf_mark_pair(&a.m.rule, v, a.m.row_theta[r], &row, &col);
        if (a.m.row_pull) pulls = gf_mark_pulls(&a.m.rule, v, gf_mark_bits_float(a.m.row_pull[r]), &row, &col);
        if (a.m.col_theta) by_col = gf_mark_pair(&a.m.rule, v, a.m.col_theta[c], &col, &row);
    }
    const unsigned pull_word = __ballot_sync(0xffffffffu, pulls);
    const unsigned row_word = __ballot_sync(0xffffffffu, by_row) | pull_word;
    const unsigned col_word = __ballot_sync(0xffffffffu, by_col) | pull_word;
    if (threadIdx.x % 32 || c >= a.cols) return;
    if (a.m.row_pull) {
        a.pulls[r * a.ld + c / 32] = pull_word;
        if (pull_word) atomicAdd(&a.pulled[r], __popc(pull_word)); /* integers: the order does not matter */
    }
    a.marks[r * a.ld + c / 32] = row_word;
    if (a.m.col_theta) a.marks_col[r * a.ld + c / 32] = col_word;
}

cudaError_t gf_cuda_mark(const gf_cuda_pass *p, const gf_marking *m, cudaStream_t stream) {
    gf_product_args product = {};
    product.q = gf_operand_of(p->q), product.k = gf_operand_of(p->k);
    product.ld = static_cast<int>(p->k->f32.ld), product.q0 = static_cast<int>(p->p.q0), product.shift = p->p.shift;
    product.s = static_cast<float *>(p->p.scratch);
    const gf_rows &row = *p->p.row;
    mark_args a = {*m, product.s, 0, product.q0, product.k.rows, row.marks, row.marks_col, row.pulls, row.pulled, row.marks_ld};
    if (m->row_pull) {
        const size_t bytes = sizeof *row.pulled * static_cast<size_t>(product.q.rows);
        const cudaError_t e = cudaMemsetAsync(row.pulled, 0, bytes, stream);
        if (e != cudaSuccess) return e;
    }
    const int chunk = static_cast<int>(gf_product_rows(product.q.rows, product.k.rows));
    for (a.r0 = 0; a.r0 < product.q.rows; a.r0 += chunk) {
        product.r0 = a.r0, product.rows = min(chunk, product.q.rows - a.r0);
        cudaError_t e = gf_product(product, p->math, stream);
        if (e != cudaSuccess) return e;
        mark<<<dim3((a.cols + THREADS - 1) / THREADS, product.rows), THREADS, 0, stream>>>(a);
        e = cudaGetLastError();
        if (e != cudaSuccess) return e;
    }
    return cudaSuccess;
}
