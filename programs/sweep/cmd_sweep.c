/* cmd_sweep.c - glofnd sweep: pretrains every run of a grid of values and seeds, evaluates them and compares.
 *
 * Runs are other processes of this program, so that a failure of one does not end the others. OUT/sweep.jsonl records finished
 * runs and evaluations; the same command continues after an interruption. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "programs/cli.h"
#include "programs/comparing.h"
#include "programs/sweep/sweep.h"
#include "run/progress.h"
#include "run/run_folder.h"
#include "util/text.h"

/* Flags, which are also the keys of a sweep file; sweep_take reads their values. */
#define SETTING(k, v, p, h) \
    { .key = k, .type = GF_OPTION_STRINGS, .value = v, .preset = p, .help = h }
static const gf_option rows[] = {
    SETTING("config", "FILE.cfg", NULL,
            "what all runs share, a file or a preset, as of `glofnd pretrain`; may be repeated, a later one wins"),
    SETTING("vary", "KEY=a,b,c", NULL,
            "a key of the configuration and its values, \\, for a comma in one; repeated for other keys;\n"
            "                           config=a,b: files or presets"),
    SETTING("seeds", "1,2,3", "1", "a run of each"),
    SETTING("set", "KEY=VALUE", NULL, "a key of the configuration for all runs; may be repeated"),
    SETTING("data", "SPEC", NULL, "the same as --set data=SPEC"),
    SETTING("eval", "\"WHAT FLAGS\"", NULL,
            "a call of `glofnd eval` for every run: knn, \"linear --fractions 100,10\"; may be repeated"),
    SETTING("choose", "TEXT", NULL,
            "the best value has the best mean of the figure whose name has this text; of several figures\n"
            "                           the one that most values have, then the first;\n"
            "                           default: the mean of the label fractions, else linear, else kNN"),
    SETTING("file", "FILE.sweep", NULL,
            "lines `key = value` with the flags above; a flag wins over files, wherever it stands, and a later file over an "
            "earlier one; sweep-start-epoch is the paper's"),
    SETTING("out", "DIR", NULL, "folder of the runs, their logs, sweep.jsonl, and compare.csv, .json, .tex"),
    SETTING("jobs", "N", "1", "runs at a time, sharing the processors"),
    {.key = "share",
     .type = GF_OPTION_BOOL,
     .help = "runs that differ only in what their detectors do share the epochs before these start: one of them is trained, the "
             "others begin as copies of its checkpoints"},
    {.key = "dry-run", .type = GF_OPTION_BOOL, .help = "only list the runs"},
};

static int stopped(void) { return atomic_load(&cli_interrupted); }

typedef struct sweeping {
    const sweep_plan *plan;
    sweep_end end; /* instead of comparing; NULL: compare */
    void *user;
    sweep_run *run;
    int count;
    int eval; /* index of the present evaluation; -1: pretraining */
    jobs jobs;
    gf_progress progress;
    gf_error err; /* of a record that could not be written */
    glofnd_status status;
} sweeping;

/* ----- checking before the first run ----- */

/* E_OPTION: no figure can have such a name. Names of data and protocols are in the calls; numbers are not checked. */
static glofnd_status check_choose(gf_error *err, const sweep_plan *p, const sweep_run *first) {
    char text[256];
    snprintf(text, sizeof text, "%s", p->choose ? p->choose : "");
    char *rest = text;
    for (char *word; (word = strsep(&rest, " "));) {
        int known = !*word || strpbrk(word, "0123456789") || gf_eval_has_word(word) || strcasestr(first->config.data, word);
        for (int e = 0; e < p->eval_count; e++) known |= strcasestr(p->eval[e], word) != NULL;
        FAIL_IF(err, !known, GLOFND_E_OPTION,
                "--choose \"%.100s\": no figure has \"%.60s\" in its name; names are such as \"linear paper mean top-1 %%\" or "
                "\"knn k 20 top-1 %%\"",
                p->choose, word);
    }
    return GLOFND_OK;
}

