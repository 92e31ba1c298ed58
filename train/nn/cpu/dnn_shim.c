/* dnn_shim.c - see dnn_shim.h. */
#include "nn/cpu/dnn_shim.h"

#include <stdio.h>
#include <stdlib.h>

#include "nn/cpu/dnn_lib.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/parallel.h"

typedef enum object_kind { ENGINE, STREAM, ATTRIBUTES, MEMORY_DESC, PRIMITIVE_DESC, PRIMITIVE, MEMORY } object_kind;

typedef struct object {
    object_kind kind;
    void *handle;
} object;

struct gf_dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t user_scratchpad;
    dnnl_primitive_attr_t adding; /* the same, and a product is added to what is there */
    int threads;
    object *objects; /* in the order they were made; freed in the opposite one */
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
    if (!gf_dnnl.set_num_threads || !gf_dnnl.get_max_threads) return 0;
    if (gf_dnnl.set_dynamic) gf_dnnl.set_dynamic(0);
    const int before = gf_dnnl.get_max_threads();
    if (threads > 0 && threads != before) gf_dnnl.set_num_threads(threads);
    return before;
}

/* OMP_THREAD_LIMIT: more than that there never are. */
static int limit_threads(int threads) {
    const int limit = gf_dnnl.get_thread_limit ? gf_dnnl.get_thread_limit() : threads;
    return limit > 0 && limit < threads ? limit : threads;
}

/* ----- the list of objects ----------------------------------------------------------------------------------------- */

static void destroy(const object *o) {
    switch (o->kind) {
    case ENGINE: gf_dnnl.engine_destroy(o->handle); break;
    case STREAM: gf_dnnl.stream_destroy(o->handle); break;
    case ATTRIBUTES: gf_dnnl.primitive_attr_destroy(o->handle); break;
    case PRIMITIVE_DESC: gf_dnnl.primitive_desc_destroy(o->handle); break;
    case PRIMITIVE: gf_dnnl.primitive_destroy(o->handle); break;
    case MEMORY: gf_dnnl.memory_destroy(o->handle); break;
    case MEMORY_DESC:
#if DNNL_VERSION_MAJOR >= 3
        gf_dnnl.memory_desc_destroy(o->handle);
#else
        free(o->handle);
#endif
        break;
    }
}

/* The list takes the object over, also when it fails. */
static glofnd_status own(gf_error *err, gf_dnn *d, object_kind kind, void *handle) {
    const object o = {kind, handle};
    if (!gf_grow(&d->objects, &d->capacity, d->count + 1, sizeof *d->objects)) {
        destroy(&o);
        GF_FAIL(err, GLOFND_E_MEMORY, "out of memory for a list of %zu oneDNN objects", d->count + 1);
    }
    d->objects[d->count++] = o;
    return GLOFND_OK;
}

void gf_dnn_close(gf_dnn *d) {
    if (!d) return;
    while (d->count > 0) destroy(&d->objects[--d->count]);
    free(d->objects);
    free(d);
}

/* oneDNN compiles kernels into memory of its own, and ends the process where it gets none: better to refuse before. */
static glofnd_status check_space(gf_error *err) {
    enum { NEEDED = 48 };
    const int64_t left = gf_address_space_left();
    FAIL_IF(err, left < (int64_t)NEEDED << 20, GLOFND_E_MEMORY,
            "%lld MB of address space are left for oneDNN, which may need %d; raise the limit (ulimit -v)",
            (long long)(left >> 20), NEEDED);
    return GLOFND_OK;
}

static glofnd_status new_attributes(gf_error *err, gf_dnn *d, dnnl_primitive_attr_t *out) {
    CHECK(err, gf_dnnl.primitive_attr_create(out), "attributes");
    TRY(own(err, d, ATTRIBUTES, *out));
    CHECK(err, gf_dnnl.primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user), "scratchpad mode");
    return GLOFND_OK;
}

static glofnd_status add_to_result(gf_error *err, dnnl_primitive_attr_t attributes) {
    dnnl_post_ops_t after;
    CHECK(err, gf_dnnl.post_ops_create(&after), "list of what follows a product");
#if DNNL_VERSION_MAJOR >= 3
    dnnl_status_t status = gf_dnnl.post_ops_append_sum(after, 1.0f, 0, dnnl_data_type_undef);
#else
    dnnl_status_t status = gf_dnnl.post_ops_append_sum(after, 1.0f);
#endif
    if (status == dnnl_success) status = gf_dnnl.primitive_attr_set_post_ops(attributes, after);
    gf_dnnl.post_ops_destroy(after);
    CHECK(err, status, "sum after a product");
    return GLOFND_OK;
}

static glofnd_status open_into(gf_error *err, gf_dnn *d) {
    TRY(check_space(err));
    CHECK(err, gf_dnnl.engine_create(&d->engine, dnnl_cpu, 0), "CPU engine");
    TRY(own(err, d, ENGINE, d->engine));
    CHECK(err, gf_dnnl.stream_create(&d->stream, d->engine, dnnl_stream_default_flags), "stream");
    TRY(own(err, d, STREAM, d->stream));
    TRY(new_attributes(err, d, &d->user_scratchpad));
    TRY(new_attributes(err, d, &d->adding));
    return add_to_result(err, d->adding);
}

