/* lz4.c - see lz4.h.
 *
 * A sequence is a token, literals, then a copy: the offset in 2 bytes, at least 4 bytes long. The upper half of the token is the
 * number of literals, the lower half the length of the copy less 4; 15 means that bytes follow which are added, as long as they
 * are 255. The last sequence has no copy.
 */
#include "io/lz4.h"

#include "io/byte_stream.h"

enum { SHORTEST = 4 };

/* nibble: of the token. */
static int take_length(gf_byte_stream *s, size_t nibble, size_t *length) {
    *length = nibble;
    for (int more = nibble == 15; more;) {
        if (s->at == s->end) return 0;
        more = *s->at == 255;
        *length += *s->at++;
        if (*length > s->n) return 0;
    }
    return 1;
}

static int copy(gf_byte_stream *s, size_t nibble) {
    size_t length;
    if (s->end - s->at < 2) return 0;
    const size_t back = (size_t)s->at[0] | (size_t)s->at[1] << 8;
    s->at += 2;
    if (!take_length(s, nibble, &length)) return 0;
    length += SHORTEST;
    return gf_byte_stream_copy(s, back, length);
}

int gf_lz4_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n) {
    gf_byte_stream s = {.at = in, .end = in + bytes, .out = out, .n = n};
    while (s.at < s.end) {
        const size_t token = *s.at++;
        size_t literals;
        if (!take_length(&s, token >> 4, &literals)) return 0;
        if (literals > (size_t)(s.end - s.at) || literals > s.n - s.done) return 0;
        if (literals) memcpy(s.out + s.done, s.at, literals);
        s.at += literals;
        s.done += literals;
        if (s.at == s.end) return s.done == n; /* the last sequence */
        if (!copy(&s, token & 15)) return 0;
    }
    return 0; /* a copy is never the end */
}
