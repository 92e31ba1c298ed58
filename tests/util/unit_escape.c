/* unit_escape.c - texts of any bytes as cells of a table, and back. */
#include "support/test.h"

#include "support/random.h"
#include "util/text.h"
#include <string.h>

enum { LONGEST = 24 };

static void escape(const char *text, int broken_only, char *out) {
    while (*text) out += gf_escape_next(&text, broken_only, out);
    *out = 0;
}

static void expect(const char *text, const char *cell) {
    char out[4 * LONGEST + GF_ESCAPED_BYTES];
    escape(text, 0, out);
    assert_string_equal(out, cell);
    assert_true(gf_unescape(out));
    assert_string_equal(out, text);
}

TEST(known_texts) {
    expect("a b.png", "a b.png");
    expect("C:\\x\ty\r\n", "C:\\\\x\\ty\\r\\n");
    expect("\x1b[0m\x7f", "\\x1b[0m\\x7f");
    expect("\xc2\x85", "\\xc2\\x85");        /* a control character of two bytes */
    expect("\xc3\xa9\xff", "\xc3\xa9\\xff"); /* a letter, and a byte that begins none */
    expect("\xe2\x82", "\\xe2\\x82");        /* a character that ends too early */
}

/* Random bytes, most of them of the kinds that matter: what comes out is one line, and comes back. */
TEST(random_texts) {
    static const char some[] = "\\\\nxtr\n\t\r\x01\x7f\xc2\x85\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xff";
    rng g = {7};
    for (int round = 0; round < 20000; round++) {
        char text[LONGEST + 1], out[4 * LONGEST + GF_ESCAPED_BYTES];
        const size_t n = (size_t)rng_below(&g, LONGEST);
        for (size_t k = 0; k < n; k++) text[k] = some[rng_below(&g, sizeof some - 1)];
        text[n] = 0;
        escape(text, 0, out);
        assert_false(gf_is_not_a_line(out));
        assert_true(gf_unescape(out));
        assert_string_equal(out, text);
        escape(text, 1, out);
        if (!gf_is_not_a_line(text)) assert_string_equal(out, text);
    }
}

TEST(wrong_escapes_are_refused) {
    static const char *const wrong[] = {"\\", "a\\", "\\q", "\\x", "\\x1", "\\xg1", "\\x1G", "\\x00"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        char text[8];
        memcpy(text, wrong[k], strlen(wrong[k]) + 1);
        assert_false(gf_unescape(text));
    }
}
