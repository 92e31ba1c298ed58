/* net_parts.h - a net from inside: for the files of this folder. */
#ifndef GF_NN_NET_PARTS_H
#define GF_NN_NET_PARTS_H

#include "nn/graph.h"

struct gf_net {
    gf_net_spec spec;
    const gf_nn_backend *backend;
    gf_nn_engine *engine;       /* its own, or that of spec.beside */
    gf_graph graph;
    char *arena;
    float *values, *stats, *grads;
    float *staging;             /* device: images as they came; NULL: none yet */
    gf_tensor *tensors;         /* parameters, then buffers */
    int threads;
    int stale;                  /* packed weights are older than the parameters */
    int ready;                  /* activations of a training forward are there for backward */
};

int gf_spec_is_resnet(const gf_net_spec *s);    /* torchvision's, or resnet8 */
int gf_spec_is_tower(const gf_net_spec *s);     /* gives an embedding */
glofnd_status gf_net_check(gf_error *err, const gf_net_spec *s);

#endif
