/* wds.c - see wds.h: which files are shards, what a shard holds (scanned), its index file, and the dataset of all shards, whose
 * positions run through the shards in order. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/formats/wds.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "data/dataset_format.h"
#include "data/tar.h"
#include "io/blockfile.h"
#include "io/json.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/string_list.h"
#include "util/text.h"

/* ----- which files: braces as in a shell (util/string_list.h), then * ? [...] matched against files ----- */

static glofnd_status add_matches(gf_error *err, const char *pattern, gf_string_list *out) {
    glob_t found;
    const int rc = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (rc == GLOB_NOSPACE) GF_FAIL(err, GLOFND_E_MEMORY, "no memory to match '%.400s'", pattern);
    gf_string_list sorted = {0};
    glofnd_status status = GLOFND_OK;
    for (size_t i = 0; rc == 0 && i < found.gl_pathc && status == GLOFND_OK; i++)
        status = gf_string_list_add(err, &sorted, found.gl_pathv[i], strlen(found.gl_pathv[i]));
    if (rc == 0) globfree(&found);
    if (status == GLOFND_OK) status = gf_string_list_sort(err, &sorted);
    for (int64_t i = 0; i < sorted.n && status == GLOFND_OK; i++)
        status = gf_string_list_add(err, out, gf_string_list_get(&sorted, i), strlen(gf_string_list_get(&sorted, i)));
    if (status == GLOFND_OK && sorted.n == 0) status = gf_fail(err, GLOFND_E_IO, "no file matches '%.400s'", pattern);
    gf_string_list_free(&sorted);
    return status;
}

static glofnd_status add_shards(gf_error *err, const char *name, gf_string_list *out) {
    char pattern[PATH_MAX];
    if (strpbrk(name, "*?[")) return add_matches(err, name, out);
    if (!gf_is_folder(name)) return gf_string_list_add(err, out, name, strlen(name));
    const int n = snprintf(pattern, sizeof pattern, "%s/*.tar", name);
    FAIL_IF(err, n < 0 || n + 5 >= PATH_MAX, GLOFND_E_ARGUMENT, "the path '%.400s' is too long", name);
    const glofnd_status status = add_matches(err, pattern, out);
    if (status != GLOFND_E_IO) return status;
    snprintf(pattern, sizeof pattern, "%.*s/test/*.tar", n - 6, name); /* an evaluation set of DataComp */
    return add_matches(NULL, pattern, out) == GLOFND_OK ? GLOFND_OK : status;
}

/* Braces, then files: a name with * ? [ stands for its matches in bytewise order, a folder for its *.tar. E_IO: no match. */
static glofnd_status find_shards(gf_error *err, const char *pattern, gf_string_list *out) {
    gf_string_list names = {0};
    glofnd_status status = gf_braces_expand(err, pattern, &names);
    for (int64_t i = 0; i < names.n && status == GLOFND_OK; i++) status = add_shards(err, gf_string_list_get(&names, i), out);
    gf_string_list_free(&names);
    return status;
}

/* ===== the samples of a shard, from the members of its tar ===== */

enum { CLS_MAX = 32, NPY_MAX = 4096, NAME_BYTES = 100 }; /* bytes of a .cls, of a .npy of metadata, of a name in messages */

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

/* Label and caption of a .json: the top-level keys "label" (an integer, -1: none) and "caption" (a string). Missing, or of a
 * different type: -1, NULL; also for an empty caption. text [n + 1], closed by 0; it may hold NaN and Infinity, which Python writes
 * but JSON lacks. *caption is malloc'ed. E_FORMAT: not JSON, or a label out of range. */
