/* cmd_eval_fn.c - glofnd eval fn: how many of the flagged pairs are false negatives. Labels or equal captions decide. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/detectors.h"
#include "eval/encode.h"
#include "eval/split.h"
#include "plot/terminal.h"
#include "programs/eval/eval.h"
#include "programs/trained_run.h"
#include "run/run_log.h"
#include "util/array.h"
#include "util/parallel.h"

#define EPOCHS_SHOWN 12
#define FILE_ALPHA 0.01 /* of embeddings in a file, unless given */
#define FILE_BATCH 256

/* The pairs that are measured: three kinds of a run on images; two of embeddings in a file; two from both sides of an image-text
 * run. */
enum { VIEWS, BATCHES, DATASET, ROW_BATCHES, ROWS, PAIR_BATCHES, PAIR_DATASET = PAIR_BATCHES + 2, SCOPES = PAIR_DATASET + 2 };

static const struct scope {
    const char *name, *title;
} scopes[SCOPES] = {
    [VIEWS] = {"views", "augmented views, in batches"},
    [BATCHES] = {"batches", "images as they are, in batches"},
    [DATASET] = {"dataset", "images as they are, all pairs"},
    [ROW_BATCHES] = {"row batches", "rows of the file, in batches"},
    [ROWS] = {"rows", "rows of the file, all pairs"},
    [PAIR_BATCHES] = {"image-text batches", "image to text, in batches"},
    [PAIR_BATCHES + 1] = {"text-image batches", "text to image, in batches"},
    [PAIR_DATASET] = {"image-text dataset", "image to text, all pairs"},
    [PAIR_DATASET + 1] = {"text-image dataset", "text to image, all pairs"},
};

typedef struct fn_job {
    eval_samples samples;
    double alpha; /* 0: of the run */
    int64_t max_samples;
    const char *detector;    /* asked for by name; NULL: all that can be had */
    const char *truth;       /* asked for; NULL: labels if there are any, else captions */
    int by_captions;         /* false negatives are samples with a caption in common */
    const eval_files *files; /* embeddings of files; NULL: of a run */
    eval_progress progress;
    gf_trained_run *run;
    int64_t learned, anchors, batch, sharing;
    gf_precision_recall found[SCOPES][GF_FN_DETECTOR_COUNT];
} fn_job;

/* ----- epochs of the log ----- */

static void add_heading(gf_table *t, const char *first, const char *second) {
    gf_table_add(t, "%s", first);
    if (second) gf_table_add(t, "%s", second);
    static const char *const names[] = {"flagged %", "precision %", "recall %", "F1 %", "per anchor: precision %",
                                        "recall %",  "F1 %"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) gf_table_add(t, "%s", names[i]);
}

/* ----- the trained network ----- */

static glofnd_status compare_on(gf_error *err, fn_job *j, const gf_view_set *s, int views, int64_t batch, const float *lambda,
                                gf_precision_recall *out) {
    const int threads = j->run ? gf_trained_run_threads(j->run) : j->samples.threads;
    const gf_fn_comparison x = {
        .s = s,
        .views = views,
        .batch = batch,
        .alpha = j->alpha,
        .lambda = j->learned ? lambda : NULL,
        .job = {.threads = threads, .watch = {.progress = eval_progress_pairs, .user = &j->progress}},
    };
    eval_progress_begin(&j->progress, "");
    const glofnd_status status = gf_fn_compare(err, &x, out);
    eval_progress_end(&j->progress);
    return status;
}

