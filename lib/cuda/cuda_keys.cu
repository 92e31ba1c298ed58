/* cuda_keys.cu - samples of one anchor in a batch, and candidates that are an anchor's own sample: keys of the rows, what follows from
 * them, and the one new state of all samples of an anchor. As make_keys, make_copies and close_copies of method/step.c. Steps whose ids
 * all differ queue none of this.
 */
#include "cuda/cuda_step.cuh"

#define THREADS 128

struct key_args {
    gf_cuda_step step;
    const int64_t *extra_id[2];
    int32_t *table; /* [2 cols] */
    int32_t *count; /* [cols][3] */
    int32_t *copy, *next_copy;
    int32_t *groups; /* [2 cols] the same table, of groups of positives; NULL: there are none */
};

/* ----- keys ----- */

/* Puts the samples into the table. Threads race for places, but the smallest position of an id stays, in any order. */
static __global__ void __launch_bounds__(THREADS) insert_ids(const key_args x) {
    const int64_t j = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const uint64_t places = 2 * static_cast<uint64_t>(x.step.plan.cols);
    if (j >= x.step.plan.cols) return;
    const int mine = int(j) + 1;
    for (uint64_t at = gf_first_place(x.step.id[j], places);; at = at + 1 == places ? 0 : at + 1) {
        const int old = atomicCAS(&x.table[at], 0, mine);
        if (old == 0) return;
        if (x.step.id[old - 1] != x.step.id[j]) continue;
        atomicMin(&x.table[at], mine);
        return;
    }
}

/* Position of the first sample with this id; -1: there is none. */
static __device__ int find_id(const key_args &x, int64_t id) {
    const uint64_t places = 2 * static_cast<uint64_t>(x.step.plan.cols);
    for (uint64_t at = gf_first_place(id, places);; at = at + 1 == places ? 0 : at + 1) {
        const int first = x.table[at] - 1;
        if (first < 0 || x.step.id[first] == id) return first;
    }
}

/* The same for groups of positives. */
static __global__ void __launch_bounds__(THREADS) insert_groups(const key_args x) {
    const int64_t j = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const uint64_t places = 2 * static_cast<uint64_t>(x.step.plan.cols);
    if (j >= x.step.plan.cols || x.step.positives[j] < 0) return;
    const int mine = int(j) + 1;
    for (uint64_t at = gf_first_place(x.step.positives[j], places);; at = at + 1 == places ? 0 : at + 1) {
        const int old = atomicCAS(&x.groups[at], 0, mine);
        if (old == 0) return;
        if (x.step.positives[old - 1] != x.step.positives[j]) continue;
        atomicMin(&x.groups[at], mine);
        return;
    }
}

/* The key of sample j: its first positive, or the first sample of its anchor. */
static __device__ int key_of_sample(const key_args &x, int64_t j) {
    const uint64_t places = 2 * static_cast<uint64_t>(x.step.plan.cols);
    if (!x.groups || x.step.positives[j] < 0) return find_id(x, x.step.id[j]);
    for (uint64_t at = gf_first_place(x.step.positives[j], places);; at = at + 1 == places ? 0 : at + 1) {
        const int first = x.groups[at] - 1;
        if (first < 0 || x.step.positives[first] == x.step.positives[j]) return first;
    }
}

/* Samples, then the candidates of each side: keys, and how many have each. */
static __global__ void __launch_bounds__(THREADS) count_keys(const key_args x) {
    const gf_plan &p = x.step.plan;
    int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at < p.cols) {
        const int first = key_of_sample(x, at);
        for (int i = 0; i < p.sides; i++)
            for (int v = 0; v < p.per_sample; v++) x.step.side[i].key[at * p.per_sample + v] = first;
        atomicAdd(&x.count[3 * int64_t(first)], 1);
        return;
    }
    at -= p.cols;
    for (int i = 0; i < p.sides; at -= p.candidates[i++]) {
        if (at < 0 || at >= p.candidates[i]) continue;
        const int sample = x.extra_id[i] ? find_id(x, x.extra_id[i][at]) : -1, first = sample < 0 ? -1 : key_of_sample(x, sample);
        x.step.side[i].key[p.cols * p.per_sample + at] = first;
        if (first >= 0) atomicAdd(&x.count[3 * int64_t(first) + 1 + i], 1);
        return;
    }
}

static __device__ void fail(const key_args &x, int64_t what) {
    atomicMin(reinterpret_cast<long long *>(&x.step.control->bad_id), static_cast<long long>(what));
}

/* Only anchors that occur more than once have a key. What their rows have less than others: unpaired. */
static __global__ void __launch_bounds__(THREADS) settle_keys(const key_args x) {
    const gf_plan &p = x.step.plan;
    const int64_t j = int64_t(blockIdx.x) * THREADS + threadIdx.x, a = j - x.step.row0;
    const int per = p.per_sample;
    if (j >= p.cols) return;
    const int64_t first = x.step.side[0].key[j * per];
    const int32_t *n = &x.count[3 * first];
    const bool own = a >= 0 && a < p.rows;
    for (int i = 0; i < p.sides; i++) {
        const int unpaired = (n[0] - 1) * per + n[1 + p.sides - 1 - i];
        for (int v = 0; v < per; v++) {
            if (n[0] + n[1] + n[2] == 1) x.step.side[i].key[j * per + v] = -1;
            if (own) x.step.side[i].unpaired[a * per + v] = unpaired;
        }
        if (own && unpaired >= p.negatives[i]) fail(x, GF_CUDA_LONELY + j);
    }
    if (!x.copy) return;
    const int64_t same = find_id(x, x.step.id[j]);
    if (x.groups && max(x.step.positives[j], -1) != max(x.step.positives[same], -1)) fail(x, GF_CUDA_MISFIT + j);
    const bool parts = p.cols % p.rows == 0 && x.step.row0 % p.rows == 0;
    const bool here = same >= x.step.row0 && same < x.step.row0 + p.rows;
    if (own != here || (parts && j / p.rows != same / p.rows)) fail(x, GF_CUDA_APART + j);
    if (own) x.copy[a] = here ? int(same - x.step.row0) : int(a), x.next_copy[a] = -1;
}

