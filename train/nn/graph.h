/* graph.h - the inside of a net, for the files of this folder. A net is lists: values (activations), layers in the order of
 * forward, tensors (parameters and buffers), and the blocks of memory they need with their lifetimes.
 *
 * Order of work: a builder (resnet.c) appends layers; gf_graph_ops makes the backend's ops; gf_graph_plan places every block in
 * one arena; gf_graph_bind turns offsets into pointers. After that a step only runs down the list, or up. */
#pragma once

#include "nn/net.h"
#include "nn/nn_ops.h"

/* A transformer of GF_MAX_DEPTH blocks has 7 layers and 12 tensors in each; a layer has up to 5 blocks of memory. */
enum {
    GF_MAX_DEPTH = 48,
    GF_MAX_LAYERS = 384,
    GF_MAX_VALUES = GF_MAX_LAYERS + 1,
    GF_MAX_TENSORS = 640,
    GF_MAX_BLOCKS = 5 * GF_MAX_LAYERS,
    GF_NAME_BYTES = 64
};

typedef struct gf_block { /* memory in the arena, needed from time `first` to `last`, both included */
    size_t bytes, offset;
    int first, last;
} gf_block;

typedef struct gf_value { /* an activation [n][h][w][c] */
    int64_t n, h, w, c;
    gf_type type;
    int data;           /* block */
    int grad[2], grads; /* blocks of the parts of its gradient, one per layer that reads it */
    int packed;         /* its rows are those of gf_graph.texts, at most n h */
} gf_value;

typedef enum gf_layer_kind { GF_LAYER_OP, GF_LAYER_NORM, GF_LAYER_MEAN } gf_layer_kind;

typedef struct gf_layer {
    gf_layer_kind kind;
    int in, residual, out; /* values; residual -1: none. OP: residual is args.x2 */
    int param;             /* first parameter; -1: none. NORM: the bias follows */
    int bias;              /* OP: parameter; -1: none */
    int stat;              /* NORM: running_mean among the buffers, running_var follows */
    int packed, saved;     /* blocks; -1: none. NORM: saved holds mean, istd, scale, shift */
    int bits;              /* NORM: block of gf_nn_norm.positive; -1: none */
    int dx;                /* block of the part of the gradient of `in` that comes from here; -1: none */
    int dx2;               /* OP: the same of `residual`, where the op writes it */
    int add_dx;            /* OP: dx holds a different part already */
    int merged;            /* NORM: its output is never written: gf_graph_merge */
    int norm_after;        /* OP: the NORM whose statistics its forward makes; -1: none. gf_graph_fuse */
    int back_norm;         /* OP: its backward does a part of that of the NORM before */
    int shortcut;          /* NORM: the layer merged into it; -1: none */
    /* OP */
    gf_nn_shape shape;
    gf_nn_sizes sizes;
    gf_nn_op *op;
    gf_nn_args args;
    /* NORM */
    gf_nn_norm norm;
} gf_layer;

typedef struct gf_tensor_list {
    gf_tensor item[GF_MAX_TENSORS];
    char name[GF_MAX_TENSORS][GF_NAME_BYTES];
    int count;
    int64_t numbers; /* floats of all, each rounded up to whole cache lines */
} gf_tensor_list;

typedef struct gf_graph {
    gf_layer layer[GF_MAX_LAYERS];
    gf_value value[GF_MAX_VALUES];
    gf_block block[GF_MAX_BLOCKS];
    int layers, values, blocks;
    gf_tensor_list params, buffers;
    int training;
    int ranked;               /* sums of batch norms are added over ranks: convolutions do not make them */
    int image_channels;       /* of value 0; 0: 3. More than 3: zeros, and weights that meet them */
    int features, projection; /* values */
    int scratch, sums, coef;  /* blocks shared by all layers */
    int aside;                /* block: running averages of a forward that must not move the real ones, [2][c] */
    int text_table;           /* block: arrays of `texts`; -1: none */
    gf_nn_texts texts;        /* of the present batch: texts.c */
    size_t arena_bytes;
    int full; /* a list was too short: a bug of the builder, reported by gf_graph_plan */
} gf_graph;