glofnd_status gf_dnn_open(gf_error *err, int threads, gf_dnn **out) {
    TRY(gf_dnn_lib_open(err));
    gf_dnn *d = calloc(1, sizeof *d);
    FAIL_IF(err, !d, GLOFND_E_MEMORY, "out of memory");
    d->threads = limit_threads(threads > 0 ? threads : gf_parallel_default());
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
    const dnnl_version_t *v = gf_dnnl.version();
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
    const unsigned here = (unsigned)gf_dnnl.get_effective_cpu_isa();
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
    CHECK(err, gf_dnnl.memory_desc_create_with_tag(&md, rank, padded, type, tag), "memory descriptor");
#else
    dnnl_memory_desc_t *md = malloc(sizeof *md);
    FAIL_IF(err, !md, GLOFND_E_MEMORY, "out of memory");
    const dnnl_status_t status = gf_dnnl.memory_desc_init_by_tag(md, rank, padded, type, tag);
    if (status != dnnl_success) {
        free(md);
        return dnn_fail(err, status, "memory descriptor");
    }
#endif
    TRY(own(err, d, MEMORY_DESC, md));
    *out = md;
    return GLOFND_OK;
}

size_t gf_md_bytes(gf_md md) { return gf_dnnl.memory_desc_get_size(md); }
int gf_md_equal(gf_md a, gf_md b) { return gf_dnnl.memory_desc_equal(a, b); }
gf_md gf_prim_md(const gf_prim *p, dnnl_query_t what) { return gf_dnnl.primitive_desc_query_md(p->desc, what, 0); }

/* ----- primitives -------------------------------------------------------------------------------------------------- */

/* From a primitive descriptor, which the list takes over, to a primitive. */
static glofnd_status finish(gf_error *err, gf_dnn *d, dnnl_primitive_desc_t desc, const char *what, gf_prim *out) {
    TRY(own(err, d, PRIMITIVE_DESC, desc));
    *out = (gf_prim){.desc = desc};
    TRY(check_space(err));
    CHECK(err, gf_dnnl.primitive_create(&out->primitive, desc), what);
    TRY(own(err, d, PRIMITIVE, out->primitive));
    const gf_md scratch = gf_prim_md(out, dnnl_query_scratchpad_md);
    out->scratch = scratch ? gf_md_bytes(scratch) : 0;
    out->arg[GF_PRIM_SLOTS].arg = DNNL_ARG_SCRATCHPAD;
    CHECK(err, gf_dnnl.memory_create(&out->arg[GF_PRIM_SLOTS].memory, scratch, d->engine, DNNL_MEMORY_NONE), "scratchpad");
    return own(err, d, MEMORY, out->arg[GF_PRIM_SLOTS].memory);
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
        return gf_dnnl.convolution_backward_data_primitive_desc_create(out, d->engine, direct, src, weights, dst, w->stride,
                                                                       w->dilation, w->pad, w->pad, hint, d->user_scratchpad);
    if (prop == dnnl_backward_weights)
        return gf_dnnl.convolution_backward_weights_primitive_desc_create(out, d->engine, direct, src, weights, NULL, dst,
                                                                          w->stride, w->dilation, w->pad, w->pad, hint,
                                                                          d->user_scratchpad);
    return gf_dnnl.convolution_forward_primitive_desc_create(out, d->engine, prop, direct, src, weights, NULL, dst, w->stride,
                                                             w->dilation, w->pad, w->pad, d->user_scratchpad);
}

static dnnl_status_t pool_desc(gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst, const window_dims *w,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    if (prop == dnnl_backward_data)
        return gf_dnnl.pooling_backward_primitive_desc_create(out, d->engine, how, src, dst, w->stride, w->kernel, w->dilation,
                                                              w->pad, w->pad, hint, d->user_scratchpad);
    return gf_dnnl.pooling_forward_primitive_desc_create(out, d->engine, prop, how, src, dst, w->stride, w->kernel, w->dilation,
                                                         w->pad, w->pad, d->user_scratchpad);
}

static dnnl_status_t matmul_desc(gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, dnnl_primitive_desc_t *out) {
    return gf_dnnl.matmul_primitive_desc_create(out, d->engine, a, b, bias, c, add ? d->adding : d->user_scratchpad);
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
        DESCRIBE(gf_dnnl.convolution_backward_data_desc_init(&o, direct, src, weights, dst, w->stride, w->pad, w->pad));
    else if (prop == dnnl_backward_weights)
        DESCRIBE(gf_dnnl.convolution_backward_weights_desc_init(&o, direct, src, weights, NULL, dst, w->stride, w->pad, w->pad));
    else DESCRIBE(gf_dnnl.convolution_forward_desc_init(&o, prop, direct, src, weights, NULL, dst, w->stride, w->pad, w->pad));
    return gf_dnnl.primitive_desc_create(out, &o, d->user_scratchpad, d->engine, hint);
}

