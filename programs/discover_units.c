/* discover_units.c - `glofnd discover` of embeddings that do not fit into memory, with parts on disk from which it continues, and
 * over several ranks; see discover_job.h and discover/units.h. */
#include "programs/discover_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/comm.h"
#include "dist/dist.h"
#include "util/array.h"

/* ----- ranks ----- */

static glofnd_status agree_over_ranks(gf_error *err, void *user, glofnd_status mine) {
    const cli_discover_job *j = user;
    return gf_comm_agree(err, j->comm, mine);
}

int cli_units_rank(const cli_discover_job *j) { return j->comm ? j->comm->rank : 0; }

static int several_ranks(const cli_discover_job *j) { return j->comm && j->comm->ranks > 1; }

/* A rank is lost: other threads may wait for it forever. Reporting may wait for its machine, too: the alarm ends this rank. */
static void end_lost(void *user, const char *text) {
    const cli_discover_job *j = user;
    gf_error err;
    alarm(10);
    cli_failed("discover", gf_fail(&err, GLOFND_E_IO, "%s", text), &err);
    if (j->unit_folder[0])
        gf_print(stderr, "glofnd discover: finished parts are in %s: the same command continues\n", j->unit_folder);
    gf_dist_abort(j->comm, CLI_FAILED);
    _exit(CLI_FAILED);
}

static glofnd_status join_ranks(gf_error *err, cli_discover_job *j, gf_join *join) {
    TRY(gf_dist_open(err, GF_RANKS_AUTO, 1, &j->comm));
    if (cli_units_rank(j) > 0) j->quiet = 1;
    gf_join_reach(join, GF_JOIN_CHECKED);
    if (!several_ranks(j)) return GLOFND_OK;
    TRY(gf_comm_check_builds(err, j->comm));
    return gf_dist_watch(err, j->comm, j->f->rank_timeout, end_lost, j);
}

glofnd_status cli_units_open(gf_error *err, cli_discover_job *j) {
    gf_join *join = NULL;
    if (!gf_dist_launched(getenv)) return GLOFND_OK;
    TRY(gf_join_begin(err, j->f->rank_timeout, getenv, end_lost, j, &join));
    const glofnd_status status = join_ranks(err, j, join);
    gf_join_end(join);
    if (status != GLOFND_OK || !j->f->device || strcmp(j->f->device, "cuda") != 0) return status;
    const gf_comm *c = j->comm;
    int sharing = 1;
    TRY(cli_units_agree(err, j, gf_device_share(err, c->local_rank, c->local_ranks, &sharing)));
    if (sharing > 1 && !j->quiet) gf_print(stderr, "glofnd discover: %d ranks share a GPU, and its memory\n", sharing);
    return GLOFND_OK;
}

void cli_units_close(cli_discover_job *j) {
    gf_dist_close(j->comm);
    j->comm = NULL;
}

glofnd_status cli_units_agree(gf_error *err, const cli_discover_job *j, glofnd_status mine) {
    return several_ranks(j) ? gf_comm_agree(err, j->comm, mine) : mine;
}

/* ----- rows ----- */

static glofnd_status read_set(gf_error *err, void *user, int64_t first, int64_t rows, float *x) {
    const cli_discover_job *j = user;
    return gf_embeddings_read(err, j->set, first, rows, x);
}

static void report_units(void *user, int64_t units, int64_t done, int64_t chunks) {
    const cli_discover_job *j = user;
    if (j->quiet) return;
    gf_print(stderr, "%lld x %lld in %lld units", (long long)j->d.n, (long long)j->d.dim, (long long)units);
    if (done > 0) gf_print(stderr, ", of which %lld are already in %s", (long long)done, j->unit_folder);
    if (chunks == 0)
        gf_print(stderr, "; rows in the order of cells take %.2f GB in %s", 4e-9 * (double)j->d.good_n * (double)j->d.dim,
                 j->unit_folder);
    if (chunks > 1) gf_print(stderr, "; embeddings are read in %lld chunks for each", (long long)chunks);
    if (several_ranks(j)) gf_print(stderr, "; %d ranks", j->comm->ranks);
    gf_print(stderr, "\n");
}

