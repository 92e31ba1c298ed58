/* unit_report.c - the text buffer, and the page and the table made of a run folder. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/compare.h"
#include "report/page.h"
#include "run/run_folder.h"
#include "support/page_span.h"
#include "support/scratch.h"

TEST(escapes_what_html_would_take) {
    gf_text t = {0};
    gf_text_escape(&t, "<a href=\"x\">&'\x01\xff \xc3\xa9\xe2\x82");
    assert_string_equal(t.at, "&lt;a href=&quot;x&quot;&gt;&amp;&#39;?? \xc3\xa9??");
    gf_text_free(&t);
    /* longer than needed, a surrogate, too large, an apple */
    gf_text_escape(&t, "\xe0\x80\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xf0\x9f\x8d\x8e");
    assert_string_equal(t.at, "??? ??? ???? \xf0\x9f\x8d\x8e");
    const size_t before = t.used;
    for (int i = 0; i < 1000; i++) gf_text_add(&t, "%03d,", i);
    assert_false(t.failed);
    assert_int_equal(strlen(t.at), t.used);
    assert_int_equal(t.used, before + 4000);
    for (int i = 0; i < 1000; i++) assert_int_equal(strtol(t.at + before + 4 * (size_t)i, NULL, 10), i);
    gf_text_free(&t);
}

static const char log_lines[] =
    "{\"event\": \"step\", \"step\": 1, \"loss\": 9}\n"
    "{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 2.5, \"flagged\": 0.0, \"precision\": null}\n"
    "{\"event\": \"epoch\", \"epoch\": 1, \"loss\": 1.25, \"lambda\": 0.5, \"flagged\": 0.05, \"precision\": 0.8, "
    "\"recall\": 0.3, \"f1\": 0.436, \"pooled_precision\": 0.5, \"pooled_recall\": 0.25}\n"
    "{\"event\": \"epo";

/* On the run's own data: untrained, an old one, the newest of its kind, and two newer ones of other kinds. The last one has equal
 * votes as older versions wrote them. */
#define KNN(k, untrained, top1, rest) \
    "{\"event\": \"knn\", \"protocol\": \"knn\", \"untrained\": " untrained ", \"k\": " k ", \"top1\": " top1 rest "}\n"
#define OWN ", \"data\": \"shapes:<i>&n=10\", \"test\": \"<t>\""
static const char eval_lines[] = KNN("20", "false", "0.2", ", \"data\": \"other\", \"test\": \"u\"") KNN("20", "true", "0.1", OWN)
    KNN("20", "false", "0.3", OWN) KNN("20", "false", "0.4", OWN) KNN("5", "false", "0.9", OWN)
        KNN("20", "false", "0.8", OWN ", \"temperature\": 0.0");

static gf_run_log read_run(void) {
    gf_error err = {{0}};
    gf_run_log run;
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    return run;
}

static void remove_run(void) {
    static const char *const files[] = {"config.cfg", "log.jsonl", "eval.jsonl", GF_MEMORY_FILE};
    for (int i = 0; i < 4; i++) remove(path_of(files[i]));
}

TEST_WITH(no_config_is_no_run, make_box, remove_empty_box) {
    gf_error err = {{0}};
    gf_run_log run;
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_E_IO);
}

