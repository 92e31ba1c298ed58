/* dist.c - which ranks there are, and how they stop together; see dist.h. */
#include "dist/dist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/transports.h"

int gf_dist_launched(char *(*look)(const char *name)) {
    static const char *const traces[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (look(traces[i])) return 1;
    /* srun without --mpi=pmix: MPI will say so. No run should start once for each task. */
    const char *tasks = look("SLURM_STEP_NUM_TASKS");
    return tasks && strcmp(tasks, "1") != 0;
}

glofnd_status gf_dist_open(gf_error *err, gf_ranks kind, int launched, gf_comm **out) {
    *out = NULL;
    if (kind == GF_RANKS_SINGLE || (kind == GF_RANKS_AUTO && !launched)) return gf_single_open(err, out);
    return gf_mpi_open(err, out);
}

void gf_dist_close(gf_comm *c) {
    if (c) c->kind->close(c);
}

void gf_dist_abort(gf_comm *c, int code) {
    if (c && c->ranks > 1) gf_mpi_abort(code);
}

glofnd_status gf_dist_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    return c->ranks > 1 ? gf_mpi_watch(err, c, seconds, lost, user) : GLOFND_OK;
}

void gf_dist_describe(char *text, size_t bytes) { gf_mpi_describe(text, bytes); }

/* ----- together ----- */

glofnd_status gf_comm_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    return c->kind->gather(err, c, part, bytes, all);
}

glofnd_status gf_comm_barrier(gf_error *err, gf_comm *c) {
    double nothing = 0.0;
    return c->kind->sum(err, c, &nothing, 1);
}

typedef struct verdict {
    int32_t status;
    gf_error error;
} verdict;

static glofnd_status judge(gf_error *err, const gf_comm *c, const verdict *all, glofnd_status mine) {
    for (int r = 0; r < c->ranks; r++)
        if (all[r].status != GLOFND_OK) {
            if (c->ranks == 1) return mine;                  /* its text stands as it is */
            if (strncmp(all[r].error.text, "rank ", 5) == 0) /* it says which one already */
                return gf_fail(err, (glofnd_status)all[r].status, "%s", all[r].error.text);
            return gf_fail(err, (glofnd_status)all[r].status, "rank %d: %.480s", r, all[r].error.text);
        }
    return GLOFND_OK;
}

glofnd_status gf_comm_agree(gf_error *err, gf_comm *c, glofnd_status mine) {
    verdict own = {.status = (int32_t)mine};
    if (mine != GLOFND_OK) own.error = *err;
    verdict *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = c->kind->gather(err, c, &own, sizeof own, all);
    if (status == GLOFND_OK) status = judge(err, c, all, mine);
    free(all);
    return status;
}

glofnd_status gf_comm_same(gf_error *err, gf_comm *c, const char *what, uint64_t hash) {
    uint64_t *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = c->kind->gather(err, c, &hash, sizeof hash, all);
    for (int r = 1; r < c->ranks && status == GLOFND_OK; r++)
        if (all[r] != all[0])
            status =
                gf_fail(err, GLOFND_E_ARGUMENT, "rank %d has another %s than rank 0: all ranks must be started alike", r, what);
    free(all);
    return status;
}

glofnd_status gf_comm_greet(gf_error *err, gf_comm *c) {
    enum { BYTES = 256 };
    char own[BYTES];
    snprintf(own, sizeof own, "%s", glofnd_build_info());
    char *all = calloc((size_t)c->ranks, BYTES);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = gf_comm_gather(err, c, own, sizeof own, all);
    for (int r = 1; r < c->ranks && status == GLOFND_OK; r++)
        if (strcmp(all, all + (size_t)r * BYTES) != 0)
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "rank %d has another build of glofnd, or another kind of CPU, than rank 0: "
                             "\"%.160s\", not \"%.160s\"",
                             r, all + (size_t)r * BYTES, all);
    free(all);
    return status;
}
