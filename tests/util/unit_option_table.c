/* unit_option_table.c - the option machinery of util/strings/option_table.h, on a small table of its own. */
#include "support/test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "util/option_table.h"

#define assert_says(text, part)                                                      \
    do {                                                                             \
        if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part); \
    } while (0)

typedef struct config {
    int32_t count, even, flag;
    int64_t big;
    double share, rate;
    int mood;
    int32_t late; /* at the end: a field that older structs lack */
} config;

static const char *const moods[] = {"calm", "brisk", NULL};
#define FIELD(name) .key = #name, .offset = offsetof(config, name), .group = "g", .help = "h"
static const gf_option rows[] = {
    {FIELD(count), .type = GF_OPTION_INT, .preset = "3", .min = 1, .max = INT32_MAX},
    {FIELD(even), .type = GF_OPTION_INT, .preset = "0", .min = 4, .max = 8, .multiple = 2, .flags = GF_OPTION_OR_ZERO},
    {FIELD(flag), .type = GF_OPTION_BOOL, .preset = "1"},
    {FIELD(big), .type = GF_OPTION_INT64, .preset = "-5", .min = -9007199254740991.0, .max = 9007199254740991.0},
    {FIELD(share), .type = GF_OPTION_DOUBLE, .preset = "0.5", .min = 0, .max = 1, .flags = GF_OPTION_BELOW_MAX},
    {FIELD(rate), .type = GF_OPTION_DOUBLE, .preset = "1", .min = 0, .max = DBL_MAX, .flags = GF_OPTION_ABOVE_MIN},
    {FIELD(mood), .type = GF_OPTION_ENUM, .preset = "brisk", .names = moods},
    {FIELD(late), .type = GF_OPTION_INT, .preset = "7", .min = 0, .max = 9},
};
static const gf_option_table table = {rows, sizeof rows / sizeof rows[0]};

static config preset(void) {
    config c;
    memset(&c, 0, sizeof c);
    assert_int_equal(gf_options_preset(NULL, &table, &c, sizeof c), GLOFND_OK);
    return c;
}

TEST(presets_fill_every_field) {
    const config c = preset();
    assert_int_equal(c.count, 3);
    assert_int_equal(c.even, 0);
    assert_int_equal(c.flag, 1);
    assert_true(c.big == -5);
    assert_true(c.share == 0.5 && c.rate == 1);
    assert_int_equal(c.mood, 1);
    assert_int_equal(c.late, 7);
    assert_int_equal(gf_options_check(NULL, &table, &c, sizeof c), GLOFND_OK);
}

TEST(a_wrong_preset_is_reported) {
    static const gf_option wrong[] = {{FIELD(count), .type = GF_OPTION_INT, .preset = "0", .min = 1, .max = 2}};
    static const gf_option_table bad = {wrong, 1};
    config c;
    gf_error err;
    assert_int_equal(gf_options_preset(&err, &bad, &c, sizeof c), GLOFND_E_OPTION);
    assert_says(err.text, "count");
}

TEST(good_text_is_read) {
    config c = preset();
    static const char *const pairs[][2] = {{"count", "2147483647"}, {"even", "6"},
                                           {"flag", "off"},         {"big", "9007199254740991"},
                                           {"share", "-0"},         {"rate", "1e-300"},
                                           {"mood", "calm"},        {"late", "+9"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        gf_error err = {""};
        if (gf_option_set(&err, &table, &c, sizeof c, pairs[i][0], pairs[i][1]) != GLOFND_OK) fail_msg("%s", err.text);
    }
    assert_int_equal(c.count, INT32_MAX);
    assert_int_equal(c.even, 6);
    assert_int_equal(c.flag, 0);
    assert_true(c.big == 9007199254740991);
    assert_true(c.share == 0 && c.rate == 1e-300);
    assert_int_equal(c.mood, 0);
    assert_int_equal(c.late, 9);
}

TEST(bad_text_changes_nothing) {
    static const char *const pairs[][2] = {{"count", "0"},
                                           {"count", "2147483648"},
                                           {"count", "99999999999999999999"},
                                           {"count", "3x"},
                                           {"count", ""},
                                           {"count", " 3"},
                                           {"count", "3 "},
                                           {"count", "1e3"},
                                           {"count", "0x10"},
                                           {"even", "2"},
                                           {"even", "5"},
                                           {"even", "10"},
                                           {"even", "-0x"},
                                           {"flag", "2"},
                                           {"flag", "TRUE"},
                                           {"big", "9007199254740992"},
                                           {"big", "9223372036854775807"},
                                           {"share", "1"},
                                           {"share", "-1e-9"},
                                           {"share", "nan"},
                                           {"share", "inf"},
                                           {"share", "1e999"},
                                           {"share", "1e-999"},
                                           {"share", "0,5"},
                                           {"share", "0.5.5"},
                                           {"share", "half"},
                                           {"rate", "0"},
                                           {"rate", "-inf"},
                                           {"mood", "Calm"},
                                           {"mood", "calm "},
                                           {"mood", "0"},
                                           {"mood", "cal"},
                                           {"nothing", "1"},
                                           {"", "1"},
                                           {"COUNT", "1"}};
    const config before = preset();
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        config c = before;
        gf_error err = {""};
        const glofnd_status status = gf_option_set(&err, &table, &c, sizeof c, pairs[i][0], pairs[i][1]);
        if (status != GLOFND_E_OPTION) fail_msg("%s = \"%s\" gave status %d", pairs[i][0], pairs[i][1], status);
        assert_memory_equal(&c, &before, sizeof c);
        assert_says(err.text, pairs[i][0]);
    }
}

