/* net_parts.h - the inside of a net, for the files of this folder. */
#pragma once

#include "nn/graph.h"

struct gf_net {
    gf_net_spec spec;
    const gf_nn_backend *backend;
    gf_nn_engine *engine; /* its own, or that of spec.engine_owner */
    gf_graph graph;
    char *arena;
    float *values, *stats, *grads;
    float *staging;     /* device: images as they came; NULL: none yet */
    gf_tensor *tensors; /* parameters, then buffers */
    int threads;
    int stale;                         /* packed weights are older than the parameters */
    int64_t final_from[GF_MAX_LAYERS]; /* several ranks: after the backward of layer i, gradients from here on are final */
    int64_t reported_from;             /* of them, those reported to the ranks */
    int reported_layer;                /* and the layer after which they were */
    int ready;                         /* activations of a training forward wait for backward */
    int32_t *tokens;                   /* TEXT: [batch][context] as loaded, on the host */
    int32_t *packed;                   /* TEXT: what goes to the net, on the host: texts.c */
    struct {                           /* of its engine; nets that share it use it, too */
        uint64_t key;
        int none; /* recording failed: never again */
        int64_t now;
        struct {
            int64_t variant, used; /* used: when last; 0: never */
            int times;             /* that it came */
            int made;
        } slot[GF_NN_RECORDS];
    } replay;
};

int gf_spec_is_resnet(const gf_net_spec *s);     /* torchvision's, or resnet8 */
int gf_spec_has_embedding(const gf_net_spec *s); /* an encoder for image-text training */
/* sync_norm.c: statistics of a batch norm over the images of all ranks, forward and backward; gradients that are final. */
glofnd_status gf_net_norm_stats(gf_error *err, gf_net *n, const gf_nn_norm *norm);
glofnd_status gf_net_norm_forward(gf_error *err, gf_net *n, const gf_nn_norm *norm); /* of the batch: statistics and y */
glofnd_status gf_net_norm_backward(gf_error *err, gf_net *n, const gf_layer *l);
void gf_net_find_final(gf_net *n);
void gf_net_report_begin(gf_net *n);
glofnd_status gf_net_report_final(gf_error *err, gf_net *n, int layer); /* its backward is done */
int gf_net_reports_final(const gf_net *n);                              /* 1: ranks wait for them */
typedef struct gf_packed_ops {                                          /* ops with packed weights, in the order of layers */
    const gf_nn_args *args[GF_MAX_LAYERS];
    gf_nn_op *op[GF_MAX_LAYERS];
    int count;
} gf_packed_ops;
/* first: of them, those before layer `from`; last: before layer `to`. */
void gf_net_packed(const gf_net *n, gf_packed_ops *out, int from, int to, int *first, int *last);
glofnd_status gf_net_check(gf_error *err, const gf_net_spec *s);
glofnd_status gf_net_check_range(gf_error *err, const gf_net *n, int64_t first, int64_t count, const char *what);
/* texts.c: memory on the host, all tokens 0; and texts `count` and later become a single token 0. */
glofnd_status gf_net_texts_init(gf_error *err, gf_net *n);
glofnd_status gf_net_texts_blank(gf_error *err, gf_net *n, int64_t count);