/* ----- events of jobs ----- */

static sweep_run *run_of(const job *j) { return j->user; }

static void record(sweeping *s, const sweep_run *r, const char *event, const char *text) {
    if (s->status == GLOFND_OK) s->status = sweep_record(&s->err, s->plan, r, event, text);
}

static void clear_line(const sweeping *s) {
    if (s->progress.mode == GF_PROGRESS_AUTO) gf_print(stderr, "\r\033[K");
}

/* The end of a text file, at most `bytes` - 1 of it; "": it cannot be read. */
static void read_tail(const char *path, char *out, size_t bytes) {
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (!f) return;
    if (fseek(f, -(long)(bytes - 1), SEEK_END) != 0) rewind(f);
    out[fread(out, 1, bytes - 1, f)] = 0;
    fclose(f);
}

/* Prints why a job failed: the signal that ended it, else the last message of the program in its log. */
static void print_reason(const job *j) {
    char tail[4096], *message = NULL, *rest = tail;
    if (j->signal) {
        gf_print(stderr, "    it was ended by signal %d, %s%s\n", j->signal, strsignal(j->signal),
                 j->signal == SIGKILL ? " (the system does that when memory runs out)" : "");
        return;
    }
    read_tail(j->log, tail, sizeof tail);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, "glofnd ", 7) == 0) message = line;
    if (message) gf_print(stderr, "    %s\n", message);
}

static int report_failed(sweeping *s, const job *j) {
    clear_line(s);
    if (s->eval < 0) gf_print(stderr, "glofnd %s: %s failed; see %s\n", s->plan->verb, run_of(j)->name, j->log);
    else
        gf_print(stderr, "glofnd %s: %s: eval %s failed; see %s\n", s->plan->verb, run_of(j)->name, s->plan->eval[s->eval],
                 j->log);
    print_reason(j);
    return 0;
}

static int has_ended(const job *j) { return j->state == JOB_DONE || j->state == JOB_FAILED; }

/* A run that another process still trains, as one of a sweep that was killed does until its checkpoint is written, is waited
 * for: it continues from there. */
static int in_use(const sweeping *s, sweep_run *r) {
    if (!gf_folder_in_use(r->path)) return 0;
    if (!r->waited) clear_line(s);
    if (!r->waited) gf_print(stderr, "%s waits: another process still uses its folder\n", r->name);
    r->waited = 1;
    return 1;
}

/* A branch waits for the checkpoint that it begins with. */
static int is_ready(void *user, job *j) {
    sweeping *s = user;
    sweep_run *r = run_of(j);
    char line[1024];
    if (s->eval >= 0) return 1;
    if (in_use(s, r)) return 0;
    if (r->trunk < 0) return 1;
    const int ready = sweep_share_begin(s->run, s->count, r, has_ended(&s->jobs.job[r->trunk]), line, sizeof line);
    if (*line) clear_line(s);
    if (*line) gf_print(stderr, "%s\n", line);
    return ready;
}

static void pretrain_started(void *user, job *j) { record(user, run_of(j), "start", NULL); }

/* A run that was asked to stop succeeds, too, but has no weights. */
static int pretrain_ended(void *user, job *j, int code) {
    sweeping *s = user;
    sweep_run *r = run_of(j);
    if (code != 0 || !sweep_has_model(r)) return stopped() ? 1 : report_failed(s, j);
    r->finished = 1;
    record(s, r, "finished", NULL);
    clear_line(s);
    gf_print(stderr, "%s finished\n", r->name);
    return 1;
}

static int eval_ended(void *user, job *j, int code) {
    sweeping *s = user;
    if (code != 0) return stopped() ? 1 : report_failed(s, j);
    record(s, run_of(j), "evaluated", s->plan->eval[s->eval]);
    return 1;
}

/* ----- progress ----- */