/* The newest evaluation of a kind counts; the torn last line of the log does not. */
TEST_WITH(reads_a_run, make_box, remove_empty_box) {
    scratch_text(&box, "config.cfg", "data = shapes:<i>&n=10\nalpha = 0.05\ndetector = glofnd\n");
    scratch_text(&box, "log.jsonl", log_lines);
    gf_run_log run = read_run();
    gf_score s = gf_score_choose(&(gf_report){.runs = &run, .count = 1});
    assert_true(!s.like && isnan(gf_score_of(&s, &run, 0)));
    assert_string_equal(s.name, "kNN top-1 %");
    gf_run_log_free(&run);
    scratch_text(&box, "eval.jsonl", eval_lines);
    run = read_run();
    assert_int_equal(run.epochs, 2);
    assert_int_equal(run.skipped, 0);
    assert_true(run.field[GF_RUN_LOSS][0] == 2.5 && run.field[GF_RUN_LOSS][1] == 1.25);
    assert_true(isnan(run.field[GF_RUN_PRECISION][0]) && run.field[GF_RUN_POOLED_PRECISION][1] == 50.0);
    assert_true(fabs(gf_run_last(&run, GF_RUN_FLAGGED) - 5.0) < 1e-9);
    assert_int_equal(run.eval.count, 5);
    s = gf_score_choose(&(gf_report){.runs = &run, .count = 1});
    assert_string_equal(s.name, "knn k 20 top-1 %");
    assert_true(fabs(gf_score_of(&s, &run, 0) - 40.0) < 1e-9 && fabs(gf_score_of(&s, &run, 1) - 10.0) < 1e-9);
    gf_run_log_free(&run);
    scratch_text(&box, "log.jsonl", "no json\n{\"event\": \"epoch\", \"loss\": 3}\n[1]\n");
    run = read_run();
    assert_int_equal(run.skipped, 2);
    assert_int_equal(run.epochs, 1);
    assert_true(gf_run_last(&run, GF_RUN_LOSS) == 3.0);
    gf_run_log_free(&run);
    remove_run();
}

static void set_top1(gf_eval_line *e, double x) {
    int rows;
    const gf_eval_key *row = gf_eval_keys(e->event, &rows);
    for (int i = 0; i < rows; i++)
        if (strcmp(row[i].key, "top1") == 0) e->value[i] = x;
}

/* Two runs: one from the log, one with a different detector and alpha, and a score of 38. */
static void make_two_runs(gf_run_log runs[2]) {
    scratch_text(&box, "config.cfg", "data = shapes:<i>&n=10\nalpha = 0.05\ndetector = glofnd\nstart_epoch = 0\n");
    scratch_text(&box, "log.jsonl", log_lines);
    scratch_text(&box, "eval.jsonl", eval_lines);
    for (int i = 0; i < 2; i++) {
        runs[i] = read_run();
        snprintf(runs[i].name, sizeof runs[i].name, "r%d", i);
    }
    for (int i = 0; i < runs[1].eval.count; i++) set_top1(&runs[1].eval.line[i], 0.38);
    runs[1].config.method.alpha = 0.25;
    runs[1].config.method.detector = GLOFND_DETECT_FNC;
    remove_run();
}

TEST_WITH(the_table_has_a_row_per_run, make_box, remove_empty_box) {
    gf_run_log runs[2];
    gf_text table = {0};
    make_two_runs(runs);
    gf_summary_text(&table, &(gf_report){.runs = runs, .count = 2});
    assert_string_equal(table.at, "run          detector   loss  flagged %  precision %  recall %  F1 %          per anchor  "
                                  "knn k 20 top-1 %  vs first\n"
                                  "(untrained)  -             -          -            -         -     -                   -  "
                                  "            10.0     -30.0\n"
                                  "r0           glofnd    1.250       5.00         50.0      25.0  33.3  80.0 / 30.0 / 43.6  "
                                  "            40.0         -\n"
                                  "r1           fnc       1.250       5.00         50.0      25.0  33.3  80.0 / 30.0 / 43.6  "
                                  "            38.0      -2.0\n"
                                  "knn k 20 top-1 %: data shapes:<i>&n=10, test <t>\n");
    gf_text_free(&table);
    for (int i = 0; i < 2; i++) gf_run_log_free(&runs[i]);
}