static glofnd_status compare_detectors(gf_error *err, fn_job *j, int side, const gf_view_set *s, int views, int64_t batch,
                                       gf_precision_recall *out) {
    float *lambda = NULL;
    /* Learned thresholds of one side of the samples of a set, one per `views` rows; j->learned counts them. */
    const gf_trained_run *f = j->run;
    const int64_t n = s->n / views;
    int64_t *id = malloc((size_t)n * sizeof *id);
    lambda = malloc((size_t)n * sizeof *lambda);
    const int ok = id && lambda;
    for (int64_t i = 0; ok && i < n; i++) id[i] = s->id[i * views];
    if (ok) j->learned = gf_trained_run_lambda(f, side, id, n, lambda);
    free(id);
    glofnd_status status = ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for thresholds");
    if (status == GLOFND_OK) status = compare_on(err, j, s, views, batch, lambda, out);
    free(lambda);
    return status;
}

static glofnd_status measure_images(gf_error *err, fn_job *j) {
    gf_view_set s = {0};
    eval_progress_begin(&j->progress, "augmented views");
    glofnd_status status = gf_trained_run_augmented(err, j->run, j->batch, j->max_samples, 1, &s);
    eval_progress_end(&j->progress);
    if (status == GLOFND_OK) status = compare_detectors(err, j, 0, &s, 2, j->batch, j->found[VIEWS]);
    gf_view_set_free(&s);
    if (status != GLOFND_OK) return status;
    eval_progress_begin(&j->progress, "images");
    status = gf_trained_run_centre_crops(err, j->run, j->max_samples, &s);
    eval_progress_end(&j->progress);
    j->anchors = s.n;
    if (status == GLOFND_OK) status = compare_detectors(err, j, 0, &s, 1, j->batch < s.n ? j->batch : s.n, j->found[BATCHES]);
    if (status == GLOFND_OK) status = compare_detectors(err, j, 0, &s, 1, 0, j->found[DATASET]);
    gf_view_set_free(&s);
    return status;
}

/* From images to texts with the thresholds of images, and the other way round. */
static glofnd_status measure_pairs(gf_error *err, fn_job *j) {
    gf_view_set side[2] = {{0}, {0}};
    eval_progress_begin(&j->progress, "images");
    glofnd_status status = gf_trained_run_image_text(err, j->run, j->max_samples, &side[0], &side[1]);
    eval_progress_end(&j->progress);
    j->anchors = side[0].n;
    if (status == GLOFND_OK && j->by_captions) {
        status = gf_trained_run_caption_groups(err, j->run, &side[0], &side[1], &j->sharing);
        if (status == GLOFND_OK && j->sharing == 0)
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "no two of %lld samples of %.200s have a caption in common: no pair is known to be a false negative",
                             (long long)side[0].n, j->samples.data);
    }
    const int64_t batch = j->batch < side[0].n ? j->batch : side[0].n;
    for (int k = 0; k < 2; k++) {
        if (status == GLOFND_OK) status = compare_detectors(err, j, k, &side[k], 1, batch, j->found[PAIR_BATCHES + k]);
        if (status == GLOFND_OK) status = compare_detectors(err, j, k, &side[k], 1, 0, j->found[PAIR_DATASET + k]);
    }
    gf_view_set_free(&side[0]);
    gf_view_set_free(&side[1]);
    return status;
}

/* 1: it was measured, and asked for. */
static int is_wanted(const fn_job *j, int scope, int kind) {
    return j->found[scope][kind].anchors && (!j->detector || strcmp(j->detector, gf_fn_detector_names[kind]) == 0);
}

