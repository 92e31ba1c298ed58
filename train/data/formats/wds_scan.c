/* wds_scan.c - the samples of a shard, from the members of its tar. See wds.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/dataset_format.h"
#include "data/formats/wds.h"
#include "data/tar.h"
#include "io/json.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/text.h"

#define CLS_MAX 32   /* bytes of a .cls */
#define NPY_MAX 4096 /* bytes of a .npy of metadata */
#define NAME_BYTES 100

enum part { IMAGE, TEXT, LABEL, JSON, METADATA, PARTS, OTHER = PARTS };

typedef struct group { /* the members seen so far of the current sample */
    char *key, *first; /* first: the name of its first member */
    struct {
        uint64_t at, size;
        int here;
    } part[PARTS];
} group;

/* Length of the key, 0 if the name has none: all up to the first dot of the last part of the path. */
static size_t key_bytes(const char *name) {
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const char *dot = strchr(last, '.');
    return dot && dot > last ? (size_t)(dot - name) : 0;
}

static enum part part_of(const char *extension) {
    if (strcasecmp(extension, "jpg") == 0 || strcasecmp(extension, "jpeg") == 0 || strcasecmp(extension, "png") == 0)
        return IMAGE;
    if (strcasecmp(extension, "webp") == 0) return gf_image_reads_webp() ? IMAGE : OTHER;
    if (strcasecmp(extension, "npy") == 0) return METADATA;
    if (strcasecmp(extension, "txt") == 0) return TEXT;
    if (strcasecmp(extension, "cls") == 0) return LABEL;
    if (strcasecmp(extension, "json") == 0) return JSON;
    return OTHER;
}

/* ----- label and caption of a .json ----- */

static glofnd_status take_fields(gf_error *err, const char *name, const gf_json *j, int32_t *label, char **caption) {
    const int64_t number = gf_json_find(j, 0, "label"), text = gf_json_find(j, 0, "caption");
    if (gf_json_is(j, number, GF_JSON_INTEGER)) {
        const int64_t x = j->node[number].integer;
        FAIL_IF(err, x < -1 || x >= GF_CLASSES_MAX, GLOFND_E_FORMAT, "'%.350s' has label %lld; it must be 0..%d, or -1", name,
                (long long)x, GF_CLASSES_MAX - 1);
        *label = (int32_t)x;
    }
    if (!gf_json_is(j, text, GF_JSON_TEXT)) return GLOFND_OK;
    const char *from = gf_json_text(j, j->node[text].text);
    const size_t n = (size_t)j->node[text].count;
    char *copy = malloc(n + 1), *to = copy;
    FAIL_IF(err, !copy, GLOFND_E_MEMORY, "no memory for the caption of '%.350s'", name);
    for (size_t i = 0; i < n; i++)
        if (from[i]) *to++ = from[i]; /* without zeros, which C strings cannot hold */
    *to = 0;
    if (to > copy) *caption = copy;
    else free(copy);
    return GLOFND_OK;
}

glofnd_status gf_wds_json(gf_error *err, const char *name, const char *text, size_t n, int32_t *label, char **caption) {
    gf_json j = {0};
    *label = -1;
    *caption = NULL;
    TRY(gf_json_read(err, name, text, n, GF_JSON_DEPTH, GF_JSON_LENIENT, &j));
    const glofnd_status status = take_fields(err, name, &j, label, caption);
    gf_json_free(&j);
    return status;
}

/* ----- label and text of a sample ----- */

static void name_part(const group *g, enum part p, char out[NAME_BYTES]) {
    static const char *const endings[PARTS] = {" (its image)", ".txt", ".cls", ".json", ".npy"};
    snprintf(out, NAME_BYTES, "%.80s%s", g->key, endings[p]);
}

static glofnd_status check_size(gf_error *err, const group *g, enum part p, uint64_t max) {
    char name[NAME_BYTES];
    name_part(g, p, name);
    FAIL_IF(err, g->part[p].size > max, GLOFND_E_FORMAT, "'%s' has %llu bytes; the limit is %llu", name,
            (unsigned long long)g->part[p].size, (unsigned long long)max);
    return GLOFND_OK;
}

