/* dataset.c - opens a SPEC by its format and forwards to that; helpers that formats share. See dataset.h, dataset_format.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/dataset.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset_format.h"
#include "data/official/official.h"
#include "io/file.h"
#include "util/text.h"

static const gf_dataset_format *const formats[] = {&gf_format_shapes, &gf_format_cifar10, &gf_format_cifar100,
                                                   &gf_format_folder, &gf_format_wds,     &gf_format_list,
                                                   &gf_format_csv,    &gf_format_mnist,   &gf_format_fashion_mnist};

/* The format of this name; or a message with all names, and the one that is most like it. */
static glofnd_status find_format(gf_error *err, const char *name, const gf_dataset_format **out) {
    char known[320] = ""; /* leaves space for the rest of the message */
    const char *best = formats[0]->name;
    for (size_t k = 0; k < sizeof formats / sizeof formats[0]; k++) {
        *out = formats[k];
        if (strcmp(formats[k]->name, name) == 0) return GLOFND_OK;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? ", " : "", formats[k]->name);
        if (gf_edit_distance(name, formats[k]->name) < gf_edit_distance(name, best)) best = formats[k]->name;
    }
    *out = &gf_format_official;
    if (gf_known_find(name)) return GLOFND_OK;
    for (int k = 0, room = 1; gf_known_at(k); k++) {
        if (!gf_known_at(k)->read) continue;
        const size_t used = strlen(known);
        room = room && used + strlen(gf_known_at(k)->name) + sizeof ", , ..." < sizeof known;
        if (room) snprintf(known + used, sizeof known - used, ", %s", gf_known_at(k)->name);
        else if (known[used - 1] != '.') snprintf(known + used, sizeof known - used, ", ...");
        if (gf_edit_distance(name, gf_known_at(k)->name) < gf_edit_distance(name, best)) best = gf_known_at(k)->name;
    }
    const char *near = gf_is_folder(name) ? "folder" : gf_is_near(name, best) ? best : NULL;
    GF_FAIL(err, GLOFND_E_OPTION, "unknown data format '%.60s'; %s%s%s%.60s%sknown are %s", name, near ? "did you mean " : "",
            near ? near : "", near ? ":" : "", gf_is_folder(name) ? name : "", near ? "? " : "", known);
}

static glofnd_status open_format(gf_error *err, const char *spec, gf_dataset *d) {
    TRY(gf_spec_parse(err, spec, &d->spec));
    TRY(find_format(err, d->spec.format, &d->format));
    if (d->format->place_is_options) TRY(gf_spec_open_place(err, &d->spec));
    d->known = gf_known_find(d->spec.format);
    /* Options of the format, and those that all have. */
    enum { CAPACITY = 32 };
    const char *known[CAPACITY + 1];
    int n = 0;
    for (const char *const *k = d->format->options ? d->format->options : d->known->options; *k && n < CAPACITY; k++)
        known[n++] = *k;
    for (const char *const *k = gf_subset_options; *k && n < CAPACITY; k++) known[n++] = *k;
    known[n] = NULL;
    TRY(gf_spec_check(err, &d->spec, known));
    FAIL_IF(err, !d->format->place_is_options && !d->spec.place[0], GLOFND_E_OPTION, "data '%s' needs a place: %s:PATH",
            d->spec.format, d->spec.format);
    d->info.format = d->format->name;
    TRY(d->format->open(err, d));
    TRY(gf_subset_take(err, d));
    /* The unpacked download of a known dataset, read as class folders, has one or two "classes": images and lists. */
    const gf_known_dataset *like;
    for (int k = 0; d->format == &gf_format_folder && d->info.classes <= 2 && (like = gf_known_at(k)); k++)
        if (like->read && like->mark[0] && strchr(like->mark[0], '.') && gf_known_recognise(like, d->spec.place))
            gf_dataset_add_note(d, "this looks like the download of %s, which %s:%.300s reads", like->full, like->name,
                                d->spec.place);
    return GLOFND_OK;
}

