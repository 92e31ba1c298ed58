/* net.h - an encoder: a static list of layers built once for (arch, batch, size, precision), one arena, no allocation in a step.
 *
 * Parameters and their gradients are float32 masters in one block each, in torchvision's order and names; activations
 * are NHWC in float32 or bf16. Forward gives the backbone's features and the head's projections; backward takes
 * d loss / d projection.
 *
 * On the CPU all pointers are host memory and tensors have torch's layout. On a GPU value, grad, features and projection point to
 * device memory, work is queued and not waited for, and convolution weights have the device's layout: gf_net_get and
 * gf_net_put move tensors, gf_net_read results, on both.
 *
 * Same bits: same build, CPU type, oneDNN version, spec (threads included) and inputs give the same bits. Different thread counts
 * give the same initial weights and, but for rounding, the same results: oneDNN adds gradients of weights over images in as many
 * parts as there are threads. Our own batch norm does not depend on threads at all. On a GPU: same device, cuDNN version and
 * spec, with `deterministic` set and the same `plans` file.
 * bf16: activations and their gradients are stored in bf16; weights, their gradients, statistics, features and the head are
 * float32.
 */
#pragma once

#include "nn/nn_ops.h"

typedef enum gf_arch {
    GF_ARCH_RESNET8,
    GF_ARCH_RESNET18,
    GF_ARCH_RESNET34,
    GF_ARCH_RESNET50,
    GF_ARCH_CLIP_RESNET50, /* CLIP's: three convolutions in the stem, average pools for strides, attention pooling */
    GF_ARCH_VIT,
    GF_ARCH_TEXT /* the only one that reads tokens */
} gf_arch;
typedef enum gf_precision { GF_FP32, GF_BF16 } gf_precision;

typedef struct gf_net gf_net;

/* Nets of equal weights on several ranks that train as one: batch norm has the statistics of all images, gradients are summed. */
typedef struct gf_sync_norm {
    int count;
    void *user;
    /* x [n], where the net is, added over ranks in place; queued on a GPU. */
    glofnd_status (*sum)(gf_error *err, void *user, double *x, int64_t n);
    /* May be NULL. Called during backward: gradients `first` and later of gf_net_gradients are final on this rank, on a GPU once
     * the work queued so far is done. The first call has first = all of them, none is final; the last has 0. */
    void (*ready)(void *user, gf_net *net, int64_t first);
    int64_t bucket; /* ready is called when at least as many more are final; 0: after every layer */
    /* May be NULL. *yes becomes 1 if it is 1 on all ranks, else 0. */
    glofnd_status (*agree)(gf_error *err, void *user, int *yes);
    /* May be NULL. *x becomes the largest of all ranks. */
    glofnd_status (*largest)(gf_error *err, void *user, int64_t *x);
} gf_sync_norm;

typedef struct gf_net_spec { /* fields that an arch does not use are 0 */
    gf_arch arch;
    int cifar_stem;            /* 3x3 stride 1, no max pool */
    int64_t batch;             /* images or texts per forward (both views: 2 x batch of samples) */
    int size;                  /* pixels; TEXT: 0 */
    int head_hidden, head_out; /* 2048, 128 (authors' code: BN after both, the last without affine); 128, 128 (paper);
                                   0, 0: no head */
    /* Encoders of image-text training give an embedding as their projection: float32 [batch][embed_dim], not normalised. Tensors
     * are named as in open_clip, those of image encoders with "visual." in front. */
    int embed_dim;             /* a resnet with a linear layer "visual.proj" (0: a plain one); the last three archs need it */
    int width;                 /* VIT, TEXT: numbers per token; CLIP_RESNET50: channels after the stem, 0: 64 */
    int layers;                /* VIT, TEXT: blocks */
    int heads;                 /* VIT, TEXT; CLIP_RESNET50: of the attention pooling, 0: width / 2 */
    int patch;                 /* VIT: pixels */
    int context, vocab;        /* TEXT: tokens per text, different tokens */
    int whole_texts;           /* TEXT: all positions are computed, those after the end too, which change nothing: to compare */
    int quick_gelu;            /* VIT, TEXT: x sigmoid(1.702 x), for weights made so (OpenAI's); else GELU */
    gf_net *engine_owner;      /* NULL, or a net whose engine and stream this one shares, so that both can be recorded in one
                                   gf_net_replay; it must live longer. threads, device and GPU choices are those of that net */
    const gf_sync_norm *ranks; /* NULL: one rank. Must live as long as the net */
    int zero_init;             /* last gamma of each block starts at 0 */
    gf_precision precision;
    int training;  /* 0: forward in eval mode only, no backward buffers */
    uint64_t seed; /* initial weights: kaiming fan-out for convolutions as torchvision; keyed Philox per tensor */
    int threads;   /* 0: OpenMP's default */
    glofnd_device device;
    /* GPU only */
    int deterministic; /* 1: only algorithms that give the same bits every time; 2: and chosen without timing */
    int exact;         /* no TF32 in float32 products */
    const char *plans; /* file of the chosen algorithms; NULL: none */
} gf_net_spec;

typedef struct gf_tensor { /* a parameter or a buffer */
    const char *name;      /* "layer1.0.conv1.weight", "bn1.running_mean", "head.0.weight" */
    int rank;
    int64_t shape[4]; /* torch order: [out][in][h][w] */
    int64_t count;
    int64_t stored; /* numbers that it occupies: count, more where channels are padded */
    float *value;
    float *grad; /* NULL for buffers */
} gf_tensor;