/* Epoch of a run that is training, from the end of its log, without those it has taken over; 0: unknown. */
static int epoch_of(const sweep_run *r) {
    char path[PATH_MAX], tail[4096];
    if (gf_path_join(NULL, path, r->path, GF_LOG_FILE) != GLOFND_OK) return 0;
    read_tail(path, tail, sizeof tail);
    const char *last = NULL;
    for (const char *at = tail; (at = strstr(at, "\"epoch\": ")); at++) last = at;
    const int epoch = last ? (int)strtol(last + 9, NULL, 10) - r->from : 0;
    return epoch > 0 ? epoch : 0;
}

/* Units of a job in the progress: epochs of a training, else 1. */
static int units_of(const sweeping *s, const job *j) { return s->eval < 0 ? run_of(j)->resolved.epochs - run_of(j)->from : 1; }

static void draw_progress(void *user) {
    sweeping *s = user;
    char text[240], where[120] = "";
    int64_t done = 0, total = 0;
    int finished = 0, running = 0;
    if (s->progress.mode != GF_PROGRESS_AUTO) return;
    for (int i = 0; i < s->jobs.count; i++) {
        const job *j = &s->jobs.job[i];
        const sweep_run *r = run_of(j);
        const int units = units_of(s, j), epoch = s->eval < 0 && j->state == JOB_RUNNING ? epoch_of(r) : 0;
        total += units;
        done += has_ended(j) ? units : epoch;
        finished += j->state == JOB_DONE, running += j->state == JOB_RUNNING;
        if (j->state == JOB_RUNNING && !*where) /* from 1; in the log from 0 */
            snprintf(where, sizeof where, " | %.80s epoch %d/%d", r->name, epoch < units ? epoch + 1 : units, units);
    }
    snprintf(text, sizeof text, "%.60s: %d of %d done, %d running%s", s->eval < 0 ? "pretraining" : s->plan->eval[s->eval],
             finished, s->jobs.count, running, s->eval < 0 ? where : "");
    gf_progress_draw(&s->progress, done, total, text, 0);
}

/* ----- phases ----- */

/* A job per run that still needs it. One evaluation after the other: two must not write to one eval.jsonl at a time. */
static glofnd_status run_phase(sweeping *s, int eval) {
    int64_t todo = 0, done = 0;
    s->eval = eval;
    s->jobs = (jobs){
        .job = calloc((size_t)s->count, sizeof *s->jobs.job),
        .count = s->count,
        .parallel = (int)s->plan->jobs,
        .stop = &cli_interrupted,
        .ready = is_ready,
        .started = eval < 0 ? pretrain_started : NULL,
        .ended = eval < 0 ? pretrain_ended : eval_ended,
        .tick = draw_progress,
        .user = s,
    };
    char *text = malloc((size_t)s->count * SWEEP_COMMAND_MAX);
    if (!s->jobs.job || !text) s->status = gf_fail(&s->err, GLOFND_E_MEMORY, "no memory for %d jobs", s->count);
    for (int i = 0; i < s->count && s->status == GLOFND_OK; i++) {
        job *j = &s->jobs.job[i];
        sweep_command w = {.job = j, .text = text + (size_t)i * SWEEP_COMMAND_MAX};
        j->user = &s->run[i];
        snprintf(j->log, sizeof j->log, "%s.log", s->run[i].path);
        /* Fills the command of the present phase. 1: the run still needs it. */
        const sweep_run *r = &s->run[i];
        if (s->eval < 0) sweep_pretrain_command(&w, s->plan, r);
        else sweep_eval_command(&w, r, s->plan->eval[s->eval]);
        j->state = (s->eval < 0 ? !r->finished : r->finished && !(r->evaluated & 1u << s->eval)) ? JOB_WAITING : JOB_DONE;
        if (w.cut) s->status = gf_fail(&s->err, GLOFND_E_ARGUMENT, "the arguments of %.200s are too long", s->run[i].name);
        todo += j->state == JOB_WAITING, done += j->state == JOB_DONE ? units_of(s, j) : 0;
    }
    s->progress = gf_progress_start(done, cli_progress_mode());
    if (s->status == GLOFND_OK && todo) {
        jobs_run(&s->jobs);
        clear_line(s);
    }
    free(s->jobs.job);
    free(text);
    return s->status;
}