int gf_dataset_is_format(const char *word, size_t length) {
    char name[32];
    const gf_dataset_format *f;
    if (length >= sizeof name) return 0;
    memcpy(name, word, length);
    name[length] = 0;
    return find_format(NULL, name, &f) == GLOFND_OK;
}

glofnd_status gf_dataset_open(gf_error *err, const char *spec, gf_dataset **out) {
    *out = NULL;
    gf_dataset *d = calloc(1, sizeof *d);
    FAIL_IF(err, !d, GLOFND_E_MEMORY, "no memory to open data");
    const glofnd_status status = open_format(err, spec, d);
    if (status == GLOFND_OK) *out = d;
    else gf_dataset_free(d);
    return status;
}

void gf_dataset_free(gf_dataset *d) {
    if (!d) return;
    if (d->format) d->format->close(d->self);
    gf_string_list_free(&d->classes);
    gf_string_list_free(&d->titles);
    gf_spec_free(&d->spec);
    free(d->rows);
    free(d);
}

gf_dataset_info gf_dataset_describe(const gf_dataset *d) { return d->info; }

const gf_known_dataset *gf_dataset_known(const gf_dataset *d) { return d->known; }

const char *gf_dataset_root(const gf_dataset *d) {
    return d->format == &gf_format_official ? ((const gf_official *)d->self)->root : "";
}

int gf_dataset_as_known(const gf_dataset *d) {
    if (!d->known || d->rows) return 0;
    if (d->format == &gf_format_official) return ((const gf_official *)d->self)->known_counts;
    int found = 0;
    for (const gf_known_split *s = d->known->split; s->name; s++) found |= s->images == d->info.n;
    return found && d->info.classes == d->known->classes;
}

/* A SPEC of another split with the ?labels of d: a choice of classes holds for all splits. 0: `bytes` are too few. */
static int add_labels(const gf_dataset *d, char *spec, size_t bytes) {
    const char *labels = gf_spec_value(&d->spec, "labels");
    const size_t used = strlen(spec);
    if (!labels) return 1;
    const int n = snprintf(spec + used, bytes - used, "%clabels=%s", strchr(spec, '?') ? '&' : '?', labels);
    return n > 0 && (size_t)n < bytes - used;
}

int gf_dataset_split_spec(const gf_dataset *d, const char *split, char *out, size_t bytes) {
    const gf_spec plain = gf_subset_without(&d->spec); /* a part is one of this split */
    return gf_spec_with(&plain, "split", split, out, bytes) && add_labels(d, out, bytes);
}

const char *gf_dataset_note(const gf_dataset *d) { return d->note; }

glofnd_status gf_dataset_check_complete(gf_error *err, const gf_dataset *d) {
    return d->format->check_complete ? d->format->check_complete(err, d) : GLOFND_OK;
}

int gf_dataset_test_spec(const gf_dataset *d, char *out, size_t bytes) {
    gf_dataset plain = *d; /* a part of the data is tested on the whole test split */
    plain.spec = gf_subset_without(&d->spec);
    plain.info.n = d->all;
    return d->format->test_spec && d->format->test_spec(&plain, out, bytes) && add_labels(d, out, bytes);
}

static int has_sample(const gf_dataset *d, int64_t i) { return i >= 0 && i < d->info.n; }

int32_t gf_dataset_label(const gf_dataset *d, int64_t i) {
    return has_sample(d, i) ? d->format->label(d, gf_dataset_row(d, i)) : -1;
}

int32_t gf_dataset_group(const gf_dataset *d, int64_t i) {
    return has_sample(d, i) && d->format->group ? d->format->group(d, gf_dataset_row(d, i)) : -1;
}

int gf_dataset_templates(const gf_dataset *d, char *out, size_t bytes) {
    return d->format->templates && d->format->templates(d, out, bytes);
}

const char *gf_dataset_class(const gf_dataset *d, int32_t label) {
    const char *name = gf_string_list_get(&d->classes, label);
    return name && name[0] ? name : NULL;
}

const char *gf_dataset_class_title(const gf_dataset *d, int32_t label) {
    const char *title = gf_string_list_get(&d->titles, label);
    return title && title[0] ? title : gf_dataset_class(d, label);
}

