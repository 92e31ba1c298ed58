/* support_views.h - FNC's support set: extra views of every image of a batch, embedded without gradient. They only decide which
 * pairs are flagged (`fnc_support`). Task views; every rank embeds those of its own samples. */
#pragma once

#include "loader/loader.h"
#include "nn/net.h"

enum { GF_SUPPORT_LOADERS = 8 }; /* two views each */

typedef struct gf_support {
    int views;      /* per image; 0: none */
    int64_t images; /* of a batch */
    int64_t dim;
    gf_loader *loader[GF_SUPPORT_LOADERS];
    uint32_t epoch; /* of the next batch of the loaders; */
    int64_t step;   /* -1: unknown */
    float *rows;    /* [views][images][dim] on the host */
} gf_support;

/* main: of the loader of training; its samples in its order, with views of their own. */
glofnd_status gf_support_open(gf_error *err, gf_support *s, const gf_loader_spec *main, int views, int64_t dim);
void gf_support_close(gf_support *s); /* a zeroed one is fine */
/* Embeds the views of the batch at this step of the epoch with the present weights; running averages do not move. The net's
 * input is overwritten. */
glofnd_status gf_support_embed(gf_error *err, gf_support *s, gf_net *net, uint32_t epoch, int64_t step);
