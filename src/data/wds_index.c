/* wds_index.c - the samples of a shard: by scanning it, or from its index file. See wds.h.
 *
 * Index file, little endian: magic, version, shard size, shard time, count, bytes of keys, keys left out, flags | CRC | entries |
 * CRC | keys and the name of what was left out first ("": nothing), each closed by a zero byte | CRC. Version 1 came from scans
 * that took some shards that were cut short: it is not read, and made anew.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/dataset.h"
#include "data/tar.h"
#include "data/wds.h"
#include "io/blockfile.h"

#define MAGIC "GFWDSIX1"
#define VERSION 2u
#define ENTRY_BYTES 32u
#define MOST_CLS 32             /* bytes of a .cls */
#define FLAG_NO_MARK 1u

enum part { IMAGE, TEXT, LABEL, JSON, PARTS, OTHER = PARTS };

typedef struct group {          /* the members seen so far of the sample under way */
    char *key, *first;          /* first: the name of its first member */
    struct {
        uint64_t at, size;
        int here;
    } part[PARTS];
} group;

void gf_wds_shard_free(gf_wds_shard *s) {
    free(s->entries);
    free(s->left_first);
    gf_names_free(&s->keys);
    *s = (gf_wds_shard){0};
}

/* ----- scanning ----- */

/* Length of the key, 0 if the name has none: all up to the first dot of the last part of the path. */
static size_t key_bytes(const char *name) {
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const char *dot = strchr(last, '.');
    return dot && dot > last ? (size_t)(dot - name) : 0;
}

static enum part part_of(const char *extension) {
    if (strcasecmp(extension, "jpg") == 0 || strcasecmp(extension, "jpeg") == 0 || strcasecmp(extension, "png") == 0)
        return IMAGE;
    if (strcasecmp(extension, "txt") == 0) return TEXT;
    if (strcasecmp(extension, "cls") == 0) return LABEL;
    if (strcasecmp(extension, "json") == 0) return JSON;
    return OTHER;
}

static glofnd_status read_cls(gf_error *err, const gf_tar *t, const group *g, int32_t *label) {
    char text[MOST_CLS + 1] = "", name[300], *end;
    const uint64_t size = g->part[LABEL].size;
    snprintf(name, sizeof name, "%.200s:%.80s.cls", t->path, g->key);
    FAIL_IF(err, size > MOST_CLS, GLOFND_E_FORMAT, "'%s' has %llu bytes; it must hold one whole number", name,
            (unsigned long long)size);
    TRY(gf_file_read_at(err, t->fd, t->path, g->part[LABEL].at, text, (size_t)size));
    const long x = strtol(text, &end, 10);
    while (*end && strchr(" \r\n\t", *end)) end++;
    FAIL_IF(err, end == text || *end || x < 0 || x >= GF_CLASSES_MOST, GLOFND_E_FORMAT,
            "'%s' holds '%.40s'; it must be a whole number 0..%d", name, text, GF_CLASSES_MOST - 1);
    *label = (int32_t)x;
    return GLOFND_OK;
}

static glofnd_status read_json(gf_error *err, const gf_tar *t, const group *g, int32_t *label, int *has_caption) {
    char name[300], *caption = NULL;
    snprintf(name, sizeof name, "%.200s:%.80s.json", t->path, g->key);
    const uint64_t size = g->part[JSON].size;
    FAIL_IF(err, size > GF_WDS_TEXT_MOST, GLOFND_E_FORMAT, "'%s' has %llu bytes, more than accepted", name,
            (unsigned long long)size);
    char *text = malloc((size_t)size + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "no memory to read '%s'", name);
    glofnd_status status = gf_file_read_at(err, t->fd, name, g->part[JSON].at, text, (size_t)size);
    if (status == GLOFND_OK) status = gf_wds_json(err, name, text, (size_t)size, label, &caption);
    *has_caption = caption != NULL;
    free(caption);
    free(text);
    return status;
}

