/* cmd_eval_knn.c - glofnd eval knn: test images classified by their nearest training images. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/eval/eval.h"
#include "cli/trained_run.h"
#include "eval/knn.h"

static const char usage[] =
    "glofnd eval knn RUN [--data SPEC] [--test SPEC] [--k 20] [--unweighted] [--untrained]\n           " DEVICE_USAGE;

#define TEMPERATURE 0.07 /* of the votes */
#define NEIGHBOURS 20

typedef struct knn_job {
    eval_samples samples;
    gf_knn knn;
    int k_given; /* else as many as there are, where they are few */
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

/* What is recorded is what was done: never more neighbours than there are. */
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
    if (status == GLOFND_OK) status = check_k(err, j, train.n); /* without what is damaged */
    if (status == GLOFND_OK) status = measure(err, j, &train, &test);
    gf_split_free(&split);
    gf_run_encoder_free(e);
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
    printf("protocol  %s: cosine, k %lld, ", name_of(j), (long long)j->knn.k);
    if (j->knn.temperature > 0.0) printf("votes exp(s / %g)", j->knn.temperature);
    else printf("equal votes");
    printf(", %lld %s%s\n", (long long)j->dim, j->samples.embeddings ? "numbers of the image embedding" : "backbone features",
           j->samples.untrained ? ", UNTRAINED weights" : "");
    eval_print_samples(&j->samples, j->train_n, j->test_n);
    printf("top-1     %.2f %%\n", 100.0 * j->top1);
}

int eval_knn(int argc, char **argv) {
    const char *data = NULL, *test = NULL, *k = NULL, *unweighted = NULL, *untrained = NULL;
    device_flags where = {0};
    const cli_flag flags[] = {
        {"data", "SPEC", "training samples, with labels; default: those the run was trained on", &data},
        {"test", "SPEC", "test samples; default: the data's own test split, else 20 % of each class", &test},
        {"k", "N", "neighbours (20, or all where there are fewer training samples)", &k},
        {"unweighted", NULL, "every neighbour counts 1 instead of exp(similarity / 0.07)", &unweighted},
        {"untrained", NULL, "with the weights the run began with: the baseline", &untrained},
        DEVICE_FLAGS(where),
    };
    int n;
    gf_error err = {{0}};
    knn_job j = {.knn.temperature = TEMPERATURE, .knn.k = NEIGHBOURS};
    int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if ((code = eval_check_arguments(argv[0], usage, n, ""))) return code; /* the run names its data */
    if (k && (code = cli_integer("k", k, 1, 100000, &j.knn.k))) return code;
    j.k_given = k != NULL;
    j.samples = (eval_samples){.run = argv[1], .data = data, .test = test, .untrained = untrained != NULL};
    if ((code = device_flags_read(argv[0], &where, &j.samples.where))) return code;
    if (unweighted) j.knn.temperature = 0.0;
    glofnd_status status = run_knn(&err, &j);
    if (status == GLOFND_OK) print_result(&j);
    if (status == GLOFND_OK) status = record(&err, &j);
    return status == GLOFND_OK ? CLI_OK : cli_failed("eval knn", status, &err);
}
