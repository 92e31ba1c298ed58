/* unit_replay.c - steps that a device records, on a device that only takes notes: when it records, plays and forgets, and that
 * ranks, here threads, all play their records or none does; the length of texts that they agree on. */
#include "support/test.h"

#include "loop/ranks.h"
#include "nn/graph.h"
#include "support/thread_ranks.h"
#include <stdlib.h>
#include <string.h>

/* ----- a device ----- */

enum { RANKS = 3 };

struct gf_nn_engine {
    char notes[64];   /* r: recorded, p: played, f: forgot, w: worked */
    int lacks_memory; /* for a record */
    int fails;        /* the work that is to be recorded */
    int has_record[GF_NN_RECORDS];
};

static void note(gf_nn_engine *s, char what) {
    const size_t n = strlen(s->notes);
    if (n + 1 < sizeof s->notes) s->notes[n] = what;
}

typedef glofnd_status (*step)(gf_error *err, void *arg);

static glofnd_status record(gf_error *err, gf_nn_engine *s, int slot, step work, void *arg, int *made) {
    (void)work, (void)arg;
    note(s, 'r');
    FAIL_IF(err, s->fails, GLOFND_E_DEVICE, "the work failed");
    *made = s->has_record[slot] = !s->lacks_memory;
    return GLOFND_OK;
}

static glofnd_status run(gf_error *err, gf_nn_engine *s, int slot, step work, void *arg) {
    if (slot < 0) return work(err, arg);
    note(s, s->has_record[slot] ? 'p' : '!');
    return GLOFND_OK;
}

static void forget(gf_nn_engine *s) {
    note(s, 'f');
    memset(s->has_record, 0, sizeof s->has_record);
}

static glofnd_status work(gf_error *err, void *engine) {
    (void)err;
    note(engine, 'w');
    return GLOFND_OK;
}

static const gf_nn_backend notebook = {.name = "notebook", .record = record, .run = run, .forget = forget};

/* ----- a rank: steps with a key each, and what the device had to do ----- */

typedef struct member {
    gf_distributed distributed;
    gf_nn_engine engine;
    const char *keys; /* a letter per step; a digit before it: its variant */
    glofnd_status status;
    gf_error err;
} member;

/* No assertion in here: they may only be raised on the main thread. */
static void *take_steps(void *user) {
    member *m = user;
    gf_net *net = calloc(1, sizeof *net);
    if (!net) abort();
    net->backend = &notebook;
    net->engine = &m->engine;
    net->spec.ranks = m->distributed.host ? &m->distributed.hooks : NULL;
    int64_t variant = 0;
    for (const char *key = m->keys; *key && m->status == GLOFND_OK; key++) {
        const int digit = *key >= '0' && *key <= '9';
        variant = digit ? *key++ - '0' : 0;
        m->status = gf_net_replay(&m->err, net, (uint64_t)*key, variant, work, &m->engine);
    }
    free(net);
    return NULL;
}

static void expect_alone(member m, glofnd_status status, const char *notes) {
    take_steps(&m);
    assert_int_equal(m.status, status);
    assert_string_equal(m.engine.notes, notes);
}

/* The second step of a key is recorded and played; a new key begins anew. A device without memory for it is not asked again. */
TEST(the_second_step_is_recorded) {
    expect_alone((member){.keys = "aaaa"}, GLOFND_OK, "fwrppp");
    expect_alone((member){.keys = "abaabb"}, GLOFND_OK, "fwfwfwrpfwrp");
    expect_alone((member){.keys = "aaabbb", .engine.lacks_memory = 1}, GLOFND_OK, "fwrfwwfwww");
}

/* Each variant of a key has a record of its own; a new key drops all of them. */
TEST(variants_have_records_of_their_own) {
    expect_alone((member){.keys = "1a2a1a2a1a2a"}, GLOFND_OK, "fwwrprppp");
    expect_alone((member){.keys = "1a1a2a1a2b2b1b"}, GLOFND_OK, "fwrpwpfwrpw");
    expect_alone((member){.keys = "1a1a2a2a", .engine.lacks_memory = 1}, GLOFND_OK, "fwrfwww");
}

