/* thread_ranks.c - see thread_ranks.h. Every call is two meetings: all have brought something; all have taken what they want. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/thread_ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct room { /* what the threads share */
    pthread_barrier_t barrier;
    void *at[THREAD_RANKS_MAX];
    int open; /* ranks that have not closed */
    pthread_mutex_t lock;
} room;

typedef struct rank {
    gf_comm head;
    room *room;
} rank;

void thread_ranks_meet(gf_comm *c) { pthread_barrier_wait(&((rank *)c)->room->barrier); }

void *const *thread_ranks_show(gf_comm *c, void *mine) {
    room *r = ((rank *)c)->room;
    thread_ranks_meet(c); /* no rank reads the last ones */
    r->at[c->rank] = mine;
    thread_ranks_meet(c);
    return r->at;
}

static void *loose(const void *p) { return (void *)(uintptr_t)p; }

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    (void)err;
    void *const *at = thread_ranks_show(c, loose(part));
    for (int r = 0; r < c->ranks; r++) {
        char *to = (char *)all + (size_t)r * bytes;
        if (to != at[r]) memcpy(to, at[r], bytes);
    }
    thread_ranks_meet(c);
    return GLOFND_OK;
}

typedef struct parcel {
    const char *send;
    const size_t *bytes;
} parcel;

static glofnd_status exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                              const size_t *recv_bytes) {
    parcel mine = {send, send_bytes};
    char *to = recv;
    int fits = 1;
    void *const *at = thread_ranks_show(c, &mine);
    for (int r = 0; r < c->ranks; to += recv_bytes[r++]) {
        const parcel *p = at[r];
        const char *from = p->send;
        for (int k = 0; k < c->rank; k++) from += p->bytes[k];
        fits &= p->bytes[c->rank] == recv_bytes[r];
        if (fits && recv_bytes[r]) memcpy(to, from, recv_bytes[r]);
    }
    thread_ranks_meet(c);
    FAIL_IF(err, !fits, GLOFND_E_ARGUMENT, "an exchange of other sizes than expected");
    return GLOFND_OK;
}

#define SUM(name, type)                                                           \
    static glofnd_status name(gf_error *err, gf_comm *c, type *x, int64_t n) {    \
        type *total = calloc((size_t)n + 1, sizeof *total);                       \
        (void)err;                                                                \
        void *const *at = thread_ranks_show(c, x);                                \
        for (int r = 0; r < c->ranks; r++)                                        \
            for (int64_t i = 0; i < n; i++) total[i] += ((const type *)at[r])[i]; \
        thread_ranks_meet(c);                                                     \
        memcpy(x, total, (size_t)n * sizeof *x);                                  \
        free(total);                                                              \
        return GLOFND_OK;                                                         \
    }
SUM(sum, double)
SUM(sum_floats, float)
#undef SUM

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    gf_comm *fresh[THREAD_RANKS_MAX];
    (void)err;
    if (c->rank == 0) thread_ranks_open(c->ranks, fresh);
    void *const *at = thread_ranks_show(c, fresh);
    *out = ((gf_comm **)at[0])[c->rank];
    thread_ranks_meet(c);
    return GLOFND_OK;
}

static void close_rank(gf_comm *c) {
    room *r = ((rank *)c)->room;
    pthread_mutex_lock(&r->lock);
    const int last = --r->open == 0;
    pthread_mutex_unlock(&r->lock);
    if (last) {
        pthread_barrier_destroy(&r->barrier);
        pthread_mutex_destroy(&r->lock);
        free(r);
    }
    free(c);
}

static const gf_comm_ops kind = {"threads", gather, exchange, sum, sum_floats, duplicate, close_rank, NULL, NULL};

void thread_ranks_open(int ranks, gf_comm *out[]) {
    room *r = calloc(1, sizeof *r);
    if (!r || ranks > THREAD_RANKS_MAX) abort();
    pthread_barrier_init(&r->barrier, NULL, (unsigned)ranks);
    pthread_mutex_init(&r->lock, NULL);
    r->open = ranks;
    for (int i = 0; i < ranks; i++) {
        rank *x = calloc(1, sizeof *x);
        if (!x) abort();
        *x = (rank){.head = {&kind, i, ranks, 0}, .room = r};
        out[i] = &x->head;
    }
}

void thread_ranks_run(int ranks, void *(*work)(void *user), void *user[]) {
    pthread_t thread[THREAD_RANKS_MAX];
    for (int i = 0; i < ranks; i++)
        if (pthread_create(&thread[i], NULL, work, user[i]) != 0) abort();
    for (int i = 0; i < ranks; i++) pthread_join(thread[i], NULL);
}
