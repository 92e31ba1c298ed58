/* run_eval.c - see run_eval.h: the table of keys, settings, charts, writing and reading of evaluations. */
#include "run/run_eval.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "run/run_folder.h"
#include "run/tfevents.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/text.h"

/* clang-format off */
#define NAME(key)                      {key, GF_EVAL_NAME,    0, 1.0, 0, 0, 0}
#define SETTING(key)                   {key, GF_EVAL_SETTING, 0, 1.0, 0, 0, 0}
#define SETTING_UNLESS(key, condition) {key, GF_EVAL_SETTING, 0, 1.0, 0, 0, condition}
#define RECORDED(key)                  {key, GF_EVAL_FIGURE,  0, 1.0, 0, 0, 0}
#define TIME(key)                      {key, GF_EVAL_TIME,    0, 1.0, 0, 0, 0}
#define FIGURE(key, title, better, detail)         {key, GF_EVAL_FIGURE, title, 1.0, better, detail, 0}
#define PERCENT(key, title)            {key, GF_EVAL_FIGURE, title, 100.0, 1, 0, 0}
#define PERCENT_DETAIL(key, title)     {key, GF_EVAL_FIGURE, title, 100.0, 1, 1, 0}

/* Keys in the order in which they are written. */
static const gf_eval_key every[] = { /* records of all events */
    NAME("event"), NAME("protocol"), SETTING("data"), SETTING("test"), NAME("untrained"),
};
static const gf_eval_key linear[] = {
    NAME("fraction"), SETTING("seed"), SETTING("augment"), SETTING("validation"),
    RECORDED("train_samples"), RECORDED("test_samples"), /* may lack unreadable samples, which differ between held out parts */
    RECORDED("epochs"), RECORDED("epochs_run"), RECORDED("best_epoch"),
    PERCENT("top1", "top-1 %"), PERCENT_DETAIL("top5", "top-5 %"), PERCENT_DETAIL("last_top1", "top-1 % (last epoch)"),
    TIME("time_s"),
};
static const gf_eval_key linear_mean[] = {
    SETTING("seed"), SETTING("augment"), SETTING("validation"), SETTING("fractions"),
    PERCENT("top1", "top-1 %"), PERCENT_DETAIL("top5", "top-5 %"), PERCENT_DETAIL("last_top1", "top-1 % (last epoch)"),
};
static const gf_eval_key knn[] = {
    NAME("k"), SETTING_UNLESS("temperature", "temperature=0"), /* equal votes: the protocol is knn-unweighted */
    RECORDED("train_samples"), RECORDED("test_samples"), PERCENT("top1", "top-1 %"),
};
static const gf_eval_key transfer[] = {
    NAME("dataset"), NAME("metric"), SETTING("seed"), RECORDED("train_samples"), RECORDED("test_samples"),
    SETTING("classes"), SETTING("l2"), RECORDED("scores"), RECORDED("unfinished"),
    PERCENT("score", "%"), RECORDED("best_l2"),
    PERCENT_DETAIL("validation_score", "% (l2 by validation)"), RECORDED("validation_l2"), TIME("time_s"),
};
static const gf_eval_key transfer_mean[] = {
    NAME("metric"), SETTING("seed"), SETTING("datasets"), SETTING("names"), SETTING("sets"),
    PERCENT("score", "%"), PERCENT_DETAIL("validation_score", "% (l2 by validation)"),
};
static const gf_eval_key retrieval[] = {
    NAME("dataset"), SETTING("images"), SETTING("captions"),
    PERCENT("ir1", "IR@1 %"), PERCENT_DETAIL("ir5", "IR@5 %"), PERCENT_DETAIL("ir10", "IR@10 %"),
    PERCENT("ir_mean", "IR average %"),
    PERCENT("tr1", "TR@1 %"), PERCENT_DETAIL("tr5", "TR@5 %"), PERCENT_DETAIL("tr10", "TR@10 %"),
    PERCENT("tr_mean", "TR average %"), PERCENT("mean", "average %"),
};
static const gf_eval_key zeroshot[] = {
    NAME("dataset"), NAME("metric"), /* there is a figure for each metric */
    SETTING("samples"), SETTING("classes"), SETTING("classes_sum"), SETTING("templates_sum"), RECORDED("score"),
    PERCENT("top1", "top-1 %"), PERCENT_DETAIL("top5", "top-5 %"), PERCENT_DETAIL("mean_per_class", "mean per class %"),
    PERCENT_DETAIL("macro_f1", "macro F1 %"), PERCENT_DETAIL("worst_group", "worst group %"),
    PERCENT_DETAIL("worst_group5", "worst group top-5 %"),
};
static const gf_eval_key associations[] = {
    NAME("dataset"), SETTING("instances"), SETTING("images"),
    PERCENT("jaccard", "Jaccard %"), PERCENT_DETAIL("jaccard_few", "Jaccard of few %"),
    PERCENT_DETAIL("jaccard_all", "Jaccard of all %"),
};
static const gf_eval_key zeroshot_mean[] = {
    SETTING("datasets"), SETTING("names"), SETTING("sets"), PERCENT("score", "%"),
    PERCENT("retrieval", "of retrieval %"), PERCENT("imagenet", "of ImageNet and variants %"),
};
static const gf_eval_key epoch[] = { /* the last one of log.jsonl, scaled by run_log.h; the settings are those of config.cfg */
    SETTING("batch"), SETTING("data"), SETTING("task"),
    FIGURE("pooled_precision", "precision %", 1, 0), FIGURE("pooled_recall", "recall %", 1, 0), FIGURE("pooled_f1", "F1 %", 1, 0),
    FIGURE("precision", "precision per anchor %", 1, 0), FIGURE("recall", "recall per anchor %", 1, 0),
    FIGURE("f1", "F1 per anchor %", 1, 0), /* as the paper counts */
    FIGURE("knn", "kNN while training %", 1, 1), FIGURE("flagged", "flagged %", 0, 1), FIGURE("loss", "loss", 0, 1),
};
static const gf_eval_key fn[] = {
    NAME("pairs"), NAME("detector"), SETTING_UNLESS("alpha", "detector=glofnd"), /* learned thresholds have no alpha */
    NAME("truth"), SETTING("batch"), SETTING("samples"), SETTING_UNLESS("anchors", "samples"), /* of these, the readable ones */
    RECORDED("flagged"), PERCENT_DETAIL("precision", "precision per anchor %"),
    PERCENT_DETAIL("recall", "recall per anchor %"), PERCENT_DETAIL("f1", "F1 per anchor %"),
    PERCENT_DETAIL("pooled_precision", "precision %"), PERCENT_DETAIL("pooled_recall", "recall %"),
    PERCENT_DETAIL("pooled_f1", "F1 %"),
};
static const gf_eval_key threshold[] = {
    SETTING("alpha"), SETTING("anchors"), RECORDED("learned"), SETTING("samples"),
    RECORDED("optimum_mean"), RECORDED("optimum_std"), RECORDED("lambda_mean"), RECORDED("lambda_std"),
    FIGURE("mae", "MAE", -1, 0), FIGURE("rmse", "RMSE", -1, 0), RECORDED("bias"), SETTING("fnc_batch"), SETTING("fnc_draws"),
    RECORDED("fnc_mae"), RECORDED("fnc_rmse"), RECORDED("fnc_bias"),
    SETTING("draws"), RECORDED("floor_mae"), RECORDED("noise"), RECORDED("spread"), /* of several draws of views */
    FIGURE("one_mae", "MAE against one draw", -1, 1), RECORDED("one_rmse"),
};
static const gf_eval_key trained[] = {RECORDED("step")};