static void print_measured(const fn_job *j) {
    gf_table t = {.columns = 9};
    gf_text text = {0};
    add_heading(&t, "pairs", "detector");
    for (int s = 0; s < SCOPES; s++)
        for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++) {
            const gf_precision_recall *q = &j->found[s][k];
            if (!is_wanted(j, s, k)) continue;
            gf_table_add(&t, "%s", scopes[s].title);
            gf_table_add(&t, "%s", gf_fn_detector_names[k]);
            const double x[] = {q->flagged, q->pooled_precision, q->pooled_recall, q->pooled_f1, q->precision, q->recall, q->f1};
            for (int i = 0; i < 7; i++) gf_table_number(&t, 100.0 * x[i], 2);
        }
    gf_print(stdout, "frozen    %lld samples of %s, batches of %lld, alpha %g\n", (long long)j->anchors, j->samples.data,
             (long long)j->batch, j->alpha);
    if (j->by_captions)
        gf_print(stdout, "truth     captions: %lld samples have one in common with an earlier sample\n", (long long)j->sharing);
    gf_table_text(&text, &t, 2);
    if (text.at) gf_print_lines(stdout, text.at);
    if (text.at) gf_print(stdout, "\n");
    /* Detectors of the table alone: embeddings of a file have no learned thresholds. */
    for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++) {
        int shown = 0;
        for (int s = 0; s < SCOPES; s++) shown |= is_wanted(j, s, k);
        if (shown) gf_print(stdout, "%-8s %s\n", gf_fn_detector_names[k], gf_fn_detector_meanings[k]);
    }
    gf_print(stdout, "precision, recall: over all pairs; per anchor: means over anchors, 0/0 = 1, as the paper counts; F1: of "
                     "the two\ncolumns before it\n");
    gf_text_free(&text);
    gf_table_free(&t);
}

static glofnd_status record_measured(gf_error *err, const fn_job *j) {
    gf_eval_writer log = {0};
    char protocol[64];
    const int64_t n = gf_trained_run_info(j->run).n;
    TRY(gf_eval_writer_open(err, &log, j->samples.run));
    for (int s = 0; s < SCOPES; s++)
        for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++) {
            const gf_precision_recall *q = &j->found[s][k];
            if (!is_wanted(j, s, k)) continue;
            snprintf(protocol, sizeof protocol, "%s %s%s", scopes[s].name, gf_fn_detector_names[k],
                     j->by_captions ? " by captions" : "");
            eval_log_begin(&log, "fn", protocol, &j->samples);
            gf_eval_put_text(&log, "pairs", scopes[s].name);
            gf_eval_put_text(&log, "detector", gf_fn_detector_names[k]);
            gf_eval_put_number(&log, "alpha", j->alpha);
            gf_eval_put_text(&log, "truth", j->by_captions ? "captions" : "labels");
            gf_eval_put_integer(&log, "batch", s == DATASET || s >= PAIR_DATASET ? 0 : j->batch);
            gf_eval_put_integer(&log, "samples",
                                j->max_samples < n ? j->max_samples : n); /* asked for, unreadable ones included */
            gf_eval_put_integer(&log, "anchors", q->anchors);
            gf_eval_put_number(&log, "flagged", q->flagged);
            gf_eval_put_number(&log, "precision", q->precision);
            gf_eval_put_number(&log, "recall", q->recall);
            gf_eval_put_number(&log, "f1", q->f1);
            gf_eval_put_number(&log, "pooled_precision", q->pooled_precision);
            gf_eval_put_number(&log, "pooled_recall", q->pooled_recall);
            gf_eval_put_number(&log, "pooled_f1", q->pooled_f1);
            gf_eval_writer_end(&log);
        }
    return gf_eval_writer_close(&log);
}

/* ----- entry ----- */

static glofnd_status open_fn(gf_error *err, fn_job *j) {
    TRY(eval_open_trained(err, "fn", &j->samples, &j->progress, &j->run, &j->alpha));
    const gf_config *c = gf_trained_run_config(j->run);
    const gf_dataset_info info = gf_trained_run_info(j->run);
    const int labelled = info.classes > 0;
    const int captions = gf_trained_run_captions(j->run) != NULL, asked = j->truth && strcmp(j->truth, "captions") == 0;
    FAIL_IF(err, asked && !captions, GLOFND_E_ARGUMENT, "%s is a run on images alone: --truth captions needs one of task = clip",
            j->samples.run);
    j->by_captions = j->truth ? asked : captions && !labelled;
    FAIL_IF(err, !j->by_captions && !labelled, GLOFND_E_ARGUMENT,
            "%.200s has no labels; they decide which pairs are false negatives", j->samples.data);
    if (j->batch == 0) j->batch = c->batch;
    if (j->batch > info.n) j->batch = info.n;
    return GLOFND_OK;
}