/* Why rows must be in memory; NULL: they need not. */
static const char *obstacle(const cli_discover_job *j) {
    if (j->run) return "the images of a run";
    if (j->f->from) return "--from";
    if (j->f->query) return "--query";
    if (j->s.learned) return "--learned";
    return NULL;
}

glofnd_status cli_units_refuse(gf_error *err, const cli_discover_job *j, const char *why) {
    FAIL_IF(err, why && several_ranks(j), GLOFND_E_OPTION, "%s: not over several ranks; start it without mpirun", why);
    FAIL_IF(err, why && j->f->resume, GLOFND_E_OPTION, "--resume does not go with %s", why);
    return GLOFND_OK;
}

static void name_folder(cli_discover_job *j) {
    size_t n = strlen(j->f->out);
    while (n > 1 && j->f->out[n - 1] == '/') n--;
    snprintf(j->unit_folder, sizeof j->unit_folder, "%.*s.partial", (int)(n < PATH_MAX - 16 ? n : PATH_MAX - 16), j->f->out);
}

void cli_units_clean(cli_discover_job *j) {
    if (!j->f->resume || !gf_discover_kind.is_result(j->f->out)) return;
    name_folder(j);
    gf_unit_folder_remove(j->unit_folder);
}

/* Bytes that a search in memory takes. Lists of a search of all pairs can be made in two passes; those of probed cells cannot. */
static double bytes_in_memory(const cli_discover_job *j) {
    const int64_t n = gf_embeddings_rows(j->set), dim = gf_embeddings_dim(j->set);
    int64_t rank = 0;
    if (!j->s.task.probe || gf_discover_rank(NULL, &j->s, n, &rank) != GLOFND_OK) return 4.0 * (double)n * (double)dim;
    const gf_pairs_plan p = gf_discover_plan_for(&j->s, n, dim, rank);
    return (double)p.rows + (double)p.lists;
}

glofnd_status cli_units_choose(gf_error *err, cli_discover_job *j) {
    const char *why = obstacle(j);
    TRY(cli_units_refuse(err, j, why));
    j->in_units = !why && (several_ranks(j) || j->f->resume || bytes_in_memory(j) > (double)j->s.task.memory);
    if (!j->in_units) return GLOFND_OK;
    /* What is known of each row stays in memory, beside the chunks of --memory. */
    const int64_t n = gf_embeddings_rows(j->set);
    const double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double known = (double)gf_pairs_found_bytes(n, GF_MIN(j->s.task.top, n - 1)) + 40.0 * (double)n;
    cli_amount_text a, b;
    FAIL_IF(err, machine > 0.0 && known > machine, GLOFND_E_MEMORY,
            "the result of %lld rows takes %s of memory, this machine has %s; lower --top, or search in parts", (long long)n,
            cli_amount(a, known), cli_amount(b, machine));
    if (!j->quiet)
        gf_print(stderr, "%lld x %lld: %s of memory for the result, and at most %s at a time of the embeddings\n", (long long)n,
                 (long long)gf_embeddings_dim(j->set), cli_amount(a, known), cli_amount(b, (double)j->s.task.memory));
    name_folder(j);
    j->units = (gf_units){
        .folder = j->unit_folder,
        .source = {.read = read_set, .user = j, .n = gf_embeddings_rows(j->set), .dim = gf_embeddings_dim(j->set)},
        .force = j->f->force,
        .rank = cli_units_rank(j),
        .ranks = j->comm ? j->comm->ranks : 1,
        .agree = several_ranks(j) ? agree_over_ranks : NULL,
        .report = report_units,
        .user = j,
    };
    j->decide.rows = &j->units.source;
    return GLOFND_OK;
}
