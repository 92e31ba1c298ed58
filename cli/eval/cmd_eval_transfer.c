/* cmd_eval_transfer.c - glofnd eval transfer: logistic regression on frozen features of other datasets; the paper's transfer
 * table. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/eval/eval.h"
#include "cli/trained_run.h"
#include "eval/linear/transfer_learning.h"
#include "util/clock.h"

#define VALIDATION 0.2 /* of the training samples, to choose a strength by */

typedef struct transfer_set {
    char name[64]; /* short: its NAME, or what the SPEC begins with */
    const char *title, *spec;
    int mean_per_class, held_out;
    char images[PATH_MAX], train_list[PATH_MAX], test_list[PATH_MAX]; /* a published archive with lists; "" if it is none */
    eval_samples samples;
    gf_transfer result;
    int64_t train_n, test_n;
    double seconds;
} transfer_set;

typedef struct transfer_job {
    const char *run, *test;
    const gf_transfer_protocol *protocol;
    int untrained, metric; /* metric: 0 the dataset's own, 1 top-1, 2 mean per class */
    int64_t seed;
    gf_encoder_device where;
    int threads;       /* of the encoder, and so of the fits */
    transfer_set *set; /* [sets] */
    int sets;
    gf_progress line;
    const char *at; /* title of the dataset in work */
} transfer_job;

/* ----- arguments ----- */

/* A dataset as published: the folder holds images and lists of those for training and testing. */
static void find_lists(transfer_set *s, const gf_transfer_dataset *known) {
    const char *root = s->spec + strlen("folder:");
    const int most = (int)sizeof s->images / 2;
    if (!known || !known->images || strncmp(s->spec, "folder:", strlen("folder:")) != 0) return;
    snprintf(s->train_list, sizeof s->train_list, "%.*s/%s", most, root, known->train_list);
    snprintf(s->test_list, sizeof s->test_list, "%.*s/%s", most, root, known->test_list);
    if (access(s->train_list, R_OK) != 0 || access(s->test_list, R_OK) != 0) {
        s->train_list[0] = s->test_list[0] = 0;
        return;
    }
    snprintf(s->images, sizeof s->images, "folder:%.*s/%s?split=all", most, root, known->images);
    s->spec = s->images;
}

/* "NAME=SPEC" or "SPEC"; a SPEC alone is named by its format. The name decides how the dataset is scored. */
static void read_set(const transfer_job *j, transfer_set *s, const char *text) {
    s->spec = eval_name(text, s->name, sizeof s->name);
    const gf_transfer_dataset *known = gf_transfer_dataset_find(s->name);
    s->title = known ? known->title : s->name;
    s->mean_per_class = j->metric ? j->metric == 2 : known && known->mean_per_class;
    s->held_out = known && known->held_out;
    if (!j->test) find_lists(s, known);
    s->samples = (eval_samples){.run = j->run, .data = s->spec, .test = j->test, .untrained = j->untrained};
}

