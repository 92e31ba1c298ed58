/* unit_print.c - text from outside is shown, not obeyed; everything else prints as printf prints it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "util/print.h"
#include "util/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char printed[20000];

static const char *end_print(FILE *f) {
    fflush(f);
    const long n = ftell(f);
    rewind(f);
    assert_in_range(n, 0, sizeof printed - 1);
    printed[fread(printed, 1, (size_t)n, f)] = 0;
    fclose(f);
    return printed;
}

#define PRINTED(...) (file = tmpfile(), gf_print(file, __VA_ARGS__), end_print(file))

TEST(foreign_text_is_shown) {
    FILE *file;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"", ""},
        {"\x1b[2J", "\\x1b[2J"},
        {"a\nglofnd: all fine\r\t", "a\\nglofnd: all fine\\r\\t"},
        {"\x01\x7f", "\\x01\\x7f"},
        {"\xc2\x9b"
         "31m",
         "\\u009b31m"}, /* C1: CSI */
        {"\x9b"
         "31m\xff",
         "\\x9b31m\\xff"},                                     /* no UTF-8 */
        {"\xc0\x8a\xed\xa0\x80", "\\xc0\\x8a\\xed\\xa0\\x80"}, /* overlong, surrogate */
        {"\xe2\x80\xaegpj.exe", "\\u202egpj.exe"},             /* right to left */
        {"\xe2\x81\xa6x\xe2\x80\xa8", "\\u2066x\\u2028"},
        {"\xef\xbb\xbf", "\\ufeff"},
        {"Katze \xf0\x9f\x90\x88 \xc3\xa4\xe6\xbc\xa2", "Katze \xf0\x9f\x90\x88 \xc3\xa4\xe6\xbc\xa2"},
        {"\xe6\xbc", "\\xe6\\xbc"},
        {"back\\slash %s %n", "back\\slash %s %n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char shown[200];
        assert_string_equal(PRINTED("%s", cases[i][0]), cases[i][1]);
        gf_show_text(cases[i][0], shown, sizeof shown);
        assert_string_equal(shown, cases[i][1]);
    }
    assert_string_equal(PRINTED("\r\033[K%s\n", "own\033"), "\r\033[Kown\\x1b\n"); /* formats are own text */
    assert_string_equal(PRINTED("%c%c", 'a', '\n'), "a\\n");
    file = tmpfile();
    gf_print_lines(file, "one\ntwo \033[2J\ttabs\n");
    assert_string_equal(end_print(file), "one\ntwo \\x1b[2J\\ttabs\n");
}

#define AS_PRINTF(...)                                       \
    do {                                                     \
        char expected[2000];                                 \
        snprintf(expected, sizeof expected, __VA_ARGS__);    \
        assert_string_equal(PRINTED(__VA_ARGS__), expected); \
    } while (0)

TEST(numbers_are_as_printf_has_them) {
    FILE *file;
    AS_PRINTF("%d %i %5d|%-5d|%05d %+d", -3, 7, 42, 42, 42, 42);
    AS_PRINTF("%lld %ld %zu %zd %u %llu", -9223372036854775807ll - 1, -5l, (size_t)-1, (ptrdiff_t)-2, 4000000000u, ~0ull);
    AS_PRINTF("%x %X %#x %o %08llx", 255u, 255u, 255u, 8u, 0x12345678abull);
    AS_PRINTF("%f %.0f %.2f %8.2f|%-8.1f| %g %.4g %e %.1e %5.1f %%", 1.5, 2.5, 3.14159, 2.0, 1.0, 0.1, 12345.678, 1e-9, 2e10,
              99.95);
    AS_PRINTF("%*d|%-*d|%.*f|%*s|%-*s|", 6, 1, 6, 2, 3, 0.5, 5, "ab", -4, "c");
    AS_PRINTF("%s|%10s|%-10s|%.3s|%.*s|%5.1s|", "text", "text", "text", "text", 2, "text", "text");
    AS_PRINTF("%.0s%d", "nothing", 1);
    AS_PRINTF("%s", "");
    AS_PRINTF("100 %%");
}

TEST(a_limit_cuts_between_characters) {
    FILE *file;
    const char unterminated[3] = {'a', '\xc3', '\xa4'}; /* no 0 behind it */
    assert_string_equal(PRINTED("%.2s|", "a\xc3\xa4"), "a|");
    assert_string_equal(PRINTED("%.3s|", "a\xc3\xa4"), "a\xc3\xa4|");
    assert_string_equal(PRINTED("%.*s|", 3, unterminated), "a\xc3\xa4|");
    assert_string_equal(PRINTED("%.*s|", 2, unterminated), "a|");
    assert_string_equal(PRINTED("%-3s|%3s|", "\xc3\xa4", "\xc3\xa4"), "\xc3\xa4  |  \xc3\xa4|");
    char shown[6];
    gf_show_text("abc\033", shown, sizeof shown); /* \x1b does not fit */
    assert_string_equal(shown, "abc");
}

TEST(long_texts_are_whole) {
    FILE *file;
    char text[6001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    text[3000] = '\033';
    PRINTED("<%s>\n", text);
    assert_int_equal(strlen(printed), 6000 + 3 + 3);
    assert_int_equal(printed[6005], '\n');
}

/* Whatever the bytes: what is printed is UTF-8 without control characters. */
TEST(all_bytes_give_clean_text) {
    FILE *file;
    char text[257];
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < 256; i++) text[i] = (char)(1 + (seed = seed * 1103515245u + 12345u) / 65536u % 255u);
        text[256] = 0;
        const unsigned char *p = (const unsigned char *)PRINTED("%.*s", 1 + round % 256, text);
        for (size_t n; *p; p += n) {
            n = gf_utf8_bytes(p);
            assert_true(n > 0 && *p >= 0x20 && *p != 0x7f);
            assert_false(*p == 0xc2 && p[1] < 0xa0);
        }
    }
}
