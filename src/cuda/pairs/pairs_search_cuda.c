/* pairs_search_cuda.c - see pairs_search.h: on the GPU. */
#include "cuda/pairs/cuda_pairs.h"
#include "pairs/pairs_search.h"

static int step(void *user, double share) {
    const gf_job_progress *w = user;
    gf_job_report(w, share);
    return gf_job_stopped(w);
}

static gf_cuda_pairs_task task_of(const gf_pairs_task *t, int64_t top, gf_job_progress *watch) {
    *watch = gf_job_part(&t->watch, 0.0, 1.0);
    return (gf_cuda_pairs_task){.rank = t->rank,
                                .top = top,
                                .edge = t->edge,
                                .dup = t->dup,
                                .lambda = t->lambda,
                                .skip = t->skip,
                                .label = t->label,
                                .memory = t->memory,
                                .step = step,
                                .user = watch};
}

static gf_cuda_pairs_found found_of(const gf_pairs_found *f) {
    return (gf_cuda_pairs_found){.lambda = f->lambda,
                                 .above = f->above,
                                 .mutual = f->mutual,
                                 .hits = f->hits,
                                 .copies = f->copies,
                                 .other = f->other,
                                 .similarity = f->similarity,
                                 .edge_other = f->edge_other,
                                 .edge_similarity = f->edge_similarity,
                                 .mutual_root = f->mutual_root,
                                 .copy_root = f->copy_root};
}

/* Lists are short-lived and part of the strips. */
static gf_pairs_plan plan(int64_t n, int64_t dim, const gf_pairs_task *t) {
    return (gf_pairs_plan){
        .results = gf_pairs_found_bytes(n, t->top),
        .scratch = (size_t)n * sizeof(int32_t),
        .passes = t->lambda ? 1 : 2,
        .device = gf_cuda_pairs_embeddings(n, dim) + gf_cuda_pairs_work(n, t->top + t->edge, t->memory),
    };
}

static glofnd_status open_rows(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    gf_cuda_pairs *c = NULL;
    (void)threads;
    TRY(gf_cuda_pairs_open(err, rows->x, rows->row, rows->n, rows->dim, &c));
    *state = c;
    return GLOFND_OK;
}

static glofnd_status find(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    gf_job_progress watch;
    const gf_cuda_pairs_task task = task_of(t, f->top, &watch);
    const gf_cuda_pairs_found found = found_of(f);
    TRY(gf_pairs_check_rank(err, t, f->n - 1));
    return gf_cuda_pairs_find(err, state, &task, &found);
}

static glofnd_status query(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    gf_job_progress watch;
    const gf_cuda_pairs_task task = task_of(t, f->top, &watch);
    const gf_cuda_pairs_found found = found_of(f);
    TRY(gf_pairs_check_query(err, t, gf_cuda_pairs_count(state)));
    return gf_cuda_pairs_query(err, state, rows->x, rows->row, rows->n, &task, &found);
}

static void close_rows(void *state) { gf_cuda_pairs_close(state); }

static const gf_pairs_search search = {
    .name = "cuda",
    .plan = plan,
    .open = open_rows,
    .find = find,
    .query = query,
    .close = close_rows,
};

const gf_pairs_search *const gf_pairs_search_cuda = &search;