/* ----- comparing ----- */

static int groups_with(const gf_comparison *c, int metric) {
    int n = 0;
    for (int g = 0; g < c->groups; g++) n += gf_compare_cell(c, g, metric).n > 0;
    return n;
}

/* The figure with both texts in its name that most configurations have, then the first; -1: none. */
static int find_figure(const gf_comparison *c, const char *a, const char *b) {
    int best = -1;
    for (int m = 0; m < c->metrics; m++) {
        if (!gf_metric_has(&c->metric[m], a) || !gf_metric_has(&c->metric[m], b) || !c->metric[m].better) continue;
        if (best < 0 || groups_with(c, m) > groups_with(c, best)) best = m;
    }
    return best;
}

static glofnd_status choose(gf_error *err, const sweep_plan *p, const gf_comparison *c) {
    int m = p->choose ? find_figure(c, p->choose, "") : find_figure(c, "linear", "mean");
    char names[330];
    compare_names(c, names, sizeof names);
    FAIL_IF(err, p->choose && m < 0, GLOFND_E_ARGUMENT,
            "no run has a figure whose name has \"%.60s\" to choose by; available: %s", p->choose, names);
    if (m < 0) m = find_figure(c, "linear", "");
    if (m < 0) m = find_figure(c, "knn", "");
    const int best = m < 0 ? -1 : gf_compare_best(c, m);
    if (best >= 0)
        gf_print(stdout, "\nbest      %s: %s %.2f\n", c->label[best], c->metric[m].name, gf_compare_cell(c, best, m).mean);
    else gf_print(stderr, "glofnd sweep: no evaluation to choose the best by: --eval linear or --eval knn gives one\n");
    if (best >= 0 && groups_with(c, m) < c->groups)
        gf_print(stderr,
                 "glofnd sweep: %d of %d configurations were not measured with these settings: the best is among the others\n",
                 c->groups - groups_with(c, m), c->groups);
    return GLOFND_OK;
}

static glofnd_status write_all(gf_error *err, const sweep_plan *p, const gf_comparison *c) {
    static const char *const files[3][2] = {{"csv", GF_COMPARE_FILE ".csv"},
                                            {"json", GF_COMPARE_FILE ".json"},
                                            {"latex", GF_COMPARE_FILE ".tex"}};
    char path[PATH_MAX];
    for (int i = 0; i < 3; i++) {
        TRY(gf_path_join(err, path, p->out, files[i][1]));
        TRY(compare_write(err, c, files[i][0], path));
    }
    return compare_write(err, c, "text", NULL);
}

static glofnd_status compare(gf_error *err, const sweeping *s) {
    const char *paths[GF_COMPARE_RUNS_MAX];
    gf_comparison c = {0};
    int n = 0;
    for (int i = 0; i < s->count; i++)
        if (s->run[i].finished) paths[n++] = s->run[i].path;
    if (n == 0) return GLOFND_OK;
    TRY(gf_compare_read(err, paths, n, &c));
    gf_compare_select(&c, NULL, 0);
    compare_warn("sweep", &c);
    glofnd_status status = write_all(err, s->plan, &c);
    if (status == GLOFND_OK) status = choose(err, s->plan, &c);
    gf_compare_free(&c);
    return status;
}

/* ----- all phases ----- */

static glofnd_status sweep(sweeping *s) {
    sweep_share_clean(s->plan, s->run, s->count, 1);
    sweep_share_print(stderr, s->plan, s->run, s->count);
    const glofnd_status status = run_phase(s, -1);
    sweep_share_clean(s->plan, s->run, s->count, 0);
    TRY(status);
    for (int e = 0; e < s->plan->eval_count && !stopped(); e++) {
        TRY(run_phase(s, e));
        TRY(sweep_read_log(&s->err, s->plan, s->run, s->count));
    }
    if (stopped()) return GLOFND_OK;
    return s->end ? s->end(&s->err, s->plan, s->run, s->count, s->user) : compare(&s->err, s);
}

