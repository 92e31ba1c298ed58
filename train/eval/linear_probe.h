/* linear_probe.h - linear probe: a linear classifier trained with mini-batches on frozen features; the best epoch is chosen on
 * validation features. It sees features only, so it cannot change a backbone. */
#pragma once

#include "eval/linear_classifier.h"
#include "eval/protocol.h"

typedef struct gf_probe_rows { /* training samples of an epoch */
    const gf_features *f;
    const int64_t *rows; /* [n] which rows of f; NULL: the first n */
    int64_t n;
} gf_probe_rows;

typedef struct gf_probe {
    const gf_probe_protocol *protocol;
    int64_t classes;
    int64_t epochs;
    uint64_t seed; /* of initial weights and order */
    int threads;
    /* Training rows of epoch e (from 0), valid until the next call. */
    glofnd_status (*epoch)(gf_error *err, void *user, int64_t e, gf_probe_rows *out);
    void (*progress)(void *user, int64_t done, double score); /* after every epoch; may be NULL */
    void *user;
    const gf_features *validation; /* for the best epoch and early stopping; NULL: the test features */
    const gf_features *test;
    /* results */
    int64_t epochs_run, best_epoch;     /* from 1 */
    double top1, top5, validation_top1; /* at the best epoch */
    double last_top1, last_top5;        /* after the last epoch */
} gf_probe;

/* Labels of all rows are below `classes`. E_NUMERIC: the loss is not finite. */
glofnd_status gf_probe_fit(gf_error *err, gf_probe *p);
