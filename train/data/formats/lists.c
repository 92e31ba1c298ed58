/* lists.c - files named by a list: list:FILE with lines path<TAB>label, and csv:FILE with a header such as filepath<TAB>title.
 *
 * Labels that are all integers are taken unchanged; others are names, numbered in bytewise order. Relative paths start at the
 * folder of the list.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/captions.h"
#include "data/dataset_format.h"
#include "io/file.h"
#include "util/string_list.h"
#include "util/text.h"

typedef struct listing {
    gf_string_list paths, texts, label_names; /* [n] each; texts only with has_text; label_names only while opening */
    int has_text, has_label;
    int32_t *label; /* [n], or NULL: no labels */
} listing;

static glofnd_status parse_list(gf_error *err, listing *l, const char *text, const char *end) {
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end) line_end = end;
        size_t n = (size_t)(line_end - text);
        while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == ' ')) n--;
        const char *tab = memchr(text, '\t', n);
        const size_t path = tab ? (size_t)(tab - text) : n;
        if (path != 0) {
            TRY(gf_string_list_add(err, &l->paths, text, path));
            if (tab) l->has_label = 1;
            TRY(gf_string_list_add(err, &l->label_names, tab ? tab + 1 : "", tab ? n - path - 1 : 0));
        }
        text = line_end + 1;
    }
    return GLOFND_OK;
}

static glofnd_status add_field(gf_error *err, gf_string_list *to, const gf_string_list *row, int64_t column) {
    const char *text = gf_string_list_get(row, column);
    return gf_string_list_add(err, to, text ? text : "", text ? strlen(text) : 0);
}

static glofnd_status parse_rows(gf_error *err, const gf_dataset *d, listing *l, gf_csv *csv, gf_string_list *row) {
    TRY(gf_csv_next(err, csv, row));
    const char *image = gf_spec_value(&d->spec, "image"), *caption = gf_spec_value(&d->spec, "caption");
    const char *label = gf_spec_value(&d->spec, "label");
    const struct {
        int64_t image, caption, label; /* -1: missing */
    } c = {gf_string_list_first(row, image ? image : "filepath"), gf_string_list_first(row, caption ? caption : "title"),
           gf_string_list_first(row, label ? label : "label")};
    FAIL_IF(err, c.image < 0, GLOFND_E_FORMAT, "'%.300s' has no column '%.60s' in its first line; name it with ?image=COLUMN",
            d->spec.place, image ? image : "filepath");
    FAIL_IF(err, c.caption < 0 && caption, GLOFND_E_FORMAT, "'%.300s' has no column '%.60s' in its first line", d->spec.place,
            caption);
    FAIL_IF(err, c.label < 0 && label, GLOFND_E_FORMAT, "'%.300s' has no column '%.60s' in its first line", d->spec.place, label);
    l->has_text = c.caption >= 0;
    l->has_label = c.label >= 0;
    for (;;) {
        TRY(gf_csv_next(err, csv, row));
        if (row->n == 0) return GLOFND_OK;
        if (row->n == 1 && !gf_string_list_get(row, 0)[0]) continue; /* an empty line */
        FAIL_IF(err, row->n <= c.image || row->n <= c.caption || !gf_string_list_get(row, c.image)[0], GLOFND_E_FORMAT,
                "'%.300s', line %lld: too few fields, or no image", d->spec.place, (long long)csv->line);
        TRY(add_field(err, &l->paths, row, c.image));
        if (l->has_text) TRY(add_field(err, &l->texts, row, c.caption));
        if (l->has_label) TRY(add_field(err, &l->label_names, row, c.label));
    }
}

static glofnd_status find_image(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out) {
    const listing *l = d->self;
    *out = (gf_span){0, UINT64_MAX};
    return gf_path_beside(err, d->spec.place, gf_string_list_get(&l->paths, i), path, bytes);
}

static int exists(const gf_dataset *d, int64_t i) {
    char path[PATH_MAX];
    gf_span whole;
    return find_image(NULL, d, i, path, sizeof path, &whole) == GLOFND_OK && access(path, F_OK) == 0;
}

#define FROM_ITS_FOLDER "relative paths start at the folder of the list"

