/* wds_index.c - the samples of a shard, from and to its index file. See wds.h.
 *
 * Little endian: magic, version, shard size, shard time, count, bytes of keys, keys left out, parts not used, flags | CRC |
 * entries | CRC | keys, the name of the first key left out, the message about the first part not used ("": none), each closed
 * by a zero byte | CRC. Version 1 came from scans that accepted some shards that were cut short, version 2 lacks the parts
 * not used, version 3 groups and WebP: all are made anew, and those of a build with or without libwebp by the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_format.h"
#include "data/formats/wds.h"
#include "io/blockfile.h"
#include "util/text.h"

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

/* ----- writing ----- */

static const char *text_or_none(const char *text) { return text ? text : ""; }

static void put_keys(gf_writer *w, const gf_wds_shard *s) {
    const gf_string_list *keys = &s->keys;
    for (int64_t i = 0; i < keys->n; i++) gf_put(w, gf_string_list_get(keys, i), strlen(gf_string_list_get(keys, i)) + 1);
    gf_put(w, text_or_none(s->left_first), strlen(text_or_none(s->left_first)) + 1);
    gf_put(w, text_or_none(s->unused_first), strlen(text_or_none(s->unused_first)) + 1);
}

static void put_entry(gf_writer *w, const gf_wds_entry *e) {
    gf_put_u64(w, e->image_at);
    gf_put_u64(w, e->text_at);
    gf_put_u32(w, e->image_size);
    gf_put_u32(w, e->text_size);
    gf_put_u32(w, (uint32_t)e->label);
    gf_put_u32(w, (uint32_t)e->group);
    gf_put_u32(w, e->flags);
}

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
    for (int64_t i = 0; i < s->keys.n; i++) put_entry(&w, &s->entries[i]);
    gf_put_crc(&w);
    put_keys(&w, s);
    gf_put_crc(&w);
    return gf_writer_finish(&w);
}

/* ----- reading ----- */

typedef struct index_head {
    uint64_t size, mtime_ns, count, key_bytes, left_out, unused;
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
    h->unused = gf_get_u64(r);
    h->flags = gf_get_u32(r);
    TRY(gf_check_crc(r, "header", -1));
    FAIL_IF(err, memcmp(magic, MAGIC, 8) != 0 || version != VERSION, GLOFND_E_FORMAT, "'%.350s' is no index of this version",
            r->path);
    FAIL_IF(err, h->size != stamp.size || h->mtime_ns != stamp.mtime_ns, GLOFND_E_FORMAT, "'%.350s' belongs to a different shard",
            r->path);
    const uint64_t left = gf_reader_left(r);
    FAIL_IF(err, h->key_bytes > left || h->count > left / ENTRY_BYTES, GLOFND_E_FORMAT, "'%.350s' is cut short", r->path);
    FAIL_IF(err, h->left_out > INT64_MAX || h->unused > INT64_MAX || (h->flags & ~FLAG_NO_END_MARK) != own_flags(),
            GLOFND_E_FORMAT, "'%.350s' has a wrong header", r->path);
    return GLOFND_OK;
}

static int inside(uint64_t at, uint64_t bytes, uint64_t size) { return at <= size && bytes <= size - at; }

static int entry_is_valid(const gf_wds_entry *e, uint64_t size) {
    return inside(e->image_at, e->image_size, size) && inside(e->text_at, e->text_size, size) && e->label >= -1 &&
           e->label < GF_CLASSES_MAX && e->group >= -1 && e->group < GF_WDS_GROUPS_MAX && e->image_size <= GF_FILE_BYTES_MAX &&
           e->text_size <= GF_WDS_TEXT_MAX && (e->flags & ~(uint32_t)GF_WDS_TEXT_IS_JSON) == 0;
}

static gf_wds_entry get_entry(gf_reader *r) {
    gf_wds_entry e;
    e.image_at = gf_get_u64(r);
    e.text_at = gf_get_u64(r);
    e.image_size = gf_get_u32(r);
    e.text_size = gf_get_u32(r);
    e.label = (int32_t)gf_get_u32(r);
    e.group = (int32_t)gf_get_u32(r);
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
        FAIL_IF(err, !entry_is_valid(&out->entries[i], out->stamp.size), GLOFND_E_FORMAT, "'%.350s': entry %llu is invalid",
                r->path, (unsigned long long)i);
    }
    return GLOFND_OK;
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
    out->unused = (int64_t)h.unused;
    out->no_end_mark = (h.flags & FLAG_NO_END_MARK) != 0;
    TRY(get_entries(err, r, h.count, out));
    return get_keys(err, r, &h, out);
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