/* Of more variants than there are places for records, the one that was not used for the longest time gives way. */
TEST(the_oldest_variant_gives_way) {
    assert_int_equal(GF_NN_RECORDS, 8);
    expect_alone((member){.keys = "1a1a2a2a3a4a5a6a7a8a1a9a1a2a1a"}, GLOFND_OK, "fwrpwrpwwwwwwpwpwp");
}

/* lacks: the rank without memory for a record; -1: none. All ranks must have the same notes. */
static void expect_ranks(int lacks, const char *notes) {
    gf_comm *host[RANKS];
    member m[RANKS] = {0};
    void *user[RANKS];
    thread_ranks_open(RANKS, host);
    for (int r = 0; r < RANKS; r++) {
        gf_distributed_begin(&m[r].distributed, host[r]);
        m[r].keys = "aaaabbb";
        m[r].engine.lacks_memory = r == lacks;
        user[r] = &m[r];
    }
    thread_ranks_run(RANKS, take_steps, user);
    for (int r = 0; r < RANKS; r++) {
        host[r]->ops->close(host[r]);
        assert_int_equal(m[r].status, GLOFND_OK);
        assert_string_equal(m[r].engine.notes, notes);
    }
}

TEST(all_ranks_play_or_none) {
    expect_ranks(-1, "fwrpppfwrpp");
    for (int r = 0; r < RANKS; r++) expect_ranks(r, "fwrfwwwfwww");
}

typedef struct answer {
    gf_comm *host;
    int64_t length;
    glofnd_status status;
} answer;

static void *ask_for_the_largest(void *user) {
    answer *a = user;
    gf_error err = {""};
    gf_distributed d;
    gf_encoders none = {0};
    const gf_config on_cpu = {0};
    gf_distributed_begin(&d, a->host);
    a->status = gf_distributed_connect(&err, &d, &none, &on_cpu);
    if (a->status == GLOFND_OK) a->status = d.hooks.largest(&err, d.hooks.user, &a->length);
    gf_distributed_free(&d, &none);
    return NULL;
}

/* Lengths of texts: all ranks compute the largest. */
TEST(ranks_agree_on_the_largest) {
    for (int largest = 0; largest < RANKS; largest++) {
        gf_comm *host[RANKS];
        answer a[RANKS];
        void *user[RANKS];
        thread_ranks_open(RANKS, host);
        for (int r = 0; r < RANKS; r++) a[r] = (answer){.host = host[r], .length = r == largest ? 22 : 9 + r}, user[r] = &a[r];
        thread_ranks_run(RANKS, ask_for_the_largest, user);
        for (int r = 0; r < RANKS; r++) {
            host[r]->ops->close(host[r]);
            assert_int_equal(a[r].status, GLOFND_OK);
            assert_int_equal(a[r].length, 22);
        }
    }
}

/* The others may be inside a call that waits for this rank: it must not wait for them. */
static glofnd_status sum_never(gf_error *err, gf_comm *c, double *x, int64_t n) {
    (void)err, (void)c, (void)x, (void)n;
    fail_msg("a rank whose work has failed waits for the others");
    return GLOFND_OK;
}

TEST(a_failure_is_reported_at_once) {
    const gf_comm_ops kind = {.name = "test", .sum = sum_never};
    gf_comm host = {.ops = &kind, .ranks = 2};
    member m = {.keys = "aaa", .engine.fails = 1};
    gf_distributed_begin(&m.distributed, &host);
    take_steps(&m);
    assert_int_equal(m.status, GLOFND_E_DEVICE);
    assert_string_equal(m.err.text, "the work failed");
    assert_string_equal(m.engine.notes, "fwr");
}

/* They share a device, and its one record. */
TEST(nets_beside_each_other_share_the_record) {
    gf_error err = {""};
    gf_nn_engine engine = {0};
    gf_net *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
    assert_true(first && second);
    first->backend = second->backend = &notebook;
    first->engine = second->engine = &engine;
    second->spec.engine_owner = first;
    for (int i = 0; i < 4; i++) assert_int_equal(gf_net_replay(&err, i % 2 ? second : first, 7, 0, work, &engine), GLOFND_OK);
    gf_net_forget(second);
    assert_int_equal(gf_net_replay(&err, first, 7, 0, work, &engine), GLOFND_OK);
    assert_string_equal(engine.notes, "fwrpppfw");
    free(first), free(second);
}
