/* state.h - anchor state in and out of a store through the rows tier of the public API. */
#pragma once

#include "compare.h"
#include "settings.h"

typedef struct replica { /* a context and its store: one rank, or the second copy of a one-rank run */
    glofnd_ctx *ctx;
    glofnd_store *store;
} replica;

int replica_create(replica *r, const settings *s, message *m);
void replica_free(replica *r);
/* A failed library call: REPLAY_MISMATCH with its text. */
int library(const replica *r, glofnd_status status, const char *what, message *m);

/* Initial state: nothing (never seen), or the tables of the case, or lambda_init. */
int state_start(const replica *r, const settings *s, const golden_case *c, message *m);
/* Makes the shared lambda that of anchor 0. Before update_epoch and in the shared warm-up the authors' code reads entry 0 for
 * all anchors, and the warm-up writes the result into all n entries; the library keeps one shared value instead, that anchors
 * without a lambda of their own follow. `forget`: a warm-up begins, anchors lose their own. */
int state_share_first(const replica *r, const settings *s, int forget, message *m);
/* Copies the rows `id` [n] from one replica to a second one. */
int state_copy(const replica *from, const replica *to, const settings *s, const int64_t *id, int64_t n, message *m);
/* Offers u, lda, m, v (u_im, ... for two sides) after step t. */
int state_compare(const replica *r, const settings *s, int64_t t, outputs *o, message *m);
/* All rows of two replicas must have the same bits. */
int state_equal(const replica *a, const replica *b, const settings *s, message *m);