#define EVENT(name) {#name, name, sizeof name / sizeof *name}
static const struct {
    const char *name;
    const gf_eval_key *key;
    int count;
} events[] = { /* in the order of tables */
    EVENT(linear), EVENT(linear_mean), EVENT(knn), EVENT(transfer), EVENT(transfer_mean), EVENT(retrieval),
    EVENT(zeroshot), EVENT(associations),
    EVENT(zeroshot_mean), EVENT(epoch), EVENT(fn), EVENT(threshold), EVENT(trained), EVENT(every),
};
/* clang-format on */

enum { EVENTS = sizeof events / sizeof *events };

int gf_eval_rank(const char *event) {
    int i = 0;
    while (i < EVENTS - 1 && strcmp(events[i].name, event) != 0) i++; /* the last one is no event */
    return i;
}

const gf_eval_key *gf_eval_keys(const char *event, int *count) {
    const int i = gf_eval_rank(event);
    *count = i < EVENTS - 1 ? events[i].count : 0;
    return *count ? events[i].key : NULL;
}

static const gf_eval_key *find_key(int event, const char *key) {
    for (int i = 0; i < events[event].count; i++)
        if (strcmp(events[event].key[i].key, key) == 0) return &events[event].key[i];
    return NULL;
}

const gf_eval_key *gf_eval_key_find(const char *event, const char *key) {
    const int e = gf_eval_rank(event);
    const gf_eval_key *own = e < EVENTS - 1 ? find_key(e, key) : NULL;
    return own || e == EVENTS - 1 ? own : find_key(EVENTS - 1, key);
}

