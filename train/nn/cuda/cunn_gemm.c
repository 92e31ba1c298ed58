/* cunn_gemm.c - products of cuBLASLt: the fastest of the algorithms that it proposes, found once per shape, as cunn_plan.c does
 * for convolutions. The choice, which is saved, is the place among the proposals. With deterministic = 2 the first one is used.
 */
#include "nn/cuda/cunn_gemm.h"

#include <stdio.h>
#include <string.h>

#include "nn/cuda/cunn_plan.h"

enum { PROPOSALS = 10, RUNS = 5 };

static glofnd_status blas_fail(gf_error *err, cublasStatus_t status, const char *at) {
    GF_FAIL(err, GLOFND_E_DEVICE, "cuBLASLt: %s failed with status %d", at, (int)status);
}
#define BLAS_TRY(err, call, at)                                                           \
    do {                                                                                  \
        const cublasStatus_t blas_try_ = (call);                                          \
        if (blas_try_ != CUBLAS_STATUS_SUCCESS) return blas_fail((err), blas_try_, (at)); \
    } while (0)

static cublasStatus_t set(const gf_cunn_libs *l, const gf_cunn_gemm *g, cublasLtMatmulDescAttributes_t what, const void *value,
                          size_t bytes) {
    return l->cublasLtMatmulDescSetAttribute(g->desc, what, value, bytes);
}

static cudaDataType_t data_type(gf_type type) { return type == GF_TYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

static glofnd_status layout(gf_error *err, const gf_cunn_libs *l, cublasLtMatrixLayout_t *out, gf_type type, int64_t rows,
                            int64_t cols) {
    BLAS_TRY(err, l->cublasLtMatrixLayoutCreate(out, data_type(type), (uint64_t)rows, (uint64_t)cols, rows), "matrix layout");
    return GLOFND_OK;
}

/* ----- proposals --------------------------------------------------------------------------------------------------- */

static cublasStatus_t set_preference(const gf_cunn_libs *l, cublasLtMatmulPreference_t preference) {
    const size_t max = GF_CUNN_BLAS_WORKSPACE;
    const uint32_t align = GF_NN_ALIGN;
    const cublasLtMatmulPreferenceAttributes_t aligned[] = {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t status =
        l->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max, sizeof max);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = l->cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &align, sizeof align);
    return status;
}

/* Best first by cuBLASLt's own estimate; *count of them. */
static glofnd_status propose(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g,
                             cublasLtMatmulHeuristicResult_t found[PROPOSALS], int *count) {
    const gf_cunn_libs *l = &s->libs;
    cublasLtMatmulPreference_t preference;
    BLAS_TRY(err, l->cublasLtMatmulPreferenceCreate(&preference), "preference");
    cublasStatus_t status = set_preference(l, preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->cublasLtMatmulAlgoGetHeuristic(s->blas, g->desc, g->a, g->b, g->c, g->c, preference, PROPOSALS, found, count);
    l->cublasLtMatmulPreferenceDestroy(preference);
    BLAS_TRY(err, status, "choice of an algorithm");
    FAIL_IF(err, *count < 1, GLOFND_E_UNSUPPORTED, "cuBLASLt has no algorithm for a linear layer of this shape");
    return GLOFND_OK;
}

/* ----- timing ------------------------------------------------------------------------------------------------------ */

typedef struct stage { /* memory to run a product on */
    void *a, *b, *c, *workspace;
} stage;

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

static int set_stage(gf_nn_engine *s, const gf_cunn_gemm_task *t, stage *out) {
    const size_t each = gf_type_bytes(t->in), a = whole(each * (size_t)(t->a.rows * t->a.cols));
    const size_t b = whole(each * (size_t)(t->b.rows * t->b.cols)), c = whole(sizeof(float) * (size_t)(t->rows * t->cols));
    char *base = gf_cunn_trial(s, a + b + c + GF_CUNN_BLAS_WORKSPACE);
    if (!base) return 0;
    *out = (stage){base, base + a, base + a + b, base + a + b + c};
    return 1;
}

static cublasStatus_t run_once(gf_nn_engine *s, const gf_cunn_gemm *g, const cublasLtMatmulAlgo_t *algo, const stage *m) {
    const float one = 1.0f, zero = 0.0f;
    return s->libs.cublasLtMatmul(s->blas, g->desc, &one, m->a, g->a, m->b, g->b, &zero, m->c, g->c, m->c, g->c, algo,
                                  m->workspace, GF_CUNN_BLAS_WORKSPACE, s->stream);
}

/* Milliseconds of all runs; < 0: it does not work. */
static float run_time(gf_nn_engine *s, const gf_cunn_gemm *g, const cublasLtMatmulAlgo_t *algo, const stage *m, cudaEvent_t from,
                      cudaEvent_t to) {
    float ms = -1.0f;
    for (int i = 0; i <= RUNS; i++) { /* the first warms up */
        if (i == 1 && cudaEventRecord(from, s->stream) != cudaSuccess) return -1.0f;
        if (run_once(s, g, algo, m) != CUBLAS_STATUS_SUCCESS) return -1.0f;
    }
    if (cudaEventRecord(to, s->stream) != cudaSuccess || cudaEventSynchronize(to) != cudaSuccess) return -1.0f;
    return cudaEventElapsedTime(&ms, from, to) == cudaSuccess ? ms : -1.0f;
}

/* Place of the fastest; 0, the first, without memory or events for timing. */
static int fastest(gf_nn_engine *s, const gf_cunn_gemm *g, const gf_cunn_gemm_task *t,
                   const cublasLtMatmulHeuristicResult_t *found, int count) {
    cudaEvent_t from = NULL, to = NULL;
    stage m;
    int best = 0;
    float least = -1.0f;
    if (!set_stage(s, t, &m)) return 0;
    if (t->bias && set(&s->libs, g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &m.b, sizeof m.b) != CUBLAS_STATUS_SUCCESS) return 0;
    if (cudaEventCreate(&from) == cudaSuccess && cudaEventCreate(&to) == cudaSuccess)
        for (int i = 0; i < count; i++) {
            if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize > GF_CUNN_BLAS_WORKSPACE) continue;
            const float ms = run_time(s, g, &found[i].algo, &m, from, to);
            if (ms < 0.0f || (least >= 0.0f && ms >= least)) continue;
            best = i, least = ms;
        }
    if (from) cudaEventDestroy(from);
    if (to) cudaEventDestroy(to);
    return best;
}

