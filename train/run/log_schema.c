/* log_schema.c - see log_schema.h. */
#include "run/log_schema.h"

#include <math.h>
#include <string.h>

#define ROW(name, key, kind, factor) {key, GF_LOG_##kind, factor},
static const gf_log_key step_keys[] = {GF_LOG_STEP_KEYS(ROW)};
static const gf_log_key epoch_keys[] = {GF_LOG_EPOCH_KEYS(ROW)};
#undef ROW

const gf_log_event gf_log_step = {"step", step_keys, GF_RUN_STEP_COUNT};
const gf_log_event gf_log_epoch = {"epoch", epoch_keys, GF_RUN_FIELD_COUNT};

/* Loading counts only the time that the step had to wait. */
static const char *bottleneck(const double *value) {
    int slowest = GF_STEP_TIME_LOAD;
    for (int i = GF_STEP_TIME_LOAD; i <= GF_STEP_TIME_OPTIMIZER; i++) slowest = value[i] > value[slowest] ? i : slowest;
    return step_keys[slowest].key + strlen("time_");
}

void gf_log_write(gf_jsonl *j, const gf_log_event *event, const double *value, int clip) {
    gf_jsonl_begin(j);
    gf_jsonl_text(j, "event", event->name);
    for (int i = 0; i < event->count; i++) {
        const gf_log_key *k = &event->key[i];
        if (k->kind == GF_LOG_INTEGER) gf_jsonl_integer(j, k->key, (int64_t)value[i]);
        else if (k->kind == GF_LOG_BOTTLENECK) gf_jsonl_text(j, k->key, bottleneck(value));
        else if (k->kind == GF_LOG_OPTIONAL && !isfinite(value[i])) continue;
        else if (k->kind != GF_LOG_CLIP || clip) gf_jsonl_number(j, k->key, value[i]);
    }
}
