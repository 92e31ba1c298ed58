/* cmd_eval.c - glofnd eval: how good the encoder of a run is. Results are printed and added to RUN/eval.jsonl, which reports
 * read. */
#include "programs/eval/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/spec.h"
#include "embeddings/embedding_set.h"
#include "io/npy.h"
#include "programs/trained_run.h"
#include "run/run_folder.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

static const cli_verb *const verbs[] = {&eval_linear,    &eval_transfer,  &eval_knn,      &eval_fn,
                                        &eval_threshold, &eval_retrieval, &eval_zeroshot, NULL};

const cli_verb cmd_eval = {.name = "eval",
                           .summary = "evaluate a trained encoder",
                           .usage = "glofnd eval WHAT RUN ...",
                           .verbs = verbs};

/* ----- shared ----- */

const char *const eval_metrics[] = {"top1", "mean", NULL};

glofnd_status eval_dataset_read(gf_error *err, const char *text, eval_dataset *out) {
    const char *begin = text + (*text == '='); /* an empty NAME is none */
    const size_t kind = strcspn(begin, ":="), most = sizeof out->name - 1;
    snprintf(out->name, sizeof out->name, "%.*s", (int)GF_MIN(kind, most), begin);
    const char *spec = begin[kind] == '=' ? begin + kind + 1 : begin, *colon = strchr(spec, ':');
    /* "folder:DIR" without options: DIR, else NULL. */
    const char *dir = strncmp(spec, "folder:", 7) == 0 && !strchr(spec, '?') ? spec + 7 : NULL;
    out->known = gf_known_find(out->name);
    if (out->known && spec != text && (!colon || !gf_dataset_is_format(spec, (size_t)(colon - spec)))) dir = spec;
    else if (!out->known || !dir || !gf_known_recognise(out->known, dir)) dir = NULL;
    const int n =
        dir ? snprintf(out->spec, sizeof out->spec, "%s:%s", out->name, dir) : snprintf(out->spec, sizeof out->spec, "%s", spec);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof out->spec, GLOFND_E_ARGUMENT, "the SPEC of %s is too long", out->name);
    return GLOFND_OK;
}

glofnd_status eval_dataset_read_test(gf_error *err, const char *text, eval_dataset *out) {
    gf_spec spec = {0};
    char with[GF_TEST_SPEC];
    TRY(eval_dataset_read(err, text, out));
    if (gf_spec_parse(NULL, out->spec, &spec) != GLOFND_OK) return GLOFND_OK; /* opening it says why */
    const gf_known_dataset *known = gf_known_find(spec.format);
    if (known && known->test && !gf_spec_value(&spec, "split") && strcmp(known->test, known->split[0].name) != 0 &&
        gf_spec_with(&spec, "split", known->test, with, sizeof with))
        memcpy(out->spec, with, sizeof with);
    gf_spec_free(&spec);
    return GLOFND_OK;
}

/* ----- samples ----- */

glofnd_status eval_open(gf_error *err, eval_samples *s, gf_run_encoder **encoder, gf_split *split) {
    TRY(device_flags_open(err, "eval", &(gf_run_encoder_spec){.run = s->run, .untrained = s->untrained, .placement = s->where},
                          encoder));
    s->threads = gf_run_encoder_threads(*encoder);
    s->embeddings = gf_run_encoder_config(*encoder)->task == GF_TASK_CLIP;
    const int given = s->data != NULL;
    if (!given) s->data = memcpy(s->run_data, gf_run_encoder_config(*encoder)->data, sizeof s->run_data);
    s->trained_on = !s->untrained && strcmp(s->data, gf_run_encoder_config(*encoder)->data) == 0;
    const gf_split_spec spec = {
        .data = given ? s->data : gf_run_encoder_data(*encoder),
        .test = s->test,
        .share = EVAL_HELD_OUT,
        .seed = (uint64_t)gf_run_encoder_config(*encoder)->seed,
    };
    const glofnd_status status = gf_split_init(err, &spec, split);
    TRY(given ? status : gf_run_encoder_data_hint(err, status));
    eval_note(split->data);
    eval_note(split->test_data);
    memcpy(s->test_name, split->test_name, sizeof s->test_name);
    return GLOFND_OK;
}

