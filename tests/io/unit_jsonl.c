/* unit_jsonl.c - JSON lines: the bytes of a line, numbers that come back, hostile lines, cutting and continuing, a full disk. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "io/jsonl.h"
#include "support/random.h"
#include "support/scratch.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void file_is(const char *text) {
    char got[1 << 14];
    FILE *f = fopen(path_of("a"), "rb");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    assert_string_equal(got, text);
}

static void write_bytes(const char *text, size_t n) {
    FILE *f = fopen(path_of("a"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void open_log(gf_jsonl *j, int64_t keep) {
    gf_error err = {""};
    if (gf_jsonl_open(&err, j, path_of("a"), keep) != GLOFND_OK) fail_msg("%s", err.text);
}

static void put_line(gf_jsonl *j, int64_t step) {
    gf_jsonl_begin(j);
    gf_jsonl_integer(j, "step", step);
    assert_int_equal(gf_jsonl_end(j), GLOFND_OK);
}

/* ----- writing --------------------------------------------------------------------------------------------------- */

TEST(writes_lines) {
    gf_jsonl j;
    const double list[] = {1, 0.5, (double)NAN};
    open_log(&j, 0);
    gf_jsonl_begin(&j);
    gf_jsonl_integer(&j, "step", -9223372036854775807 - 1);
    gf_jsonl_number(&j, "loss", 0.1);
    gf_jsonl_number(&j, "whole", 3.0);
    gf_jsonl_number(&j, "tiny", -5e-324);
    gf_jsonl_flag(&j, "yes", 7);
    gf_jsonl_flag(&j, "no", 0);
    gf_jsonl_text(&j, "text", "plain");
    gf_jsonl_text(&j, "nothing", NULL);
    gf_jsonl_numbers(&j, "list", list, 3);
    gf_jsonl_numbers(&j, "empty", list, 0);
    assert_int_equal(gf_jsonl_end(&j), GLOFND_OK);
    gf_jsonl_begin(&j);
    assert_int_equal(gf_jsonl_end(&j), GLOFND_OK);
    const uint64_t offset = gf_jsonl_offset(&j);
    assert_int_equal(gf_jsonl_close(&j), GLOFND_OK);
    static const char expected[] =
        "{\"step\": -9223372036854775808, \"loss\": 0.1, \"whole\": 3.0, \"tiny\": -4.94065645841247e-324, \"yes\": true, "
        "\"no\": false, \"text\": \"plain\", \"nothing\": null, \"list\": [1.0, 0.5, null], \"empty\": []}\n{}\n";
    file_is(expected);
    assert_int_equal(offset, sizeof expected - 1);
    assert_int_equal(gf_jsonl_close(&j), GLOFND_OK);
    assert_int_equal(gf_jsonl_close(NULL), GLOFND_OK);
    unlink(path_of("a"));
}

TEST(what_is_not_finite_is_null) {
    gf_jsonl j;
    open_log(&j, 0);
    gf_jsonl_begin(&j);
    gf_jsonl_number(&j, "a", (double)NAN);
    gf_jsonl_number(&j, "b", (double)INFINITY);
    gf_jsonl_number(&j, "c", -(double)INFINITY);
    gf_jsonl_end(&j);
    gf_jsonl_close(&j);
    file_is("{\"a\": null, \"b\": null, \"c\": null}\n");
    unlink(path_of("a"));
}

