/* weights.c - see weights.h. */
#include "train/weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/json/safetensors.h"

/* The net's tensors as host arrays in `block`, and as entries of a file. */
static glofnd_status fetch_tensors(gf_error *err, gf_net *net, const gf_tensor *tensors, int count, float *block,
                                   gf_st_tensor *list) {
    for (int i = 0; i < count; i++) {
        const gf_tensor *x = &tensors[i];
        list[i] = (gf_st_tensor){.name = x->name, .type = GF_ST_F32, .rank = x->rank, .data = block};
        for (int a = 0; a < x->rank; a++) list[i].shape[a] = x->shape[a];
        TRY(gf_net_get(err, net, x, x->value, block));
        block += x->count;
    }
    return GLOFND_OK;
}

glofnd_status gf_weights_save(gf_error *err, gf_net *net, const char *path) {
    gf_tensor *tensors;
    const int count = gf_net_tensors(net, &tensors);
    int64_t numbers = 0;
    FAIL_IF(err, count < 1, GLOFND_E_ARGUMENT, "a net without tensors");
    for (int i = 0; i < count; i++) numbers += tensors[i].count;
    FAIL_IF(err, numbers < 1 || numbers > PTRDIFF_MAX / (int64_t)sizeof(float), GLOFND_E_ARGUMENT,
            "a net of %" PRId64 " numbers", numbers);
    gf_st_tensor *list = calloc((size_t)count, sizeof *list);
    float *block = malloc((size_t)numbers * sizeof *block);
    const gf_st_text format = {"format", "pt"};
    glofnd_status status = list && block ? fetch_tensors(err, net, tensors, count, block, list)
                                         : gf_fail(err, GLOFND_E_MEMORY, "no memory for a copy of %d tensors", count);
    if (status == GLOFND_OK) status = gf_st_write(err, path, list, count, &format, 1);
    free(list);
    free(block);
    return status;
}

static int same_shape(const gf_tensor *x, const gf_st_tensor *y) {
    if (x->rank != y->rank) return 0;
    for (int a = 0; a < x->rank; a++)
        if (x->shape[a] != y->shape[a]) return 0;
    return 1;
}

static glofnd_status load_tensor(gf_error *err, gf_net *net, const gf_st_file *f, const gf_tensor *x, int backbone_only) {
    const gf_st_tensor *y = gf_st_find(f, x->name);
    if (!y && backbone_only && strncmp(x->name, "head.", 5) == 0) return GLOFND_OK;
    FAIL_IF(err, !y, GLOFND_E_FORMAT, "%s: there is no tensor %s, which this network has", f->path, x->name);
    FAIL_IF(err, !same_shape(x, y), GLOFND_E_FORMAT,
            "%s: %s has another shape than in this network; arch, stem and head must agree", f->path, x->name);
    float *host = malloc((size_t)x->count * sizeof *host);
    FAIL_IF(err, !host, GLOFND_E_MEMORY, "no memory for %s", x->name);
    glofnd_status status = gf_st_read_f32(err, f, y, host, x->count);
    if (status == GLOFND_OK) status = gf_net_put(err, net, x, x->value, host);
    free(host);
    return status;
}

glofnd_status gf_weights_load(gf_error *err, gf_net *net, const char *path, int backbone_only) {
    gf_st_file f = {0};
    gf_tensor *tensors;
    const int count = gf_net_tensors(net, &tensors);
    glofnd_status status = GLOFND_OK;
    TRY(gf_st_open(err, path, &f));
    for (int i = 0; i < count && status == GLOFND_OK; i++) status = load_tensor(err, net, &f, &tensors[i], backbone_only);
    gf_st_close(&f);
    gf_net_touch(net);
    return status;
}