static glofnd_status encode_part(gf_error *err, gf_run_encoder *e, const gf_samples *s, const char *what, gf_features *out) {
    eval_progress line;
    const gf_encode_spec spec = {
        .ids = s->id,
        .id_count = s->n,
        .labels = s->label,
        .unreadable = eval_warn,
        .progress = eval_progress_draw,
        .user = &line,
    };
    eval_progress_begin(&line, what);
    const glofnd_status status = gf_encode_samples(err, e, s->data, &spec, out);
    eval_progress_end(&line);
    return status;
}

glofnd_status eval_encode_split(gf_error *err, gf_run_encoder *e, const gf_split *split, gf_features *train, gf_features *test) {
    TRY(encode_part(err, e, &split->train, "training samples", train));
    return encode_part(err, e, &split->test, "test samples", test);
}

glofnd_status eval_open_trained(gf_error *err, const char *what, eval_samples *s, eval_progress *progress, gf_trained_run **run,
                                double *alpha) {
    const gf_trained_run_spec spec = {.run = s->run,
                                      .data = s->data,
                                      .placement = s->where,
                                      .unreadable = eval_warn,
                                      .progress = eval_progress_draw,
                                      .user = progress};
    FAIL_IF(err, s->data && !*s->data, GLOFND_E_OPTION, "--data is empty; give a SPEC");
    TRY(gf_trained_run_create(err, &spec, run));
    device_flags_report("eval", gf_trained_run_encoder(*run));
    const gf_config *c = gf_trained_run_config(*run);
    if (c->method.similarity == GLOFND_SIMILARITY_BANK) {
        gf_print(
            stderr,
            "glofnd eval %s: this run compares averages of embeddings (similarity = bank); its thresholds are compared with ",
            what);
        gf_print(stderr,
                 "similarities of single embeddings here, so figures of learned thresholds do not apply: see its log.jsonl\n");
    }
    if (!s->data) s->data = c->data;
    snprintf(s->test_name, sizeof s->test_name, "%s", s->data);
    if (*alpha == 0.0) *alpha = c->method.alpha;
    FAIL_IF(err, !(*alpha > 0.0 && *alpha < 1.0), GLOFND_E_OPTION, "alpha of the run is %g: give a share by --alpha", *alpha);
    return GLOFND_OK;
}

void eval_print_samples(const eval_samples *s, int64_t train_n, int64_t test_n) {
    const char *test_s = test_n == 1 ? "" : "s";
    gf_print(stdout, "train     %lld sample%s of %s\n", (long long)train_n, train_n == 1 ? "" : "s", s->data);
    if (*s->test_name) gf_print(stdout, "test      %lld sample%s of %s\n", (long long)test_n, test_s, s->test_name);
    else
        gf_print(stdout, "test      %lld sample%s held out of it, %.0f %% of a class\n", (long long)test_n, test_s,
                 100.0 * EVAL_HELD_OUT);
    if (!*s->test_name && s->trained_on)
        gf_print(
            stderr,
            "glofnd eval: WARNING: the encoder was trained on the test images: %.200s has no test split, so %.0f %% of its own "
            "images are used; --test SPEC names others\n",
            s->data, 100.0 * EVAL_HELD_OUT);
}

/* ----- records ----- */

void eval_log_begin(gf_eval_writer *log, const char *event, const char *protocol, const eval_samples *s) {
    gf_eval_writer_begin(log, event);
    gf_eval_put_text(log, "protocol", protocol);
    gf_eval_put_text(log, "data", s->data);
    gf_eval_put_text(log, "test", *s->test_name ? s->test_name : "held out");
    gf_eval_put_flag(log, "untrained", s->untrained);
}