static glofnd_status open_listing(gf_error *err, gf_dataset *d) {
    listing *l = calloc(1, sizeof *l);
    FAIL_IF(err, !l, GLOFND_E_MEMORY, "no memory to open a list");
    d->self = l;
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    glofnd_status status = gf_file_read_text(err, d->spec.place, GF_LIST_BYTES_MAX, &bytes, &capacity, &size);
    char *text = (char *)bytes;
    const size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* UTF-8 byte order mark */
    if (status == GLOFND_OK && d->format == &gf_format_csv) {
        gf_csv csv = gf_csv_begin(d->spec.place, text + mark, text + size);
        gf_string_list row = {0};
        status = parse_rows(err, d, l, &csv, &row);
        gf_string_list_free(&row);
    } else if (status == GLOFND_OK) status = parse_list(err, l, text + mark, text + size);
    free(bytes);
    TRY(status);
    FAIL_IF(err, l->paths.n == 0, GLOFND_E_FORMAT, "'%.400s' names no image", d->spec.place);
    /* Refuses a list whose paths are no files, rather than failing image by image later. Captions can be used without images. */
    const char *place = d->spec.place, *first = gf_string_list_get(&l->paths, 0);
    const int64_t n = l->paths.n, some = n < 16 ? n : 16; /* spread over the list; one must exist */
    int64_t k = 0;
    while (k < some && !exists(d, n / some * k)) k++;
    if (k == some && d->format == &gf_format_csv)
        gf_dataset_add_note(d, "none of %lld images probed exists, such as '%.300s': " FROM_ITS_FOLDER, (long long)some, first);
    const int lost = k != 0 && d->format != &gf_format_csv;
    FAIL_IF(err, lost && k == some, GLOFND_E_IO,
            "'%.150s': none of %lld files probed exists, such as '%.120s'; " FROM_ITS_FOLDER
            ", a TAB separates path and label, and csv: is for files with a header",
            place, (long long)some, first);
    FAIL_IF(err, lost && !strchr(first, '.'), GLOFND_E_FORMAT,
            "'%.200s': the first line, '%.100s', looks like a header; csv: is for files with one", place, first);
    if (l->has_label) {
        gf_string_list *classes = &d->classes;
        int64_t number = 0;
        int numbers = 1;
        for (int64_t i = 0; i < l->label_names.n && numbers; i++)
            numbers = gf_label_read(gf_string_list_get(&l->label_names, i), &number) && number < GF_CLASSES_MAX;
        if (!numbers) {
            for (int64_t i = 0; i < l->label_names.n; i++) {
                const char *label = gf_string_list_get(&l->label_names, i);
                if (gf_is_class_name(label)) TRY(gf_string_list_add(err, classes, label, strlen(label)));
            }
            TRY(gf_string_list_sort(err, classes));
            gf_string_list_unique(classes);
            FAIL_IF(err, classes->n > GF_CLASSES_MAX, GLOFND_E_FORMAT, "the list has more than %d classes", GF_CLASSES_MAX);
        }
        l->label = malloc((size_t)l->paths.n * sizeof *l->label);
        FAIL_IF(err, !l->label, GLOFND_E_MEMORY, "no memory for %lld labels", (long long)l->paths.n);
        int32_t max = -1;
        for (int64_t i = 0; i < l->paths.n; i++) {
            const char *label = gf_string_list_get(&l->label_names, i);
            if (numbers) gf_label_read(label, &number); /* -1: unknown */
            l->label[i] = (int32_t)(numbers ? number : gf_string_list_find(classes, label));
            if (l->label[i] > max) max = l->label[i];
        }
        d->info.classes = max + 1;
        gf_string_list_free(&l->label_names);
    }
    d->info.n = l->paths.n;
    /* A column without any caption counts as none. */
    int64_t i = 0;
    while (i < l->texts.n && gf_captions_count(gf_string_list_get(&l->texts, i)) == 0) i++;
    d->info.has_text = i < l->texts.n;
    return GLOFND_OK;
}

static void close_listing(void *self) {
    listing *l = self;
    if (!l) return;
    gf_string_list_free(&l->paths);
    gf_string_list_free(&l->texts);
    gf_string_list_free(&l->label_names);
    free(l->label);
    free(l);
}

static int32_t label_of(const gf_dataset *d, int64_t i) {
    const listing *l = d->self;
    return l->label ? l->label[i] : -1;
}

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    snprintf(out, bytes, "%s", gf_string_list_get(&((const listing *)d->self)->paths, i));
}

/* Depends on path and caption: open_clip's lists name an image once per caption. */
static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const listing *l = d->self;
    const char *path = gf_string_list_get(&l->paths, i), *text = gf_string_list_get(&l->texts, i);
    const uint64_t key = gf_key_hash(path, strlen(path));
    return text ? key ^ (gf_key_hash(text, strlen(text)) << 1 | 1) : key;
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    const char *text = gf_string_list_get(&((const listing *)d->self)->texts, i);
    return text ? gf_sample_set_text(err, out, text, strlen(text)) : GLOFND_OK;
}

static glofnd_status read_listing(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    char path[PATH_MAX];
    gf_span whole;
    TRY(find_image(err, d, i, path, sizeof path, &whole));
    TRY(read_text(err, d, i, out));
    return gf_sample_read_file(err, path, hint, out);
}

#define LIST_FORMAT(name_, options_)                                                                                             \
    {                                                                                                                            \
        .name = name_, .options = options_, .open = open_listing, .close = close_listing, .label = label_of, .name_of = name_of, \
        .key = key_of, .read = read_listing, .read_text = read_text, .find = find_image                                          \
    }

static const char *const no_options[] = {NULL};
static const char *const csv_options[] = {"image", "caption", "label", NULL};

const gf_dataset_format gf_format_list = LIST_FORMAT("list", no_options);
const gf_dataset_format gf_format_csv = LIST_FORMAT("csv", csv_options);
