/* claims.h - units that several processes share in a folder: who works on which.
 *
 *     gf_claims_open(err, &c, folder, units, 120.0);
 *     if (gf_claim(&c, "pairs", 12)) { ...work, gf_claim_renew(&c) now and then...; gf_claim_drop(&c); }
 * A claim is a file that its owner touches while it works. One that nobody touches for `patience` seconds belongs to a process that is
 * gone, and is taken over. A claim only saves work: two processes that make the same unit write the same bytes. So no clocks are
 * compared, and no locks are needed.
 */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "util/status.h"

typedef struct gf_claim_seen { /* a claim of another process */
    ino_t file;
    struct timespec touched;
    double since; /* clock at which it was first seen so; 0: not seen */
} gf_claim_seen;

typedef struct gf_claims {
    const char *folder;
    double patience;     /* seconds */
    gf_claim_seen *seen; /* [units] */
    int fd;              /* of the own claim; -1: none */
    char path[PATH_MAX]; /* of it */
    double renewed;      /* clock */
} gf_claims;

glofnd_status gf_claims_open(gf_error *err, gf_claims *c, const char *folder, int64_t units, double patience);
/* 1: this process may work on the unit, and has claimed it; one claim at a time. 0: another process works on it. E_IO, as -1: no claim can
 * be written, and err says why. */
int gf_claim(gf_error *err, gf_claims *c, const char *kind, int64_t unit);
/* Touches the own claim, if that is due. */
void gf_claim_renew(gf_claims *c);
/* The unit is done, or given up. */
void gf_claim_drop(gf_claims *c);
void gf_claims_close(gf_claims *c); /* a zeroed one is fine */
