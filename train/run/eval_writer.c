/* eval_writer.c - see eval_writer.h. */
#include "run/eval_writer.h"

#include <string.h>

#include "run/eval_schema.h"
#include "run/layout.h"
#include "util/path.h"

glofnd_status gf_eval_writer_open(gf_error *err, gf_eval_writer *w, const char *run) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, run, GF_EVAL_FILE));
    w->charted = GLOFND_OK;
    w->chart = (gf_eval_chart){.count = 0};
    memcpy(w->chart.run, run, strlen(run) + 1); /* shorter than path */
    return gf_jsonl_open_shared(err, &w->log, path);
}

/* A key that is not in the table is a mistake of this program: the record must not be written, or readers would take the key for
 * a setting. */
static const gf_eval_key *find_key(gf_eval_writer *w, const char *key) {
    gf_log *log = &w->log.log;
    const gf_eval_key *found = gf_eval_key_find(w->event, key);
    if (!found && log->status == GLOFND_OK)
        log->status = gf_fail(log->err, GLOFND_E_ARGUMENT, "records of event \"%s\" have no key \"%s\": add it to eval_schema.c",
                              w->event, key);
    return found;
}

void gf_eval_writer_begin(gf_eval_writer *w, const char *event) {
    w->event = event;
    gf_jsonl_begin(&w->log);
    gf_eval_chart_begin(&w->chart, event);
    gf_eval_put_text(w, "event", event);
}

void gf_eval_put_number(gf_eval_writer *w, const char *key, double x) {
    const gf_eval_key *found = find_key(w, key);
    if (!found) return;
    gf_jsonl_number(&w->log, key, x);
    gf_eval_chart_number(&w->chart, found, x);
}

void gf_eval_put_integer(gf_eval_writer *w, const char *key, int64_t x) {
    const gf_eval_key *found = find_key(w, key);
    if (!found) return;
    gf_jsonl_integer(&w->log, key, x);
    gf_eval_chart_number(&w->chart, found, (double)x);
}

void gf_eval_put_flag(gf_eval_writer *w, const char *key, int yes) {
    const gf_eval_key *found = find_key(w, key);
    if (!found) return;
    gf_jsonl_flag(&w->log, key, yes);
    gf_eval_chart_number(&w->chart, found, yes);
}

void gf_eval_put_text(gf_eval_writer *w, const char *key, const char *text) {
    const gf_eval_key *found = find_key(w, key);
    if (!found) return;
    gf_jsonl_text(&w->log, key, text);
    gf_eval_chart_text(&w->chart, found, text);
}

void gf_eval_put_numbers(gf_eval_writer *w, const char *key, const double *x, int64_t n) {
    if (find_key(w, key)) gf_jsonl_numbers(&w->log, key, x, n);
}

void gf_eval_put_texts(gf_eval_writer *w, const char *key, const char *const *text, int64_t n) {
    if (find_key(w, key)) gf_jsonl_texts(&w->log, key, text, n);
}

glofnd_status gf_eval_writer_end(gf_eval_writer *w) {
    TRY(gf_jsonl_end(&w->log));
    if (w->charted != GLOFND_OK) return GLOFND_OK;
    w->charted = gf_eval_chart_end(w->log.log.err, &w->chart);
    if (w->charted != GLOFND_OK && w->log.log.err) {
        const gf_error why = *w->log.log.err;
        gf_fail(w->log.log.err, w->charted, GF_EVAL_CHARTS_LACK ": %.400s", why.text);
    }
    return GLOFND_OK;
}

glofnd_status gf_eval_writer_close(gf_eval_writer *w) {
    const glofnd_status status = gf_jsonl_close(&w->log);
    return status == GLOFND_OK ? w->charted : status;
}
