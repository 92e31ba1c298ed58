/* eval_writer.h - appends records to RUN/eval.jsonl, and their figures to files for TensorBoard (eval_chart.h). Keys are
 * checked against eval_schema.h: one that records of this event do not have fails, and the record is not written.
 *
 *     gf_eval_writer w = {0};
 *     TRY(gf_eval_writer_open(err, &w, run));
 *     gf_eval_writer_begin(&w, "knn");
 *     gf_eval_put_number(&w, "top1", 0.5);
 *     gf_eval_writer_end(&w);
 *     return gf_eval_writer_close(&w);
 */
#pragma once

#include "io/jsonl.h"
#include "run/eval_chart.h"

/* The message of close begins with this where eval.jsonl has the records and only the file for TensorBoard failed. */
#define GF_EVAL_CHARTS_LACK "eval.jsonl has it, but TensorBoard's charts lack it"

typedef struct gf_eval_writer { /* all zero: closed */
    gf_jsonl log;
    const char *event; /* of the present record; borrowed */
    gf_eval_chart chart;
    glofnd_status charted; /* first failure of its file: eval.jsonl is written all the same */
} gf_eval_writer;

/* Failures stick, as with gf_jsonl: end and close return the first one; those of the file for TensorBoard only close does. */
glofnd_status gf_eval_writer_open(gf_error *err, gf_eval_writer *w, const char *run);
void gf_eval_writer_begin(gf_eval_writer *w, const char *event);
void gf_eval_put_number(gf_eval_writer *w, const char *key, double x);
void gf_eval_put_integer(gf_eval_writer *w, const char *key, int64_t x);
void gf_eval_put_flag(gf_eval_writer *w, const char *key, int yes);
void gf_eval_put_text(gf_eval_writer *w, const char *key, const char *text);
void gf_eval_put_numbers(gf_eval_writer *w, const char *key, const double *x, int64_t n);
void gf_eval_put_texts(gf_eval_writer *w, const char *key, const char *const *text, int64_t n);
glofnd_status gf_eval_writer_end(gf_eval_writer *w);
glofnd_status gf_eval_writer_close(gf_eval_writer *w);