/* ----- choice ------------------------------------------------------------------------------------------------------ */

static void key_of(const gf_nn_engine *s, const gf_cunn_gemm_task *t, char key[GF_CUNN_KEY]) {
    snprintf(key, GF_CUNN_KEY, "product/%s-%s/%lldx%lld%s/%lldx%lld%s%s/d%de%d/%s/cublaslt%zu",
             t->in == GF_TYPE_BF16 ? "bf16" : "f32", t->out == GF_TYPE_BF16 ? "bf16" : "f32", (long long)t->a.rows,
             (long long)t->a.cols, t->a.turned ? "t" : "", (long long)t->b.rows, (long long)t->b.cols, t->b.turned ? "t" : "",
             t->bias ? "/bias" : "", s->mode.deterministic, s->mode.exact, s->device, s->libs.cublasLtGetVersion());
    for (char *at = key; *at; at++)
        if (*at == ' ') *at = '_';
}

static glofnd_status choose(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g, const gf_cunn_gemm_task *t) {
    cublasLtMatmulHeuristicResult_t found[PROPOSALS];
    gf_cunn_choice choice = {.engine = 0};
    int count = 0;
    TRY(propose(err, s, g, found, &count));
    key_of(s, t, choice.key);
    const gf_cunn_choice *known = s->mode.deterministic == 2 ? NULL : gf_cunn_choice_find(s, choice.key);
    if (known && known->engine < count && found[known->engine].state == CUBLAS_STATUS_SUCCESS) {
        g->algo = found[known->engine].algo;
        return GLOFND_OK;
    }
    if (s->mode.deterministic != 2 && count > 1) {
        choice.engine = fastest(s, g, t, found, count);
        gf_cunn_choice_add(s, &choice);
    }
    g->algo = found[choice.engine].algo;
    return GLOFND_OK;
}

glofnd_status gf_cunn_gemm_create(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g, gf_cunn_gemm_task t) {
    const gf_cunn_libs *l = &s->libs;
    const int rounded = t.in == GF_TYPE_F32 && !s->mode.exact;
    const cublasLtEpilogue_t end = t.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const cublasOperation_t op[2] = {t.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N, t.b.turned ? CUBLAS_OP_T : CUBLAS_OP_N};
    t.rows = t.a.turned ? t.a.cols : t.a.rows, t.cols = t.b.turned ? t.b.rows : t.b.cols;
    g->made = 1;
    BLAS_TRY(err, l->cublasLtMatmulDescCreate(&g->desc, rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "product");
    BLAS_TRY(err, set(l, g, CUBLASLT_MATMUL_DESC_TRANSA, &op[0], sizeof op[0]), "product");
    BLAS_TRY(err, set(l, g, CUBLASLT_MATMUL_DESC_TRANSB, &op[1], sizeof op[1]), "product");
    BLAS_TRY(err, set(l, g, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end), "product");
    TRY(layout(err, l, &g->a, t.in, t.a.rows, t.a.cols));
    TRY(layout(err, l, &g->b, t.in, t.b.rows, t.b.cols));
    TRY(layout(err, l, &g->c, t.out, t.rows, t.cols));
    return choose(err, s, g, &t);
}

glofnd_status gf_cunn_gemm_bias(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *bias) {
    BLAS_TRY(err, set(&s->libs, g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "bias");
    return GLOFND_OK;
}

glofnd_status gf_cunn_gemm_run(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *a, const void *b,
                               const void *add, void *c, void *workspace) {
    const float one = 1.0f, beta = add ? 1.0f : 0.0f;
    BLAS_TRY(err,
             s->libs.cublasLtMatmul(s->blas, g->desc, &one, a, g->a, b, g->b, &beta, add ? add : c, g->c, c, g->c, &g->algo,
                                    workspace, GF_CUNN_BLAS_WORKSPACE, s->stream),
             "linear layer");
    return GLOFND_OK;
}

void gf_cunn_gemm_free(gf_nn_engine *s, gf_cunn_gemm *g) {
    const gf_cunn_libs *l = &s->libs;
    if (g->a) l->cublasLtMatrixLayoutDestroy(g->a);
    if (g->b) l->cublasLtMatrixLayoutDestroy(g->b);
    if (g->c) l->cublasLtMatrixLayoutDestroy(g->c);
    if (g->desc) l->cublasLtMatmulDescDestroy(g->desc);
}
