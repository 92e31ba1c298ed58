/* watch.c - curves of a run for a terminal; see page.h. */
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot/terminal.h"
#include "run/progress.h"
#include "util/array.h"
#include "util/print.h"

enum { AXIS = 9, RECENT = 50 }; /* characters of the y axis; logged steps for the speed */

typedef struct curve {
    const char *title, *unit;
    const double *x, *y; /* [n] x increasing */
    int64_t n;
    int colour; /* of the escape sequence */
    int digits;
} curve;

static int range_of(const curve *c, double *low, double *high) {
    *low = INFINITY, *high = -INFINITY;
    for (int64_t i = 0; i < c->n; i++)
        if (isfinite(c->y[i])) *low = fmin(*low, c->y[i]), *high = fmax(*high, c->y[i]);
    if (!(*low <= *high)) return 0;
    if (*high - *low < 1e-9 + 1e-6 * fabs(*high)) *low -= 0.5 * fmax(fabs(*low), 1e-3), *high = *low + fmax(fabs(*high), 2e-3);
    if (strcmp(c->unit, " %") == 0) *high = fmin(*high, 100.0);
    return 1;
}

/* Position of a share on an axis of `dots` dots; -1: outside, from unusable numbers of a log. */
static int dot_at(double share, int dots) {
    const double at = share * (dots - 1) + 0.5;
    return at >= 0.0 && at < dots ? (int)at : -1;
}

static void paint(gf_text *out, int colour, int on) {
    if (on) gf_text_add(out, colour ? "\033[%dm" : "\033[0m", colour);
}

static double last_value(const curve *c) {
    for (int64_t i = c->n - 1; i >= 0; i--)
        if (isfinite(c->y[i])) return c->y[i];
    return NAN;
}

/* At most 8 characters. */
static void write_number(double x, int digits, char out[32]) {
    if (fabs(x) < 1000.0) snprintf(out, 32, "%.*f", digits, x);
    else snprintf(out, 32, "%.2e", x);
}

static void plot_curve(gf_text *out, const curve *c, double x_end, int rows, const gf_watch_size *size) {
    double low, high;
    char now[32], top[32], bottom[32];
    const int columns = size->columns - AXIS - 2;
    if (!range_of(c, &low, &high)) return;
    gf_braille b;
    out->failed |= !gf_braille_init(&b, columns, rows);
    int last_x = 0, last_y = 0, down = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const int x = dot_at(c->x[i] / x_end, 2 * b.columns), y = dot_at((high - c->y[i]) / (high - low), 4 * b.rows);
        if (x < 0 || y < 0) {
            down = 0;
            continue;
        }
        if (down) gf_braille_line(&b, last_x, last_y, x, y);
        else gf_braille_dot(&b, x, y);
        last_x = x, last_y = y, down = 1;
    }
    gf_text_add(out, "%*s ", AXIS, "");
    paint(out, c->colour, size->colour);
    gf_text_add(out, "%s", c->title);
    paint(out, 0, size->colour);
    write_number(last_value(c), c->digits, now), write_number(high, c->digits, top), write_number(low, c->digits, bottom);
    gf_text_add(out, "  now %s%s\n", now, c->unit);
    for (int y = 0; y < rows; y++) {
        if (y == 0) gf_text_add(out, "%*s ┤", AXIS - 1, top);
        else if (y == rows - 1) gf_text_add(out, "%*s ┤", AXIS - 1, bottom);
        else gf_text_add(out, "%*s│", AXIS, "");
        paint(out, c->colour, size->colour);
        gf_braille_row(out, &b, y);
        paint(out, 0, size->colour);
        gf_text_add(out, "\n");
    }
    gf_braille_free(&b);
}

double gf_watch_remaining(const gf_run_log *r) {
    const double total = (double)r->config.epochs * (double)r->epoch_steps, speed = gf_run_step_mean(r, GF_STEP_SPEED, RECENT);
    if (!r->steps || !r->epoch_steps || !(speed > 0.0)) return NAN;
    return fmax(0.0, total - r->step[GF_STEP_STEP][r->steps - 1]) * (double)r->config.batch / speed;
}

/* At most `columns` characters of a text, as they can be shown. */
static void add_clipped(gf_text *out, const char *text, int columns) {
    char shown[GF_SHOWN_BYTES];
    for (size_t taken; *text; text += taken) {
        columns -= gf_show(text, &taken, shown);
        if (columns < 0) return;
        gf_text_add(out, "%s", shown);
    }
}

/* Leaves out values that are not finite. */
static void add_figure(char *line, size_t bytes, size_t *used, const char *fmt, double x) {
    if (isfinite(x) && fabs(x) < 1e15 && *used + 48 < bytes) *used += (size_t)snprintf(line + *used, bytes - *used, fmt, x);
}

static int clamp(int x, int min, int max) { return x < min ? min : x > max ? max : x; }

