/* cunn_plan.h - algorithms of cuDNN and cuBLASLt, chosen by timing, kept in a file: convolutions as execution plans of cuDNN,
 * built from its graph interface, and matrix products. */
#pragma once

#include "nn/cuda/cunn.h"

enum { GF_CUNN_KEY = 192, GF_CUNN_KNOBS = 64, GF_CUNN_DESCS = 128 };

typedef struct gf_cunn_task { /* one convolution in one direction */
    const gf_nn_shape *shape;
    int work;   /* GF_CUNN_FORWARD ... */
    int narrow; /* BACK_WEIGHTS of bf16: the result is bf16, not float */
} gf_cunn_task;

struct gf_cunn_choice {
    gf_cunn_choice *next;
    char key[GF_CUNN_KEY];
    int64_t engine;
    int knobs;
    int64_t knob[GF_CUNN_KNOBS][2]; /* type, value */
};

struct gf_cunn_plan {
    gf_cunn_plan *next;
    char key[GF_CUNN_KEY];
    cudnnBackendDescriptor_t plan;
    size_t workspace;
};

/* ----- descriptors that belong together, destroyed together. Failures stick. ----- */
typedef struct gf_cunn_set {
    gf_nn_engine *engine;
    cudnnStatus_t status;
    const char *at; /* the first failure */
    cudnnBackendDescriptor_t desc[GF_CUNN_DESCS];
    int count;
} gf_cunn_set;

void gf_cunn_set_free(gf_cunn_set *t);
glofnd_status gf_cunn_set_fail(gf_error *err, const gf_cunn_set *t); /* E_DEVICE with cuDNN's text */
/* The operation graph of a task; NULL with t->status set on failure. */
cudnnBackendDescriptor_t gf_cunn_graph(gf_cunn_set *t, const gf_cunn_task *task);
/* Engine configurations that cuDNN proposes, best first; returns their number. */
int gf_cunn_proposals(gf_cunn_set *t, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, cudnnBackendDescriptor_t *out,
                      int capacity);
/* True if the engine of this configuration is allowed in the engine's mode. */
int gf_cunn_allowed(gf_nn_engine *s, cudnnBackendDescriptor_t config, const gf_cunn_task *task);
/* A configuration as numbers, and back. */
int gf_cunn_describe(gf_nn_engine *s, cudnnBackendDescriptor_t config, gf_cunn_choice *out);
cudnnBackendDescriptor_t gf_cunn_config(gf_cunn_set *t, cudnnBackendDescriptor_t graph, const gf_cunn_choice *choice);
/* NULL: this configuration does not work here. To be destroyed by the caller. */
cudnnBackendDescriptor_t gf_cunn_build(gf_nn_engine *s, cudnnBackendDescriptor_t config, size_t *workspace);
/* Queues: x [n][h][w][in], w [out][k][k][in], y [n][oh][ow][out], or their gradients. */
cudnnStatus_t gf_cunn_execute(gf_nn_engine *s, cudnnBackendDescriptor_t plan, void *x, void *w, void *y, void *workspace);

/* ----- plans ----- */
/* The plan of a task, shared by all ops of one shape. E_UNSUPPORTED: cuDNN has none. */
glofnd_status gf_cunn_plan_find(gf_error *err, gf_nn_engine *s, const gf_cunn_task *task, gf_cunn_plan **out);
glofnd_status gf_cunn_plan_run(gf_error *err, gf_nn_engine *s, const gf_cunn_plan *p, void *x, void *w, void *y, void *workspace);
void gf_cunn_plans_free(gf_nn_engine *s);

/* ----- choices as text: a key (shape, mode, device, version), an engine and its knobs ----- */
void gf_cunn_choices_read(gf_nn_engine *s, const char *path); /* unreadable choices are made again */
glofnd_status gf_cunn_choices_write(gf_error *err, const gf_nn_engine *s, const char *path);
const gf_cunn_choice *gf_cunn_choice_find(const gf_nn_engine *s, const char *key);
void gf_cunn_choice_add(gf_nn_engine *s, const gf_cunn_choice *c); /* without memory it is not kept */
void gf_cunn_choices_free(gf_nn_engine *s);

/* ----- one matrix product of cuBLASLt, which is column-major: c [rows x cols] = a b (+ bias per row) (+ add) ----- */

typedef struct gf_cunn_factor { /* rows x cols as stored, column after column */
    int64_t rows, cols;
    int turned; /* 1: its transpose is multiplied */
} gf_cunn_factor;

typedef struct gf_cunn_gemm_task {
    gf_cunn_factor a, b;
    gf_type in, out; /* of the factors; of c */
    int bias;
    int64_t rows, cols; /* of c: gf_cunn_gemm_create sets them */
} gf_cunn_gemm_task;

glofnd_status gf_cunn_gemm_create(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g, gf_cunn_gemm_task t);
glofnd_status gf_cunn_gemm_bias(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *bias); /* for the next runs */
glofnd_status gf_cunn_gemm_run(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *a, const void *b,
                               const void *add, void *c, void *workspace);
void gf_cunn_gemm_free(gf_nn_engine *s, gf_cunn_gemm *g);
