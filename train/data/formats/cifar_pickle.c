/* cifar_pickle.c - see cifar.h. */
#include <stdlib.h>

#include "data/formats/cifar.h"
#include "io/file.h"
#include "pickle/pickle.h"

#define RECORD 3072

typedef struct label_list {
    const gf_pickle *p;
    uint8_t *label;
    int64_t n, taken;
    int classes;
} label_list;

static int take_label(void *user, int64_t i, int32_t node) {
    label_list *l = user;
    int64_t x;
    if (i >= l->n || !gf_pickle_integer(l->p, node, &x) || x < 0 || x >= l->classes) return 0;
    l->label[i] = (uint8_t)x;
    l->taken++;
    return 1;
}

static glofnd_status take(gf_error *err, const char *path, const gf_pickle *p, const char *key, int classes,
                          gf_cifar_pickle *out) {
    gf_pickle_array pixels;
    FAIL_IF(err, !gf_pickle_bytes(p, gf_pickle_get(p, p->root, "data"), &pixels) || pixels.columns != RECORD || pixels.rows < 1,
            GLOFND_E_FORMAT, "'%.300s' has no array 'data' of bytes, %d in a row", path, RECORD);
    out->n = pixels.rows;
    out->pixels_at = pixels.at;
    out->label = malloc((size_t)out->n);
    FAIL_IF(err, !out->label, GLOFND_E_MEMORY, "no memory for %lld labels", (long long)out->n);
    label_list l = {.p = p, .label = out->label, .n = out->n, .classes = classes};
    const int64_t count = gf_pickle_each(p, gf_pickle_get(p, p->root, key), take_label, &l);
    FAIL_IF(err, count != out->n || l.taken != count, GLOFND_E_FORMAT,
            "'%.300s' has %lld usable of %lld entries in '%s', for %lld images of %d classes", path, (long long)l.taken,
            (long long)count, key, (long long)out->n, classes);
    return GLOFND_OK;
}

/* Calls back with the pickle of a file. */
static glofnd_status open_pickle(gf_error *err, const char *path, uint8_t **bytes, gf_pickle *p) {
    size_t capacity = 0, size = 0;
    *p = (gf_pickle){.root = -1};
    TRY(gf_file_read(err, path, GF_PICKLE_BYTES_MAX, bytes, &capacity, &size));
    return gf_pickle_parse(err, path, &gf_pickle_numpy, *bytes, size, p);
}

glofnd_status gf_cifar_pickle_read(gf_error *err, const char *path, const char *label_key, int classes, gf_cifar_pickle *out) {
    uint8_t *bytes = NULL;
    gf_pickle p;
    *out = (gf_cifar_pickle){0};
    glofnd_status status = open_pickle(err, path, &bytes, &p);
    if (status == GLOFND_OK) status = take(err, path, &p, label_key, classes, out);
    gf_pickle_free(&p);
    free(bytes);
    if (status == GLOFND_OK) return status;
    free(out->label);
    *out = (gf_cifar_pickle){0};
    return status;
}

typedef struct name_list {
    gf_error *err;
    const gf_pickle *p;
    gf_string_list *out;
    glofnd_status status;
} name_list;

static int take_name(void *user, int64_t i, int32_t node) {
    name_list *l = user;
    const char *text;
    size_t n;
    (void)i;
    if (!gf_pickle_string(l->p, node, &text, &n) || n > 1000) return 0;
    l->status = gf_string_list_add(l->err, l->out, text, n);
    return l->status == GLOFND_OK;
}

glofnd_status gf_cifar_pickle_names(gf_error *err, const char *path, const char *key, gf_string_list *out) {
    uint8_t *bytes = NULL;
    gf_pickle p;
    glofnd_status status = open_pickle(err, path, &bytes, &p);
    name_list l = {.err = err, .p = &p, .out = out};
    if (status == GLOFND_OK) (void)gf_pickle_each(&p, gf_pickle_get(&p, p.root, key), take_name, &l);
    gf_pickle_free(&p);
    free(bytes);
    return status == GLOFND_OK ? l.status : status;
}
