/* report.h - one measured row, and how rows are printed: as a table for people, or as one JSON object per line. */
#pragma once

#include "support/machine.h"
#include "support/runner.h"

typedef struct row {   /* NaN: not measured, prints as - or null */
    const char *bench; /* "loss": a size and detector; "anchors": a size of the store */
    const char *detector;
    int64_t batch, dim;
    double ms, spread, gflops, over_none; /* over_none: time more than without detector, as a share */
    double naive_ms, naive_spread, ratio;
    double peak_bytes, naive_peak_bytes; /* workspace and gradients; all buffers of the other and gradients */
    double resident, naive_resident;     /* by how much the process grew */
    double torch_ms, torch_ratio;
    double n, first_visit_ms, store_bytes; /* "anchors" */
    double repeats;                        /* share of the steps whose merged pass had to be done again */
    double part_ms[PARTS];
} row;

row row_empty(const char *bench, const char *detector, int64_t batch, int64_t dim);

typedef struct report {
    int json;
    machine m;
    const char *torch, *blas; /* version of PyTorch, what it multiplies with; "": not compared */
} report;

void report_machine(const report *r); /* nothing with JSON */
void report_heading(const report *r, const char *bench);
void report_row(const report *r, const row *x);
void report_parts(const report *r, const row *rows, int count); /* nothing with JSON: it has them in its rows */
