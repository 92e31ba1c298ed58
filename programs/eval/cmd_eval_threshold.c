/* cmd_eval_threshold.c - glofnd eval threshold: how far the learned thresholds are from the optimum, beside FNC's. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "eval/detectors.h"
#include "eval/encode.h"
#include "io/blockfile.h"
#include "io/npy.h"
#include "plot/svg.h"
#include "plot/terminal.h"
#include "programs/eval/eval.h"
#include "programs/trained_run.h"
#include "util/array.h"
#include "util/parallel.h"

#define FILE_ALPHA 0.01                     /* of embeddings in a file, unless given */
enum { BINS = 60, COLUMNS = 6 };            /* columns: sample, label, lambda, optimum, mean and spread of FNC's */
enum { SAMPLES = 100000, VIEWS_EACH = 50 }; /* defaults: samples; views of each image where there are few */

typedef struct threshold_job {
    eval_samples samples;
    const char *out; /* folder of the files; NULL: the run */
    int plain;
    double alpha; /* 0: of the run */
    int64_t max_anchors, max_samples, draws, fnc_batch, fnc_draws;
    const eval_files *files; /* embeddings of files; NULL: of a run */
    eval_progress progress;
    gf_trained_run *run;
    int threads;
    uint64_t seed;
    /* found */
    gf_view_set set; /* rows of the anchors come first */
    int views;
    int64_t anchors, pool, learned;
    int64_t *id;             /* [anchors] */
    float *lambda, *optimum; /* [anchors] */
    float *draw; /* [anchors][draws] exact thresholds of single draws of views, whose mean is the optimum; NULL: one */
    float *fnc;  /* [anchors][fnc_draws * views] */
    gf_threshold_error error, fnc_error;
    gf_draw_error draw_error;
} threshold_job;

/* ----- measuring ----- */

/* Thresholds of draw k of the anchors' views, against the same pool as those of draw 0. */
static glofnd_status add_draw(gf_error *err, threshold_job *j, const gf_view_set *pool, const gf_sweep_job *job, int64_t k,
                              float *theta) {
    gf_view_set drawn;
    eval_progress_begin(&j->progress, "more views of the anchors");
    glofnd_status status = gf_trained_run_draw(err, j->run, j->id, j->anchors, (int)k, &drawn);
    eval_progress_end(&j->progress);
    TRY(status);
    eval_progress_begin(&j->progress, "");
    status = gf_optimal_thresholds(err, &drawn, j->views, pool, j->alpha, job, theta);
    eval_progress_end(&j->progress);
    gf_view_set_free(&drawn);
    for (int64_t i = 0; i < j->anchors && status == GLOFND_OK; i++) j->draw[i * j->draws + k] = theta[i];
    return status;
}

/* ----- files ----- */

