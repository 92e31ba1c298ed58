/* run_state.h - the state of a run that evaluations read: weights and thresholds of one and the same step.
 *
 * The newest complete checkpoint is the state; RUN/model.safetensors is read in its place where both have the same bytes, and
 * without a checkpoint. Checksums are compared: those of DONE, and the one that a model carries itself.
 */
#pragma once

#include "util/path.h"
#include "util/status.h"

typedef struct gf_run_state {
    int64_t step;              /* -1: unknown, a model of an earlier version without a checkpoint */
    int64_t vocabulary;        /* CRC of vocab.txt that the model states, where there is no checkpoint to ask; -1: none */
    char weights[PATH_MAX];    /* file to read */
    char checkpoint[PATH_MAX]; /* folder of thresholds and vocabulary; "": none */
    char note[600];            /* what a user should know; "": nothing */
} gf_run_state;

/* E_IO: there are no weights, or that cannot be known. E_FORMAT: they are corrupt. */
glofnd_status gf_run_state_find(gf_error *err, const char *run, gf_run_state *out);
/* 1: training has replaced the state since: reading may have failed for that reason, and can be tried again. */
int gf_run_state_changed(const char *run, const gf_run_state *s);