TEST(text_is_escaped_and_made_valid) {
    gf_jsonl j;
    open_log(&j, 0);
    gf_jsonl_begin(&j);
    gf_jsonl_text(&j, "a\"\\\n", "\t\x01\x7f/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    gf_jsonl_text(&j, "cut", "\xe2\x82");                           /* ends within a character */
    gf_jsonl_text(&j, "long", "\xc0\xaf|\xe0\x80\xaf");             /* longer than needed */
    gf_jsonl_text(&j, "odd", "\xed\xa0\x80|\xf4\x90\x80\x80|\xff"); /* a surrogate, beyond the end, no start */
    gf_jsonl_end(&j);
    gf_jsonl_close(&j);
#define BAD "\\ufffd"
    file_is("{\"a\\\"\\\\\\u000a\": \"\\u0009\\u0001\\u007f/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\", \"cut\": \"" BAD BAD "\", "
            "\"long\": \"" BAD BAD "|" BAD BAD BAD "\", \"odd\": \"" BAD BAD BAD "|" BAD BAD BAD BAD "|" BAD "\"}\n");
    unlink(path_of("a"));
}

TEST(unfinished_line_is_never_written) {
    gf_jsonl j;
    open_log(&j, 0);
    put_line(&j, 1);
    gf_jsonl_begin(&j);
    gf_jsonl_integer(&j, "dropped", 1);
    put_line(&j, 2);
    gf_jsonl_begin(&j);
    gf_jsonl_integer(&j, "dropped", 2);
    assert_int_equal(gf_jsonl_flush(&j), GLOFND_OK);
    file_is("{\"step\": 1}\n{\"step\": 2}\n");
    gf_jsonl_integer(&j, "kept", 3); /* a flush does not disturb the line in the making */
    gf_jsonl_end(&j);
    gf_jsonl_begin(&j);
    gf_jsonl_close(&j);
    file_is("{\"step\": 1}\n{\"step\": 2}\n{\"dropped\": 2, \"kept\": 3}\n");
    unlink(path_of("a"));
}

/* ----- there and back -------------------------------------------------------------------------------------------- */

static double any_double(rng *g) {
    const uint64_t bits = rng_next(g);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TEST(numbers_come_back_as_they_were) {
    enum { LINES = 20000 };
    gf_jsonl j;
    gf_error err = {""};
    rng g = {1}, again = {1};
    open_log(&j, 0);
    for (int64_t i = 0; i < LINES; i++) {
        gf_jsonl_begin(&j);
        gf_jsonl_integer(&j, "i", i);
        gf_jsonl_number(&j, "x", any_double(&g));
        gf_jsonl_number(&j, "y", i % 2 ? DBL_MAX : -0.0);
        assert_int_equal(gf_jsonl_end(&j), GLOFND_OK);
    }
    assert_int_equal(gf_jsonl_close(&j), GLOFND_OK);
    gf_jsonl_reader r;
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_OK);
    int64_t lines = 0, i = -1;
    for (; gf_jsonl_next(&r); lines++) {
        double x = -1, y = -1;
        const double expected = any_double(&again);
        assert_int_equal(gf_jsonl_get_integer(&r, "i", &i), 1);
        assert_int_equal(i, lines);
        assert_int_equal(gf_jsonl_get(&r, "x", &x), 1);
        assert_true(isfinite(expected) ? memcmp(&x, &expected, sizeof x) == 0 : isnan(x));
        assert_int_equal(gf_jsonl_get(&r, "y", &y), 1);
        assert_true(lines % 2 ? y == DBL_MAX : y == 0 && signbit(y));
    }
    assert_int_equal(r.status, GLOFND_OK);
    assert_int_equal(r.cut, 0);
    assert_int_equal(lines, LINES);
    gf_jsonl_read_close(&r);
    unlink(path_of("a"));
}

/* Where the system has a locale with a decimal comma. */
TEST(locale_does_not_matter) {
    const char *known[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0] && !found; i++) found = setlocale(LC_NUMERIC, known[i]);
    if (!found) skip();
    gf_jsonl j;
    open_log(&j, 0);
    gf_jsonl_begin(&j);
    gf_jsonl_number(&j, "x", 0.1);
    gf_jsonl_end(&j);
    gf_jsonl_close(&j);
    setlocale(LC_NUMERIC, "C");
    file_is("{\"x\": 0.1}\n");
    unlink(path_of("a"));
}

