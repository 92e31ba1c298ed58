/* without_jansson.c - what stands for safetensors.c and jsonl_read.c in a build without jansson: opening and writing say what is
 * missing, and nothing else is ever reached with a file that is open.
 */
#include "io/json/jsonl.h"
#include "io/json/safetensors.h"

#ifndef GF_HAVE_JANSSON

#define MISSING "'%.300s': this program was built without jansson, which %s needs"

static const char *const type_names[] = {
#define GF_ST_X(name, bytes) #name,
    GF_ST_TYPE_LIST(GF_ST_X)
#undef GF_ST_X
};

static const size_t type_bytes[] = {
#define GF_ST_X(name, bytes) bytes,
    GF_ST_TYPE_LIST(GF_ST_X)
#undef GF_ST_X
};

size_t gf_st_type_bytes(gf_st_type type) { return type_bytes[type]; }
const char *gf_st_type_name(gf_st_type type) { return type_names[type]; }

glofnd_status gf_st_ready(gf_error *err) {
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "this program was built without jansson, which safetensors (weights, checkpoints) need");
}

glofnd_status gf_st_open(gf_error *err, const char *path, gf_st_file *out) {
    (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, MISSING, path, "reading safetensors");
}

void gf_st_close(gf_st_file *f) { (void)f; }

const gf_st_tensor *gf_st_find(const gf_st_file *f, const char *name) {
    (void)f, (void)name;
    return NULL;
}

const char *gf_st_find_text(const gf_st_file *f, const char *key) {
    (void)f, (void)key;
    return NULL;
}

glofnd_status gf_st_read(gf_error *err, const gf_st_file *f, const gf_st_tensor *t, void *out, size_t bytes) {
    (void)t, (void)out, (void)bytes;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, MISSING, f->path, "reading safetensors");
}

glofnd_status gf_st_read_f32(gf_error *err, const gf_st_file *f, const gf_st_tensor *t, float *out, int64_t count) {
    (void)t, (void)out, (void)count;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, MISSING, f->path, "reading safetensors");
}

glofnd_status gf_st_write(gf_error *err, const char *path, const gf_st_tensor *tensors, int64_t count, const gf_st_text *texts,
                          int64_t text_count) {
    (void)tensors, (void)count, (void)texts, (void)text_count;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, MISSING, path, "writing safetensors");
}

/* ----- JSON lines, reading ----- */

glofnd_status gf_jsonl_read_open(gf_jsonl_reader *r, gf_error *err, const char *path) {
    *r = (gf_jsonl_reader){.err = err, .path = path};
    r->status = gf_fail(err, GLOFND_E_UNSUPPORTED, MISSING, path, "reading JSON lines");
    return r->status;
}

int gf_jsonl_next(gf_jsonl_reader *r) {
    (void)r;
    return 0;
}

int gf_jsonl_get(const gf_jsonl_reader *r, const char *key, double *x) {
    (void)r, (void)key, (void)x;
    return 0;
}

int gf_jsonl_get_integer(const gf_jsonl_reader *r, const char *key, int64_t *x) {
    (void)r, (void)key, (void)x;
    return 0;
}

const char *gf_jsonl_get_text(const gf_jsonl_reader *r, const char *key) {
    (void)r, (void)key;
    return NULL;
}

int64_t gf_jsonl_get_numbers(const gf_jsonl_reader *r, const char *key, double *x, int64_t room) {
    (void)r, (void)key, (void)x, (void)room;
    return -1;
}

int gf_jsonl_each(const gf_jsonl_reader *r, void (*take)(void *user, const char *key, const char *value), void *user) {
    (void)r, (void)take, (void)user;
    return 1;
}

void gf_jsonl_read_close(gf_jsonl_reader *r) { (void)r; }

#endif