glofnd_status eval_stored(gf_error *err, glofnd_status status) {
    const gf_error why = *err;
    const int logged = strncmp(why.text, GF_EVAL_CHARTS_LACK, sizeof GF_EVAL_CHARTS_LACK - 1) == 0;
    FAIL_IF(err, status != GLOFND_OK, status, "the result is printed, %s%.440s", logged ? "and " : "but not stored: ", why.text);
    return GLOFND_OK;
}

/* ----- files ----- */

int eval_is_file(const char *word) {
    struct stat st;
    return stat(word, &st) == 0 && S_ISREG(st.st_mode);
}

int eval_files_check(const cli_call *call, const eval_files *f, const char *data, const device_flags *device, int untrained) {
    const char *word = call->word[0];
    const char *given = f->labels ? "labels" : f->test_labels ? "test-labels" : f->thresholds ? "thresholds" : NULL;
    if (!eval_is_file(word) && given)
        return cli_misused(call, "--%s goes with a file of embeddings, and %s %s", given, word,
                           access(word, F_OK) == 0 ? "is not one" : "does not exist");
    if (!eval_is_file(word)) return CLI_OK;
    if (data) return cli_misused(call, "--data goes with a run; %s is a file of embeddings", word);
    if (untrained) return cli_misused(call, "--untrained goes with a run; %s is a file of embeddings", word);
    if (device->device) return cli_misused(call, "--device goes with the encoder of a run; %s is a file of embeddings", word);
    return CLI_OK;
}

/* ----- reading ----- */

static glofnd_status read_rows(gf_error *err, const char *path, const char *labels, gf_features *d) {
    gf_string_list classes = {0}; /* an array of labels names none */
    TRY(gf_embeddings_load(err, path, NULL, &d->n, &d->dim, &d->x));
    if (labels) TRY(gf_row_labels_read(err, labels, NULL, d->n, &d->label, &classes));
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t k = 0; k < d->dim; k++)
            FAIL_IF(err, !isfinite(d->x[i * d->dim + k]), GLOFND_E_NUMERIC, "%.300s: row %lld is not finite", path, (long long)i);
    return GLOFND_OK;
}

static glofnd_status read_features(gf_error *err, const char *path, const char *labels, gf_features *out) {
    gf_features d = {0};
    glofnd_status status = read_rows(err, path, labels, &d);
    /* Classifiers take memory for every label up to the largest one. */
    for (int64_t i = 0; i < d.n && status == GLOFND_OK; i++)
        if (d.label[i] >= GF_CLASSES_MAX)
            status = gf_fail(err, GLOFND_E_FORMAT,
                             "%.300s: label %d of row %lld; expected less than %d: number the classes 0, 1, 2 ...", labels,
                             (int)d.label[i], (long long)i, GF_CLASSES_MAX);
    if (status != GLOFND_OK) {
        gf_features_free(&d);
        return status;
    }
    /* Only rows with a label. */
    int64_t rows = 0;
    for (int64_t i = 0; i < d.n; i++) {
        if (d.label[i] < 0) continue;
        memmove(d.x + rows * d.dim, d.x + i * d.dim, (size_t)d.dim * sizeof *d.x);
        d.label[rows++] = d.label[i];
    }
    d.n = rows;
    *out = d;
    FAIL_IF(err, out->n == 0, GLOFND_E_ARGUMENT, "%.300s: no row has a label", labels);
    return GLOFND_OK;
}

/* ----- training and test rows ----- */

