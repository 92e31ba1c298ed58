/* trainee.h - an encoder in training: everything a step needs, and the time of a step by its parts. */
#ifndef BENCH_TRAINEE_H
#define BENCH_TRAINEE_H

#include "glofnd.h"
#include "nn/net.h"
#include "optim/sgd.h"
#include "support/machine.h"

typedef struct trainee_case {
    const char *arch_name;
    gf_arch arch;
    int size, batch;            /* pixels; samples of two views */
    const char *precision_name;
    gf_precision precision;
} trainee_case;

enum { TRAINEE_CONV, TRAINEE_DATA, TRAINEE_WEIGHTS, TRAINEE_NORM, TRAINEE_REST, TRAINEE_LOSS, TRAINEE_OPTIMIZER, TRAINEE_PARTS };
extern const char *const trainee_part_names[TRAINEE_PARTS];

typedef struct trainee {
    const trainee_case *c;
    gf_net *net;
    glofnd_ctx *ctx;
    glofnd_store *store;
    float *x, *grad, *momentum; /* [2 batch][size][size][3]; [2 batch][128]; as the parameters */
    int64_t *id;
    gf_param *params;
    int count;                  /* of params */
    float loss;
    double part_ms[TRAINEE_PARTS];
} trainee;

void trainee_init(trainee *t, const trainee_case *c, int threads);     /* dies without memory, or nets */
double trainee_step(trainee *t);                                        /* ms */
size_t trainee_bytes(const trainee *t);                                 /* of the net and the optimizer */
void trainee_free(trainee *t);
void trainee_heading(const machine *m, int threads);                    /* two lines: the machine, and what nets run on */

#endif