/* Label and text of the group: .cls and .txt; what is missing there is looked for in .json. */
static glofnd_status fill_entry(gf_error *err, const gf_tar *t, const group *g, gf_wds_entry *e) {
    int32_t json_label = -1;
    int json_caption = 0;
    const int has_text = g->part[TEXT].here && g->part[TEXT].size > 0;
    FAIL_IF(err, g->part[IMAGE].size > GF_FILE_MOST || (has_text && g->part[TEXT].size > GF_WDS_TEXT_MOST), GLOFND_E_FORMAT,
            "'%.250s': the sample '%.100s' is larger than accepted", t->path, g->key);
    *e = (gf_wds_entry){.image_at = g->part[IMAGE].at, .image_size = (uint32_t)g->part[IMAGE].size, .label = -1};
    if (g->part[JSON].here && !(g->part[TEXT].here && g->part[LABEL].here)) {
        const glofnd_status status = read_json(err, t, g, &json_label, &json_caption);
        if (status == GLOFND_E_UNSUPPORTED && (g->part[TEXT].here || g->part[LABEL].here)) json_caption = 0;
        else TRY(status);
    }
    if (g->part[LABEL].here) TRY(read_cls(err, t, g, &e->label));
    else e->label = json_label;
    if (has_text || json_caption) {
        const enum part p = has_text ? TEXT : JSON;
        e->text_at = g->part[p].at;
        e->text_size = (uint32_t)g->part[p].size;
        e->flags = has_text ? 0 : GF_WDS_TEXT_IS_JSON;
    }
    return GLOFND_OK;
}

static glofnd_status add_entry(gf_error *err, gf_wds_shard *s, const char *key, size_t n, const gf_wds_entry *e) {
    if (s->keys.n == s->capacity) {
        const int64_t capacity = 2 * s->capacity + 64;
        gf_wds_entry *entries = realloc(s->entries, (size_t)capacity * sizeof *entries);
        FAIL_IF(err, !entries, GLOFND_E_MEMORY, "no memory for an index of %lld samples", (long long)capacity);
        s->entries = entries;
        s->capacity = capacity;
    }
    s->entries[s->keys.n] = *e;
    return gf_names_add(err, &s->keys, key, n);
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
    TRY(fill_entry(err, t, g, &e));
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
            p == IMAGE ? "image" : "file of its kind");
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
    out->no_mark = t.no_mark;
    gf_tar_end(&t);
    if (status != GLOFND_OK) gf_wds_shard_free(out);
    return status;
}

/* ----- the index file ----- */

static const char *left_name(const gf_wds_shard *s) { return s->left_first ? s->left_first : ""; }

static void put_keys(gf_writer *w, const gf_wds_shard *s) {
    const gf_names *keys = &s->keys;
    for (int64_t i = 0; i < keys->n; i++) gf_put(w, gf_names_get(keys, i), strlen(gf_names_get(keys, i)) + 1);
    gf_put(w, left_name(s), strlen(left_name(s)) + 1);
}

static void put_entry(gf_writer *w, const gf_wds_entry *e) {
    gf_put_u64(w, e->image_at);
    gf_put_u64(w, e->text_at);
    gf_put_u32(w, e->image_size);
    gf_put_u32(w, e->text_size);
    gf_put_u32(w, (uint32_t)e->label);
    gf_put_u32(w, e->flags);
}

glofnd_status gf_wds_index_save(gf_error *err, const char *path, const gf_wds_shard *s) {
    gf_writer w;
    TRY(gf_writer_open(&w, err, path));
    gf_put(&w, MAGIC, 8);
    gf_put_u32(&w, VERSION);
    gf_put_u64(&w, s->stamp.size);
    gf_put_u64(&w, s->stamp.mtime_ns);
    gf_put_u64(&w, (uint64_t)s->keys.n);
    gf_put_u64(&w, s->keys.used + strlen(left_name(s)) + 1);
    gf_put_u64(&w, (uint64_t)s->left_out);
    gf_put_u32(&w, s->no_mark ? FLAG_NO_MARK : 0);
    gf_put_crc(&w);
    for (int64_t i = 0; i < s->keys.n; i++) put_entry(&w, &s->entries[i]);
    gf_put_crc(&w);
    put_keys(&w, s);
    gf_put_crc(&w);
    const glofnd_status status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}

typedef struct index_head {
    uint64_t size, mtime_ns, count, key_bytes, left_out;
    uint32_t flags;
} index_head;

static glofnd_status get_head(gf_error *err, gf_reader *r, gf_file_stamp stamp, index_head *h) {
    char magic[8];
    gf_get(r, magic, 8);
    const uint32_t version = gf_get_u32(r);
    h->size = gf_get_u64(r);
    h->mtime_ns = gf_get_u64(r);
    h->count = gf_get_u64(r);
    h->key_bytes = gf_get_u64(r);
    h->left_out = gf_get_u64(r);
    h->flags = gf_get_u32(r);
    TRY(gf_check_crc(r, "header", -1));
    FAIL_IF(err, memcmp(magic, MAGIC, 8) != 0 || version != VERSION, GLOFND_E_FORMAT, "'%.350s' is no index of this version",
            r->path);
    FAIL_IF(err, h->size != stamp.size || h->mtime_ns != stamp.mtime_ns, GLOFND_E_FORMAT, "'%.350s' is of another shard",
            r->path);
    const uint64_t left = gf_reader_left(r);
    FAIL_IF(err, h->key_bytes > left || h->count > left / ENTRY_BYTES, GLOFND_E_FORMAT, "'%.350s' is cut short", r->path);
    FAIL_IF(err, h->left_out > INT64_MAX || (h->flags & ~FLAG_NO_MARK), GLOFND_E_FORMAT, "'%.350s' has a wrong header", r->path);
    return GLOFND_OK;
}

