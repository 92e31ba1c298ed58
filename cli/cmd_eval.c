/* cmd_eval.c - glofnd eval: how good the encoder of a run is. What is found is printed and added to RUN/eval.jsonl, from where
 * reports take it. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "eval/encode.h"
#include "eval/knn.h"
#include "io/json/jsonl.h"

static const char usage[] = "glofnd eval knn RUN --data SPEC [--test SPEC] [--k 20] [--unweighted] [--untrained]";

#define TEMPERATURE 0.07        /* of the votes */
#define HELD_OUT 0.2            /* of each class, where the data has no test split */

typedef struct knn_job {
    const char *run, *data, *test;      /* test NULL: the data's own */
    gf_knn knn;
    int untrained;
    /* found */
    char test_name[4400];
    int64_t train_n, test_n, dim;
    double top1;
} knn_job;

static void warn_damaged(void *user, int64_t i, const char *message) {
    (void)user;
    fprintf(stderr, "glofnd eval: sample %lld is left out: %s\n", (long long)i, message);
}

/* Which test samples: asked for, the dataset's own, or "" for a share of the training samples. */
static void choose_test(knn_job *j, const gf_dataset *data) {
    if (j->test) snprintf(j->test_name, sizeof j->test_name, "%s", j->test);
    else if (!gf_dataset_test_spec(data, j->test_name, sizeof j->test_name)) j->test_name[0] = 0;
}

static glofnd_status encode_spec(gf_error *err, gf_encoder *e, const char *spec, gf_features *f) {
    gf_dataset *d = NULL;
    glofnd_status status = gf_dataset_open(err, spec, &d);
    if (status == GLOFND_OK) status = gf_encode(err, e, d, warn_damaged, NULL, f);
    gf_dataset_free(d);
    return status;
}

static glofnd_status encode_test(gf_error *err, const knn_job *j, gf_encoder *e, gf_features *train, gf_features *test) {
    if (*j->test_name) return encode_spec(err, e, j->test_name, test);
    return gf_features_hold_out(err, train, HELD_OUT, (uint64_t)gf_encoder_config(e)->seed, test);
}

static glofnd_status measure(gf_error *err, knn_job *j, const gf_features *train, const gf_features *test) {
    int32_t *predicted = malloc((size_t)test->n * sizeof *predicted);
    FAIL_IF(err, !predicted, GLOFND_E_MEMORY, "no memory for %lld predictions", (long long)test->n);
    const glofnd_status status = gf_knn_classify(err, &j->knn, train, test, predicted);
    if (status == GLOFND_OK) j->top1 = gf_top1(test, predicted);
    free(predicted);
    j->train_n = train->n;
    j->test_n = test->n;
    j->dim = train->dim;
    TRY(status);
    FAIL_IF(err, isnan(j->top1), GLOFND_E_ARGUMENT, "no test sample has a label");
    return GLOFND_OK;
}

static glofnd_status run_knn(gf_error *err, knn_job *j) {
    const gf_encoder_spec spec = {.run = j->run, .untrained = j->untrained};
    gf_encoder *e = NULL;
    gf_dataset *data = NULL;
    gf_features train = {0}, test = {0};
    glofnd_status status = gf_dataset_open(err, j->data, &data);
    if (status == GLOFND_OK && gf_dataset_describe(data).classes == 0)
        status = gf_fail(err, GLOFND_E_ARGUMENT, "%.200s has no labels; nearest neighbours need them", j->data);
    if (status == GLOFND_OK) status = gf_encoder_open(err, &spec, &e);
    if (status == GLOFND_OK) choose_test(j, data);
    if (status == GLOFND_OK) status = gf_encode(err, e, data, warn_damaged, NULL, &train);
    if (status == GLOFND_OK) status = encode_test(err, j, e, &train, &test);
    if (status == GLOFND_OK) status = measure(err, j, &train, &test);
    gf_features_free(&train);
    gf_features_free(&test);
    gf_encoder_free(e);
    gf_dataset_free(data);
    return status;
}

static glofnd_status record(gf_error *err, const knn_job *j) {
    char path[PATH_MAX];
    gf_jsonl log = {0};
    const int n = snprintf(path, sizeof path, "%s/eval.jsonl", j->run);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof path, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    TRY(gf_jsonl_open(&log, err, path, GF_LOG_ALL));
    gf_jsonl_begin(&log);
    gf_jsonl_text(&log, "event", "knn");
    gf_jsonl_text(&log, "data", j->data);
    gf_jsonl_text(&log, "test", *j->test_name ? j->test_name : "held out");
    gf_jsonl_flag(&log, "untrained", j->untrained);
    gf_jsonl_integer(&log, "k", j->knn.k);
    gf_jsonl_number(&log, "temperature", j->knn.temperature);
    gf_jsonl_integer(&log, "train_samples", j->train_n);
    gf_jsonl_integer(&log, "test_samples", j->test_n);
    gf_jsonl_number(&log, "top1", j->top1);
    gf_jsonl_end(&log);
    return gf_jsonl_close(&log);
}

static void print_result(const knn_job *j) {
    printf("protocol  knn: cosine, k %lld, ", (long long)j->knn.k);
    if (j->knn.temperature > 0.0) printf("votes exp(s / %g)", j->knn.temperature);
    else printf("equal votes");
    printf(", %lld backbone features%s\n", (long long)j->dim, j->untrained ? ", UNTRAINED weights" : "");
    printf("train     %lld samples of %s\n", (long long)j->train_n, j->data);
    if (*j->test_name) printf("test      %lld samples of %s\n", (long long)j->test_n, j->test_name);
    else printf("test      %lld samples held out of it, %.0f %% of each class\n", (long long)j->test_n, 100.0 * HELD_OUT);
    printf("top-1     %.2f %%\n", 100.0 * j->top1);
}

int cmd_eval(int argc, char **argv) {
    const char *data = NULL, *test = NULL, *k = "20", *unweighted = NULL, *untrained = NULL;
    const cli_flag flags[] = {
        {"data", "SPEC", "training samples, with labels", &data},
        {"test", "SPEC", "test samples; default: the data's own test split, else 20 % of each class", &test},
        {"k", "N", "neighbours (20)", &k},
        {"unweighted", NULL, "every neighbour counts 1 instead of exp(similarity / 0.07)", &unweighted},
        {"untrained", NULL, "with the weights the run began with: the baseline", &untrained},
    };
    int n;
    gf_error err = {{0}};
    knn_job j = {.knn.temperature = TEMPERATURE};
    int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if (n != 2 || !data || strcmp(argv[1], "knn") != 0) {
        fprintf(stderr, "usage: %s\n", usage);
        return CLI_USAGE;
    }
    if ((code = cli_whole("k", k, 1, 100000, &j.knn.k))) return code;
    j.run = argv[2], j.data = data, j.test = test, j.untrained = untrained != NULL;
    if (unweighted) j.knn.temperature = 0.0;
    glofnd_status status = run_knn(&err, &j);
    if (status == GLOFND_OK) print_result(&j);
    if (status == GLOFND_OK) status = record(&err, &j);
    return status == GLOFND_OK ? CLI_OK : cli_failed("eval", status, &err);
}