static dnnl_status_t pool_desc(gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst, const window_dims *w,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    dnnl_pooling_v2_desc_t o;
    if (prop == dnnl_backward_data)
        DESCRIBE(gf_dnnl.pooling_v2_backward_desc_init(&o, how, src, dst, w->stride, w->kernel, w->dilation, w->pad, w->pad));
    else
        DESCRIBE(
            gf_dnnl.pooling_v2_forward_desc_init(&o, prop, how, src, dst, w->stride, w->kernel, w->dilation, w->pad, w->pad));
    return gf_dnnl.primitive_desc_create(out, &o, d->user_scratchpad, d->engine, hint);
}

static dnnl_status_t matmul_desc(gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, dnnl_primitive_desc_t *out) {
    dnnl_matmul_desc_t o;
    DESCRIBE(gf_dnnl.matmul_desc_init(&o, a, b, bias, c));
    return gf_dnnl.primitive_desc_create(out, &o, add ? d->adding : d->user_scratchpad, d->engine, NULL);
}

#endif

static glofnd_status made(gf_error *err, gf_dnn *d, dnnl_status_t status, dnnl_primitive_desc_t desc, const char *what,
                          gf_prim *out) {
    if (status != dnnl_success) return dnn_fail(err, status, what);
    glofnd_status result;
    WITH_THREADS(d, result, finish(err, d, desc, what, out));
    return result;
}

glofnd_status gf_dnn_conv(gf_error *err, gf_dnn *d, dnnl_prop_kind_t prop, gf_md src, gf_md weights, gf_md dst,
                          const gf_dnn_window *w, const gf_prim *forward, gf_prim *out) {
    const window_dims dims = dims_of(w);
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, conv_desc(d, prop, src, weights, dst, &dims, forward ? forward->desc : NULL, &desc));
    return made(err, d, status, desc, "convolution", out);
}

glofnd_status gf_dnn_pool(gf_error *err, gf_dnn *d, dnnl_alg_kind_t how, dnnl_prop_kind_t prop, gf_md src, gf_md dst,
                          const gf_dnn_window *w, const gf_prim *forward, gf_prim *out) {
    const window_dims dims = dims_of(w);
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, pool_desc(d, how, prop, src, dst, &dims, forward ? forward->desc : NULL, &desc));
    return made(err, d, status, desc, "pooling", out);
}

glofnd_status gf_dnn_matmul(gf_error *err, gf_dnn *d, gf_md a, gf_md b, gf_md bias, gf_md c, int add, gf_prim *out) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, matmul_desc(d, a, b, bias, c, add, &desc));
    return made(err, d, status, desc, "matrix product", out);
}

glofnd_status gf_dnn_reorder(gf_error *err, gf_dnn *d, gf_md from, gf_md to, gf_prim *out) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status;
    WITH_THREADS(d, status, gf_dnnl.reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine, d->user_scratchpad));
    TRY(made(err, d, status, desc, "reorder", out));
    TRY(gf_dnn_slot(err, d, out, DNNL_ARG_FROM, from));
    return gf_dnn_slot(err, d, out, DNNL_ARG_TO, to);
}

glofnd_status gf_dnn_slot(gf_error *err, gf_dnn *d, gf_prim *p, int name, gf_md md) {
    FAIL_IF(err, p->slots == GF_PRIM_SLOTS, GLOFND_E_ARGUMENT, "a primitive has at most %d arguments", GF_PRIM_SLOTS);
    dnnl_exec_arg_t *slot = &p->arg[p->slots];
    CHECK(err, gf_dnnl.memory_create(&slot->memory, md, d->engine, DNNL_MEMORY_NONE), "memory");
    TRY(own(err, d, MEMORY, slot->memory));
    slot->arg = name;
    p->slots++;
    return GLOFND_OK;
}

static dnnl_status_t run(gf_dnn *d, gf_prim *p, void *const *data, void *scratch) {
    dnnl_exec_arg_t arg[GF_PRIM_SLOTS + 1];
    for (int i = 0; i <= p->slots; i++) {
        arg[i] = p->arg[i < p->slots ? i : GF_PRIM_SLOTS];
        const dnnl_status_t status = gf_dnnl.memory_set_data_handle(arg[i].memory, i < p->slots ? data[i] : scratch);
        if (status != dnnl_success) return status;
    }
    const dnnl_status_t status = gf_dnnl.primitive_execute(p->primitive, d->stream, p->slots + 1, arg);
    return status == dnnl_success ? gf_dnnl.stream_wait(d->stream) : status;
}

glofnd_status gf_dnn_run(gf_error *err, gf_dnn *d, gf_prim *p, void *const *data, void *scratch) {
    dnnl_status_t status;
    WITH_THREADS(d, status, run(d, p, data, scratch));
    CHECK(err, status, "execution");
    return GLOFND_OK;
}