TEST(messages_name_key_value_and_range) {
    config c = preset();
    gf_error err;
    gf_option_set(&err, &table, &c, sizeof c, "share", "2");
    assert_string_equal(err.text, "share: \"2\" is out of range; expected a number in [0, 1)");
    gf_option_set(&err, &table, &c, sizeof c, "count", "x");
    assert_string_equal(err.text, "count: \"x\" is not an integer; expected an integer in [1, 2147483647]");
    gf_option_set(&err, &table, &c, sizeof c, "even", "5");
    assert_string_equal(err.text, "even: \"5\" is not such a multiple; expected 0, or a multiple of 2 in [4, 8]");
    gf_option_set(&err, &table, &c, sizeof c, "mood", "angry");
    assert_string_equal(err.text, "mood: \"angry\" is not one of the names; expected one of calm|brisk");
    gf_option_set(&err, &table, &c, sizeof c, "flag", "maybe");
    assert_string_equal(err.text, "flag: \"maybe\" is neither yes nor no; expected 0 or 1");
    gf_option_set(&err, &table, &c, sizeof c, "shrae", "2");
    assert_string_equal(err.text, "unknown option \"shrae\"; the nearest known one is share (a number in [0, 1))");
}

TEST(hostile_text_is_cut_and_cleaned) {
    char text[5000];
    memset(text, 'a', sizeof text);
    text[0] = '\033';
    text[sizeof text - 1] = 0;
    config c = preset();
    gf_error err;
    assert_int_equal(gf_option_set(&err, &table, &c, sizeof c, text, "1"), GLOFND_E_OPTION);
    assert_null(strchr(err.text, '\033'));
    assert_says(err.text, "?aaa");
    assert_says(err.text, "aaa...");
    assert_says(err.text, "no known one is like it");
    assert_int_equal(gf_option_set(&err, &table, &c, sizeof c, "mood", text), GLOFND_E_OPTION);
    assert_says(err.text, "expected one of calm|brisk");
}