static glofnd_status read_json_fields(gf_error *err, const char *name, const char *text, size_t n, int32_t *label,
                                      char **caption) {
    gf_json j = {0};
    *label = -1;
    *caption = NULL;
    TRY(gf_json_read(err, name, text, n, GF_JSON_DEPTH, GF_JSON_LENIENT, &j));
    glofnd_status status = GLOFND_OK;
    const int64_t number = gf_json_find(&j, 0, "label"), title = gf_json_find(&j, 0, "caption");
    const int64_t x = gf_json_is(&j, number, GF_JSON_INTEGER) ? j.node[number].integer : -1;
    if (x < -1 || x >= GF_CLASSES_MAX)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.350s' has label %lld; it must be 0..%d, or -1", name, (long long)x,
                         GF_CLASSES_MAX - 1);
    else *label = (int32_t)x;
    if (status == GLOFND_OK && gf_json_is(&j, title, GF_JSON_TEXT)) {
        const char *from = gf_json_text(&j, j.node[title].text), *end = from + j.node[title].count;
        char *to = *caption = malloc((size_t)j.node[title].count + 1);
        if (!to) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the caption of '%.350s'", name);
        for (; to && from < end; from++)
            if (*from) *to++ = *from; /* without zeros, which C strings cannot hold */
        if (to) *to = 0;
        if (to == *caption) free(*caption), *caption = NULL;
    }
    gf_json_free(&j);
    return status;
}

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
    if (status == GLOFND_OK) status = read_json_fields(err, name, text, size, label, &caption);
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

static void group_free(group *g) {
    free(g->key);
    free(g->first);
    *g = (group){0};
}

static glofnd_status finish_group(gf_error *err, const gf_tar *t, group *g, gf_wds_shard *s) {
    if (!g->key) return GLOFND_OK;
    if (!g->part[IMAGE].here) {
        if (s->left_out++ == 0) s->left_first = g->first, g->first = NULL;
        return GLOFND_OK;
    }
    gf_error why = {""};
    int32_t label = -1;
    int caption = 0;
    gf_wds_entry e = {.image_at = g->part[IMAGE].at, .label = -1, .group = -1};
    glofnd_status status = check_size(&why, g, IMAGE, GF_FILE_BYTES_MAX);
    if (status == GLOFND_OK) e.image_size = (uint32_t)g->part[IMAGE].size; /* else 0 bytes: reading it fails */
    TRY(tolerate(err, t, status, &why, s));
    status = check_size(&why, g, TEXT, GF_WDS_TEXT_MAX);
    const int has_text = status == GLOFND_OK && g->part[TEXT].size > 0;
    TRY(tolerate(err, t, status, &why, s));
    status = g->part[LABEL].here ? read_cls(&why, t, g, &e.label) : GLOFND_OK;
    const int has_label = g->part[LABEL].here && status == GLOFND_OK;
    TRY(tolerate(err, t, status, &why, s));
    status = g->part[JSON].here && !(has_text && has_label) ? read_json(&why, t, g, &label, &caption) : GLOFND_OK;
    TRY(tolerate(err, t, status, &why, s));
    TRY(tolerate(err, t, read_group(&why, t, g, &e.group), &why, s));
    if (!has_label) e.label = label;
    if (has_text || caption) {
        const enum part p = has_text ? TEXT : JSON;
        e.text_at = g->part[p].at;
        e.text_size = (uint32_t)g->part[p].size;
        e.flags = has_text ? 0 : GF_WDS_TEXT_IS_JSON;
    }
    FAIL_IF(err, !gf_grow(&s->entries, &s->capacity, (size_t)s->keys.n + 1, sizeof *s->entries), GLOFND_E_MEMORY,
            "no memory for an index of %lld samples", (long long)s->keys.n + 1);
    s->entries[s->keys.n] = e;
    return gf_string_list_add(err, &s->keys, g->key, strlen(g->key));
}

