/* snappy.c - see snappy.h.
 *
 * An element begins with a tag. Its lower two bits are the kind. 0: a literal of (tag >> 2) + 1 bytes; above 60 the length, less
 * one, is in the next 1 to 4 bytes. 1, 2, 3: a copy from an offset of 11, 16 or 32 bits back, which may reach into its output.
 */
#include "io/snappy.h"

#include "io/byte_stream.h"

static int take_little(gf_byte_stream *s, int bytes, size_t *x) {
    if (s->end - s->at < bytes) return 0;
    *x = 0;
    for (int i = 0; i < bytes; i++) *x |= (size_t)s->at[i] << 8 * i;
    s->at += bytes;
    return 1;
}

static int take_size(gf_byte_stream *s, uint64_t *x) {
    *x = 0;
    for (int shift = 0; shift < 35 && s->at < s->end; shift += 7) {
        const uint8_t byte = *s->at++;
        *x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static int literal(gf_byte_stream *s, int tag) {
    size_t length = (size_t)(tag >> 2);
    if (length >= 60 && !take_little(s, (int)length - 59, &length)) return 0;
    length++;
    if (length > (size_t)(s->end - s->at) || length > s->n - s->done) return 0;
    memcpy(s->out + s->done, s->at, length);
    s->at += length;
    s->done += length;
    return 1;
}

static int copy(gf_byte_stream *s, int tag) {
    const int kind = tag & 3;
    size_t length = (size_t)(tag >> 2) + 1, back;
    if (!take_little(s, kind == 1 ? 1 : kind == 2 ? 2 : 4, &back)) return 0;
    if (kind == 1) length = (size_t)(tag >> 2 & 7) + 4, back |= (size_t)(tag >> 5) << 8;
    return gf_byte_stream_copy(s, back, length);
}

int gf_snappy_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n) {
    gf_byte_stream s = {.at = in, .end = in + bytes, .out = out, .n = n};
    uint64_t stated;
    if (!take_size(&s, &stated) || stated != n) return 0;
    while (s.at < s.end) {
        const int tag = *s.at++;
        if (!(tag & 3 ? copy(&s, tag) : literal(&s, tag))) return 0;
    }
    return s.done == n;
}