TEST(the_nearest_key_has_the_fewest_typing_errors) {
    static const char *const pairs[][2] = {{"cuont", "count"}, {"counts", "count"}, {"coun", "count"},
                                           {"eevn", "even"},   {"flog", "flag"},    {"Big", "big"},
                                           {"arte", "rate"},   {"modo", "mood"},    {"latte", "late"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_string_equal(gf_option_nearest(&table, sizeof(config), pairs[i][0])->key, pairs[i][1]);
    }
    static const gf_option two[] = {{.key = "taxa", .type = GF_OPTION_INT}, {.key = "tau", .type = GF_OPTION_INT}};
    const gf_option_table close = {two, 2};
    assert_string_equal(gf_option_nearest(&close, sizeof(config), "tua")->key, "tau"); /* swapping neighbours is one error */
    const gf_option_table empty = {rows, 0};
    assert_null(gf_option_nearest(&empty, sizeof(config), "count"));
    static const gf_option twins[] = {{.key = "ab", .type = GF_OPTION_BOOL},
                                      {.key = "ad", .type = GF_OPTION_BOOL},
                                      {.key = "abcdef", .type = GF_OPTION_BOOL},
                                      {.key = "badxxf", .type = GF_OPTION_BOOL}};
    const gf_option_table tie = {twins, 4};
    assert_string_equal(gf_option_nearest(&tie, sizeof(config), "ac")->key, "ab"); /* of equals the first */
    assert_string_equal(gf_option_nearest(&tie, sizeof(config), "bacdef")->key, "abcdef");
    assert_string_equal(gf_option_nearest(&tie, sizeof(config), "badcef")->key, "abcdef"); /* two swaps before two letters */
}

TEST(a_smaller_struct_lacks_the_late_options) {
    const size_t old = offsetof(config, late);
    config c = preset();
    gf_error err;
    c.late = 12345; /* beyond the end of the old struct: must be neither read nor written */
    assert_int_equal(gf_options_check(&err, &table, &c, old), GLOFND_OK);
    assert_int_equal(gf_options_preset(&err, &table, &c, old), GLOFND_OK);
    assert_int_equal(gf_option_set(&err, &table, &c, old, "late", "1"), GLOFND_E_OPTION);
    assert_says(err.text, "unknown option \"late\"");
    assert_null(gf_option_find(&table, old, "late"));
    assert_string_not_equal(gf_option_nearest(&table, old, "late")->key, "late");
    assert_int_equal(c.late, 12345);
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    assert_null(gf_option_find(&table, old + 3, "late")); /* half a field is no field */
}

TEST(check_finds_bad_fields) {
    gf_error err;
    config c = preset();
    c.share = NAN;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    assert_string_equal(err.text, "share: \"nan\" is not a finite number; expected a number in [0, 1)");
    c = preset();
    c.rate = INFINITY;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    c = preset();
    c.mood = 2;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    assert_string_equal(err.text, "mood: \"2\" is out of range; expected one of calm|brisk");
    c.mood = -1;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    c = preset();
    c.flag = 2;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    c = preset();
    c.even = 7;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
    c = preset();
    c.big = INT64_MAX;
    assert_int_equal(gf_options_check(&err, &table, &c, sizeof c), GLOFND_E_OPTION);
}

static const gf_option *row(const char *key) { return gf_option_find(&table, sizeof(config), key); }

TEST(formatted_values_read_back_to_the_same_bits) {
    static const double values[] = {0.1, 1.0 / 3, 0.05, 1e22, 123456789.123456789, DBL_MAX, DBL_MIN};
    char text[64];
    config c = preset(), back = preset();
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        c.rate = values[i];
        gf_option_format(row("rate"), &c, text, sizeof text);
        assert_int_equal(gf_option_set(NULL, &table, &back, sizeof back, "rate", text), GLOFND_OK);
        assert_memory_equal(&back.rate, &c.rate, sizeof c.rate);
    }
    c.rate = 0.1;
    assert_int_equal(gf_option_format(row("rate"), &c, text, sizeof text), 3);
    assert_string_equal(text, "0.1");
    gf_option_format(row("mood"), &c, text, sizeof text);
    assert_string_equal(text, "brisk");
    gf_option_format(row("big"), &c, text, sizeof text);
    assert_string_equal(text, "-5");
    assert_int_equal(gf_option_format(row("mood"), &c, text, 3), 5); /* cut, as snprintf */
    assert_string_equal(text, "br");
}

TEST(ranges_survive_small_buffers) {
    char whole[100];
    for (int i = 0; i < table.count; i++) {
        const int length = gf_option_range(&rows[i], whole, sizeof whole);
        assert_int_equal(length, strlen(whole));
        for (int bytes = 1; bytes <= length; bytes++) {
            char part[100];
            memset(part, 'x', sizeof part);
            assert_int_equal(gf_option_range(&rows[i], part, (size_t)bytes), length);
            assert_int_equal(strlen(part), bytes - 1);
            assert_memory_equal(part, whole, bytes - 1);
            assert_int_equal(part[bytes], 'x');
        }
    }
}

TEST(the_locale_of_the_program_does_not_matter) {
    static const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    int found = 0;
    for (int i = 0; i < 4 && !found; i++) found = setlocale(LC_NUMERIC, comma[i]) != NULL;
    if (!found) skip(); /* no locale with a decimal comma on this machine */
    config c = preset();
    char text[64];
    assert_int_equal(gf_option_set(NULL, &table, &c, sizeof c, "share", "0.25"), GLOFND_OK);
    assert_int_equal(gf_option_set(NULL, &table, &c, sizeof c, "share", "0,25"), GLOFND_E_OPTION);
    gf_option_format(row("share"), &c, text, sizeof text);
    assert_string_equal(text, "0.25");
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5"); /* and the program keeps its own */
    setlocale(LC_NUMERIC, "C");
}

