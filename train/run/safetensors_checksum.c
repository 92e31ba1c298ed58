/* safetensors_checksum.c - see safetensors_checksum.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "run/safetensors_checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/checksum.h"

static const char mark[] = "\"" GF_ST_CHECKSUM "\":\"";

/* Bytes in words of 8, wherever the pieces end. */
typedef struct sum {
    uint64_t h;
    unsigned char rest[8];
    size_t n;
} sum;

static void add(sum *s, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n > 0 && s->n > 0 && s->n < 8; n--) s->rest[s->n++] = *p++;
    if (s->n == 8) s->h = gf_checksum(s->h, s->rest, 8), s->n = 0;
    const size_t words = s->n ? 0 : n & ~(size_t)7;
    s->h = gf_checksum(s->h, p, words);
    for (p += words, n -= words; n > 0; n--) s->rest[s->n++] = *p++;
}

static uint64_t value_of(const sum *s) { return gf_checksum(s->h, s->rest, s->n); }

/* Place of the digits; NULL: no such text. */
static char *place_of(char *header, size_t length) {
    char *at = memmem(header, length, mark, strlen(mark));
    if (!at) return NULL;
    at += strlen(mark);
    if ((size_t)(header + length - at) <= GF_CHECKSUM_DIGITS) return NULL;
    return strspn(at, "0123456789abcdef") == GF_CHECKSUM_DIGITS && at[GF_CHECKSUM_DIGITS] == '"' ? at : NULL;
}

static size_t bytes_of(const gf_st_tensor *t) {
    size_t n = gf_st_type_bytes(t->type);
    for (int k = 0; k < t->rank; k++) n *= (size_t)t->shape[k];
    return n;
}

void gf_st_put_checksum(char *header, uint64_t length, const gf_st_tensor *tensors, int64_t count) {
    const size_t n = strlen(header);
    char *at = place_of(header, n), digits[GF_CHECKSUM_DIGITS + 1];
    unsigned char prefix[8];
    sum s = {.h = GF_CHECKSUM_START};
    if (!at) return;
    gf_le64_put(prefix, length);
    add(&s, prefix, sizeof prefix);
    add(&s, header, n);
    for (uint64_t k = n; k < length; k++) add(&s, " ", 1);
    for (int64_t i = 0; i < count; i++) add(&s, tensors[i].data, bytes_of(&tensors[i]));
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)value_of(&s));
    memcpy(at, digits, GF_CHECKSUM_DIGITS);
}

/* The rest of the file after its header. */
static glofnd_status add_data(gf_reader *r, sum *s) {
    unsigned char part[1 << 14];
    while (r->status == GLOFND_OK && gf_reader_left(r) > 0) {
        const size_t n = gf_reader_left(r) < sizeof part ? (size_t)gf_reader_left(r) : sizeof part;
        gf_get(r, part, n);
        add(s, part, n);
    }
    return r->status;
}

static glofnd_status compare(gf_error *err, gf_reader *r, char *header, size_t length, int *has) {
    sum s = {.h = GF_CHECKSUM_START};
    char stored[GF_CHECKSUM_DIGITS + 1] = "", found[GF_CHECKSUM_DIGITS + 1];
    unsigned char prefix[8];
    gf_get(r, header, length);
    TRY(r->status);
    char *at = place_of(header, length);
    *has = at != NULL;
    if (!at) return GLOFND_OK;
    memcpy(stored, at, GF_CHECKSUM_DIGITS);
    memcpy(at, GF_ST_NO_CHECKSUM, GF_CHECKSUM_DIGITS);
    gf_le64_put(prefix, length);
    add(&s, prefix, sizeof prefix);
    add(&s, header, length);
    TRY(add_data(r, &s));
    snprintf(found, sizeof found, "%016llx", (unsigned long long)value_of(&s));
    FAIL_IF(err, strcmp(stored, found) != 0, GLOFND_E_FORMAT,
            "%.300s is corrupt: its bytes have the checksum %s, and its header states %s; restore it from a copy", r->path, found,
            stored);
    return GLOFND_OK;
}

glofnd_status gf_st_check(gf_error *err, const gf_st_file *f, int *has) {
    gf_reader r;
    *has = 0;
    if (!gf_st_find_text(f, GF_ST_CHECKSUM)) return GLOFND_OK;
    TRY(gf_reader_open(err, &r, f->path));
    const uint64_t length = gf_get_u64(&r);
    char *header =
        r.status == GLOFND_OK && length <= GF_ST_MAX_HEADER && length <= gf_reader_left(&r) ? malloc(length + 1) : NULL;
    glofnd_status status = header ? GLOFND_OK : gf_fail(err, GLOFND_E_FORMAT, "%.300s was changed while it was read", f->path);
    if (header) header[length] = 0;
    if (status == GLOFND_OK) status = compare(err, &r, header, (size_t)length, has);
    free(header);
    gf_reader_close(&r);
    return status;
}