glofnd_status gf_net_create(gf_error *err, const gf_net_spec *spec, gf_net **out);
void gf_net_free(gf_net *n);
int gf_net_tensors(gf_net *n, gf_tensor **out); /* count; parameters first, then buffers */
/* After values were changed from outside (optimizer, loading): working copies are refreshed at the next forward. */
void gf_net_touch(gf_net *n);
int64_t gf_net_features(const gf_net *n); /* 64 (resnet8), 512, 2048; the input of the last projection of an encoder */
size_t gf_net_bytes(const gf_net *n);     /* memory taken; gf_net_estimate before taking it */
glofnd_status gf_net_estimate(gf_error *err, const gf_net_spec *spec, size_t *bytes);
typedef struct gf_net_memory { /* bytes that it has allocated */
    size_t weights;            /* parameters, gradients, running averages, working copies */
    size_t activations;        /* and their gradients */
    size_t workspace;          /* scratch that layers share */
    size_t images;             /* copies from the host */
} gf_net_memory;
gf_net_memory gf_net_memory_of(const gf_net *n);
/* Tensor t between where it lies and host memory in torch's layout. `at` is t->value, t->grad, or the place of t in a block of
 * gf_net_alloc_state: an optimizer's. */
glofnd_status gf_net_get(gf_error *err, gf_net *n, const gf_tensor *t, const float *at, float *host);
glofnd_status gf_net_put(gf_error *err, gf_net *n, const gf_tensor *t, float *at, const float *host);
/* Waits for queued work and copies a result to the host. Also returns failures of work queued before. */
glofnd_status gf_net_read(gf_error *err, gf_net *n, void *host, const void *from, size_t bytes);
glofnd_status gf_net_write(gf_error *err, gf_net *n, void *to, const void *host, size_t bytes);
/* Memory where the net is, zeroed; NULL: none left. gf_net_alloc_state: as large as the block of all parameters; the place of
 * tensor t in it is gf_net_place(n, block, t). */
void *gf_net_alloc(gf_net *n, size_t bytes);
void gf_net_release(gf_net *n, void *p);
float *gf_net_alloc_state(gf_net *n);
float *gf_net_place(const gf_net *n, float *block, const gf_tensor *t);

/* x [batch][size][size][3] float on the host, copied; NULL: the input is there already (gf_net_input, gf_net_load_tokens).
 * features, projection: set to internal float32 arrays [batch][..], valid until the next forward; either may be NULL, and
 * projection becomes NULL without a head or embedding. train: 0, eval mode; 1, batch statistics, and running averages move; 2,
 * batch statistics alone: the same images a second time (micro-batches). count <= batch: only these images (eval mode
 * only). */
glofnd_status gf_net_forward(gf_error *err, gf_net *n, const float *x, int64_t count, int train, const float **features,
                             const float **projection);
/* d [batch][head_out], of an encoder [batch][embed_dim], without a head [batch][features]; gradients are overwritten. Follows a
 * forward with train > 0, once. */
glofnd_status gf_net_backward(gf_error *err, gf_net *n, const float *d);
/* The block of all gradients, padding included, where the net is. */
float *gf_net_gradients(gf_net *n, int64_t *numbers);
/* block, of gf_net_alloc_state, += the gradients of all parameters; first: = . An optimizer finds those of t at gf_net_place. */
void gf_net_add_gradients(gf_net *n, float *block, int first);
/* The first layer's input, to be filled: [batch][size][size][channels] of the net's precision, channels beyond 3 are 0. Not of a
 * text net. */
void *gf_net_input(gf_net *n, int *channels);
/* gf_net_forward's first part: x [count][size][size][3] from the host becomes images first .. of the input. */
glofnd_status gf_net_load(gf_error *err, gf_net *n, const float *x, int64_t first, int64_t count);
/* The same of a text net: tokens [count][context], each 0 to vocab - 1. A text ends with its largest token, the first of them.
 * Its embedding is the one there, and later positions are computed only to fill up (texts.c). All ranks load at the same time. */
glofnd_status gf_net_load_tokens(gf_error *err, gf_net *n, const int32_t *tokens, int64_t first, int64_t count);
/* Mean length of the texts that are loaded, as they are computed: follows from their tokens alone, of all ranks. Else 0. */
int64_t gf_net_text_length(const gf_net *n);
/* Does work(arg): gf_net_forward without x, a loss, gf_net_backward, an optimizer. A GPU records it at the second call with the
 * same key and variant, and plays the record from then on: pointers and scalars must then be the same. A different key drops all
 * records; of the variants of a key the GF_NN_RECORDS used last are kept. variant: gf_net_text_length of a text net, or 0. Ranks
 * use the same keys and variants, and all of them play their records or none does. */
glofnd_status gf_net_replay(gf_error *err, gf_net *n, uint64_t key, int64_t variant,
                            glofnd_status (*work)(gf_error *err, void *arg), void *arg);
/* Waits for queued work, and drops all records: before a transport whose calls are in them is closed. */
void gf_net_forget(gf_net *n);
/* A net that shares an engine, at the same time as its owner: what is queued for it between GF_NN_FORK and GF_NN_RETURN runs
 * beside what follows, up to GF_NN_JOIN. Without effect for nets of several ranks, for those of images, and on the CPU. */
void gf_net_beside(gf_net *n, gf_nn_beside how);
const gf_nn_backend *gf_net_backend(const gf_net *n);
gf_nn_engine *gf_net_engine(gf_net *n);
void *gf_net_stream(gf_net *n); /* cudaStream_t; NULL on the CPU */

/* 1: nets can be made on the CPU of this machine. */
int gf_net_available(void);
/* One line for `info`: libraries and instruction sets that nets use. */
void gf_net_describe(char *text, size_t bytes);
void gf_net_describe_device(glofnd_device device, char *text, size_t bytes);