static int read_protocol(const cli_call *call, transfer_job *j, const char *text) {
    char names[128] = "";
    j->protocol = gf_transfer_protocol_find(text);
    if (j->protocol) return CLI_OK;
    for (int i = 0; gf_transfer_protocol_at(i); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s %s", i ? "," : "", gf_transfer_protocol_at(i)->name);
    return cli_misused(call, "there is no protocol \"%s\"; there are%s", text, names);
}

/* ----- running ----- */

static void show_fit(void *user, int64_t fit, int64_t fits, int64_t iteration) {
    transfer_job *j = user;
    char text[160];
    snprintf(text, sizeof text, "%s: fit %lld of %lld, iteration %lld", j->at, (long long)fit + 1, (long long)fits,
             (long long)iteration);
    gf_progress_draw(&j->line, fit, fits, text, 0);
}

static glofnd_status fit(gf_error *err, transfer_job *j, transfer_set *s, gf_features *train, gf_features *test) {
    s->train_n = train->n, s->test_n = test->n;
    s->result = (gf_transfer){
        .protocol = j->protocol,
        .mean_per_class = s->mean_per_class,
        .validation = VALIDATION,
        .seed = (uint64_t)j->seed,
        .threads = j->threads,
        .progress = show_fit,
        .user = j,
    };
    j->at = s->title;
    j->line = gf_progress_start(0, cli_terminal_is_dumb());
    const glofnd_status status = gf_transfer_fit(err, &s->result, train, test);
    gf_progress_end(&j->line);
    return status;
}

static glofnd_status open_set(gf_error *err, const transfer_job *j, const transfer_set *s, gf_split *out) {
    const gf_split_spec spec = {
        .data = s->spec,
        .test = j->test,
        .share = EVAL_HELD_OUT,
        .seed = (uint64_t)j->seed,
        .held_out = s->held_out,
        .train_list = *s->train_list ? s->train_list : NULL,
        .test_list = *s->test_list ? s->test_list : NULL,
    };
    gf_error inner = {{0}};
    const glofnd_status status = gf_split_init(&inner, &spec, out);
    return status == GLOFND_OK ? status : gf_fail(err, status, "%s: %s", s->title, inner.text);
}

/* An error in the last dataset is reported before hours are spent on the first. */
static glofnd_status check_sets(gf_error *err, const transfer_job *j) {
    for (int i = 0; i < j->sets && j->sets > 1; i++) {
        gf_split split = {0};
        const glofnd_status status = open_set(err, j, &j->set[i], &split);
        gf_split_free(&split);
        TRY(status);
    }
    return GLOFND_OK;
}

static glofnd_status run_set(gf_error *err, transfer_job *j, gf_run_encoder *e, transfer_set *s) {
    gf_split split = {0};
    gf_features train = {0}, test = {0};
    const double start = gf_clock();
    glofnd_status status = open_set(err, j, s, &split);
    if (status == GLOFND_OK) memcpy(s->samples.test_name, split.test_name, sizeof s->samples.test_name);
    eval_note(split.data);
    eval_note(split.test_data);
    if (status == GLOFND_OK) status = eval_encode_split(err, e, &split, &train, &test);
    gf_split_free(&split);
    if (status == GLOFND_OK) status = fit(err, j, s, &train, &test);
    gf_features_free(&train);
    gf_features_free(&test);
    s->seconds = gf_clock() - start;
    return status;
}

/* ----- results ----- */

/* Test score at the strength that validation chose. */
static double validated(const transfer_set *s) { return s->result.chosen < 0 ? NAN : s->result.score[s->result.chosen]; }
static double best(const transfer_set *s) { return s->result.score[s->result.best]; }

static const char *metric_of(const transfer_set *s) { return s->mean_per_class ? "mean_per_class" : "top1"; }

static glofnd_status record(gf_error *err, const transfer_job *j, const transfer_set *s) {
    const gf_transfer *r = &s->result;
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, j->run));
    eval_log_begin(&log, "transfer", j->protocol->name, &s->samples);
    gf_eval_put_text(&log, "dataset", s->name);
    gf_eval_put_text(&log, "metric", metric_of(s));
    gf_eval_put_integer(&log, "seed", j->seed);
    gf_eval_put_integer(&log, "train_samples", s->train_n);
    gf_eval_put_integer(&log, "test_samples", s->test_n);
    gf_eval_put_integer(&log, "classes", r->classes);
    gf_eval_put_numbers(&log, "l2", r->l2, GF_TRANSFER_STRENGTHS);
    gf_eval_put_numbers(&log, "scores", r->score, GF_TRANSFER_STRENGTHS);
    gf_eval_put_integer(&log, "unfinished", r->unfinished);
    gf_eval_put_number(&log, "score", best(s));
    gf_eval_put_number(&log, "best_l2", r->l2[r->best]);
    gf_eval_put_number(&log, "validation_score", validated(s));
    gf_eval_put_number(&log, "validation_l2", r->chosen < 0 ? NAN : r->l2[r->chosen]);
    gf_eval_put_number(&log, "time_s", s->seconds);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

static void means(const transfer_job *j, double *score, double *by_validation) {
    *score = *by_validation = 0.0;
    for (int i = 0; i < j->sets; i++) {
        *score += best(&j->set[i]) / j->sets;
        *by_validation += validated(&j->set[i]) / j->sets;
    }
}

/* The metric of all datasets, or "several". */
static const char *common_metric(const transfer_job *j) {
    for (int i = 1; i < j->sets; i++)
        if (j->set[i].mean_per_class != j->set[0].mean_per_class) return "several";
    return metric_of(&j->set[0]);
}

