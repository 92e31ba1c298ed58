/* cmd_compare.c - glofnd compare: runs grouped by configuration, mean (std) over seeds, p-values against the first group. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "programs/comparing.h"
#include "run/run_folder.h"

#define FORMATS(X) X(text) X(csv) X(json) X(latex)
#define NAME(format) #format,
#define WRITER(format) gf_compare_##format,
static const char *const format_names[] = {FORMATS(NAME) NULL};
static void (*const writers[])(gf_text *, const gf_comparison *) = {FORMATS(WRITER)};

glofnd_status compare_write(gf_error *err, const gf_comparison *c, const char *format, const char *path) {
    gf_text text = {0};
    glofnd_status status = GLOFND_OK;
    int i = 0;
    while (format_names[i] && strcmp(format, format_names[i]) != 0) i++;
    writers[i](&text, c);
    if (path) gf_writer_clean(path);
    if (text.failed) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the comparison");
    else if (path) status = gf_file_write(err, path, text.at, text.used);
    else if (text.at) gf_print_lines(stdout, text.at);
    gf_text_free(&text);
    return status;
}

void compare_warn(const char *verb, const gf_comparison *c) {
    if (c->skipped)
        gf_print(stderr, "glofnd %s: %lld unreadable line%s left out, the first in %s\n", verb, (long long)c->skipped,
                 c->skipped == 1 ? " is" : "s are", c->skipped_in);
    if (*c->unknown)
        gf_print(stderr, "glofnd %s: %s/" GF_EVAL_FILE " has the key \"%s\" of a newer version, which counts as a setting here\n",
                 verb, c->unknown_in, c->unknown);
    if (c->metrics == 0) gf_print(stderr, "glofnd %s: nothing measured yet: glofnd eval knn, linear ... RUN measures\n", verb);
    if (c->groups < 2) gf_print(stderr, "glofnd %s: one configuration only: nothing to compare it with\n", verb);
    /* Seeds that stand alone cannot be paired, and equal runs count twice. */
    for (int i = 0; i < c->runs; i++) {
        const gf_compared *r = &c->run[i];
        int partners = r->group == 0;
        for (int k = 0; k < c->runs; k++) {
            const gf_compared *other = &c->run[k];
            partners += other->group == 0 && other->seed == r->seed;
            if (k < i && other->group == r->group && other->seed == r->seed)
                gf_print(stderr, "glofnd %s: %s and %s have one configuration and seed: both count in the mean, the first in p\n",
                         verb, other->path, r->path);
        }
        if (!partners)
            gf_print(stderr, "glofnd %s: %s has no partner of seed %lld in group 1: it is not in p\n", verb, r->path,
                     (long long)r->seed);
    }
}

void compare_names(const gf_comparison *c, char *out, size_t bytes) {
    size_t used = 0;
    snprintf(out, bytes, "none");
    for (int m = 0; m < c->metrics && used < bytes; m++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", m ? ", " : "", c->metric[m].name);
    if (used >= bytes) snprintf(out + bytes - 4, 4, "...");
}

int compare_choose_runs(const char *verb, char **run, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        struct stat st;
        if (stat(run[i], &st) == 0 && S_ISREG(st.st_mode)) {
            gf_print(stderr, "glofnd %s: %s is a file: it is passed over\n", verb, run[i]);
            continue;
        }
        int k = 0;
        while (k < kept && !gf_path_same(run[k], run[i])) k++;
        if (k == kept) run[kept++] = run[i];
        else gf_print(stderr, "glofnd %s: %s is given twice: it counts once\n", verb, run[i]);
    }
    return kept;
}

typedef struct compare_flags {
    int format; /* of format_names */
    const char *out, *metric;
    int32_t all;
} compare_flags;

static const gf_option rows[] = {
    CLI_CHOICE(compare_flags, format, "format", "text", format_names, "format of the table"),
    CLI_STRING(compare_flags, out, "out", "FILE", "write it there instead of to stdout"),
    CLI_STRING(compare_flags, metric, "metric", "TEXT", "only metrics whose name contains TEXT, such as \"linear\" or \"F1\""),
    CLI_SWITCH(compare_flags, all, "all", "also show what is hidden by default: top-5, pooled, other detectors ..."),
};

static int run_compare(const cli_call *call, const void *flags) {
    const compare_flags *f = flags;
    const int to_stdout = f->out && (strcmp(f->out, "-") == 0 || strcmp(f->out, "/dev/stdout") == 0);
    const char *out = to_stdout ? NULL : f->out;
    gf_error err = {{0}};
    gf_comparison c = {0};
    const int n = compare_choose_runs("compare", call->word, call->words);
    glofnd_status status = gf_own_files_check(&err, "--out", out);
    if (status == GLOFND_OK && n == 0) status = gf_fail(&err, GLOFND_E_ARGUMENT, COMPARE_NO_RUN);
    if (status == GLOFND_OK) status = gf_compare_read(&err, (const char *const *)call->word, n, &c);
    char names[360];
    compare_names(&c, names, sizeof names);
    if (status == GLOFND_OK && !gf_compare_select(&c, f->metric, f->all) && f->metric)
        status =
            gf_fail(&err, GLOFND_E_ARGUMENT, "no run has a figure whose name has \"%.60s\"; there are: %s", f->metric, names);
    if (status == GLOFND_OK) compare_warn("compare", &c);
    if (status == GLOFND_OK) status = compare_write(&err, &c, format_names[f->format], out);
    if (status == GLOFND_OK && out) gf_print(stdout, "%d runs in %d groups written to %s\n", c.runs, c.groups, out);
    gf_compare_free(&c);
    return status == GLOFND_OK ? CLI_OK : cli_failed("compare", status, &err);
}

const cli_verb cmd_compare = {
    .name = "compare",
    .summary = "compare runs: mean (std) over seeds, p-values",
    .usage = "glofnd compare RUN... [--format text|csv|json|latex] [--out FILE] [--metric TEXT] [--all]",
    CLI_FLAGS(rows, compare_flags),
    .word = "RUN",
    .word_help = "the folders of runs",
    .min_words = 1,
    .max_words = -1,
    .run = run_compare,
};
