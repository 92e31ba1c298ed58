/* replay.c - steps that a device records: when, and by all ranks or none.
 *
 * Whether a call of NCCL is recorded must be the same on all ranks, and a record of it is played by all or none: so its manual,
 * "Using NCCL with CUDA Graphs". A rank may fail to make its record alone, for want of memory, once all calls are in it: then the
 * others drop theirs. A failure of the work itself is not talked over: the others may be inside a call that waits for this rank,
 * which ends the run, and them, as after any failure in a step.
 */
#include "nn/net_parts.h"

typedef glofnd_status (*step)(gf_error *err, void *arg);

static glofnd_status record(gf_error *err, gf_net *n, step work, void *arg) {
    const gf_sync_norm *r = n->spec.ranks;
    int made = 0;
    TRY(n->backend->record(err, n->engine, work, arg, &made));
    if (r && r->agree) TRY(r->agree(err, r->user, &made));
    if (!made) n->backend->forget(n->engine);
    n->replay.none = !made;
    return GLOFND_OK;
}

/* The net whose engine it is. */
static gf_net *owner(gf_net *n) {
    while (n->spec.beside) n = n->spec.beside;
    return n;
}

glofnd_status gf_net_replay(gf_error *err, gf_net *n, uint64_t key, step work, void *arg) {
    n = owner(n);
    if (!n->backend->record) return work(err, arg);
    if (key != n->replay.key) gf_net_forget(n);
    n->replay.key = key;
    if (++n->replay.times == 2 && !n->replay.none) TRY(record(err, n, work, arg));
    return n->backend->run(err, n->engine, work, arg);
}

void gf_net_forget(gf_net *n) {
    n = owner(n);
    n->replay.times = 0;
    if (n->backend->forget) n->backend->forget(n->engine);
}
