/* cmd_eval_transfer.c - glofnd eval transfer: logistic regression on frozen features of other datasets; the paper's transfer
 * table. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/linear.h"
#include "programs/eval/eval.h"
#include "programs/trained_run.h"
#include "util/machine.h"

#define VALIDATION 0.2 /* of the training samples, to choose a strength by */

typedef struct transfer_set {
    eval_dataset data;
    const char *title;
    gf_scoring scoring;
    eval_samples samples;
    gf_transfer result;
    int64_t train_n, test_n;
    double seconds;
    char doubt[400]; /* why the result does not enter the mean; "": it does */
} transfer_set;

typedef struct transfer_job {
    const char *run, *test;
    const gf_transfer_protocol *protocol;
    int untrained, metric; /* metric: 0 the dataset's own, 1 top-1, 2 mean per class */
    char trained_on[sizeof((gf_config *)0)->data];
    int64_t seed;
    gf_encoder_device where;
    int threads;       /* of the encoder, and so of the fits */
    transfer_set *set; /* [sets] */
    int sets;
    gf_progress line;
    const char *at; /* title of the dataset in work */
} transfer_job;

/* ----- running ----- */

static void show_fit(void *user, int64_t fit, int64_t fits, int64_t iteration) {
    transfer_job *j = user;
    char text[160];
    snprintf(text, sizeof text, "%s: fit %lld of %lld, iteration %lld", j->at, (long long)fit + 1, (long long)fits,
             (long long)iteration);
    gf_progress_draw(&j->line, fit, fits, text, 0);
}

static glofnd_status open_set(gf_error *err, const transfer_job *j, const transfer_set *s, gf_split *out) {
    const gf_split_spec spec = {
        .data = s->data.spec,
        .test = j->test,
        .share = EVAL_HELD_OUT,
        .seed = (uint64_t)j->seed,
        .held_out = s->data.known && !s->data.known->test,
    };
    const gf_known_dataset *known = s->data.known;
    gf_error inner = {{0}};
    glofnd_status status = gf_split_init(&inner, &spec, out);
    /* A known name must mean that dataset: images of other classes under its name would pass for it. */
    if (status == GLOFND_OK && known && gf_dataset_known(out->data) != known && out->classes != known->classes)
        status = gf_fail(
            &inner, GLOFND_E_ARGUMENT,
            "%.200s has %d classes, %s has %d; the unpacked download is read by %s=DIR, and other images need another NAME",
            s->data.spec, (int)out->classes, known->full, (int)known->classes, known->name);
    return status == GLOFND_OK ? status : gf_fail(err, status, "%s: %s", s->title, inner.text);
}

/* ----- results ----- */

/* Test score at the strength that validation chose. */
static double validated(const transfer_set *s) { return s->result.chosen < 0 ? NAN : s->result.score[s->result.chosen]; }
static double best(const transfer_set *s) { return s->result.score[s->result.best]; }

static const char *metric_of(const transfer_set *s) { return gf_scoring_key(s->scoring); }

/* Sets whose results enter the mean. */
static int sound_sets(const transfer_job *j) {
    int n = 0;
    for (int i = 0; i < j->sets; i++) n += !*j->set[i].doubt;
    return n;
}

static glofnd_status record_set(gf_error *err, const transfer_job *j, const transfer_set *s) {
    const gf_transfer *r = &s->result;
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, j->run));
    eval_log_begin(&log, "transfer", j->protocol->name, &s->samples);
    gf_eval_put_text(&log, "dataset", s->data.name);
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

static void mean_scores(const transfer_job *j, double *score, double *by_validation) {
    const int n = sound_sets(j);
    *score = *by_validation = 0.0;
    for (int i = 0; i < j->sets; i++) {
        if (*j->set[i].doubt) continue;
        *score += best(&j->set[i]) / n;
        *by_validation += validated(&j->set[i]) / n;
    }
}