TEST_WITH(a_page_has_the_numbers_of_the_log, make_box, remove_empty_box) {
    static const struct {
        const char *section, *figure, *values;
    } charts[] = {
        {"detection", "Pairs flagged as false negatives", "data-x=\"1,2\" data-y=\"0,5\""},
        {"detection", "Precision", "data-x=\"1,2\" data-y=\",50\""},
        {"detection", "Recall", "data-x=\"1,2\" data-y=\",25\""},
        {"detection", "F1", "data-x=\"1,2\" data-y=\",33.3333\""},
        {"detection", "F1 per anchor", "data-x=\"1,2\" data-y=\",43.6\""},
        {"detection", "Mean threshold λ", "data-x=\"1,2\" data-y=\",0.5\""},
        {"training", "Loss", "data-x=\"1,2\" data-y=\"2.5,1.25\""},
    };
    gf_run_log runs[2];
    gf_text page = {0};
    make_two_runs(runs);
    gf_page(&page, &(gf_report){.runs = runs, .count = 2, .compare_why = "<why>"});
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) {
        const page_span figure = span_figure(span_section(page.at, charts[i].section), charts[i].figure);
        const int learned = strcmp(charts[i].figure, "Mean threshold λ") == 0; /* by r0 alone */
        assert_int_equal(span_count(figure, charts[i].values), learned ? 1 : 2);
        assert_int_equal(span_count(figure, " data-y=\""), learned ? 1 : 2);
    }
    assert_span_has(span_section(page.at, "results"), "&lt;why&gt;");
    assert_span_has(span_section(page.at, "results"),
                    "; training data <code>shapes:&lt;i&gt;&amp;n=10</code>, test data <code>&lt;t&gt;</code>");
    assert_span_has(span_between(span_of(page.at), "<header>", "</header>"), "<code>shapes:&lt;i&gt;&amp;n=10</code>");
    const page_span config = span_section(page.at, "config"), differ = span_between(config, "<h3>", "<details>");
    assert_span_has(differ, "<th scope=\"col\">r0</th><th scope=\"col\">r1</th>");
    assert_span_has(differ, "<code>alpha</code></th><td><code>0.05</code></td><td><code>0.25</code>");
    assert_span_has(differ, "<code>detector</code></th><td><code>glofnd</code></td><td><code>fnc</code>");
    assert_int_equal(span_count(config, "<code>alpha</code>"), 1);
    assert_span_has(span_between(config, "<details>", "</details>"),
                    "<code>data</code></th><td><code>shapes:&lt;i&gt;&amp;n=10</code></td></tr>");
    static const char *const never[] = {"<i>", "<t>", "http:", "https:", "nan"};
    for (int i = 0; i < 5; i++) assert_null(strstr(page.at, never[i]));
    gf_text_free(&page);
    for (int i = 0; i < 2; i++) gf_run_log_free(&runs[i]);
}

/* In a log that was shortened at its beginning, or in the middle, epochs keep their numbers; one without a number that can be
 * follows the one before. */
