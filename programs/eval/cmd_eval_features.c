/* cmd_eval_features.c - glofnd eval knn and eval linear: images classified from their frozen features. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/knn.h"
#include "eval/linear.h"
#include "programs/eval/eval.h"
#include "programs/trained_run.h"
#include "util/machine.h"
#include "util/text.h"

/* ----- knn ----- */

/* Glofnd eval knn: test images classified by their nearest training images. */

#define TEMPERATURE 0.07 /* of the votes */

typedef struct knn_job {
    eval_samples samples;
    gf_knn knn;
    int k_given;             /* else as many as there are, where they are few */
    const eval_files *files; /* embeddings of files; NULL: of a run */
    /* found */
    int64_t train_n, test_n, dim;
    double top1;
} knn_job;

static glofnd_status measure_knn(gf_error *err, knn_job *j, const gf_features *train, const gf_features *test) {
    int32_t *predicted = malloc((size_t)test->n * sizeof *predicted);
    FAIL_IF(err, !predicted, GLOFND_E_MEMORY, "no memory for %lld predictions", (long long)test->n);
    eval_progress line;
    j->knn.job = (gf_sweep_job){.threads = j->samples.threads, .watch = {.progress = eval_progress_pairs, .user = &line}};
    eval_progress_begin(&line, "");
    const glofnd_status status = gf_knn_classify(err, &j->knn, train, test, predicted);
    eval_progress_end(&line);
    if (status == GLOFND_OK) j->top1 = gf_top1(test, predicted);
    free(predicted);
    j->train_n = train->n;
    j->test_n = test->n;
    j->dim = train->dim;
    TRY(status);
    FAIL_IF(err, isnan(j->top1), GLOFND_E_ARGUMENT, "no test sample has a label");
    return GLOFND_OK;
}

/* The record holds the k that was used: never more neighbours than there are. */
static glofnd_status check_k(gf_error *err, knn_job *j, int64_t n) {
    FAIL_IF(err, j->k_given && j->knn.k > n, GLOFND_E_OPTION, "--k is %lld, but there are %lld training samples with a label",
            (long long)j->knn.k, (long long)n);
    if (j->knn.k > n) j->knn.k = n;
    return GLOFND_OK;
}

static const char *name_of(const knn_job *j) { return j->knn.temperature > 0.0 ? "knn" : "knn-unweighted"; }

static glofnd_status record_knn(gf_error *err, const knn_job *j) {
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, j->samples.run));
    eval_log_begin(&log, "knn", name_of(j), &j->samples);
    gf_eval_put_integer(&log, "k", j->knn.k);
    gf_eval_put_number(&log, "temperature", j->knn.temperature);
    gf_eval_put_integer(&log, "train_samples", j->train_n);
    gf_eval_put_integer(&log, "test_samples", j->test_n);
    gf_eval_put_number(&log, "top1", j->top1);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

typedef struct knn_flags {
    const char *data, *test;
    int64_t k;
    int32_t unweighted, untrained;
    eval_files files;
    device_flags device;
} knn_flags;

static const gf_option knn_rows[] = {
    CLI_STRING(knn_flags, data, "data", "SPEC", "training samples, with labels; default: those the run was trained on"),
    CLI_STRING(knn_flags, test, "test", "SPEC", "test samples; default: the data's own test split, else 20 % of each class"),
    CLI_INTEGER(knn_flags, k, "k", "N", "20", 1, 100000, "number of neighbours; all if there are fewer samples"),
    CLI_SWITCH(knn_flags, unweighted, "unweighted", "equal votes instead of exp(similarity / 0.07)"),
    EVAL_UNTRAINED(knn_flags, untrained),
    EVAL_LABELS(knn_flags, files),
    EVAL_TEST_LABELS(knn_flags, files),
    DEVICE_FLAGS(knn_flags, device),
};

