/* dnn_lib.h - oneDNN's functions, opened at run time: the program starts where the library is missing, and says so when a network
 * is used. For dnn_shim.c alone. The program fits the major version it was compiled with. */
#pragma once

#include <dnnl.h>

#include "util/status.h"

/* clang-format off */
#if DNNL_VERSION_MAJOR >= 3
#define GF_DNNL_FUNCTIONS_OF_VERSION(X) \
    X(memory_desc_create_with_tag) X(memory_desc_destroy) X(convolution_forward_primitive_desc_create) \
    X(convolution_backward_data_primitive_desc_create) X(convolution_backward_weights_primitive_desc_create) \
    X(pooling_forward_primitive_desc_create) X(pooling_backward_primitive_desc_create) X(matmul_primitive_desc_create)
#else
#define GF_DNNL_FUNCTIONS_OF_VERSION(X) \
    X(memory_desc_init_by_tag) X(convolution_forward_desc_init) X(convolution_backward_data_desc_init) \
    X(convolution_backward_weights_desc_init) X(pooling_v2_forward_desc_init) X(pooling_v2_backward_desc_init) \
    X(matmul_desc_init) X(primitive_desc_create)
#endif
#define GF_DNNL_FUNCTIONS(X) \
    X(version) X(get_effective_cpu_isa) X(engine_create) X(engine_destroy) X(stream_create) X(stream_destroy) \
    X(stream_wait) X(primitive_attr_create) X(primitive_attr_destroy) X(primitive_attr_set_post_ops) \
    X(primitive_attr_set_scratchpad_mode) X(post_ops_create) X(post_ops_append_sum) X(post_ops_destroy) \
    X(memory_desc_equal) X(memory_desc_get_size) X(memory_create) X(memory_destroy) X(memory_set_data_handle) \
    X(primitive_create) X(primitive_destroy) X(primitive_execute) X(primitive_desc_destroy) X(primitive_desc_query_md) \
    X(reorder_primitive_desc_create) GF_DNNL_FUNCTIONS_OF_VERSION(X)
/* clang-format on */

typedef struct gf_dnn_lib {
#define GF_X(name) __typeof__(dnnl_##name) *name;
    GF_DNNL_FUNCTIONS(GF_X)
#undef GF_X
    /* Of the OpenMP that oneDNN uses; NULL: it uses a different runtime (TBB), and chooses its own number of threads. */
    void (*set_num_threads)(int threads);
    int (*get_max_threads)(void);
    void (*set_dynamic)(int yes);
    int (*get_thread_limit)(void);
} gf_dnn_lib;

extern gf_dnn_lib gf_dnnl; /* after gf_dnn_lib_open */

/* Once per process; later calls return the same status and text. E_UNSUPPORTED: not found, or another version. */
glofnd_status gf_dnn_lib_open(gf_error *err);