void gf_dataset_name(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    if (has_sample(d, i)) d->format->name_of(d, gf_dataset_row(d, i), out, bytes);
    else snprintf(out, bytes, "#%lld", (long long)i);
}

uint64_t gf_dataset_key(const gf_dataset *d, int64_t i) { return has_sample(d, i) ? d->format->key(d, gf_dataset_row(d, i)) : 0; }

glofnd_status gf_dataset_read(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    FAIL_IF(err, !has_sample(d, i), GLOFND_E_INDEX, "sample %lld of %lld", (long long)i, (long long)d->info.n);
    out->text = NULL;
    out->encoded_size = 0;
    out->label = d->format->label(d, gf_dataset_row(d, i));
    return d->format->read(err, d, gf_dataset_row(d, i), hint, out);
}

glofnd_status gf_dataset_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    FAIL_IF(err, !has_sample(d, i), GLOFND_E_INDEX, "sample %lld of %lld", (long long)i, (long long)d->info.n);
    out->text = NULL;
    out->label = d->format->label(d, gf_dataset_row(d, i));
    return d->format->read_text ? d->format->read_text(err, d, gf_dataset_row(d, i), out) : GLOFND_OK;
}

uint64_t gf_sample_image_hash(const gf_sample *s) {
    const size_t pixels = (size_t)s->image.width * (size_t)s->image.height * 3;
    return s->encoded_size ? gf_key_hash(s->encoded, s->encoded_size) : gf_key_hash(s->image.rgb, pixels);
}

void gf_sample_free(gf_sample *s) {
    gf_image_free(&s->image);
    free(s->text_buffer);
    free(s->encoded);
    *s = (gf_sample){0};
}

/* ----- shared by formats ----- */

/* FNV-1a, then mixed, so that similar keys differ in all bits. */
uint64_t gf_key_hash(const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}

void gf_dataset_add_note(gf_dataset *d, const char *format, ...) {
    const size_t used = strlen(d->note);
    va_list args;
    va_start(args, format);
    if (used) snprintf(d->note + used, sizeof d->note - used, "; ");
    vsnprintf(d->note + strlen(d->note), sizeof d->note - strlen(d->note), format, args);
    va_end(args);
    gf_utf8_clean(d->note + used, '?');
}

glofnd_status gf_sample_set_text(gf_error *err, gf_sample *s, const char *text, size_t n) {
    if (n + 1 > s->text_capacity) {
        char *buffer = malloc(n + 1);
        FAIL_IF(err, !buffer, GLOFND_E_MEMORY, "no memory for a text of %llu bytes", (unsigned long long)n);
        free(s->text_buffer);
        s->text_buffer = buffer;
        s->text_capacity = n + 1;
    }
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] && text[i] != '\r') s->text_buffer[used++] = text[i];
    while (used > 0 && (s->text_buffer[used - 1] == '\n' || s->text_buffer[used - 1] == ' ')) used--;
    s->text_buffer[used] = 0;
    s->text = used ? s->text_buffer : NULL;
    return GLOFND_OK;
}

