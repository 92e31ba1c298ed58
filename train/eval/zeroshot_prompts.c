/* zeroshot_prompts.c - prompts of classes: names and templates, from untrusted files. See zeroshot.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/zeroshot.h"
#include "io/file.h"

#define FILE_MAX ((uint64_t)64 << 20)

void gf_prompts_free(gf_prompts *p) {
    gf_string_list_free(&p->classes);
    gf_string_list_free(&p->templates);
}

/* ----- lines of a file ----- */

static int is_blank(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n') return 0;
    return 1;
}

/* Adds the lines of text [n], terminated by 0, without carriage returns. Blank lines are allowed at the end. */
static glofnd_status add_lines(gf_error *err, const char *path, const char *text, size_t n, gf_string_list *out) {
    const char *end = text + n;
    FAIL_IF(err, memchr(text, 0, n) != NULL, GLOFND_E_FORMAT, "%.300s is not a text file: it has a zero byte", path);
    for (int64_t line = 1; text < end && !is_blank(text, (size_t)(end - text)); line++) {
        const size_t length = strcspn(text, "\n"), used = length && text[length - 1] == '\r' ? length - 1 : length;
        FAIL_IF(err, is_blank(text, used), GLOFND_E_FORMAT, "%.300s, line %lld is empty", path, (long long)line);
        FAIL_IF(err, used >= GF_PROMPT_MAX, GLOFND_E_FORMAT, "%.300s, line %lld has more than %d bytes", path, (long long)line,
                GF_PROMPT_MAX - 1);
        TRY(gf_string_list_add(err, out, text, used));
        text += length + (text + length < end);
    }
    FAIL_IF(err, out->n == 0, GLOFND_E_FORMAT, "%.300s is empty; expected one entry per line", path);
    return GLOFND_OK;
}

static glofnd_status read_lines(gf_error *err, const char *path, gf_string_list *out) {
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    glofnd_status status = gf_file_read_text(err, path, FILE_MAX, &bytes, &capacity, &size);
    const size_t mark = status == GLOFND_OK && size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark */
    if (status == GLOFND_OK) status = add_lines(err, path, (const char *)bytes + mark, size - mark, out);
    free(bytes);
    return status;
}

/* ----- templates ----- */

static const char *const own_templates[] = {
    "a photo of a {}.", "a photo of the {}.", "a picture of a {}.",    "an image of a {}.",
    "a small {}.",      "a large {}.",        "a close view of a {}.",
};

/* Bytes of a gap for the class name that the text begins with, {} or {c} as clip_benchmark writes it; 0: none. */
static size_t gap_at(const char *text) { return strncmp(text, "{}", 2) == 0 ? 2 : strncmp(text, "{c}", 3) == 0 ? 3 : 0; }

static const char *gap_of(const char *text) {
    while (*text && !gap_at(text)) text++;
    return *text ? text : NULL;
}

static glofnd_status read_templates(gf_error *err, const char *path, gf_string_list *out) {
    if (path) TRY(read_lines(err, path, out));
    for (size_t i = 0; !path && i < sizeof own_templates / sizeof *own_templates; i++)
        TRY(gf_string_list_add(err, out, own_templates[i], strlen(own_templates[i])));
    for (int64_t i = 0; i < out->n; i++)
        FAIL_IF(err, !gap_of(gf_string_list_get(out, i)), GLOFND_E_FORMAT,
                "%.300s, line %lld has no {} or {c} for the class name: \"%.60s\"", path, (long long)i + 1,
                gf_string_list_get(out, i));
    return GLOFND_OK;
}

glofnd_status gf_prompts_templates(gf_error *err, const char *path, gf_string_list *out) {
    *out = (gf_string_list){0};
    const glofnd_status status = read_templates(err, path, out);
    if (status != GLOFND_OK) gf_string_list_free(out);
    return status;
}

size_t gf_prompt_fill(const char *template, const char *name, char *out, size_t bytes) {
    const size_t name_length = strlen(name);
    size_t n = 0;
    while (*template) {
        const size_t gap = gap_at(template);
        const char *from = gap ? name : template;
        const size_t length = gap ? name_length : 1;
        for (size_t i = 0; i < length; i++, n++)
            if (n + 1 < bytes) out[n] = from[i];
        template += gap ? gap : 1;
    }
    if (bytes) out[n < bytes ? n : bytes - 1] = 0;
    return n;
}

/* ----- classes ----- */

