/* parquet_pages.c - the pages of a column in a row group, one in memory at a time; see parquet.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "io/page_codec.h"
#include "io/parquet.h"
#include "io/thrift.h"
#include "util/array.h"

enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };
enum { PAGE_MAX = 1 << 30, HEAD_FIRST = 1 << 12, HEAD_MAX = 1 << 24 };

typedef struct page_head {
    int64_t type, unpacked, packed, crc;
    int has_crc;
    int64_t values, encoding, def_encoding, rep_encoding;
    int64_t def_bytes, rep_bytes, compressed; /* of version 2 */
    size_t bytes;                             /* of the head itself */
} page_head;

static void read_data_head(gf_thrift *t, const gf_thrift_struct *field, int v2, page_head *h) {
    if (!gf_thrift_enter(t, field)) return;
    for (gf_thrift_struct s = gf_thrift_begin(t); gf_thrift_field(t, &s);) {
        if (s.id == 1) h->values = gf_thrift_integer(t, &s);
        else if (s.id == (v2 ? 4 : 2)) h->encoding = gf_thrift_integer(t, &s);
        else if (!v2 && s.id == 3 && s.type == GF_THRIFT_I32) h->def_encoding = gf_thrift_integer(t, &s);
        else if (!v2 && s.id == 4 && s.type == GF_THRIFT_I32) h->rep_encoding = gf_thrift_integer(t, &s);
        else if (v2 && s.id == 5) h->def_bytes = gf_thrift_integer(t, &s);
        else if (v2 && s.id == 6) h->rep_bytes = gf_thrift_integer(t, &s);
        else if (v2 && s.id == 7) h->compressed = gf_thrift_integer(t, &s);
        else gf_thrift_skip(t, &s);
    }
}

static int parse_head(const uint8_t *bytes, size_t n, page_head *h) {
    gf_thrift t = gf_thrift_of(bytes, n);
    *h = (page_head){.type = -1, .unpacked = -1, .packed = -1, .values = -1, .encoding = -1, .compressed = 1};
    h->def_encoding = h->rep_encoding = GF_ENCODING_RLE;
    for (gf_thrift_struct s = gf_thrift_begin(&t); gf_thrift_field(&t, &s);) {
        switch (s.id) {
        case 1: h->type = gf_thrift_integer(&t, &s); break;
        case 2: h->unpacked = gf_thrift_integer(&t, &s); break;
        case 3: h->packed = gf_thrift_integer(&t, &s); break;
        case 4: h->crc = gf_thrift_integer(&t, &s), h->has_crc = 1; break;
        case 5:
        case 7: read_data_head(&t, &s, 0, h); break;
        case 8: read_data_head(&t, &s, 1, h); break;
        default: gf_thrift_skip(&t, &s);
        }
    }
    h->bytes = (size_t)(t.at - t.start);
    return !t.failed;
}

/* Most heads are small; statistics of long texts make them large. */
static glofnd_status read_head(gf_error *err, gf_parquet_cursor *c, page_head *h) {
    for (uint64_t try = HEAD_FIRST;; try = HEAD_MAX) {
        const size_t n = (size_t)GF_MIN(try, c->end - c->at);
        TRY(gf_file_reserve(err, c->f->path, n, &c->packed, &c->packed_capacity));
        TRY(gf_parquet_read_at(err, c->f, c->at, c->packed, n));
        if (parse_head(c->packed, n, h)) break;
        FAIL_IF(err, n == c->end - c->at || try == HEAD_MAX, GLOFND_E_FORMAT, "%s: the head of a page at byte %llu is corrupt",
                c->where, (unsigned long long)c->at);
    }
    c->at += h->bytes;
    FAIL_IF(err,
            h->packed < 0 || h->unpacked < 0 || h->packed > PAGE_MAX || h->unpacked > PAGE_MAX ||
                (uint64_t)h->packed > c->end - c->at,
            GLOFND_E_FORMAT, "%s: a page of %lld bytes, %lld unpacked, where %llu are left", c->where, (long long)h->packed,
            (long long)h->unpacked, (unsigned long long)(c->end - c->at));
    return GLOFND_OK;
}

/* The bytes of the page, as they are in the file, to c->packed. */
static glofnd_status read_packed(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    TRY(gf_file_reserve(err, c->f->path, (size_t)h->packed, &c->packed, &c->packed_capacity));
    TRY(gf_parquet_read_at(err, c->f, c->at, c->packed, (size_t)h->packed));
    c->at += (uint64_t)h->packed;
    FAIL_IF(err, h->has_crc && gf_page_crc(c->packed, (size_t)h->packed) != (uint32_t)h->crc, GLOFND_E_FORMAT,
            "%s: a page is corrupt: its checksum differs", c->where);
    return GLOFND_OK;
}

static int codec_of(const gf_parquet_cursor *c) { return (int)c->f->chunk[c->group * c->f->leaves + c->leaf].codec; }