/* Which datasets the mean is over, and how each is scored; their test samples follow from the names. */
static void put_sets(gf_eval_writer *log, const transfer_job *j) {
    static char what[EVAL_DATASETS_MAX][PATH_MAX + 100];
    const char *name[EVAL_DATASETS_MAX], *set[EVAL_DATASETS_MAX];
    for (int i = 0; i < j->sets; i++) {
        const transfer_set *s = &j->set[i];
        snprintf(what[i], sizeof what[i], "%s=%s %s", s->name, s->spec, metric_of(s));
        name[i] = s->name, set[i] = what[i];
    }
    gf_eval_put_texts(log, "names", name, j->sets);
    gf_eval_put_texts(log, "sets", set, j->sets);
}

static glofnd_status record_mean(gf_error *err, const transfer_job *j) {
    const eval_samples samples = {.run = j->run, .data = "several", .test_name = "several", .untrained = j->untrained};
    double score, by_validation;
    gf_eval_writer log = {0};
    if (j->sets < 2) return GLOFND_OK;
    means(j, &score, &by_validation);
    TRY(gf_eval_writer_open(err, &log, j->run));
    eval_log_begin(&log, "transfer_mean", j->protocol->name, &samples);
    gf_eval_put_text(&log, "metric", common_metric(j));
    gf_eval_put_integer(&log, "seed", j->seed);
    gf_eval_put_integer(&log, "datasets", j->sets);
    put_sets(&log, j);
    gf_eval_put_number(&log, "score", score);
    gf_eval_put_number(&log, "validation_score", by_validation);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

static void print_set(const transfer_job *j, const transfer_set *s) {
    char chosen[32] = "";
    if (s->result.chosen >= 0)
        snprintf(chosen, sizeof chosen, "%.2f (%.1e)", 100.0 * validated(s), s->result.l2[s->result.chosen]);
    printf("%-12s %8lld %8lld %7lld  %-14s %8.2f (%.1e) %18s  %s\n", s->title, (long long)s->train_n, (long long)s->test_n,
           (long long)s->result.classes, s->mean_per_class ? "mean per class" : "top-1", 100.0 * best(s),
           s->result.l2[s->result.best], chosen, j->protocol->name);
    if (s->result.unfinished)
        fprintf(stderr, "glofnd eval transfer: %s: %lld of %d fits were stopped after %lld iterations, not yet converged\n",
                s->title, (long long)s->result.unfinished, (s->result.chosen < 0 ? 1 : 2) * GF_TRANSFER_STRENGTHS,
                (long long)j->protocol->iterations);
}

/* One row of the paper's table. */
static void print_table(const transfer_job *j) {
    double score, by_validation;
    if (j->sets < 2) return;
    means(j, &score, &by_validation);
    printf("\n%-14s", "protocol");
    for (int i = 0; i < j->sets; i++) printf(" %10s", j->set[i].title);
    printf(" %10s\n%-14s", "Average", j->protocol->name);
    for (int i = 0; i < j->sets; i++) printf(" %10.2f", 100.0 * best(&j->set[i]));
    printf(" %10.2f\n%-14s", 100.0 * score, "  validated");
    for (int i = 0; i < j->sets; i++) printf(" %10.2f", 100.0 * validated(&j->set[i]));
    printf(" %10.2f\n", 100.0 * by_validation);
}

static glofnd_status evaluate(gf_error *err, transfer_job *j) {
    gf_run_encoder *e = NULL;
    TRY(check_sets(err, j));
    TRY(device_flags_open(err, "eval", &(gf_run_encoder_spec){.run = j->run, .untrained = j->untrained, .placement = j->where},
                          &e));
    j->threads = gf_run_encoder_threads(e);
    printf("protocol  transfer %s: %s%s\n", j->protocol->name, j->protocol->text, j->untrained ? ", UNTRAINED weights" : "");
    printf("scores    best over l2 on the test samples, as the paper reports; and at the l2 that %.0f %% of the training samples "
           "choose\n",
           100.0 * VALIDATION);
    printf("%-12s %8s %8s %7s  %-14s %18s %18s  protocol\n", "dataset", "train", "test", "classes", "metric", "best (l2)",
           "validated (l2)");
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < j->sets && status == GLOFND_OK; i++) {
        status = run_set(err, j, e, &j->set[i]);
        if (status == GLOFND_OK) status = record(err, j, &j->set[i]);
        if (status == GLOFND_OK) print_set(j, &j->set[i]);
        fflush(stdout);
    }
    gf_run_encoder_free(e);
    TRY(status);
    print_table(j);
    return record_mean(err, j);
}

