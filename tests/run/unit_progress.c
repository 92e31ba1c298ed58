/* unit_progress.c - the line about a running job: it fits the window, and the time to go stays in it. */
#include "support/test.h"

#include "run/progress.h"
#include <math.h>
#include <string.h>

static const char text[] = "epoch   1/20 | step      5 | loss  0.1234 | kept  99.00% | 1200 img/s";

static void line_is(const char *from, int columns, const char *expected) {
    char line[400];
    gf_progress_line(from, "9m18", columns, line, sizeof line);
    assert_string_equal(line, expected);
}

TEST(parts_go_from_the_end) {
    line_is(text, 0, "epoch   1/20 | step      5 | loss  0.1234 | kept  99.00% | 1200 img/s | eta 9m18");
    line_is(text, 200, "epoch   1/20 | step      5 | loss  0.1234 | kept  99.00% | 1200 img/s | eta 9m18");
    line_is(text, 81, "epoch   1/20 | step      5 | loss  0.1234 | kept  99.00% | 1200 img/s | eta 9m18");
    line_is(text, 80, "epoch   1/20 | step      5 | loss  0.1234 | kept  99.00% | eta 9m18");
    line_is(text, 40, "epoch   1/20 | step      5 | eta 9m18");
    line_is(text, 25, "epoch   1/20 | eta 9m18");
}

TEST(no_width_is_exceeded) {
    char line[400];
    for (int columns = 1; columns < 120; columns++) {
        gf_progress_line(text, "9m18", columns, line, sizeof line);
        assert_true((int)strlen(line) < columns);
        gf_progress_line("|||| |", "?", columns, line, sizeof line);
        assert_true((int)strlen(line) < columns);
    }
}

/* In a name of two-byte letters, whole letters are kept. */
TEST(letters_stay_whole) {
    line_is("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4\xc3\xb6\xc3\xbc", 16, "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\xa4 | eta 9m18");
}

/* A text that is longer than any line. */
TEST(long_texts_are_cut) {
    char longer[2000], line[400];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    gf_progress_line(longer, "1h32", 0, line, sizeof line);
    assert_true(strlen(line) < sizeof line && strstr(line, " | eta 1h32"));
}

TEST(what_was_not_drawn_needs_no_end) {
    gf_progress p = gf_progress_start(0, GF_PROGRESS_QUIET);
    gf_progress_draw(&p, 1, 2, text, 1);
    assert_false(p.open); /* quiet */
}

/* Lines of a log: soon at first, then in steps of a tenth; a day of training has less than a hundred. */
TEST(lines_become_rare) {
    double at = 0.0;
    int lines = 0;
    for (; at < 86400.0; lines++) {
        assert_true(gf_progress_interval(at) >= 15.0 && gf_progress_interval(at) <= fmax(15.0, at / 10.0));
        at += gf_progress_interval(at);
    }
    assert_in_range(lines, 30, 100);
}

/* No line before the next one is due, even the last. */
TEST(lines_wait_for_their_time) {
    gf_progress p = gf_progress_start(0, GF_PROGRESS_LINES);
    const double due = p.next;
    assert_true(due > p.started);
    gf_progress_draw(&p, 2, 2, text, 1);
    assert_true(p.next == due && !p.open);
    p.next = 0.0;
    gf_progress_draw(&p, 1, 2, text, 0);
    assert_true(p.next > p.started && !p.open);
}
