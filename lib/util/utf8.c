/* utf8.c - see utf8.h. */
#include "util/utf8.h"

#include <string.h>

size_t gf_utf8_bytes(const unsigned char *p) {
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } kinds[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t k = 0; k < 4; k++) {
        if ((p[0] & kinds[k].mask) != kinds[k].lead) continue;
        unsigned code = p[0] & (unsigned char)~kinds[k].mask;
        for (size_t i = 1; i <= k; i++) {
            if ((p[i] & 0xc0) != 0x80) return 0; /* also the 0 at the end, so nothing is read beyond it */
            code = code << 6 | (p[i] & 0x3f);
        }
        return code < kinds[k].least || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? 0 : k + 1;
    }
    return 0;
}

void gf_utf8_clean(char *text, char instead) {
    for (unsigned char *p = (unsigned char *)text; *p;) {
        const size_t n = gf_utf8_bytes(p);
        const int bad = n == 0 || *p < 0x20 || *p == 0x7f || (n == 2 && *p == 0xc2 && p[1] < 0xa0);
        if (bad) memset(p, instead, n ? n : 1);
        p += n ? n : 1;
    }
}

void gf_utf8_trim(char *text) {
    const size_t n = strlen(text);
    size_t lead = n;
    while (lead > 0 && n - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80) lead--;
    if (lead > 0 && (unsigned char)text[lead - 1] >= 0xc0 && !gf_utf8_bytes((const unsigned char *)text + lead - 1))
        text[lead - 1] = 0;
}
