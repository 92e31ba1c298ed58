/* unit_precision.c - the precision of a page: of all pairs, with the means over anchors named as such beside it; none where
 * nothing was flagged, and no word of it without labels. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/page.h"
#include "support/page_span.h"
#include "support/scratch.h"

static gf_run_log read_run(const char *config, const char *log) {
    gf_error err = {{0}};
    gf_run_log run;
    scratch_text(&box, "config.cfg", config);
    scratch_text(&box, "log.jsonl", log);
    if (gf_run_log_read(&err, box.folder, &run) != GLOFND_OK) fail_msg("%s", err.text);
    snprintf(run.name, sizeof run.name, "r");
    return run;
}

static const char config[] = "data = x\ndetector = glofnd\nstart_epoch = 0\nepochs = 1\n";

/* The sections about flags speak of labels only where there are some. */
TEST_WITH(no_labels_no_word, make_box, remove_box) {
    static const char *const lines[2] = {
        "{\"event\": \"epoch\", \"epoch\": 0, \"flagged\": 0.25, \"precision\": null}\n",
        "{\"event\": \"epoch\", \"epoch\": 0, \"flagged\": 0.25, \"precision\": 0.7, \"pooled_precision\": 0.4}\n"};
    static const char *const words[] = {"abels", "recision", "F1", "same class"};
    for (int labelled = 0; labelled < 2; labelled++) {
        gf_text page = {0};
        gf_run_log run = read_run(config, lines[labelled]);
        gf_page(&page, &(gf_report){.runs = &run, .count = 1});
        const page_span detection = span_section(page.at, "detection"), results = span_section(page.at, "results");
        for (int i = 0; i < 4; i++)
            if ((span_count(detection, words[i]) + span_count(results, words[i]) > 0) != labelled)
                fail_msg("%s: %s", labelled ? "labels" : "no labels", words[i]);
        gf_text_free(&page);
        gf_run_log_free(&run);
    }
}

/* An anchor without flagged pairs counts as 100 % in the means over anchors: no number for an epoch in which all do. */
TEST_WITH(nothing_flagged_is_no_precision, make_box, remove_box) {
    gf_text table = {0};
    gf_run_log run = read_run(config, "{\"event\": \"epoch\", \"epoch\": 0, \"loss\": 2, \"flagged\": 0, \"precision\": 1, "
                                      "\"recall\": 0.3, \"f1\": 0.46, \"pooled_precision\": null, \"pooled_recall\": 0}\n");
    assert_true(run.labelled && isnan(gf_run_last(&run, GF_RUN_PRECISION)) && isnan(gf_run_last(&run, GF_RUN_POOLED_F1)));
    gf_summary_text(&table, &(gf_report){.runs = &run, .count = 1});
    assert_non_null(strstr(table.at, "r    glofnd    2.000       0.00            -         -     -           -"));
    gf_text_free(&table);
    gf_run_log_free(&run);
}

/* Logs of earlier versions have no pooled F1: it follows. */
TEST_WITH(pooled_f1_follows, make_box, remove_box) {
    gf_run_log run = read_run(config, "{\"event\": \"epoch\", \"epoch\": 0, \"flagged\": 0.1, \"precision\": 0.9, "
                                      "\"pooled_precision\": 0.5, \"pooled_recall\": 0.25}\n");
    assert_true(fabs(gf_run_last(&run, GF_RUN_POOLED_F1) - 100.0 / 3.0) < 1e-9);
    gf_run_log_free(&run);
}
