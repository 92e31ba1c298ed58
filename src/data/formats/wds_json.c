/* wds_json.c - label and caption out of a sample's .json, by jansson. */
#include "data/dataset.h"
#include "data/formats/wds.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a string without zeros, which texts cannot hold. NULL in *out: nothing is left. */
static glofnd_status copy_text(gf_error *err, const char *name, const json_t *string, char **out) {
    const char *text = json_string_value(string);
    const size_t n = json_string_length(string);
    char *copy = malloc(n + 1);
    size_t used = 0;
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for the caption of '%.350s'", name);
    for (size_t i = 0; i < n; i++) {
        if (text[i]) copy[used++] = text[i];
    }
    copy[used] = 0;
    if (used) *out = copy;
    else free(copy);
    return GLOFND_OK;
}

static glofnd_status take_fields(gf_error *err, const char *name, const json_t *root, int32_t *label, char **caption) {
    const json_t *number = json_object_get(root, "label"), *text = json_object_get(root, "caption");
    if (json_is_integer(number)) {
        const json_int_t x = json_integer_value(number);
        FAIL_IF(err, x < -1 || x >= GF_CLASSES_MOST, GLOFND_E_FORMAT, "'%.350s' has label %lld; it must be 0..%d, or -1", name,
                (long long)x, GF_CLASSES_MOST - 1);
        *label = (int32_t)x;
    }
    return json_is_string(text) ? copy_text(err, name, text, caption) : GLOFND_OK;
}

static size_t number_that_is_none(const char *p, size_t n) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        const size_t length = strlen(words[k]);
        if (n >= length && memcmp(p, words[k], length) == 0) return length;
    }
    return 0;
}

/* Puts an empty list in the place of such numbers outside strings: nobody takes it for a label or a caption. */
static void overwrite_numbers_that_are_none(char *text, size_t n) {
    int quoted = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') quoted = !quoted;
        else if (quoted) i += text[i] == '\\';
        else {
            const size_t length = number_that_is_none(text + i, n - i);
            if (length == 0) continue;
            memset(text + i, ' ', length);
            memcpy(text + i, "[]", 2);
            i += length - 1;
        }
    }
}

glofnd_status gf_wds_json(gf_error *err, const char *name, char *text, size_t n, int32_t *label, char **caption) {
    json_error_t why;
    *label = -1;
    *caption = NULL;
    overwrite_numbers_that_are_none(text, n);
    json_t *root = json_loadb(text, n, JSON_ALLOW_NUL, &why);
#if JANSSON_VERSION_HEX >= 0x020b00
    FAIL_IF(err, !root && json_error_code(&why) == json_error_out_of_memory, GLOFND_E_MEMORY, "no memory to read '%.300s'", name);
#endif
    FAIL_IF(err, !root, GLOFND_E_FORMAT, "'%.300s' is not JSON: %.100s", name, why.text);
    const glofnd_status status = take_fields(err, name, root, label, caption);
    json_decref(root);
    return status;
}
