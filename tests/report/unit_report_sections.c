/* unit_report_sections.c - sections of a page: thresholds, detection, header, notes. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "support/scratch.h"

/* ----- thresholds ----- */

enum { ANCHORS = 50 };

/* The figure of thresholds, lambda from `from` on in steps, the exact ones around 0.6 and FNC's up to 0.999. */
static gf_text thresholds_of(float from, float step) {
    float lambda[ANCHORS], optimum[ANCHORS], fnc[ANCHORS];
    static gf_run_log run;
    gf_snapshot snapshot;
    gf_text t = {0};
    for (int i = 0; i < ANCHORS; i++)
        lambda[i] = from + step * (float)i, optimum[i] = 0.5f + 0.004f * (float)i, fnc[i] = 0.999f - 0.01f * (float)i;
    snapshot = (gf_snapshot){.made = 1, .alpha = 0.1, .sides = 1};
    snapshot.side[0] = (gf_snapshot_side){.learned = ANCHORS,
                                          .lambda = {lambda, ANCHORS},
                                          .optimum = {optimum, ANCHORS},
                                          .fnc = {fnc, ANCHORS},
                                          .lambda_mae = 0.1,
                                          .fnc_mae = 0.2};
    run.config.method.detector = GLOFND_DETECT_GLOFND;
    gf_section_thresholds(&t, &(gf_report){.runs = &run, .count = 1, .snapshots = &snapshot});
    return t;
}

static double attribute(const char *text, const char *name) {
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

TEST(thresholds_that_are_all_the_same_are_a_line) {
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

TEST(densities_stay_within_similarities) {
    gf_text t = thresholds_of(0.25f, 0.01f);
    assert_true(attribute(t.at, "data-x1=\"") <= 1.0);
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
TEST_WITH(lambda_of_images_is_theirs, make_box, remove_empty_box) {
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

/* The header gives common values, and ranges or counts of different ones. */
TEST_WITH(the_header_covers_all_runs, make_box, remove_empty_box) {
    gf_run_log runs[3] = {run_of("data = <d>\nbatch = 32\nepochs = 3\n", ""), run_of("data = <d>\nbatch = 32\nepochs = 3\n", ""),
                          run_of("data = e\nbatch = 64\nepochs = 10\narch = resnet50\n", "")};
    gf_text t = {0};
    gf_section_header(&t, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(t.at, ", batch 32, 3 epochs on <code>&lt;d&gt;</code></p>"));
    gf_text_free(&t);
    gf_section_header(&t, &(gf_report){.runs = runs, .count = 3});
    assert_non_null(strstr(t.at, ">2 architectures, batch 32 to 64, 3 to 10 epochs on 2 datasets</p>"));
    gf_text_free(&t);
    for (int i = 0; i < 3; i++) gf_run_log_free(&runs[i]);
}

/* For images and texts there is one view; what was not measured has no protocol. */
TEST_WITH(notes_are_true, make_box, remove_empty_box) {
    static const char steps[] = "{\"event\": \"step\", \"step\": 1, \"images_per_s\": 5}\n"
                                "{\"event\": \"step\", \"step\": 2, \"images_per_s\": 6}\n";
    gf_run_log runs[2] = {run_of("data = d\n", steps), run_of("data = d\ntask = clip\nloss = sogclr2\n", steps)};
    gf_text t = {0};
    gf_section_training(&t, &(gf_report){.runs = runs, .count = 1});
    assert_non_null(strstr(t.at, "Each image has two views.<"));
    gf_text_free(&t);
    gf_section_training(&t, &(gf_report){.runs = runs + 1, .count = 1});
    assert_null(strstr(t.at, "two views"));
    gf_text_free(&t);
    gf_section_training(&t, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(t.at, "Each image has two views; in image-text runs it has one."));
    gf_text_free(&t);
    gf_section_features(&t, &(gf_report){.runs = runs, .count = 2});
    assert_non_null(strstr(t.at, "Not evaluated yet: <code>glofnd eval linear"));
    assert_null(strstr(t.at, "protocol"));
    gf_text_free(&t);
    for (int i = 0; i < 2; i++) gf_run_log_free(&runs[i]);
}

/* kNN while training is a curve over the epochs that measured it, and absent where none did. */
TEST_WITH(knn_while_training_is_a_curve, make_box, remove_empty_box) {
    gf_run_log runs[2] = {run_of("data = d\n", "{\"event\": \"epoch\", \"step\": 1, \"epoch\": 0, \"knn\": 0.25}\n"
                                               "{\"event\": \"epoch\", \"step\": 2, \"epoch\": 1}\n"
                                               "{\"event\": \"epoch\", \"step\": 3, \"epoch\": 2, \"knn\": 0.5}\n"),
                          run_of("data = d\n", "{\"event\": \"epoch\", \"step\": 1, \"epoch\": 0}\n")};
    gf_text t = {0};
    gf_section_training(&t, &(gf_report){.runs = runs, .count = 2});
    const char *chart = strstr(t.at, "kNN while training");
    assert_non_null(chart);
    assert_non_null(strstr(chart, "data-x=\"1,3\" data-y=\"25,50\""));
    gf_text_free(&t);
    gf_section_training(&t, &(gf_report){.runs = runs + 1, .count = 1});
    assert_null(strstr(t.at, "kNN while training"));
    gf_text_free(&t);
    for (int i = 0; i < 2; i++) gf_run_log_free(&runs[i]);
}

/* A long run keeps its first and last point. */
TEST_WITH(long_curves_are_thinned, make_box, remove_empty_box) {
    gf_text log = {0}, t = {0};
    for (int e = 0; e < 500; e++)
        gf_text_add(&log, "{\"event\": \"epoch\", \"step\": %d, \"epoch\": %d, \"knn\": %g}\n", e + 1, e, e / 1000.0);
    gf_run_log run = run_of("data = d\n", log.at);
    gf_section_training(&t, &(gf_report){.runs = &run, .count = 1});
    const char *chart = strstr(t.at, "kNN while training");
    assert_non_null(chart);
    const char *x = strstr(chart, "data-x=\"1,"), *end = x ? strchr(x + 8, '"') : NULL;
    assert_non_null(end);
    assert_memory_equal(end - 4, ",500", 4);
    int points = 1;
    for (const char *p = x; p < end; p++) points += *p == ',';
    assert_int_equal(points, 160);
    gf_text_free(&t);
    gf_text_free(&log);
    gf_run_log_free(&run);
}

TEST(long_names_may_be_broken) {
    gf_text t = {0};
    gf_page_name(&t, "knn (a:n=1,<b>=2/c_d,)");
    assert_string_equal(t.at, "knn (a:n=1,<wbr>&lt;b&gt;=2/<wbr>c_<wbr>d,<wbr>)");
    gf_text_free(&t);
}
