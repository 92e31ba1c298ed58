/* dnn_shim.h - the part of oneDNN we use, the same for its two C interfaces.
 *
 * Up to 2.x an operation is described by a struct and made a primitive descriptor by one function, and memory descriptors are
 * structs; from 3.0 on there is a function per operation, and memory descriptors are handles. Only dnn_shim.c knows. Everything
 * made here is owned by the gf_dnn it was made with and freed with it.
 */
#pragma once

#include <dnnl.h>

#include "util/status.h"

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t gf_md;
#else
typedef const dnnl_memory_desc_t *gf_md;
#endif

typedef struct gf_dnn gf_dnn; /* engine, stream, threads, list of objects */

#define GF_PRIM_SLOTS 4

typedef struct gf_prim {        /* a primitive of fixed shape, and memory objects to hang pointers on */
    dnnl_primitive_t primitive; /* NULL: not made */
    const_dnnl_primitive_desc_t desc;
    size_t scratch; /* bytes */
    int slots;
    dnnl_exec_arg_t arg[GF_PRIM_SLOTS + 1]; /* the slots, then the scratchpad */
} gf_prim;

typedef struct gf_dnn_window { /* a square window sliding over height and width */
    int kernel, stride, pad;   /* the same padding on all four sides */
} gf_dnn_window;

/* Opens oneDNN, once per process; later calls return the same status and text. E_UNSUPPORTED: not found, or another version. */
glofnd_status gf_dnn_lib_open(gf_error *err);
glofnd_status gf_dnn_open(gf_error *err, int threads, gf_dnn **out); /* threads 0: OpenMP's choice */
void gf_dnn_close(gf_dnn *d);
int gf_dnn_threads(const gf_dnn *d);
const char *gf_dnn_version(void); /* "2.6.3" of the library that runs */
const char *gf_dnn_isa(void);     /* the best instructions it uses on this CPU */

/* ----- descriptors ----- */
glofnd_status gf_dnn_md(gf_error *err, gf_dnn *d, int rank, const int64_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag,
                        gf_md *out);
size_t gf_md_bytes(gf_md md);
int gf_md_equal(gf_md a, gf_md b);
gf_md gf_prim_md(const gf_prim *p, dnnl_query_t what); /* the format that was chosen for `any` */

/* ----- primitives; `prop` is dnnl_forward_training, dnnl_forward_inference, dnnl_backward_data or dnnl_backward_weights ----- */
glofnd_status gf_dnn_conv(gf_error *err, gf_dnn *d, dnnl_prop_kind_t prop, gf_md src, gf_md weights, gf_md dst,
                          const gf_dnn_window *w, const gf_prim *forward, gf_prim *out);
glofnd_status gf_dnn_pool(gf_error *err, gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst,
                          const gf_dnn_window *w, const gf_prim *forward, gf_prim *out);
/* c = a b, + bias [1][n] (NULL: none); add: + what c held. */
glofnd_status gf_dnn_matmul(gf_error *err, gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, gf_prim *out);
glofnd_status gf_dnn_reorder(gf_error *err, gf_dnn *d, gf_md from, gf_md to, gf_prim *out);
/* Adds the next slot: argument `name` (DNNL_ARG_...) of format md. */
glofnd_status gf_dnn_slot(gf_error *err, gf_dnn *d, gf_prim *p, int name, gf_md md);

/* Runs p on `data`, one pointer per slot, of which the primitive writes its results; scratch: p->scratch bytes. */
glofnd_status gf_dnn_run(gf_error *err, gf_dnn *d, gf_prim *p, const void *const *data, void *scratch);
