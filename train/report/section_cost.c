/* section_cost.c - time of a step, and memory. */
#include <math.h>
#include <stdio.h>

#include "plot/svg_bars.h"
#include "report/page_parts.h"

enum { RUNS_MAX = 12 };

static int runs_shown(const gf_report *r) { return r->count < RUNS_MAX ? r->count : RUNS_MAX; }

/* ----- time ----- */

enum { TIMES = 5, OF_LOSS = 2 };

/* Milliseconds of the parts of a step; returns the share of loss and detection in percent. */
static double time_row(const gf_run_log *run, gf_stacked_row *row) {
    static const gf_run_step fields[TIMES] = {GF_STEP_TIME_LOAD, GF_STEP_TIME_FORWARD, GF_STEP_TIME_LOSS, GF_STEP_TIME_BACKWARD,
                                              GF_STEP_TIME_OPTIMIZER};
    double total = 0.0;
    *row = (gf_stacked_row){.name = run->name};
    for (int p = 0; p < TIMES; p++) {
        row->part[p] = gf_run_step_mean(run, fields[p], 50);
        total += isfinite(row->part[p]) ? row->part[p] : 0.0;
    }
    return total > 0.0 && isfinite(row->part[OF_LOSS]) ? 100.0 * row->part[OF_LOSS] / total : 0.0;
}

static void times(gf_text *out, const gf_report *r) {
    static const char *const parts[TIMES] = {"waiting for data", "forward", "loss and detection", "backward", "optimizer"};
    gf_stacked_row rows[RUNS_MAX];
    char note[300];
    double share = 0.0;
    for (int i = 0; i < runs_shown(r); i++) {
        const double x = time_row(&r->runs[i], &rows[i]);
        if (gf_has_detector(&r->runs[i])) share = fmax(share, x);
    }
    if (share > 0.0)
        snprintf(note, sizeof note, "Mean of the last logged steps. Loss and detection take at most %.2g\u00a0%% of a step.",
                 share);
    else
        snprintf(note, sizeof note,
                 "Mean of the last logged steps. On a GPU, forward includes all parts except waiting for data.");
    gf_svg_stacked(out, &(gf_stacked_chart){.title = "Time of a step",
                                            .note = note,
                                            .unit = "ms",
                                            .parts = parts,
                                            .part_count = TIMES,
                                            .rest = -1,
                                            .rows = rows,
                                            .count = runs_shown(r),
                                            .missing = "No logged step yet."});
}

/* ----- memory ----- */

enum { KINDS = 7, REST = 6 };

static void memory_row(const gf_run_log *run, double unit, gf_stacked_row *row) {
    const gf_memory_split *m = &run->memory.bytes;
    const double kinds[REST] = {(double)m->weights,   (double)m->optimizer, (double)m->activations,
                                (double)m->workspace, (double)m->loss,      (double)m->data};
    double rest = (double)m->peak;
    *row = (gf_stacked_row){.name = run->name};
    for (int k = 0; k < REST; k++) row->part[k] = kinds[k] / unit, rest -= kinds[k];
    row->part[REST] = fmax(rest, 0.0) / unit;
}

static void memory(gf_text *out, const gf_report *r) {
    static const char *const kinds[KINDS] = {"weights and gradients", "optimizer",          "activations", "workspace",
                                             "loss and anchors",      "batches and images", "rest"};
    gf_stacked_row rows[RUNS_MAX];
    double max = 0.0;
    int gpu = 0;
    for (int i = 0; i < runs_shown(r); i++) {
        max = fmax(max, (double)r->runs[i].memory.bytes.peak);
        gpu |= r->runs[i].memory.gpu;
    }
    for (int i = 0; i < runs_shown(r); i++) memory_row(&r->runs[i], max < 1e10 ? 1e6 : 1e9, &rows[i]);
    gf_svg_stacked(
        out, &(gf_stacked_chart){.title = "Memory",
                                 .note = gpu ? "GPU memory; the bar is the peak use. The rest is libraries and other processes."
                                             : "Memory of the training process; the bar is the peak use. The rest is code, "
                                               "libraries and temporary buffers.",
                                 .unit = max < 1e10 ? "MB" : "GB",
                                 .parts = kinds,
                                 .part_count = KINDS,
                                 .rest = REST,
                                 .rows = rows,
                                 .count = runs_shown(r),
                                 .missing = "Not recorded: the run has fewer than ten steps, or an earlier version made it."});
}

/* Bytes of state per sample: lambda, its moments, u and a clock per side; temperatures where learned. */
static int state_bytes(const gf_run_log *run) {
    const int sides = run->config.task == GF_TASK_CLIP ? 2 : 1;
    return sides * (gf_config_individual_tau(&run->config) ? 36 : 20);
}

/* Accounted bytes; the peak on a GPU includes other processes. */
static double accounted_bytes(const gf_memory_split *m) {
    return (double)m->weights + (double)m->optimizer + (double)m->activations + (double)m->workspace + (double)m->loss +
           (double)m->data;
}

static void state_of_anchors(gf_text *out, const gf_report *r) {
    for (int i = 0; i < r->count; i++) {
        const gf_memory_record *m = &r->runs[i].memory;
        const double state = (double)state_bytes(&r->runs[i]) * (double)m->anchors, held = accounted_bytes(&m->bytes);
        if (!m->known || !(held > 0.0) || !gf_learns_lambda(&r->runs[i])) continue;
        gf_text_add(
            out,
            "<p>Thresholds need little memory: the state of all samples takes <b>%.3g\u00a0%s</b>, %d bytes for each of %lld, ",
            state < 1e6 ? state / 1e3 : state / 1e6, state < 1e6 ? "kB" : "MB", state_bytes(&r->runs[i]), (long long)m->anchors);
        gf_text_add(out, "%.2g\u00a0%% of the <b>%.0f\u00a0MB</b> of <b>", 100.0 * state / held, held / 1e6);
        gf_text_escape(out, r->runs[i].name);
        gf_text_add(out, "</b>%s.</p>\n", m->ranks > 1 ? " on its first rank" : "");
        return;
    }
}

void gf_section_cost(gf_text *out, const gf_report *r) {
    gf_section_begin(out, "cost", "Time and memory", NULL);
    state_of_anchors(out, r);
    gf_text_add(out, "<div class=\"charts\">\n");
    times(out, r);
    memory(out, r);
    gf_text_add(out, "</div>\n");
    gf_section_end(out);
}
