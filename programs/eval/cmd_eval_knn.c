/* cmd_eval_knn.c - glofnd eval knn: test images classified by their nearest training images. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/eval/eval_files.h"
#include "programs/trained_run.h"
#include "eval/knn.h"

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

static glofnd_status measure(gf_error *err, knn_job *j, const gf_features *train, const gf_features *test) {
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

static glofnd_status run_knn(gf_error *err, knn_job *j) {
    gf_features train = {0}, test = {0};
    gf_run_encoder *e = NULL;
    gf_split split = {0};
    glofnd_status status = eval_open(err, &j->samples, &e, &split);
    if (status == GLOFND_OK) status = check_k(err, j, split.train.n);
    if (status == GLOFND_OK) status = eval_encode_split(err, e, &split, &train, &test);
    if (status == GLOFND_OK) status = check_k(err, j, train.n); /* without unreadable samples */
    if (status == GLOFND_OK) status = measure(err, j, &train, &test);
    gf_split_free(&split);
    gf_run_encoder_free(e);
    gf_features_free(&train);
    gf_features_free(&test);
    return status;
}

static glofnd_status run_files(gf_error *err, knn_job *j) {
    gf_features train = {0}, test = {0};
    glofnd_status status = eval_files_split(err, &j->samples, j->files, &train, &test);
    if (status == GLOFND_OK) status = check_k(err, j, train.n);
    if (status == GLOFND_OK) status = measure(err, j, &train, &test);
    gf_features_free(&train);
    gf_features_free(&test);
    return status;
}

static const char *name_of(const knn_job *j) { return j->knn.temperature > 0.0 ? "knn" : "knn-unweighted"; }

static glofnd_status record(gf_error *err, const knn_job *j) {
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

static void print_result(const knn_job *j) {
    gf_print(stdout, "protocol  %s: cosine, k %lld, ", name_of(j), (long long)j->knn.k);
    if (j->knn.temperature > 0.0) gf_print(stdout, "votes exp(s / %g)", j->knn.temperature);
    else gf_print(stdout, "equal votes");
    gf_print(stdout, ", %lld %s%s\n", (long long)j->dim,
             j->files                ? "numbers a row"
             : j->samples.embeddings ? "numbers of the image embedding"
                                     : "backbone features",
             j->samples.untrained ? ", UNTRAINED weights" : "");
    eval_print_samples(&j->samples, j->train_n, j->test_n);
    gf_print(stdout, "top-1     %.2f %%\n", 100.0 * j->top1);
}

typedef struct knn_flags {
    const char *data, *test;
    int64_t k;
    int32_t unweighted, untrained;
    eval_files files;
    device_flags device;
} knn_flags;

static const gf_option rows[] = {
    CLI_STRING(knn_flags, data, "data", "SPEC", "training samples, with labels; default: those the run was trained on"),
    CLI_STRING(knn_flags, test, "test", "SPEC", "test samples; default: the data's own test split, else 20 % of each class"),
    CLI_INTEGER(knn_flags, k, "k", "N", "20", 1, 100000, "neighbours; all where there are fewer training samples"),
    CLI_SWITCH(knn_flags, unweighted, "unweighted", "every neighbour counts 1 instead of exp(similarity / 0.07)"),
    EVAL_UNTRAINED(knn_flags, untrained),
    EVAL_LABELS(knn_flags, files),
    EVAL_TEST_LABELS(knn_flags, files),
    DEVICE_FLAGS(knn_flags, device),
};

static int run(const cli_call *call, const void *flags) {
    const knn_flags *f = flags;
    gf_error err = {{0}};
    knn_job j = {.knn = {.temperature = f->unweighted ? 0.0 : TEMPERATURE, .k = f->k}, .k_given = cli_given(call, "k")};
    j.samples = (eval_samples){.run = call->word[0], .data = f->data, .test = f->test, .untrained = f->untrained};
    int code = device_flags_read(call, &f->device, &j.samples.where);
    if (code == CLI_OK) code = eval_files_check(call, &f->files, f->data, &f->device, f->untrained);
    if (code != CLI_OK) return code;
    j.files = eval_is_file(call->word[0]) ? &f->files : NULL;
    glofnd_status status = j.files ? run_files(&err, &j) : run_knn(&err, &j);
    if (status == GLOFND_OK) print_result(&j);
    if (status == GLOFND_OK && !j.files) status = eval_stored(&err, record(&err, &j));
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_knn = {
    .name = "knn",
    .summary = "classify by the nearest training images",
    .usage = "glofnd eval knn RUN [--data SPEC] [--test SPEC] [--k 20] [--unweighted] [--untrained]\n           " DEVICE_USAGE
             "\n       glofnd eval knn " EVAL_FILES_USAGE " [--test FILE --test-labels FILE.npy] [--k 20] ...",
    CLI_FLAGS(rows, knn_flags),
    EVAL_TAKES_RUN,
    EVAL_ONE_DATASET,
    .run = run,
};
