/* dnn_shim.c - see dnn_shim.h. oneDNN is opened at run time: the program starts where the library is missing, and says so when a
 * network is used. The program fits the major version it was compiled with. */
#include "nn/cpu/dnn_shim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/array.h"
#include "util/machine.h"
#include "util/parallel.h"

/* ----- the library ---------------------------------------------------------------------------------------------------- */

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

static struct {
#define GF_X(name) __typeof__(dnnl_##name) *name;
    GF_DNNL_FUNCTIONS(GF_X)
#undef GF_X
    /* Of the OpenMP that oneDNN uses; NULL: it uses a different runtime (TBB), and chooses its own number of threads. */
    void (*set_num_threads)(int threads);
    int (*get_max_threads)(void);
    void (*set_dynamic)(int yes);
    int (*get_thread_limit)(void);
} lib; /* after gf_dnn_lib_open */

/* The library stays open until the process ends: its threads and compiled kernels do. */
#if DNNL_VERSION_MAJOR == 2
#define PACKAGE "libdnnl2"
#else
#define PACKAGE "libdnnl-dev"
#endif

/* The first OpenMP of the process answers the calls of the library, so it comes first: another compiler has its own. */
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_dynamic(int yes) __attribute__((weak));
extern int omp_get_thread_limit(void) __attribute__((weak));

/* oneDNN compiles kernels into memory of its own, and ends the process where it gets none: better to refuse before. */
static glofnd_status check_space(gf_error *err) {
    enum { MEGABYTES = 48 }; /* of the library and those it needs, or of its kernels */
    const int64_t left = gf_address_space_left();
    FAIL_IF(err, left < (int64_t)MEGABYTES << 20, GLOFND_E_MEMORY,
            "%lld MB of address space are left for oneDNN, which may need %d; raise the limit (ulimit -v)",
            (long long)(left >> 20), MEGABYTES);
    return GLOFND_OK;
}

