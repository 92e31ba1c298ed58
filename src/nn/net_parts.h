/* net_parts.h - a net from inside: for the files of this folder. */
#ifndef GF_NN_NET_PARTS_H
#define GF_NN_NET_PARTS_H

#include "nn/graph.h"

struct gf_net {
    gf_net_spec spec;
    const gf_nn_backend *backend;
    gf_nn_engine *engine; /* its own, or that of spec.beside */
    gf_graph graph;
    char *arena;
    float *values, *stats, *grads;
    float *staging;     /* device: images as they came; NULL: none yet */
    gf_tensor *tensors; /* parameters, then buffers */
    int threads;
    int stale;                         /* packed weights are older than the parameters */
    int64_t final_from[GF_MAX_LAYERS]; /* several ranks: once layer i is followed back, gradients from here on are final */
    int64_t told_from;                 /* of them, those the ranks know of */
    int told_layer;                    /* and the layer they were told after */
    int ready;                         /* activations of a training forward are there for backward */
    struct {                           /* of its engine; nets beside this one use it */
        uint64_t key;
        int times; /* the present key came */
        int none;  /* there is never a record: it was tried */
    } replay;
};

int gf_spec_is_resnet(const gf_net_spec *s); /* torchvision's, or resnet8 */
int gf_spec_is_tower(const gf_net_spec *s);  /* gives an embedding */
/* sync_norm.c: statistics of a batch norm over the images of all ranks, forward and backward; gradients that are final. */
glofnd_status gf_net_norm_stats(gf_error *err, gf_net *n, const gf_nn_norm *norm);
glofnd_status gf_net_norm_back_stats(gf_error *err, gf_net *n, const gf_nn_norm *norm);
void gf_net_find_final(gf_net *n);
void gf_net_tell_begin(gf_net *n);
glofnd_status gf_net_tell_final(gf_error *err, gf_net *n, int layer); /* it has been followed back */
int gf_net_tells(const gf_net *n);                                    /* whether anybody wants to know */
typedef struct gf_packed {                                            /* ops with packed weights, in the order of layers */
    const gf_nn_args *args[GF_MAX_LAYERS];
    gf_nn_op *op[GF_MAX_LAYERS];
    int count;
} gf_packed;
/* first: of them, those before layer `from`; last: before layer `to`. */
void gf_net_packed(const gf_net *n, gf_packed *out, int from, int to, int *first, int *last);
glofnd_status gf_net_check(gf_error *err, const gf_net_spec *s);

#endif
