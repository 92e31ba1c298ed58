/* unit_text.c - captions cleaned as ftfy and CLIP do, wrong decoding apart: composed characters (NFC), entities, plain forms;
 * against numbers that tools/generate/make_text_golden.py made with ftfy and Python. */
#include "support/test.h"

#include "support/bpe_golden.h"
#include "text/words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NFC_DIGEST UINT64_C(0x314e85016569a493)

static uint64_t digest(uint64_t sum, uint32_t word) { return (sum ^ word) * UINT64_C(0x100000001b3); }

/* ----- NFC ----- */

static uint64_t digest_nfc(uint64_t sum, const uint32_t *text, int n) {
    uint32_t code[16];
    memcpy(code, text, (size_t)n * sizeof *code);
    const int64_t made = gf_compose(code, n, 16);
    for (int64_t i = 0; i < made; i++) sum = digest(sum, code[i]);
    return digest(sum, 0);
}

/* Blocks in which every character has had its properties for long, so that the version of Unicode does not matter. */
TEST(characters_are_composed_as_python_does) {
    static const uint32_t settled[][2] = {{0x20, 0x250},    {0x300, 0x370},   {0x1100, 0x1200},
                                          {0x1e00, 0x1f00}, {0x3041, 0x3097}, {0xac00, 0xd7a4}};
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t k = 0; k < sizeof settled / sizeof *settled; k++) {
        for (uint32_t c = settled[k][0]; c < settled[k][1]; c++) {
            sum = digest_nfc(sum, &c, 1);
            sum = digest_nfc(sum, (uint32_t[]){'e', c}, 2);
            sum = digest_nfc(sum, (uint32_t[]){c, 0x301}, 2);
            sum = digest_nfc(sum, (uint32_t[]){'a', 0x323, c, 0x302}, 4);
            sum = digest_nfc(sum, (uint32_t[]){0x1100, c}, 2);
        }
    }
    assert_true(sum == NFC_DIGEST);
}

/* e, then n marks: those below before those above, in the order they came; the first one above joins. */
static void check_marks(int n) {
    const size_t room = (size_t)n + 1;
    uint32_t *code = malloc(room * sizeof *code);
    assert_non_null(code);
    code[0] = 'e';
    for (int i = 1; i <= n; i++) code[i] = i % 2 ? 0x301 : 0x316; /* classes 230, 220 */
    assert_int_equal(gf_compose(code, n + 1, room), n);
    assert_int_equal(code[0], 0xe9);
    for (int i = 1; i < n; i++) assert_int_equal(code[i], i <= n / 2 ? 0x316 : 0x301);
    free(code);
}

TEST(many_marks_are_ordered) {
    check_marks(2);
    check_marks(GF_COMPOSE_MAX - 2);
    const int n = 3 * GF_COMPOSE_MAX;
    uint32_t *code = malloc((size_t)n * sizeof *code);
    assert_non_null(code);
    for (int i = 0; i < n; i++) code[i] = i % 2 ? 0x316 : 0x301;
    assert_int_equal(gf_compose(code, n, (size_t)n), n); /* too many: as they were */
    for (int i = 0; i < n; i++) assert_int_equal(code[i], i % 2 ? 0x316 : 0x301);
    free(code);
}

/* ----- captions ----- */

/* The cleaned text as UTF-8, in memory that is exactly as large as promised. */
static char *clean(const char *text, size_t n) {
    uint32_t *code = malloc((n ? n : 1) * sizeof *code);
    uint8_t *out = malloc(4 * n + 1);
    size_t used = 0;
    assert_true(code && out);
    const int64_t count = gf_clean_text((const uint8_t *)text, n, code);
    assert_in_range(count, 0, n);
    for (int64_t i = 0; i < count; i++) used += (size_t)gf_utf8_put(code[i], out + used);
    out[used] = 0;
    free(code);
    return (char *)out;
}

TEST(examples_are_cleaned) {
    static const char *const cases[][2] = {
        {"A Caf\u00e9", "a caf\u00e9"},
        {"cafe\u0301", "caf\u00e9"},
        {"caf\u00c3\u00a9", "caf\u00e3\u00a9"}, /* decoded wrongly: not repaired */
        {"&amp;amp;lt;b", "<b"},
        {"<i>&eacute;</i>", "<i>\u00e9</i>"},
        {"it\u2019s \u201cfine\u201d &rsquo;", "it's \"fine\" '"},
        {"<b>&rsquo;", "<b>\u2019"}, /* as in HTML */
        {"&copy 2020 &notit &frac12;&thinsp;cup &unknown;", "\u00a9 2020 \u00acit \u00bd cup &unknown;"},
        {"&#233;&#xE9&#150;&#0;&#xd800;&#1;x", "\u00e9\u00e9\u2013\ufffd\ufffdx"},
        {"o\ufb03ce \uff26ULL \u0132 \u01c4", "office full ij d\u017e"},
        {"\uff76\uff9e", "\u30ac"},
        {"\u039f\u0394\u039f\u03a3 \u0130", "\u03bf\u03b4\u03bf\u03c2 i\u0307"},
        {"\ufeff a\x01\u2028b\u00a0 \u3000c", "a b c"},
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
    static const char *const parts[] = {"&amp;", "\u0344", "\ufb03", "\u00c3 ", "\xff", "&nbsp", "\u1f82\u0345", "\u01c4", "&"};
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