static glofnd_status check_asked(gf_error *err, const fn_job *j) {
    const int asked = j->detector && strcmp(j->detector, gf_fn_detector_names[GF_FN_GLOFND]) == 0;
    FAIL_IF(err, asked && !j->learned && j->files, GLOFND_E_ARGUMENT, "--detector glofnd needs --thresholds FILE.npy");
    FAIL_IF(err, asked && !j->learned, GLOFND_E_ARGUMENT, EVAL_NOT_LEARNED, j->samples.run);
    return GLOFND_OK;
}

static glofnd_status evaluate_files(gf_error *err, fn_job *j) {
    j->samples.data = j->samples.run;
    j->samples.threads = j->samples.where.threads > 0 ? j->samples.where.threads : gf_parallel_default();
    if (j->alpha == 0.0) j->alpha = FILE_ALPHA;
    if (j->batch == 0) j->batch = FILE_BATCH;
    gf_view_set s = {0};
    float *lambda = NULL;
    FAIL_IF(err, !j->files->labels, GLOFND_E_OPTION, "--labels is missing: they decide which pairs are false negatives");
    glofnd_status status = eval_files_view_set(err, j->samples.run, j->files, &s, &lambda);
    if (status == GLOFND_OK) {
        s.n = j->anchors = GF_MIN(j->max_samples, s.n);
        j->batch = GF_MIN(j->batch, s.n);
        for (int64_t i = 0; lambda && i < s.n; i++) j->learned += isfinite(lambda[i]);
        status = compare_on(err, j, &s, 1, j->batch, lambda, j->found[ROW_BATCHES]);
    }
    if (status == GLOFND_OK) status = compare_on(err, j, &s, 1, 0, lambda, j->found[ROWS]);
    gf_view_set_free(&s);
    free(lambda);
    TRY(status);
    TRY(check_asked(err, j));
    print_measured(j);
    return GLOFND_OK;
}

static glofnd_status evaluate(gf_error *err, fn_job *j) {
    gf_run_log log;
    TRY(gf_run_log_read(err, j->samples.run, &log));
    glofnd_status status = open_fn(err, j);
    if (status == GLOFND_OK) {
        /* Epochs to show: with flags, and not too many; the last one always. */
        int64_t first = 0;
        while (first < log.epochs && !isfinite(log.field[GF_RUN_PRECISION][first])) first++;
        if (first == log.epochs) {
            gf_print(stdout, "training  no epoch of the log flagged anything against labels\n\n");
        } else {
            const int64_t count = log.epochs - first, step = (count + EPOCHS_SHOWN - 1) / EPOCHS_SHOWN;
            gf_table t = {.columns = 8};
            gf_text text = {0};
            add_heading(&t, "epoch", NULL);
            for (int64_t e = first; e < log.epochs; e++)
                if ((log.epochs - 1 - e) % step == 0) {
                    const double logged = log.field[GF_RUN_EPOCH][e]; /* lines before may be lost */
                    gf_table_add(&t, "%.0f",
                                 (isfinite(logged) ? logged : (double)e) + 1.0); /* counted from 1, as in all output */
                    gf_table_number(&t, log.field[GF_RUN_FLAGGED][e], 2);
                    gf_table_number(&t, log.field[GF_RUN_POOLED_PRECISION][e], 2);
                    gf_table_number(&t, log.field[GF_RUN_POOLED_RECALL][e], 2);
                    gf_table_number(&t, log.field[GF_RUN_POOLED_F1][e], 2);
                    gf_table_number(&t, log.field[GF_RUN_PRECISION][e], 2);
                    gf_table_number(&t, log.field[GF_RUN_RECALL][e], 2);
                    gf_table_number(&t, log.field[GF_RUN_F1][e], 2);
                }
            gf_table_text(&text, &t, 1);
            gf_print(stdout, "training  pairs flagged in each epoch, compared with labels, from log.jsonl%s\n",
                     step > 1 ? " (not all epochs)" : "");
            if (text.at) gf_print_lines(stdout, text.at);
            if (text.at) gf_print(stdout, "\n");
            gf_text_free(&text);
            gf_table_free(&t);
        }
    }
    gf_run_log_free(&log);
    fflush(stdout);
    if (status == GLOFND_OK) status = gf_trained_run_captions(j->run) ? measure_pairs(err, j) : measure_images(err, j);
    if (status != GLOFND_OK) return status;
    TRY(check_asked(err, j));
    print_measured(j);
    if (!j->learned) {
        gf_print(stderr, "glofnd eval fn: glofnd is skipped: ");
        gf_print(stderr, EVAL_NOT_LEARNED "\n", j->samples.run);
    }
    return eval_stored(err, record_measured(err, j));
}