glofnd_status eval_files_split(gf_error *err, eval_samples *s, const eval_files *f, gf_features *train, gf_features *test) {
    const char *path = s->run, *other = s->test;
    FAIL_IF(err, !f->labels, GLOFND_E_OPTION, "--labels is missing: the classes of the rows of %.300s", path);
    FAIL_IF(err, !other != !f->test_labels, GLOFND_E_OPTION, "--test FILE and --test-labels FILE belong together");
    s->data = path;
    s->threads = s->where.threads > 0 ? s->where.threads : gf_parallel_default();
    snprintf(s->test_name, sizeof s->test_name, "%s", other ? other : "");
    TRY(read_features(err, path, f->labels, train));
    if (!other) return gf_features_hold_out(err, train, EVAL_HELD_OUT, EVAL_FILE_SEED, test);
    TRY(read_features(err, other, f->test_labels, test));
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT,
            "%.200s has %lld numbers per row, %.200s has %lld: they must be of one model", path, (long long)train->dim, other,
            (long long)test->dim);
    /* A class that no training row has cannot be predicted. */
    const int32_t classes = gf_features_classes(train);
    uint8_t *seen = calloc((size_t)classes, 1);
    int32_t missing = -1;
    FAIL_IF(err, !seen, GLOFND_E_MEMORY, "no memory for %d classes", (int)classes);
    for (int64_t i = 0; i < train->n; i++) seen[train->label[i]] = 1;
    for (int64_t i = 0; i < test->n && missing < 0; i++)
        if (test->label[i] >= classes || !seen[test->label[i]]) missing = test->label[i];
    free(seen);
    FAIL_IF(err, missing >= 0, GLOFND_E_ARGUMENT, "class %d of the test rows has no training row", (int)missing);
    return GLOFND_OK;
}

/* ----- all rows ----- */

static glofnd_status read_thresholds(gf_error *err, const char *path, int64_t n, float **out) {
    gf_npy a = {0};
    *out = malloc((size_t)n * sizeof **out + 1);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)n);
    TRY(gf_npy_read(err, path, &a));
    const int fits = a.rank == 1 && a.count == n && (a.type == GF_NPY_F4 || a.type == GF_NPY_F8);
    for (int64_t i = 0; fits && i < n; i++) (*out)[i] = (float)gf_npy_f64(&a, gf_permute(EVAL_FILE_SEED, 0, n, i));
    gf_npy_free(&a);
    FAIL_IF(err, !fits, GLOFND_E_FORMAT, "%.300s must be float32 or float64 [%lld]: a threshold for each row", path,
            (long long)n);
    return GLOFND_OK;
}

static glofnd_status shuffle(gf_error *err, const gf_features *d, gf_view_set *out) {
    *out = (gf_view_set){.n = d->n, .dim = d->dim};
    out->z = malloc((size_t)d->n * (size_t)d->dim * sizeof *out->z);
    out->id = malloc((size_t)d->n * sizeof *out->id);
    out->label = malloc((size_t)d->n * sizeof *out->label);
    FAIL_IF(err, !out->z || !out->id || !out->label, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)d->n);
    for (int64_t i = 0; i < d->n; i++) {
        const int64_t from = gf_permute(EVAL_FILE_SEED, 0, d->n, i);
        memcpy(out->z + i * d->dim, d->x + from * d->dim, (size_t)d->dim * sizeof *out->z);
        out->id[i] = from;
        out->label[i] = d->label ? GF_MAX(d->label[from], -1) : -1;
    }
    return GLOFND_OK;
}

glofnd_status eval_files_view_set(gf_error *err, const char *path, const eval_files *f, gf_view_set *out, float **lambda) {
    gf_features d = {0};
    *lambda = NULL;
    glofnd_status status = read_rows(err, path, f->labels, &d);
    if (status == GLOFND_OK) status = shuffle(err, &d, out);
    if (status == GLOFND_OK && f->thresholds) status = read_thresholds(err, f->thresholds, d.n, lambda);
    gf_features_free(&d);
    TRY(status);
    FAIL_IF(err, out->n < 2, GLOFND_E_ARGUMENT, "%.300s has %lld rows, which make no pairs", path, (long long)out->n);
    return GLOFND_OK;
}
