/* safetensors_write.c - see safetensors.h: writing. The header's JSON is made by jansson. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/safetensors.h"
#include "run/safetensors_checksum.h"
#include "io/safetensors_parts.h"

static uint64_t tensor_bytes(const gf_st_tensor *t) { return (uint64_t)t->count * gf_st_type_bytes(t->type); }

static glofnd_status add_texts(gf_error *err, const char *path, json_t *header, const gf_st_text *texts, int64_t count) {
    if (count == 0) return GLOFND_OK;
    json_t *metadata = json_object();
    FAIL_IF(err, json_object_set_new(header, GF_ST_METADATA, metadata) != 0, GLOFND_E_MEMORY, "%.300s: no memory for its header",
            path);
    for (int64_t i = 0; i < count; i++) {
        FAIL_IF(err, json_object_get(metadata, texts[i].key), GLOFND_E_ARGUMENT, "%.200s: two texts '%s'", path,
                gf_st_show(texts[i].key).text);
        const char *text = strcmp(texts[i].key, GF_ST_CHECKSUM) == 0 ? GF_ST_NO_CHECKSUM : texts[i].text;
        FAIL_IF(err, json_object_set_new(metadata, texts[i].key, json_string(text)) != 0, GLOFND_E_ARGUMENT,
                "%.200s: the text '%s' is not UTF-8, or there is no memory", path, gf_st_show(texts[i].key).text);
    }
    return GLOFND_OK;
}

static glofnd_status check_tensor(gf_error *err, const char *path, const json_t *header, gf_st_tensor *t) {
    FAIL_IF(err, !t->name || strcmp(t->name, GF_ST_METADATA) == 0 || json_object_get(header, t->name), GLOFND_E_ARGUMENT,
            "%.200s: a tensor without name, or two called '%s'", path, gf_st_show(t->name).text);
    FAIL_IF(err, (unsigned)t->type >= GF_ST_TYPES || t->rank < 0 || t->rank > GF_ST_MAX_RANK || !gf_st_set_count(t),
            GLOFND_E_ARGUMENT, "%.200s: tensor '%s': its type, rank or shape cannot be written", path, gf_st_show(t->name).text);
    FAIL_IF(err, !t->data && t->count > 0, GLOFND_E_ARGUMENT, "%.200s: tensor '%s' of %lld elements has no data", path,
            gf_st_show(t->name).text, (long long)t->count);
    return GLOFND_OK;
}

/* *at: where its data starts, moved to its end. */
static glofnd_status add_tensor(gf_error *err, const char *path, json_t *header, const gf_st_tensor *tensor, int64_t *at) {
    gf_st_tensor t = *tensor;
    TRY(check_tensor(err, path, header, &t));
    const int64_t begin = *at;
    FAIL_IF(err, __builtin_add_overflow(begin, (int64_t)tensor_bytes(&t), at), GLOFND_E_ARGUMENT, "%.300s: too large", path);
    json_t *shape = json_array();
    for (int k = 0; k < t.rank; k++) json_array_append_new(shape, json_integer(t.shape[k]));
    json_t *info = json_pack("{s:s, s:o, s:[I, I]}", "dtype", gf_st_type_name(t.type), "shape", shape, "data_offsets",
                             (json_int_t)begin, (json_int_t)*at);
    FAIL_IF(err,
            !info || json_array_size(json_object_get(info, "shape")) != (size_t)t.rank ||
                json_object_set_new(header, t.name, info) != 0,
            GLOFND_E_ARGUMENT, "%.200s: the name '%s' is not UTF-8, or there is no memory", path, gf_st_show(t.name).text);
    return GLOFND_OK;
}

static glofnd_status make_header(gf_error *err, const char *path, json_t *header, const gf_st_tensor *tensors, int64_t count,
                                 const gf_st_text *texts, int64_t text_count, char **out) {
    int64_t at = 0;
    TRY(add_texts(err, path, header, texts, text_count));
    for (int64_t i = 0; i < count; i++) TRY(add_tensor(err, path, header, &tensors[i], &at));
    *out = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "%.300s: no memory for its header", path);
    return GLOFND_OK;
}

static glofnd_status put_file(gf_error *err, const char *path, char *header, const gf_st_tensor *tensors, int64_t count) {
    const size_t length = strlen(header), padding = (8 - length % 8) % 8;
    gf_writer w;
    FAIL_IF(err, length + padding > GF_ST_MAX_HEADER, GLOFND_E_ARGUMENT, "%.300s: too many tensors for one file", path);
    gf_st_put_checksum(header, length + padding, tensors, count);
    TRY(gf_writer_open(err, &w, path));
    gf_put_u64(&w, length + padding);
    gf_put(&w, header, length);
    gf_put(&w, "        ", padding);
    for (int64_t i = 0; i < count; i++) {
        gf_st_tensor t = tensors[i];
        gf_st_set_count(&t);
        gf_put(&w, t.data, (size_t)tensor_bytes(&t));
    }
    return gf_writer_finish(&w);
}

glofnd_status gf_st_write(gf_error *err, const char *path, const gf_st_tensor *tensors, int64_t count, const gf_st_text *texts,
                          int64_t text_count) {
    char *text = NULL;
    json_t *header = json_object();
    FAIL_IF(err, !header, GLOFND_E_MEMORY, "%.300s: no memory for its header", path);
    glofnd_status status = make_header(err, path, header, tensors, count, texts, text_count, &text);
    json_decref(header);
    if (status == GLOFND_OK) status = put_file(err, path, text, tensors, count);
    free(text);
    return status;
}
