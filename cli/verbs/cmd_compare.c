/* cmd_compare.c - glofnd compare: runs grouped by configuration, mean (std) over seeds, p-values against the first group. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verbs/comparing.h"
#include "io/blockfile.h"
#include "io/folders.h"

static const char usage[] = "glofnd compare RUN... [--format text|csv|json|latex] [--out FILE] [--metric TEXT] [--all]";

static const struct {
    const char *name;
    void (*write)(gf_text *, const gf_comparison *);
} formats[] = {{"text", gf_compare_text}, {"csv", gf_compare_csv}, {"json", gf_compare_json}, {"latex", gf_compare_latex}};

static int format_of(const char *name) {
    for (int i = 0; i < (int)(sizeof formats / sizeof *formats); i++)
        if (strcmp(name, formats[i].name) == 0) return i;
    return -1;
}

int compare_known(const char *format) { return format_of(format) >= 0; }

glofnd_status compare_write(gf_error *err, const gf_comparison *c, const char *format, const char *path) {
    gf_text text = {0};
    glofnd_status status = GLOFND_OK;
    formats[format_of(format)].write(&text, c);
    if (text.failed) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the comparison");
    else if (path) status = gf_file_write(err, path, text.at, text.used);
    else if (text.at) fputs(text.at, stdout);
    gf_text_free(&text);
    return status;
}

/* Seeds that stand alone cannot be paired, and equal runs count twice. */
static void warn_seeds(const char *verb, const gf_comparison *c) {
    for (int i = 0; i < c->runs; i++) {
        const gf_compared *r = &c->run[i];
        int partners = r->group == 0;
        for (int k = 0; k < c->runs; k++) {
            const gf_compared *other = &c->run[k];
            partners += other->group == 0 && other->seed == r->seed;
            if (k < i && other->group == r->group && other->seed == r->seed)
                fprintf(stderr, "glofnd %s: %s and %s have one configuration and seed: both count in the mean, the first in p\n",
                        verb, other->path, r->path);
        }
        if (!partners)
            fprintf(stderr, "glofnd %s: %s has no partner of seed %lld in group 1: it is not in p\n", verb, r->path,
                    (long long)r->seed);
    }
}

void compare_warn(const char *verb, const gf_comparison *c) {
    if (c->skipped)
        fprintf(stderr, "glofnd %s: %lld damaged line%s left out, the first in %s\n", verb, (long long)c->skipped,
                c->skipped == 1 ? " is" : "s are", c->skipped_in);
    if (*c->unknown)
        fprintf(stderr, "glofnd %s: %s/" GF_EVAL_FILE " has the key \"%s\" of a newer version, which counts as a setting here\n",
                verb, c->unknown_in, c->unknown);
    if (c->metrics == 0) fprintf(stderr, "glofnd %s: nothing measured yet: glofnd eval knn, linear ... RUN measures\n", verb);
    if (c->groups < 2) fprintf(stderr, "glofnd %s: one configuration only: nothing to compare it with\n", verb);
    warn_seeds(verb, c);
}

void compare_names(const gf_comparison *c, char *out, size_t bytes) {
    size_t used = 0;
    snprintf(out, bytes, "none");
    for (int m = 0; m < c->metrics && used < bytes; m++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", m ? ", " : "", c->metric[m].name);
    if (used >= bytes) snprintf(out + bytes - 4, 4, "...");
}

/* A run counts once, however often and by whatever path it is named, and a file is none: FOLDER/ * names logs and tables, too.
 * Returns how many are left. */
static int choose_runs(char **run, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        struct stat st;
        if (stat(run[i], &st) == 0 && S_ISREG(st.st_mode)) {
            fprintf(stderr, "glofnd compare: %s is a file: it is passed over\n", run[i]);
            continue;
        }
        int k = 0;
        while (k < kept && !gf_path_same(run[k], run[i])) k++;
        if (k == kept) run[kept++] = run[i];
        else fprintf(stderr, "glofnd compare: %s is named twice: it counts once\n", run[i]);
    }
    return kept;
}

int cmd_compare(int argc, char **argv) {
    const char *format = "text", *out = NULL, *metric = NULL, *all = NULL;
    const cli_flag flags[] = {
        {"format", "F", "text, csv, json or latex (text)", &format},
        {"out", "FILE", "write it there instead of to stdout", &out},
        {"metric", "TEXT", "only figures whose name has this text, for example \"linear\" or \"F1\"", &metric},
        {"all", NULL, "also what is left out by default: top-5, pooled, other detectors ...", &all},
    };
    int n;
    gf_error err = {{0}};
    gf_comparison c = {0};
    const int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if (n < 1 || !compare_known(format)) {
        if (n > 0) fprintf(stderr, "glofnd compare: --format is \"%s\"; it takes text, csv, json or latex\n", format);
        else fprintf(stderr, "glofnd compare: RUN is missing: the folders of runs\nusage: %s\n", usage);
        return CLI_USAGE;
    }
    if (out && (strcmp(out, "-") == 0 || strcmp(out, "/dev/stdout") == 0)) out = NULL;
    n = choose_runs(argv + 1, n);
    glofnd_status status = GLOFND_OK;
    if (n == 0) status = gf_fail(&err, GLOFND_E_ARGUMENT, "none of these is the folder of a run");
    if (status == GLOFND_OK) status = gf_compare_read(&err, (const char *const *)argv + 1, n, &c);
    char names[360];
    compare_names(&c, names, sizeof names);
    if (status == GLOFND_OK && !gf_compare_select(&c, metric, all != NULL) && metric)
        status = gf_fail(&err, GLOFND_E_ARGUMENT, "no run has a figure whose name has \"%.60s\"; there are: %s", metric, names);
    if (status == GLOFND_OK) compare_warn("compare", &c);
    if (status == GLOFND_OK) status = compare_write(&err, &c, format, out);
    if (status == GLOFND_OK && out) printf("%d runs in %d groups written to %s\n", c.runs, c.groups, out);
    gf_compare_free(&c);
    return status == GLOFND_OK ? CLI_OK : cli_failed("compare", status, &err);
}