int gf_eval_has_word(const char *word) {
    /* Words of protocols, pairs, detectors and of names as gf_eval_name and gf_settings_describe write them. */
    static const char others[] = "last epoch mean k held out unweighted raw not recorded clip paper-centre-validated "
                                 "official-centre-validated paper-validated official-validated -cached own-templates several "
                                 "views plain batches dataset image-text text-image by captions glofnd exact single fnc";
    for (int e = 0; e < EVENTS; e++) {
        if (e < EVENTS - 1 && strcasestr(events[e].name, word)) return 1;
        for (int i = 0; i < events[e].count; i++)
            if ((events[e].key[i].title && strcasestr(events[e].key[i].title, word)) ||
                (events[e].key[i].role == GF_EVAL_SETTING && strcasestr(events[e].key[i].key, word)))
                return 1;
    }
    return strcasestr(others, word) != NULL;
}

/* ----- settings: which fields count ----- */

enum { VALUE_MAX = 400, SHOWN_MAX = 80, REST = 16 }; /* bytes: of a value, of a value as shown, of the checksum of the rest */

typedef struct collector {
    char *out;
    size_t used;
    uint32_t crc;  /* of all fields that count */
    int truncated; /* one did not fit */
    const char *event;
    const gf_jsonl_reader *line; /* NULL: fields of a configuration */
    char *unknown;               /* first key that is not in the table */
} collector;

/* 1: the record has the key, or the value, that `condition` names: "KEY" or "KEY=VALUE". */
static int record_holds(const gf_jsonl_reader *r, const char *condition) {
    char key[GF_SETTINGS_KEY_MAX];
    const char *equals = strchr(condition, '=');
    double x, wanted;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(condition, "="), condition);
    const char *text = gf_jsonl_get_text(r, key);
    const int number = gf_jsonl_get(r, key, &x);
    if (!equals) return text || number;
    return text ? strcmp(text, equals + 1) == 0 : number && !gf_number_read(equals + 1, &wanted) && x == wanted;
}

/* The name of a field, without characters that separate fields. */
static void clean_key(const char *key, char out[GF_SETTINGS_KEY_MAX]) {
    snprintf(out, GF_SETTINGS_KEY_MAX, "%s", key);
    gf_utf8_trim(out);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '=') *p = '?';
}

static int is_setting(const collector *c, const char *key) {
    /* The same, or the row of that key in records of another event. */
    const gf_eval_key *row = gf_eval_key_find(c->event, key);
    if (!row) row = find_key(EVENTS - 1, key);
    for (int e = 0; e < EVENTS - 1 && !row; e++) row = find_key(e, key);
    if (!row && strncmp(key, "time_", 5) == 0) return 0;
    if (!row && !*c->unknown && gf_eval_keys(c->event, &(int){0})) clean_key(key, c->unknown);
    if (!row) return 1;
    return row->role == GF_EVAL_SETTING && !(c->line && row->unless && record_holds(c->line, row->unless));
}

/* Bytes of the whole characters among the first n bytes of a longer text. */
static size_t whole_characters(const char *text, size_t n) {
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    return n;
}