static int run_knn(const cli_call *call, const void *flags) {
    const knn_flags *f = flags;
    gf_error err = {{0}};
    knn_job j = {.knn = {.temperature = f->unweighted ? 0.0 : TEMPERATURE, .k = f->k}, .k_given = cli_given(call, "k")};
    j.samples = (eval_samples){.run = call->word[0], .data = f->data, .test = f->test, .untrained = f->untrained};
    int code = device_flags_read(call, &f->device, &j.samples.where);
    if (code == CLI_OK) code = eval_files_check(call, &f->files, f->data, &f->device, f->untrained);
    if (code != CLI_OK) return code;
    j.files = eval_is_file(call->word[0]) ? &f->files : NULL;
    gf_features train = {0}, test = {0};
    gf_run_encoder *e = NULL;
    gf_split split = {0};
    glofnd_status status;
    if (j.files) {
        status = eval_files_split(&err, &j.samples, j.files, &train, &test);
    } else {
        status = eval_open(&err, &j.samples, &e, &split);
        if (status == GLOFND_OK) status = check_k(&err, &j, split.train.n);
        if (status == GLOFND_OK) status = eval_encode_split(&err, e, &split, &train, &test);
    }
    if (status == GLOFND_OK) status = check_k(&err, &j, train.n); /* without unreadable samples */
    if (status == GLOFND_OK) status = measure_knn(&err, &j, &train, &test);
    gf_split_free(&split);
    gf_run_encoder_free(e);
    gf_features_free(&train);
    gf_features_free(&test);
    if (status == GLOFND_OK) {
        gf_print(stdout, "protocol  %s: cosine, k %lld, ", name_of(&j), (long long)j.knn.k);
        if (j.knn.temperature > 0.0) gf_print(stdout, "votes exp(s / %g)", j.knn.temperature);
        else gf_print(stdout, "equal votes");
        gf_print(stdout, ", %lld %s%s\n", (long long)j.dim,
                 j.files                ? "numbers a row"
                 : j.samples.embeddings ? "numbers of the image embedding"
                                        : "backbone features",
                 j.samples.untrained ? ", UNTRAINED weights" : "");
        eval_print_samples(&j.samples, j.train_n, j.test_n);
        gf_print(stdout, "top-1     %.2f %%\n", 100.0 * j.top1);
    }
    if (status == GLOFND_OK && !j.files) status = eval_stored(&err, record_knn(&err, &j));
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_knn = {
    .name = "knn",
    .summary = "classify by the nearest training images",
    .usage = "glofnd eval knn RUN [--data SPEC] [--test SPEC] [--k 20] [--unweighted] [--untrained]\n           " DEVICE_USAGE
             "\n       glofnd eval knn " EVAL_FILES_USAGE " [--test FILE --test-labels FILE.npy] [--k 20] ...",
    CLI_FLAGS(knn_rows, knn_flags),
    EVAL_TAKES_RUN,
    EVAL_ONE_DATASET,
    .run = run_knn,
};

/* ----- linear ----- */

/* Glofnd eval linear: a linear classifier on the frozen backbone, from all labels and from small shares of
 * them. */

#define FRACTIONS_MAX 16

typedef struct linear_job {
    eval_samples samples;
    gf_linear_eval_spec spec;
    double fraction[FRACTIONS_MAX];
    int fractions;
    const eval_files *files; /* embeddings of files; NULL: of a run */
    char protocol[96];       /* name, with what differs from the protocol of that name */
    eval_progress line;
    int encoding; /* the line is about encoding */
    gf_linear_result result[FRACTIONS_MAX];
    double seconds[FRACTIONS_MAX];
    int64_t train_n, test_n;
} linear_job;

/* ----- flags ----- */

static int read_fractions(const cli_call *call, linear_job *j, const char *text) {
    for (const char *at = text;; at++) {
        char number[32];
        double percent;
        const size_t n = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", (int)n, at);
        if (j->fractions == FRACTIONS_MAX || n >= sizeof number || gf_number_read(number, &percent) ||
            !(percent > 0.0 && percent <= 100.0))
            return cli_misused(call, "--fractions: \"%s\"; expected up to %d percentages in (0, 100], as in 100,10,1", text,
                               FRACTIONS_MAX);
        for (int i = 0; i < j->fractions; i++)
            if (j->fraction[i] == percent / 100.0)
                return cli_misused(call, "--fractions has %g twice; it would count twice in the mean", percent);
        j->fraction[j->fractions++] = percent / 100.0;
        at += n;
        if (!*at) return CLI_OK;
    }
}

/* ----- running ----- */

static void show_training(void *user, double share, int64_t epoch, int64_t epochs, double score) {
    linear_job *j = user;
    char text[120];
    snprintf(text, sizeof text, "%g %% of the labels: epoch %lld of %lld, best %.2f %%", 100.0 * share, (long long)epoch,
             (long long)epochs, 100.0 * score);
    gf_progress_draw(&j->line.line, epoch, epochs, text, epoch == epochs);
}

static void show_encoding(void *user, int64_t done, int64_t total) {
    linear_job *j = user;
    if (j->encoding) eval_progress_draw(&j->line, done, total); /* while training, its own line is shown */
}

/* All rows of f, as samples. */
static glofnd_status samples_of(gf_error *err, const gf_features *f, gf_samples *out) {
    *out = (gf_samples){.n = f->n};
    out->id = malloc((size_t)f->n * sizeof *out->id + 1);
    out->label = malloc((size_t)f->n * sizeof *out->label + 1);
    FAIL_IF(err, !out->id || !out->label, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)f->n);
    for (int64_t i = 0; i < f->n; i++) out->id[i] = i, out->label[i] = f->label[i];
    return GLOFND_OK;
}

