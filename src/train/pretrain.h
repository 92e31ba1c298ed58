/* pretrain.h - the loop around the step: run folder, resume, logs, checkpoints, interruption. */
#ifndef GF_TRAIN_PRETRAIN_H
#define GF_TRAIN_PRETRAIN_H

#include <stdatomic.h>

#include "ifc/comm.h"
#include "run/config.h"

typedef struct gf_pretrain {
    gf_config config;       /* not yet resolved */
    const char *run;        /* folder, made if missing */
    int resume;             /* go on after the newest complete checkpoint, if there is one */
    const char *config_was; /* resume: "lost" or "cut", of RUN/config.cfg (gf_resume_read); NULL: it is as it should be */
    int remap;              /* when resuming, also with other data: anchors follow their samples */
    int quiet;
    int plain;                     /* stderr cannot draw over a line: no progress line, but what stays */
    const atomic_int *stop;        /* set from outside, as by Ctrl-C: the run ends after a checkpoint */
    gf_comm *comm;                 /* several ranks, each of which calls gf_pretrain_run; NULL: one */
    void (*say)(const char *line); /* what a person should know: start, resume, end; may be NULL */
} gf_pretrain;

typedef enum gf_pretrain_end { GF_PRETRAIN_FINISHED, GF_PRETRAIN_STOPPED, GF_PRETRAIN_ALREADY } gf_pretrain_end;

/* Several ranks: what is found before training starts fails on all of them, with the text of the first. Later a rank may fail
 * alone; it must then end the others (gf_dist_abort). *started (may be NULL) tells which. Only the first rank writes and says. */
glofnd_status gf_pretrain_run(gf_error *err, const gf_pretrain *p, gf_pretrain_end *end, int *started);

#endif
