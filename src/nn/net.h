/* net.h - an encoder: a static list of layers built once for (arch, batch, size, precision), one arena, no allocation in a step.
 *
 * Parameters and their gradients are float32 masters in one block each, in torchvision's order, names and layouts; activations
 * are NHWC in float32 or bf16. Forward gives the backbone's features and the head's projections; backward takes
 * d loss / d projection.
 *
 * Same bits: same build, CPU kind, oneDNN version, spec (threads included) and inputs give the same bits. Other thread counts
 * give the same initial weights and, but for rounding, the same results: oneDNN adds gradients of weights over images in as many
 * parts as there are threads. Our own batch norm does not depend on threads at all.
 * bf16: activations and their gradients are stored in bf16; weights, their gradients, statistics, features and the head are
 * float32.
 */
#ifndef GF_NN_NET_H
#define GF_NN_NET_H

#include "base/status.h"

typedef enum gf_arch { GF_ARCH_RESNET8, GF_ARCH_RESNET18, GF_ARCH_RESNET34, GF_ARCH_RESNET50 } gf_arch;
typedef enum gf_precision { GF_FP32, GF_BF16 } gf_precision;

typedef struct gf_net_spec {
    gf_arch arch;
    int cifar_stem;             /* 3x3 stride 1, no max pool */
    int64_t batch;              /* images per forward (both views: 2 x batch of samples) */
    int size;                   /* pixels */
    int head_hidden, head_out;  /* 2048, 128 (authors' code: BN after both, the last without affine); 128, 128 (paper);
                                   0, 0: no head */
    int zero_init;              /* last gamma of each block starts at 0 */
    gf_precision precision;
    int training;               /* 0: forward in eval mode only, no backward buffers */
    uint64_t seed;              /* initial weights: kaiming fan-out for convolutions as torchvision; keyed Philox per tensor */
    int threads;                /* 0: as many as OpenMP would use */
} gf_net_spec;

typedef struct gf_tensor {      /* a parameter or a buffer */
    const char *name;           /* "layer1.0.conv1.weight", "bn1.running_mean", "head.0.weight" */
    int rank;
    int64_t shape[4];           /* torch order: [out][in][h][w] */
    int64_t count;
    float *value;
    float *grad;                /* NULL for buffers */
} gf_tensor;

typedef struct gf_net gf_net;

glofnd_status gf_net_create(gf_error *err, const gf_net_spec *spec, gf_net **out);
void gf_net_free(gf_net *n);
int gf_net_tensors(gf_net *n, gf_tensor **out);         /* count; parameters first, then buffers */
/* After values were changed from outside (optimizer, loading): working copies are refreshed at the next forward. */
void gf_net_touch(gf_net *n);
int64_t gf_net_features(const gf_net *n);               /* 64 (resnet8), 512, 2048 */
size_t gf_net_bytes(const gf_net *n);                   /* memory taken; gf_net_estimate before taking it */
glofnd_status gf_net_estimate(gf_error *err, const gf_net_spec *spec, size_t *bytes);
/* x [batch][size][size][3] float, copied. features, projection: set to internal float32 arrays [batch][..], valid until the next
 * forward; either may be NULL, and projection becomes NULL without a head. train: batch statistics, running averages move.
 * count <= batch: only these images (eval mode only). */
glofnd_status gf_net_forward(gf_error *err, gf_net *n, const float *x, int64_t count, int train, const float **features,
                             const float **projection);
/* d [batch][head_out], without a head [batch][features]; gradients are overwritten. Follows a forward with train = 1, once. */
glofnd_status gf_net_backward(gf_error *err, gf_net *n, const float *d);

/* One line for `info`: what nets run on here. */
void gf_net_describe(char *text, size_t bytes);

#endif
