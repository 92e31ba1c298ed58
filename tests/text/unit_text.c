/* unit_text.c - captions cleaned as ftfy and CLIP do: the repair of wrongly decoded text, composed characters (NFC), entities;
 * against numbers that tools/generate/make_text_golden.py made with ftfy and Python. */
#include "support/test.h"

#include "support/bpe_golden.h"
#include "text/bpe_clean.h"
#include "text/mojibake_rules.h"
#include "text/unicode.h"
#include "text/unicode_nfc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NFC_DIGEST UINT64_C(0x21d21e66d1dbbdd7)
#define SUSPECTED_DIGEST UINT64_C(0xfa83273af31b8b9e)

static uint64_t digest(uint64_t sum, uint32_t word) { return (sum ^ word) * UINT64_C(0x100000001b3); }

#define DIGEST_START UINT64_C(0xcbf29ce484222325)

/* ----- NFC ----- */

static uint64_t digest_nfc(uint64_t sum, const uint32_t *text, int n) {
    uint32_t code[16];
    int changed = 0;
    memcpy(code, text, (size_t)n * sizeof *code);
    const int64_t made = gf_unicode_nfc(code, n, 16, &changed);
    assert_int_equal(changed, made != n || memcmp(code, text, (size_t)n * sizeof *code) != 0);
    for (int64_t i = 0; i < made; i++) sum = digest(sum, code[i]);
    return digest(sum, 0);
}

TEST(every_character_is_composed_as_python_does) {
    uint64_t sum = DIGEST_START;
    for (uint32_t c = 0x20; c < 0x30000; c++) {
        if (c >= 0xd800 && c <= 0xdfff) continue;
        sum = digest_nfc(sum, &c, 1);
        sum = digest_nfc(sum, (uint32_t[]){'e', c}, 2);
        sum = digest_nfc(sum, (uint32_t[]){c, 0x301}, 2);
        sum = digest_nfc(sum, (uint32_t[]){'a', 0x323, c, 0x302}, 4);
        sum = digest_nfc(sum, (uint32_t[]){0x1100, c}, 2);
    }
    assert_true(sum == NFC_DIGEST);
}

/* e, then n marks: those below before those above, in the order they came; the first one above joins. */
static void check_marks(int n) {
    const size_t room = (size_t)n + 1;
    uint32_t *code = malloc(room * sizeof *code);
    int changed = 0;
    assert_non_null(code);
    code[0] = 'e';
    for (int i = 1; i <= n; i++) code[i] = i % 2 ? 0x301 : 0x316; /* classes 230, 220 */
    assert_int_equal(gf_unicode_nfc(code, n + 1, room, &changed), n);
    assert_true(changed && code[0] == 0xe9);
    for (int i = 1; i < n; i++) assert_int_equal(code[i], i <= n / 2 ? 0x316 : 0x301);
    free(code);
}

TEST(many_marks_are_ordered) {
    check_marks(2);
    check_marks(GF_NFC_MAX - 2);
    const int n = 3 * GF_NFC_MAX;
    uint32_t *code = malloc((size_t)n * sizeof *code);
    int changed = 0;
    assert_non_null(code);
    for (int i = 0; i < n; i++) code[i] = i % 2 ? 0x316 : 0x301;
    assert_int_equal(gf_unicode_nfc(code, n, (size_t)n, &changed), n); /* too many: as they were */
    assert_false(changed);
    for (int i = 0; i < n; i++) assert_int_equal(code[i], i % 2 ? 0x316 : 0x301);
    free(code);
}

/* ----- what looks wrong ----- */

TEST(what_looks_wrong_is_what_ftfy_thinks) {
    static const uint32_t seconds[] = {0x20, 0x61,  0x80,  0xa0,  0xa9,  0xb0,   0xb2,   0xc3,   0xe9,
                                       0xf3, 0x17e, 0x192, 0x3b1, 0x402, 0x2019, 0x20ac, 0x2122, 0x2550};
    uint64_t sum = DIGEST_START;
    for (uint32_t a = 0x20; a < 0x2600; a++) {
        for (size_t k = 0; k < sizeof seconds / sizeof *seconds; k++) {
            const uint32_t b = seconds[k], text[] = {'a', a, b, a};
            sum = digest(sum, (uint32_t)gf_mojibake_suspected(text + 1, 2));
            sum = digest(sum, (uint32_t)gf_mojibake_suspected(text + 2, 2));
            sum = digest(sum, (uint32_t)gf_mojibake_suspected(text, 3));
            sum = digest(sum, (uint32_t)gf_mojibake_suspected(text + 1, 3));
        }
    }
    assert_true(sum == SUSPECTED_DIGEST);
}

