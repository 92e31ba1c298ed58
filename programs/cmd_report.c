/* cmd_report.c - glofnd report: a table on stdout and a self-contained page about one or more runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "programs/comparing.h"
#include "report/page.h"
#include "run/progress.h"
#include "run/run_folder.h"

enum { SNAPSHOTS_MAX = 6 }; /* configurations whose network is shown */

typedef struct report_job {
    const char *out, *data;
    int quick, count;
    int64_t samples;
    char *const *paths;     /* [count] */
    gf_run_log *runs;       /* [count] */
    gf_snapshot *snapshots; /* [count]; NULL with quick */
    gf_comparison compare;
    gf_progress line;
    const char *name; /* of the run whose snapshot is made */
} report_job;

/* ----- snapshots of the networks ----- */

static void show_progress(void *user, const char *what, int64_t done, int64_t total) {
    report_job *j = user;
    char text[300];
    snprintf(text, sizeof text, "%.100s: %s %lld/%lld", j->name, what, (long long)done, (long long)total);
    gf_progress_draw(&j->line, done, total, text, done == total);
}

/* One run of a configuration is enough. */
static int is_first(const report_job *j, const gf_report *r, int run) {
    for (int i = 0; r->compare && i < run; i++)
        if (r->compare->run[i].group == r->compare->run[run].group && j->snapshots[i].made) return 0;
    return 1;
}

/* ----- the page ----- */

/* Without a comparison the page has no p-values, and gives the reason. */
static glofnd_status make_page(gf_error *err, report_job *j) {
    gf_error why = {{0}};
    gf_report r = {.runs = j->runs, .count = j->count};
    TRY(gf_own_files_check(err, "--out", j->out));
    for (int i = 0; i < j->count; i++) TRY(gf_run_log_read(err, j->paths[i], &j->runs[i]));
    TRY(gf_writer_check(err, j->out));
    if (gf_compare_read(&why, (const char *const *)j->paths, j->count, &j->compare) == GLOFND_OK) {
        gf_compare_select(&j->compare, NULL, 0);
        r.compare = &j->compare;
    }
    r.compare_why = why.text;
    if (!j->quick) {
        int made = 0;
        j->line = gf_progress_start(0, cli_progress_mode());
        for (int i = 0; i < j->count && made < SNAPSHOTS_MAX; i++) {
            if (!is_first(j, &r, i)) continue;
            j->name = j->runs[i].name;
            gf_snapshot_make(&(gf_snapshot_spec){.run = j->paths[i],
                                                 .data = j->data,
                                                 .samples = j->samples,
                                                 .progress = show_progress,
                                                 .user = j},
                             &j->snapshots[i]);
            made += j->snapshots[i].made;
            if (j->snapshots[i].step >= 0)
                gf_print(stderr, "glofnd report: %s: weights of step %lld\n", j->paths[i], (long long)j->snapshots[i].step);
            if (*j->snapshots[i].note) gf_print(stderr, "glofnd report: note: %s\n", j->snapshots[i].note);
            if (!j->snapshots[i].made)
                gf_print(stderr, "glofnd report: no pictures of %s: %s\n", j->paths[i], j->snapshots[i].why);
        }
        gf_progress_end(&j->line);
    }
    r.snapshots = j->snapshots;
    const char *path = j->out;
    gf_text page = {0};
    gf_page(&page, &r);
    gf_writer_clean(path);
    const glofnd_status status =
        page.failed ? gf_fail(err, GLOFND_E_MEMORY, "no memory for the page") : gf_file_write(err, path, page.at, page.used);
    gf_text_free(&page);
    TRY(status);
    gf_text table = {0};
    gf_summary_text(&table, &r);
    if (table.at) gf_print_lines(stdout, table.at);
    gf_text_free(&table);
    gf_print(stdout, "\npage %s\n", j->out);
    return GLOFND_OK;
}

typedef struct report_flags {
    const char *out, *data;
    int64_t samples;
    int32_t quick;
} report_flags;

static const gf_option rows[] = {
    CLI_STRING(report_flags, out, "out", "FILE.html", "output page; default: report.html in the folder of the first run"),
    CLI_STRING(report_flags, data, "data", "SPEC", "images to show; default: those each run was trained on"),
    CLI_INTEGER(report_flags, samples, "samples", "N", "1500", 10, 100000,
                "number of random images for pictures, maps and thresholds"),
    CLI_SWITCH(report_flags, quick, "quick", "use only the logs: no pictures, maps or thresholds"),
};

static int run_report(const cli_call *call, const void *flags) {
    const report_flags *f = flags;
    report_job j = {.out = f->out, .data = f->data, .quick = f->quick, .samples = f->samples, .paths = call->word};
    j.count = compare_choose_runs("report", call->word, call->words);
    gf_error err = {{0}};
    if (j.count == 0) return cli_failed("report", gf_fail(&err, GLOFND_E_ARGUMENT, COMPARE_NO_RUN), &err);
    char out[1100];
    snprintf(out, sizeof out, "%.1000s/report.html", j.paths[0]);
    if (!j.out) j.out = out;
    j.runs = calloc((size_t)j.count, sizeof *j.runs);
    j.snapshots = j.quick ? NULL : calloc((size_t)j.count, sizeof *j.snapshots);
    glofnd_status status = j.runs && (j.snapshots || j.quick) ? make_page(&err, &j)
                                                              : gf_fail(&err, GLOFND_E_MEMORY, "no memory for %d runs", j.count);
    for (int i = 0; i < j.count; i++) {
        if (j.runs) gf_run_log_free(&j.runs[i]);
        if (j.snapshots) gf_snapshot_free(&j.snapshots[i]);
    }
    free(j.runs);
    free(j.snapshots);
    gf_compare_free(&j.compare);
    return status == GLOFND_OK ? CLI_OK : cli_failed("report", status, &err);
}

const cli_verb cmd_report = {
    .name = "report",
    .summary = "write an HTML page about runs: results, figures, curves, maps",
    .usage = "glofnd report RUN... [--out report.html] [--data SPEC] [--samples N] [--quick]\n"
             "One self-contained page about one run or several side by side: results, figures, curves, maps. "
             "Also while a run continues. Runs of one configuration and several seeds are shown as mean and spread.",
    CLI_FLAGS(rows, report_flags),
    .word = "RUN",
    .word_help = "the folder of a run, or of several",
    .min_words = 1,
    .max_words = GF_PAGE_RUNS,
    .shows_progress = 1,
    .run = run_report,
};