/* ----- results ----- */

typedef struct mean_scores {
    double top1, top5, last_top1;
} mean_scores;

static mean_scores means(const linear_job *j) {
    mean_scores m = {0};
    for (int i = 0; i < j->fractions; i++) {
        const gf_probe *p = &j->result[i].probe;
        m.top1 += p->top1 / j->fractions, m.top5 += p->top5 / j->fractions, m.last_top1 += p->last_top1 / j->fractions;
    }
    return m;
}

static glofnd_status record_linear(gf_error *err, const linear_job *j) {
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, j->samples.run));
    for (int i = 0; i < j->fractions; i++) {
        const gf_linear_result *r = &j->result[i];
        eval_log_begin(&log, "linear", j->protocol, &j->samples);
        gf_eval_put_number(&log, "fraction", j->fraction[i]);
        gf_eval_put_integer(&log, "seed", (int64_t)j->spec.seed);
        gf_eval_put_integer(&log, "augment", j->spec.augment);
        gf_eval_put_number(&log, "validation", j->spec.validation);
        gf_eval_put_integer(&log, "train_samples", r->samples);
        gf_eval_put_integer(&log, "test_samples", j->test_n);
        gf_eval_put_integer(&log, "epochs", r->epochs);
        gf_eval_put_integer(&log, "epochs_run", r->probe.epochs_run);
        gf_eval_put_integer(&log, "best_epoch", r->probe.best_epoch);
        gf_eval_put_number(&log, "top1", r->probe.top1);
        gf_eval_put_number(&log, "top5", r->probe.top5);
        gf_eval_put_number(&log, "last_top1", r->probe.last_top1);
        gf_eval_put_number(&log, "time_s", j->seconds[i]);
        gf_eval_writer_end(&log);
    }
    const mean_scores m = means(j);
    eval_log_begin(&log, "linear_mean", j->protocol, &j->samples);
    gf_eval_put_integer(&log, "seed", (int64_t)j->spec.seed);
    gf_eval_put_integer(&log, "augment", j->spec.augment);
    gf_eval_put_number(&log, "validation", j->spec.validation);
    gf_eval_put_numbers(&log, "fractions", j->fraction, j->fractions);
    gf_eval_put_number(&log, "top1", m.top1);
    gf_eval_put_number(&log, "top5", m.top5);
    gf_eval_put_number(&log, "last_top1", m.last_top1);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

typedef struct linear_flags {
    const char *data, *test, *protocol, *fractions, *augment;
    double validation;
    int64_t epochs, seed;
    int32_t untrained;
    eval_files files;
    device_flags device;
} linear_flags;

