/* split_lists.c - samples listed in a text file, one per line, as many datasets publish their splits. See split.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/split.h"
#include "util/strings/string_list.h"

#define NAME 4400

/* Length of a file name without its extension; published lists have names with and without. */
static size_t stem_length(const char *name) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    return dot && dot > (slash ? slash : name) ? (size_t)(dot - name) : strlen(name);
}

static glofnd_status read_lines(gf_error *err, FILE *file, const char *path, gf_string_list *out) {
    char line[NAME];
    while (fgets(line, sizeof line, file)) {
        const size_t length = strcspn(line, "\r\n");
        FAIL_IF(err, !line[length] && !feof(file), GLOFND_E_FORMAT, "%.300s has a line of more than %d bytes", path, NAME - 2);
        line[length] = 0;
        if (length) TRY(gf_string_list_add(err, out, line, stem_length(line)));
    }
    FAIL_IF(err, ferror(file), GLOFND_E_IO, "%.300s cannot be read", path);
    FAIL_IF(err, out->n == 0, GLOFND_E_FORMAT, "%.300s lists no sample", path);
    TRY(gf_string_list_sort(err, out));
    gf_string_list_unique(out);
    return GLOFND_OK;
}

static glofnd_status read_list(gf_error *err, const char *path, gf_string_list *out) {
    FILE *file = fopen(path, "r");
    FAIL_IF(err, !file, GLOFND_E_IO, "%.300s cannot be read: %s", path, strerror(errno));
    const glofnd_status status = read_lines(err, file, path, out);
    fclose(file);
    return status;
}

/* Line that lists the sample: its name, or the part after one of its slashes; -1: none. */
static int64_t line_of(const gf_string_list *lines, const gf_samples *s, int64_t i) {
    char name[NAME];
    gf_dataset_name(s->data, s->id[i], name, sizeof name);
    name[stem_length(name)] = 0;
    for (const char *at = name; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
        const int64_t line = gf_string_list_find(lines, at);
        if (line >= 0) return line;
    }
    return -1;
}

static glofnd_status mark(gf_error *err, const char *path, const gf_string_list *lines, const gf_samples *from, uint8_t *chosen,
                          uint8_t *used) {
    for (int64_t i = 0; i < from->n; i++) {
        const int64_t line = line_of(lines, from, i);
        chosen[i] = line >= 0;
        if (line >= 0) used[line] = 1;
    }
    for (int64_t line = 0; line < lines->n; line++)
        FAIL_IF(err, !used[line], GLOFND_E_FORMAT, "%.200s lists \"%.200s\", which is not a sample of this dataset", path,
                gf_string_list_get(lines, line));
    return GLOFND_OK;
}

glofnd_status gf_samples_listed(gf_error *err, const gf_samples *from, const char *path, gf_samples *to) {
    gf_string_list lines = {0};
    uint8_t *chosen = NULL, *used = NULL;
    glofnd_status status = read_list(err, path, &lines);
    if (status == GLOFND_OK) {
        chosen = calloc((size_t)from->n + 1, 1);
        used = calloc((size_t)lines.n + 1, 1);
        if (!chosen || !used) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the names in %.200s", path);
    }
    if (status == GLOFND_OK) status = mark(err, path, &lines, from, chosen, used);
    if (status == GLOFND_OK) status = gf_samples_choose(err, from, chosen, 1, to);
    gf_string_list_free(&lines);
    free(chosen);
    free(used);
    return status;
}