TEST(reader_reports_types) {
    static const char line[] = "{\"n\": 1.5, \"i\": 7, \"t\": true, \"f\": false, \"z\": null, \"s\": \"a\\u00e9\", "
                               "\"a\": [1, null, \"x\", 2.5], \"o\": {}}\n";
    gf_jsonl_reader r;
    gf_error err = {""};
    double x = 42;
    int64_t i = 42;
    write_bytes(line, sizeof line - 1);
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_OK);
    assert_int_equal(gf_jsonl_next(&r), 1);
    assert_int_equal(gf_jsonl_get(&r, "missing", &x) | gf_jsonl_get(&r, "s", &x) | gf_jsonl_get(&r, "a", &x), 0);
    assert_int_equal(gf_jsonl_get(&r, "o", &x), 0);
    assert_int_equal(gf_jsonl_get_integer(&r, "n", &i) | gf_jsonl_get_integer(&r, "missing", &i), 0);
    assert_true(x == 42 && i == 42);
    assert_true(gf_jsonl_get(&r, "n", &x) && x == 1.5);
    assert_true(gf_jsonl_get(&r, "i", &x) && x == 7);
    assert_true(gf_jsonl_get(&r, "t", &x) && x == 1);
    assert_true(gf_jsonl_get(&r, "f", &x) && x == 0);
    assert_true(gf_jsonl_get(&r, "z", &x) && isnan(x));
    assert_string_equal(gf_jsonl_get_text(&r, "s"), "a\xc3\xa9");
    assert_null(gf_jsonl_get_text(&r, "n"));
    assert_null(gf_jsonl_get_text(&r, "missing"));
    assert_int_equal(gf_jsonl_next(&r), 0);
    assert_int_equal(gf_jsonl_next(&r), 0);
    assert_int_equal(r.status, GLOFND_OK);
    gf_jsonl_read_close(&r);
    gf_jsonl_read_close(&r);
    gf_jsonl_read_close(NULL);
    unlink(path_of("a"));
}

/* ----- hostile lines --------------------------------------------------------------------------------------------- */

/* The second line of three is bad: the first is given, then the failure names the second, and it stays a failure. */
static void refused_line(const char *bad, size_t n, const char *word) {
    gf_jsonl_reader r;
    gf_error err = {""};
    char *text = malloc(n + 32);
    assert_non_null(text);
    memcpy(text, "{\"a\": 1}\n", 9);
    memcpy(text + 9, bad, n);
    memcpy(text + 9 + n, "\n{\"a\": 3}\n", 10);
    write_bytes(text, n + 19);
    free(text);
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_OK);
    assert_int_equal(gf_jsonl_next(&r), 1);
    assert_int_equal(gf_jsonl_next(&r), 0);
    if (r.status != GLOFND_E_FORMAT || !strstr(err.text, "line 2") || !strstr(err.text, word))
        fail_msg("status %d, '%s'; expected line 2 and '%s'", r.status, err.text, word);
    double x = 42;
    assert_int_equal(gf_jsonl_get(&r, "a", &x), 0);
    assert_int_equal(gf_jsonl_next(&r), 0);
    gf_jsonl_read_close(&r);
    unlink(path_of("a"));
}

static void note_field(void *user, const char *key, const char *value) {
    char *to = user;
    const size_t used = strlen(to);
    snprintf(to + used, 1000 - used, "%s=%s;", key, value);
}

