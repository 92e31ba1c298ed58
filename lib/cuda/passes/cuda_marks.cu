/* cuda_marks.cu - bits of the flagged pairs, and the pairs that are kept: similarities are written for some rows at a time. */
#include "cuda/passes/cuda_kernels.cuh"
#include "cuda/passes/tile_element.cuh"

/* ---------- Marks: bits of the flagged pairs, where more than one threshold decides ---------- */

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
        by_row = v > a.m.row_theta[r];
        by_col = a.m.col_theta && c < a.m.cols && v > a.m.col_theta[c];
        if (a.m.mutual && c < a.m.cols) by_row = by_col = by_row && by_col;
        by_row |= one_group, by_col |= one_group;
    }
    const unsigned row_word = __ballot_sync(0xffffffffu, by_row), col_word = __ballot_sync(0xffffffffu, by_col);
    if (threadIdx.x % 32 || c >= a.cols) return;
    a.marks[r * a.ld + c / 32] = row_word;
    if (a.m.col_theta) a.marks_col[r * a.ld + c / 32] = col_word;
}

cudaError_t gf_cuda_mark(const gf_cuda_pass *p, const gf_cuda_marking *m, cudaStream_t stream) {
    gf_product_args product = {};
    product.q = gf_operand_of(p->q), product.k = gf_operand_of(p->k);
    product.ld = static_cast<int>(p->k->f32.ld), product.q0 = static_cast<int>(p->q0), product.shift = p->shift;
    product.row_key = p->row_key, product.col_key = p->col_key;
    product.s = static_cast<float *>(p->scratch);
    const gf_cuda_rows &row = *p->row;
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

/* ---------- The pairs that are kept, for inspection ---------- */

struct mask_args {
    gf_tile_args a;
    const float *s, *score; /* [rows][columns] of the rows from r0 */
    int r0;
    uint8_t *keep;
    int64_t keep_ld;
};

static __global__ void __launch_bounds__(THREADS) mask(const mask_args m) {
    const int r = m.r0 + blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= m.a.k.rows) return;
    const int64_t at = static_cast<int64_t>(blockIdx.y) * m.a.k.rows + c;
    const gf_weight_view x = gf_view_weights<gf_exp_exact>(m.a.row, m.a.flags, r, m.a.q.rows);
    const int group = m.a.flags & GF_GROUP ? m.a.col.group[c] : -1;
    const bool marked = m.a.flags & GF_MARKS && gf_marked(m.a.row.marks, m.a.row.marks_ld, r, c);
    m.keep[r * m.keep_ld + c] = gf_keeps(m.a.flags, x, m.s[at], m.score[at], c, group, marked);
}

static gf_product_args product_of(const gf_tile_args &a, const gf_operand &q, int r0, int rows, float *s) {
    gf_product_args x = {};
    x.q = q, x.k = a.k, x.ld = a.ld, x.r0 = r0, x.rows = rows, x.q0 = a.q0, x.shift = a.shift, x.s = s;
    x.row_key = a.row_key, x.col_key = a.col_key;
    return x;
}

cudaError_t gf_cuda_mask(const gf_cuda_pass *p, uint8_t *keep, int64_t keep_ld, cudaStream_t stream) {
    mask_args m = {};
    m.a = gf_tile_args_of(p);
    m.keep = keep, m.keep_ld = keep_ld;
    const int chunk = static_cast<int>(gf_product_rows(m.a.q.rows, m.a.k.rows));
    float *s = static_cast<float *>(p->scratch), *score = s + static_cast<int64_t>(chunk) * m.a.k.rows;
    const bool scored = m.a.flags & GF_TIE && m.a.score.f32;
    m.s = s, m.score = scored ? score : s;
    for (m.r0 = 0; m.r0 < m.a.q.rows; m.r0 += chunk) {
        const int rows = min(chunk, m.a.q.rows - m.r0);
        cudaError_t e = gf_product(product_of(m.a, m.a.q, m.r0, rows, s), p->math, stream);
        if (e == cudaSuccess && scored) e = gf_product(product_of(m.a, m.a.score, m.r0, rows, score), p->math, stream);
        if (e != cudaSuccess) return e;
        mask<<<dim3((m.a.k.rows + THREADS - 1) / THREADS, rows), THREADS, 0, stream>>>(m);
        if ((e = cudaGetLastError()) != cudaSuccess) return e;
    }
    return cudaSuccess;
}