static const gf_option linear_rows[] = {
    CLI_STRING(linear_flags, data, "data", "SPEC", "training samples, with labels; default: those the run was trained on"),
    CLI_STRING(linear_flags, test, "test", "SPEC", "test samples; default: the data's own test split, else 20 % of each class"),
    CLI_STRING_OR(linear_flags, protocol, "protocol", "NAME", "paper",
                  "paper: AdamW (the paper's text); official: SGD (the authors' script)"),
    CLI_STRING_OR(linear_flags, fractions, "fractions", "LIST", "100,10,1,0.1",
                  "percentages of the labels to train on; at least one sample per class"),
    CLI_STRING_OR(
        linear_flags, augment, "augment", "N|epoch", "0",
        "train on N stored passes of random crops and flips, or on new ones in every epoch as in the paper; 0: centre crops"),
    CLI_NUMBER(linear_flags, validation, "validation", "SHARE", NULL, 0, 1, CLI_SHARE,
               "choose the epoch on this held-out fraction of the training samples (such as 0.1), not on the test samples"),
    CLI_INTEGER(linear_flags, epochs, "epochs", "N", NULL, 0, 100000, "override the protocol's epochs (90, 285, 900, 900)"),
    CLI_INTEGER(linear_flags, seed, "seed", "N", "1", 0, CLI_LARGE,
                "seed for label sampling, augmentation, shuffling and initial weights"),
    EVAL_UNTRAINED(linear_flags, untrained),
    EVAL_LABELS(linear_flags, files),
    EVAL_TEST_LABELS(linear_flags, files),
    DEVICE_FLAGS(linear_flags, device),
};

