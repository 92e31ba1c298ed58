/* dnn_times.h - time spent in the parts of a net, for benchmarks. Without a watcher it costs one test per op. */
#pragma once

enum { GF_TIME_FORWARD, GF_TIME_BACK_DATA, GF_TIME_BACK_WEIGHTS, GF_TIME_NORM, GF_TIME_OTHER, GF_TIME_PARTS };

/* Seconds of the ops this thread runs, by `clock`, are added to into[GF_TIME_PARTS]: convolutions in three passes, batch norm,
 * the rest. NULL ends it. */
void gf_dnn_watch(double *into, double (*clock)(void));

double gf_dnn_start(void); /* 0 without a watcher */
void gf_dnn_charge(int part, double start);
