/* turns.h - a benchmark program of training steps (training.h), which PyTorch takes in turns, so that both see the same machine.
 */
#pragma once

#include "support/clock.h"
#include "support/machine.h"
#include "support/training.h"

#define TURNS_CASES 4 /* two nets, each in fp32 and in bf16 */

typedef struct turns_side { /* ours, or PyTorch's */
    clock_times all, part[TRAINING_PARTS];
} turns_side;

typedef struct turns_result {
    turns_side ours, torch; /* torch.all.count is 0 where there is none */
    char version[32];       /* of PyTorch */
    size_t bytes;
    float loss;
} turns_result;

typedef struct turns_program {
    const char *name, *about; /* about: lines of --help before the options */
    const training_kind *kind;
    training_case cases[TURNS_CASES];
    int steps;                      /* to time, unless --steps is given */
    int has_batch;                  /* --batch N for all cases */
    const char *script, *needs;     /* of tools/; what has to be installed for it */
    const char *net_flag, *more[2]; /* its argument for the net, and one more; NULL: none */
    void (*heading)(void);
    void (*rows)(const training_case *c, turns_result *r);
    void (*json)(const training_case *c, turns_result *r, const machine *m, int threads);
} turns_program;

int turns_main(const turns_program *p, int argc, char **argv); /* what main returns */

double turns_time(clock_times *t);   /* the median; the least with --cpu-time */
double turns_ratio(turns_result *r); /* PyTorch's time by ours */