static int run_linear(const cli_call *call, const void *flags) {
    const linear_flags *f = flags;
    gf_error err = {{0}};
    static linear_job j; /* too large for the stack */
    int code;
    j.spec.protocol = gf_probe_protocol_find(f->protocol);
    if (!j.spec.protocol) {
        char names[128] = "";
        for (int i = 0; gf_probe_protocol_at(i); i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s %s", i ? "," : "", gf_probe_protocol_at(i)->name);
        return cli_misused(call, "there is no protocol \"%s\"; there are%s", f->protocol, names);
    }
    if ((code = read_fractions(call, &j, f->fractions))) return code;
    if (strcmp(f->augment, "epoch") == 0) j.spec.augment = GF_AUGMENT_EVERY_EPOCH;
    else if (gf_integer_read(f->augment, &j.spec.augment) || j.spec.augment < 0 || j.spec.augment > 1000)
        return cli_misused(call, "--augment: \"%s\"; expected an integer in [0, 1000], or epoch", f->augment);
    j.spec.validation = f->validation, j.spec.epochs = f->epochs, j.spec.seed = (uint64_t)f->seed;
    j.samples = (eval_samples){.run = call->word[0], .data = f->data, .test = f->test, .untrained = f->untrained};
    if ((code = device_flags_read(call, &f->device, &j.samples.where)) ||
        (code = eval_files_check(call, &f->files, f->data, &f->device, f->untrained)))
        return code;
    j.files = eval_is_file(call->word[0]) ? &f->files : NULL;
    if (j.files && j.spec.augment != 0) return cli_misused(call, "--augment needs images; %s has embeddings", call->word[0]);
    /* The bare name is the whole protocol; whatever differs from it is in the name. */
    char views[32] = "", epochs[32] = "";
    if (j.spec.augment == 0) snprintf(views, sizeof views, "-centre");
    else if (j.spec.augment > 0) snprintf(views, sizeof views, "-cached%lld", (long long)j.spec.augment);
    if (j.spec.epochs > 0) snprintf(epochs, sizeof epochs, "-epochs%lld", (long long)j.spec.epochs);
    snprintf(j.protocol, sizeof j.protocol, "%s%s%s%s", j.spec.protocol->name, views, epochs,
             j.spec.validation > 0.0 ? "-validated" : "");
    gf_features train = {0}, test = {0}; /* of files */
    gf_split split = {0};
    glofnd_status status;
    if (j.files) {
        status = eval_files_split(&err, &j.samples, j.files, &train, &test);
        if (status == GLOFND_OK) status = samples_of(&err, &train, &split.train);
        if (status == GLOFND_OK) status = samples_of(&err, &test, &split.test);
        split.classes = gf_features_classes(&train);
        j.spec.train = &train, j.spec.test = &test;
    } else {
        status = eval_open(&err, &j.samples, &j.spec.encoder, &split);
    }
    j.spec.split = &split, j.spec.threads = j.samples.threads;
    j.train_n = split.train.n, j.test_n = split.test.n;
    if (status == GLOFND_OK) {
        gf_linear_eval *l = NULL;
        double largest = 0.0;
        for (int i = 0; i < j.fractions; i++) largest = j.fraction[i] > largest ? j.fraction[i] : largest;
        j.spec.unreadable = eval_warn, j.spec.encoding = show_encoding, j.spec.training = show_training, j.spec.user = &j;
        j.encoding = 1;
        eval_progress_begin(&j.line, "features");
        status = gf_linear_eval_create(&err, &j.spec, largest, &l);
        eval_progress_end(&j.line);
        j.encoding = 0;
        for (int i = 0; i < j.fractions && status == GLOFND_OK; i++) {
            const double start = gf_clock();
            eval_progress_begin(&j.line, "");
            status = gf_linear_eval_run(&err, l, j.fraction[i], &j.result[i]);
            if (j.result[i].probe.epochs_run) eval_progress_end(&j.line);
            j.seconds[i] = gf_clock() - start;
            const int raised = (int)j.result[i].raised;
            if (status == GLOFND_OK && raised)
                gf_print(
                    stderr,
                    "glofnd eval linear: %g %% of the labels: %d class%s %s too few samples for a whole one; one sample of each "
                    "is used (the authors' code takes none)\n",
                    100.0 * j.fraction[i], raised, raised == 1 ? "" : "es", raised == 1 ? "has" : "have");
        }
        gf_linear_eval_free(l);
    }
    gf_split_free(&split);
    gf_run_encoder_free(j.spec.encoder);
    gf_features_free(&train);
    gf_features_free(&test);
    if (status == GLOFND_OK) {
        const mean_scores m = means(&j);
        gf_print(stdout, "protocol  linear %s: %s, batch %lld, %s%s\n", j.protocol, j.spec.protocol->text,
                 (long long)j.spec.protocol->batch,
                 j.files               ? "rows as they are"
                 : j.spec.augment == 0 ? "centre views"
                                       : "random crops and flips",
                 j.samples.untrained ? ", UNTRAINED weights" : "");
        eval_print_samples(&j.samples, j.train_n, j.test_n);
        if (j.spec.validation > 0.0) gf_print(stdout, "stopping  by %g %% of the training samples\n", 100.0 * j.spec.validation);
        else
            gf_print(stdout,
                     "stopping  by the test samples, as the paper does; --validation 0.1 takes training samples instead\n");
        gf_print(stdout, "%8s %8s %9s %5s %7s %7s %7s  protocol\n", "labels", "samples", "epochs", "best", "top-1", "top-5",
                 "last");
        for (int i = 0; i < j.fractions; i++) {
            const gf_linear_result *r = &j.result[i];
            gf_print(stdout, "%6g %% %8lld %5lld/%-3lld %5lld %7.2f %7.2f %7.2f  %s\n", 100.0 * j.fraction[i],
                     (long long)r->samples, (long long)r->probe.epochs_run, (long long)r->epochs, (long long)r->probe.best_epoch,
                     100.0 * r->probe.top1, 100.0 * r->probe.top5, 100.0 * r->probe.last_top1, j.protocol);
        }
        if (j.fractions > 1)
            gf_print(stdout, "%8s %8s %9s %5s %7.2f %7.2f %7.2f  %s\n", "mean", "", "", "", 100.0 * m.top1, 100.0 * m.top5,
                     100.0 * m.last_top1, j.protocol);
    }
    if (status == GLOFND_OK && !j.files) status = eval_stored(&err, record_linear(&err, &j));
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_linear = {
    .name = "linear",
    .summary = "train a linear classifier on it, from all labels and from few",
    .usage = "glofnd eval linear RUN [--data SPEC] [--test SPEC] [--protocol paper|official] [--fractions 100,10,1,0.1]\n"
             "           [--augment N|epoch] [--validation SHARE] [--epochs N] [--seed N] [--untrained]\n           " DEVICE_USAGE
             "\n       glofnd eval linear " EVAL_FILES_USAGE " [--test FILE --test-labels FILE.npy] ...",
    CLI_FLAGS(linear_rows, linear_flags),
    EVAL_TAKES_RUN,
    EVAL_ONE_DATASET,
    .run = run_linear,
};