TEST_WITH(epochs_keep_their_numbers, make_box, remove_empty_box) {
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
    assert_span_has(span_between(span_of(page.at), "<span class=\"badge\">", "</span>"), " is not finished: epoch 6 of 9");
    assert_span_has(span_figure(span_section(page.at, "detection"), "Pairs flagged as false negatives"),
                    "data-x=\"1,2,3,4,5,6\" data-y=\",,25,50,,75\"");
    assert_span_has(span_figure(span_section(page.at, "training"), "Loss"), "data-x=\"1,2,3,4,5,6\" data-y=\",,2.5,2.25,,2\"");
    assert_null(strstr(page.at, "nan"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    scratch_text(&box, "log.jsonl",
                 "{\"event\": \"epoch\", \"epoch\": 1e9, \"loss\": 1}\n{\"event\": \"epoch\", \"epoch\": -1, \"loss\": 2}\n"
                 "{\"event\": \"epoch\", \"epoch\": \"x\", \"loss\": 3}\n{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 4}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_int_equal(run.epochs, 3);
    assert_true(run.field[GF_RUN_LOSS][0] == 4.0 && run.field[GF_RUN_LOSS][1] == 2.0 && run.field[GF_RUN_LOSS][2] == 3.0);
    gf_run_log_free(&run);
    remove_run();
}

/* Without labels the tiles leave out right and wrong; with them, they have the numbers of the last epoch. */
TEST_WITH(tiles_have_the_last_epoch, make_box, remove_empty_box) {
    static const char *const lines[2] = {
        "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"flagged\": 0.25, \"precision\": null, \"pooled_precision\": 0.0, "
        "\"pooled_recall\": null}\n",
        "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"flagged\": 0.25, \"precision\": 0.7, \"pooled_precision\": 0.4, "
        "\"pooled_recall\": 0.5}\n"};
#define TILE(number, text) "<div class=\"tile\"><b>" number "</b><span>" text "</span></div>\n"
#define FLAGGED TILE("25\u00a0%", "of all pairs were flagged in the last epoch; the target α is 20 %")
    static const char *const tiles[2] = {
        FLAGGED,
        FLAGGED TILE("40\u00a0%", "of the flagged pairs have the same class; mean over anchors, as the paper counts: 70\u00a0% "
                                  "(labels serve this measurement, not training)")
            TILE("2.0×", "the rate of random pairs, of which 20 % have the same class")};
    scratch_text(&box, "config.cfg", "data = x\nalpha = 0.2\ndetector = glofnd\nstart_epoch = 0\nepochs = 1\n");
    for (int labelled = 0; labelled < 2; labelled++) {
        gf_text page = {0};
        scratch_text(&box, "log.jsonl", lines[labelled]);
        gf_run_log run = read_run();
        gf_page(&page, &(gf_report){.runs = &run, .count = 1});
        const page_span shown = span_between(span_of(page.at), "<div class=\"tiles\">\n", "</div>\n<nav>");
        assert_int_equal(shown.n, strlen("<div class=\"tiles\">\n") + strlen(tiles[labelled]));
        assert_memory_equal(shown.at + strlen("<div class=\"tiles\">\n"), tiles[labelled], strlen(tiles[labelled]));
        assert_null(strstr(page.at, "nan"));
        gf_text_free(&page);
        gf_run_log_free(&run);
    }
    remove_run();
}

/* memory.json is read back as written; a corrupt file counts as none; the page has the parts and the rest of the peak. */
TEST_WITH(memory_is_kept_and_shown, make_box, remove_empty_box) {
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
    page_span figure = span_figure(span_section(page.at, "cost"), "Memory");
    assert_span_has(figure, ">100 MB</text>");
    assert_span_has(figure, "<title>weights and gradients: 10 MB, 10.0 %</title>");
    assert_span_has(figure, "<title>optimizer: 5 MB, 5.0 %</title>");
    assert_span_has(figure, "<title>activations: 60 MB, 60.0 %</title>");
    assert_span_has(figure, "<title>workspace: 1 MB, 1.0 %</title>");
    assert_span_has(figure, "<title>loss and anchors: 2 MB, 2.0 %</title>");
    assert_span_has(figure, "<title>batches and images: 3 MB, 3.0 %</title>");
    assert_span_has(figure, "<rect class=\"rest\" x=\"416.2\" y=\"20\" width=\"95.8\" height=\"22\">"
                            "<title>rest: 19 MB, 19.0 %</title>");
    assert_span_has(span_section(page.at, "cost"),
                    "<b>20\u00a0kB</b>, 20 bytes for each of 1000, 0.025\u00a0% of the <b>81\u00a0MB</b>");
    gf_text_free(&page);
    gf_run_log_free(&run);
    m.gpu = 1, m.bytes.peak = 82500000000;
    assert_int_equal(gf_memory_write(&err, box.folder, &m), GLOFND_OK);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_true(run.memory.gpu);
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    figure = span_figure(span_section(page.at, "cost"), "Memory");
    assert_span_has(figure, ">82.5 GB</text>");
    assert_span_has(figure, "GPU memory; ");
    gf_text_free(&page);
    gf_run_log_free(&run);
    m.bytes.data = -1;
    assert_int_equal(gf_memory_write(&err, box.folder, &m), GLOFND_OK);
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_false(run.memory.known);
    gf_run_log_free(&run);
    scratch_text(&box, GF_MEMORY_FILE, "{\"device\": \"cpu\", \"step\": 7, \"ranks\": 1, \"anchors\": 5}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_false(run.memory.known);
    assert_int_equal(run.memory.step, 0);
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_span_has(span_figure(span_section(page.at, "cost"), "Memory"), "Not recorded");
    gf_text_free(&page);
    gf_run_log_free(&run);
    remove_run();
}

/* Pages of image-text runs have captions and retrieval, not nearest neighbours; without a detector there is no precision. */
TEST_WITH(image_text_runs_have_retrieval, make_box, remove_empty_box) {
    gf_error err = {{0}};
    gf_run_log run;
    gf_text page = {0}, table = {0};
    scratch_text(&box, "config.cfg", "data = x\ntask = clip\nloss = sogclr2\ndetector = none\n");
    scratch_text(&box, "log.jsonl", "{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 2, \"flagged\": 0.0001, \"precision\": 1}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    assert_true(isnan(gf_run_last(&run, GF_RUN_PRECISION)));
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    assert_span_has(span_between(span_of(page.at), "<p class=\"intro\">", "</p>"), "captions that fit it");
    assert_span_has(span_section(page.at, "results"), "glofnd eval retrieval RUN");
    assert_span_has(span_figure(span_section(page.at, "labels"), "Retrieval"), "glofnd eval retrieval RUN");
    assert_int_equal(span_count(span_section(page.at, "detection"), "Precision"), 0);
    assert_null(strstr(page.at, "glofnd eval knn"));
    gf_text_free(&page);
    gf_run_log_free(&run);
    scratch_text(&box, "eval.jsonl",
                 "{\"event\": \"retrieval\", \"data\": \"d\", \"test\": \"e\", \"untrained\": false, \"ir1\": 0.1, \"ir5\": 0.2, "
                 "\"ir10\": 0.3, \"tr1\": 0.2, \"tr5\": 0.3, \"tr10\": 0.4, \"mean\": 0.25}\n");
    assert_int_equal(gf_run_log_read(&err, box.folder, &run), GLOFND_OK);
    const gf_score s = gf_score_choose(&(gf_report){.runs = &run, .count = 1});
    assert_true(fabs(gf_score_of(&s, &run, 0) - 25.0) < 1e-9 && isnan(gf_score_of(&s, &run, 1)));
    snprintf(run.name, sizeof run.name, "r");
    gf_summary_text(&table, &(gf_report){.runs = &run, .count = 1});
    assert_string_equal(table.at, "run  detector   loss  flagged %  retrieval average %  vs first\n"
                                  "r    none      2.000       0.01                 25.0         -\n"
                                  "retrieval average %: data d, test e\n");
    gf_text_free(&table);
    static const char *const recalls[] = {"IR@1: 10.00<", "IR@5: 20.00<", "IR@10: 30.00<",
                                          "TR@1: 20.00<", "TR@5: 30.00<", "TR@10: 40.00<"};
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    for (int i = 0; i < 6; i++) assert_span_has(span_figure(span_section(page.at, "labels"), "Retrieval"), recalls[i]);
    gf_text_free(&page);
    gf_run_log_free(&run);
    remove_run();
}

static gf_run_log evaluated(const char *config, const char *lines, const char *name) {
    scratch_text(&box, "config.cfg", config);
    scratch_text(&box, "eval.jsonl", lines);
    gf_run_log run = read_run();
    snprintf(run.name, sizeof run.name, "%s", name);
    return run;
}

/* The table has this score as its last column but one, and these rows of runs r0, r1, ... that logged no epoch. */
static void assert_table(const char *table, const char *title, int runs, const char *const *score, const char *const *gain) {
    char line[200];
    const int width = (int)strlen(title);
    int n = snprintf(line, sizeof line, "run  detector  loss  flagged %%  %s  vs first\n", title);
    assert_memory_equal(table, line, (size_t)n);
    for (int i = 0; i < runs; i++) {
        table = strchr(table, '\n') + 1;
        n = snprintf(line, sizeof line, "r%d   glofnd       -          -  %*s  %8s\n", i, width, score[i], gain[i]);
        assert_memory_equal(table, line, (size_t)n);
    }
}

#define ON_D ", \"data\": \"d\", \"test\": \"t\""
#define RETRIEVAL "{\"event\": \"retrieval\", \"protocol\": \"retrieval\", \"data\": \"d\", \"test\": \"d\", \"mean\": 0.17}\n"

/* A run on images and a run on images and texts: a score that both have comes first; else that of one run. */
TEST_WITH(only_comparable_scores_share_a_column, make_box, remove_empty_box) {
    static const char views[] = "data = d\ndetector = glofnd\n";
    static const char clip[] = "data = d\ntask = clip\nloss = sogclr2\ndetector = glofnd\n";
    static const struct {
        const char *lines[2]; /* of a run on images, of one of images and texts */
        const char *title, *score[2], *gain;
    } cases[] = {
        {{KNN("20", "false", "0.4", ON_D), RETRIEVAL}, "knn k 20 top-1 %", {"40.0", "-"}, "-"},
        {{KNN("20", "false", "0.4", ON_D), RETRIEVAL KNN("20", "false", "0.7", ON_D)},
         "knn k 20 top-1 %",
         {"40.0", "70.0"},
         "+30.0"},
        {{KNN("20", "false", "0.4", ON_D), KNN("5", "false", "0.7", ON_D)}, "knn k 20 top-1 %", {"40.0", "-"}, "-"},
        {{KNN("20", "false", "0.4", ON_D) KNN("5", "false", "0.6", ON_D), KNN("5", "false", "0.7", ON_D)},
         "knn k 5 top-1 %",
         {"60.0", "70.0"},
         "+10.0"},
        {{KNN("20", "false", "0.4", ON_D), KNN("20", "false", "0.7", ", \"data\": \"d\", \"test\": \"other\"")},
         "knn k 20 top-1 %",
         {"40.0", "-"},
         "-"},
        {{KNN("20", "false", "0.4", ON_D), KNN("20", "false", "0.7", ON_D ", \"temperature\": 0.0")},
         "knn k 20 top-1 %",
         {"40.0", "-"},
         "-"},
        {{"", RETRIEVAL}, "retrieval average %", {"-", "17.0"}, "-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_run_log runs[2] = {evaluated(views, cases[i].lines[0], "r0"), evaluated(clip, cases[i].lines[1], "r1")};
        gf_text table = {0};
        gf_summary_text(&table, &(gf_report){.runs = runs, .count = 2});
        assert_table(table.at, cases[i].title, 2, cases[i].score, (const char *const[]){"-", cases[i].gain});
        gf_text_free(&table);
        for (int k = 0; k < 2; k++) gf_run_log_free(&runs[k]);
    }
    remove_run();
}

/* The baseline of a run is the run of the same seed under the first configuration; runs of that configuration have none. */
TEST_WITH(runs_have_a_baseline_of_their_seed, make_box, remove_empty_box) {
    enum { RUNS = 5 };
    static const char *const score[RUNS] = {"0.500", "0.375", "0.600", "0.400", "0.700"};
    static const int group[RUNS] = {0, 0, 1, 1, 1};
    gf_run_log runs[RUNS];
    gf_compared *compared = calloc(RUNS, sizeof *compared);
    gf_text table = {0};
    assert_non_null(compared);
    for (int i = 0; i < RUNS; i++) {
        char config[100], line[200], name[16];
        snprintf(config, sizeof config, "data = d\ndetector = glofnd\nseed = %d\n", i < 2 ? i + 1 : i - 1);
        snprintf(name, sizeof name, "r%d", i);
        snprintf(line, sizeof line, "{\"event\": \"knn\", \"protocol\": \"knn\", \"data\": \"d\", \"top1\": %s}\n", score[i]);
        runs[i] = evaluated(config, line, name);
        compared[i].group = group[i];
    }
    const gf_comparison c = {.runs = RUNS, .groups = 2, .run = compared};
    gf_summary_text(&table, &(gf_report){.runs = runs, .count = RUNS, .compare = &c});
    static const char *const scores[RUNS] = {"50.0", "37.5", "60.0", "40.0", "70.0"};
    assert_table(table.at, "knn top-1 %", RUNS, scores, (const char *const[]){"-", "-", "+10.0", "+2.5", "-"});
    gf_text_free(&table);
    free(compared);
    for (int i = 0; i < RUNS; i++) gf_run_log_free(&runs[i]);
    remove_run();
}

/* All bars have the same data, truth and alpha: those of most detectors, of several the newest. */
TEST_WITH(bars_are_comparable, make_box, remove_empty_box) {
#define LINEAR(data, fraction, top1)                                                                                    \
    "{\"event\": \"linear\", \"protocol\": \"paper\", \"data\": \"" data "\", \"test\": \"t\", \"fraction\": " fraction \
    ", \"top1\": " top1 "}\n"
#define FN(detector, truth, alpha, precision)                                                                   \
    "{\"event\": \"fn\", \"protocol\": \"views " detector truth "\", \"pairs\": \"views\", \"truth\": \"" truth \
    "\", \"detector\": \"" detector "\", \"alpha\": " alpha ", \"pooled_precision\": " precision "}\n"
    gf_run_log run = evaluated("data = d\ndetector = glofnd\n",
                               LINEAR("e", "0.5", "0.9301") LINEAR("d", "1", "0.5101") LINEAR("d", "0.1", "0.4101")
                                   LINEAR("e", "1", "0.9401") FN("glofnd", "labels", "0.1", "0.6101")
                                       FN("exact", "labels", "0.1", "0.6201") FN("exact", "captions", "0.1", "0.9501")
                                           FN("single", "labels", "0.1", "0.6301") FN("fnc", "labels", "0.2", "0.9601"),
                               "r");
    gf_text page = {0};
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    page_span figure = span_figure(span_section(page.at, "labels"), "Linear classifier with few labels");
    assert_int_equal(span_count(figure, "<rect class=\"f0\" x"), 2);
    assert_span_has(figure, ">r, 100 %: 51.01</title>");
    assert_span_has(figure, ">r, 10 %: 41.01</title>");
    figure = span_figure(span_section(page.at, "detection"), "Detectors with the trained network of r");
    assert_int_equal(span_count(figure, ", precision: "), 3);
    assert_span_has(figure, ">GloFND, learned, precision: 61.01</title>");
    assert_span_has(figure, ">exact quantile, precision: 62.01</title>");
    assert_span_has(figure, ">one threshold for all, precision: 63.01</title>");
    gf_text_free(&page);
    gf_run_log_free(&run);
    run = evaluated("data = d\ndetector = glofnd\n",
                    FN("exact", "labels", "0.1", "0.9501") FN("exact", "labels", "0.3", "0.6401"), "r");
    gf_page(&page, &(gf_report){.runs = &run, .count = 1});
    figure = span_figure(span_section(page.at, "detection"), "Detectors with the trained network of r");
    assert_int_equal(span_count(figure, ", precision: "), 1);
    assert_span_has(figure, ">exact quantile, precision: 64.01</title>");
    gf_text_free(&page);
    gf_run_log_free(&run);
    remove_run();
}
