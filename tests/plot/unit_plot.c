/* unit_plot.c - ticks, charts as SVG, maps of dots, tables. */
#include "support/test.h"

#include "plot/svg.h"
#include "plot/terminal.h"
#include "support/page_span.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(ticks_are_round) {
    assert_true(fabs(gf_tick_step(0, 100, 5) - 20) < 1e-9);
    assert_true(fabs(gf_tick_step(0, 0.9, 5) - 0.2) < 1e-12);
    assert_true(fabs(gf_tick_step(0, 16, 8) - 2) < 1e-9);
    assert_true(fabs(gf_tick_step(0, 5.5, 5) - 2) < 1e-9);
    assert_true(gf_tick_step(3, 3, 5) == 1.0);
    assert_true(gf_tick_step(0, INFINITY, 5) == 1.0);
}

/* Both ends of a plane are ticks, also where rounding makes it so much larger that its steps are. */
TEST(planes_end_at_ticks) {
    static const double ranges[][2] = {{0.618, 0.703}, {0, 11}, {-3, 7.2}, {1e-7, 3e-7}, {5, 5}, {0, 0}, {-2e6, 9.1e6}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        gf_plot_area p = {0, 1, ranges[i][0], ranges[i][1]};
        gf_plot_area_round(&p);
        const double step = gf_tick_step(p.y0, p.y1, 5), parts = (p.y1 - p.y0) / step;
        assert_true(p.y1 > p.y0 && p.y0 <= ranges[i][0] + 1e-9 * step && p.y1 >= ranges[i][1] - 1e-9 * step);
        assert_true(fabs(parts - round(parts)) < 1e-9 && fabs(p.y0 / step - round(p.y0 / step)) < 1e-9);
    }
}

static gf_text chart_of(const double *y, int n, int from_zero) {
    gf_text t = {0};
    const gf_series series = {.name = "a", .y = y, .n = n};
    gf_svg_chart(
        &t, &(gf_chart){
                .title = "t", .x_name = "x", .y_name = "y", .series = &series, .count = 1, .level = NAN, .from_zero = from_zero});
    return t;
}

/* The texts of the y axis, in order. */
static int y_ticks(const char *svg, char out[16][48]) {
    int n = 0;
    for (const char *at = svg; n < 16 && (at = strstr(at, "class=\"tick\" x=\"49\"")); n++) {
        at = strchr(at, '>') + 1;
        snprintf(out[n], sizeof out[n], "%.*s", (int)strcspn(at, "<"), at);
    }
    return n;
}

/* Ticks rise, reach as far as the values, and are short enough for the room that there is. */
TEST(ticks_of_small_ranges_differ) {
    static const double ranges[][2] = {{0.4912, 0.4928}, {0.49283, 0.49284}, {-0.0477, -0.0474}, {0.99991, 1.00002},
                                       {12001, 12004},   {0.00121, 0.00123}, {3e-7, 3.1e-7},     {-5e-5, 2e-5},
                                       {2e7, 2.01e7},    {1.5e14, 1.6e14},   {0.07, 0.07},       {0, 0.0008}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        gf_text t = chart_of(ranges[i], 2, 0);
        char text[16][48];
        const int n = y_ticks(t.at, text);
        double before = -INFINITY;
        assert_true(n >= 3);
        for (int k = 0; k < n; k++) {
            char *unit;
            double x = strtod(text[k], &unit);
            x *= *unit == 'G' ? 1e9 : *unit == 'M' ? 1e6 : *unit == 'k' ? 1e3 : 1.0;
            assert_true(x > before && strlen(text[k]) <= 9);
            before = x;
        }
        assert_true(before >= ranges[i][1] - 1e-9 * fabs(ranges[i][1]));
        gf_text_free(&t);
    }
}

TEST(hardly_changing_values_are_a_level_line) {
    gf_text t = chart_of((const double[]){0.5, 0.5000001}, 2, 0);
    assert_non_null(strstr(t.at, " d=\"M56.0 146.0L508.0 146.0\""));
    gf_text_free(&t);
}