/* An integer; -1: no label. */
static glofnd_status read_cls(gf_error *err, const gf_tar *t, const group *g, int32_t *label) {
    char text[CLS_MAX + 1] = "", name[NAME_BYTES];
    int64_t x;
    TRY(check_size(err, g, LABEL, CLS_MAX));
    name_part(g, LABEL, name);
    TRY(gf_file_read_at(err, t->fd, name, g->part[LABEL].at, text, (size_t)g->part[LABEL].size));
    for (size_t n = strlen(text); n && strchr(" \r\n\t", text[n - 1]); n--) text[n - 1] = 0;
    FAIL_IF(err, gf_integer_read(text + strspn(text, " \r\n\t"), &x) || x < -1 || x >= GF_CLASSES_MAX, GLOFND_E_FORMAT,
            "'%s' holds '%.40s'; expected an integer 0..%d, or -1", name, text, GF_CLASSES_MAX - 1);
    *label = (int32_t)x;
    return GLOFND_OK;
}

static glofnd_status read_json(gf_error *err, const gf_tar *t, const group *g, int32_t *label, int *has_caption) {
    char name[NAME_BYTES], *caption = NULL;
    TRY(check_size(err, g, JSON, GF_WDS_TEXT_MAX));
    name_part(g, JSON, name);
    const size_t size = (size_t)g->part[JSON].size;
    char *text = malloc(size + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "no memory to read '%s'", name);
    glofnd_status status = gf_file_read_at(err, t->fd, name, g->part[JSON].at, text, size);
    text[size] = 0;
    if (status == GLOFND_OK) status = gf_wds_json(err, name, text, size, label, &caption);
    *has_caption = caption != NULL;
    free(caption);
    free(text);
    return status;
}

/* The first number of an array of metadata, which says the group of a sample; -1: none, or no array of that kind. */
static glofnd_status read_group(gf_error *err, const gf_tar *t, const group *g, int32_t *out) {
    char name[NAME_BYTES];
    uint8_t bytes[NPY_MAX];
    gf_npy a = {0};
    const size_t size = (size_t)g->part[METADATA].size;
    *out = -1;
    if (!g->part[METADATA].here || g->part[METADATA].size > NPY_MAX) return GLOFND_OK;
    name_part(g, METADATA, name);
    TRY(gf_file_read_at(err, t->fd, name, g->part[METADATA].at, bytes, size));
    if (gf_npy_decode(NULL, name, bytes, size, &a) != GLOFND_OK) return GLOFND_OK;
    const double x = a.count > 0 ? gf_npy_f64(&a, 0) : -1.0;
    if (x >= 0.0 && x < GF_WDS_GROUPS_MAX && x == (double)(int32_t)x) *out = (int32_t)x;
    gf_npy_free(&a);
    return GLOFND_OK;
}

/* A bad member among millions is counted, and the first one described. Other failures, such as of the disk, are errors. */
static glofnd_status tolerate(gf_error *err, const gf_tar *t, glofnd_status status, const gf_error *why, gf_wds_shard *s) {
    if (status == GLOFND_OK) return GLOFND_OK;
    FAIL_IF(err, status != GLOFND_E_FORMAT, status, "'%.250s': %.240s", t->path, why->text);
    if (s->unused++ > 0) return GLOFND_OK;
    s->unused_first = strdup(why->text);
    FAIL_IF(err, !s->unused_first, GLOFND_E_MEMORY, "no memory to scan '%.350s'", t->path);
    gf_utf8_clean(s->unused_first, '?');
    return GLOFND_OK;
}