/* One warp per own sample: the next one of its anchor. */
static __global__ void __launch_bounds__(THREADS) link_copies(const key_args x) {
    const gf_plan &p = x.step.plan;
    const int64_t a = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (a >= p.rows) return;
    const int32_t *key = x.step.side[0].key + x.step.row0 * p.per_sample;
    const int mine = key[a * p.per_sample];
    const int64_t *id = x.step.id + x.step.row0;
    for (int64_t c0 = a + 1; mine >= 0 && c0 < p.rows; c0 += 32) {
        const int64_t c = c0 + threadIdx.x % 32;
        const unsigned same = __ballot_sync(0xffffffffu, c < p.rows && key[c * p.per_sample] == mine && id[c] == id[a]);
        if (!same) continue;
        if (threadIdx.x % 32 == 0) x.next_copy[a] = int(c0) + __ffs(int(same)) - 1;
        return;
    }
}

cudaError_t gf_cuda_make_keys(const gf_cuda_step *x, const int64_t *const *extra_id, int32_t *table, int32_t *count,
                              int32_t *groups, cudaStream_t stream) {
    const key_args y = {*x,
                        {extra_id[0], extra_id[1]},
                        table,
                        count,
                        const_cast<int32_t *>(x->copy),
                        const_cast<int32_t *>(x->next_copy),
                        x->positives ? groups : NULL};
    const int64_t cols = x->plan.cols, all = cols + x->plan.candidates[0] + x->plan.candidates[1];
    const unsigned blocks = static_cast<unsigned>((cols + THREADS - 1) / THREADS);
    cudaError_t e = cudaMemsetAsync(table, 0, 2 * sizeof *table * static_cast<size_t>(cols), stream);
    if (e == cudaSuccess) e = cudaMemsetAsync(count, 0, 3 * sizeof *count * static_cast<size_t>(cols), stream);
    if (e == cudaSuccess && y.groups) e = cudaMemsetAsync(groups, 0, 2 * sizeof *groups * static_cast<size_t>(cols), stream);
    if (e != cudaSuccess) return e;
    if (y.groups) insert_groups<<<blocks, THREADS, 0, stream>>>(y);
    insert_ids<<<blocks, THREADS, 0, stream>>>(y);
    count_keys<<<static_cast<unsigned>((all + THREADS - 1) / THREADS), THREADS, 0, stream>>>(y);
    settle_keys<<<blocks, THREADS, 0, stream>>>(y);
    if (x->copy)
        link_copies<<<static_cast<unsigned>((x->plan.rows + THREADS / 32 - 1) / (THREADS / 32)), THREADS, 0, stream>>>(y);
    return cudaGetLastError();
}

/* ----- the state of all samples of an anchor ----- */

/* One thread per own sample; each makes the state, and the first one writes it. */
static __global__ void __launch_bounds__(THREADS) close_copies(const gf_cuda_step x) {
    const int64_t a = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const int i = blockIdx.y;
    const gf_plan &p = x.plan;
    const int64_t per = p.per_sample, own = p.rows * per, rows = own * p.sides;
    const gf_cuda_side &side = x.side[i];
    if (a >= p.rows || i >= p.anchored) return;
    const int64_t first = x.copy[a];
    double log_u = -INFINITY, grad_tau = 0.0, above = 0.0, negatives = 0.0;
    int64_t copies = 0;
    for (int64_t c = first; c >= 0; c = x.next_copy[c], copies++) {
        for (int64_t r = c * per; r < (c + 1) * per; r++) {
            log_u = gf_log_add(log_u, side.copy_log_u[r]);
            grad_tau += side.copy_grad_tau[r] / double(per); /* views share their temperature */
            if (p.pooled) above += double(side.own.above[r]);
        }
        negatives += gf_anchor_negatives(x, i, c);
    }
    glofnd_anchor row = side.fresh[a];
    gf_totals t = {};
    if (p.pooled && p.updating && !p.shared) gf_lambda_shrink(&p.learner, &x.control->shared[i], &row, above, negatives);
    if (gf_loss_individual(&p.o))
        gf_row_update_tau(&p.o, &row, 1.0 / double(side.own.inv_tau[a * per]), grad_tau / double(copies));
    if (gf_row_keeps_u(&p)) {
        row.log_u = float(log_u - log(double(copies * per)));
        t.log_u = double(row.log_u);
    }
    gf_close_anchor(x, i, a, row, a == first, t);
    double *const of_row = x.row_totals + i * own + a * per; /* gf_note_row had nothing for these */
    of_row[offsetof(gf_totals, log_u) / sizeof(double) * rows] = t.log_u;
    of_row[offsetof(gf_totals, lambda) / sizeof(double) * rows] = t.lambda;
    of_row[offsetof(gf_totals, tau) / sizeof(double) * rows] = t.tau;
}

cudaError_t gf_cuda_close_copies(const gf_cuda_step *x, cudaStream_t stream) {
    close_copies<<<dim3(static_cast<unsigned>((x->plan.rows + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}