/* Refuses a dataset that would count twice in the mean. */
static int check_sets_differ(const transfer_job *j) {
    for (int i = 0; i < j->sets; i++)
        for (int k = 0; k < i; k++) {
            if (strcmp(j->set[k].name, j->set[i].name) != 0 || strcmp(j->set[k].spec, j->set[i].spec) != 0) continue;
            fprintf(stderr, "glofnd eval transfer: %s=%s is named twice; it would count twice in the mean\n", j->set[i].name,
                    j->set[i].spec);
            return CLI_USAGE;
        }
    return CLI_OK;
}

static int check_counts(const cli_call *call, int sets, int test) {
    if (sets < 1) return cli_misused(call, "no dataset is named: give its SPEC behind RUN");
    if (sets > EVAL_DATASETS_MAX) return cli_misused(call, "%d datasets are given; expected at most %d", sets, EVAL_DATASETS_MAX);
    return test && sets > 1 ? cli_misused(call, "--test is for a single dataset") : CLI_OK;
}

typedef struct transfer_flags {
    const char *data, *test, *protocol;
    int metric; /* of eval_metrics, if given */
    int64_t seed;
    int32_t untrained;
    device_flags device;
} transfer_flags;

static const gf_option rows[] = {
    CLI_STRING(transfer_flags, data, "data", "SPEC", "one more dataset, or the only one"),
    CLI_STRING(transfer_flags, test, "test", "SPEC",
               "test samples of a single dataset; default: its own test split, else 20 % of each class"),
    CLI_STRING_OR(transfer_flags, protocol, "protocol", "NAME", "paper",
                  "paper: l2 in 1e-6..1e5; official: C = 1 / l2 in 1e-6..1e5; raw: features not scaled"),
    EVAL_METRIC(transfer_flags, metric,
                "accuracy, or its mean over classes; default: what the paper takes for that NAME, else top1"),
    CLI_INTEGER(transfer_flags, seed, "seed", "N", "42", 0, CLI_LARGE, "of drawn test and validation samples"),
    EVAL_UNTRAINED(transfer_flags, untrained),
    DEVICE_FLAGS(transfer_flags, device),
};

static int run(const cli_call *call, const void *flags) {
    const transfer_flags *f = flags;
    const int behind = call->words - 1, first = f->data != NULL;
    gf_error err = {{0}};
    int code;
    transfer_job j = {.run = call->word[0], .test = f->test, .untrained = f->untrained, .seed = f->seed};
    j.sets = behind + first;
    j.metric = cli_given(call, "metric") ? 1 + f->metric : 0;
    if ((code = check_counts(call, j.sets, f->test != NULL)) || (code = read_protocol(call, &j, f->protocol)) ||
        (code = device_flags_read(call, &f->device, &j.where)))
        return code;
    j.set = calloc((size_t)j.sets, sizeof *j.set);
    glofnd_status status = j.set ? GLOFND_OK : gf_fail(&err, GLOFND_E_MEMORY, "no memory for %d datasets", j.sets);
    for (int i = 0; i < j.sets && j.set; i++) read_set(&j, &j.set[i], i < first ? f->data : call->word[1 + i - first]);
    code = j.set ? check_sets_differ(&j) : CLI_OK;
    if (status == GLOFND_OK && code == CLI_OK) status = evaluate(&err, &j);
    free(j.set);
    return status == GLOFND_OK ? code : cli_failed(call->title, status, &err);
}

const cli_verb eval_transfer = {
    .name = "transfer",
    .summary = "logistic regression on other datasets: the transfer table",
    .usage = "glofnd eval transfer RUN [NAME=]SPEC... [--test SPEC] [--protocol paper|official|raw] [--metric top1|mean]\n"
             "           [--seed N] [--untrained] " DEVICE_USAGE,
    CLI_FLAGS(rows, transfer_flags),
    .word = "RUN",
    .word_help = "the folder of a run",
    .min_words = 1,
    .max_words = -1,
    .once = "several datasets stand behind the run: RUN SPEC SPEC...",
    .run = run,
};
