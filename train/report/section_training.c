/* section_training.c - loss, learning rate, throughput, temperature, and kNN while training. */
#include <math.h>
#include <stdlib.h>

#include "report/page_parts.h"

#include "util/array.h"

enum { POINTS = 160 };

typedef struct curve {
    double x[POINTS], y[POINTS];
} curve;

/* Logged steps as at most POINTS means of consecutive ones. */
static int64_t thin(const gf_run_log *r, gf_run_step field, curve *to) {
    const int64_t n = GF_MIN(r->steps, POINTS);
    for (int64_t k = 0; k < n; k++) {
        const int64_t first = k * r->steps / n, end = (k + 1) * r->steps / n;
        double sum = 0.0, count = 0.0;
        for (int64_t i = first; i < end; i++)
            if (isfinite(r->step[field][i])) sum += r->step[field][i], count++;
        to->x[k] = gf_run_place(r, first + (end - first) / 2);
        to->y[k] = count > 0.0 ? sum / count : NAN;
    }
    return n;
}

/* Loss by epoch, for a run with too few logged steps. */
static int64_t by_epochs(const gf_run_log *r, curve *to) {
    const int64_t n = GF_MIN(r->epochs, POINTS);
    for (int64_t e = 0; e < n; e++) to->x[e] = (double)(e + 1), to->y[e] = r->field[GF_RUN_LOSS][e];
    return n;
}

/* kNN of the epochs that measured it, at most POINTS of them: the first, the last and others evenly between. */
static int64_t knn_by_epochs(const gf_run_log *r, curve *to) {
    const double *knn = r->field[GF_RUN_KNN];
    int64_t all = 0, seen = 0, n = 0;
    for (int64_t e = 0; e < r->epochs; e++) all += isfinite(knn[e]) != 0;
    const int64_t kept = GF_MIN(all, POINTS);
    for (int64_t e = 0; e < r->epochs && n < kept; e++) {
        if (!isfinite(knn[e])) continue;
        if (seen++ != (kept > 1 ? n * (all - 1) / (kept - 1) : 0)) continue;
        to->x[n] = (double)(e + 1), to->y[n++] = knn[e];
    }
    return n;
}

/* Points of a run; their number. */
static int64_t points_of(const gf_run_log *r, gf_run_step field, curve *to) {
    if (field == GF_RUN_STEP_COUNT) return knn_by_epochs(r, to);
    return field == GF_STEP_LOSS && r->steps < 2 && r->epochs > 0 ? by_epochs(r, to) : thin(r, field, to);
}

/* A line per run, for at most a dozen runs. field GF_RUN_STEP_COUNT: kNN. */
static void training_chart(gf_text *out, const gf_report *r, gf_run_step field, const gf_chart *form) {
    enum { RUNS_MAX = 12 };
    gf_series series[RUNS_MAX];
    curve *curves = calloc(RUNS_MAX, sizeof *curves);
    gf_chart c = *form;
    out->failed |= !curves;
    for (int i = 0; curves && i < r->count && c.count < RUNS_MAX; i++) {
        const int64_t n = points_of(&r->runs[i], field, &curves[c.count]);
        const int same = gf_groups(r) < r->count; /* several seeds: one colour for a configuration */
        series[c.count] = (gf_series){.name = r->runs[i].name,
                                      .x = curves[c.count].x,
                                      .y = curves[c.count].y,
                                      .n = n,
                                      .colour = same ? gf_group_of(r, i) : i};
        c.count += n > 0;
    }
    c.series = series;
    if (!c.x_name) c.x_name = r->runs[0].epoch_steps ? "epochs done" : "step";
    c.level = NAN;
    if (curves) gf_svg_chart(out, &c);
    free(curves);
}

static int any_value(const gf_report *r, gf_run_step field) {
    for (int i = 0; i < r->count; i++)
        if (isfinite(gf_run_step_mean(&r->runs[i], field, 1))) return 1;
    return 0;
}

static int any_knn(const gf_report *r) {
    for (int i = 0; i < r->count; i++)
        for (int64_t e = 0; e < r->runs[i].epochs; e++)
            if (isfinite(r->runs[i].field[GF_RUN_KNN][e])) return 1;
    return 0;
}

/* Explains images per second. */
static const char *throughput_note(const gf_report *r) {
    int clip = 0;
    for (int i = 0; i < r->count; i++) clip += r->runs[i].config.task == GF_TASK_CLIP;
    if (clip == r->count) return "Each image is used once per epoch, with one of its captions.";
    return clip ? "Each image has two views; in image-text runs it has one." : "Each image has two views.";
}

void gf_section_training(gf_text *out, const gf_report *r) {
    static const char none[] = "No logged step yet.";
    gf_section_begin(out, "training", "Training", NULL);
    gf_text_add(out, "<div class=\"charts\">\n");
    training_chart(out, r, GF_STEP_LOSS,
                   &(gf_chart){.title = "Loss",
                               .y_name = "loss",
                               .missing = none,
                               .note =
                                   "A detector removes pairs from the loss: losses of different detectors are not comparable."});
    training_chart(out, r, GF_STEP_SPEED,
                   &(gf_chart){.title = "Throughput",
                               .y_name = "images per second",
                               .from_zero = 1,
                               .missing = none,
                               .note = throughput_note(r)});
    training_chart(out, r, GF_STEP_LR,
                   &(gf_chart){.title = "Learning rate", .y_name = "learning rate", .from_zero = 1, .missing = none});
    training_chart(out, r, GF_STEP_GRAD_NORM,
                   &(gf_chart){.title = "Gradient norm", .y_name = "norm", .from_zero = 1, .missing = none});
    if (any_value(r, GF_STEP_TAU))
        training_chart(out, r, GF_STEP_TAU, &(gf_chart){.title = "Temperature τ", .y_name = "τ", .missing = none});
    if (any_knn(r))
        training_chart(out, r, GF_RUN_STEP_COUNT,
                       &(gf_chart){.title = "kNN while training",
                                   .y_name = "top-1 %",
                                   .x_name = "epochs done",
                                   .note = "Held-out images of the training data, by 20 neighbours (eval_every)."});
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}
