/* dist.c - detection of ranks, the transport of a single one, agreement between them; see dist.h. */
#include "dist/dist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/mpi_transport.h"

/* ----- a single rank ----- */

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    (void)err, (void)c;
    if (all != part) memcpy(all, part, bytes);
    return GLOFND_OK;
}

static glofnd_status exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                              const size_t *recv_bytes) {
    FAIL_IF(err, send_bytes[0] != recv_bytes[0], GLOFND_E_ARGUMENT, "%zu bytes sent, %zu expected", send_bytes[0], recv_bytes[0]);
    return gather(err, c, send, send_bytes[0], recv);
}

static glofnd_status sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    (void)err, (void)c, (void)x, (void)n;
    return GLOFND_OK;
}

static glofnd_status sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    (void)err, (void)c, (void)x, (void)n;
    return GLOFND_OK;
}

static glofnd_status open_single(gf_error *err, gf_comm **out);

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    (void)c;
    return open_single(err, out);
}

static void close_single(gf_comm *c) { free(c); }

static const gf_comm_ops single_ops = {"single", gather, exchange, sum, sum_floats, duplicate, close_single, NULL, NULL};

static glofnd_status open_single(gf_error *err, gf_comm **out) {
    gf_comm *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for a rank");
    *c = (gf_comm){.ops = &single_ops, .ranks = 1};
    *out = c;
    return GLOFND_OK;
}

/* ----- opening ----- */

int gf_dist_launched(char *(*get_variable)(const char *name)) {
    static const char *const traces[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (get_variable(traces[i])) return 1;
    /* srun without --mpi=pmix: MPI reports it. Otherwise every task would start a run of its own. */
    const char *tasks = get_variable("SLURM_STEP_NUM_TASKS");
    return tasks && strcmp(tasks, "1") != 0;
}

glofnd_status gf_dist_open(gf_error *err, gf_ranks ranks, int launched, gf_comm **out) {
    *out = NULL;
    if (ranks == GF_RANKS_SINGLE || (ranks == GF_RANKS_AUTO && !launched)) return open_single(err, out);
    return gf_mpi_open(err, out);
}

void gf_dist_close(gf_comm *c) {
    if (c) c->ops->close(c);
}

void gf_dist_abort(gf_comm *c, int code) {
    if (c && c->ranks > 1) gf_mpi_abort(code);
}

glofnd_status gf_dist_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    return c->ranks > 1 ? gf_mpi_watch(err, c, seconds, lost, user) : GLOFND_OK;
}

void gf_dist_describe(char *text, size_t bytes) { gf_mpi_describe(text, bytes); }

/* ----- agreement ----- */

glofnd_status gf_comm_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    return c->ops->gather(err, c, part, bytes, all);
}

typedef struct outcome {
    int32_t status;
    gf_error error;
} outcome;

static glofnd_status first_failure(gf_error *err, const gf_comm *c, const outcome *all, glofnd_status mine) {
    for (int r = 0; r < c->ranks; r++)
        if (all[r].status != GLOFND_OK) {
            if (c->ranks == 1) return mine;                  /* err has its text */
            if (strncmp(all[r].error.text, "rank ", 5) == 0) /* it names a rank already */
                return gf_fail(err, (glofnd_status)all[r].status, "%s", all[r].error.text);
            return gf_fail(err, (glofnd_status)all[r].status, "rank %d: %.480s", r, all[r].error.text);
        }
    return GLOFND_OK;
}

glofnd_status gf_comm_agree(gf_error *err, gf_comm *c, glofnd_status mine) {
    outcome own = {.status = (int32_t)mine};
    if (mine != GLOFND_OK) own.error = *err;
    outcome *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = c->ops->gather(err, c, &own, sizeof own, all);
    if (status == GLOFND_OK) status = first_failure(err, c, all, mine);
    free(all);
    return status;
}

glofnd_status gf_comm_check_equal(gf_error *err, gf_comm *c, const char *what, uint64_t hash) {
    uint64_t *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = c->ops->gather(err, c, &hash, sizeof hash, all);
    for (int r = 1; r < c->ranks && status == GLOFND_OK; r++)
        if (all[r] != all[0])
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "rank %d has a different %s from rank 0; start all ranks with the same settings", r, what);
    free(all);
    return status;
}

glofnd_status gf_comm_check_builds(gf_error *err, gf_comm *c) {
    enum { BYTES = 256 };
    char own[BYTES];
    snprintf(own, sizeof own, "%s", glofnd_build_info());
    char *all = calloc((size_t)c->ranks, BYTES);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = gf_comm_gather(err, c, own, sizeof own, all);
    for (int r = 1; r < c->ranks && status == GLOFND_OK; r++)
        if (strcmp(all, all + (size_t)r * BYTES) != 0)
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "rank %d has a different build of glofnd, or a different type of CPU, from rank 0: "
                             "\"%.160s\", not \"%.160s\"",
                             r, all + (size_t)r * BYTES, all);
    free(all);
    return status;
}
