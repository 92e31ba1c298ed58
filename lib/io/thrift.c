/* thrift.c - see thrift.h. */
#include "io/thrift.h"

enum { DEPTH_MAX = 16 }; /* of structs and lists in each other, when they are skipped */

static int take_byte(gf_thrift *t) {
    if (t->failed || t->at == t->end) {
        t->failed = 1;
        return 0;
    }
    return *t->at++;
}

static uint64_t take_varint(gf_thrift *t) {
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const int byte = take_byte(t);
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return t->failed ? 0 : x;
    }
    t->failed = 1;
    return 0;
}

static int64_t take_zigzag(gf_thrift *t) {
    const uint64_t x = take_varint(t);
    return (int64_t)(x >> 1) ^ -(int64_t)(x & 1);
}

int gf_thrift_field(gf_thrift *t, gf_thrift_struct *s) {
    const int head = take_byte(t);
    if (t->failed || head == 0) return 0;
    s->type = head & 15;
    const int64_t id = head >> 4 ? s->id + (head >> 4) : take_zigzag(t);
    if (s->type == 0 || s->type > GF_THRIFT_STRUCT || id < 0 || id > INT16_MAX) t->failed = 1;
    s->id = t->failed ? 0 : (int)id;
    return !t->failed;
}

int64_t gf_thrift_integer(gf_thrift *t, const gf_thrift_struct *s) {
    switch (s->type) {
    case GF_THRIFT_TRUE: return 1;
    case GF_THRIFT_FALSE: return 0;
    case GF_THRIFT_BYTE: return (int8_t)take_byte(t);
    case GF_THRIFT_I16:
    case GF_THRIFT_I32:
    case GF_THRIFT_I64: return take_zigzag(t);
    default: t->failed = 1; return 0;
    }
}

static const uint8_t *take_bytes(gf_thrift *t, size_t *n) {
    const uint64_t size = take_varint(t);
    const uint8_t *at = t->at;
    *n = 0;
    if (t->failed || size > (uint64_t)(t->end - t->at)) {
        t->failed = 1;
        return t->end;
    }
    t->at += size;
    *n = (size_t)size;
    return at;
}

const uint8_t *gf_thrift_binary(gf_thrift *t, const gf_thrift_struct *s, size_t *n) {
    if (s->type != GF_THRIFT_BINARY) t->failed = 1;
    return take_bytes(t, n);
}

static int64_t take_list(gf_thrift *t, int *type) {
    const int head = take_byte(t);
    const uint64_t count = head >> 4 == 15 ? take_varint(t) : (uint64_t)(head >> 4);
    *type = head & 15;
    if (t->failed || count > (uint64_t)(t->end - t->at)) {
        t->failed = 1;
        return 0;
    }
    return (int64_t)count;
}

int64_t gf_thrift_list(gf_thrift *t, const gf_thrift_struct *s, int type) {
    int found = type;
    if (s->type != GF_THRIFT_LIST) t->failed = 1;
    const int64_t count = take_list(t, &found);
    if (count > 0 && found != type) t->failed = 1;
    return t->failed ? 0 : count;
}

int gf_thrift_enter(gf_thrift *t, const gf_thrift_struct *s) {
    if (s->type != GF_THRIFT_STRUCT) t->failed = 1;
    return !t->failed;
}

static void skip_value(gf_thrift *t, int type, int depth, int element);

static void skip_members(gf_thrift *t, int64_t count, int key, int value, int depth) {
    for (int64_t i = 0; i < count && !t->failed; i++) {
        if (key) skip_value(t, key, depth, 1);
        skip_value(t, value, depth, 1);
    }
}

static void skip_map(gf_thrift *t, int depth) {
    const uint64_t count = take_varint(t);
    const int types = count ? take_byte(t) : 0;
    if (count > (uint64_t)(t->end - t->at)) t->failed = 1;
    if (!t->failed && count) skip_members(t, (int64_t)count, types >> 4, types & 15, depth);
}

/* `element`: of a list or map, where a boolean takes a byte; as a field its type is its value. */
static void skip_value(gf_thrift *t, int type, int depth, int element) {
    size_t n;
    int inner;
    if (depth > DEPTH_MAX) t->failed = 1;
    if (t->failed) return;
    switch (type) {
    case GF_THRIFT_TRUE:
    case GF_THRIFT_FALSE:
        if (element) take_byte(t);
        break;
    case GF_THRIFT_BYTE: take_byte(t); break;
    case GF_THRIFT_I16:
    case GF_THRIFT_I32:
    case GF_THRIFT_I64: take_varint(t); break;
    case GF_THRIFT_DOUBLE:
        if (t->end - t->at < 8) t->failed = 1;
        else t->at += 8;
        break;
    case GF_THRIFT_BINARY: take_bytes(t, &n); break;
    case GF_THRIFT_LIST:
    case GF_THRIFT_SET:
        n = (size_t)take_list(t, &inner);
        skip_members(t, (int64_t)n, 0, inner, depth + 1);
        break;
    case GF_THRIFT_MAP: skip_map(t, depth + 1); break;
    case GF_THRIFT_STRUCT:
        for (gf_thrift_struct s = gf_thrift_begin(t); gf_thrift_field(t, &s);) skip_value(t, s.type, depth + 1, 0);
        break;
    default: t->failed = 1;
    }
}

void gf_thrift_skip(gf_thrift *t, const gf_thrift_struct *s) { skip_value(t, s->type, 0, 0); }
