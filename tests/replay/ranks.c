/* sync_norm.c - see ranks.h.
 *
 * The sum: the last rank to arrive adds the numbers of all in the order of ranks, so every rank gets the same bits. A rank that
 * has left its step no longer arrives; the ranks that wait for it get a failure instead of hanging. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ranks.h"

#include <pthread.h>
#include <stdlib.h>

#include "support/on_device.h"

typedef struct reduction {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t world, arrived, left;
    uint64_t round;
    int failed; /* ranks came with different counts of numbers */
    double **x; /* [world] what the ranks brought */
    int *n;     /* [world] */
} reduction;

typedef struct rank_thread { /* one rank's thread */
    reduction *at;
    int64_t index;
    rank *of;
    pthread_t thread;
} rank_thread;

static void add_up(reduction *at) {
    for (int64_t k = 1; k < at->world; k++)
        if (at->n[k] != at->n[0]) at->failed = 1;
    for (int j = 0; !at->failed && j < at->n[0]; j++) {
        double sum = 0.0;
        for (int64_t k = 0; k < at->world; k++) sum += at->x[k][j];
        for (int64_t k = 0; k < at->world; k++) at->x[k][j] = sum;
    }
    at->arrived = 0;
    at->round++;
}

static int all_reduce(void *user, double *x, int n) {
    const rank_thread *s = user;
    reduction *at = s->at;
    pthread_mutex_lock(&at->lock);
    const uint64_t round = at->round;
    at->x[s->index] = x;
    at->n[s->index] = n;
    if (++at->arrived == at->world) {
        add_up(at);
        pthread_cond_broadcast(&at->moved);
    }
    while (at->round == round && at->left == 0) pthread_cond_wait(&at->moved, &at->lock);
    const int bad = at->round == round || at->failed;
    pthread_mutex_unlock(&at->lock);
    return bad;
}

static void *run_rank(void *user) {
    rank_thread *s = user;
    rank *w = s->of;
    w->status = on_device_step_rows(w->r.ctx, w->r.store, &w->batch, &w->own, w->links, &w->stats);
    pthread_mutex_lock(&s->at->lock);
    s->at->left++;
    pthread_cond_broadcast(&s->at->moved);
    pthread_mutex_unlock(&s->at->lock);
    return NULL;
}

static int run_threads(reduction *at, rank_thread *threads, rank *ranks, message *m) {
    int64_t started = 0;
    int code = REPLAY_OK;
    for (int64_t k = 0; k < at->world && code == REPLAY_OK; k++) {
        threads[k] = (rank_thread){.at = at, .index = k, .of = &ranks[k]};
        code = library(&ranks[k].r, glofnd_ctx_reduce(ranks[k].r.ctx, all_reduce, &threads[k]), "glofnd_ctx_reduce", m);
    }
    for (; started < at->world && code == REPLAY_OK; started++)
        if (pthread_create(&threads[started].thread, NULL, run_rank, &threads[started]) != 0) {
            code = say(m, REPLAY_UNREADABLE, "no more threads");
            break;
        }
    if (code != REPLAY_OK) { /* those that run must not wait for the others */
        pthread_mutex_lock(&at->lock);
        at->left++;
        pthread_cond_broadcast(&at->moved);
        pthread_mutex_unlock(&at->lock);
    }
    for (int64_t k = 0; k < started; k++) pthread_join(threads[k].thread, NULL);
    return code;
}

int ranks_step_rows(rank *ranks, int64_t world, message *m) {
    if (world == 1) {
        rank *w = ranks;
        return library(&w->r, on_device_step_rows(w->r.ctx, w->r.store, &w->batch, &w->own, w->links, &w->stats),
                       "glofnd_step_rows", m);
    }
    reduction at = {.world = world, .x = grab((size_t)world, sizeof(double *)), .n = grab((size_t)world, sizeof(int))};
    rank_thread *threads = grab((size_t)world, sizeof *threads);
    pthread_mutex_init(&at.lock, NULL);
    pthread_cond_init(&at.moved, NULL);
    int code = run_threads(&at, threads, ranks, m);
    for (int64_t k = 0; k < world && code == REPLAY_OK; k++) code = library(&ranks[k].r, ranks[k].status, "glofnd_step_rows", m);
    for (int64_t k = 0; k < world; k++) glofnd_ctx_reduce(ranks[k].r.ctx, NULL, NULL);
    pthread_cond_destroy(&at.moved);
    pthread_mutex_destroy(&at.lock);
    free(at.n);
    free(at.x);
    free(threads);
    return code;
}
