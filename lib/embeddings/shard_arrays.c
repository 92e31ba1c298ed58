/* shard_arrays.c - embeddings that lie in a file as one array: .npy, and a tensor of a .safetensors file; see embedding_set.h.
 * Rows are read from their place: C order as they lie, Fortran order column by column. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embeddings/embedding_set.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "util/array.h"
#include "util/dtype.h"

typedef enum number { F32, F64, F16, BF16 } number;

typedef struct array {
    int fd;
    number type;
    int swapped, fortran;
    uint64_t at; /* where it begins */
} array;

/* ----- opening ----- */

static glofnd_status check_shape(gf_error *err, gf_shard *s, int rank, const int64_t *shape) {
    FAIL_IF(err, rank != 2, GLOFND_E_FORMAT, "%.300s: an array with %d ax%s; expected two, [samples][dimensions]", s->path, rank,
            rank == 1 ? "is" : "es");
    s->rows = shape[0], s->dim = shape[1];
    return GLOFND_OK;
}

static glofnd_status make_array(gf_error *err, gf_shard *s, const array *known) {
    array *a = malloc(sizeof *a);
    FAIL_IF(err, !a, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
    *a = *known;
    a->fd = -1;
    s->state = a;
    return gf_file_open(err, s->path, &a->fd, NULL);
}

static glofnd_status open_npy(gf_error *err, const gf_embedding_input *in, gf_shard *s) {
    gf_npy n = {0};
    (void)in;
    TRY(gf_npy_read_header(err, s->path, &n));
    FAIL_IF(err, n.type != GF_NPY_F4 && n.type != GF_NPY_F2 && n.type != GF_NPY_F8, GLOFND_E_FORMAT,
            "%.300s: elements are %s; expected float32, float16 or float64: save x.astype(\"float32\")", s->path,
            gf_npy_type_name(n.type));
    TRY(check_shape(err, s, n.rank, n.shape));
    const number type = n.type == GF_NPY_F4 ? F32 : n.type == GF_NPY_F8 ? F64 : F16;
    return make_array(err, s, &(array){.type = type, .swapped = n.swapped, .fortran = n.fortran, .at = n.at});
}

/* The tensor by name, or the only one with two axes. */
static glofnd_status pick_tensor(gf_error *err, gf_shard *s, const gf_st_file *f, const char *name, array *a) {
    const gf_st_tensor *t = name ? gf_st_find(f, name) : NULL;
    int64_t matrices = 0;
    for (int64_t i = 0; !name && i < f->count; i++)
        if (f->tensors[i].rank == 2) t = &f->tensors[i], matrices++;
    if (!t || matrices > 1) {
        const char *path = s->path;
        char list[256] = "";
        FAIL_IF(err, f->count == 0, GLOFND_E_ARGUMENT, "%.300s: the file holds no tensor", path);
        for (int64_t i = 0; i < f->count && strlen(list) < 190; i++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", i ? ", " : "", f->tensors[i].name);
        if (name) GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: no tensor '%.80s'; it has %s", path, name, list);
        GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: no single tensor with two axes; choose one with tensor=NAME: %s", path, list);
    }
    FAIL_IF(err, t->type != GF_ST_F32 && t->type != GF_ST_F16 && t->type != GF_ST_BF16 && t->type != GF_ST_F64, GLOFND_E_FORMAT,
            "%.300s: tensor '%.80s' is %s; expected F32, F16, BF16 or F64", s->path, t->name, gf_st_type_name(t->type));
    TRY(check_shape(err, s, t->rank, t->shape));
    a->type = t->type == GF_ST_F32 ? F32 : t->type == GF_ST_F64 ? F64 : t->type == GF_ST_F16 ? F16 : BF16;
    a->at = t->at;
    return GLOFND_OK;
}

static glofnd_status open_tensor(gf_error *err, const gf_embedding_input *in, gf_shard *s) {
    gf_st_file f = {0};
    array a = {0};
    TRY(gf_st_open(err, s->path, &f));
    const glofnd_status status = pick_tensor(err, s, &f, in->tensor, &a);
    gf_st_close(&f);
    return status == GLOFND_OK ? make_array(err, s, &a) : status;
}

static void close_array(gf_shard *s) {
    array *a = s->state;
    if (a && a->fd >= 0) gf_close(a->fd);
    free(a);
    s->state = NULL;
}

/* ----- reading ----- */

/* Element i of `from` to every step-th of x. */
static void convert(number type, const void *from, int64_t count, float *x, int64_t step) {
    const float *f32 = from;
    const double *f64 = from;
    const uint16_t *half = from;
    switch (type) {
    case F32:
        for (int64_t i = 0; i < count; i++) x[i * step] = f32[i];
        break;
    case F64:
        for (int64_t i = 0; i < count; i++) x[i * step] = (float)f64[i];
        break;
    case F16:
        for (int64_t i = 0; i < count; i++) x[i * step] = gf_f16_to_float(half[i]);
        break;
    case BF16:
        for (int64_t i = 0; i < count; i++) x[i * step] = gf_bf16_to_float(half[i]);
        break;
    }
}

/* `count` elements from number `first` on, to every step-th of x. */
static glofnd_status read_elements(gf_error *err, const gf_shard *s, uint64_t first, int64_t count, float *x, int64_t step) {
    enum { SOME = 1 << 16 };
    const array *a = s->state;
    const size_t bytes = a->type == F64 ? 8 : a->type == F32 ? 4 : 2;
    if (a->type == F32 && !a->swapped && step == 1)
        return gf_file_read_at(err, a->fd, s->path, a->at + first * bytes, x, (size_t)count * bytes);
    void *some = malloc((size_t)GF_MIN(count, SOME) * bytes);
    FAIL_IF(err, !some, GLOFND_E_MEMORY, "%.300s: no memory to read it", s->path);
    glofnd_status status = GLOFND_OK;
    for (int64_t done = 0; done < count && status == GLOFND_OK; done += SOME) {
        const int64_t n = GF_MIN(SOME, count - done);
        status = gf_file_read_at(err, a->fd, s->path, a->at + (first + (uint64_t)done) * bytes, some, (size_t)n * bytes);
        if (status == GLOFND_OK && a->swapped) gf_npy_swap(some, n, bytes);
        if (status == GLOFND_OK) convert(a->type, some, n, x + done * step, step);
    }
    free(some);
    return status;
}

static glofnd_status read_array(gf_error *err, gf_shard *s, int64_t first, int64_t rows, float *x) {
    const array *a = s->state;
    if (!a->fortran) return read_elements(err, s, (uint64_t)first * (uint64_t)s->dim, rows * s->dim, x, 1);
    for (int64_t k = 0; k < s->dim; k++)
        TRY(read_elements(err, s, (uint64_t)k * (uint64_t)s->rows + (uint64_t)first, rows, x + k, s->dim));
    return GLOFND_OK;
}

static glofnd_status no_names(gf_error *err, gf_shard *s, gf_string_list *out) {
    (void)out;
    GF_FAIL(err, GLOFND_E_ARGUMENT, "%.300s: an array has no names", s->path);
}

const gf_shard_kind gf_shard_npy = {.open = open_npy, .read = read_array, .names = no_names, .close = close_array};
const gf_shard_kind gf_shard_tensor = {.open = open_tensor, .read = read_array, .names = no_names, .close = close_array};
