/* job_progress.h - progress and cancellation of a long computation. */
#pragma once

#include <stdatomic.h>

typedef struct gf_job_progress {                                   /* a zeroed one reports nothing and is never cancelled */
    void (*progress)(void *user, const char *stage, double share); /* in the calling thread */
    void *user;
    const char *stage; /* name of what is computed, for `progress`; may be NULL */
    atomic_int *stop;  /* not 0: the computation ends early */
    double from, to;   /* the part of the whole job this is; both 0: all of it */
} gf_job_progress;

static inline int gf_job_stopped(const gf_job_progress *w) { return w->stop && atomic_load(w->stop); }

/* The part [from, to] of w. */
static inline gf_job_progress gf_job_part(const gf_job_progress *w, double from, double to) {
    const double span = w->from == 0.0 && w->to == 0.0 ? 1.0 : w->to - w->from;
    gf_job_progress part = *w;
    part.from = w->from + from * span;
    part.to = w->from + to * span;
    return part;
}

/* A share in [0, 1] of w is done. */
static inline void gf_job_report(const gf_job_progress *w, double share) {
    if (w->progress) w->progress(w->user, w->stage, gf_job_part(w, share, share).from);
}