/* A WordNet id, as ImageNet's folders are called; it says nothing to a text encoder. */
static int is_wordnet_id(const char *name, size_t n) {
    if (n != 9 || name[0] != 'n') return 0;
    for (size_t i = 1; i < 9; i++)
        if (name[i] < '0' || name[i] > '9') return 0;
    return 1;
}

static size_t first_word(const char *line) { return strcspn(line, " \t,"); }

/* 1: every line is "n01440764 tench, Tinca tinca". */
static int lines_have_ids(const gf_string_list *lines) {
    int64_t i = 0;
    while (i < lines->n && is_wordnet_id(gf_string_list_get(lines, i), first_word(gf_string_list_get(lines, i)))) i++;
    return lines->n > 0 && i == lines->n;
}

/* The name that the lines give to an id, up to the first comma; NULL: none. */
static const char *name_of_id(const gf_string_list *lines, const char *id, size_t *n) {
    for (int64_t i = 0; i < lines->n; i++) {
        const char *line = gf_string_list_get(lines, i), *name = line + first_word(line);
        if (strncmp(line, id, first_word(line)) != 0 || strlen(id) != first_word(line)) continue;
        name += strspn(name, " \t,");
        *n = strcspn(name, ",");
        return *n ? name : NULL;
    }
    return NULL;
}

/* Lines with ids serve every dataset whose classes are called by them, in any order, as ImageNet and parts of it. */
static glofnd_status names_by_id(gf_error *err, const gf_dataset *data, int32_t classes, const char *path,
                                 gf_string_list *lines) {
    gf_string_list named = {0};
    glofnd_status status = GLOFND_OK;
    for (int32_t c = 0; c < classes && status == GLOFND_OK; c++) {
        const char *id = gf_dataset_class(data, c), *name;
        size_t n = 0;
        if (id && (name = name_of_id(lines, id, &n))) status = gf_string_list_add(err, &named, name, n);
        else status = gf_fail(err, GLOFND_E_FORMAT, "%.300s has no line for class %d, \"%.60s\"", path, (int)c, id ? id : "");
    }
    gf_string_list_free(lines);
    *lines = named;
    return status;
}

static glofnd_status own_names(gf_error *err, const gf_dataset *data, int32_t classes, gf_string_list *out) {
    char name[GF_PROMPT_MAX];
    for (int32_t c = 0; c < classes; c++) {
        const char *given = gf_dataset_class_title(data, c);
        FAIL_IF(err, !given, GLOFND_E_ARGUMENT, "class %d of this data has no name; give a file with one per line by --classes",
                (int)c);
        FAIL_IF(err, is_wordnet_id(given, strlen(given)), GLOFND_E_ARGUMENT,
                "class %d of this data is called %s, a WordNet id; give a file with lines \"%s NAME\", or a name per line, by "
                "--classes",
                (int)c, given, given);
        const size_t n = (size_t)snprintf(name, sizeof name, "%s", given);
        FAIL_IF(err, n >= sizeof name, GLOFND_E_FORMAT, "the name of class %d has more than %d bytes", (int)c, GF_PROMPT_MAX - 1);
        for (char *at = name; *at; at++)
            if (*at == '_') *at = ' ';
        TRY(gf_string_list_add(err, out, name, n));
    }
    return GLOFND_OK;
}

/* Labels without names give only a lower limit of the number of classes. */
static glofnd_status read_classes(gf_error *err, const gf_dataset *data, const char *path, gf_string_list *out) {
    const int32_t classes = gf_dataset_describe(data).classes;
    const int named = classes > 0 && gf_dataset_class(data, 0) != NULL;
    FAIL_IF(err, classes == 0, GLOFND_E_ARGUMENT, "this data has no labels to score images with");
    if (!path) return own_names(err, data, classes, out);
    TRY(read_lines(err, path, out));
    if (lines_have_ids(out)) return names_by_id(err, data, classes, path, out);
    FAIL_IF(err, out->n < classes || (named && out->n > classes), GLOFND_E_FORMAT,
            "%.300s has %lld class names, the data has %d classes; expected one name per line, in the order of the labels", path,
            (long long)out->n, (int)classes);
    return GLOFND_OK;
}

glofnd_status gf_prompts_classes(gf_error *err, const gf_dataset *data, const char *path, gf_string_list *out) {
    *out = (gf_string_list){0};
    const glofnd_status status = read_classes(err, data, path, out);
    if (status != GLOFND_OK) gf_string_list_free(out);
    return status;
}
