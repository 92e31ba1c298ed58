/* escape.c - see escape.h. */
#include "util/escape.h"

#include <string.h>

#include "util/utf8.h"

/* n: bytes of the character, 0: broken. */
static int is_control(const unsigned char *p, size_t n) {
    return *p < 0x20 || *p == 0x7f || (n == 2 && *p == 0xc2 && p[1] < 0xa0);
}

int gf_is_not_a_line(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const size_t n = gf_utf8_bytes(p);
        if (n == 0 || is_control(p, n)) return 1;
        p += n;
    }
    return 0;
}

static size_t letter_of(unsigned char c) { return c == '\\' ? '\\' : c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : 0; }

size_t gf_escape_next(const char **text, int broken_only, char out[GF_ESCAPED_BYTES]) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)*text;
    const size_t n = gf_utf8_bytes(p), taken = n ? n : 1, letter = broken_only ? 0 : letter_of(*p);
    *text += taken;
    if (letter) {
        out[0] = '\\', out[1] = (char)letter;
        return 2;
    }
    if (n && (broken_only || !is_control(p, n))) {
        memcpy(out, p, n);
        return n;
    }
    for (size_t k = 0; k < taken; k++) {
        char *to = out + 4 * k;
        to[0] = '\\', to[1] = 'x', to[2] = hex[p[k] >> 4], to[3] = hex[p[k] & 15];
    }
    return 4 * taken;
}

static int digit_of(char c) {
    static const char hex[] = "0123456789abcdef";
    const char *at = c ? strchr(hex, c) : NULL;
    return at ? (int)(at - hex) : -1;
}

int gf_unescape(char *text) {
    static const char letters[] = "\\ntr", values[] = "\\\n\t\r";
    char *to = text;
    for (const char *p = text; *p;) {
        const char *letter = *p == '\\' && p[1] ? strchr(letters, p[1]) : NULL;
        if (*p != '\\') *to++ = *p++;
        else if (letter) *to++ = values[letter - letters], p += 2;
        else {
            const int high = p[1] == 'x' ? digit_of(p[2]) : -1, low = high >= 0 ? digit_of(p[3]) : -1;
            if (low < 0 || high * 16 + low == 0) return 0;
            *to++ = (char)(high * 16 + low), p += 4;
        }
    }
    *to = 0;
    return 1;
}