static glofnd_status scan_members(gf_error *err, gf_tar *t, group *g, gf_wds_shard *s) {
    gf_tar_member m;
    for (;;) {
        TRY(gf_tar_next(err, t, &m));
        if (!m.name) return finish_group(err, t, g, s);
        const size_t n = key_bytes(m.name);
        if (n == 0) continue;
        if (!g->key || strlen(g->key) != n || memcmp(g->key, m.name, n) != 0) {
            TRY(finish_group(err, t, g, s));
            group_free(g);
            *g = (group){.key = strndup(m.name, n), .first = strdup(m.name)};
            FAIL_IF(err, !g->key || !g->first, GLOFND_E_MEMORY, "no memory to scan '%.350s'", t->path);
        }
        const enum part p = part_of(m.name + n + 1);
        if (p == OTHER) continue;
        FAIL_IF(err, g->part[p].here, GLOFND_E_FORMAT, "'%.250s': '%.150s' is a second %s of its sample", t->path, m.name,
                p == IMAGE ? "image" : "file of this type");
        g->part[p].at = m.at, g->part[p].size = m.size, g->part[p].here = 1;
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

/* ===== the index file of a shard ===== */

/* The samples of a shard, from and to its index file. See wds.h.
 *
 * Little endian: magic, version, shard size, shard time, count, bytes of keys, keys left out, parts not used, flags | CRC |
 * entries | CRC | keys, the name of the first key left out, the message about the first part not used ("": none), each closed
 * by a zero byte | CRC. Version 1 came from scans that accepted some shards that were cut short, version 2 lacks the parts
 * not used, version 3 groups and WebP: all are made anew, and those of a build with or without libwebp by the other.
 */

#define MAGIC "GFWDSIX1"
#define VERSION 4u
#define ENTRY_BYTES 36u
#define FLAG_NO_END_MARK 1u
#define FLAG_WEBP 2u /* by a build that reads WebP */

void gf_wds_shard_free(gf_wds_shard *s) {
    free(s->entries);
    free(s->left_first);
    free(s->unused_first);
    gf_string_list_free(&s->keys);
    *s = (gf_wds_shard){0};
}

/* Flags in the header of an index that this build would make. */
static uint32_t own_flags(void) { return gf_image_reads_webp() ? FLAG_WEBP : 0; }

static const char *text_or_none(const char *text) { return text ? text : ""; }

glofnd_status gf_wds_index_save(gf_error *err, const char *path, const gf_wds_shard *s) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    gf_put(&w, MAGIC, 8);
    gf_put_u32(&w, VERSION);
    gf_put_u64(&w, s->stamp.size);
    gf_put_u64(&w, s->stamp.mtime_ns);
    gf_put_u64(&w, (uint64_t)s->keys.n);
    gf_put_u64(&w, s->keys.used + strlen(text_or_none(s->left_first)) + 1 + strlen(text_or_none(s->unused_first)) + 1);
    gf_put_u64(&w, (uint64_t)s->left_out);
    gf_put_u64(&w, (uint64_t)s->unused);
    gf_put_u32(&w, (s->no_end_mark ? FLAG_NO_END_MARK : 0) | own_flags());
    gf_put_crc(&w);
    for (int64_t i = 0; i < s->keys.n; i++) {
        const gf_wds_entry *e = &s->entries[i];
        gf_put_u64(&w, e->image_at);
        gf_put_u64(&w, e->text_at);
        gf_put_u32(&w, e->image_size);
        gf_put_u32(&w, e->text_size);
        gf_put_u32(&w, (uint32_t)e->label);
        gf_put_u32(&w, (uint32_t)e->group);
        gf_put_u32(&w, e->flags);
    }
    gf_put_crc(&w);
    for (int64_t i = 0; i < s->keys.n; i++)
        gf_put(&w, gf_string_list_get(&s->keys, i), strlen(gf_string_list_get(&s->keys, i)) + 1);
    gf_put(&w, text_or_none(s->left_first), strlen(text_or_none(s->left_first)) + 1);
    gf_put(&w, text_or_none(s->unused_first), strlen(text_or_none(s->unused_first)) + 1);
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

typedef struct index_head {
    uint64_t size, mtime_ns, count, key_bytes, left_out, unused;
    uint32_t flags;
} index_head;

static int inside(uint64_t at, uint64_t bytes, uint64_t size) { return at <= size && bytes <= size - at; }

static int entry_is_valid(const gf_wds_entry *e, uint64_t size) {
    return inside(e->image_at, e->image_size, size) && inside(e->text_at, e->text_size, size) && e->label >= -1 &&
           e->label < GF_CLASSES_MAX && e->group >= -1 && e->group < GF_WDS_GROUPS_MAX && e->image_size <= GF_FILE_BYTES_MAX &&
           e->text_size <= GF_WDS_TEXT_MAX && (e->flags & ~(uint32_t)GF_WDS_TEXT_IS_JSON) == 0;
}

static glofnd_status copy_text(gf_error *err, const char *text, char **out) {
    *out = strdup(text);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for an index");
    gf_utf8_clean(*out, '?');
    return GLOFND_OK;
}

static glofnd_status split_keys(gf_error *err, const char *path, const char *text, const index_head *h, gf_wds_shard *out) {
    const char *p = text, *end = text + h->key_bytes;
    for (uint64_t i = 0; i < h->count + 2; i++) {
        const char *zero = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
        FAIL_IF(err, !zero, GLOFND_E_FORMAT, "'%.350s': keys are missing", path);
        if (i < h->count) TRY(gf_string_list_add(err, &out->keys, p, (size_t)(zero - p)));
        else if (i == h->count && h->left_out) TRY(copy_text(err, p, &out->left_first));
        else if (i > h->count && h->unused) TRY(copy_text(err, p, &out->unused_first));
        p = zero + 1;
    }
    FAIL_IF(err, p != end, GLOFND_E_FORMAT, "'%.350s': too many keys", path);
    return GLOFND_OK;
}

static glofnd_status load_open(gf_error *err, gf_reader *r, gf_file_stamp stamp, gf_wds_shard *out) {
    index_head h;
    char magic[8];
    gf_get(r, magic, 8);
    const uint32_t version = gf_get_u32(r);
    h.size = gf_get_u64(r);
    h.mtime_ns = gf_get_u64(r);
    h.count = gf_get_u64(r);
    h.key_bytes = gf_get_u64(r);
    h.left_out = gf_get_u64(r);
    h.unused = gf_get_u64(r);
    h.flags = gf_get_u32(r);
    TRY(gf_check_crc(r, "header", -1));
    FAIL_IF(err, memcmp(magic, MAGIC, 8) != 0 || version != VERSION, GLOFND_E_FORMAT, "'%.350s' is no index of this version",
            r->path);
    FAIL_IF(err, h.size != stamp.size || h.mtime_ns != stamp.mtime_ns, GLOFND_E_FORMAT, "'%.350s' belongs to a different shard",
            r->path);
    const uint64_t left = gf_reader_left(r);
    FAIL_IF(err, h.key_bytes > left || h.count > left / ENTRY_BYTES, GLOFND_E_FORMAT, "'%.350s' is cut short", r->path);
    FAIL_IF(err, h.left_out > INT64_MAX || h.unused > INT64_MAX || (h.flags & ~FLAG_NO_END_MARK) != own_flags(), GLOFND_E_FORMAT,
            "'%.350s' has a wrong header", r->path);
    out->left_out = (int64_t)h.left_out;
    out->unused = (int64_t)h.unused;
    out->no_end_mark = (h.flags & FLAG_NO_END_MARK) != 0;
    out->entries = malloc((size_t)h.count * sizeof *out->entries + 1);
    FAIL_IF(err, !out->entries, GLOFND_E_MEMORY, "no memory for an index of %llu samples", (unsigned long long)h.count);
    out->capacity = (int64_t)h.count;
    for (uint64_t i = 0; i < h.count; i++) {
        gf_wds_entry *e = &out->entries[i];
        e->image_at = gf_get_u64(r);
        e->text_at = gf_get_u64(r);
        e->image_size = gf_get_u32(r);
        e->text_size = gf_get_u32(r);
        e->label = (int32_t)gf_get_u32(r);
        e->group = (int32_t)gf_get_u32(r);
        e->flags = gf_get_u32(r);
    }
    TRY(gf_check_crc(r, "entries", -1));
    for (uint64_t i = 0; i < h.count; i++)
        FAIL_IF(err, !entry_is_valid(&out->entries[i], out->stamp.size), GLOFND_E_FORMAT, "'%.350s': entry %llu is invalid",
                r->path, (unsigned long long)i);
    char *text = malloc((size_t)h.key_bytes + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "no memory for %llu bytes of keys", (unsigned long long)h.key_bytes);
    gf_get(r, text, (size_t)h.key_bytes);
    glofnd_status status = gf_check_crc(r, "keys", -1);
    if (status == GLOFND_OK) status = gf_reader_end(r);
    if (status == GLOFND_OK) status = split_keys(err, r->path, text, &h, out);
    free(text);
    return status;
}

glofnd_status gf_wds_index_load(gf_error *err, const char *path, gf_file_stamp stamp, gf_wds_shard *out) {
    gf_reader r;
    *out = (gf_wds_shard){.stamp = stamp};
    TRY(gf_reader_open(err, &r, path));
    const glofnd_status status = load_open(err, &r, stamp, out);
    gf_reader_close(&r);
    if (status != GLOFND_OK) gf_wds_shard_free(out);
    return status;
}

/* ===== all shards as a dataset ===== */

enum { KEEP_OPEN = 256, THREADS_MAX = 8 }; /* up to this number of shards stay open; beyond, a read opens its shard */

typedef struct opening { /* the task of opening one shard */
    gf_wds_shard shard;
    int fd;
    glofnd_status status;
    gf_error err;
} opening;

typedef struct wds {
    gf_string_list paths; /* of the shards */
    opening *shards;      /* [paths.n] */
    int64_t *first;       /* [paths.n + 1] positions where shards begin */
    int keep_open;
    int must_write; /* gf_wds_index_all: scan anew, and fail if an index cannot be written */
} wds;

static glofnd_status open_shard(gf_error *err, const wds *w, const char *path, opening *o) {
    gf_file_stamp stamp;
    char index[PATH_MAX];
    const int n = snprintf(index, PATH_MAX, "%s.gfidx", path);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_IO, "the path '%.400s' is too long", path);
    TRY(gf_file_open(err, path, &o->fd, &stamp));
    if (!w->must_write && gf_wds_index_load(NULL, index, stamp, &o->shard) == GLOFND_OK) return GLOFND_OK;
    TRY(gf_wds_scan(err, path, o->fd, stamp, &o->shard));
    if (w->must_write) return gf_wds_index_save(err, index, &o->shard);
    (void)gf_wds_index_save(NULL, index, &o->shard); /* a read-only folder: kept in memory */
    return GLOFND_OK;
}

static void open_task(void *arg, int64_t task, int thread) {
    (void)thread;
    wds *w = arg;
    opening *o = &w->shards[task];
    o->status = open_shard(&o->err, w, gf_string_list_get(&w->paths, task), o);
    if (!w->keep_open && o->fd >= 0) close(o->fd), o->fd = -1;
}

static glofnd_status open_shards(gf_error *err, wds *w) {
    const int64_t n = w->paths.n;
    w->shards = calloc((size_t)n, sizeof *w->shards);
    w->first = calloc((size_t)n + 1, sizeof *w->first);
    FAIL_IF(err, !w->shards || !w->first, GLOFND_E_MEMORY, "no memory for %lld shards", (long long)n);
    for (int64_t k = 0; k < n; k++) w->shards[k].fd = -1;
    w->keep_open = n <= KEEP_OPEN;
    const int threads = gf_parallel_default();
    gf_parallel(threads < THREADS_MAX ? threads : THREADS_MAX, n, open_task, w);
    for (int64_t k = 0; k < n; k++) {
        if (w->shards[k].status != GLOFND_OK) return gf_fail(err, w->shards[k].status, "%s", w->shards[k].err.text);
        w->first[k + 1] = w->first[k] + w->shards[k].shard.keys.n;
    }
    return GLOFND_OK;
}

static void close_wds(void *self) {
    wds *w = self;
    if (!w) return;
    for (int64_t k = 0; w->shards && k < w->paths.n; k++) {
        gf_wds_shard_free(&w->shards[k].shard);
        if (w->shards[k].fd >= 0) close(w->shards[k].fd);
    }
    free(w->shards);
    free(w->first);
    gf_string_list_free(&w->paths);
    free(w);
}

/* NAME beside the first shard, or in the folder above. 0: neither is there. */
static int find_beside(const wds *w, const char *name, char *path, size_t bytes) {
    char above[64];
    const char *shard = gf_string_list_get(&w->paths, 0);
    snprintf(above, sizeof above, "../%.50s", name);
    if (gf_path_beside(NULL, shard, name, path, bytes) == GLOFND_OK && access(path, R_OK) == 0) return 1;
    return gf_path_beside(NULL, shard, above, path, bytes) == GLOFND_OK && access(path, R_OK) == 0;
}

static int find_templates(const gf_dataset *d, char *out, size_t bytes) {
    return find_beside(d->self, "zeroshot_classification_templates.txt", out, bytes);
}

/* Shards with a remark: their number, the first of them, and the sum of remarks. */
typedef struct tally {
    int64_t shards, first, sum;
} tally;

static void add_remarks(tally *t, int64_t shard, int64_t amount) {
    if (amount > 0 && t->shards++ == 0) t->first = shard;
    t->sum += amount;
}

static glofnd_status check_complete(gf_error *err, const gf_dataset *d) {
    const wds *w = d->self;
    for (int64_t k = 0; k < w->paths.n; k++) {
        const gf_wds_shard *s = &w->shards[k].shard;
        FAIL_IF(
            err, s->no_end_mark, GLOFND_E_FORMAT,
            "'%.300s' ends without tar's end mark, perhaps cut short; copy or download it again, or if it is meant to end so, "
            "add the mark with truncate -s +1024",
            gf_string_list_get(&w->paths, k));
        FAIL_IF(err, s->unused, GLOFND_E_FORMAT,
                "'%.200s': %.200s (%lld such in this shard); without strict, its sample is taken "
                "without it",
                gf_string_list_get(&w->paths, k), s->unused_first, (long long)s->unused);
    }
    return GLOFND_OK;
}

static glofnd_status open_wds(gf_error *err, gf_dataset *d) {
    wds *w = calloc(1, sizeof *w);
    FAIL_IF(err, !w, GLOFND_E_MEMORY, "no memory to open shards");
    d->self = w;
    TRY(find_shards(err, d->spec.place, &w->paths));
    TRY(open_shards(err, w));
    gf_dataset_info *info = &d->info;
    tally left = {0}, unused = {0}, unmarked = {0}, empty = {0};
    info->n = w->first[w->paths.n];
    for (int64_t k = 0; k < w->paths.n; k++) {
        const gf_wds_shard *s = &w->shards[k].shard;
        for (int64_t i = 0; i < s->keys.n; i++) {
            if (s->entries[i].label >= info->classes) info->classes = s->entries[i].label + 1;
            if (s->entries[i].text_size > 0) info->has_text = 1;
        }
        add_remarks(&left, k, s->left_out);
        add_remarks(&unused, k, s->unused);
        add_remarks(&unmarked, k, s->no_end_mark);
        add_remarks(&empty, k, s->keys.n == 0);
    }
    if (left.sum)
        gf_dataset_add_note(d, "%lld key%s without %s left out, in %lld shard%s, the first: %.300s:%.150s", (long long)left.sum,
                            left.sum == 1 ? "" : "s", gf_image_endings(), (long long)left.shards, left.shards == 1 ? "" : "s",
                            gf_string_list_get(&w->paths, left.first), w->shards[left.first].shard.left_first);
    if (unused.sum)
        gf_dataset_add_note(
            d, "%lld member%s cannot be used, so that captions or labels are missing, in %lld shard%s, the first: %.300s: %.250s",
            (long long)unused.sum, unused.sum == 1 ? "" : "s", (long long)unused.shards, unused.shards == 1 ? "" : "s",
            gf_string_list_get(&w->paths, unused.first), w->shards[unused.first].shard.unused_first);
    if (unmarked.sum)
        gf_dataset_add_note(d, "%lld shard%s without tar's end mark, perhaps cut short, the first: %.300s",
                            (long long)unmarked.sum, unmarked.sum == 1 ? "" : "s", gf_string_list_get(&w->paths, unmarked.first));
    if (empty.sum)
        gf_dataset_add_note(d, "%lld shard%s without a sample, the first: %.300s", (long long)empty.sum,
                            empty.sum == 1 ? "" : "s", gf_string_list_get(&w->paths, empty.first));
    FAIL_IF(err, d->info.n == 0, GLOFND_E_FORMAT, "'%.200s' holds no sample with a %s%s%.250s", d->spec.place, gf_image_endings(),
            d->note[0] ? ": " : "", d->note);
    /* It may name more classes than these shards have samples of. */
    char path[PATH_MAX];
    if (d->info.classes == 0 || !find_beside(w, "classnames.txt", path, sizeof path)) return GLOFND_OK;
    TRY(gf_read_class_names(err, d, path, d->info.classes, GF_CLASSES_MAX, &d->classes));
    if (d->classes.n > 0) d->info.classes = (int32_t)d->classes.n;
    return GLOFND_OK;
}

glofnd_status gf_wds_index_all(gf_error *err, const char *pattern, int64_t *shards, int64_t *samples) {
    wds *w = calloc(1, sizeof *w);
    FAIL_IF(err, !w, GLOFND_E_MEMORY, "no memory to open shards");
    w->must_write = 1;
    glofnd_status status = find_shards(err, pattern, &w->paths);
    if (status == GLOFND_OK) status = open_shards(err, w);
    if (status == GLOFND_OK) *shards = w->paths.n, *samples = w->first[w->paths.n];
    close_wds(w);
    return status;
}

typedef struct place {
    int64_t shard;
    const gf_wds_entry *e;
    const char *key, *path;
} place;

static place place_of(const gf_dataset *d, int64_t i) {
    const wds *w = d->self;
    int64_t lo = 0, hi = w->paths.n - 1;
    while (lo < hi) { /* the last shard that begins at or before i */
        const int64_t mid = lo + (hi - lo + 1) / 2;
        if (w->first[mid] <= i) lo = mid;
        else hi = mid - 1;
    }
    const gf_wds_shard *s = &w->shards[lo].shard;
    const int64_t entry = i - w->first[lo];
    return (place){lo, &s->entries[entry], gf_string_list_get(&s->keys, entry), gf_string_list_get(&w->paths, lo)};
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return place_of(d, i).e->label; }

static int32_t group_of(const gf_dataset *d, int64_t i) { return place_of(d, i).e->group; }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const place p = place_of(d, i);
    snprintf(out, bytes, "%s:%s", p.path, p.key);
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const char *key = place_of(d, i).key;
    return gf_key_hash(key, strlen(key));
}

