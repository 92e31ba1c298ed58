/* unit_json.c - JSON as a tree: values, texts with escapes, and everything that is no JSON. */
#include "support/test.h"

#include "io/json.h"
#include <stdlib.h>
#include <string.h>

static gf_error err;

static gf_json read_all(const char *text) {
    gf_json j = {0};
    if (gf_json_read(&err, "text", text, strlen(text), 4, 0, &j) != GLOFND_OK) fail_msg("%s: %s", text, err.text);
    return j;
}

TEST(values_are_read) {
    gf_json j = read_all(
        " {\"a\": [1, -20 ,0.5,1e9,true,false,null, \"x\"],\n\t\"b\":{\"c\":9223372036854775807}, \"\": {}, \"e\":[]}\r\n");
    static const gf_json_kind kinds[] = {GF_JSON_INTEGER, GF_JSON_INTEGER, GF_JSON_REAL, GF_JSON_REAL,
                                         GF_JSON_TRUE,    GF_JSON_FALSE,   GF_JSON_NULL, GF_JSON_TEXT};
    assert_int_equal(j.node[0].kind, GF_JSON_OBJECT);
    assert_int_equal(j.node[0].count, 4);
    const int64_t a = gf_json_find(&j, 0, "a");
    assert_int_equal(j.node[a].count, 8);
    int i = 0;
    for (int64_t k = j.node[a].first; k >= 0; k = j.node[k].next) assert_int_equal(j.node[k].kind, kinds[i++]);
    assert_int_equal(i, 8);
    assert_int_equal(j.node[j.node[a].first].integer, 1);
    assert_int_equal(j.node[j.node[j.node[a].first].next].integer, -20);
    const int64_t c = gf_json_find(&j, gf_json_find(&j, 0, "b"), "c");
    assert_true(j.node[c].integer == INT64_MAX);
    const int64_t half = j.node[j.node[j.node[a].first].next].next;
    assert_true(j.node[half].real == 0.5 && j.node[j.node[half].next].real == 1e9);
    assert_int_equal(gf_json_find(&j, a, "a"), -1);
    assert_int_equal(gf_json_find(&j, 0, "d"), -1);
    assert_int_equal(j.node[gf_json_find(&j, 0, "")].count, 0);
    gf_json_free(&j);
}

TEST(texts_are_decoded) {
    static const char *const pairs[][2] = {
        {"[\"\"]", ""},
        {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "\"\\/\b\f\n\r\t"},
        {"[\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00z\"]", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"},
        {"[\"\xc3\xa9\xf0\x9f\x98\x80\"]", "\xc3\xa9\xf0\x9f\x98\x80"},
    };
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        gf_json j = read_all(pairs[k][0]);
        assert_string_equal(gf_json_text(&j, j.node[1].text), pairs[k][1]);
        gf_json_free(&j);
    }
}

/* What Python and others write: only where it is asked for. */
TEST(lenient_reading) {
    const char *text = "{\"a\": [NaN, -Infinity, Infinity, 1.5], \"b\": 1, \"b\": \"x\\u0000y\"}";
    gf_json j = {0};
    assert_int_equal(gf_json_read(&err, "text", text, strlen(text), 4, 0, &j), GLOFND_E_FORMAT);
    assert_int_equal(gf_json_read(&err, "text", text, strlen(text), 4, GF_JSON_LENIENT, &j), GLOFND_OK);
    const int64_t nan = j.node[gf_json_find(&j, 0, "a")].first, b = gf_json_find(&j, 0, "b");
    assert_true(j.node[nan].kind == GF_JSON_REAL && j.node[nan].real != j.node[nan].real);
    assert_true(j.node[j.node[nan].next].real < -1e308);
    assert_true(gf_json_is(&j, b, GF_JSON_TEXT) && j.node[b].count == 3);
    assert_memory_equal(gf_json_text(&j, j.node[b].text), "x\0y", 4);
    assert_string_equal(gf_json_find_text(&j, 0, "b"), "x");
    assert_null(gf_json_find_text(&j, 0, "a"));
    gf_json_free(&j);
    static const char *const never[] = {"{\"\\u0000\": 1}", "nan",        "[1e999]", "[[[[[1]]]]]",
                                        "[\"\\ud800\"]",    "[\"\x80\"]", "[1] [2]"};
    for (size_t k = 0; k < sizeof never / sizeof *never; k++)
        assert_int_equal(gf_json_read(&err, "text", never[k], strlen(never[k]), 4, GF_JSON_LENIENT, &j), GLOFND_E_FORMAT);
}

TEST(texts_are_quoted) {
    gf_text out = {0};
    gf_json_quote(&out, "a\"b\\c\n\t\x01/\xc3\xa9\xff");
    assert_string_equal(out.at, "\"a\\\"b\\\\c\\n\\t\\u0001/\xc3\xa9\\ufffd\"");
    gf_text_free(&out);
}

static const char *const wrong[] = {
    "",
    " ",
    "{",
    "[",
    "{}x",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{'a':1}",
    "{\"a\" 1}",
    "[01]",
    "[-]",
    "[1.]",
    "[.5]",
    "[1e]",
    "[1e+]",
    "[+1]",
    "[0x1]",
    "[9223372036854775808]",
    "[1e999]",
    "[nul]",
    "[True]",
    "[NaN]",
    "[\"a]",
    "[\"\\x\"]",
    "[\"\\",
    "[\"\\u12\"]",
    "[\"\\u0000\"]",
    "[\"\\ud83d\"]",
    "[\"\\ud83d\\u0041\"]",
    "[\"\\ude00\"]",
    "[\"a\nb\"]",
    "[\"\x80\"]",
    "[\"\xc0\x80\"]",
    "[\"\xed\xa0\x80\"]",
    "[[[[[1]]]]]",
    "{\"a\":1,\"b\":2,\"a\":3}",
    "{\"\\u0061\":1,\"a\":2}",
    "]",
    "}",
    "[1}",
    "{\"a\":1]",
};

TEST(what_is_no_json_is_refused) {
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        gf_json j = {0};
        char *exact = malloc(strlen(wrong[k]) + 1); /* nothing behind it, for sanitizers */
        strcpy(exact, wrong[k]);
        err.text[0] = 0;
        if (gf_json_read(&err, "text", exact, strlen(exact), 4, 0, &j) != GLOFND_E_FORMAT || !strstr(err.text, "JSON"))
            fail_msg("accepted: %s (%s)", wrong[k], err.text);
        assert_null(j.node);
        free(exact);
    }
    gf_json j = {0}; /* a zero byte inside */
    assert_int_equal(gf_json_read(&err, "text", "[1]\0[2]", 7, 4, 0, &j), GLOFND_E_FORMAT);
}