void gf_watch_frame(gf_text *out, const gf_run_log *r, const gf_watch_size *size) {
    gf_watch_size s = *size;
    s.columns = clamp(size->columns, 40, 400), s.rows = clamp(size->rows, 12, 200);
    double *scratch = malloc((size_t)(2 * r->steps + 3 * r->epochs + 1) * sizeof *scratch);
    out->failed |= !scratch;
    char line[600], eta[32] = "?", state[64] = "";
    const int64_t logged = r->steps ? gf_run_count(r->step[GF_STEP_STEP][r->steps - 1]) : 0;
    const int64_t ended = r->epochs * r->epoch_steps;
    const int64_t step = GF_MAX(logged, ended);
    const int64_t by_step = r->epoch_steps ? step / r->epoch_steps : 0, epochs = GF_MAX(by_step, r->epochs);
    const double left = gf_watch_remaining(r), total = (double)r->config.epochs * (double)r->epoch_steps;
    if (isfinite(left)) gf_progress_time(left, eta, sizeof eta);
    if (epochs >= r->config.epochs) snprintf(state, sizeof state, "finished");
    else if (s.idle) snprintf(state, sizeof state, "not running");
    else snprintf(state, sizeof state, "eta %s", eta);
    size_t n = (size_t)snprintf(line, sizeof line, "%s  epoch %lld/%d  %s  step %lld", r->name,
                                (long long)(epochs + (epochs < r->config.epochs)), (int)r->config.epochs, state, (long long)step);
    add_figure(line, sizeof line, &n, "  loss %.4f",
               r->steps ? gf_run_step_mean(r, GF_STEP_LOSS, 1) : gf_run_last(r, GF_RUN_LOSS));
    add_figure(line, sizeof line, &n, "  lr %.2e", gf_run_step_mean(r, GF_STEP_LR, 1));
    add_figure(line, sizeof line, &n, "  %.0f img/s", gf_run_step_mean(r, GF_STEP_SPEED, RECENT));
    add_clipped(out, line, s.columns);
    gf_text_add(out, "\n");
    if (total > 0.0) {
        const int wide = s.columns - 8, full = (int)(wide * fmin(1.0, (double)step / total) + 0.5);
        for (int i = 0; i < wide; i++) gf_text_add(out, i < full ? "━" : "╌");
        gf_text_add(out, " %3.0f %%\n", 100.0 * fmin(1.0, (double)step / total));
    }
    if (scratch) {
        double *place = scratch, *flagged = scratch + r->steps, *epoch = flagged + r->steps;
        double *knn_x = epoch + r->epochs, *knn_y = knn_x + r->epochs;
        for (int64_t i = 0; i < r->steps; i++) place[i] = gf_run_place(r, i), flagged[i] = 100.0 - r->step[GF_STEP_KEPT][i];
        for (int64_t e = 0; e < r->epochs; e++) epoch[e] = (double)(e + 1) * (r->epoch_steps ? 1.0 : 0.0);
        /* Epochs without a value leave a gap in a curve; evaluations are rare, and their points belong together. */
        const double *knn = r->field[GF_RUN_KNN];
        int64_t knn_n = 0;
        for (int64_t e = 0; e < r->epochs; e++)
            if (isfinite(knn[e])) knn_x[knn_n] = epoch[e], knn_y[knn_n++] = knn[e];
        const int by_epoch = r->steps < 2 && r->epochs > 0; /* no curve of steps in a run shorter than log_steps */
        const curve all[] = {
            {"loss", "", by_epoch ? epoch : place, by_epoch ? r->field[GF_RUN_LOSS] : r->step[GF_STEP_LOSS],
             by_epoch ? r->epochs : r->steps, 36, 4},
            {"flagged pairs", " %", place, flagged, r->steps, 33, 2},
            {"precision", " %", epoch, r->field[GF_RUN_POOLED_PRECISION], r->epochs, 32, 1},
            {"kNN", " %", knn_x, knn_y, knn_n, 35, 1},
        };
        enum { CURVES = sizeof all / sizeof *all, KNN = CURVES - 1 };
        const int detects = r->config.method.detector != GLOFND_DETECT_NONE;
        int visible[CURVES], shown = 0;
        const int rows_left = s.rows - 3;
        double low, high, x_end = fmax(r->steps ? place[r->steps - 1] : 0.0, r->epochs ? epoch[r->epochs - 1] : 0.0);
        for (int k = 0; k < CURVES; k++) shown += visible[k] = range_of(&all[k], &low, &high) && (k == 0 || k == KNN || detects);
        if (!shown) {
            gf_text_add(out, "no logged step yet\n");
        } else {
            while (shown > 1 && rows_left / shown < 4) shown--;
            const int rows = rows_left / shown - 1 > 2 ? rows_left / shown - 1 : 2;
            for (int k = 0; k < CURVES && shown; k++)
                if (visible[k]) plot_curve(out, &all[k], x_end, rows, &s), shown--;
            char end[40];
            const int used = snprintf(end, sizeof end, r->epoch_steps > 0 ? "epoch %.4g" : "step %.0f", x_end);
            gf_text_add(out, "%*s0%*s\n", AXIS + 1, "", s.columns - AXIS - 2 - 1 > used ? s.columns - AXIS - 3 : used + 1, end);
        }
    }
    free(scratch);
}
