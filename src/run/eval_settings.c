/* eval_settings.c - see eval_settings.h. */
#include "run/eval_settings.h"

#include <stdio.h>
#include <string.h>

#include "io/crc32c.h"
#include "util/strings/utf8.h"

enum { FIELD = 48, VALUE = 400, SHOWN = 80, REST = 16 }; /* bytes: of a name, a value, a value as shown, what did not fit */

/* ----- which fields count ----- */

/* Fields that are no settings, whatever the event. */
static const char *const others[] = {
    /* in the name of the line */
    "event",
    "protocol",
    "dataset",
    "metric",
    "k",
    "fraction",
    "pairs",
    "detector",
    "truth",
    "untrained",
    /* follow from the settings; how many samples a share holds may depend on which are damaged */
    "epochs",
    "train_samples",
    "test_samples",
    /* measured */
    "top1",
    "top5",
    "score",
    "scores",
    "mean",
    "mean_per_class",
    "last_top1",
    "epochs_run",
    "best_epoch",
    "best_l2",
    "validation_score",
    "validation_l2",
    "unfinished",
    "ir1",
    "ir5",
    "ir10",
    "ir_mean",
    "tr1",
    "tr5",
    "tr10",
    "tr_mean",
    "retrieval",
    "imagenet",
    "precision",
    "recall",
    "f1",
    "pooled_precision",
    "pooled_recall",
    "pooled_f1",
    "flagged",
    "learned",
    "mae",
    "rmse",
    "bias",
    "fnc_mae",
    "fnc_rmse",
    "fnc_bias",
    "optimum_mean",
    "optimum_std",
    "lambda_mean",
    "lambda_std",
};

typedef struct gathering {
    char *out;
    size_t used;
    uint32_t all;              /* checksum of all lines */
    int lost;                  /* one did not fit */
    int by_lambda, by_samples; /* `eval fn`: learned thresholds, which know no alpha; the number asked for is there */
} gathering;

static int counts(const gathering *g, const char *key) {
    if (strncmp(key, "time_", 5) == 0) return 0;
    if (g->by_lambda && strcmp(key, "alpha") == 0) return 0;
    if (g->by_samples && strcmp(key, "anchors") == 0) return 0; /* of these, what is not damaged */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0) return 0;
    return 1;
}

/* At most n bytes of a longer text, in whole characters. */
static size_t cut(const char *text, size_t n) {
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    return n;
}

/* The name of a field as it stands before the '='. */
static void clean(const char *key, char out[FIELD]) {
    snprintf(out, FIELD, "%s", key);
    gf_utf8_trim(out);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '=') *p = '?';
}

static void take(void *user, const char *key, const char *value) {
    gathering *g = user;
    char field[FIELD];
    const size_t n = strlen(value), room = GF_SETTINGS - REST - g->used;
    char sum[16] = "";
    if (!counts(g, key) || (strcmp(key, "temperature") == 0 && strcmp(value, "0") == 0)) return; /* equal votes: a name */
    g->all = gf_crc32c(gf_crc32c(g->all, key, strlen(key) + 1), value, n + 1);
    if (n > VALUE) snprintf(sum, sizeof sum, "... #%08x", (unsigned)gf_crc32c(0, value, n));
    clean(key, field);
    const int put = snprintf(g->out + g->used, room, "%s=%.*s%s\n", field, (int)(n > VALUE ? cut(value, VALUE) : n), value, sum);
    if (put > 0 && (size_t)put < room) g->used += (size_t)put;
    else g->out[g->used] = 0, g->lost = 1;
}

static void finish(gathering *g) {
    if (g->lost) snprintf(g->out + g->used, REST, "~=#%08x\n", (unsigned)g->all);
}

void gf_settings_of_line(const gf_jsonl_reader *r, const char *event, char out[GF_SETTINGS]) {
    gathering g = {.out = out};
    const char *detector = gf_jsonl_get_text(r, "detector");
    double samples;
    const int fn = strcmp(event, "fn") == 0;
    out[0] = 0;
    g.by_lambda = fn && detector && strcmp(detector, "glofnd") == 0;
    g.by_samples = fn && gf_jsonl_get(r, "samples", &samples);
    if (!gf_jsonl_each(r, take, &g)) g.lost = 1, g.all ^= (uint32_t)r->number; /* not all is known: like no other */
    finish(&g);
}

void gf_settings_of_run(const gf_config *c, char out[GF_SETTINGS]) {
    static const char *const keys[] = {"batch", "data", "task"};
    char value[1100];
    gathering g = {.out = out};
    int in_method;
    out[0] = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const gf_option *o = gf_config_find(keys[i], &in_method);
        if (!o) continue;
        gf_option_format(o, in_method ? (const void *)&c->method : c, value, sizeof value);
        take(&g, keys[i], value);
    }
    finish(&g);
}

/* ----- two of them ----- */

/* Length of the field a line begins with. */
static size_t field_of(const char *line) { return strcspn(line, "=\n"); }

static const char *next(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* The line of a field that ends at '=' or 0; NULL: there is none. */
static const char *find(const char *settings, const char *field) {
    const size_t n = field_of(field);
    for (const char *at = settings; *at; at = next(at))
        if (field_of(at) == n && memcmp(at, field, n) == 0) return at;
    return NULL;
}

int gf_settings_differ(const char *a, const char *b, const char *field) {
    const char *x = find(a, field), *y = find(b, field);
    if (!x || !y) return x != y;
    const size_t n = strcspn(x, "\n");
    return strcspn(y, "\n") != n || memcmp(x, y, n) != 0;
}

const char *gf_settings_difference(const char *a, const char *b) {
    static const char *const first[] = {"test", "data", "names"};
    for (int i = 0; i < 3; i++)
        if (gf_settings_differ(a, b, first[i])) return first[i];
    for (const char *at = a; *at; at = next(at))
        if (gf_settings_differ(a, b, at)) return at;
    for (const char *at = b; *at; at = next(at))
        if (!find(a, at)) return at;
    return NULL;
}

void gf_settings_say(const char *settings, const char *field, char *out, size_t bytes) {
    const char *line = find(settings, field);
    const size_t n = field_of(field);
    if (!line) {
        snprintf(out, bytes, "%.*s not recorded", (int)n, field);
        return;
    }
    const char *value = line + field_of(line) + (line[field_of(line)] == '=');
    const int length = (int)strcspn(value, "\n"), bare = n == 4 && memcmp(field, "test", 4) == 0;
    const char *space = bare ? "" : " ";
    const int name = bare ? 0 : (int)n;
    char sum[16] = ""; /* of what is not all shown; what was cut has one */
    if (length <= SHOWN) {
        snprintf(out, bytes, "%.*s%s%.*s", name, field, space, length, value);
        return;
    }
    if (length <= VALUE) snprintf(sum, sizeof sum, " #%08x", (unsigned)gf_crc32c(0, value, (size_t)length));
    const int head = (int)cut(value, SHOWN / 2 - 8), tail = length - (int)cut(value, (size_t)(length - SHOWN / 2 + 8));
    snprintf(out, bytes, "%.*s%s%.*s...%.*s%s", name, field, space, head, value, tail, value + length - tail, sum);
}