static void collect_setting(void *user, const char *key, const char *value) {
    collector *c = user;
    char field[GF_SETTINGS_KEY_MAX], sum[16] = "";
    const size_t n = strlen(value), capacity = GF_SETTINGS_MAX - REST - c->used;
    if (!is_setting(c, key)) return;
    c->crc = gf_crc32c(gf_crc32c(c->crc, key, strlen(key) + 1), value, n + 1);
    if (n > VALUE_MAX) snprintf(sum, sizeof sum, "... #%08x", (unsigned)gf_crc32c(0, value, n));
    clean_key(key, field);
    const int put = snprintf(c->out + c->used, capacity, "%s=%.*s%s\n", field,
                             (int)(n > VALUE_MAX ? whole_characters(value, VALUE_MAX) : n), value, sum);
    if (put > 0 && (size_t)put < capacity) c->used += (size_t)put;
    else c->out[c->used] = 0, c->truncated = 1;
}

static void finish_settings(collector *c) {
    if (c->truncated) snprintf(c->out + c->used, REST, "~=#%08x\n", (unsigned)c->crc);
}

void gf_settings_of_run(const gf_config *config, char out[GF_SETTINGS_MAX]) {
    char value[1100];
    collector c = {.out = out, .event = GF_EVAL_EPOCH};
    int rows;
    const gf_eval_key *row = gf_eval_keys(GF_EVAL_EPOCH, &rows);
    out[0] = 0;
    for (int i = 0; i < rows; i++) {
        if (row[i].role != GF_EVAL_SETTING) continue;
        gf_config_text(config, row[i].key, value, sizeof value);
        collect_setting(&c, row[i].key, value);
    }
    finish_settings(&c);
}

/* ----- settings: comparing two ----- */

/* Length of the field name at the start of a line. */
static size_t field_of(const char *line) { return strcspn(line, "=\n"); }

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* The line of a field, whose name ends at '=' or 0; NULL: missing. */
static const char *find_field(const char *settings, const char *field) {
    const size_t n = field_of(field);
    for (const char *at = settings; *at; at = next_line(at))
        if (field_of(at) == n && memcmp(at, field, n) == 0) return at;
    return NULL;
}

int gf_settings_differ(const char *a, const char *b, const char *field) {
    const char *x = find_field(a, field), *y = find_field(b, field);
    if (!x || !y) return x != y;
    const size_t n = strcspn(x, "\n");
    return strcspn(y, "\n") != n || memcmp(x, y, n) != 0;
}

const char *gf_settings_difference(const char *a, const char *b) {
    static const char *const first[] = {"test", "data", "names"};
    for (int i = 0; i < 3; i++)
        if (gf_settings_differ(a, b, first[i])) return first[i];
    for (const char *at = a; *at; at = next_line(at))
        if (gf_settings_differ(a, b, at)) return at;
    for (const char *at = b; *at; at = next_line(at))
        if (!find_field(a, at)) return at;
    return NULL;
}

void gf_settings_describe(const char *settings, const char *field, char *out, size_t bytes) {
    const char *line = find_field(settings, field);
    const size_t n = field_of(field);
    if (!line) {
        snprintf(out, bytes, "%.*s not recorded", (int)n, field);
        return;
    }
    const char *value = line + field_of(line) + (line[field_of(line)] == '=');
    const int length = (int)strcspn(value, "\n"), bare = n == 4 && memcmp(field, "test", 4) == 0;
    const char *space = bare ? "" : " ";
    const int name = bare ? 0 : (int)n;
    char sum[16] = ""; /* of a value that is shown in part; a truncated one has it already */
    if (length <= SHOWN_MAX) {
        snprintf(out, bytes, "%.*s%s%.*s", name, field, space, length, value);
        return;
    }
    if (length <= VALUE_MAX) snprintf(sum, sizeof sum, " #%08x", (unsigned)gf_crc32c(0, value, (size_t)length));
    const int head = (int)whole_characters(value, SHOWN_MAX / 2 - 8),
              tail = length - (int)whole_characters(value, (size_t)(length - SHOWN_MAX / 2 + 8));
    snprintf(out, bytes, "%.*s%s%.*s...%.*s%s", name, field, space, head, value, tail, value + length - tail, sum);
}