glofnd_status gf_sample_set_class_text(gf_error *err, gf_sample *s, const char *name) {
    static const char *const phrases[] = {"a photo of a", "a blurry photo of a", "a small picture of a", "a close view of a",
                                          "this is a"};
    char plain[128], text[1024];
    size_t used = 0;
    snprintf(plain, sizeof plain, "%s", name);
    for (char *p = plain; *p; p++) *p = *p == '_' ? ' ' : *p;
    for (size_t k = 0; k < sizeof phrases / sizeof *phrases; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s.\n", phrases[k], plain);
    return gf_sample_set_text(err, s, text, used);
}

glofnd_status gf_sample_read_file(gf_error *err, const char *path, const gf_decode_hint *hint, gf_sample *s) {
    TRY(gf_file_read(err, path, GF_FILE_BYTES_MAX, &s->encoded, &s->encoded_capacity, &s->encoded_size));
    return gf_image_decode(err, path, s->encoded, s->encoded_size, hint, &s->image);
}

static glofnd_status add_lines(gf_error *err, const char *text, int keep_empty, gf_string_list *out) {
    while (*text) {
        const char *end = strchrnul(text, '\n'), *next = *end ? end + 1 : end;
        while (text < end && strchr(" \t\r", *text)) text++;
        while (end > text && strchr(" \t\r", end[-1])) end--;
        if (end > text || keep_empty) TRY(gf_string_list_add(err, out, text, (size_t)(end - text)));
        text = next;
    }
    return GLOFND_OK;
}

glofnd_status gf_read_lines(gf_error *err, const char *path, int keep_empty, gf_string_list *out) {
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    glofnd_status status = gf_file_read_text(err, path, GF_LIST_BYTES_MAX, &bytes, &capacity, &size);
    const size_t mark = status == GLOFND_OK && size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark */
    if (status == GLOFND_OK) status = add_lines(err, (const char *)bytes + mark, keep_empty, out);
    free(bytes);
    return status;
}

glofnd_status gf_read_class_names(gf_error *err, gf_dataset *d, const char *path, int64_t min, int64_t max, gf_string_list *out) {
    if (access(path, F_OK) != 0) return GLOFND_OK;
    TRY(gf_read_lines(err, path, 1, out));
    while (out->n > min && !gf_string_list_get(out, out->n - 1)[0]) out->n--;
    if (out->n >= min && out->n <= max) return GLOFND_OK;
    gf_dataset_add_note(d, "%.300s has %lld line%s for %lld classes and is not used", path, (long long)out->n,
                        out->n == 1 ? "" : "s", (long long)min);
    gf_string_list_free(out);
    return GLOFND_OK;
}

glofnd_status gf_path_beside(gf_error *err, const char *list, const char *path, char *out, size_t bytes) {
    const char *slash = strrchr(list, '/');
    const int folder = path[0] == '/' || !slash ? 0 : (int)(slash - list) + 1;
    const int n = snprintf(out, bytes, "%.*s%s", folder, list, path);
    FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_FORMAT, "'%.200s': the path '%.200s' is too long", list, path);
    return GLOFND_OK;
}

/* ----- image sizes, from the headers alone ----- */

typedef struct source { /* an encoded image inside an open file */
    int fd;
    gf_span span;
} source;

static int read_bytes(const source *s, uint64_t at, uint8_t *out, size_t n) {
    if (at > s->span.size || n > s->span.size - at || at > INT64_MAX - s->span.at) return 0;
    return gf_file_read_at(NULL, s->fd, "", s->span.at + at, out, n) == GLOFND_OK;
}

static int big16(const uint8_t *p) { return p[0] << 8 | p[1]; }

static int png_size(const source *s, int *width, int *height) {
    uint8_t b[24];
    if (!read_bytes(s, 0, b, sizeof b) || memcmp(b + 12, "IHDR", 4) != 0 || b[16] || b[20]) return 0;
    *width = b[17] << 16 | big16(b + 18);
    *height = b[21] << 16 | big16(b + 22);
    return 1;
}

/* Skips from segment to segment up to the frame. */
static int jpeg_size(const source *s, int *width, int *height) {
    uint8_t b[9];
    uint64_t at = 2;
    for (int k = 0; k < 4096 /* segments */ && read_bytes(s, at, b, 4) && b[0] == 0xff; k++) {
        if (b[1] == 0xff) { /* a fill byte */
            at++;
            continue;
        }
        if (b[1] == 0xd9 || b[1] == 0xda || big16(b + 2) < 2) return 0;
        /* SOF0 to SOF15 begin a frame, without tables (C4, CC) and C8. */
        if (b[1] >= 0xc0 && b[1] <= 0xcf && b[1] != 0xc4 && b[1] != 0xc8 && b[1] != 0xcc) {
            if (!read_bytes(s, at, b, sizeof b)) return 0;
            *height = big16(b + 5);
            *width = big16(b + 7);
            return 1;
        }
        at += 2 + (uint64_t)big16(b + 2);
    }
    return 0;
}

