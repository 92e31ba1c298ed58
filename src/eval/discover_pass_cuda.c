/* discover_pass_cuda.c - see discover_pass.h: discovery on the GPU, and which passes this build has. */
#include <string.h>

#include "eval/discover_pass.h"

#ifdef GF_HAVE_CUDA

#include "cuda/discover/cuda_discover.h"

static int step(void *user, double share) {
    const gf_watch *w = user;
    if (w->progress) w->progress(w->user, w->from + share * (w->to - w->from));
    return gf_watch_stopped(w);
}

static gf_cuda_seek_task task_of(const gf_discover_task *t, int64_t top, gf_watch *watch) {
    *watch = gf_watch_part(&t->watch, 0.0, 1.0);
    return (gf_cuda_seek_task){.rank = t->rank, .top = top, .edge = t->edge, .dup = t->dup, .lambda = t->lambda, .skip = t->skip,
                               .label = t->label, .memory = t->memory, .step = step, .user = watch};
}

static gf_cuda_seek_found found_of(const gf_discover_found *f) {
    return (gf_cuda_seek_found){.lambda = f->lambda, .above = f->above, .mutual = f->mutual, .hits = f->hits, .copies = f->copies,
                                .other = f->other, .similarity = f->similarity, .edge_other = f->edge_other,
                                .edge_similarity = f->edge_similarity, .mutual_root = f->mutual_root,
                                .copy_root = f->copy_root};
}

/* Lists are short-lived and part of the strips. */
static gf_discover_plan plan(int64_t n, int64_t dim, const gf_discover_task *t) {
    return (gf_discover_plan){
        .results = gf_discover_found_bytes(n, t->top), .scratch = (size_t)n * sizeof(int32_t), .passes = t->lambda ? 1 : 2,
        .device = gf_cuda_seek_embeddings(n, dim) + gf_cuda_seek_work(n, t->top + t->edge, t->memory),
    };
}

static glofnd_status open_rows(gf_error *err, const gf_discover_rows *rows, int threads, void **state) {
    gf_cuda_seek *c = NULL;
    (void)threads;
    TRY(gf_cuda_seek_open(err, rows->x, rows->row, rows->n, rows->dim, &c));
    *state = c;
    return GLOFND_OK;
}

static glofnd_status find(gf_error *err, void *state, const gf_discover_task *t, gf_discover_found *f) {
    gf_watch watch;
    const gf_cuda_seek_task task = task_of(t, f->top, &watch);
    const gf_cuda_seek_found found = found_of(f);
    TRY(gf_discover_check_rank(err, t, f->n - 1));
    return gf_cuda_seek_find(err, state, &task, &found);
}

static glofnd_status query(gf_error *err, void *state, const gf_discover_rows *rows, const gf_discover_task *t,
                           gf_discover_found *f) {
    gf_watch watch;
    const gf_cuda_seek_task task = task_of(t, f->top, &watch);
    const gf_cuda_seek_found found = found_of(f);
    TRY(gf_discover_check_query(err, t, gf_cuda_seek_count(state)));
    return gf_cuda_seek_query(err, state, rows->x, rows->row, rows->n, &task, &found);
}

static void close_rows(void *state) { gf_cuda_seek_close(state); }

static const gf_discover_pass gf_discover_pass_cuda = {
    .name = "cuda", .plan = plan, .open = open_rows, .find = find, .query = query, .close = close_rows,
};

#endif

const gf_discover_pass *gf_discover_pass_find(gf_error *err, const char *device) {
    if (strcmp(device, "cpu") == 0) return &gf_discover_pass_cpu;
#ifdef GF_HAVE_CUDA
    if (strcmp(device, "cuda") == 0) return &gf_discover_pass_cuda;
#endif
    if (strcmp(device, "cuda") == 0)
        gf_fail(err, GLOFND_E_UNSUPPORTED, "this program was built without CUDA; build it where nvcc is found, or take "
                "--device cpu");
    else
        gf_fail(err, GLOFND_E_OPTION, "--device is \"%.40s\"; it is cpu or cuda", device);
    return NULL;
}