/* ----- charts ----- */

/* A name that does not fit is left out. */
static void add_name(gf_eval_chart *c, const char *key, const char *value) {
    const size_t used = strlen(c->names), more = strlen(key) + strlen(value) + 3;
    if (used + more > sizeof c->names) return;
    snprintf(c->names + used, sizeof c->names - used, "%s%s%s%s", used ? " " : "", key, *key ? "=" : "", value);
}

/* A value of the record; those that are neither names nor figures of tables are ignored. */
static void chart_number(gf_eval_chart *c, const gf_eval_key *key, double x) {
    char value[32];
    const int untrained = strcmp(key->key, "untrained") == 0;
    if (untrained) c->untrained = x != 0.0;
    if (untrained && x != 0.0) add_name(c, "", "untrained");
    snprintf(value, sizeof value, "%.6g", x);
    if (key->role == GF_EVAL_NAME && !untrained) add_name(c, key->key, value);
    if (key->role != GF_EVAL_FIGURE || !key->title || !isfinite(x) || c->count == GF_EVAL_KEYS_MAX) return;
    c->figure[c->count].key = key->key;
    c->figure[c->count++].value = x;
}

/* Appends the figures, if there are some. */
static glofnd_status chart_end(gf_error *err, gf_eval_chart *c) {
    gf_events t = {0};
    char tag[300], latest[PATH_MAX] = "", folder[PATH_MAX], path[PATH_MAX], name[96];
    if (c->count == 0) return GLOFND_OK;
    if (!c->untrained) TRY(gf_checkpoint_latest(err, c->run, latest));
    const int64_t step = *latest ? gf_checkpoint_step(latest) : 0;
    const double now = gf_wall_clock();
    int there;
    TRY(gf_path_join(err, folder, c->run, GF_EVAL_EVENTS));
    FAIL_IF(err, mkdir(folder, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "%s cannot be made: %s", folder, strerror(errno));
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%lld", (long long)now, (long long)getpid());
    TRY(gf_path_join(err, path, folder, name));
    TRY(gf_exists(err, path, &there));
    TRY(gf_events_open(err, &t, path, there ? GF_LOG_ALL : 0, now));
    gf_events_begin(&t, step, gf_wall_clock());
    for (int i = 0; i < c->count; i++) {
        snprintf(tag, sizeof tag, "%s/%s/%s", c->event, *c->names ? c->names : "all", c->figure[i].key);
        gf_events_scalar(&t, tag, c->figure[i].value);
    }
    gf_events_end(&t);
    c->count = 0;
    return gf_events_close(&t);
}

/* ----- writing ----- */

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
static const gf_eval_key *key_to_write(gf_eval_writer *w, const char *key) {
    gf_log *log = &w->log.log;
    const gf_eval_key *found = gf_eval_key_find(w->event, key);
    if (!found && log->status == GLOFND_OK)
        log->status = gf_fail(log->err, GLOFND_E_ARGUMENT, "records of event \"%s\" have no key \"%s\": add it to run_eval.c",
                              w->event, key);
    return found;
}

void gf_eval_writer_begin(gf_eval_writer *w, const char *event) {
    w->event = event;
    gf_jsonl_begin(&w->log);
    gf_eval_chart *c = &w->chart;
    c->count = c->untrained = 0;
    c->names[0] = 0;
    snprintf(c->event, sizeof c->event, "%s", event);
    gf_eval_put_text(w, "event", event);
}

void gf_eval_put_number(gf_eval_writer *w, const char *key, double x) {
    const gf_eval_key *found = key_to_write(w, key);
    if (!found) return;
    gf_jsonl_number(&w->log, key, x);
    chart_number(&w->chart, found, x);
}

void gf_eval_put_integer(gf_eval_writer *w, const char *key, int64_t x) {
    const gf_eval_key *found = key_to_write(w, key);
    if (!found) return;
    gf_jsonl_integer(&w->log, key, x);
    chart_number(&w->chart, found, (double)x);
}

void gf_eval_put_flag(gf_eval_writer *w, const char *key, int yes) {
    const gf_eval_key *found = key_to_write(w, key);
    if (!found) return;
    gf_jsonl_flag(&w->log, key, yes);
    chart_number(&w->chart, found, yes);
}

void gf_eval_put_text(gf_eval_writer *w, const char *key, const char *text) {
    const gf_eval_key *found = key_to_write(w, key);
    if (!found) return;
    gf_jsonl_text(&w->log, key, text);
    if (found->role == GF_EVAL_NAME && strcmp(found->key, "event") != 0)
        add_name(&w->chart, strcmp(found->key, "protocol") == 0 ? "" : found->key, text);
}

void gf_eval_put_numbers(gf_eval_writer *w, const char *key, const double *x, int64_t n) {
    if (key_to_write(w, key)) gf_jsonl_numbers(&w->log, key, x, n);
}

void gf_eval_put_texts(gf_eval_writer *w, const char *key, const char *const *text, int64_t n) {
    if (key_to_write(w, key)) gf_jsonl_texts(&w->log, key, text, n);
}

glofnd_status gf_eval_writer_end(gf_eval_writer *w) {
    TRY(gf_jsonl_end(&w->log));
    if (w->charted != GLOFND_OK) return GLOFND_OK;
    w->charted = chart_end(w->log.log.err, &w->chart);
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

/* ----- reading ----- */

int gf_run_line(gf_jsonl_reader *r, int64_t *skipped) {
    while (!gf_jsonl_next(r)) {
        if (r->status != GLOFND_E_FORMAT) return 0;
        r->status = GLOFND_OK;
        ++*skipped;
    }
    return 1;
}

#define TEXT(name) \
    { #name, offsetof(gf_eval_line, name), sizeof((gf_eval_line *)0)->name }

static const struct {
    const char *key;
    size_t at, bytes;
} texts[] = {TEXT(event), TEXT(protocol), TEXT(dataset), TEXT(detector), TEXT(pairs),
             TEXT(truth), TEXT(metric),   TEXT(data),    TEXT(test)};

static void append_name(char *out, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void append_name(char *out, size_t bytes, const char *fmt, ...) {
    va_list args;
    const size_t used = strlen(out);
    va_start(args, fmt);
    if (used + 1 < bytes) vsnprintf(out + used, bytes - used, fmt, args);
    va_end(args);
}

/* Metric behind a score of `eval transfer`, unless it is the usual one: top-1 of a dataset, and in a mean that of each dataset.
 * Other evaluations have a figure for each metric. */
static const char *metric_of(const gf_eval_line *e) {
    if (strncmp(e->event, "transfer", 8) != 0) return "";
    if (strcmp(e->metric, "mean_per_class") == 0) return " mean per class";
    return strcmp(e->event, "transfer_mean") == 0 && strcmp(e->metric, "top1") == 0 ? " top-1" : "";
}

void gf_eval_name(const gf_eval_line *e, char *out, size_t bytes) {
    const size_t n = strlen(e->event);
    const int mean = n > 5 && strcmp(e->event + n - 5, "_mean") == 0, event = (int)(mean ? n - 5 : n);
    const int variant = strncmp(e->protocol, e->event, n) == 0 && e->protocol[n] == '-'; /* "knn-unweighted" says it all */
    if (strcmp(e->event, "epoch") == 0) {
        snprintf(out, bytes, "last epoch");
        return;
    }
    if (variant) snprintf(out, bytes, "%s", e->protocol);
    else snprintf(out, bytes, "%.*s", event, e->event);
    if (*e->protocol && !variant && strcmp(e->protocol, e->event) != 0) append_name(out, bytes, " %s", e->protocol);
    if (mean) append_name(out, bytes, " mean");
    if (*e->dataset) append_name(out, bytes, " %s", e->dataset);
    append_name(out, bytes, "%s", metric_of(e));
    if (isfinite(e->k)) append_name(out, bytes, " k %.10g", e->k);
    if (isfinite(e->fraction)) append_name(out, bytes, " %g %%", 100.0 * e->fraction);
}

void gf_eval_identify(gf_eval_line *e) {
    char name[GF_EVAL_NAME_MAX];
    gf_eval_name(e, name, sizeof name);
    snprintf(e->identity, sizeof e->identity, "%s\n%s", name, e->settings);
}

static double number_of(const gf_jsonl_reader *r, const char *key) {
    double x = NAN;
    gf_jsonl_get(r, key, &x);
    return x;
}

double gf_eval_figure(const gf_eval_line *e, const char *key) {
    int rows;
    const gf_eval_key *row = gf_eval_keys(e->event, &rows);
    for (int i = 0; i < rows; i++)
        if (strcmp(row[i].key, key) == 0) return row[i].factor * e->value[i];
    return NAN;
}

/* unknown: gets its first key that is not in the table; unchanged if all are. */
static void read_record(const gf_jsonl_reader *r, char *unknown, gf_eval_line *e) {
    int rows;
    *e = (gf_eval_line){.number = r->number, .fraction = number_of(r, "fraction"), .k = number_of(r, "k")};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = gf_jsonl_get_text(r, texts[i].key);
        char *to = (char *)e + texts[i].at;
        snprintf(to, texts[i].bytes, "%s", text ? text : "");
        gf_utf8_trim(to);
    }
    const gf_eval_key *row = gf_eval_keys(e->event, &rows);
    for (int i = 0; i < rows; i++) e->value[i] = number_of(r, row[i].key);
    e->untrained = number_of(r, "untrained") == 1.0;
    /* Older versions recorded equal votes under the name of weighted ones. */
    if (strcmp(e->event, "knn") == 0 && strcmp(e->protocol, "knn") == 0 && number_of(r, "temperature") == 0.0)
        snprintf(e->protocol, sizeof e->protocol, "knn-unweighted");
    collector c = {.out = e->settings, .event = e->event, .line = r, .unknown = unknown};
    e->settings[0] = 0;
    if (!gf_jsonl_each(r, collect_setting, &c))
        c.truncated = 1, c.crc ^= (uint32_t)r->number; /* incomplete: comparable with no other */
    finish_settings(&c);
    gf_eval_identify(e);
}

/* A newer record of a kind replaces the older one. */
static glofnd_status keep_record(gf_error *err, gf_run_eval *all, const gf_eval_line *e) {
    for (int i = 0; i < all->count; i++)
        if (all->line[i].untrained == e->untrained && strcmp(all->line[i].identity, e->identity) == 0) {
            all->line[i] = *e;
            return GLOFND_OK;
        }
    FAIL_IF(err, !gf_grow(&all->line, &all->capacity, (size_t)all->count + 1, sizeof *all->line), GLOFND_E_MEMORY,
            "no memory for %d evaluations", all->count + 1);
    all->line[all->count++] = *e;
    return GLOFND_OK;
}

glofnd_status gf_run_eval_read(gf_error *err, const char *run, gf_run_eval *out) {
    char path[PATH_MAX];
    int64_t stale = 0, skipped = 0; /* stale: leading lines that measured weights which later training replaced */
    gf_jsonl_reader r = {0};
    int there;
    *out = (gf_run_eval){0};
    TRY(gf_path_join(err, path, run, GF_EVAL_FILE));
    TRY(gf_exists(err, path, &there));
    if (!there) return GLOFND_OK;
    TRY(gf_jsonl_read_open(err, &r, path));
    for (int64_t n = 1; gf_run_line(&r, &skipped); n++) {
        const char *event = gf_jsonl_get_text(&r, "event");
        if (event && strcmp(event, GF_EVAL_TRAINED) == 0) stale = n;
    }
    glofnd_status status = r.status;
    gf_jsonl_read_close(&r);
    TRY(status);
    r = (gf_jsonl_reader){0};
    TRY(gf_jsonl_read_open(err, &r, path));
    while (status == GLOFND_OK && gf_run_line(&r, &out->skipped)) {
        gf_eval_line e;
        read_record(&r, out->unknown, &e);
        if (*e.event && (e.untrained || stale <= 0)) status = keep_record(err, out, &e);
        stale--;
    }
    if (status == GLOFND_OK) status = r.status;
    gf_jsonl_read_close(&r);
    if (status != GLOFND_OK) gf_run_eval_free(out);
    return status;
}

void gf_run_eval_free(gf_run_eval *e) {
    free(e->line);
    *e = (gf_run_eval){0};
}