/* ----- dictionary ----- */

static glofnd_status read_dictionary(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    FAIL_IF(err,
            c->dict.bytes || h->values < 0 || (h->encoding != GF_ENCODING_PLAIN && h->encoding != GF_ENCODING_PLAIN_DICTIONARY),
            GLOFND_E_FORMAT, "%s: the dictionary is corrupt, or a second one", c->where);
    TRY(read_packed(err, c, h));
    TRY(gf_page_codec_bound(err, c->where, codec_of(c), (size_t)h->packed, (size_t)h->unpacked));
    TRY(gf_file_reserve(err, c->f->path, (size_t)h->unpacked, &c->dictionary, &c->dictionary_capacity));
    TRY(gf_page_unpack(err, c->where, codec_of(c), c->packed, (size_t)h->packed, c->dictionary, (size_t)h->unpacked));
    const int done = gf_dictionary_init(&c->dict, c->dictionary, (size_t)h->unpacked, (size_t)h->values, l->width);
    FAIL_IF(err, done < 0, GLOFND_E_MEMORY, "%s: no memory for its dictionary", c->where);
    FAIL_IF(err, done == 0, GLOFND_E_FORMAT, "%s: a dictionary of %lld bytes cannot hold the %lld values it states", c->where,
            (long long)h->unpacked, (long long)h->values);
    return GLOFND_OK;
}

/* ----- data ----- */

static int bits_for(int max) {
    int bits = 0;
    while (max >> bits) bits++;
    return bits;
}

/* Levels of version 1: a length, then the hybrid. */
static int take_levels(const uint8_t **at, const uint8_t *end, int max, gf_hybrid *out) {
    if (max == 0) return 1;
    if (end - *at < 4) return 0;
    const uint32_t n = (uint32_t)(*at)[0] | (uint32_t)(*at)[1] << 8 | (uint32_t)(*at)[2] << 16 | (uint32_t)(*at)[3] << 24;
    *at += 4;
    if (n > (size_t)(end - *at)) return 0;
    *out = gf_hybrid_of(*at, n, bits_for(max));
    *at += n;
    return 1;
}

static glofnd_status begin_deltas(gf_error *err, gf_parquet_cursor *c, gf_page_values *v) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const int integers = v->encoding == GF_ENCODING_DELTA;
    const size_t n = (size_t)(v->end - v->at);
    size_t last = 0;
    FAIL_IF(err, integers ? l->type != GF_PARQUET_INT32 && l->type != GF_PARQUET_INT64 : l->type != GF_PARQUET_BYTES,
            GLOFND_E_FORMAT, "%s: a delta encoding (%d) that its type cannot have", c->where, v->encoding);
    const int valid = integers ? gf_delta_begin(&v->delta, v->at, n)
                               : gf_delta_texts_begin(&v->texts, v->at, n, v->encoding == GF_ENCODING_DELTA_TEXT, &last);
    FAIL_IF(err, !valid, GLOFND_E_FORMAT, "%s: the differences of a page are corrupt", c->where);
    if (v->encoding != GF_ENCODING_DELTA_TEXT) return GLOFND_OK;
    TRY(gf_file_reserve(err, c->f->path, last + 1, &c->last_text, &c->last_text_capacity));
    v->texts.last = c->last_text;
    return GLOFND_OK;
}

static glofnd_status begin_values(gf_error *err, gf_parquet_cursor *c, const page_head *h, const uint8_t *at,
                                  const uint8_t *end) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    gf_page_values v = {.encoding = (int)h->encoding, .type = l->type, .width = l->width, .half = l->half, .at = at, .end = end};
    switch (h->encoding) {
    case GF_ENCODING_PLAIN: break;
    case GF_ENCODING_SPLIT:
        FAIL_IF(err, l->width == 0 || l->width > 8, GLOFND_E_FORMAT, "%s: bytes of texts are split", c->where);
        v.count = (size_t)(end - at) / (size_t)l->width;
        break;
    case GF_ENCODING_PLAIN_DICTIONARY:
    case GF_ENCODING_DICTIONARY:
        FAIL_IF(err, !c->dict.bytes, GLOFND_E_FORMAT, "%s: a page needs a dictionary, and there is none", c->where);
        FAIL_IF(err, at == end || *at > 32, GLOFND_E_FORMAT, "%s: places in the dictionary have no width, or one above 32",
                c->where);
        v.place = gf_hybrid_of(at + 1, (size_t)(end - at - 1), *at);
        v.dict = &c->dict;
        break;
    case GF_ENCODING_DELTA:
    case GF_ENCODING_DELTA_LENGTH:
    case GF_ENCODING_DELTA_TEXT: TRY(begin_deltas(err, c, &v)); break;
    default:
        GF_FAIL(err, GLOFND_E_UNSUPPORTED,
                "%s: values have encoding %lld; PLAIN, dictionary, delta and BYTE_STREAM_SPLIT are read: write the column with "
                "one of these",
                c->where, (long long)h->encoding);
    }
    c->values = v;
    return GLOFND_OK;
}