static glofnd_status read_entry_text(gf_error *err, int fd, const char *name, const gf_wds_entry *e, gf_sample *out) {
    if (e->text_size == 0) return GLOFND_OK;
    TRY(gf_file_reserve(err, name, (size_t)e->text_size + 1, &out->encoded, &out->encoded_capacity));
    TRY(gf_file_read_at(err, fd, name, e->text_at, out->encoded, e->text_size));
    out->encoded[e->text_size] = 0;
    const char *text = (char *)out->encoded;
    if (!(e->flags & GF_WDS_TEXT_IS_JSON)) return gf_sample_set_text(err, out, text, e->text_size);
    char *caption = NULL;
    int32_t label;
    TRY(read_json_fields(err, name, text, e->text_size, &label, &caption));
    const glofnd_status status = caption ? gf_sample_set_text(err, out, caption, strlen(caption)) : GLOFND_OK;
    free(caption);
    return status;
}

static glofnd_status read_parts(gf_error *err, const gf_dataset *d, int64_t i, int image, const gf_decode_hint *hint,
                                gf_sample *out) {
    const wds *w = d->self;
    const place p = place_of(d, i);
    char name[PATH_MAX];
    name_of(d, i, name, sizeof name);
    int fd = w->shards[p.shard].fd;
    const int own = fd < 0;
    if (own) TRY(gf_file_open(err, p.path, &fd, NULL));
    glofnd_status status = read_entry_text(err, fd, name, p.e, out);
    const uint32_t bytes = p.e->image_size;
    if (status == GLOFND_OK && image) status = gf_file_reserve(err, name, bytes, &out->encoded, &out->encoded_capacity);
    if (status == GLOFND_OK && image) status = gf_file_read_at(err, fd, name, p.e->image_at, out->encoded, bytes);
    if (own) close(fd);
    TRY(status);
    if (!image) return GLOFND_OK;
    out->encoded_size = bytes;
    return gf_image_decode(err, name, out->encoded, bytes, hint, &out->image);
}

static glofnd_status read_wds(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    return read_parts(err, d, i, 1, hint, out);
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    return read_parts(err, d, i, 0, NULL, out);
}

static glofnd_status find_image(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out) {
    const place p = place_of(d, i);
    const int n = snprintf(path, bytes, "%s", p.path);
    FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_FORMAT, "the path '%.400s' is too long", p.path);
    *out = (gf_span){p.e->image_at, p.e->image_size};
    return GLOFND_OK;
}

static const char *const options[] = {NULL};

const gf_dataset_format gf_format_wds = {
    .name = "wds",
    .options = options,
    .open = open_wds,
    .close = close_wds,
    .label = label_of,
    .group = group_of,
    .templates = find_templates,
    .name_of = name_of,
    .key = key_of,
    .read = read_wds,
    .read_text = read_text,
    .check_complete = check_complete,
    .find = find_image,
};