/* In the plane their names would lie on the lines as soon as all goes well. */
TEST(levels_and_events_are_named_in_the_legend) {
    const double y[] = {10, 10.1, 10};
    const gf_series series = {.name = "a", .y = y, .n = 3};
    gf_text t = {0};
    gf_svg_chart(&t, &(gf_chart){.title = "t",
                                 .x_name = "x",
                                 .y_name = "y",
                                 .series = &series,
                                 .count = 1,
                                 .level = 10,
                                 .level_name = "<wanted>",
                                 .event = 2,
                                 .event_name = "<begins>"});
    const char *plane = strstr(t.at, "<svg class=\"plot\"");
    assert_non_null(plane);
    assert_null(strstr(plane, "wanted"));
    assert_null(strstr(plane, "begins"));
    assert_non_null(strstr(t.at, "</svg>&lt;wanted&gt;</span>"));
    assert_non_null(strstr(t.at, "</svg>&lt;begins&gt;</span>"));
    assert_non_null(strstr(plane, "class=\"level\" d=\"M56 "));
    assert_non_null(strstr(plane, "class=\"level\" d=\"M282.0 14V234\""));
    gf_text_free(&t);
    gf_svg_chart(&t, &(gf_chart){.title = "t",
                                 .x_name = "x",
                                 .y_name = "y",
                                 .series = &series,
                                 .count = 1,
                                 .level = NAN,
                                 .event = 7,
                                 .event_name = "later"});
    assert_null(strstr(t.at, "later"));
    assert_null(strstr(t.at, "class=\"level\""));
    gf_text_free(&t);
}

/* The line is where it should be: 3 points from corner to corner, a gap, a lone dot. */
TEST(draws_lines_and_gaps) {
    const double y[] = {0, 5, 10, NAN, 10};
    const gf_series series = {.name = "a<b", .y = y, .n = 5, .colour = 8};
    gf_text t = {0};
    gf_svg_chart(&t, &(gf_chart){.title = "t",
                                 .x_name = "epoch",
                                 .y_name = "share, %",
                                 .series = &series,
                                 .count = 1,
                                 .level = 5,
                                 .level_name = "half"});
    assert_non_null(strstr(t.at, "d=\"M56.0 234.0L169.0 124.0L282.0 14.0M508.0 14.0h.01\""));
    assert_non_null(strstr(t.at, "<path class=\"line c1 d1\" data-name=\"a&lt;b\""));
    assert_non_null(strstr(t.at, "class=\"level\" d=\"M56 124.0H508\""));
    assert_non_null(strstr(t.at, "<text class=\"name\" x=\"0\" y=\"-7\">share, %</text>"));
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
}

static void assert_y_ticks(const double *y, int n, const char *const *ticks, int count) {
    gf_text t = chart_of(y, n, 0);
    char text[16][48];
    assert_int_equal(y_ticks(t.at, text), count);
    for (int i = 0; i < count; i++) assert_string_equal(text[i], ticks[i]);
    gf_text_free(&t);
}

TEST(ticks_are_short) {
    assert_y_ticks((const double[]){0, 0.0004, 0.0011}, 3, (const char *const[]){"0", "5e-4", "1e-3", "1.5e-3"}, 4);
    assert_y_ticks((const double[]){0, 12000, 40000}, 3, (const char *const[]){"0", "10k", "20k", "30k", "40k"}, 5);
    assert_y_ticks((const double[]){0.4912, 0.492, 0.4928}, 3,
                   (const char *const[]){"0.4910", "0.4915", "0.4920", "0.4925", "0.4930"}, 5);
}

/* A map that is wider than high is centred. */
TEST(maps_are_centred) {
    const double y[] = {0, 0, 10, 2};
    const int32_t style[] = {0, 0};
    const char *const names[] = {"a"};
    gf_text t = {0};
    gf_svg_dots(&t, &(gf_dots){.title = "t", .y = y, .style = style, .n = 2, .names = names, .classes = 1, .numbered = 1});
    assert_non_null(strstr(t.at, " data-i=\"0,1\" d=\"M14.0 162.8h0M386.0 237.2h0\"><title>a</title>"));
    gf_text_free(&t);
}

