/* claims.c - see claims.h. */
#include "discover/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/text.h"

glofnd_status gf_claims_open(gf_error *err, gf_claims *c, const char *folder, int64_t units, double patience) {
    *c = (gf_claims){.folder = folder, .patience = patience, .fd = -1};
    c->seen = calloc((size_t)units + 1, sizeof *c->seen);
    FAIL_IF(err, !c->seen, GLOFND_E_MEMORY, "no memory for the claims of %lld units", (long long)units);
    return GLOFND_OK;
}

/* 1: nobody has touched this claim for as long as this process is patient. */
static int is_abandoned(const gf_claims *c, const char *path, gf_claim_seen *seen) {
    struct stat st;
    if (stat(path, &st) != 0) return 0; /* dropped just now */
    const int same = seen->since > 0.0 && seen->file == st.st_ino && seen->touched.tv_sec == st.st_mtim.tv_sec &&
                     seen->touched.tv_nsec == st.st_mtim.tv_nsec;
    if (!same) *seen = (gf_claim_seen){st.st_ino, st.st_mtim, gf_clock()};
    return same && gf_clock() - seen->since > c->patience;
}

int gf_claim(gf_error *err, gf_claims *c, const char *kind, int64_t unit) {
    char name[48];
    snprintf(name, sizeof name, "claim-%s-%06lld", kind, (long long)unit);
    if (gf_path_join(err, c->path, c->folder, name) != GLOFND_OK) return -1;
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    c->fd = gf_open(c->path, flags, 0666);
    if (c->fd < 0 && errno == EEXIST && is_abandoned(c, c->path, &c->seen[unit])) {
        unlink(c->path);
        c->fd = gf_open(c->path, flags, 0666);
    }
    if (c->fd < 0 && errno != EEXIST) {
        gf_fail(err, GLOFND_E_IO, "%.300s cannot be written: %s", c->path, strerror(errno));
        return -1;
    }
    c->renewed = gf_clock();
    return c->fd >= 0;
}

void gf_claim_renew(gf_claims *c) {
    const double now = gf_clock();
    if (c->fd < 0 || now - c->renewed < GF_MIN(5.0, c->patience / 8.0)) return;
    c->renewed = now;
    futimens(c->fd, NULL); /* if that fails, the unit is made twice */
}

void gf_claim_drop(gf_claims *c) {
    struct stat own, there;
    if (c->fd < 0) return;
    /* Another process may have taken it over. */
    if (fstat(c->fd, &own) == 0 && stat(c->path, &there) == 0 && own.st_ino == there.st_ino) unlink(c->path);
    gf_close(c->fd);
    c->fd = -1;
}

void gf_claims_close(gf_claims *c) {
    if (c->seen) gf_claim_drop(c);
    free(c->seen);
    *c = (gf_claims){.fd = -1};
}