static glofnd_status open_library(gf_error *err) {
    static const char *const names[] = {GF_DNNL_SONAME, NULL};
    TRY(check_space(err));
    void *handle = gf_shared_lib_open(names, 0);
    FAIL_IF(err, !handle, GLOFND_E_UNSUPPORTED,
            "networks on the CPU need oneDNN %d, which cannot be opened (%.200s): install it (Debian: " PACKAGE
            "), or put its folder into LD_LIBRARY_PATH",
            DNNL_VERSION_MAJOR, gf_shared_lib_error());
#define GF_X(name)                                                                            \
    FAIL_IF(err, !gf_shared_lib_find(handle, "dnnl_" #name, &lib.name), GLOFND_E_UNSUPPORTED, \
            GF_DNNL_SONAME " has no dnnl_" #name ": oneDNN %d is needed", DNNL_VERSION_MAJOR);
    GF_DNNL_FUNCTIONS(GF_X)
#undef GF_X
    const dnnl_version_t *v = lib.version();
    FAIL_IF(err, v->major != DNNL_VERSION_MAJOR, GLOFND_E_UNSUPPORTED, GF_DNNL_SONAME " is oneDNN %d.%d; version %d is needed",
            v->major, v->minor, DNNL_VERSION_MAJOR);
    lib.set_num_threads = omp_set_num_threads;
    lib.get_max_threads = omp_get_max_threads;
    lib.set_dynamic = omp_set_dynamic;
    lib.get_thread_limit = omp_get_thread_limit;
    if (!lib.set_num_threads || !lib.get_max_threads) {
        gf_shared_lib_find(handle, "omp_set_num_threads", &lib.set_num_threads);
        gf_shared_lib_find(handle, "omp_get_max_threads", &lib.get_max_threads);
        gf_shared_lib_find(handle, "omp_set_dynamic", &lib.set_dynamic);
        gf_shared_lib_find(handle, "omp_get_thread_limit", &lib.get_thread_limit);
    }
    return GLOFND_OK;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static glofnd_status opened;
static gf_error failure;

static void open_once(void) { opened = open_library(&failure); }

glofnd_status gf_dnn_lib_open(gf_error *err) {
    pthread_once(&once, open_once);
    FAIL_IF(err, opened != GLOFND_OK, opened, "%s", failure.text);
    return GLOFND_OK;
}

/* ----- engine, stream, objects -------------------------------------------------------------------------------- */

typedef enum object_kind { ENGINE, STREAM, ATTRIBUTES, MEMORY_DESC, PRIMITIVE_DESC, PRIMITIVE, MEMORY } object_kind;

typedef struct dnn_object {
    object_kind kind;
    void *handle;
} dnn_object;

struct gf_dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t user_scratchpad;
    dnnl_primitive_attr_t adding; /* the same, and a product is added to what is there */
    int threads;
    dnn_object *objects; /* in the order they were made; freed in the opposite one */
    size_t count, capacity;
};

#define CHECK(err, call, what)                                              \
    do {                                                                    \
        const dnnl_status_t check_ = (call);                                \
        if (check_ != dnnl_success) return dnn_fail((err), check_, (what)); \
    } while (0)

static glofnd_status dnn_fail(gf_error *err, dnnl_status_t status, const char *what) {
    if (status == dnnl_out_of_memory) GF_FAIL(err, GLOFND_E_MEMORY, "oneDNN %s: out of memory in %s", gf_dnn_version(), what);
    if (status == dnnl_unimplemented)
        GF_FAIL(err, GLOFND_E_UNSUPPORTED, "oneDNN %s has no %s of this kind for this CPU; with precision bf16, try fp32",
                gf_dnn_version(), what);
    GF_FAIL(err, GLOFND_E_DEVICE, "oneDNN %s: %s failed with status %d", gf_dnn_version(), what, (int)status);
}

/* ----- threads ----------------------------------------------------------------------------------------------------- */

/* oneDNN asks OpenMP how many threads to use, when a primitive is made and when it runs; the answer is a property of the calling
 * thread. Its kernels wait for the requested number of threads, forever if OpenMP starts fewer: so it must not (OMP_DYNAMIC). */
static int set_threads(int threads) {
    if (!lib.set_num_threads || !lib.get_max_threads) return 0;
    if (lib.set_dynamic) lib.set_dynamic(0);
    const int before = lib.get_max_threads();
    if (threads > 0 && threads != before) lib.set_num_threads(threads);
    return before;
}

/* ----- the list of objects ----------------------------------------------------------------------------------------- */

static void destroy_object(const dnn_object *o) {
    switch (o->kind) {
    case ENGINE: lib.engine_destroy(o->handle); break;
    case STREAM: lib.stream_destroy(o->handle); break;
    case ATTRIBUTES: lib.primitive_attr_destroy(o->handle); break;
    case PRIMITIVE_DESC: lib.primitive_desc_destroy(o->handle); break;
    case PRIMITIVE: lib.primitive_destroy(o->handle); break;
    case MEMORY: lib.memory_destroy(o->handle); break;
    case MEMORY_DESC:
#if DNNL_VERSION_MAJOR >= 3
        lib.memory_desc_destroy(o->handle);
#else
        free(o->handle);
#endif
        break;
    }
}

/* The list takes the object over, also when it fails. */
static glofnd_status own_object(gf_error *err, gf_dnn *d, object_kind kind, void *handle) {
    const dnn_object o = {kind, handle};
    if (!gf_grow(&d->objects, &d->capacity, d->count + 1, sizeof *d->objects)) {
        destroy_object(&o);
        GF_FAIL(err, GLOFND_E_MEMORY, "out of memory for a list of %zu oneDNN objects", d->count + 1);
    }
    d->objects[d->count++] = o;
    return GLOFND_OK;
}

void gf_dnn_close(gf_dnn *d) {
    if (!d) return;
    while (d->count > 0) destroy_object(&d->objects[--d->count]);
    free(d->objects);
    free(d);
}

static glofnd_status new_attributes(gf_error *err, gf_dnn *d, dnnl_primitive_attr_t *out) {
    CHECK(err, lib.primitive_attr_create(out), "attributes");
    TRY(own_object(err, d, ATTRIBUTES, *out));
    CHECK(err, lib.primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user), "scratchpad mode");
    return GLOFND_OK;
}

static glofnd_status add_to_result(gf_error *err, dnnl_primitive_attr_t attributes) {
    dnnl_post_ops_t after;
    CHECK(err, lib.post_ops_create(&after), "list of what follows a product");
#if DNNL_VERSION_MAJOR >= 3
    dnnl_status_t status = lib.post_ops_append_sum(after, 1.0f, 0, dnnl_data_type_undef);
#else
    dnnl_status_t status = lib.post_ops_append_sum(after, 1.0f);
#endif
    if (status == dnnl_success) status = lib.primitive_attr_set_post_ops(attributes, after);
    lib.post_ops_destroy(after);
    CHECK(err, status, "sum after a product");
    return GLOFND_OK;
}

static glofnd_status open_into(gf_error *err, gf_dnn *d) {
    TRY(check_space(err));
    CHECK(err, lib.engine_create(&d->engine, dnnl_cpu, 0), "CPU engine");
    TRY(own_object(err, d, ENGINE, d->engine));
    CHECK(err, lib.stream_create(&d->stream, d->engine, dnnl_stream_default_flags), "stream");
    TRY(own_object(err, d, STREAM, d->stream));
    TRY(new_attributes(err, d, &d->user_scratchpad));
    TRY(new_attributes(err, d, &d->adding));
    return add_to_result(err, d->adding);
}

glofnd_status gf_dnn_open(gf_error *err, int threads, gf_dnn **out) {
    TRY(gf_dnn_lib_open(err));
    gf_dnn *d = calloc(1, sizeof *d);
    FAIL_IF(err, !d, GLOFND_E_MEMORY, "out of memory");
    /* OMP_THREAD_LIMIT: more than that there never are. */
    const int own_threads = threads > 0 ? threads : gf_parallel_default();
    const int limit = lib.get_thread_limit ? lib.get_thread_limit() : own_threads;
    d->threads = limit > 0 && limit < own_threads ? limit : own_threads;
    const glofnd_status status = open_into(err, d);
    if (status != GLOFND_OK) {
        gf_dnn_close(d);
        return status;
    }
    *out = d;
    return GLOFND_OK;
}

int gf_dnn_threads(const gf_dnn *d) { return d->threads; }

const char *gf_dnn_version(void) {
    static _Thread_local char text[32];
    const dnnl_version_t *v = lib.version();
    snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

/* Each set holds the bits of those below it, so that sets of newer libraries are named after the best one known here. */
const char *gf_dnn_isa(void) {
#ifndef __x86_64__ /* other CPUs have no names there */
    return "the instructions of this CPU";
#else
    static const struct {
        unsigned bits;
        const char *name;
    } sets[] = {
        {dnnl_cpu_isa_avx512_core_amx, "AMX and AVX-512 with bf16"},
        {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bf16, no AMX"},
        {dnnl_cpu_isa_avx512_core, "AVX-512, neither bf16 nor AMX"},
        {dnnl_cpu_isa_avx2, "AVX2, neither bf16 nor AMX"},
        {dnnl_cpu_isa_avx, "AVX"},
        {dnnl_cpu_isa_sse41, "SSE4.1"},
    };
    const unsigned here = (unsigned)lib.get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sets[i].bits && (here & sets[i].bits) == sets[i].bits) return sets[i].name;
    return "other instructions";
#endif
}

/* ----- descriptors ------------------------------------------------------------------------------------------------- */

glofnd_status gf_dnn_md(gf_error *err, gf_dnn *d, int rank, const int64_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag,
                        gf_md *out) {
    dnnl_dims_t padded = {0};
    for (int i = 0; i < rank; i++) padded[i] = dims[i];
#if DNNL_VERSION_MAJOR >= 3
    dnnl_memory_desc_t md;
    CHECK(err, lib.memory_desc_create_with_tag(&md, rank, padded, type, tag), "memory descriptor");
#else
    dnnl_memory_desc_t *md = malloc(sizeof *md);
    FAIL_IF(err, !md, GLOFND_E_MEMORY, "out of memory");
    const dnnl_status_t status = lib.memory_desc_init_by_tag(md, rank, padded, type, tag);
    if (status != dnnl_success) {
        free(md);
        return dnn_fail(err, status, "memory descriptor");
    }
#endif
    TRY(own_object(err, d, MEMORY_DESC, md));
    *out = md;
    return GLOFND_OK;
}

size_t gf_md_bytes(gf_md md) { return lib.memory_desc_get_size(md); }
int gf_md_equal(gf_md a, gf_md b) { return lib.memory_desc_equal(a, b); }
gf_md gf_prim_md(const gf_prim *p, dnnl_query_t what) { return lib.primitive_desc_query_md(p->desc, what, 0); }

/* ----- primitives -------------------------------------------------------------------------------------------------- */

/* From a primitive descriptor, which the list takes over, to a primitive. */
static glofnd_status make_primitive(gf_error *err, gf_dnn *d, dnnl_primitive_desc_t desc, const char *what, gf_prim *out) {
    TRY(own_object(err, d, PRIMITIVE_DESC, desc));
    *out = (gf_prim){.desc = desc};
    TRY(check_space(err));
    CHECK(err, lib.primitive_create(&out->primitive, desc), what);
    TRY(own_object(err, d, PRIMITIVE, out->primitive));
    const gf_md scratch = gf_prim_md(out, dnnl_query_scratchpad_md);
    out->scratch = scratch ? gf_md_bytes(scratch) : 0;
    out->arg[GF_PRIM_SLOTS].arg = DNNL_ARG_SCRATCHPAD;
    CHECK(err, lib.memory_create(&out->arg[GF_PRIM_SLOTS].memory, scratch, d->engine, DNNL_MEMORY_NONE), "scratchpad");
    return own_object(err, d, MEMORY, out->arg[GF_PRIM_SLOTS].memory);
}

/* The chosen implementation depends on the number of threads, so it is made under the number it will run with. */
#define WITH_THREADS(d, status, call)                  \
    do {                                               \
        const int before_ = set_threads((d)->threads); \
        (status) = (call);                             \
        set_threads(before_);                          \
    } while (0)

typedef struct window_dims {
    dnnl_dims_t kernel, stride, dilation, pad;
} window_dims;

static window_dims dims_of(const gf_dnn_window *w) {
    return (window_dims){.kernel = {w->kernel, w->kernel}, .stride = {w->stride, w->stride}, .pad = {w->pad, w->pad}};
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t conv_desc(gf_dnn *d, dnnl_prop_kind_t prop, gf_md src, gf_md weights, gf_md dst, const window_dims *w,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    if (prop == dnnl_backward_data)
        return lib.convolution_backward_data_primitive_desc_create(out, d->engine, direct, src, weights, dst, w->stride,
                                                                   w->dilation, w->pad, w->pad, hint, d->user_scratchpad);
    if (prop == dnnl_backward_weights)
        return lib.convolution_backward_weights_primitive_desc_create(out, d->engine, direct, src, weights, NULL, dst, w->stride,
                                                                      w->dilation, w->pad, w->pad, hint, d->user_scratchpad);
    return lib.convolution_forward_primitive_desc_create(out, d->engine, prop, direct, src, weights, NULL, dst, w->stride,
                                                         w->dilation, w->pad, w->pad, d->user_scratchpad);
}

static dnnl_status_t pool_desc(gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst, const window_dims *w,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    if (prop == dnnl_backward_data)
        return lib.pooling_backward_primitive_desc_create(out, d->engine, how, src, dst, w->stride, w->kernel, w->dilation,
                                                          w->pad, w->pad, hint, d->user_scratchpad);
    return lib.pooling_forward_primitive_desc_create(out, d->engine, prop, how, src, dst, w->stride, w->kernel, w->dilation,
                                                     w->pad, w->pad, d->user_scratchpad);
}

static dnnl_status_t matmul_desc(gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, dnnl_primitive_desc_t *out) {
    return lib.matmul_primitive_desc_create(out, d->engine, a, b, bias, c, add ? d->adding : d->user_scratchpad);
}

#else

/* The three steps of 2.x: fill a descriptor, then make it. */
#define DESCRIBE(init)                                   \
    do {                                                 \
        const dnnl_status_t describe_ = (init);          \
        if (describe_ != dnnl_success) return describe_; \
    } while (0)

static dnnl_status_t conv_desc(gf_dnn *d, dnnl_prop_kind_t prop, gf_md src, gf_md weights, gf_md dst, const window_dims *w,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_convolution_desc_t o;
    if (prop == dnnl_backward_data)
        DESCRIBE(lib.convolution_backward_data_desc_init(&o, direct, src, weights, dst, w->stride, w->pad, w->pad));
    else if (prop == dnnl_backward_weights)
        DESCRIBE(lib.convolution_backward_weights_desc_init(&o, direct, src, weights, NULL, dst, w->stride, w->pad, w->pad));
    else DESCRIBE(lib.convolution_forward_desc_init(&o, prop, direct, src, weights, NULL, dst, w->stride, w->pad, w->pad));
    return lib.primitive_desc_create(out, &o, d->user_scratchpad, d->engine, hint);
}

static dnnl_status_t pool_desc(gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst, const window_dims *w,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    dnnl_pooling_v2_desc_t o;
    if (prop == dnnl_backward_data)
        DESCRIBE(lib.pooling_v2_backward_desc_init(&o, how, src, dst, w->stride, w->kernel, w->dilation, w->pad, w->pad));
    else DESCRIBE(lib.pooling_v2_forward_desc_init(&o, prop, how, src, dst, w->stride, w->kernel, w->dilation, w->pad, w->pad));
    return lib.primitive_desc_create(out, &o, d->user_scratchpad, d->engine, hint);
}

static dnnl_status_t matmul_desc(gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, dnnl_primitive_desc_t *out) {
    dnnl_matmul_desc_t o;
    DESCRIBE(lib.matmul_desc_init(&o, a, b, bias, c));
    return lib.primitive_desc_create(out, &o, add ? d->adding : d->user_scratchpad, d->engine, NULL);
}

#endif

static glofnd_status check_made(gf_error *err, gf_dnn *d, dnnl_status_t status, dnnl_primitive_desc_t desc, const char *what,
                                gf_prim *out) {
    if (status != dnnl_success) return dnn_fail(err, status, what);
    glofnd_status result;
    WITH_THREADS(d, result, make_primitive(err, d, desc, what, out));
    return result;
}

glofnd_status gf_dnn_conv(gf_error *err, gf_dnn *d, dnnl_prop_kind_t prop, gf_md src, gf_md weights, gf_md dst,
                          const gf_dnn_window *w, const gf_prim *forward, gf_prim *out) {
    const window_dims dims = dims_of(w);
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, conv_desc(d, prop, src, weights, dst, &dims, forward ? forward->desc : NULL, &desc));
    return check_made(err, d, status, desc, "convolution", out);
}

glofnd_status gf_dnn_pool(gf_error *err, gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst,
                          const gf_dnn_window *w, const gf_prim *forward, gf_prim *out) {
    const window_dims dims = dims_of(w);
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, pool_desc(d, how, prop, src, dst, &dims, forward ? forward->desc : NULL, &desc));
    return check_made(err, d, status, desc, "pooling", out);
}

glofnd_status gf_dnn_matmul(gf_error *err, gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, gf_prim *out) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, matmul_desc(d, a, b, bias, c, add, &desc));
    return check_made(err, d, status, desc, "matrix product", out);
}