static void list(const sweeping *s) {
    for (int i = 0; i < s->count; i++) {
        const sweep_run *r = &s->run[i];
        const int begun = access(r->path, F_OK) == 0;
        gf_print(stdout, "%-60s %s", r->path, r->finished ? "finished" : begun ? "begun" : "to do");
        if (r->trunk >= 0)
            gf_print(stdout, ", begins as %s after %d epoch%s", s->run[r->trunk].name, (int)r->from, r->from == 1 ? "" : "s");
        gf_print(stdout, "\n");
    }
    sweep_share_print(stdout, s->plan, s->run, s->count);
    int n = 0;
    for (int i = 0; i < s->count; i++) n += s->run[i].finished;
    gf_print(stdout, "%d run%s, %d finished\n", s->count, s->count == 1 ? "" : "s", n);
}

/* 0 only if all runs and evaluations are complete. */
static int conclude(const sweeping *s, glofnd_status status) {
    int missing = 0;
    if (status != GLOFND_OK) return cli_failed(s->plan->verb, status, &s->err);
    for (int i = 0; i < s->count; i++) missing += !s->run[i].finished || s->run[i].evaluated != (1u << s->plan->eval_count) - 1u;
    if (stopped()) gf_print(stderr, "glofnd %s: stopped; the same command continues\n", s->plan->verb);
    else if (missing)
        gf_print(stderr, "glofnd %s: %d of %d runs are incomplete; the same command tries them again\n", s->plan->verb, missing,
                 s->count);
    return stopped() || missing ? CLI_FAILED : CLI_OK;
}

static glofnd_status read_file(gf_error *err, sweep_plan *p, const char *name) {
    char path[PATH_MAX];
    TRY(cli_preset_file(err, name, ".sweep", path));
    return sweep_read(err, p, path);
}

/* One "--key value" or "--key=value"; *i moves past a value taken from the next word. *value NULL: it is --dry-run. --share
 * may stand alone. */
static glofnd_status parse_flag(gf_error *err, int argc, char **argv, int *i, char key[32], const char **value) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    FAIL_IF(err, strncmp(word, "--", 2) != 0, GLOFND_E_OPTION, "\"%.60s\" is not a flag; --help lists them", word);
    const size_t length = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
    FAIL_IF(err, length >= 32, GLOFND_E_OPTION, "unknown flag %.60s; --help lists them", word);
    snprintf(key, 32, "%.*s", (int)length, word + 2);
    *value = NULL;
    FAIL_IF(err, equals && strcmp(key, "dry-run") == 0, GLOFND_E_OPTION, "--dry-run takes no value");
    if (strcmp(key, "dry-run") == 0) return GLOFND_OK;
    *value = equals ? equals + 1 : "1";
    if (strcmp(key, "share") == 0) return GLOFND_OK;
    FAIL_IF(err, !equals && *i + 1 >= argc, GLOFND_E_OPTION, "--%s needs a value", key);
    *value = equals ? equals + 1 : argv[++*i];
    return GLOFND_OK;
}

/* Files first, in their order, then flags, which win wherever they stand; *dry is set by --dry-run. */
static glofnd_status read_flags(gf_error *err, sweep_plan *p, int argc, char **argv, int *dry) {
    char key[32];
    const char *value;
    for (int i = 1; i < argc; i++) {
        TRY(parse_flag(err, argc, argv, &i, key, &value));
        if (strcmp(key, "file") == 0) TRY(read_file(err, p, value));
    }
    for (int i = 1; i < argc; i++) {
        TRY(parse_flag(err, argc, argv, &i, key, &value));
        if (!value) *dry = 1;
        else if (strcmp(key, "file") != 0) TRY(sweep_set(err, p, key, value, NULL));
    }
    FAIL_IF(err, !p->out, GLOFND_E_OPTION, "--out is needed: the folder of the runs");
    FAIL_IF(err, !p->vary_count && !p->seeds.count, GLOFND_E_OPTION, "--vary or --seeds is needed: what the runs differ in");
    return p->seeds.count ? GLOFND_OK : sweep_set(err, p, "seeds", "1", NULL);
}

