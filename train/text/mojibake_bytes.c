/* mojibake_bytes.c - see mojibake_bytes.h. */
#include "text/mojibake_bytes.h"

#include <stddef.h>

#include "text/mojibake_tables.h"
#include "text/unicode.h"

static int continues(uint8_t b) { return (b & 0xc0) == 0x80; }

/* Bytes of a character by its first one, also where no shortest form begins so; 0: none. */
static int length_by_first(uint8_t b) {
    return b >= 0xc2 && b <= 0xdf ? 2 : b >= 0xe0 && b <= 0xef ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
}

/* ----- encoding ----- */

static int byte_of(uint32_t code, int encoding) {
    if (code < 0x80) return encoding >= GF_WINDOWS_FIRST && encoding <= GF_WINDOWS_LAST && code == GF_SUBSTITUTE ? -1 : (int)code;
    if (encoding == GF_LATIN_1) return code < 0x100 ? (int)code : -1;
    const gf_mojibake_row *row = gf_mojibake_find(code);
    return row && row->byte[encoding - GF_WINDOWS_FIRST] ? row->byte[encoding - GF_WINDOWS_FIRST] : -1;
}

static int begins_with(const uint32_t *s, int64_t n, const char *word) {
    for (int64_t k = 0; word[k]; k++) {
        if (k >= n || s[k] != (uint8_t)word[k]) return 0;
    }
    return 1;
}

/* "Ã la carte": byte 0xC3, then a space that was 0xA0 and a space, of which one was dropped. s is behind the space. Not so in
 * "Ã s" and "Ã quele", which are words of Portuguese that begin with à. */
static int is_word_by_itself(const uint32_t *s, int64_t n) {
    static const char *const others[] = {" ", "quele", "quela", "quilo", "s "};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        if (begins_with(s, n, others[k])) return 0;
    }
    return 1;
}

static int is_likely_rest(uint8_t b) { return continues(b) && b != 0x85 && b != 0xa0; }

/* Length of a character at b that would be one, were its one space byte 0xA0; 0: none. Only characters that are likely. */
static int altered_length(const uint8_t *b, int64_t n) {
    static const uint8_t pairs[] = {0xc2, 0xc3, 0xc5, 0xce, 0xd0, 0xd9};
    int spaces = 0;
    for (size_t k = 0; n >= 2 && b[1] == ' ' && k < sizeof pairs; k++) {
        if (b[0] == pairs[k]) return 2;
    }
    if (n >= 3 && (b[0] == 0xe2 || b[0] == 0xe3) && b[1] == ' ' && is_likely_rest(b[2])) return 3;
    if (n >= 3 && b[0] >= 0xe0 && b[0] <= 0xe3 && is_likely_rest(b[1]) && b[2] == ' ') return 3;
    if (n < 4 || b[0] != 0xf0) return 0;
    for (int k = 1; k < 4; k++) {
        if (b[k] != ' ' && !continues(b[k])) return 0;
        spaces += b[k] == ' ';
    }
    return spaces == 1 ? 4 : 0;
}

static void restore_spaces(uint8_t *b, int64_t n) {
    for (int64_t i = 0; i < n;) {
        const int length = altered_length(b + i, n - i);
        for (int k = 0; k < length; k++) b[i + k] = b[i + k] == ' ' ? 0xa0 : b[i + k];
        i += length ? length : 1;
    }
}

/* ----- bytes that were lost ----- */

static int is_lost(uint8_t b) { return b == GF_SUBSTITUTE || b == '?'; }

/* A surrogate pair of six bytes: ed a0..af xx ed b0..bf xx. */
static int is_pair(const uint8_t *b, int64_t n) {
    return n >= 6 && b[0] == 0xed && (b[1] & 0xf0) == 0xa0 && b[3] == 0xed && (b[4] & 0xf0) == 0xb0;
}

/* Length of a character at b of which bytes were lost: instead of them stands GF_SUBSTITUTE, or once a question mark (after a
 * first byte of two, only where that is common). 0: none. */
static int lossy_length(const uint8_t *b, int64_t n) {
    const int pair = is_pair(b, n) && (continues(b[2]) || is_lost(b[2])) && (continues(b[5]) || is_lost(b[5]));
    if (pair && (is_lost(b[2]) || is_lost(b[5]))) return 6;
    const int length = length_by_first(b[0]);
    int lost = 0, asked = 0;
    for (int k = 1; k < length; k++) {
        if (k >= n || !(continues(b[k]) || is_lost(b[k]))) return 0;
        lost += is_lost(b[k]);
        asked += b[k] == '?';
    }
    return lost == 0 || asked > 1 || (asked && length == 2 && b[0] > 0xc3) ? 0 : length;
}

static int64_t merge_lost(uint8_t *b, int64_t n) {
    int64_t out = 0;
    for (int64_t i = 0; i < n;) {
        const int length = lossy_length(b + i, n - i);
        b[out++] = length ? GF_SUBSTITUTE : b[i];
        i += length ? length : 1;
    }
    return out;
}

int64_t gf_mojibake_encode(const uint32_t *s, int64_t n, int encoding, uint8_t *bytes) {
    int64_t out = 0;
    for (int64_t i = 0; i < n; i++) {
        const int b = byte_of(s[i], encoding);
        if (b < 0) return -1;
        bytes[out++] = (uint8_t)b;
        if (b == 0xc3 && encoding != GF_MAC_ROMAN && i + 1 < n && s[i + 1] == ' ' && is_word_by_itself(s + i + 2, n - i - 2))
            bytes[out++] = 0xa0;
    }
    if (encoding != GF_MAC_ROMAN) restore_spaces(bytes, out);
    return encoding >= GF_WINDOWS_FIRST && encoding <= GF_WINDOWS_LAST ? merge_lost(bytes, out) : out;
}

/* ----- decoding ----- */

/* Returns 0 where the bytes are no character. */
static int decode_one(const uint8_t **at, const uint8_t *end, int lost, uint32_t *code) {
    const uint8_t *b = *at;
    const int64_t n = end - b;
    if (lost && b[0] == GF_SUBSTITUTE) {
        *code = GF_UNICODE_BAD;
        *at += 1;
    } else if (n >= 2 && b[0] == 0xc0 && b[1] == 0x80) {
        *code = 0;
        *at += 2;
    } else if (is_pair(b, n) && continues(b[2]) && continues(b[5])) {
        *code = 0x10000 + ((b[1] & 0xfu) << 16 | (b[2] & 0x3fu) << 10 | (b[4] & 0xfu) << 6 | (b[5] & 0x3fu));
        *at += 6;
    } else {
        *code = gf_utf8_next(at, end);
        return *code != GF_UNICODE_BAD || (*at - b == 3 && b[0] == 0xef && b[1] == 0xbf && b[2] == 0xbd);
    }
    return 1;
}

int64_t gf_mojibake_decode(const uint8_t *bytes, int64_t n, int lost, uint32_t *s, int *changed) {
    const uint8_t *at = bytes, *const end = bytes + n;
    uint32_t code;
    while (at < end) {
        if (!decode_one(&at, end, lost, &code)) return -1;
    }
    int64_t out = 0;
    for (at = bytes, *changed = 0; at < end; out++) {
        decode_one(&at, end, lost, &code);
        *changed |= s[out] != code;
        s[out] = code;
    }
    return out;
}