/* ----- building; values are numbers ----- */
int gf_graph_value(gf_graph *g, int64_t n, int64_t h, int64_t w, int64_t c, gf_type type);
int gf_graph_conv(gf_graph *g, const char *name, int in, int64_t out_channels, int kernel, int stride, int pad);
int gf_graph_linear(gf_graph *g, const char *name, int in, int64_t out_channels);
/* An op of this shape, with n, h, w, in and type of `in`; second: value of args.x2; param, bias: parameters; -1: none. */
int gf_graph_op(gf_graph *g, gf_nn_shape shape, int in, int second, int param, int bias);
int gf_graph_maxpool(gf_graph *g, int in, int kernel, int stride, int pad);
int gf_graph_mean(gf_graph *g, int in); /* over all positions; float32 */
/* A batch norm's tensors apart from its place in the list, because torchvision's order of names is not the order of work. */
typedef struct gf_norm_names {
    int param, stat;
} gf_norm_names;
gf_norm_names gf_graph_norm_names(gf_graph *g, const char *name, int64_t channels, int affine);
int gf_graph_norm(gf_graph *g, gf_norm_names names, int in, int residual, int relu);

/* Appends a tensor of zero-filled shape; returns its number. */
int gf_tensor_add(gf_graph *g, gf_tensor_list *list, const char *name, int rank, const int64_t shape[4]);

/* ----- from lists to a net ----- */
glofnd_status gf_graph_ops(gf_error *err, gf_graph *g, const gf_nn_backend *b, gf_nn_engine *s);
/* Batch norms whose output only a sum with a different batch norm reads become part of that. */
void gf_graph_merge(gf_graph *g, const gf_nn_backend *b);
/* Convolutions whose result a batch norm alone reads make its statistics, where the backend says that it pays. */
void gf_graph_fuse(gf_graph *g, const gf_nn_backend *b);
/* 1: layer i, from which the last part of the gradient of its input comes, does a part of the backward of the batch norm before
 * it. Numbers that the two share are then not overwritten in between. */
gf_nn_before gf_graph_fuses_back(const gf_graph *g, int i, const gf_nn_backend *b);
/* Before gf_graph_ops: the max pooling of ResNet's stem becomes part of its convolution, which comes before the batch norm. */
void gf_graph_merge_stem(gf_graph *g, const gf_nn_backend *b);
glofnd_status gf_graph_plan(gf_error *err, gf_graph *g, const gf_nn_backend *b);
/* Pointers: blocks in `arena`, tensors in `values`, `stats` and `grads` (NULL: no training). */
void gf_graph_bind(gf_graph *g, char *arena, float *values, float *stats, float *grads);
/* Tensors alone. */
void gf_graph_bind_tensors(gf_graph *g, float *values, float *stats, float *grads);

/* The largest sum of blocks needed at one time: no plan can be smaller. */
size_t gf_graph_live_bytes(const gf_graph *g);

/* ----- builders ----- */
void gf_resnet_build(gf_graph *g, const gf_net_spec *spec); /* resnet.c */
void gf_clip_resnet_build(gf_graph *g, const gf_net_spec *spec);
void gf_vit_build(gf_graph *g, const gf_net_spec *spec); /* transformer.c */
void gf_text_build(gf_graph *g, const gf_net_spec *spec);

typedef struct gf_name {
    char text[2 * GF_NAME_BYTES]; /* names that are too long are detected where tensors are added */
} gf_name;
gf_name gf_name_join(const char *prefix, const char *part);
/* Convolution of padding kernel / 2; batch norm and ReLU. */
int gf_graph_conv_at(gf_graph *g, const char *prefix, const char *part, int in, int64_t out, int kernel, int stride);
int gf_graph_norm_relu(gf_graph *g, const char *prefix, const char *part, int in);
int gf_graph_param(gf_graph *g, const char *prefix, const char *part, int rank, int64_t d0, int64_t d1);

/* ----- the net ----- */

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

int gf_spec_is_resnet(const gf_net_spec *s); /* torchvision's, or resnet8 */
glofnd_status gf_net_check_range(gf_error *err, const gf_net *n, int64_t first, int64_t count, const char *what);

/* ----- packed texts: texts.c ----- */
size_t gf_texts_table_bytes(int64_t n, int64_t context);
/* Memory on the host, all tokens 0; and texts `count` and later become a single token 0. */
glofnd_status gf_net_texts_init(gf_error *err, gf_net *n);
glofnd_status gf_net_texts_blank(gf_error *err, gf_net *n, int64_t count);

/* ----- initial weights: init.c ----- */
void gf_graph_init(gf_graph *g, const gf_net_spec *spec, int threads);