/* All checks before the first run: the grid, its finished runs, and whether the rest can work. */
static int make_plan(sweeping *s) {
    const sweep_plan *p = s->plan;
    glofnd_status status = sweep_make(&s->err, p, &s->run, &s->count);
    if (status == GLOFND_OK) status = check_choose(&s->err, p, s->run);
    if (status == GLOFND_OK) status = sweep_check_calls(&s->err, p, s->run);
    if (status != GLOFND_OK) {
        cli_failed(s->plan->verb, status, &s->err);
        return status == GLOFND_E_IO ? CLI_FAILED : CLI_USAGE;
    }
    status = sweep_read_log(&s->err, p, s->run, s->count);
    if (status == GLOFND_OK) status = sweep_check_data(&s->err, p, s->run, s->count);
    return status == GLOFND_OK ? CLI_OK : cli_failed(s->plan->verb, status, &s->err);
}

/* One sweep at a time in a folder; what another one has finished meanwhile counts. */
static glofnd_status lock(sweeping *s, int *folder) {
    TRY(gf_folder_make(&s->err, s->plan->out, NULL));
    const glofnd_status status = gf_folder_lock(&s->err, s->plan->out, folder);
    const gf_error why = s->err;
    FAIL_IF(&s->err, status != GLOFND_OK, status, "%.400s; two sweeps need two folders", why.text);
    TRY(sweep_read_log(&s->err, s->plan, s->run, s->count));
    return sweep_share_plan(&s->err, s->plan, s->run, s->count);
}

static int execute(sweeping *s) {
    int folder = -1;
    cli_catch_interrupts(NULL);
    glofnd_status status = lock(s, &folder);
    if (status == GLOFND_OK) status = sweep(s);
    const int code = conclude(s, status);
    if (folder >= 0) close(folder);
    return code;
}

int sweep_run_plan(const sweep_plan *p, int dry, sweep_end end, void *user) {
    sweeping s = {.plan = p, .end = end, .user = user};
    int code = make_plan(&s);
    const glofnd_status status = code == CLI_OK && dry ? sweep_share_plan(&s.err, p, s.run, s.count) : GLOFND_OK;
    if (status != GLOFND_OK) code = cli_failed(p->verb, status, &s.err);
    if (code == CLI_OK && dry) list(&s);
    else if (code == CLI_OK) code = execute(&s);
    free(s.run);
    return code;
}

static int run_sweep(int argc, char **argv) {
    gf_error err = {{0}};
    sweep_plan p = {.verb = "sweep", .jobs = 1};
    int dry = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--help-all") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_help(&cmd_sweep, 1);
            return CLI_OK;
        }
    const glofnd_status status = read_flags(&err, &p, argc, argv, &dry);
    int code;
    if (status == GLOFND_OK) {
        code = sweep_run_plan(&p, dry, NULL, NULL);
    } else {
        cli_failed("sweep", status, &err);
        code = status == GLOFND_E_IO ? CLI_FAILED : CLI_USAGE;
    }
    sweep_free(&p);
    return code;
}

const cli_verb cmd_sweep = {
    .name = "sweep",
    .summary = "pretrain a grid of values and seeds, evaluate and compare",
    .usage = "glofnd sweep --config FILE.cfg --vary KEY=a,b,c [--vary ...] --seeds 1,2,3 --out DIR [--jobs N] ...\n"
             "       glofnd sweep --file FILE.sweep --data SPEC --out DIR\n"
             "Pretrains the grid of values and seeds, evaluates and compares. The same command continues after an interruption.",
    CLI_FLAGS(rows, sweep_plan),
    .run_raw = run_sweep,
};
