/* byte_stream.h - the state of a decoder of bytes, and the copy from what it has written: both of Snappy and of LZ4. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct gf_byte_stream {
    const uint8_t *at, *end; /* input that is left */
    uint8_t *out;
    size_t done, n; /* bytes written, of n */
} gf_byte_stream;

/* `length` bytes from `back` before the end of the output, which may reach into themselves. 0: outside of it. */
static inline int gf_byte_stream_copy(gf_byte_stream *s, size_t back, size_t length) {
    if (back == 0 || back > s->done || length > s->n - s->done) return 0;
    uint8_t *to = s->out + s->done;
    const uint8_t *from = to - back;
    s->done += length;
    if (back >= length) memcpy(to, from, length);
    else
        for (size_t i = 0; i < length; i++) to[i] = from[i]; /* the copy repeats what it has just written */
    return 1;
}