static glofnd_status read_data(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const size_t n = (size_t)h->unpacked;
    FAIL_IF(err, (l->max_def && h->def_encoding != GF_ENCODING_RLE) || (l->max_rep && h->rep_encoding != GF_ENCODING_RLE),
            GLOFND_E_UNSUPPORTED, "%s: levels have encodings %lld and %lld; only RLE is read", c->where,
            (long long)h->rep_encoding, (long long)h->def_encoding);
    TRY(read_packed(err, c, h));
    TRY(gf_page_codec_bound(err, c->where, codec_of(c), (size_t)h->packed, n));
    TRY(gf_file_reserve(err, c->f->path, n, &c->page, &c->page_capacity));
    TRY(gf_page_unpack(err, c->where, codec_of(c), c->packed, (size_t)h->packed, c->page, n));
    const uint8_t *at = c->page, *end = c->page + n;
    FAIL_IF(err, !take_levels(&at, end, l->max_rep, &c->rep) || !take_levels(&at, end, l->max_def, &c->def), GLOFND_E_FORMAT,
            "%s: the levels of a page are corrupt", c->where);
    return begin_values(err, c, h, at, end);
}

/* Version 2: the levels come first and are never packed. */
static glofnd_status read_data_v2(gf_error *err, gf_parquet_cursor *c, const page_head *h) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    FAIL_IF(err,
            h->rep_bytes < 0 || h->def_bytes < 0 || h->rep_bytes > h->packed || h->def_bytes > h->packed - h->rep_bytes ||
                h->rep_bytes + h->def_bytes > h->unpacked,
            GLOFND_E_FORMAT, "%s: the levels of a page are longer than the page", c->where);
    TRY(read_packed(err, c, h));
    const size_t levels = (size_t)(h->rep_bytes + h->def_bytes), n = (size_t)h->unpacked - levels;
    const size_t packed = (size_t)h->packed - levels;
    const int codec = h->compressed ? codec_of(c) : GF_CODEC_NONE;
    const int empty = n == 0 && packed == 0;
    if (!empty) TRY(gf_page_codec_bound(err, c->where, codec, packed, n));
    TRY(gf_file_reserve(err, c->f->path, levels + n, &c->page, &c->page_capacity));
    if (levels) memcpy(c->page, c->packed, levels);
    if (!empty) TRY(gf_page_unpack(err, c->where, codec, c->packed + levels, packed, c->page + levels, n));
    c->rep = gf_hybrid_of(c->page, (size_t)h->rep_bytes, bits_for(l->max_rep));
    c->def = gf_hybrid_of(c->page + h->rep_bytes, (size_t)h->def_bytes, bits_for(l->max_def));
    return begin_values(err, c, h, c->page + levels, c->page + levels + n);
}

static glofnd_status next_page(gf_error *err, gf_parquet_cursor *c) {
    page_head h;
    FAIL_IF(err, c->at >= c->end, GLOFND_E_FORMAT, "%s: its pages end %lld values early", c->where, (long long)c->left);
    TRY(read_head(err, c, &h));
    if (h.type == DICTIONARY_PAGE) return read_dictionary(err, c, &h);
    if (h.type != DATA_PAGE && h.type != DATA_PAGE_V2) {
        c->at += (uint64_t)h.packed;
        return GLOFND_OK;
    }
    FAIL_IF(err, h.values < 0 || h.values > c->left || h.values > INT32_MAX, GLOFND_E_FORMAT,
            "%s: a page of %lld values where %lld are left", c->where, (long long)h.values, (long long)c->left);
    TRY(h.type == DATA_PAGE ? read_data(err, c, &h) : read_data_v2(err, c, &h));
    c->page_left = h.values;
    c->left -= h.values;
    return GLOFND_OK;
}

glofnd_status gf_parquet_page(gf_error *err, gf_parquet_cursor *c, int64_t *levels) {
    while (c->page_left == 0 && c->left > 0) TRY(next_page(err, c));
    *levels = c->page_left;
    return GLOFND_OK;
}

glofnd_status gf_parquet_enter_group(gf_error *err, gf_parquet_cursor *c, int64_t group) {
    const gf_parquet *f = c->f;
    const gf_parquet_chunk *k = &f->chunk[group * f->leaves + c->leaf];
    snprintf(c->where, sizeof c->where, "%.200s, row group %lld, column '%.80s'", f->path, (long long)group,
             f->leaf[c->leaf].path);
    gf_dictionary_free(&c->dict);
    c->group = -1;
    TRY(gf_page_codec_check(err, c->where, k->codec));
    c->group = group, c->row = f->first[group], c->place = 0;
    c->at = k->start, c->end = k->start + k->bytes;
    c->left = k->values, c->page_left = 0;
    c->level = c->levels = 0;
    return GLOFND_OK;
}
