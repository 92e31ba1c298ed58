/* check_ranks.c - see check_ranks.h. */
#include "loop/check_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/file.h"

static uint64_t hash_of(const char *text, uint64_t h) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static uint64_t start_of_hash(void) { return 0xcbf29ce484222325u; }

/* ----- configuration ----- */

/* *key: of option i; NULL at the end. */
static uint64_t value_hash(const gf_config *c, int i, const char **key) {
    char value[1100];
    *key = gf_config_value(c, i, value, sizeof value);
    return *key ? hash_of(value, hash_of(*key, start_of_hash())) : 0;
}

static uint64_t config_hash(const gf_config *c) {
    const char *key = "";
    uint64_t h = 0;
    for (int i = 0; key; i++) h = h * 31 + value_hash(c, i, &key);
    return h;
}

/* One message if all are equal; else one per key, on every rank, to find the key that differs. */
static glofnd_status same_config(gf_error *err, gf_comm *c, const gf_config *config) {
    const char *key;
    if (gf_comm_check_equal(err, c, "configuration", config_hash(config)) == GLOFND_OK) return GLOFND_OK;
    for (int i = 0; gf_config_option(i, &(int){0}); i++) {
        char what[80];
        const uint64_t hash = value_hash(config, i, &key);
        snprintf(what, sizeof what, "value of '%s'", key);
        TRY(gf_comm_check_equal(err, c, what, hash));
    }
    return GLOFND_E_ARGUMENT; /* the transport failed: its text is in err */
}

/* Hash of the first and last keys. */
static uint64_t data_hash(const gf_dataset *d) {
    const int64_t n = gf_dataset_describe(d).n;
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < 1024 && i < n; i++) h = (h ^ gf_dataset_key(d, i) ^ gf_dataset_key(d, n - 1 - i)) * 0x100000001b3u;
    return h;
}

glofnd_status gf_check_ranks_equal(gf_error *err, gf_comm *c, const gf_trainer *t, const char *from) {
    TRY(same_config(err, c, &t->config));
    TRY(gf_comm_check_equal(err, c, "dataset", data_hash(t->data)));
    TRY(gf_comm_check_equal(err, c, "file of groups", gf_sample_groups_hash(&t->groups)));
    return gf_comm_check_equal(err, c, "newest checkpoint", hash_of(from, start_of_hash()));
}

/* ----- folder ----- */

/* The same new name on all ranks: from the first rank's clock. */
static glofnd_status name_probe(gf_error *err, gf_comm *c, const char *run, char path[PATH_MAX]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t own = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    const glofnd_status status = gf_comm_gather(err, c, &own, sizeof own, all);
    const int n = snprintf(path, PATH_MAX, "%s/" GF_RANKS_PROBE "%016llx", run, (unsigned long long)all[0]);
    free(all);
    TRY(status);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    return GLOFND_OK;
}

static glofnd_status make_probe(gf_error *err, const char *path) {
    const int fd = gf_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FAIL_IF(err, fd < 0, GLOFND_E_IO, "%s cannot be written: %s", path, strerror(errno));
    close(fd);
    return GLOFND_OK;
}

static glofnd_status find_probe(gf_error *err, const char *run, const char *path) {
    FAIL_IF(err, access(run, F_OK) != 0, GLOFND_E_IO, "%s is missing: all machines must share the run folder of rank 0", run);
    FAIL_IF(err, access(path, F_OK) != 0, GLOFND_E_IO,
            "%s is a different folder from that of rank 0: all machines must share the run folder", run);
    FAIL_IF(err, access(run, W_OK | X_OK) != 0, GLOFND_E_IO, "%s cannot be written to: %s", run, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_check_ranks_folder(gf_error *err, gf_comm *c, const char *run) {
    char path[PATH_MAX];
    TRY(gf_comm_agree(err, c, name_probe(err, c, run, path)));
    TRY(gf_comm_agree(err, c, c->rank == 0 ? make_probe(err, path) : GLOFND_OK));
    const glofnd_status status = gf_comm_agree(err, c, c->rank == 0 ? GLOFND_OK : find_probe(err, run, path));
    if (c->rank == 0) unlink(path);
    return status;
}