static glofnd_status fill_entry(gf_error *err, const gf_tar *t, const group *g, gf_wds_shard *s, gf_wds_entry *e) {
    gf_error why = {""};
    int32_t label = -1;
    int caption = 0;
    *e = (gf_wds_entry){.image_at = g->part[IMAGE].at, .label = -1, .group = -1};
    glofnd_status status = check_size(&why, g, IMAGE, GF_FILE_BYTES_MAX);
    if (status == GLOFND_OK) e->image_size = (uint32_t)g->part[IMAGE].size; /* else 0 bytes: reading it fails */
    TRY(tolerate(err, t, status, &why, s));
    status = check_size(&why, g, TEXT, GF_WDS_TEXT_MAX);
    const int has_text = status == GLOFND_OK && g->part[TEXT].size > 0;
    TRY(tolerate(err, t, status, &why, s));
    status = g->part[LABEL].here ? read_cls(&why, t, g, &e->label) : GLOFND_OK;
    const int has_label = g->part[LABEL].here && status == GLOFND_OK;
    TRY(tolerate(err, t, status, &why, s));
    status = g->part[JSON].here && !(has_text && has_label) ? read_json(&why, t, g, &label, &caption) : GLOFND_OK;
    TRY(tolerate(err, t, status, &why, s));
    TRY(tolerate(err, t, read_group(&why, t, g, &e->group), &why, s));
    if (!has_label) e->label = label;
    if (has_text || caption) {
        const enum part p = has_text ? TEXT : JSON;
        e->text_at = g->part[p].at;
        e->text_size = (uint32_t)g->part[p].size;
        e->flags = has_text ? 0 : GF_WDS_TEXT_IS_JSON;
    }
    return GLOFND_OK;
}

/* ----- all samples ----- */

static glofnd_status add_entry(gf_error *err, gf_wds_shard *s, const char *key, size_t n, const gf_wds_entry *e) {
    FAIL_IF(err, !gf_grow(&s->entries, &s->capacity, (size_t)s->keys.n + 1, sizeof *s->entries), GLOFND_E_MEMORY,
            "no memory for an index of %lld samples", (long long)s->keys.n + 1);
    s->entries[s->keys.n] = *e;
    return gf_string_list_add(err, &s->keys, key, n);
}

static void group_free(group *g) {
    free(g->key);
    free(g->first);
    *g = (group){0};
}

static glofnd_status finish_group(gf_error *err, const gf_tar *t, group *g, gf_wds_shard *s) {
    gf_wds_entry e;
    if (!g->key) return GLOFND_OK;
    if (!g->part[IMAGE].here) {
        if (s->left_out++ == 0) {
            s->left_first = g->first;
            g->first = NULL;
        }
        return GLOFND_OK;
    }
    TRY(fill_entry(err, t, g, s, &e));
    return add_entry(err, s, g->key, strlen(g->key), &e);
}

static glofnd_status take_member(gf_error *err, const gf_tar *t, const gf_tar_member *m, group *g, gf_wds_shard *s) {
    const size_t n = key_bytes(m->name);
    if (n == 0) return GLOFND_OK;
    if (!g->key || strlen(g->key) != n || memcmp(g->key, m->name, n) != 0) {
        TRY(finish_group(err, t, g, s));
        group_free(g);
        *g = (group){.key = strndup(m->name, n), .first = strdup(m->name)};
        FAIL_IF(err, !g->key || !g->first, GLOFND_E_MEMORY, "no memory to scan '%.350s'", t->path);
    }
    const enum part p = part_of(m->name + n + 1);
    if (p == OTHER) return GLOFND_OK;
    FAIL_IF(err, g->part[p].here, GLOFND_E_FORMAT, "'%.250s': '%.150s' is a second %s of its sample", t->path, m->name,
            p == IMAGE ? "image" : "file of this type");
    g->part[p].at = m->at;
    g->part[p].size = m->size;
    g->part[p].here = 1;
    return GLOFND_OK;
}

static glofnd_status scan_members(gf_error *err, gf_tar *t, group *g, gf_wds_shard *s) {
    gf_tar_member m;
    for (;;) {
        TRY(gf_tar_next(err, t, &m));
        if (!m.name) return finish_group(err, t, g, s);
        TRY(take_member(err, t, &m, g, s));
    }
}

glofnd_status gf_wds_scan(gf_error *err, const char *path, int fd, gf_file_stamp stamp, gf_wds_shard *out) {
    gf_tar t = gf_tar_begin(path, fd, stamp.size);
    group g = {0};
    *out = (gf_wds_shard){.stamp = stamp};
    const glofnd_status status = scan_members(err, &t, &g, out);
    group_free(&g);
    out->no_end_mark = t.no_end_mark;
    gf_tar_end(&t);
    if (status != GLOFND_OK) gf_wds_shard_free(out);
    return status;
}