static int by_sample(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static glofnd_status path_of(gf_error *err, const threshold_job *j, const char *name, char path[PATH_MAX]) {
    const int n = snprintf(path, PATH_MAX, "%s/%s", j->out ? j->out : j->samples.run, name);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path of %s is too long", name);
    return GLOFND_OK;
}

static glofnd_status write_text(gf_error *err, const threshold_job *j, const char *name, gf_text *text) {
    char path[PATH_MAX];
    FAIL_IF(err, text->failed, GLOFND_E_MEMORY, "no memory for %s", name);
    TRY(path_of(err, j, name, path));
    return gf_file_write(err, path, text->at, text->used);
}

/* Before the work: the folder of the files, and that one can be written there. */
static glofnd_status make_out(gf_error *err, const threshold_job *j) {
    char path[PATH_MAX];
    if (!j->out) return GLOFND_OK;
    FAIL_IF(err, mkdir(j->out, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "%s cannot be made: %s", j->out, strerror(errno));
    TRY(path_of(err, j, GF_THRESHOLDS_SVG, path));
    return gf_writer_check(err, path);
}

static glofnd_status write_files(gf_error *err, const threshold_job *j) {
    /* Both files have the same rows and columns. Anchors were drawn at random; here they are in the order of the data. */
    double *values = malloc((size_t)j->anchors * COLUMNS * sizeof *values);
    gf_text tsv = {0};
    char path[PATH_MAX];
    FAIL_IF(err, !values, GLOFND_E_MEMORY, "no memory for thresholds");
    for (int64_t i = 0; i < j->anchors; i++) {
        double *out = values + i * COLUMNS;
        const int64_t each = j->fnc_draws * j->views;
        const gf_spread fnc = gf_spread_of(j->fnc + i * each, each);
        out[0] = (double)j->set.id[i * j->views], out[1] = j->set.label[i * j->views];
        out[2] = j->lambda[i], out[3] = j->optimum[i], out[4] = fnc.mean, out[5] = fnc.std;
    }
    qsort(values, (size_t)j->anchors, COLUMNS * sizeof *values, by_sample);
    gf_text_add(&tsv, "sample\tlabel\tlambda\toptimum\tfnc_mean\tfnc_std\n");
    for (int64_t i = 0; i < j->anchors; i++) {
        const double *v = values + i * COLUMNS;
        gf_text_add(&tsv, "%.0f\t%.0f", v[0], v[1]);
        for (int k = 2; k < COLUMNS; k++) gf_text_add(&tsv, isnan(v[k]) ? "\t" : "\t%.7g", v[k]);
        gf_text_add(&tsv, "\n");
    }
    const gf_npy npy = {.type = GF_NPY_F8, .rank = 2, .shape = {j->anchors, COLUMNS}, .data = values};
    glofnd_status status = write_text(err, j, GF_THRESHOLDS_TSV, &tsv);
    if (status == GLOFND_OK) status = path_of(err, j, GF_THRESHOLDS_NPY, path);
    if (status == GLOFND_OK) status = gf_npy_write(err, path, &npy);
    gf_text_free(&tsv);
    free(values);
    TRY(status);
    /* Densities over each other, from the smallest to the largest threshold of all. */
    const int64_t each = j->fnc_draws * j->views;
    const struct {
        const char *name;
        const float *x;
        int64_t n;
    } sets[3] = {
        {"optimum", j->optimum, j->anchors},
        {"learned", j->lambda, j->anchors},
        {"FNC, in random batches", j->fnc, j->anchors * each},
    };
    double low = INFINITY, high = -INFINITY, density[3][BINS];
    gf_series series[3];
    int count = 0;
    for (int s = 0; s < 3; s++) {
        const gf_spread spread = gf_spread_of(sets[s].x, sets[s].n);
        low = fmin(low, spread.min), high = fmax(high, spread.max);
    }
    if (high - low < 1e-6) low -= 0.01, high += 0.01;
    for (int s = 0; s < 3; s++) {
        gf_density(sets[s].x, sets[s].n, low, high, BINS, density[s]);
        if (s != 1 || j->learned) series[count++] = (gf_series){.name = sets[s].name, .y = density[s], .n = BINS, .colour = s};
    }
    const double width = (high - low) / BINS;
    const gf_chart chart = {
        .title = "Thresholds of anchors",
        .x_name = "threshold: cosine similarity",
        .y_name = "density",
        .series = series,
        .count = count,
        .level = NAN,
        .from_zero = 1,
        .x_first = low + 0.5 * width,
        .x_step = width,
    };
    gf_text svg = {0};
    gf_svg_file(&svg, &chart);
    status = write_text(err, j, GF_THRESHOLDS_SVG, &svg);
    gf_text_free(&svg);
    return status;
}

/* ----- results ----- */

static void add_row(gf_table *t, const char *name, gf_spread s, const gf_threshold_error *e) {
    gf_table_add(t, "%s", name);
    gf_table_add(t, "%lld", (long long)s.count);
    const double x[] = {s.mean, s.std, s.min, s.max, e ? e->mae : NAN, e ? e->rmse : NAN, e ? e->bias : NAN};
    for (int i = 0; i < 7; i++) gf_table_number(t, x[i], 4);
}

static void print_result(const threshold_job *j) {
    static const char *const names[] = {"thresholds", "number", "mean", "std", "min", "max", "MAE", "RMSE", "bias"};
    gf_table t = {.columns = 9};
    gf_text text = {0};
    char fnc[64];
    snprintf(fnc, sizeof fnc, "FNC, %lld batch%s of %lld", (long long)j->fnc_draws, j->fnc_draws == 1 ? "" : "es",
             (long long)j->fnc_batch);
    for (int i = 0; i < 9; i++) gf_table_add(&t, "%s", names[i]);
    add_row(&t, "optimum", gf_spread_of(j->optimum, j->anchors), NULL);
    if (j->learned) add_row(&t, "learned", gf_spread_of(j->lambda, j->anchors), &j->error);
    add_row(&t, fnc, gf_spread_of(j->fnc, j->anchors * j->fnc_draws * j->views), &j->fnc_error);
    gf_table_text(&text, &t, 1);
    gf_print(stdout, "optimum   (1-alpha) quantile, alpha %g, of each anchor's similarities to %lld %s of %s\n", j->alpha,
             (long long)j->pool,
             j->files   ? "rows"
             : j->plain ? "images as they are"
                        : "augmented views",
             j->samples.data);
    if (j->draws > 1) gf_print(stdout, "          mean over %lld draws of the anchor's two views\n", (long long)j->draws);
    if (text.at) gf_print_lines(stdout, text.at);
    if (j->draws > 1) {
        const gf_draw_error *e = &j->draw_error;
        gf_print(stdout, "floor     MAE %.4f, RMSE %.4f: the best that any threshold can have against a single draw of views\n",
                 e->floor, e->noise);
        if (j->learned)
            gf_print(
                stdout,
                "one draw  learned: MAE %.4f, RMSE %.4f = bias %.4f, spread %.4f, noise of the views %.4f (squares add up)\n",
                e->one.mae, e->one.rmse, e->one.bias, e->spread, e->noise);
    }
    gf_text_free(&text);
    gf_table_free(&t);
    if (j->learned || j->files) return;
    gf_print(stderr, "glofnd eval threshold: the learned ones are skipped: ");
    gf_print(stderr, EVAL_NOT_LEARNED "\n", j->samples.run);
}

static glofnd_status record_thresholds(gf_error *err, const threshold_job *j) {
    gf_eval_writer log = {0};
    const gf_spread optimum = gf_spread_of(j->optimum, j->anchors), lambda = gf_spread_of(j->lambda, j->anchors);
    TRY(gf_eval_writer_open(err, &log, j->samples.run));
    eval_log_begin(&log, "threshold", j->plain ? "plain" : "views", &j->samples);
    gf_eval_put_number(&log, "alpha", j->alpha);
    gf_eval_put_integer(&log, "anchors", j->anchors);
    gf_eval_put_integer(&log, "learned", j->learned);
    gf_eval_put_integer(&log, "samples", j->pool);
    gf_eval_put_number(&log, "optimum_mean", optimum.mean);
    gf_eval_put_number(&log, "optimum_std", optimum.std);
    gf_eval_put_number(&log, "lambda_mean", lambda.mean);
    gf_eval_put_number(&log, "lambda_std", lambda.std);
    gf_eval_put_number(&log, "mae", j->error.mae);
    gf_eval_put_number(&log, "rmse", j->error.rmse);
    gf_eval_put_number(&log, "bias", j->error.bias);
    gf_eval_put_integer(&log, "fnc_batch", j->fnc_batch);
    gf_eval_put_integer(&log, "fnc_draws", j->fnc_draws);
    gf_eval_put_number(&log, "fnc_mae", j->fnc_error.mae);
    gf_eval_put_number(&log, "fnc_rmse", j->fnc_error.rmse);
    gf_eval_put_number(&log, "fnc_bias", j->fnc_error.bias);
    if (j->draws > 1) {
        /* A record of one draw has none of these: it is comparable with those of versions without them. */
        gf_eval_put_integer(&log, "draws", j->draws);
        gf_eval_put_number(&log, "floor_mae", j->draw_error.floor);
        gf_eval_put_number(&log, "noise", j->draw_error.noise);
        gf_eval_put_number(&log, "spread", j->draw_error.spread);
        gf_eval_put_number(&log, "one_mae", j->draw_error.one.mae);
        gf_eval_put_number(&log, "one_rmse", j->draw_error.one.rmse);
    }
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

/* ----- entry ----- */

static glofnd_status evaluate_threshold(gf_error *err, threshold_job *j) {
    if (j->files) {
        j->samples.data = j->samples.run;
        j->plain = 1, j->seed = EVAL_FILE_SEED;
        j->threads = j->samples.where.threads > 0 ? j->samples.where.threads : gf_parallel_default();
        if (j->max_samples == 0) j->max_samples = SAMPLES;
        if (j->alpha == 0.0) j->alpha = FILE_ALPHA;
    } else {
        TRY(eval_open_trained(err, "threshold", &j->samples, &j->progress, &j->run, &j->alpha));
        FAIL_IF(err, gf_trained_run_captions(j->run) != NULL, GLOFND_E_ARGUMENT,
                "%s is an image-text run: its thresholds are for pairs of image and text, which `glofnd eval fn` measures",
                j->samples.run);
        /* More views of each image of a small dataset cost time and change little. */
        const int64_t n = gf_trained_run_info(j->run).n, few = SAMPLES / VIEWS_EACH;
        if (j->max_samples == 0) j->max_samples = j->plain || n > few ? SAMPLES : n * VIEWS_EACH;
        j->threads = gf_trained_run_threads(j->run), j->seed = (uint64_t)gf_trained_run_config(j->run)->seed;
    }
    TRY(make_out(err, j));
    const gf_sweep_job job = {.threads = j->threads, .watch = {.progress = eval_progress_pairs, .user = &j->progress}};
    if (j->files) {
        TRY(eval_files_view_set(err, j->samples.run, j->files, &j->set, &j->lambda));
        j->views = 1;
        j->anchors = GF_MIN(j->max_anchors, j->set.n), j->pool = GF_MIN(j->max_samples, j->set.n);
    } else {
        /* The batch size from 32 to 256 that leaves fewest of n samples out; of few samples at most half, so that others can stand
         * in for unreadable ones. */
        const int64_t n = gf_trained_run_info(j->run).n;
        int64_t batch = n < 4 ? n : n < 256 ? n / 2 : 256;
        for (int64_t b = batch; b >= 32; b--)
            if (n % b < n % batch) batch = b;
        const int64_t most = GF_MIN(j->max_anchors, n / batch * batch), drawn = GF_MAX(most, (j->max_samples + 1) / 2);
        glofnd_status status;
        if (!j->plain) /* it may take a while, and without a terminal there is no line of progress */
            gf_print(stderr, "glofnd eval threshold: %lld augmented views of %lld images to encode (--samples, --anchors)\n",
                     2 * (long long)((drawn + batch - 1) / batch * batch), (long long)n);
        eval_progress_begin(&j->progress, j->plain ? "images" : "augmented views");
        if (j->plain) {
            status = gf_trained_run_centre_crops(err, j->run, GF_MAX(j->max_anchors, j->max_samples), &j->set);
        } else {
            status = gf_trained_run_augmented(err, j->run, batch, drawn, 0, &j->set);
        }
        eval_progress_end(&j->progress);
        TRY(status);
        j->views = j->plain ? 1 : 2;
        j->anchors = j->plain ? GF_MIN(j->max_anchors, j->set.n) : most;
        j->pool = GF_MIN(j->max_samples, j->set.n);
        FAIL_IF(err, j->anchors < 2, GLOFND_E_ARGUMENT, "%lld samples make no pairs", (long long)j->anchors);
    }
    gf_view_set anchors = j->set, pool = j->set;
    anchors.n = j->anchors * j->views, pool.n = j->pool;
    if (j->fnc_batch > j->anchors) j->fnc_batch = j->anchors;
    j->optimum = malloc((size_t)j->anchors * sizeof *j->optimum);
    j->fnc = malloc((size_t)(j->anchors * j->fnc_draws * j->views) * sizeof *j->fnc);
    FAIL_IF(err, !j->optimum || !j->fnc, GLOFND_E_MEMORY, "no memory for thresholds");
    if (j->files) {
        /* Thresholds of a file; NaN where it has none. */
        if (!j->lambda) {
            j->lambda = malloc((size_t)j->anchors * sizeof *j->lambda);
            FAIL_IF(err, !j->lambda, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)j->anchors);
            for (int64_t i = 0; i < j->anchors; i++) j->lambda[i] = NAN;
        }
        for (int64_t i = 0; i < j->anchors; i++) j->learned += isfinite(j->lambda[i]);
    } else {
        j->id = malloc((size_t)j->anchors * sizeof *j->id);
        j->lambda = malloc((size_t)j->anchors * sizeof *j->lambda);
        FAIL_IF(err, !j->id || !j->lambda, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)j->anchors);
        for (int64_t i = 0; i < j->anchors; i++) j->id[i] = j->set.id[i * j->views];
        j->learned = gf_trained_run_lambda(j->run, 0, j->id, j->anchors, j->lambda);
    }
    eval_progress_begin(&j->progress, "");
    glofnd_status status = gf_optimal_thresholds(err, &anchors, j->views, &pool, j->alpha, &job, j->optimum);
    if (status == GLOFND_OK)
        status =
            gf_fnc_batch_thresholds(err, &anchors, j->views, j->fnc_batch, (int)j->fnc_draws, j->alpha, j->seed, &job, j->fnc);
    eval_progress_end(&j->progress);
    TRY(status);
    if (j->draws > 1) {
        /* The optimum, that of one draw, becomes the mean over all. */
        float *theta = malloc((size_t)j->anchors * sizeof *theta);
        j->draw = malloc((size_t)(j->anchors * j->draws) * sizeof *j->draw);
        status = theta && j->draw ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for thresholds");
        for (int64_t i = 0; i < j->anchors && status == GLOFND_OK; i++) j->draw[i * j->draws] = j->optimum[i];
        for (int64_t k = 1; k < j->draws && status == GLOFND_OK; k++) status = add_draw(err, j, &pool, &job, k, theta);
        free(theta);
        TRY(status);
        gf_draw_mean(j->draw, j->anchors, j->draws, j->optimum);
        j->draw_error = gf_draw_error_of(j->lambda, j->draw, j->anchors, j->draws);
    }
    j->error = gf_threshold_error_of(j->lambda, j->optimum, j->anchors, 1);
    j->fnc_error = gf_threshold_error_of(j->fnc, j->optimum, j->anchors, j->fnc_draws * j->views);
    print_result(j); /* first: what was found is not lost if it cannot be written */
    fflush(stdout);
    if (j->files && !j->out) return GLOFND_OK;
    TRY(eval_stored(err, write_files(err, j)));
    gf_print(stdout, "files     %s/thresholds.tsv, .npy, .svg\n", j->out ? j->out : j->samples.run);
    return j->files ? GLOFND_OK : eval_stored(err, record_thresholds(err, j));
}

typedef struct threshold_flags {
    const char *data, *out;
    int32_t plain;
    int64_t samples, anchors, draws, fnc_batch, fnc_draws;
    double alpha;
    eval_files files;
    device_flags device;
} threshold_flags;

static const gf_option rows[] = {
    CLI_STRING(threshold_flags, data, "data", "SPEC", "samples of the run; default: those it was trained on"),
    CLI_SWITCH(threshold_flags, plain, "plain", "images as they are instead of augmented views: the quantile over the dataset"),
    CLI_INTEGER(threshold_flags, samples, "samples", "N", NULL, 2, 0x1p40,
                "views or images to compare each anchor with; default: 100000, as the paper, but at most 50 views of an image"),
    CLI_INTEGER(threshold_flags, anchors, "anchors", "N", "100000", 2, 0x1p40, "use at most N random anchors"),
    CLI_INTEGER(threshold_flags, draws, "draws", "K", "1", 1, 1000,
                "random views per anchor; the optimum is their mean, and their noise is reported"),
    CLI_NUMBER(threshold_flags, alpha, "alpha", "A", NULL, 0, 1, CLI_SHARE,
               "fraction of similarities above the optimum; default: of the run, of a file 0.01"),
    CLI_INTEGER(threshold_flags, fnc_batch, "fnc-batch", "B", "128", 2, 1 << 20, "samples in a batch of FNC"),
    CLI_INTEGER(threshold_flags, fnc_draws, "fnc-draws", "N", "20", 1, 10000, "random batches of each anchor"),
    CLI_STRING(threshold_flags, out, "out", "DIR", "folder for thresholds.tsv, .npy and .svg; default: RUN; none for a file"),
    EVAL_LABELS(threshold_flags, files),
    EVAL_THRESHOLDS(threshold_flags, files),
    DEVICE_FLAGS(threshold_flags, device),
};

static int run_threshold(const cli_call *call, const void *flags) {
    const threshold_flags *f = flags;
    gf_error err = {{0}};
    threshold_job j = {.out = f->out,
                       .plain = f->plain,
                       .alpha = f->alpha,
                       .max_anchors = f->anchors,
                       .max_samples = f->samples,
                       .draws = f->draws,
                       .fnc_batch = f->fnc_batch,
                       .fnc_draws = f->fnc_draws};
    j.samples = (eval_samples){.run = call->word[0], .data = f->data};
    int code = device_flags_read(call, &f->device, &j.samples.where);
    if (code == CLI_OK) code = eval_files_check(call, &f->files, f->data, &f->device, 0);
    if (code != CLI_OK) return code;
    j.files = eval_is_file(call->word[0]) ? &f->files : NULL;
    if (f->draws > 1 && (f->plain || j.files))
        return cli_misused(call, "--draws is for augmented views of a run; leave it out%s", f->plain ? ", or --plain" : "");
    const glofnd_status status = evaluate_threshold(&err, &j);
    gf_view_set_free(&j.set);
    free(j.id);
    free(j.lambda);
    free(j.optimum);
    free(j.draw);
    free(j.fnc);
    gf_trained_run_free(j.run);
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_threshold = {
    .name = "threshold",
    .summary = "how far learned thresholds are from the optimum",
    .usage = "glofnd eval threshold RUN [--data SPEC] [--plain] [--samples N] [--anchors N] [--alpha A]\n"
             "                              [--draws K] [--fnc-batch B] [--fnc-draws N] [--out DIR]\n"
             "                              " DEVICE_USAGE
             "\n       glofnd eval threshold EMBEDDINGS [--thresholds FILE.npy] [--alpha 0.01] [--out DIR] ...",
    CLI_FLAGS(rows, threshold_flags),
    EVAL_TAKES_RUN,
    EVAL_ONE_DATASET,
    .run = run_threshold,
};