#define NAME(name, text, meaning) text,
static const char *const detectors[] = {GF_FN_DETECTORS(NAME) NULL};
static const char *const truths[] = {"labels", "captions", NULL};

typedef struct fn_flags {
    const char *data;
    double alpha;
    int64_t samples, batch;
    int detector, truth; /* if given */
    eval_files files;
    device_flags device;
} fn_flags;

static const gf_option rows[] = {
    CLI_STRING(fn_flags, data, "data", "SPEC", "samples of the run, with labels; default: those it was trained on"),
    CLI_NUMBER(fn_flags, alpha, "alpha", "A", NULL, 0, 1, CLI_SHARE,
               "fraction of pairs that exact, single and fnc flag; default: of the run, of a file 0.01"),
    CLI_INTEGER(fn_flags, samples, "samples", "N", "100000", 2, 0x1p40, "use at most N random samples"),
    CLI_INTEGER(fn_flags, batch, "batch", "B", NULL, 2, 1 << 20, "samples in a batch; default: of the run, of a file 256"),
    CLI_CHOICE(fn_flags, detector, "detector", NULL, detectors, "only this detector"),
    CLI_CHOICE(
        fn_flags, truth, "truth", NULL, truths,
        "task clip: what a false negative is: labels, or captions that two samples share; default: labels if there are any"),
    EVAL_LABELS(fn_flags, files),
    EVAL_THRESHOLDS(fn_flags, files),
    DEVICE_FLAGS(fn_flags, device),
};

static int run_fn(const cli_call *call, const void *flags) {
    const fn_flags *f = flags;
    gf_error err = {{0}};
    fn_job j = {.alpha = f->alpha, .max_samples = f->samples, .batch = f->batch};
    j.samples = (eval_samples){.run = call->word[0], .data = f->data};
    if (cli_given(call, "detector")) j.detector = detectors[f->detector];
    if (cli_given(call, "truth")) j.truth = truths[f->truth];
    int code = device_flags_read(call, &f->device, &j.samples.where);
    if (code == CLI_OK) code = eval_files_check(call, &f->files, f->data, &f->device, 0);
    if (code != CLI_OK) return code;
    j.files = eval_is_file(call->word[0]) ? &f->files : NULL;
    const glofnd_status status = j.files ? evaluate_files(&err, &j) : evaluate(&err, &j);
    gf_trained_run_free(j.run);
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_fn = {
    .name = "fn",
    .summary = "how many flagged pairs are false negatives, by labels",
    .usage = "glofnd eval fn RUN [--data SPEC] [--alpha A] [--samples N] [--detector NAME] [--truth labels|captions]\n"
             "           [--batch B] " DEVICE_USAGE "\n       glofnd eval fn " EVAL_FILES_USAGE
             " [--thresholds FILE.npy] [--alpha 0.01] [--batch 256] ...",
    CLI_FLAGS(rows, fn_flags),
    EVAL_TAKES_RUN,
    EVAL_ONE_DATASET,
    .run = run_fn,
};
