/* sweep_checks.c - see sweep_command.h: checks of evaluations before the first run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/captions.h"
#include "eval/split.h"
#include "programs/eval/eval.h"
#include "programs/sweep/sweep_command.h"

#define CANNOT_WORK "--eval \"%.200s\" cannot work%s; nothing was started"

/* ----- arguments ----- */

/* Makes the call for an impossible run, so that it ends with CLI_USAGE exactly if its arguments are wrong; its messages go to
 * `messages`. */
static int try_call(const sweep_run *first, const char *call, FILE *messages) {
    static char text[SWEEP_COMMAND_MAX];
    job j = {.state = JOB_WAITING};
    sweep_command w = {.job = &j, .text = text};
    sweep_run missing = *first;
    int status = 0;
    snprintf(missing.path, sizeof missing.path, "/dev/null/run");
    sweep_eval_command(&w, &missing, call);
    if (w.cut) return gf_print(messages, "glofnd sweep: it has too many arguments\n"), CLI_USAGE;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int sink = open("/dev/null", O_WRONLY);
        if (sink < 0 || dup2(sink, 1) < 0 || dup2(fileno(messages), 2) < 0) _exit(CLI_FAILED);
        const int code = cli_run(&cmd_eval, w.count - 1, (char **)j.argv + 1);
        fflush(NULL);
        _exit(code);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

glofnd_status sweep_check_calls(gf_error *err, const sweep_plan *p, const sweep_run *first) {
    char line[1024];
    for (int e = 0; e < p->eval_count; e++) {
        FILE *messages = tmpfile();
        FAIL_IF(err, !messages, GLOFND_E_IO, "no temporary file can be made: %s", strerror(errno));
        const int code = try_call(first, p->eval[e], messages);
        rewind(messages);
        while (code == CLI_USAGE && fgets(line, sizeof line, messages)) gf_print_lines(stderr, line);
        fclose(messages);
        FAIL_IF(err, code == CLI_USAGE, GLOFND_E_OPTION, CANNOT_WORK, p->eval[e], "");
    }
    return GLOFND_OK;
}

/* ----- tasks and data ----- */

enum { SPECS_MAX = 64 };

typedef enum need { NOTHING, LABELS, CAPTIONS } need;

static const struct evaluation {
    const char *verb;
    int of_views, of_clip; /* runs of these tasks */
    need data;             /* of the samples */
    int named;             /* SPECs may have a NAME= before them, and may follow the run */
} evaluations[] = {
    {"knn", 1, 1, LABELS, 0},        {"linear", 1, 1, LABELS, 0},      {"transfer", 1, 1, LABELS, 1}, {"fn", 1, 1, LABELS, 0},
    {"threshold", 1, 0, NOTHING, 0}, {"retrieval", 0, 1, CAPTIONS, 1}, {"zeroshot", 0, 1, LABELS, 1},
};

static const struct evaluation *find_evaluation(const char *verb) {
    for (size_t i = 0; i < sizeof evaluations / sizeof *evaluations; i++)
        if (strcmp(evaluations[i].verb, verb) == 0) return &evaluations[i];
    return NULL;
}

/* The test split that comes with data: an incomplete one would else be noticed after all training. */
static glofnd_status check_test_split(gf_error *err, const gf_dataset *data) {
    gf_dataset *test = NULL;
    char spec[2100];
    if (!gf_dataset_test_spec(data, spec, sizeof spec)) return GLOFND_OK;
    const glofnd_status status = gf_dataset_open(err, spec, &test);
    gf_dataset_free(test);
    return status;
}

static glofnd_status check_spec(gf_error *err, const struct evaluation *x, const char *text, need n, int test_split) {
    eval_dataset named = {0};
    gf_dataset *data = NULL;
    if (x->named) TRY(eval_dataset_read(err, text, &named));
    const char *spec = x->named ? named.spec : text;
    TRY(gf_dataset_open(err, spec, &data));
    glofnd_status status = n == CAPTIONS ? gf_captions_require(err, data) : GLOFND_OK;
    const gf_known_dataset *known = gf_dataset_known(data);
    if (n == LABELS && gf_dataset_describe(data).classes == 0 && !(known && known->scoring == GF_SCORE_JACCARD))
        status = gf_fail(err, GLOFND_E_ARGUMENT, "%.200s has no labels; this evaluation needs them", spec);
    if (status == GLOFND_OK && test_split) status = check_test_split(err, data);
    gf_dataset_free(data);
    return status;
}

/* All SPECs of --flag. */
static glofnd_status check_flag(gf_error *err, const struct evaluation *x, int *argc, char **argv, const char *flag, need n,
                                int test_split) {
    const char *spec[SPECS_MAX];
    const int count = eval_gather(argc, argv, flag, spec, SPECS_MAX);
    for (int i = 0; i < count; i++) TRY(check_spec(err, x, spec[i], n, test_split));
    return GLOFND_OK;
}

/* SPECs that follow the run. */
static glofnd_status check_positional(gf_error *err, const struct evaluation *x, int argc, char **argv) {
    int i = 2;
    for (const char *spec; x->named && (spec = sweep_next_word(x->verb, argc, (const char *const *)argv, &i));)
        TRY(check_spec(err, x, spec, LABELS, 0));
    return GLOFND_OK;
}

/* argv: "knn", the run, flags. Captions serve `eval fn` where there are no labels. */
static glofnd_status check_call(gf_error *err, const gf_config *c, int argc, char **argv) {
    const struct evaluation *x = find_evaluation(argv[0]);
    const int clip = c->task == GF_TASK_CLIP;
    const char *truth[SPECS_MAX];
    if (!x) return GLOFND_OK; /* unknown here */
    need data = x->data;
    FAIL_IF(err, clip ? !x->of_clip : !x->of_views, GLOFND_E_OPTION, "it is for runs of task = %s, and these are of task = %s",
            clip ? "views" : "clip", clip ? "clip" : "views");
    const int truths = eval_gather(&argc, argv, "truth", truth, SPECS_MAX);
    const int by_captions = truths > 0 && strcmp(truth[truths - 1], "captions") == 0;
    FAIL_IF(err, by_captions && !clip, GLOFND_E_OPTION, "--truth captions is for runs of task = clip");
    if (strcmp(x->verb, "fn") == 0 && clip && (by_captions || truths < 1)) data = NOTHING;
    const int before = argc;
    TRY(check_flag(err, x, &argc, argv, "test", LABELS, 0));
    const int own_split = argc == before && (strcmp(x->verb, "knn") == 0 || strcmp(x->verb, "linear") == 0);
    TRY(check_flag(err, x, &argc, argv, "data", data, own_split));
    TRY(check_flag(err, x, &argc, argv, "retrieval", CAPTIONS, 0));
    return check_positional(err, x, argc, argv);
}

static glofnd_status check_run(gf_error *err, const sweep_run *r, const char *call) {
    static char text[SWEEP_COMMAND_MAX];
    char more[sizeof err->text];
    gf_error why = {{0}};
    job j = {.state = JOB_WAITING};
    sweep_command w = {.job = &j, .text = text};
    sweep_eval_command(&w, r, call);
    if (check_call(&why, &r->config, w.count - 2, (char **)j.argv + 2) == GLOFND_OK) return GLOFND_OK;
    snprintf(more, sizeof more, ": %.400s", why.text);
    GF_FAIL(err, GLOFND_E_OPTION, CANNOT_WORK, call, more);
}

/* 1: an earlier run that needs evaluation e has the same task and data. */
static int is_known(const sweep_run *runs, int i, int e) {
    for (int k = 0; k < i; k++)
        if (!(runs[k].evaluated >> e & 1u) && runs[k].config.task == runs[i].config.task &&
            strcmp(runs[k].config.data, runs[i].config.data) == 0)
            return 1;
    return 0;
}

/* Checks that the run can be trained on its data. */
static glofnd_status check_training(gf_error *err, const sweep_run *r) {
    gf_error why = {{0}};
    gf_dataset *data = NULL;
    glofnd_status status = gf_dataset_open(&why, r->config.data, &data);
    if (status == GLOFND_OK && r->config.task == GF_TASK_CLIP) status = gf_captions_require(&why, data);
    gf_dataset_free(data);
    FAIL_IF(err, status != GLOFND_OK, GLOFND_E_OPTION, "%.200s cannot be trained: %.400s; nothing was started", r->name,
            why.text);
    return GLOFND_OK;
}

/* 1: an earlier run that is still to be trained has the same task and data. */
static int is_trained_on(const sweep_run *runs, int i) {
    for (int k = 0; k < i; k++)
        if (!runs[k].finished && runs[k].config.task == runs[i].config.task &&
            strcmp(runs[k].config.data, runs[i].config.data) == 0)
            return 1;
    return 0;
}

glofnd_status sweep_check_data(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count) {
    for (int i = 0; i < count; i++)
        if (!runs[i].finished && !is_trained_on(runs, i)) TRY(check_training(err, &runs[i]));
    for (int e = 0; e < p->eval_count; e++)
        for (int i = 0; i < count; i++)
            if (!(runs[i].evaluated >> e & 1u) && !is_known(runs, i, e)) TRY(check_run(err, &runs[i], p->eval[e]));
    return GLOFND_OK;
}