/* ----- captions ----- */

/* The cleaned text as UTF-8, in memory that is exactly as large as promised. */
static char *clean(const char *text, size_t n) {
    uint32_t *code = malloc((n ? n : 1) * sizeof *code);
    uint8_t *scratch = malloc(n + n / 2 + 1), *out = malloc(4 * n + 1);
    size_t used = 0;
    assert_true(code && scratch && out);
    const int64_t count = gf_clean_text((const uint8_t *)text, n, code, scratch);
    assert_in_range(count, 0, n);
    for (int64_t i = 0; i < count; i++) used += (size_t)gf_utf8_put(code[i], out + used);
    out[used] = 0;
    free(code);
    free(scratch);
    return (char *)out;
}

TEST(examples_are_cleaned) {
    static const char *const cases[][2] = {
        {"A Caf\u00c3\u00a9", "a caf\u00e9"},
        {"caf\u00e9", "caf\u00e9"}, /* nothing wrong */
        {"cafe\u0301", "caf\u00e9"},
        {"\u00c3\u0192\u00c2\u00a9t\u00c3\u0192\u00c2\u00a9", "\u00e9t\u00e9"}, /* twice */
        {"voil\u00c3 le travail", "voil\u00e0 le travail"},                     /* byte a0 became a space */
        {"\u00e2\u20ac\u0153like this\u00e2\u20ac\ufffd", "\"like this\ufffd"}, /* a byte was lost */
        {"\u0441\u043b\u043e\u0432\u043e caf\u00c3\u00a9", "\u0441\u043b\u043e\u0432\u043e caf\u00e9"}, /* only a part */
        {"\u00f0\u0178\u02dc\u20ac", "\U0001f600"},
        {"\u00ed\u00a0\u00bd\u00ed\u00b8\xc2\x80", "\U0001f600"}, /* as a surrogate pair */
        {"\x1b[1;31mred\x1b[0m dog", "red dog"},
        {"&ATILDE;&SUP3; &SZLIG; &LTDOT;", "\u00f3 ss <dot;"},
        {"&amp;amp;amp;lt;b", "<b"},
        {"<i>&eacute;</i>", "<i>\u00e9</i>"},
        {"\uff76\uff9e", "\u30ac"},
        {"", ""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char *text = clean(cases[k][0], strlen(cases[k][0]));
        assert_string_equal(text, cases[k][1]);
        free(text);
    }
}

/* Every line of tests/fixtures/bpe/clean.tsv, or of the file that GLOFND_TEXT_GOLDEN names. */
TEST(captions_are_cleaned_as_by_the_reference) {
    const char *path = getenv("GLOFND_TEXT_GOLDEN");
    FILE *f = fopen(path ? path : bpe_golden_path("clean.tsv"), "r");
    char *line = NULL;
    size_t room = 0;
    int lines = 0, differ = 0;
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        char *tab = strchr(line, '\t'), *want = tab + 1;
        assert_non_null(tab);
        bpe_golden_from_hex(want, strcspn(want, "\n"));
        const size_t n = bpe_golden_from_hex(line, (size_t)(tab - line));
        char *have = clean(line, n);
        lines++;
        if (strcmp(have, want) != 0 && ++differ <= 5) print_message("line %d: '%s', not '%s'\n", lines, have, want);
        free(have);
    }
    fclose(f);
    free(line);
    if (path) print_message("%d captions, %d differ\n", lines, differ);
    assert_true(lines > 0);
    assert_int_equal(differ, 0);
}

/* Texts that take the most of a step: they end, and soon. */
TEST(hostile_texts_end) {
    static const char *const parts[] = {"&amp;",          "\u00c3\u0192\u00c2\u0192",
                                        "\u0344",         "\ufb03",
                                        "\x1b[;1",        "\u00c3 ",
                                        "\xff",           "&nGt;",
                                        "\u00e2\u20ac\n", "\u1f82\u0345"};
    const size_t size = (size_t)1 << 18;
    char *text = malloc(size + 16);
    assert_non_null(text);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        size_t n = 0;
        while (n < size) n += (size_t)sprintf(text + n, "%s", parts[k]);
        free(clean(text, n));
    }
    free(text);
}
