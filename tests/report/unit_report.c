/* unit_report.c - the text buffer, ticks, charts, and a page made of a run folder. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plot/svg_dots.h"
#include "report/compare/comparable.h"
#include "report/page.h"
#include "report/summary.h"
#include "support/scratch.h"

static void escapes_what_html_would_take(void **state) {
    (void)state;
    gf_text t = {0};
    gf_text_escape(&t, "<a href=\"x\">&'\x01\xff \xc3\xa9\xe2\x82");
    assert_string_equal(t.at, "&lt;a href=&quot;x&quot;&gt;&amp;&#39;?? \xc3\xa9??");
    gf_text_free(&t);
    /* longer than needed, a surrogate, too large, an apple */
    gf_text_escape(&t, "\xe0\x80\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xf0\x9f\x8d\x8e");
    assert_string_equal(t.at, "??? ??? ???? \xf0\x9f\x8d\x8e");
    for (int i = 0; i < 1000; i++) gf_text_add(&t, "%d,", i);
    assert_false(t.failed);
    assert_int_equal(strlen(t.at), t.used);
    assert_non_null(strstr(t.at, ",998,999,"));
    gf_text_free(&t);
}

static void ticks_are_round(void **state) {
    (void)state;
    assert_true(fabs(gf_tick_step(0, 100, 5) - 20) < 1e-9);
    assert_true(fabs(gf_tick_step(0, 0.9, 5) - 0.2) < 1e-12);
    assert_true(fabs(gf_tick_step(0, 16, 8) - 2) < 1e-9);
    assert_true(fabs(gf_tick_step(0, 5.5, 5) - 2) < 1e-9);
    assert_true(gf_tick_step(3, 3, 5) == 1.0);
    assert_true(gf_tick_step(0, INFINITY, 5) == 1.0);
}

