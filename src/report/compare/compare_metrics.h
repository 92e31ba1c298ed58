/* compare_metrics.h - which figures a run has: the table of kinds, and reading them. Private to the reports. */
#ifndef GF_REPORT_COMPARE_COMPARE_METRICS_H
#define GF_REPORT_COMPARE_COMPARE_METRICS_H

#include "report/compare/compare.h"

/* How a figure of a line is called: gf_compare_figure("knn", "top1") is "top-1 %". "" if there is none. */
const char *gf_compare_figure(const char *event, const char *key);
/* Adds what RUN/log.jsonl and RUN/eval.jsonl say to r->value; new metrics go to c->metric. */
glofnd_status gf_compare_measure(gf_error *err, gf_comparison *c, gf_compared *r);

#endif
