/* progress.h - one line about a running job: redrawn on a terminal at most six times a second. Where that is impossible (a pipe,
 * a log file, a dumb terminal), a line of its own now and then. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum gf_progress_mode {
    GF_PROGRESS_AUTO,  /* by what stderr is */
    GF_PROGRESS_LINES, /* never redrawn: the terminal cannot */
    GF_PROGRESS_QUIET
} gf_progress_mode;

typedef struct gf_progress {
    gf_progress_mode mode; /* AUTO: redrawn */
    double started, drawn; /* seconds */
    double next;           /* lines: clock of the next one */
    int64_t first;         /* steps done before this process */
    int open;              /* a line is drawn and not ended; to be cleared by code that overwrites it */
} gf_progress;

gf_progress gf_progress_start(int64_t done, gf_progress_mode mode);
/* Lines: seconds from one line to the next, `elapsed` after the start: a tenth of it, so that logs of long jobs stay short, but
 * not less than 15. The first one comes after as many. */
double gf_progress_interval(double elapsed);
/* Draws `text`, then " | eta ..."; at most six times a second, unless `now` is set. Lines: when the next one is due. */
void gf_progress_draw(gf_progress *p, int64_t done, int64_t total, const char *text, int now);
/* Ends an open line. */
void gf_progress_end(gf_progress *p);
/* The line as it is drawn, in less than `columns` characters (0: any length): parts of `text`, between bars, are left out from
 * the end, so that the remaining time is kept. */
void gf_progress_line(const char *text, const char *eta, int columns, char *out, size_t bytes);
/* "1h32", "4m10", "12s" */
void gf_progress_time(double seconds, char *out, int bytes);
