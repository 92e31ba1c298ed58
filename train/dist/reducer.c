/* reducer.c - gradients are summed over ranks during the backward pass, bucket by bucket, in the order they were started: by a
 * second thread or, on a device, in a second queue (gf_comm_ops.fork), which needs no thread and can be recorded. */
#include <pthread.h>
#include <stdlib.h>

#include "dist/dist.h"

enum { PENDING_MAX = 4096 }; /* buckets; starting more waits */

typedef struct bucket {
    float *x;
    int64_t n;
} bucket;

struct gf_reducer {
    gf_comm *comm; /* a duplicate */
    int has_thread;
    int64_t size; /* numbers per bucket */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bucket queue[PENDING_MAX]; /* started - done of them, a ring */
    int64_t started, done;
    int stop;
    glofnd_status status; /* of the first that failed */
    gf_error error;
    float *block; /* gf_reducer_begin */
    int64_t left; /* numbers of the block that are not started */
};

static void serve(gf_reducer *r, const bucket *b) {
    gf_error error;
    const glofnd_status status = r->comm->ops->sum_floats(&error, r->comm, b->x, b->n);
    pthread_mutex_lock(&r->lock);
    if (status != GLOFND_OK && r->status == GLOFND_OK) r->status = status, r->error = error;
    r->done++;
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->lock);
}

static int take(gf_reducer *r, bucket *b) {
    pthread_mutex_lock(&r->lock);
    while (r->done == r->started && !r->stop) pthread_cond_wait(&r->change, &r->lock);
    const int some = r->done < r->started;
    if (some) *b = r->queue[r->done % PENDING_MAX];
    pthread_mutex_unlock(&r->lock);
    return some;
}

static void *run(void *reducer) {
    bucket b;
    while (take(reducer, &b)) serve(reducer, &b);
    return NULL;
}

static int only_queues(const gf_reducer *r) { return r->comm->ops->join != NULL; }

glofnd_status gf_reducer_create(gf_error *err, gf_comm *c, int64_t size, gf_reducer **out) {
    gf_reducer *r = calloc(1, sizeof *r);
    *out = NULL;
    FAIL_IF(err, !r, GLOFND_E_MEMORY, "no memory to sum gradients");
    r->size = size > 0 ? size : 1;
    const glofnd_status status = c->ops->duplicate(err, c, &r->comm);
    if (status != GLOFND_OK) {
        free(r);
        return status;
    }
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->change, NULL);
    r->has_thread = !only_queues(r) && pthread_create(&r->thread, NULL, run, r) == 0;
    if (!r->has_thread && !only_queues(r)) {
        gf_reducer_free(r);
        GF_FAIL(err, GLOFND_E_MEMORY, "no thread to sum gradients");
    }
    *out = r;
    return GLOFND_OK;
}

static void end_thread(gf_reducer *r) {
    pthread_mutex_lock(&r->lock);
    r->stop = 1;
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
}

void gf_reducer_free(gf_reducer *r) {
    if (!r) return;
    if (r->has_thread) end_thread(r);
    pthread_cond_destroy(&r->change);
    pthread_mutex_destroy(&r->lock);
    r->comm->ops->close(r->comm);
    free(r);
}

/* Called by one thread alone, as join_queue is: without the lock. */
static void queue_sum(gf_reducer *r, float *x, int64_t n) {
    const gf_comm_ops *k = r->comm->ops;
    if (r->status == GLOFND_OK) r->status = k->fork(&r->error, r->comm);
    if (r->status == GLOFND_OK) r->started++, r->status = k->sum_floats(&r->error, r->comm, x, n);
}

static void join_queue(gf_reducer *r) {
    gf_error *const error = r->status == GLOFND_OK ? &r->error : NULL; /* the first one is reported */
    const glofnd_status status = r->done < r->started ? r->comm->ops->join(error, r->comm) : GLOFND_OK;
    if (r->status == GLOFND_OK) r->status = status;
    r->done = r->started;
}

void gf_reducer_start(gf_reducer *r, float *x, int64_t n) {
    if (n <= 0) return;
    if (only_queues(r)) {
        queue_sum(r, x, n);
        return;
    }
    pthread_mutex_lock(&r->lock);
    while (r->started - r->done == PENDING_MAX) pthread_cond_wait(&r->change, &r->lock);
    r->queue[r->started++ % PENDING_MAX] = (bucket){x, n};
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->lock);
}

glofnd_status gf_reducer_wait(gf_error *err, gf_reducer *r) {
    if (only_queues(r)) join_queue(r);
    pthread_mutex_lock(&r->lock);
    while (r->done < r->started) pthread_cond_wait(&r->change, &r->lock);
    const glofnd_status status = r->status;
    if (status != GLOFND_OK && err) *err = r->error;
    r->status = GLOFND_OK;
    pthread_mutex_unlock(&r->lock);
    return status;
}

void gf_reducer_begin(gf_reducer *r, float *block, int64_t n) {
    r->block = block;
    r->left = n;
}

/* Full buckets; the rest at the very end. */
void gf_reducer_ready(gf_reducer *r, int64_t first) {
    while (r->left - first >= r->size || (first == 0 && r->left > 0)) {
        const int64_t n = r->left < r->size ? r->left : r->size;
        r->left -= n;
        gf_reducer_start(r, r->block + r->left, n);
    }
}