/* Every field as text, by rising key; lists without an order. */
TEST(fields_can_be_walked_through) {
    static const char *const names[] = {"b \"q\"", "a\n"};
    const double list[] = {1.0, 0.25, (double)NAN};
    gf_jsonl j;
    gf_jsonl_reader r;
    gf_error err = {""};
    char seen[1000] = "";
    open_log(&j, 0);
    gf_jsonl_begin(&j);
    gf_jsonl_texts(&j, "texts", names, 2);
    gf_jsonl_texts(&j, "empty", names, 0);
    gf_jsonl_numbers(&j, "numbers", list, 3);
    gf_jsonl_integer(&j, "large", INT64_MAX);
    gf_jsonl_number(&j, "x", 0.1 + 0.2);
    gf_jsonl_text(&j, "word", "w");
    gf_jsonl_text(&j, "no", NULL);
    gf_jsonl_flag(&j, "yes", 1);
    assert_int_equal(gf_jsonl_end(&j), GLOFND_OK);
    assert_int_equal(gf_jsonl_close(&j), GLOFND_OK);
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_OK);
    assert_true(gf_jsonl_next(&r));
    assert_true(gf_jsonl_each(&r, note_field, seen));
    gf_jsonl_read_close(&r);
    assert_string_equal(seen, "empty=;large=9223372036854775807;no=null;numbers=0.25, 1, null;texts=a\\n, b \\\"q\\\";word=w;"
                              "x=0.3;yes=true;");
    write_bytes("{\"deep\": [[2, 1], {\"b\": [2, 1], \"a\": 1}]}\n", 42);
    seen[0] = 0;
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_OK);
    assert_true(gf_jsonl_next(&r));
    assert_true(gf_jsonl_each(&r, note_field, seen));
    gf_jsonl_read_close(&r);
    assert_string_equal(seen, "deep=1, 2, {\"a\":1,\"b\":[2,1]};");
}

TEST(hostile_lines_are_refused) {
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "{\"a\": }",
                                      "[1]",
                                      "1",
                                      "null",
                                      "{\"a\": 1} x",
                                      "{\"a\": 1}{\"a\": 2}",
                                      "{'a': 1}",
                                      "{\"a\": 1, \"a\": 2}",
                                      "{\"a\": NaN}",
                                      "{\"a\": 1e999}",
                                      "{\"a\": 99999999999999999999}",
                                      "{\"a\": \"\xff\"}",
                                      "{\"a\": \"\\u0000\"}",
                                      "{\"a\": \"\x01\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) refused_line(bad[i], strlen(bad[i]), "not a JSON object");
    refused_line("{\"a\": 1\0}", 9, "not a JSON object");
    const size_t big = GF_JSONL_MAX_LINE + 1;
    char *line = malloc(big);
    assert_non_null(line);
    memset(line, '[', big);
    refused_line(line, big, "longer");
    refused_line(line, big - 1, "not a JSON object"); /* nested a million deep */
    free(line);
}

/* A last line without its newline is being written, or was torn: not an error. */
TEST(unfinished_last_line_is_left_out) {
    gf_jsonl_reader r;
    gf_error err = {""};
    write_bytes("{\"a\": 1}\n{\"a\": 2}", 17);
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_OK);
    assert_int_equal(gf_jsonl_next(&r), 1);
    assert_int_equal(gf_jsonl_next(&r), 0);
    assert_int_equal(r.status, GLOFND_OK);
    assert_int_equal(r.cut, 1);
    gf_jsonl_read_close(&r);
    unlink(path_of("a"));
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of("a")), GLOFND_E_IO);
    assert_int_equal(gf_jsonl_read_open(&err, &r, box.folder), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "regular"));
    gf_jsonl_read_close(&r);
}

/* ----- continuing -------------------------------------------------------------------------------------------------- */

TEST(continues_at_given_offset) {
    gf_jsonl j;
    open_log(&j, 0);
    put_line(&j, 1);
    put_line(&j, 2);
    assert_int_equal(gf_jsonl_sync(&j), GLOFND_OK);
    const int64_t checkpoint = (int64_t)gf_jsonl_offset(&j);
    file_is("{\"step\": 1}\n{\"step\": 2}\n");
    put_line(&j, 3);
    gf_jsonl_close(&j);
    open_log(&j, checkpoint);
    put_line(&j, 33);
    gf_jsonl_close(&j);
    file_is("{\"step\": 1}\n{\"step\": 2}\n{\"step\": 33}\n");
    open_log(&j, GF_LOG_ALL);
    put_line(&j, 4);
    gf_jsonl_close(&j);
    file_is("{\"step\": 1}\n{\"step\": 2}\n{\"step\": 33}\n{\"step\": 4}\n");
    open_log(&j, 0);
    gf_jsonl_close(&j);
    file_is("");
    unlink(path_of("a"));
}

