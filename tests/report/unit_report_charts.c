/* unit_report_charts.c - what charts and the head of a page say where it is easily wrong: ticks of small ranges, thresholds that
 * are all the same, the thresholds of images alone, runs that differ. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/page_parts.h"
#include "support/scratch.h"

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
static void ticks_of_small_ranges_differ(void **state) {
    (void)state;
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

static void small_ranges_are_read_at_a_glance(void **state) {
    (void)state;
    const double lambda[] = {0.4912, 0.492, 0.4928}, still[] = {0.5, 0.5000001};
    gf_text t = chart_of(lambda, 3, 0);
    assert_non_null(strstr(t.at, ">0.4915</text>"));
    assert_non_null(strstr(t.at, ">0.4930</text>"));
    assert_null(strstr(t.at, "e-1<"));
    gf_text_free(&t);
    t = chart_of(still, 2, 0); /* what hardly changes is a level line */
    assert_non_null(strstr(t.at, " d=\"M56.0 146.0L508.0 146.0\""));
    gf_text_free(&t);
}

/* In the plane their names would lie on the lines as soon as all goes well. */
static void levels_and_events_are_named_in_the_legend(void **state) {
    (void)state;
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

/* ----- thresholds ----- */

enum { ANCHORS = 50 };

/* The figure of thresholds, lambda from `from` on in steps, the exact ones around 0.6 and FNC's up to 0.999. */
static gf_text thresholds_of(float from, float step) {
    float lambda[ANCHORS], optimum[ANCHORS], fnc[ANCHORS];
    static gf_run_log run;
    gf_snapshot look;
    gf_text t = {0};
    for (int i = 0; i < ANCHORS; i++)
        lambda[i] = from + step * (float)i, optimum[i] = 0.5f + 0.004f * (float)i, fnc[i] = 0.999f - 0.01f * (float)i;
    look = (gf_snapshot){.made = 1, .alpha = 0.1, .sides = 1};
    look.side[0] = (gf_snapshot_side){.learned = ANCHORS,
                                      .lambda = {lambda, ANCHORS},
                                      .optimum = {optimum, ANCHORS},
                                      .fnc = {fnc, ANCHORS},
                                      .lambda_mae = 0.1,
                                      .fnc_mae = 0.2};
    run.config.method.detector = GLOFND_DETECT_GLOFND;
    gf_section_thresholds(&t, &(gf_report){.runs = &run, .count = 1, .looks = &look});
    return t;
}

static double attribute(const char *text, const char *name) {
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

static void thresholds_that_are_all_the_same_are_a_line(void **state) {
    (void)state;
    gf_text t = thresholds_of(0.25f, 0.0f);
    assert_non_null(strstr(t.at, "</svg>λ, learned by GloFND: all 0.250</span>"));
    const char *line = strstr(t.at, "<path class=\"line c2\" d=\"M");
    assert_non_null(line);
    const double at = attribute(line, " d=\"M"), low = attribute(t.at, "data-x0=\""), high = attribute(t.at, "data-x1=\"");
    assert_non_null(strstr(line, " 234V14\"><title>λ, learned by GloFND: all 0.250</title>"));
    assert_true(fabs(low + (at - 56.0) / 452.0 * (high - low) - 0.25) < 1e-3);
    assert_true(low < 0.25 && attribute(t.at, "data-y1=\"") < 20.0);
    gf_text_free(&t);
    t = thresholds_of(0.25f, 1e-8f); /* the same as far as can be seen */
    assert_non_null(strstr(t.at, "all 0.250</span>"));
    gf_text_free(&t);
    t = thresholds_of(0.25f, 0.01f);
    assert_null(strstr(t.at, ": all "));
    assert_non_null(strstr(t.at, "<path class=\"band f2\""));
    gf_text_free(&t);
}

static void densities_stay_within_similarities(void **state) {
    (void)state;
    gf_text t = thresholds_of(0.25f, 0.01f);
    assert_true(attribute(t.at, "data-x1=\"") <= 1.0);
    gf_text_free(&t);
}

/* Without anything else the plane is there, too. */
static void a_line_alone_is_a_chart(void **state) {
    (void)state;
    const gf_series line = {.name = "a", .n = 5, .upright = 1, .at = 0.5};
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

/* ----- pages ----- */

static gf_run_log run_of(const char *config, const char *log) {
    gf_error err = {{0}};
    gf_run_log run;
    scratch_text(&box, "config.cfg", config);
    scratch_text(&box, "log.jsonl", log);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    remove(path_of("config.cfg"));
    remove(path_of("log.jsonl"));
    return run;
}

/* The chart of images is theirs: from the log where it has them, else what is left of the mean of both sides. */
static void lambda_of_images_is_theirs(void **state) {
    (void)state;
    static const char clip[] = "data = d\ntask = clip\nloss = sogclr2\ndetector = glofnd\nstart_epoch = 0\nepochs = 2\n";
    static const struct {
        const char *config, *log, *images, *texts;
    } cases[] = {
        {clip,
         "{\"event\": \"epoch\", \"epoch\": 0, \"lambda\": 0.5, \"lambda_image\": 0.25, \"lambda_text\": 0.625}\n"
         "{\"event\": \"epoch\", \"epoch\": 1, \"lambda\": 0.5, \"lambda_image\": 0.375, \"lambda_text\": 0.5}\n",
         "data-y=\"0.25,0.375\"", "data-y=\"0.625,0.5\""},
        {clip,
         "{\"event\": \"epoch\", \"epoch\": 0, \"lambda\": 0.5, \"lambda_text\": 0.625}\n"
         "{\"event\": \"epoch\", \"epoch\": 1, \"lambda\": 0.5, \"lambda_text\": 0.5}\n",
         "data-y=\"0.375,0.5\"", "data-y=\"0.625,0.5\""},
        {"data = d\ndetector = glofnd\nstart_epoch = 0\nepochs = 2\n",
         "{\"event\": \"epoch\", \"epoch\": 0, \"lambda\": 0.5}\n{\"event\": \"epoch\", \"epoch\": 1, \"lambda\": 0.75}\n",
         "data-y=\"0.5,0.75\"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_run_log run = run_of(cases[i].config, cases[i].log);
        gf_text t = {0};
        gf_section_detection(&t, &(gf_report){.runs = &run, .count = 1});
        const char *images = strstr(t.at, cases[i].texts ? "Mean threshold λ of the images" : "Mean threshold λ<");
        assert_non_null(images);
        assert_ptr_equal(strstr(images, "data-y=\""), strstr(images, cases[i].images));
        const char *texts = strstr(t.at, "Mean threshold λ of the captions");
        assert_true(!texts == !cases[i].texts);
        if (texts) assert_ptr_equal(strstr(texts, "data-y=\""), strstr(texts, cases[i].texts));
        gf_text_free(&t);
        gf_run_log_free(&run);
    }
}

/* The head names what all runs share, and says how far they differ in the rest. */
static void the_head_is_of_all_runs(void **state) {
    (void)state;
    gf_run_log runs[3] = {run_of("data = <d>\nbatch = 32\nepochs = 3\n", ""), run_of("data = <d>\nbatch = 32\nepochs = 3\n", ""),
                          run_of("data = e\nbatch = 64\nepochs = 10\narch = resnet50\n", "")};
    gf_text t = {0};
    gf_section_story(&t, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(t.at, ", batch 32, 3 epochs on <code>&lt;d&gt;</code></p>"));
    gf_text_free(&t);
    gf_section_story(&t, &(gf_report){.runs = runs, .count = 3});
    assert_non_null(strstr(t.at, ">2 architectures, batch 32 to 64, 3 to 10 epochs on 2 datasets</p>"));
    gf_text_free(&t);
    for (int i = 0; i < 3; i++) gf_run_log_free(&runs[i]);
}

/* Of images and texts there is one view; what was not measured has no protocol. */
static void notes_are_true(void **state) {
    (void)state;
    static const char steps[] = "{\"event\": \"step\", \"step\": 1, \"images_per_s\": 5}\n"
                                "{\"event\": \"step\", \"step\": 2, \"images_per_s\": 6}\n";
    gf_run_log runs[2] = {run_of("data = d\n", steps), run_of("data = d\ntask = clip\nloss = sogclr2\n", steps)};
    gf_text t = {0};
    gf_section_training(&t, &(gf_report){.runs = runs, .count = 1});
    assert_non_null(strstr(t.at, "Two views are made of each image.<"));
    gf_text_free(&t);
    gf_section_training(&t, &(gf_report){.runs = runs + 1, .count = 1});
    assert_null(strstr(t.at, "Two views"));
    gf_text_free(&t);
    gf_section_training(&t, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(t.at, "Two views are made of each image; in image-text runs it is one."));
    gf_text_free(&t);
    gf_section_labels(&t, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(t.at, "Not evaluated yet: <code>glofnd eval linear"));
    assert_null(strstr(t.at, "protocol"));
    gf_text_free(&t);
    for (int i = 0; i < 2; i++) gf_run_log_free(&runs[i]);
}

static void long_names_may_be_broken(void **state) {
    (void)state;
    gf_text t = {0};
    gf_page_name(&t, "knn (a:n=1,<b>=2/c_d,)");
    assert_string_equal(t.at, "knn (a:n=1,<wbr>&lt;b&gt;=2/<wbr>c_<wbr>d,<wbr>)");
    gf_text_free(&t);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_box, remove_empty_box)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_of_small_ranges_differ),
        cmocka_unit_test(small_ranges_are_read_at_a_glance),
        cmocka_unit_test(levels_and_events_are_named_in_the_legend),
        cmocka_unit_test(thresholds_that_are_all_the_same_are_a_line),
        cmocka_unit_test(densities_stay_within_similarities),
        cmocka_unit_test(a_line_alone_is_a_chart),
        cmocka_unit_test(long_names_may_be_broken),
        IN_A_FOLDER(lambda_of_images_is_theirs),
        IN_A_FOLDER(the_head_is_of_all_runs),
        IN_A_FOLDER(notes_are_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