/* Both ends of a plane are ticks, also where rounding makes it so much larger that its steps are. */
static void planes_end_at_ticks(void **state) {
    (void)state;
    static const double ranges[][2] = {{0.618, 0.703}, {0, 11}, {-3, 7.2}, {1e-7, 3e-7}, {5, 5}, {0, 0}, {-2e6, 9.1e6}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        gf_plane p = {0, 1, ranges[i][0], ranges[i][1]};
        gf_plane_round(&p);
        const double step = gf_tick_step(p.y0, p.y1, 5), parts = (p.y1 - p.y0) / step;
        assert_true(p.y1 > p.y0 && p.y0 <= ranges[i][0] + 1e-9 * step && p.y1 >= ranges[i][1] - 1e-9 * step);
        assert_true(fabs(parts - round(parts)) < 1e-6 && fabs(p.y0 / step - round(p.y0 / step)) < 1e-6);
    }
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

/* The line is where it should be: 3 points from corner to corner, a gap, a lone dot. */
static void draws_lines_and_gaps(void **state) {
    (void)state;
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
    assert_non_null(strstr(t.at, "line c1 d1"));
    assert_non_null(strstr(t.at, "a&lt;b"));
    assert_non_null(strstr(t.at, "class=\"level\" d=\"M56 124.0H508\""));
    assert_non_null(strstr(t.at, "share, %"));
    assert_null(strstr(t.at, "nan"));
    gf_text_free(&t);
}

/* Small values have short ticks. */
static void ticks_have_few_zeros(void **state) {
    (void)state;
    const double y[] = {0, 0.0004, 0.0011};
    const gf_series series = {.name = "a", .y = y, .n = 3};
    gf_text t = {0};
    gf_svg_chart(&t, &(gf_chart){.title = "t", .x_name = "x", .y_name = "y", .series = &series, .count = 1, .level = NAN});
    assert_non_null(strstr(t.at, ">0</text>"));
    assert_non_null(strstr(t.at, ">5e-4</text>"));
    assert_non_null(strstr(t.at, ">1e-3</text>"));
    gf_text_free(&t);
    const double large[] = {0, 12000, 40000};
    const gf_series many = {.name = "a", .y = large, .n = 3};
    gf_svg_chart(&t, &(gf_chart){.title = "t", .x_name = "x", .y_name = "y", .series = &many, .count = 1, .level = NAN});
    assert_non_null(strstr(t.at, ">10k</text>"));
    assert_non_null(strstr(t.at, ">40k</text>"));
    gf_text_free(&t);
}

/* What is wider than high lies in the middle. */
static void maps_are_centred(void **state) {
    (void)state;
    const double y[] = {0, 0, 10, 2};
    const int32_t look[] = {0, 0};
    const char *const names[] = {"a"};
    gf_text t = {0};
    gf_svg_dots(&t, &(gf_dots){.title = "t", .y = y, .look = look, .n = 2, .names = names, .classes = 1, .numbered = 1});
    assert_non_null(strstr(t.at, " data-i=\"0,1\" d=\"M14.0 162.8h0M386.0 237.2h0\"><title>a</title>"));
    gf_text_free(&t);
}

static void says_when_there_is_nothing(void **state) {
    (void)state;
    const double y[] = {NAN, NAN};
    const gf_series series = {.name = "a", .y = y, .n = 2};
    gf_text t = {0};
    gf_svg_chart(
        &t,
        &(gf_chart){.title = "t", .x_name = "x", .y_name = "y", .series = &series, .count = 1, .level = 3, .level_name = "l"});
    assert_non_null(strstr(t.at, "No values"));
    gf_text_free(&t);
}

static const char log_lines[] =
    "{\"event\": \"step\", \"step\": 1, \"loss\": 9}\n"
    "{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 2.5, \"flagged\": 0.0, \"precision\": null}\n"
    "{\"event\": \"epoch\", \"epoch\": 1, \"loss\": 1.25, \"lambda\": 0.5, \"flagged\": 0.05, \"precision\": 0.5, "
    "\"recall\": 0.25, \"f1\": 0.333}\n"
    "{\"event\": \"epo";

/* On the run's own data, four times: untrained, of old, the newest of the kind, and two of other kinds, which are newer. The last
 * one is as older versions wrote equal votes. */
#define KNN(k, untrained, top1, rest) \
    "{\"event\": \"knn\", \"protocol\": \"knn\", \"untrained\": " untrained ", \"k\": " k ", \"top1\": " top1 rest "}\n"
#define OWN ", \"data\": \"shapes:<i>&n=10\", \"test\": \"<t>\""
static const char eval_lines[] = KNN("20", "false", "0.2", ", \"data\": \"other\", \"test\": \"u\"") KNN("20", "true", "0.1", OWN)
    KNN("20", "false", "0.3", OWN) KNN("20", "false", "0.4", OWN) KNN("5", "false", "0.9", OWN)
        KNN("20", "false", "0.8", OWN ", \"temperature\": 0.0");

/* The newest evaluation of a kind counts, the torn last line does not. */
static void reads_a_run_and_makes_a_page(void **state) {
    (void)state;
    gf_error err = {{0}};
    gf_run_log runs[2];
    gf_text table = {0}, page = {0};
    assert_int_equal(gf_run_log_read(&err, box.folder, &runs[0]), GLOFND_E_IO);
    scratch_text(&box, "config.cfg", "data = shapes:<i>&n=10\nalpha = 0.05\ndetector = glofnd\n");
    scratch_text(&box, "log.jsonl", log_lines);
    assert_int_equal(gf_run_log_read(&err, box.folder, &runs[0]), GLOFND_OK);
    gf_score s = gf_score_choose(&(gf_report){.runs = runs, .count = 1});
    assert_true(!s.like && isnan(gf_score_of(&s, &runs[0], 0)));
    assert_string_equal(s.name, "kNN top-1 %");
    scratch_text(&box, "eval.jsonl", eval_lines);
    gf_run_log_free(&runs[0]);
    assert_int_equal(gf_run_log_read(&err, box.folder, &runs[0]), GLOFND_OK);
    assert_int_equal(runs[0].epochs, 2);
    assert_true(gf_run_last(&runs[0], GF_RUN_LOSS) == 1.25);
    assert_true(isnan(runs[0].field[GF_RUN_PRECISION][0]));
    assert_true(fabs(gf_run_last(&runs[0], GF_RUN_FLAGGED) - 5.0) < 1e-9);
    assert_int_equal(runs[0].eval.count, 5);
    s = gf_score_choose(&(gf_report){.runs = runs, .count = 1});
    assert_string_equal(s.name, "knn k 20 top-1 %");
    assert_true(fabs(gf_score_of(&s, &runs[0], 0) - 40.0) < 1e-9 && fabs(gf_score_of(&s, &runs[0], 1) - 10.0) < 1e-9);
    assert_int_equal(gf_run_log_read(&err, box.folder, &runs[1]), GLOFND_OK);
    for (int i = 0; i < runs[1].eval.count; i++) runs[1].eval.line[i].top1 = 0.38;
    runs[1].config.method.alpha = 0.25;
    runs[1].config.method.detector = GLOFND_DETECT_FNC;
    gf_summary_text(&table, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(table.at, "F1 %  knn k 20 top-1 %  vs first\n"));
    assert_non_null(strstr(table.at, "knn k 20 top-1 %: of shapes:<i>&n=10, test <t>\n"));
    assert_non_null(strstr(table.at, "(untrained)"));
    assert_non_null(strstr(table.at, "-2.0\n"));
    assert_non_null(strstr(table.at, "-30.0\n"));
    gf_page(&page, &(gf_report){.runs = runs, .count = 2, .compare_why = "<why>"});
    assert_non_null(strstr(page.at, "data-y=\"2.5,1.25\"") ? page.at : strstr(page.at, "data-x=\"1,2\" data-y=\"0,5\""));
    assert_non_null(strstr(page.at, "&lt;why&gt;"));
    assert_int_equal(count_of(page.at, "shapes:&lt;i&gt;&amp;n=10"), 3); /* in the head, among the keys, below the table */
    assert_null(strstr(page.at, "<i>"));
    assert_int_equal(count_of(page.at, "<code>alpha</code>"), 1);
    assert_non_null(strstr(page.at, "<code>alpha</code></th><td><code>0.05</code></td><td><code>0.25</code>"));
    assert_non_null(strstr(page.at, "&lt;t&gt;"));
    assert_null(strstr(page.at, "http:"));
    assert_null(strstr(page.at, "https:"));
    assert_null(strstr(page.at, "nan"));
    gf_text_free(&table);
    gf_text_free(&page);
    gf_run_log_free(&runs[0]);
    gf_run_log_free(&runs[1]);
    scratch_text(&box, "log.jsonl", "no json\n{\"event\": \"epoch\", \"loss\": 3}\n[1]\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &runs[0]), GLOFND_OK);
    assert_int_equal(runs[0].skipped, 2);
    assert_int_equal(runs[0].epochs, 1);
    gf_run_log_free(&runs[0]);
    remove(path_of("config.cfg"));
    remove(path_of("log.jsonl"));
    remove(path_of("eval.jsonl"));
}

/* Of a log that was shortened at its beginning, or in the middle, epochs keep their numbers; one without a number that can be
 * follows the one before. */
static void epochs_keep_their_numbers(void **state) {
    (void)state;
    gf_error err = {{0}};
    gf_run_log run;
    gf_text page = {0};
    scratch_text(&box, "config.cfg", "data = x\ndetector = glofnd\nstart_epoch = 1\nepochs = 9\n");
    scratch_text(&box, "log.jsonl",
                 "{\"event\": \"epoch\", \"step\": 12, \"epoch\": 2, \"loss\": 2.5, \"flagged\": 0.25}\n"
                 "{\"event\": \"epoch\", \"step\": 16, \"epoch\": 3, \"loss\": 2.25, \"flagged\": 0.5}\n"
                 "{\"event\": \"epoch\", \"step\": 24, \"epoch\": 5, \"loss\": 2.0, \"flagged\": 0.75}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_int_equal(run.epochs, 6);
    assert_true(isnan(run.field[GF_RUN_LOSS][0]) && isnan(run.field[GF_RUN_LOSS][1]) && isnan(run.field[GF_RUN_LOSS][4]));
    assert_true(run.field[GF_RUN_LOSS][2] == 2.5 && run.field[GF_RUN_LOSS][3] == 2.25 && run.field[GF_RUN_LOSS][5] == 2.0);
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(page.at, "epoch 6 of 9 so far"));
    assert_non_null(strstr(page.at, "data-x=\"1,2,3,4,5,6\" data-y=\",,25,50,,75\""));
    assert_null(strstr(page.at, "nan"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    scratch_text(&box, "log.jsonl",
                 "{\"event\": \"epoch\", \"epoch\": 1e9, \"loss\": 1}\n{\"event\": \"epoch\", \"epoch\": -1, \"loss\": 2}\n"
                 "{\"event\": \"epoch\", \"epoch\": \"x\", \"loss\": 3}\n{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 4}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_true(run.epochs == 3 && run.field[GF_RUN_LOSS][0] == 4.0 && run.field[GF_RUN_LOSS][2] == 3.0);
    gf_run_log_free(&run);
    remove(path_of("config.cfg"));
    remove(path_of("log.jsonl"));
}

/* Without labels nothing is said about right and wrong; with them, the tiles have the numbers of the last epoch. */
static void tells_what_happened(void **state) {
    (void)state;
    static const char *const lines[2] = {
        "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"flagged\": 0.25, \"precision\": null, \"pooled_precision\": 0.0, "
        "\"pooled_recall\": null}\n",
        "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"flagged\": 0.25, \"precision\": 0.7, \"pooled_precision\": 0.4, "
        "\"pooled_recall\": 0.5}\n"};
    scratch_text(&box, "config.cfg", "data = x\nalpha = 0.2\ndetector = glofnd\nstart_epoch = 0\nepochs = 1\n");
    for (int labelled = 0; labelled < 2; labelled++) {
        gf_error err = {{0}};
        gf_run_log run;
        gf_text page = {0};
        scratch_text(&box, "log.jsonl", lines[labelled]);
        assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
        gf_page(&page, &(gf_report){.runs = &run, .count = 1});
        assert_non_null(strstr(page.at, "<b>25\u00a0%</b><span>of all pairs flagged in the last epoch; α asks for 20 %"));
        assert_int_equal(strstr(page.at, "truly share") != NULL, labelled);
        assert_int_equal(strstr(page.at, "<b>40\u00a0%</b><span>of the flagged pairs truly share a class") != NULL, labelled);
        assert_int_equal(strstr(page.at, "<b>2.0×</b><span>as often as in a pair taken at random") != NULL, labelled);
        assert_int_equal(strstr(page.at, "which shares its class in 20 %") != NULL, labelled);
        assert_null(strstr(page.at, "nan"));
        gf_text_free(&page);
        gf_run_log_free(&run);
    }
    remove(path_of("config.cfg"));
    remove(path_of("log.jsonl"));
}

/* What a run holds comes back as it was written; a damaged file is none; the page has the parts and what is left of the most. */
static void memory_is_kept_and_shown(void **state) {
    (void)state;
    gf_error err = {{0}};
    gf_run_log run;
    gf_text page = {0};
    gf_memory_record m = {.known = 1,
                          .step = 7,
                          .ranks = 1,
                          .anchors = 1000,
                          .bytes = {.weights = 10000000,
                                    .optimizer = 5000000,
                                    .activations = 60000000,
                                    .workspace = 1000000,
                                    .loss = 2000000,
                                    .data = 3000000,
                                    .peak = 100000000}};
    scratch_text(&box, "config.cfg", "data = x\nalpha = 0.2\ndetector = glofnd\n");
    assert_int_equal(gf_memory_write(&err, box.folder, &m), GLOFND_OK);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_memory_equal(&run.memory, &m, sizeof m);
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(page.at, "<title>activations: 60 MB, 60.0 %</title>"));
    assert_non_null(strstr(page.at, "<rect class=\"rest\" x=\"416.2\" y=\"20\" width=\"95.8\""));
    assert_non_null(strstr(page.at, "<title>rest: 19 MB, 19.0 %</title>"));
    assert_non_null(strstr(page.at, "20\u00a0kB</b>, 20 bytes for each of 1000, 0.025\u00a0% of the <b>81\u00a0MB</b>"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    m.gpu = 1, m.bytes.peak = 82500000000;
    assert_int_equal(gf_memory_write(&err, box.folder, &m), GLOFND_OK);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_true(run.memory.gpu);
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(page.at, ">82.5 GB</text>"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    m.bytes.data = -1;
    assert_int_equal(gf_memory_write(&err, box.folder, &m), GLOFND_OK);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_false(run.memory.known);
    gf_run_log_free(&run);
    scratch_text(&box, GF_MEMORY_FILE, "{\"device\": \"cpu\", \"step\": 7, \"ranks\": 1, \"anchors\": 5}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_false(run.memory.known || run.memory.step);
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(page.at, "Not recorded"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    remove(path_of("config.cfg"));
    remove(path_of(GF_MEMORY_FILE));
}

/* Image-text runs speak of captions and retrieval, not of nearest neighbours; without a detector there is no precision. */
static void image_text_runs_speak_of_captions(void **state) {
    (void)state;
    gf_error err = {{0}};
    gf_run_log run;
    gf_text page = {0}, table = {0};
    scratch_text(&box, "config.cfg", "data = x\ntask = clip\nloss = sogclr2\ndetector = none\n");
    scratch_text(&box, "log.jsonl", "{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 2, \"flagged\": 0.0001, \"precision\": 1}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_true(isnan(gf_run_last(&run, GF_RUN_PRECISION)));
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(page.at, "captions that fit it"));
    assert_non_null(strstr(page.at, "glofnd eval retrieval RUN"));
    assert_null(strstr(page.at, "glofnd eval knn"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    scratch_text(&box, "eval.jsonl",
                 "{\"event\": \"retrieval\", \"untrained\": false, \"ir1\": 0.1, \"ir5\": 0.2, "
                 "\"ir10\": 0.3, \"tr1\": 0.2, \"tr5\": 0.3, \"tr10\": 0.4, \"mean\": 0.25}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    const gf_score s = gf_score_choose(&(gf_report){.runs = &run, .count = 1});
    assert_true(fabs(gf_score_of(&s, &run, 0) - 25.0) < 1e-9 && isnan(gf_score_of(&s, &run, 1)));
    gf_summary_text(&table, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(table.at, "retrieval average %"));
    assert_non_null(strstr(table.at, "25.0"));
    gf_text_free(&table);
    gf_run_log_free(&run);
    remove(path_of("config.cfg"));
    remove(path_of("log.jsonl"));
    remove(path_of("eval.jsonl"));
}

static gf_run_log evaluated(const char *config, const char *lines) {
    gf_error err = {{0}};
    gf_run_log run;
    scratch_text(&box, "config.cfg", config);
    scratch_text(&box, "eval.jsonl", lines);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    return run;
}

#define ON_D ", \"data\": \"d\", \"test\": \"t\""
#define RETRIEVAL "{\"event\": \"retrieval\", \"protocol\": \"retrieval\", \"data\": \"d\", \"test\": \"d\", \"mean\": 0.17}\n"

/* A run on images beside one of images and texts: what both have in common is shown; what only one has, of that one. */
static void only_figures_of_one_kind_stand_together(void **state) {
    (void)state;
    static const char views[] = "data = d\ndetector = glofnd\n";
    static const char clip[] = "data = d\ntask = clip\nloss = sogclr2\ndetector = glofnd\n";
    static const struct {
        const char *lines[2]; /* of a run on images, of one of images and texts */
        const char *title, *score[2];
    } cases[] = {
        {{KNN("20", "false", "0.4", ON_D), RETRIEVAL}, "knn k 20 top-1 %", {"40.0         -\n", "   -         -\n"}},
        {{KNN("20", "false", "0.4", ON_D), RETRIEVAL KNN("20", "false", "0.7", ON_D)},
         "knn k 20 top-1 %",
         {"40.0         -\n", "70.0     +30.0\n"}},
        {{KNN("20", "false", "0.4", ON_D), KNN("5", "false", "0.7", ON_D)},
         "knn k 20 top-1 %",
         {"40.0         -\n", "-         -\n"}},
        {{KNN("20", "false", "0.4", ON_D) KNN("5", "false", "0.6", ON_D), KNN("5", "false", "0.7", ON_D)},
         "knn k 5 top-1 %",
         {"60.0         -\n", "70.0     +10.0\n"}},
        {{KNN("20", "false", "0.4", ON_D), KNN("20", "false", "0.7", ", \"data\": \"d\", \"test\": \"other\"")},
         "knn k 20 top-1 %",
         {"40.0         -\n", "-         -\n"}},
        {{KNN("20", "false", "0.4", ON_D), KNN("20", "false", "0.7", ON_D ", \"temperature\": 0.0")},
         "knn k 20 top-1 %",
         {"40.0         -\n", "-         -\n"}},
        {{"", RETRIEVAL}, "retrieval average %", {"-         -\n", "17.0         -\n"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_run_log runs[2] = {evaluated(views, cases[i].lines[0]), evaluated(clip, cases[i].lines[1])};
        gf_text table = {0};
        gf_summary_text(&table, &(gf_report){.runs = runs, .count = 2});
        assert_non_null(strstr(table.at, cases[i].title));
        const char *at = strchr(table.at, '\n');
        for (int k = 0; k < 2; k++) {
            at = strstr(at, cases[i].score[k]);
            assert_non_null(at);
            assert_non_null(at = strchr(at, '\n'));
        }
        gf_text_free(&table);
        for (int k = 0; k < 2; k++) gf_run_log_free(&runs[k]);
    }
    remove(path_of("config.cfg"));
    remove(path_of("eval.jsonl"));
}

/* A run is set against that of its own seed under the first configuration, and those under it against nothing. */
static void runs_are_set_against_their_partners(void **state) {
    (void)state;
    enum { RUNS = 5 };
    static const char *const score[RUNS] = {"0.500", "0.375", "0.600", "0.400", "0.700"};
    static const int group[RUNS] = {0, 0, 1, 1, 1};
    gf_run_log runs[RUNS];
    gf_compared *compared = calloc(RUNS, sizeof *compared);
    gf_text table = {0};
    assert_non_null(compared);
    for (int i = 0; i < RUNS; i++) {
        char config[100], line[200];
        snprintf(config, sizeof config, "data = d\nseed = %d\n", i < 2 ? i + 1 : i - 1);
        snprintf(line, sizeof line, "{\"event\": \"knn\", \"protocol\": \"knn\", \"data\": \"d\", \"top1\": %s}\n", score[i]);
        runs[i] = evaluated(config, line);
        snprintf(runs[i].name, sizeof runs[i].name, "r%d", i);
        compared[i].group = group[i];
    }
    const gf_comparison c = {.runs = RUNS, .groups = 2, .run = compared};
    gf_summary_text(&table, &(gf_report){.runs = runs, .count = RUNS, .compare = &c});
    static const char *const rows[RUNS] = {"50.0         -\n", "37.5         -\n", "60.0     +10.0\n", "40.0      +2.5\n",
                                           "70.0         -\n"};
    for (int i = 0; i < RUNS; i++) assert_non_null(strstr(table.at, rows[i]));
    gf_text_free(&table);
    free(compared);
    for (int i = 0; i < RUNS; i++) gf_run_log_free(&runs[i]);
    remove(path_of("config.cfg"));
    remove(path_of("eval.jsonl"));
}

/* Bars beside each other are of one data, one truth and one share: of that of most detectors, of equals the newest. */
static void bars_are_of_one_kind(void **state) {
    (void)state;
#define LINEAR(data, fraction, top1)                                                                                    \
    "{\"event\": \"linear\", \"protocol\": \"paper\", \"data\": \"" data "\", \"test\": \"t\", \"fraction\": " fraction \
    ", \"top1\": " top1 "}\n"
#define FN(detector, truth, alpha, precision)                                                                   \
    "{\"event\": \"fn\", \"protocol\": \"views " detector truth "\", \"pairs\": \"views\", \"truth\": \"" truth \
    "\", \"detector\": \"" detector "\", \"alpha\": " alpha ", \"precision\": " precision "}\n"
    gf_run_log run = evaluated("data = d\ndetector = glofnd\n",
                               LINEAR("e", "0.5", "0.9301") LINEAR("d", "1", "0.5101") LINEAR("d", "0.1", "0.4101")
                                   LINEAR("e", "1", "0.9401") FN("glofnd", "labels", "0.1", "0.6101")
                                       FN("exact", "captions", "0.1", "0.9501") FN("exact", "labels", "0.1", "0.6201")
                                           FN("single", "labels", "0.1", "0.6301") FN("fnc", "labels", "0.2", "0.9601"));
    gf_text page = {0};
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    static const char *const there[] = {": 51.01</title>", ": 41.01</title>", ": 61.01</title>", ": 62.01</title>"};
    static const char *const not_there[] = {": 93.01</title>", ": 94.01</title>", ": 95.01</title>", ": 96.01</title>"};
    for (int i = 0; i < 4; i++) {
        assert_non_null(strstr(page.at, there[i]));
        assert_null(strstr(page.at, not_there[i]));
    }
    gf_text_free(&page);
    gf_run_log_free(&run);
    run =
        evaluated("data = d\ndetector = glofnd\n", FN("exact", "labels", "0.1", "0.9501") FN("exact", "labels", "0.3", "0.6401"));
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(page.at, ": 64.01</title>"));
    assert_null(strstr(page.at, ": 95.01</title>"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    remove(path_of("config.cfg"));
    remove(path_of("eval.jsonl"));
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_box, remove_empty_box)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_what_html_would_take),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(planes_end_at_ticks),
        cmocka_unit_test(draws_lines_and_gaps),
        cmocka_unit_test(ticks_have_few_zeros),
        cmocka_unit_test(maps_are_centred),
        cmocka_unit_test(says_when_there_is_nothing),
        IN_A_FOLDER(reads_a_run_and_makes_a_page),
        IN_A_FOLDER(epochs_keep_their_numbers),
        IN_A_FOLDER(tells_what_happened),
        IN_A_FOLDER(memory_is_kept_and_shown),
        IN_A_FOLDER(image_text_runs_speak_of_captions),
        IN_A_FOLDER(only_figures_of_one_kind_stand_together),
        IN_A_FOLDER(runs_are_set_against_their_partners),
        IN_A_FOLDER(bars_are_of_one_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
