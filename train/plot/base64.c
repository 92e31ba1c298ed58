/* base64.c - see base64.h. */
#include "plot/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* n <= 3 bytes as four characters. */
static void put_group(const unsigned char *b, size_t n, char *to) {
    const unsigned bits = (unsigned)b[0] << 16 | (n > 1 ? (unsigned)b[1] << 8 : 0) | (n > 2 ? b[2] : 0);
    to[0] = letters[bits >> 18];
    to[1] = letters[bits >> 12 & 63];
    to[2] = n > 1 ? letters[bits >> 6 & 63] : '=';
    to[3] = n > 2 ? letters[bits & 63] : '=';
}

void gf_text_base64(gf_text *out, const void *bytes, size_t n) {
    enum { PIECE = 3 * 1024 };
    const unsigned char *b = bytes;
    for (size_t done = 0; done < n; done += PIECE) {
        char piece[GF_BASE64_BYTES(PIECE) + 1];
        const size_t end = n - done < PIECE ? n - done : PIECE;
        size_t used = 0;
        for (size_t i = 0; i < end; i += 3, used += 4) put_group(b + done + i, end - i < 3 ? end - i : 3, piece + used);
        piece[used] = 0;
        gf_text_add(out, "%s", piece);
    }
}
