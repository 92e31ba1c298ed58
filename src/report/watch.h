/* watch.h - a run in a terminal: one frame of text with its curves. */
#ifndef GF_REPORT_WATCH_H
#define GF_REPORT_WATCH_H

#include "run/run_log.h"
#include "util/strings/text_buffer.h"

typedef struct gf_watch_size {
    int columns, rows; /* characters; what is too small is taken as 40 x 12 */
    int colour;        /* escape sequences for colours */
    int idle;          /* no process trains the run: it has no time to go */
} gf_watch_size;

/* Loss, flagged share and precision, as many as fit and have values, below a line that says where the run is. Every line ends
 * with a newline and is at most `columns` wide. */
void gf_watch_frame(gf_text *out, const gf_run_log *r, const gf_watch_size *size);
/* Seconds to the end of the run, by the steps logged last; NaN: not known. */
double gf_watch_remaining(const gf_run_log *r);

#endif
