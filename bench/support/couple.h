/* couple.h - two towers in training on the CPU, one of images and one of texts: all that a step needs, and its time by parts. */
#ifndef BENCH_COUPLE_H
#define BENCH_COUPLE_H

#include "glofnd.h"
#include "nn/net.h"
#include "optim/optim.h"

typedef struct couple_case {
    const char *image;          /* "vitb32" or "rn50" (CLIP's); beside it CLIP's text transformer, 12 layers of 512 */
    int batch;                  /* pairs */
    const char *precision_name;
    gf_precision precision;
} couple_case;

enum { COUPLE_IMAGE, COUPLE_TEXT, COUPLE_LOSS, COUPLE_OPTIMIZER, COUPLE_PARTS };        /* a tower: forward and backward */
extern const char *const couple_part_names[COUPLE_PARTS];       /* as tools/bench_torch_clip.py has them, too */

typedef struct couple {
    gf_net *net[2];             /* image, text */
    gf_optim *optim;
    glofnd_ctx *ctx;
    glofnd_store *store;
    float *x, *grad[2];         /* [batch][224][224][3]; [batch][dim] */
    int64_t *id;
    int64_t batch, dim;
    int64_t steps;              /* taken */
    float loss;
    double part_ms[COUPLE_PARTS];
} couple;

void couple_init(couple *t, const couple_case *c, int threads);        /* dies without memory, or nets */
double couple_step(couple *t);                                          /* ms */
size_t couple_bytes(const couple *t);                                   /* of the nets and the optimizer */
void couple_free(couple *t);

#endif