static int inside(uint64_t at, uint64_t bytes, uint64_t size) {
    return at <= size && bytes <= size - at;
}

static int entry_is_sound(const gf_wds_entry *e, uint64_t size) {
    return inside(e->image_at, e->image_size, size) && inside(e->text_at, e->text_size, size) && e->label >= -1 &&
           e->label < GF_CLASSES_MOST && e->image_size <= GF_FILE_MOST && e->text_size <= GF_WDS_TEXT_MOST &&
           (e->flags & ~(uint32_t)GF_WDS_TEXT_IS_JSON) == 0;
}

static gf_wds_entry get_entry(gf_reader *r) {
    gf_wds_entry e;
    e.image_at = gf_get_u64(r);
    e.text_at = gf_get_u64(r);
    e.image_size = gf_get_u32(r);
    e.text_size = gf_get_u32(r);
    e.label = (int32_t)gf_get_u32(r);
    e.flags = gf_get_u32(r);
    return e;
}

static glofnd_status get_entries(gf_error *err, gf_reader *r, uint64_t count, gf_wds_shard *out) {
    out->entries = malloc((size_t)count * sizeof *out->entries + 1);
    FAIL_IF(err, !out->entries, GLOFND_E_MEMORY, "no memory for an index of %llu samples", (unsigned long long)count);
    out->capacity = (int64_t)count;
    for (uint64_t i = 0; i < count; i++) out->entries[i] = get_entry(r);
    TRY(gf_check_crc(r, "entries", -1));
    for (uint64_t i = 0; i < count; i++) {
        FAIL_IF(err, !entry_is_sound(&out->entries[i], out->stamp.size), GLOFND_E_FORMAT, "'%.350s': entry %llu is wrong",
                r->path, (unsigned long long)i);
    }
    return GLOFND_OK;
}

static glofnd_status split_keys(gf_error *err, const char *path, const char *text, const index_head *h, gf_wds_shard *out) {
    const char *p = text, *end = text + h->key_bytes;
    for (uint64_t i = 0; i <= h->count; i++) {
        const char *zero = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
        FAIL_IF(err, !zero, GLOFND_E_FORMAT, "'%.350s': keys are missing", path);
        if (i < h->count) TRY(gf_names_add(err, &out->keys, p, (size_t)(zero - p)));
        else if (h->left_out) out->left_first = strdup(p);
        p = zero + 1;
    }
    FAIL_IF(err, h->left_out && !out->left_first, GLOFND_E_MEMORY, "no memory for an index");
    FAIL_IF(err, p != end, GLOFND_E_FORMAT, "'%.350s': too many keys", path);
    return GLOFND_OK;
}

static glofnd_status get_keys(gf_error *err, gf_reader *r, const index_head *h, gf_wds_shard *out) {
    char *text = malloc((size_t)h->key_bytes + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "no memory for %llu bytes of keys", (unsigned long long)h->key_bytes);
    gf_get(r, text, (size_t)h->key_bytes);
    glofnd_status status = gf_check_crc(r, "keys", -1);
    if (status == GLOFND_OK) status = gf_reader_end(r);
    if (status == GLOFND_OK) status = split_keys(err, r->path, text, h, out);
    free(text);
    return status;
}

static glofnd_status load_open(gf_error *err, gf_reader *r, gf_file_stamp stamp, gf_wds_shard *out) {
    index_head h;
    TRY(get_head(err, r, stamp, &h));
    out->left_out = (int64_t)h.left_out;
    out->no_mark = (h.flags & FLAG_NO_MARK) != 0;
    TRY(get_entries(err, r, h.count, out));
    return get_keys(err, r, &h, out);
}

glofnd_status gf_wds_index_load(gf_error *err, const char *path, gf_file_stamp stamp, gf_wds_shard *out) {
    gf_reader r;
    *out = (gf_wds_shard){.stamp = stamp};
    TRY(gf_reader_open(&r, err, path));
    const glofnd_status status = load_open(err, &r, stamp, out);
    gf_reader_close(&r);
    if (status != GLOFND_OK) gf_wds_shard_free(out);
    return status;
}
