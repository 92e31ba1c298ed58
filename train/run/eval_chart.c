/* eval_chart.c - see eval_chart.h. */
#include "run/eval_chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/calls.h"
#include "run/tfevents.h"
#include "run/checkpoint_folder.h"
#include "run/layout.h"
#include "util/clock.h"

void gf_eval_chart_begin(gf_eval_chart *c, const char *event) {
    c->count = c->untrained = 0;
    c->names[0] = 0;
    snprintf(c->event, sizeof c->event, "%s", event);
}

/* A name that does not fit is left out. */
static void add_name(gf_eval_chart *c, const char *key, const char *value) {
    const size_t used = strlen(c->names), more = strlen(key) + strlen(value) + 3;
    if (used + more > sizeof c->names) return;
    snprintf(c->names + used, sizeof c->names - used, "%s%s%s%s", used ? " " : "", key, *key ? "=" : "", value);
}

void gf_eval_chart_text(gf_eval_chart *c, const gf_eval_key *key, const char *text) {
    if (key->role != GF_EVAL_NAME || strcmp(key->key, "event") == 0) return;
    add_name(c, strcmp(key->key, "protocol") == 0 ? "" : key->key, text);
}

void gf_eval_chart_number(gf_eval_chart *c, const gf_eval_key *key, double x) {
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

static glofnd_status open_file(gf_error *err, const gf_eval_chart *c, gf_events *t) {
    char folder[PATH_MAX], path[PATH_MAX], name[96];
    const double now = gf_wall_clock();
    int there;
    TRY(gf_path_join(err, folder, c->run, GF_EVAL_EVENTS));
    FAIL_IF(err, mkdir(folder, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "%s cannot be made: %s", folder, strerror(errno));
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%lld", (long long)now, (long long)getpid());
    TRY(gf_path_join(err, path, folder, name));
    TRY(gf_exists(err, path, &there));
    return gf_events_open(err, t, path, there ? GF_LOG_ALL : 0, now);
}

static glofnd_status find_step(gf_error *err, const gf_eval_chart *c, int64_t *step) {
    char latest[PATH_MAX];
    *step = 0;
    if (c->untrained) return GLOFND_OK;
    TRY(gf_checkpoint_latest(err, c->run, latest));
    if (*latest) *step = gf_checkpoint_step(latest);
    return GLOFND_OK;
}

glofnd_status gf_eval_chart_end(gf_error *err, gf_eval_chart *c) {
    gf_events t = {0};
    int64_t step;
    char tag[300];
    if (c->count == 0) return GLOFND_OK;
    TRY(find_step(err, c, &step));
    TRY(open_file(err, c, &t));
    gf_events_begin(&t, step, gf_wall_clock());
    for (int i = 0; i < c->count; i++) {
        snprintf(tag, sizeof tag, "%s/%s/%s", c->event, *c->names ? c->names : "all", c->figure[i].key);
        gf_events_scalar(&t, tag, c->figure[i].value);
    }
    gf_events_end(&t);
    c->count = 0;
    return gf_events_close(&t);
}