TEST(says_when_there_is_nothing) {
    const double y[] = {NAN, NAN};
    const gf_series series = {.name = "a", .y = y, .n = 2};
    gf_text t = {0};
    gf_svg_chart(
        &t,
        &(gf_chart){.title = "t", .x_name = "x", .y_name = "y", .series = &series, .count = 1, .level = 3, .level_name = "l"});
    assert_non_null(strstr(t.at, "<p class=\"none\">No values: not measured by any run.</p></figure>"));
    assert_null(strstr(t.at, "<svg"));
    gf_text_free(&t);
}

/* Without anything else the plane is there, too. */
TEST(a_line_alone_is_a_chart) {
    const gf_series line = {.name = "a", .n = 5, .vertical = 1, .at = 0.5};
    gf_text t = {0};
    gf_svg_chart(&t, &(gf_chart){.title = "t",
                                 .x_name = "x",
                                 .y_name = "y",
                                 .series = &line,
                                 .count = 1,
                                 .level = NAN,
                                 .x_first = 0.0,
                                 .x_step = 0.25,
                                 .from_zero = 1});
    assert_non_null(strstr(t.at, "<path class=\"line c0\" d=\"M282.0 234V14\">"));
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
}

TEST(tables) {
    gf_table t = {.columns = 3};
    gf_text text = {0}, csv = {0}, latex = {0};
    gf_table_add(&t, "name"), gf_table_add(&t, "x"), gf_table_add(&t, "number");
    gf_table_add(&t, "\xce\xbb, \"q\""), gf_table_number(&t, 1.256, 2), gf_table_number(&t, NAN, 2);
    gf_table_text(&text, &t, 1);
    assert_string_equal(text.at, "name       x  number\n\xce\xbb, \"q\"  1.26       -\n");
    gf_table_csv(&csv, &t);
    assert_string_equal(csv.at, "name,x,number\n\"\xce\xbb, \"\"q\"\"\",1.26,-\n");
    gf_text_latex(&latex, "a_b & 5 % {<$^\\");
    assert_string_equal(latex.at, "a\\_b \\& 5 \\% \\{$<$\\$\\^{}\\textbackslash{}");
    for (int i = 0; i < 1000; i++) gf_table_add(&t, "%d", i);
    assert_false(t.failed);
    assert_string_equal(t.cell[1005], "999");
    gf_text_free(&text);
    gf_text_free(&csv);
    gf_text_free(&latex);
    gf_table_free(&t);
}

TEST(differences_have_a_sign_unless_they_are_zero) {
    gf_table t = {.columns = 5};
    gf_text text = {0};
    gf_table_difference(&t, 0.26, 1), gf_table_difference(&t, -0.26, 1), gf_table_difference(&t, -0.04, 1);
    gf_table_difference(&t, 0.0, 2), gf_table_difference(&t, NAN, 1);
    gf_table_text(&text, &t, 5);
    assert_string_equal(text.at, "+0.3  -0.3  0.0  0.00  -\n");
    gf_text_free(&text);
    gf_table_free(&t);
}

/* A chart whose values do not lie at 1, 2, ...; as a file of its own, with colours that need no page. */
TEST(charts_have_an_axis_of_their_own) {
    const double y[] = {0.0, 2.0, 1.0, NAN, 0.5};
    const gf_series series = {.name = "<s>", .y = y, .n = 5};
    gf_text t = {0};
    gf_svg_file(&t, &(gf_chart){.title = "t",
                                .x_name = "x",
                                .y_name = "y",
                                .series = &series,
                                .count = 1,
                                .level = NAN,
                                .x_first = -0.25,
                                .x_step = 0.125});
    assert_ptr_equal(strstr(t.at, "<svg xmlns="), t.at);
    assert_non_null(strstr(t.at, "M56.0 234.0L169.0 14.0L282.0 124.0M508.0 179.0h.01"));
    assert_int_equal(span_count(span_of(t.at), "y=\"254\" text-anchor=\"middle\">"), 5);
    assert_non_null(strstr(t.at, "x=\"101.2\" y=\"254\" text-anchor=\"middle\">-0.2</text>"));
    assert_non_null(strstr(t.at, "x=\"282.0\" y=\"254\" text-anchor=\"middle\">0</text>"));
    assert_non_null(strstr(t.at, "x=\"462.8\" y=\"254\" text-anchor=\"middle\">0.2</text>"));
    assert_non_null(strstr(t.at, "&lt;s&gt;"));
    assert_null(strstr(t.at, "var("));
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
}