TEST(texts_fit_their_field_and_a_line) {
    struct texts {
        int32_t before;
        char name[8];
        int32_t after;
    } t = {.before = 5, .after = 6};
    static const gf_option row = {
        .key = "name", .offset = offsetof(struct texts, name), .type = GF_OPTION_TEXT, .max = 8, .preset = ""};
    static const gf_option_table one = {&row, 1};
    static const char *const bad[] = {"12345678", "a\nb", "a\r", " a", "a ", "\ta"};
    char text[16];
    gf_error err = {""};
    assert_int_equal(gf_option_set(NULL, &one, &t, sizeof t, "name", "1234567"), GLOFND_OK);
    assert_string_equal(t.name, "1234567");
    assert_int_equal(gf_option_set(NULL, &one, &t, sizeof t, "name", "a b"), GLOFND_OK);
    assert_string_equal(t.name, "a b");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gf_option_set(&err, &one, &t, sizeof t, "name", bad[i]), GLOFND_E_OPTION);
        assert_says(err.text, "at most 7 bytes");
        assert_string_equal(t.name, "a b");
    }
    gf_option_format(&row, &t, text, sizeof text);
    assert_string_equal(text, "a b");
    assert_int_equal(gf_option_set(NULL, &one, &t, sizeof t, "name", ""), GLOFND_OK);
    assert_string_equal(t.name, "");
    assert_true(t.before == 5 && t.after == 6);
}

TEST(strings_are_borrowed_and_lists_grow) {
    struct words {
        const char *one;
        gf_option_strings many;
        int32_t after;
    } w = {.after = 6};
    static const gf_option two[] = {
        {.key = "one", .offset = offsetof(struct words, one), .type = GF_OPTION_STRING, .preset = "usual"},
        {.key = "many", .offset = offsetof(struct words, many), .type = GF_OPTION_STRINGS}};
    static const gf_option_table both = {two, 2};
    static const char text[] = " a\nb ";
    gf_error err = {""};
    assert_int_equal(gf_options_preset(&err, &both, &w, sizeof w), GLOFND_OK);
    assert_string_equal(w.one, "usual");
    assert_int_equal(w.many.count, 0);
    assert_int_equal(gf_option_set(&err, &both, &w, sizeof w, "one", text), GLOFND_OK);
    assert_ptr_equal(w.one, text);
    for (int i = 0; i < GF_OPTION_STRINGS_MAX; i++)
        assert_int_equal(gf_option_set(&err, &both, &w, sizeof w, "many", i ? "" : text), GLOFND_OK);
    assert_ptr_equal(w.many.at[0], text);
    assert_int_equal(gf_option_set(&err, &both, &w, sizeof w, "many", "x"), GLOFND_E_OPTION);
    assert_string_equal(err.text, "many: given more than 64 times");
    assert_int_equal(w.many.count, GF_OPTION_STRINGS_MAX);
    assert_int_equal(w.after, 6);
}

TEST(without_a_preset_a_field_keeps_its_value) {
    static const gf_option one = {FIELD(count), .type = GF_OPTION_INT, .min = 1, .max = 9};
    static const gf_option_table none = {&one, 1};
    config c = {.count = 0};
    assert_int_equal(gf_options_preset(NULL, &none, &c, sizeof c), GLOFND_OK);
    assert_int_equal(c.count, 0);
    assert_int_equal(gf_option_set(NULL, &none, &c, sizeof c, "count", "0"), GLOFND_E_OPTION);
}

TEST(integers_are_written_with_an_exponent_only_where_allowed) {
    static const gf_option one = {FIELD(big), .type = GF_OPTION_INT64, .max = 1e15, .flags = GF_OPTION_EXPONENT};
    static const gf_option_table large = {&one, 1};
    static const char *const bad[] = {"1.5", "1e16", "1e300", "-1e0", "1e", "e5", "nan", "inf", "1e7x", " 1e7"};
    config c = {.big = 0};
    assert_int_equal(gf_option_set(NULL, &large, &c, sizeof c, "big", "1e7"), GLOFND_OK);
    assert_true(c.big == 10000000);
    assert_int_equal(gf_option_set(NULL, &large, &c, sizeof c, "big", "2.5e2"), GLOFND_OK);
    assert_true(c.big == 250);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gf_option_set(NULL, &large, &c, sizeof c, "big", bad[i]), GLOFND_E_OPTION);
    assert_true(c.big == 250);
}