static glofnd_status record_mean(gf_error *err, const transfer_job *j) {
    const eval_samples samples = {.run = j->run, .data = "several", .test_name = "several", .untrained = j->untrained};
    static char what[EVAL_DATASETS_MAX][PATH_MAX + 500];
    const char *name[EVAL_DATASETS_MAX], *set[EVAL_DATASETS_MAX], *metric = NULL;
    double score, by_validation;
    gf_eval_writer log = {0};
    int n = 0;
    if (sound_sets(j) < 2) return GLOFND_OK;
    mean_scores(j, &score, &by_validation);
    TRY(gf_eval_writer_open(err, &log, j->run));
    /* The datasets of the mean, and how each is scored; their test samples follow from the names. */
    for (int i = 0; i < j->sets; i++) {
        const transfer_set *s = &j->set[i];
        if (*s->doubt) continue;
        metric = !metric || strcmp(metric, metric_of(s)) == 0 ? metric_of(s) : "several";
        snprintf(what[n], sizeof what[n], "%s=%s %s", s->data.name, s->data.spec, metric_of(s));
        name[n] = s->data.name, set[n] = what[n];
        n++;
    }
    eval_log_begin(&log, "transfer_mean", j->protocol->name, &samples);
    gf_eval_put_text(&log, "metric", metric);
    gf_eval_put_integer(&log, "seed", j->seed);
    gf_eval_put_integer(&log, "datasets", n);
    gf_eval_put_texts(&log, "names", name, n);
    gf_eval_put_texts(&log, "sets", set, n);
    gf_eval_put_number(&log, "score", score);
    gf_eval_put_number(&log, "validation_score", by_validation);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

static void print_scores(const transfer_job *j, const char *name, double (*score)(const transfer_set *), double mean) {
    gf_print(stdout, "%-14s", name);
    for (int i = 0; i < j->sets; i++) gf_print(stdout, " %9.2f%s", 100.0 * score(&j->set[i]), *j->set[i].doubt ? "*" : " ");
    if (sound_sets(j) > 1) gf_print(stdout, " %9.2f\n", 100.0 * mean);
    else gf_print(stdout, " %9s\n", "-");
}

static glofnd_status evaluate_transfer(gf_error *err, transfer_job *j) {
    gf_run_encoder *e = NULL;
    /* An error in the last dataset is reported before hours are spent on the first. */
    for (int i = 0; i < j->sets && j->sets > 1; i++) {
        gf_split split = {0};
        const glofnd_status sets_status = open_set(err, j, &j->set[i], &split);
        gf_split_free(&split);
        TRY(sets_status);
    }
    TRY(device_flags_open(err, "eval", &(gf_run_encoder_spec){.run = j->run, .untrained = j->untrained, .placement = j->where},
                          &e));
    j->threads = gf_run_encoder_threads(e);
    memcpy(j->trained_on, gf_run_encoder_config(e)->data, sizeof j->trained_on);
    gf_print(stdout, "protocol  transfer %s: %s%s\n", j->protocol->name, j->protocol->text,
             j->untrained ? ", UNTRAINED weights" : "");
    gf_print(
        stdout,
        "scores    best over l2 on the test samples, as the paper reports; and at the l2 that %.0f %% of the training samples "
        "choose\n",
        100.0 * VALIDATION);
    gf_print(stdout, "%-12s %8s %8s %7s  %-14s %18s %18s  protocol\n", "dataset", "train", "test", "classes", "metric",
             "best (l2)", "validated (l2)");
    glofnd_status status = GLOFND_OK, stored = GLOFND_OK;
    for (int i = 0; i < j->sets && status == GLOFND_OK; i++) {
        transfer_set *s = &j->set[i];
        gf_split split = {0};
        gf_features train = {0}, test = {0};
        const double start = gf_clock();
        glofnd_status set_status = open_set(err, j, s, &split);
        if (set_status == GLOFND_OK) memcpy(s->samples.test_name, split.test_name, sizeof s->samples.test_name);
        eval_note(split.data);
        eval_note(split.test_data);
        if (set_status == GLOFND_OK) {
            /* Writes why this split gives no number to be averaged; "": it is as it should be. */
            const gf_known_dataset *k = s->data.known;
            const int held = !split.test_name[0];
            const gf_known_split *own_test = k && k->test ? gf_known_split_find(k, k->test) : NULL;
            const int64_t train_n = split.train.n + (own_test ? 0 : split.test.n);
            int known_counts = 0; /* the training and test images that the known dataset has */
            for (const gf_known_split *p = k ? k->split : NULL; p && p->name; p++)
                known_counts |= p->images == train_n && (!own_test || own_test->images == split.test.n);
            s->doubt[0] = 0;
            if (split.classes < 2) snprintf(s->doubt, sizeof s->doubt, "it has %d class", (int)split.classes);
            else if (held && !j->untrained && strcmp(s->data.spec, j->trained_on) == 0)
                snprintf(s->doubt, sizeof s->doubt,
                         "its test images are a held-out part of the images that the encoder was trained on");
            else if (k && k->test && held)
                snprintf(s->doubt, sizeof s->doubt,
                         "its test images are held out of the training images, though %s has a test split", k->full);
            else if (k && !known_counts)
                snprintf(s->doubt, sizeof s->doubt,
                         "it has %lld training and %lld test images of %d classes; %s has other counts", (long long)split.train.n,
                         (long long)split.test.n, (int)split.classes, k->full);
            if (*s->doubt)
                gf_print(stderr,
                         "glofnd eval transfer: WARNING: %s: %s; the result is marked by * and does not enter the average\n",
                         s->title, s->doubt);
        }
        if (set_status == GLOFND_OK) set_status = eval_encode_split(err, e, &split, &train, &test);
        if (set_status == GLOFND_OK) {
            s->train_n = train.n, s->test_n = test.n;
            s->result = (gf_transfer){
                .protocol = j->protocol,
                .scoring = s->scoring,
                .validation = VALIDATION,
                .seed = (uint64_t)j->seed,
                .threads = j->threads,
                .progress = show_fit,
                .user = j,
            };
            j->at = s->title;
            j->line = gf_progress_start(0, cli_progress_mode());
            set_status = gf_transfer_fit(err, &s->result, &train, &test);
            gf_progress_end(&j->line);
        }
        gf_split_free(&split);
        gf_features_free(&train);
        gf_features_free(&test);
        s->seconds = gf_clock() - start;
        status = set_status;
        if (status == GLOFND_OK) {
            const transfer_set *set = &j->set[i];
            char chosen[32] = "", title[80];
            if (set->result.chosen >= 0)
                snprintf(chosen, sizeof chosen, "%.2f (%.1e)", 100.0 * validated(set), set->result.l2[set->result.chosen]);
            snprintf(title, sizeof title, "%s%s", set->title, *set->doubt ? " *" : "");
            gf_print(stdout, "%-12s %8lld %8lld %7lld  %-14s %8.2f (%.1e) %18s  %s\n", title, (long long)set->train_n,
                     (long long)set->test_n, (long long)set->result.classes, gf_scoring_title(set->scoring), 100.0 * best(set),
                     set->result.l2[set->result.best], chosen, j->protocol->name);
            gf_print(stdout, "  test on    %s\n",
                     *set->samples.test_name ? set->samples.test_name : "a held-out part of the training samples");
            if (set->result.unfinished)
                gf_print(stderr,
                         "glofnd eval transfer: %s: %lld of %d fits were stopped after %lld iterations, not yet converged\n",
                         set->title, (long long)set->result.unfinished, (set->result.chosen < 0 ? 1 : 2) * GF_TRANSFER_STRENGTHS,
                         (long long)j->protocol->iterations);
        }
        fflush(stdout);
        if (status == GLOFND_OK && stored == GLOFND_OK) stored = eval_stored(err, record_set(err, j, &j->set[i]));
    }
    gf_run_encoder_free(e);
    TRY(status);
    /* One row of the paper's table. */
    double score, by_validation;
    if (j->sets >= 2) {
        mean_scores(j, &score, &by_validation);
        gf_print(stdout, "\n%-14s", "protocol");
        for (int i = 0; i < j->sets; i++) gf_print(stdout, " %9s ", j->set[i].title);
        gf_print(stdout, " %9s\n", "Average");
        print_scores(j, j->protocol->name, best, score);
        print_scores(j, "  validated", validated, by_validation);
        if (sound_sets(j) < j->sets)
            gf_print(stdout, "* not in the average, which is over %d of %d datasets: see the warnings\n", sound_sets(j), j->sets);
    }
    return stored == GLOFND_OK ? eval_stored(err, record_mean(err, j)) : stored;
}

typedef struct transfer_flags {
    const char *data, *test, *protocol;
    int metric; /* of eval_metrics, if given */
    int64_t seed;
    int32_t untrained;
    device_flags device;
} transfer_flags;

static const gf_option rows[] = {
    CLI_STRING(transfer_flags, data, "data", "SPEC", "another dataset; may be repeated"),
    CLI_STRING(transfer_flags, test, "test", "SPEC",
               "test samples of a single dataset; default: its own test split, else 20 % of each class"),
    CLI_STRING_OR(transfer_flags, protocol, "protocol", "NAME", "paper",
                  "paper: l2 in 1e-6..1e5; official: C = 1 / l2 in 1e-6..1e5; raw: features not scaled"),
    EVAL_METRIC(transfer_flags, metric, "accuracy, or its mean over classes; default: as in the paper for that NAME, else top1"),
    CLI_INTEGER(transfer_flags, seed, "seed", "N", "42", 0, CLI_LARGE, "seed for drawing test and validation samples"),
    EVAL_UNTRAINED(transfer_flags, untrained),
    DEVICE_FLAGS(transfer_flags, device),
};

static int run_transfer(const cli_call *call, const void *flags) {
    const transfer_flags *f = flags;
    const int behind = call->words - 1, first = f->data != NULL;
    gf_error err = {{0}};
    transfer_job j = {.run = call->word[0], .test = f->test, .untrained = f->untrained, .seed = f->seed};
    j.sets = behind + first;
    j.metric = cli_given(call, "metric") ? 1 + f->metric : 0;
    j.protocol = gf_transfer_protocol_find(f->protocol);
    if (j.sets < 1) return cli_misused(call, "no dataset given: write its SPEC after RUN");
    if (j.sets > EVAL_DATASETS_MAX)
        return cli_misused(call, "%d datasets are given; expected at most %d", j.sets, EVAL_DATASETS_MAX);
    if (f->test && j.sets > 1) return cli_misused(call, "--test is for a single dataset");
    if (!j.protocol) {
        char names[128] = "";
        for (int i = 0; gf_transfer_protocol_at(i); i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s %s", i ? "," : "",
                     gf_transfer_protocol_at(i)->name);
        return cli_misused(call, "there is no protocol \"%s\"; there are%s", f->protocol, names);
    }
    int code = device_flags_read(call, &f->device, &j.where);
    if (code != CLI_OK) return code;
    j.set = calloc((size_t)j.sets, sizeof *j.set);
    glofnd_status status = j.set ? GLOFND_OK : gf_fail(&err, GLOFND_E_MEMORY, "no memory for %d datasets", j.sets);
    for (int i = 0; i < j.sets && status == GLOFND_OK && code == CLI_OK; i++) {
        transfer_set *s = &j.set[i];
        status = eval_dataset_read(&err, i < first ? f->data : call->word[1 + i - first], &s->data);
        /* The name decides how the dataset is scored. */
        const gf_known_dataset *known = s->data.known;
        s->title = known ? known->title : s->data.name;
        s->scoring = j.metric == 2 || (!j.metric && known && known->scoring == GF_SCORE_MEAN) ? GF_SCORE_MEAN : GF_SCORE_TOP1;
        s->samples = (eval_samples){.run = j.run, .data = s->data.spec, .test = j.test, .untrained = j.untrained};
        for (int k = 0; k < i && status == GLOFND_OK; k++) {
            const eval_dataset *a = &j.set[k].data, *b = &s->data;
            if (strcmp(a->name, b->name) != 0 || strcmp(a->spec, b->spec) != 0) continue;
            gf_print(stderr, "glofnd eval transfer: %s=%s is given twice; it would count twice in the mean\n", b->name, b->spec);
            code = CLI_USAGE;
        }
    }
    if (status == GLOFND_OK && code == CLI_OK) status = evaluate_transfer(&err, &j);
    free(j.set);
    return status == GLOFND_OK ? code : cli_failed(call->title, status, &err);
}

const cli_verb eval_transfer = {
    .name = "transfer",
    .summary = "logistic regression on other datasets: the transfer table",
    .usage =
        "glofnd eval transfer RUN [NAME=]SPEC|NAME=DIR... [--test SPEC] [--protocol paper|official|raw] [--metric top1|mean]\n"
        "           [--seed N] [--untrained] " DEVICE_USAGE,
    CLI_FLAGS(rows, transfer_flags),
    .word = "RUN",
    .word_help = "the folder of a run",
    .min_words = 1,
    .max_words = -1,
    .once = "several datasets follow the run: RUN SPEC SPEC...",
    .shows_progress = 1,
    .run = run_transfer,
};
