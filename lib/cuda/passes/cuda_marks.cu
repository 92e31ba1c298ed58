/* cuda_marks.cu - bits of the flagged pairs, where more than a threshold decides; similarities are written for some rows at a
 * time, as for a selection. */
#include "cuda/passes/cuda_kernels.cuh"

#define THREADS 256

struct mark_args {
    gf_cuda_marking m;
    const float *s; /* [rows][columns] of the rows from r0, NaN where there is no pair */
    int r0, cols;
    uint32_t *marks, *marks_col;
    int64_t ld;
};

/* One thread per pair; a warp makes a word. */
static __global__ void __launch_bounds__(THREADS) mark(const mark_args a) {
    const int r = a.r0 + blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    bool by_row = false, by_col = false;
    const float v = c < a.cols ? a.s[static_cast<int64_t>(blockIdx.y) * a.cols + c] : CUDART_NAN_F;
    if (v == v) {
        const bool one_group = a.m.row_group[r] >= 0 && a.m.row_group[r] == a.m.col_group[c];
        by_row = one_group || v > a.m.row_theta[r];
        if (a.m.col_theta) by_col = one_group || v > a.m.col_theta[c];
    }
    const unsigned row_word = __ballot_sync(0xffffffffu, by_row), col_word = __ballot_sync(0xffffffffu, by_col);
    if (threadIdx.x % 32 || c >= a.cols) return;
    a.marks[r * a.ld + c / 32] = row_word;
    if (a.m.col_theta) a.marks_col[r * a.ld + c / 32] = col_word;
}

cudaError_t gf_cuda_mark(const gf_cuda_pass *p, const gf_cuda_marking *m, cudaStream_t stream) {
    gf_product_args product = {};
    product.q = gf_operand_of(p->q), product.k = gf_operand_of(p->k);
    product.ld = static_cast<int>(p->k->f32.ld), product.q0 = static_cast<int>(p->p.q0), product.shift = p->p.shift;
    product.s = static_cast<float *>(p->p.scratch);
    const gf_rows &row = *p->p.row;
    mark_args a = {*m, product.s, 0, product.k.rows, row.marks, row.marks_col, row.marks_ld};
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