TEST(torn_line_is_cut) {
    gf_jsonl j;
    char text[9000];
    write_bytes("{\"step\": 1}\n{\"st", 16);
    open_log(&j, GF_LOG_ALL);
    put_line(&j, 2);
    gf_jsonl_close(&j);
    file_is("{\"step\": 1}\n{\"step\": 2}\n");
    write_bytes("{\"step\": 1", 10);
    open_log(&j, GF_LOG_ALL);
    gf_jsonl_close(&j);
    file_is("");
    memset(text, 'x', sizeof text); /* the newline lies some blocks before the end */
    for (int at = 0; at < (int)sizeof text; at += 97) {
        text[at] = '\n';
        write_bytes(text, sizeof text);
        open_log(&j, GF_LOG_ALL);
        assert_int_equal(gf_jsonl_offset(&j), at + 1);
        gf_jsonl_close(&j);
        text[at] = 'x';
    }
    unlink(path_of("a"));
}

static void cannot_open(int64_t keep, glofnd_status status, const char *word) {
    gf_error err = {""};
    gf_jsonl j;
    const glofnd_status got = gf_jsonl_open(&err, &j, path_of("a"), keep);
    if (got != status || !strstr(err.text, word)) fail_msg("status %d, '%s'; expected %d, '%s'", got, err.text, status, word);
    assert_int_equal(gf_jsonl_close(&j), GLOFND_OK);
}

TEST(places_that_are_no_line_end_are_refused) {
    static const char text[] = "{\"step\": 1}\n{\"step\": 2}\n";
    write_bytes(text, sizeof text - 1);
    for (int64_t keep = 1; keep < 24; keep++)
        if (keep != 12) cannot_open(keep, GLOFND_E_FORMAT, "no line ends there");
    cannot_open(25, GLOFND_E_FORMAT, "at least 25");
    cannot_open(INT64_MAX, GLOFND_E_FORMAT, "at least");
    cannot_open(-2, GLOFND_E_ARGUMENT, "kept");
    file_is(text);
    unlink(path_of("a"));
    cannot_open(12, GLOFND_E_IO, "No such file");
    assert_int_equal(access(path_of("a"), F_OK), -1);
    assert_int_equal(mkfifo(path_of("a"), 0600), 0);
    cannot_open(0, GLOFND_E_IO, "regular");
    unlink(path_of("a"));
}

/* ----- a full disk ----------------------------------------------------------------------------------------------- */

TEST(full_disk_leaves_whole_lines) {
    gf_jsonl j;
    gf_error err = {""};
    struct rlimit old, tight;
    assert_int_equal(gf_jsonl_open(&err, &j, path_of("a"), 0), GLOFND_OK);
    put_line(&j, 1);
    assert_int_equal(gf_jsonl_flush(&j), GLOFND_OK);
    put_line(&j, 2);
    put_line(&j, 3);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = old;
    tight.rlim_cur = 30;
    setrlimit(RLIMIT_FSIZE, &tight);
    const glofnd_status synced = gf_jsonl_sync(&j);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(synced, GLOFND_E_IO);
    assert_non_null(strstr(err.text, "/a' cannot be written"));
    file_is("{\"step\": 1}\n");
    gf_jsonl_begin(&j);
    gf_jsonl_integer(&j, "step", 4);
    assert_int_equal(gf_jsonl_end(&j), GLOFND_E_IO); /* it sticks */
    assert_int_equal(gf_jsonl_close(&j), GLOFND_E_IO);
    file_is("{\"step\": 1}\n");
    unlink(path_of("a"));
}

TEST_GROUP(make_box, remove_empty_box)
