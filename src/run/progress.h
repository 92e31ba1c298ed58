/* progress.h - one line about a running job: redrawn on a terminal at most six times a second, silent in a pipe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct gf_progress {
    int terminal;          /* stderr is one, and progress is not switched off */
    double started, drawn; /* seconds */
    int64_t first;         /* steps done before this process */
    int open;              /* a line is drawn and not ended; to be cleared by code that overwrites it */
} gf_progress;

gf_progress gf_progress_start(int64_t done, int quiet);
/* Draws `text`, then " | eta ..."; at most six times a second, unless `now` is set. */
void gf_progress_draw(gf_progress *p, int64_t done, int64_t total, const char *text, int now);
/* Ends an open line. */
void gf_progress_end(gf_progress *p);
/* The line as it is drawn, in less than `columns` characters (0: any length): parts of `text`, between bars, are left out from
 * the end, so that the remaining time is kept. */
void gf_progress_line(const char *text, const char *eta, int columns, char *out, size_t bytes);
/* "1h32", "4m10", "12s" */
void gf_progress_time(double seconds, char *out, int bytes);