/* The first chunk says which of the three forms it is. */
static int webp_size(const source *s, int *width, int *height) {
    uint8_t b[30];
    if (!read_bytes(s, 0, b, sizeof b) || memcmp(b + 8, "WEBP", 4) != 0) return 0;
    if (memcmp(b + 12, "VP8X", 4) == 0) {
        *width = (b[24] | b[25] << 8 | b[26] << 16) + 1;
        *height = (b[27] | b[28] << 8 | b[29] << 16) + 1;
    } else if (memcmp(b + 12, "VP8L", 4) == 0 && b[20] == 0x2f) {
        const uint32_t x = b[21] | (uint32_t)b[22] << 8 | (uint32_t)b[23] << 16 | (uint32_t)b[24] << 24;
        *width = (int)(x & 0x3fff) + 1;
        *height = (int)(x >> 14 & 0x3fff) + 1;
    } else if (memcmp(b + 12, "VP8 ", 4) == 0 && memcmp(b + 23, "\x9d\x01\x2a", 3) == 0) {
        *width = (b[26] | b[27] << 8) & 0x3fff;
        *height = (b[28] | b[29] << 8) & 0x3fff;
    } else return 0;
    return 1;
}

/* Width and height of the image in a file, or in a span of it; *bytes (may be NULL): its size. */
static int probe_file(const char *path, gf_span span, int *width, int *height, uint64_t *bytes) {
    gf_file_stamp stamp;
    source s = {.fd = -1, .span = span};
    uint8_t b[8];
    if (gf_file_open(NULL, path, &s.fd, &stamp) != GLOFND_OK) return 0;
    const int found = !read_bytes(&s, 0, b, sizeof b)          ? 0
                      : memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0 ? png_size(&s, width, height)
                      : memcmp(b, "\xff\xd8\xff", 3) == 0      ? jpeg_size(&s, width, height)
                      : memcmp(b, "RIFF", 4) == 0              ? webp_size(&s, width, height)
                                                               : 0;
    close(s.fd);
    if (bytes) *bytes = span.size == UINT64_MAX ? stamp.size : span.size;
    return found && *width > 0 && *height > 0 && *width <= GF_IMAGE_SIDE_MAX && *height <= GF_IMAGE_SIDE_MAX;
}

static int probe_sample(const gf_dataset *d, int64_t i, int *width, int *height, uint64_t *bytes) {
    char path[PATH_MAX];
    gf_span span;
    return d->format->find(NULL, d, gf_dataset_row(d, i), path, sizeof path, &span) == GLOFND_OK &&
           probe_file(path, span, width, height, bytes);
}

int gf_dataset_image_size(const gf_dataset *d, int64_t i, int64_t *pixels, uint64_t *bytes) {
    int width, height;
    if (!has_sample(d, i) || !d->format->find || !probe_sample(d, i, &width, &height, bytes)) return 0;
    *pixels = (int64_t)width * height;
    return 1;
}

int gf_image_file_size(const char *path, int64_t *pixels, uint64_t *bytes) {
    int width, height;
    if (!probe_file(path, (gf_span){.size = UINT64_MAX}, &width, &height, bytes)) return 0;
    *pixels = (int64_t)width * height;
    return 1;
}

gf_sizes gf_dataset_sizes(const gf_dataset *d) {
    const gf_dataset_info info = d->info;
    if (info.width > 0 || !d->format->find)
        return (gf_sizes){.probed = info.n, .read = info.n, .width = info.width, .height = info.height};
    const int64_t count = info.n < GF_SIZES_MAX ? info.n : GF_SIZES_MAX;
    gf_sizes s = {0};
    for (int64_t k = 0; k < count && !s.other_width; k++) {
        int width, height;
        s.probed++;
        if (!probe_sample(d, info.n / count * k + info.n % count * k / count, &width, &height, NULL)) continue;
        if (s.read++ == 0) s.width = width, s.height = height;
        else if (width != s.width || height != s.height) s.other_width = width, s.other_height = height;
    }
    return s;
}

int gf_sizes_default_view(const gf_sizes *s) {
    const int one_square = s->width > 0 && s->width == s->height && !s->other_width;
    return one_square && s->width <= GF_SIZES_VIEW ? s->width : GF_SIZES_VIEW;
}
