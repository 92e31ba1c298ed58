/* thrift.h - reader of Thrift's compact protocol, as far as Parquet needs it. Bytes are hostile.
 *
 *     for (gf_thrift_struct s = gf_thrift_begin(&t); gf_thrift_field(&t, &s);)
 *         if (s.id == 3) rows = gf_thrift_integer(&t, &s);
 *         else gf_thrift_skip(&t, &s);
 * A failure sticks: from then on numbers are 0, structs and lists have no more members. Every field must be read or skipped.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct gf_thrift {
    const uint8_t *start, *at, *end;
    int failed;
} gf_thrift;

enum { GF_THRIFT_TRUE = 1, GF_THRIFT_FALSE, GF_THRIFT_BYTE, GF_THRIFT_I16, GF_THRIFT_I32, GF_THRIFT_I64, GF_THRIFT_DOUBLE };
enum { GF_THRIFT_BINARY = 8, GF_THRIFT_LIST, GF_THRIFT_SET, GF_THRIFT_MAP, GF_THRIFT_STRUCT };

typedef struct gf_thrift_struct { /* the current field of a struct */
    int id, type;
} gf_thrift_struct;

static inline gf_thrift gf_thrift_of(const uint8_t *bytes, size_t n) {
    return (gf_thrift){.start = bytes, .at = bytes, .end = bytes + n};
}

static inline gf_thrift_struct gf_thrift_begin(const gf_thrift *t) {
    (void)t;
    return (gf_thrift_struct){0, 0};
}

/* The next field; 0 at the end of the struct. */
int gf_thrift_field(gf_thrift *t, gf_thrift_struct *s);
/* Any integer or boolean field. */
int64_t gf_thrift_integer(gf_thrift *t, const gf_thrift_struct *s);
/* Bytes of a text or binary field, inside the input. */
const uint8_t *gf_thrift_binary(gf_thrift *t, const gf_thrift_struct *s, size_t *n);
/* Number of elements of a list field, all of type `type`; each takes at least one byte of what is left. */
int64_t gf_thrift_list(gf_thrift *t, const gf_thrift_struct *s, int type);
/* 1 if the field is a struct, whose fields follow. */
int gf_thrift_enter(gf_thrift *t, const gf_thrift_struct *s);
void gf_thrift_skip(gf_thrift *t, const gf_thrift_struct *s);
