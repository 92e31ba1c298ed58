/* wds_json.c - label and caption out of a sample's .json, by jansson. */
#include "data/dataset.h"
#include "data/wds.h"

#ifdef GF_HAVE_JANSSON

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static glofnd_status take_fields(gf_error *err, const char *name, const json_t *root, int32_t *label, char **caption) {
    const json_t *number = json_object_get(root, "label"), *text = json_object_get(root, "caption");
    if (json_is_integer(number)) {
        const json_int_t x = json_integer_value(number);
        FAIL_IF(err, x < 0 || x >= GF_CLASSES_MOST, GLOFND_E_FORMAT, "'%.350s': label %lld is not in 0..%d", name, (long long)x,
                GF_CLASSES_MOST - 1);
        *label = (int32_t)x;
    }
    if (caption && json_is_string(text)) {
        *caption = strdup(json_string_value(text));
        FAIL_IF(err, !*caption, GLOFND_E_MEMORY, "no memory for the caption of '%.350s'", name);
    }
    return GLOFND_OK;
}

glofnd_status gf_wds_json(gf_error *err, const char *name, const char *text, size_t n, int32_t *label, char **caption) {
    json_error_t why;
    *label = -1;
    if (caption) *caption = NULL;
    json_t *root = json_loadb(text, n, 0, &why);
    FAIL_IF(err, !root, GLOFND_E_FORMAT, "'%.300s' is not JSON: %.100s", name, why.text);
    const glofnd_status status = take_fields(err, name, root, label, caption);
    json_decref(root);
    return status;
}

#else

glofnd_status gf_wds_json(gf_error *err, const char *name, const char *text, size_t n, int32_t *label, char **caption) {
    (void)text, (void)n, (void)label, (void)caption;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s': this program was built without jansson, which .json needs", name);
}

#endif