glofnd_status gf_dnn_reorder(gf_error *err, gf_dnn *d, gf_md from, gf_md to, gf_prim *out) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, lib.reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine, d->user_scratchpad));
    TRY(check_made(err, d, status, desc, "reorder", out));
    TRY(gf_dnn_slot(err, d, out, DNNL_ARG_FROM, from));
    return gf_dnn_slot(err, d, out, DNNL_ARG_TO, to);
}

glofnd_status gf_dnn_slot(gf_error *err, gf_dnn *d, gf_prim *p, int name, gf_md md) {
    FAIL_IF(err, p->slots == GF_PRIM_SLOTS, GLOFND_E_ARGUMENT, "a primitive has at most %d arguments", GF_PRIM_SLOTS);
    dnnl_exec_arg_t *slot = &p->arg[p->slots];
    CHECK(err, lib.memory_create(&slot->memory, md, d->engine, DNNL_MEMORY_NONE), "memory");
    TRY(own_object(err, d, MEMORY, slot->memory));
    slot->arg = name;
    p->slots++;
    return GLOFND_OK;
}

glofnd_status gf_dnn_run(gf_error *err, gf_dnn *d, gf_prim *p, const void *const *data, void *scratch) {
    dnnl_exec_arg_t arg[GF_PRIM_SLOTS + 1];
    dnnl_status_t status = dnnl_success;
    const int before = set_threads(d->threads);
    for (int i = 0; i <= p->slots && status == dnnl_success; i++) {
        arg[i] = p->arg[i < p->slots ? i : GF_PRIM_SLOTS];
        status = lib.memory_set_data_handle(arg[i].memory, i < p->slots ? (void *)(uintptr_t)data[i] : scratch);
    }
    if (status == dnnl_success) status = lib.primitive_execute(p->primitive, d->stream, p->slots + 1, arg);
    if (status == dnnl_success) status = lib.stream_wait(d->stream);
    set_threads(before);
    CHECK(err, status, "execution");
    return GLOFND_OK;
}
