/* sweep.c - see sweep.h. */
#include "programs/sweep/sweep.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/preset_file.h"
#include "io/file.h"
#include "io/blockfile.h"
#include "io/jsonl.h"
#include "run/run_folder.h"
#include "util/text.h"

/* ----- texts ----- */

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = 0;
    return text;
}

#define TEXT_MAX (1 << 16) /* bytes of all settings; a fixed block, since pointers go into it */

static char *keep(sweep_plan *p, const char *text, size_t length) {
    if (!p->text) {
        p->text = malloc(TEXT_MAX);
        p->text_capacity = p->text ? TEXT_MAX : 0;
    }
    if (length >= p->text_capacity - p->text_used) return NULL;
    char *to = p->text + p->text_used;
    memcpy(to, text, length);
    to[length] = 0;
    p->text_used += length + 1;
    return to;
}

void sweep_free(sweep_plan *p) {
    free(p->text);
    *p = (sweep_plan){0};
}

static glofnd_status too_long(gf_error *err) { return gf_fail(err, GLOFND_E_ARGUMENT, "the settings of the sweep are too long"); }

/* Bytes of the first value of a list; a comma behind a backslash does not end it. */
static size_t value_bytes(const char *list) {
    size_t n = strcspn(list, ",");
    while (n > 0 && list[n] == ',' && list[n - 1] == '\\') n += 1 + strcspn(list + n + 1, ",");
    return n;
}

static void unescape_commas(char *value) {
    char *to = value;
    for (; *value; value++)
        if (value[0] != '\\' || value[1] != ',') *to++ = *value;
    *to = 0;
}

/* "a,b,c" to the values of an axis. */
static glofnd_status take_values(gf_error *err, sweep_plan *p, sweep_axis *axis, const char *list) {
    for (axis->count = 0;;) {
        const size_t n = value_bytes(list);
        FAIL_IF(err, n == 0, GLOFND_E_OPTION, "%s: a value is missing; write a,b,c", axis->key);
        FAIL_IF(err, axis->count == SWEEP_VALUES_MAX, GLOFND_E_OPTION, "%s: more than %d values", axis->key, SWEEP_VALUES_MAX);
        char *value = keep(p, list, n);
        if (!value) return too_long(err);
        unescape_commas(value);
        axis->value[axis->count++] = value;
        if (!list[n]) return GLOFND_OK;
        list += n + 1;
    }
}

/* 1: both name one key of the configuration. */
static int same_key(const char *a, const char *b) {
    int in_method;
    const gf_option *o = gf_config_find(a, &in_method);
    return o ? gf_config_find(b, &in_method) == o : strcmp(a, b) == 0;
}

/* The axis of a key that an earlier file varies; -1: there is none. */
static int earlier_axis(const sweep_plan *p, const char *key) {
    for (int a = 0; a < p->vary_count; a++)
        if (p->vary[a].source < p->source && same_key(p->vary[a].key, key)) return a;
    return -1;
}

static glofnd_status take_vary(gf_error *err, sweep_plan *p, const char *text) {
    const char *equals = strchr(text, '=');
    FAIL_IF(err, !equals || equals == text, GLOFND_E_OPTION, "vary takes KEY=a,b,c, not \"%.60s\"", text);
    const char *key = keep(p, text, (size_t)(equals - text));
    if (!key) return too_long(err);
    int in_method;
    const gf_option *o = gf_config_find(key, &in_method);
    FAIL_IF(err, o && strcmp(o->key, "seed") == 0, GLOFND_E_OPTION, "seed cannot be varied; seeds are given by seeds");
    for (int a = 0; a < p->vary_count; a++)
        FAIL_IF(err, o && p->vary[a].source == p->source && same_key(p->vary[a].key, key), GLOFND_E_OPTION,
                "%s is varied twice; all its values go into one list: vary %s=a,b,c", o->key, o->key);
    const int earlier = earlier_axis(p, key), at = earlier < 0 ? p->vary_count : earlier;
    FAIL_IF(err, at == SWEEP_VARY_MAX, GLOFND_E_OPTION, "more than %d keys to vary", SWEEP_VARY_MAX);
    p->vary_count += earlier < 0;
    p->vary[at] = (sweep_axis){.key = key, .source = p->source};
    return take_values(err, p, &p->vary[at], equals + 1);
}

static glofnd_status take_jobs(gf_error *err, sweep_plan *p, const char *text) {
    int64_t n;
    FAIL_IF(err, gf_integer_read(text, &n) || n < 1 || n > 256, GLOFND_E_OPTION,
            "jobs is \"%.40s\"; expected an integer in [1, 256]", text);
    p->jobs = n;
    return GLOFND_OK;
}

static glofnd_status take_share(gf_error *err, sweep_plan *p, const char *text) {
    FAIL_IF(err, strcmp(text, "0") != 0 && strcmp(text, "1") != 0, GLOFND_E_OPTION, "share is \"%.40s\"; expected 0 or 1", text);
    p->share = *text == '1';
    return GLOFND_OK;
}

static glofnd_status take_listed(gf_error *err, sweep_plan *p, const char **list, int *count, int max, const char *text) {
    FAIL_IF(err, *count == max, GLOFND_E_OPTION, "more than %d settings of one kind", max);
    list[*count] = keep(p, text, strlen(text));
    return list[(*count)++] ? GLOFND_OK : too_long(err);
}

/* A configuration named in a sweep file is relative to it. Those of an earlier file are replaced. */
static glofnd_status take_config(gf_error *err, sweep_plan *p, const char *path, const char *folder) {
    char joined[PATH_MAX];
    if (folder && path[0] != '/') TRY(gf_path_join(err, joined, folder, path));
    else TRY(cli_preset_file(err, path, ".cfg", joined));
    if (p->config_source < p->source) p->config_count = 0;
    p->config_source = p->source;
    return take_listed(err, p, p->config, &p->config_count, SWEEP_CONFIG_MAX, joined);
}

/* "KEY=VALUE" for all runs: what an earlier file varies of that key does not count. */
static glofnd_status take_set(gf_error *err, sweep_plan *p, const char *pair) {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    const int a = earlier_axis(p, trimmed(key));
    TRY(take_listed(err, p, p->set, &p->set_count, SWEEP_SET_MAX, pair));
    if (a < 0) return GLOFND_OK;
    memmove(&p->vary[a], &p->vary[a + 1], sizeof p->vary[a] * (size_t)(p->vary_count - a - 1));
    p->vary_count--;
    return GLOFND_OK;
}

/* E_OPTION: a file names a command, "on_epoch=COMMAND". Files may come from elsewhere: only one of the command line is run. */
static glofnd_status refuse_command(gf_error *err, const char *pair) {
    char key[64];
    int in_method;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    const gf_option *o = gf_config_find(trimmed(key), &in_method);
    FAIL_IF(err, o && strcmp(o->key, "on_epoch") == 0, GLOFND_E_OPTION,
            "a file may not name a command to run; give it on the command line: --set on_epoch=COMMAND");
    return GLOFND_OK;
}

glofnd_status sweep_set(gf_error *err, sweep_plan *p, const char *key, const char *value, const char *folder) {
    char pair[2100];
    if (folder && (strcmp(key, "vary") == 0 || strcmp(key, "set") == 0)) TRY(refuse_command(err, value));
    if (strcmp(key, "vary") == 0) return take_vary(err, p, value);
    if (strcmp(key, "seeds") == 0) return p->seeds.key = "seeds", take_values(err, p, &p->seeds, value);
    if (strcmp(key, "jobs") == 0) return take_jobs(err, p, value);
    if (strcmp(key, "share") == 0) return take_share(err, p, value);
    if (strcmp(key, "config") == 0) return take_config(err, p, value, folder);
    if (strcmp(key, "set") == 0) return take_set(err, p, value);
    if (strcmp(key, "eval") == 0) return take_listed(err, p, p->eval, &p->eval_count, SWEEP_EVAL_MAX, value);
    if (strcmp(key, "data") == 0) {
        const int n = snprintf(pair, sizeof pair, "data=%s", value);
        FAIL_IF(err, n < 0 || (size_t)n >= sizeof pair, GLOFND_E_ARGUMENT, "the SPEC of the data is too long");
        return take_set(err, p, pair);
    }
    const char **to = strcmp(key, "choose") == 0 ? &p->choose : strcmp(key, "out") == 0 ? &p->out : NULL;
    FAIL_IF(err, !to, GLOFND_E_OPTION,
            "unknown setting \"%.60s\" of a sweep; available: config, vary, seeds, set, data, eval, jobs, share, choose, out",
            key);
    *to = keep(p, value, strlen(value));
    return *to ? GLOFND_OK : too_long(err);
}

/* ----- sweep files ----- */

static glofnd_status read_line(gf_error *err, sweep_plan *p, char *line, const char *path, int number) {
    char folder[1024];
    char *text = trimmed(line), *equals = strchr(text, '=');
    const char *slash = strrchr(path, '/');
    if (!*text || *text == '#') return GLOFND_OK;
    FAIL_IF(err, !equals, GLOFND_E_FORMAT, "%s:%d: \"%.40s\" is not key = value", path, number, text);
    *equals = 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    gf_error inner = {{0}};
    const glofnd_status status = sweep_set(&inner, p, trimmed(text), trimmed(equals + 1), folder);
    if (status != GLOFND_OK) gf_fail(err, status, "%s:%d: %s", path, number, inner.text);
    return status;
}

typedef struct reading {
    sweep_plan *plan;
    const char *path;
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    const reading *r = user;
    return read_line(err, r->plan, line, r->path, number);
}

glofnd_status sweep_read(gf_error *err, sweep_plan *p, const char *path) {
    reading r = {p, path};
    const glofnd_status status = gf_each_line(err, path, take_line, &r);
    p->source++;
    return status;
}

/* ----- runs ----- */

static glofnd_status set_pair(gf_error *err, gf_config *c, const char *pair) {
    char key[64];
    const char *equals = strchr(pair, '=');
    FAIL_IF(err, !equals || (size_t)(equals - pair) >= sizeof key, GLOFND_E_OPTION, "set takes KEY=VALUE, not \"%.60s\"", pair);
    snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
    return gf_config_set(err, c, key, equals + 1);
}

int sweep_is_config(const sweep_axis *a) { return strcmp(a->key, "config") == 0; }

static glofnd_status read_config(gf_error *err, gf_config *c, const char *name) {
    char path[PATH_MAX];
    TRY(cli_preset_file(err, name, ".cfg", path));
    return gf_config_read(err, c, path);
}

/* In the order of the run's flags: files, keys for all runs, varied keys. */
static glofnd_status configure(gf_error *err, const sweep_plan *p, sweep_run *r) {
    TRY(gf_config_init(err, &r->config));
    for (int i = 0; i < p->config_count; i++) TRY(gf_config_read(err, &r->config, p->config[i]));
    for (int a = 0; a < p->vary_count; a++)
        if (sweep_is_config(&p->vary[a])) TRY(read_config(err, &r->config, r->value[a]));
    for (int i = 0; i < p->set_count; i++) TRY(set_pair(err, &r->config, p->set[i]));
    for (int a = 0; a < p->vary_count; a++)
        if (!sweep_is_config(&p->vary[a])) TRY(gf_config_set(err, &r->config, p->vary[a].key, r->value[a]));
    TRY(gf_config_set(err, &r->config, "seed", r->seed));
    r->resolved = r->config;
    const glofnd_status status = gf_config_resolve(err, &r->resolved); /* errors show before the first run starts */
    const gf_error why = *err;
    FAIL_IF(err, status != GLOFND_OK, status, "%s cannot be trained: %.300s", r->name, why.text);
    return gf_config_kept_epochs(err, &r->resolved, r->keep, &r->keep_count);
}

/* Without keys that may change from one call to the next. */
static uint32_t crc_of(const gf_config *c) {
    char line[1200], value[1100];
    const char *key;
    uint32_t crc = 0;
    for (int i = 0; (key = gf_config_value(c, i, value, sizeof value)); i++) {
        const int may_change =
            !strcmp(key, "threads") || !strcmp(key, "workers") || !strcmp(key, "prefetch") || !strcmp(key, "checkpoint_epochs");
        const int n = snprintf(line, sizeof line, "%s=%s\n", key, value);
        if (!may_change && n > 0) crc = gf_crc32c(crc, line, (size_t)n);
    }
    return crc;
}

static size_t add_part(char *name, size_t used, size_t capacity, const char *key, const char *value) {
    if (used >= capacity) return used;
    const int n = snprintf(name + used, capacity - used, "%s%s-%.48s", used ? "_" : "", key, value);
    for (size_t i = used; i < capacity && name[i]; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._+-", name[i])) name[i] = '_';
    return used + (size_t)(n > 0 ? n : 0);
}

static glofnd_status name_run(gf_error *err, const sweep_plan *p, sweep_run *r) {
    size_t used = 0;
    for (int a = 0; a < p->vary_count; a++) used = add_part(r->name, used, sizeof r->name, p->vary[a].key, r->value[a]);
    used = add_part(r->name, used, sizeof r->name, "seed", r->seed);
    const int n = snprintf(r->path, sizeof r->path, "%s/%s", p->out, r->name);
    FAIL_IF(err, used >= sizeof r->name || n < 0 || (size_t)n >= sizeof r->path, GLOFND_E_ARGUMENT,
            "the folder name of a run is too long: %.100s...", r->name);
    return GLOFND_OK;
}

static glofnd_status make_run(gf_error *err, const sweep_plan *p, int index, sweep_run *r) {
    *r = (sweep_run){.seed = p->seeds.value[index % p->seeds.count], .trunk = -1};
    index /= p->seeds.count;
    for (int a = p->vary_count - 1; a >= 0; index /= p->vary[a--].count) r->value[a] = p->vary[a].value[index % p->vary[a].count];
    TRY(name_run(err, p, r));
    TRY(configure(err, p, r));
    r->config_crc = crc_of(&r->config);
    return GLOFND_OK;
}

glofnd_status sweep_make(gf_error *err, const sweep_plan *p, sweep_run **runs, int *count) {
    int64_t n = p->seeds.count;
    for (int a = 0; a < p->vary_count && n <= GF_COMPARE_RUNS_MAX; a++) n *= p->vary[a].count;
    FAIL_IF(err, n < 1 || n > GF_COMPARE_RUNS_MAX, GLOFND_E_OPTION, "the grid has more than %d runs", GF_COMPARE_RUNS_MAX);
    sweep_run *r = calloc((size_t)n, sizeof *r);
    FAIL_IF(err, !r, GLOFND_E_MEMORY, "no memory for %lld runs", (long long)n);
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < n && status == GLOFND_OK; i++) {
        status = make_run(err, p, i, &r[i]);
        for (int k = 0; k < i && status == GLOFND_OK; k++)
            if (strcmp(r[i].name, r[k].name) == 0)
                status = gf_fail(err, GLOFND_E_OPTION,
                                 "two runs of the grid would have the name %s: a value is repeated, or equals another in its "
                                 "first 48 characters; a comma that is part of a value is written \\,",
                                 r[i].name);
    }
    if (status != GLOFND_OK) free(r);
    else *runs = r, *count = (int)n;
    return status;
}

/* ----- sweep.jsonl ----- */

int sweep_has_model(const sweep_run *r) {
    char path[PATH_MAX];
    return gf_path_join(NULL, path, r->path, GF_MODEL_FILE) == GLOFND_OK && access(path, F_OK) == 0;
}

static glofnd_status read_record(gf_error *err, const sweep_plan *p, sweep_run *r, const gf_jsonl_reader *line) {
    int64_t crc = -1;
    const char *event = gf_jsonl_get_text(line, "event"), *words = gf_jsonl_get_text(line, "eval");
    gf_jsonl_get_integer(line, "config", &crc);
    FAIL_IF(err, crc != (int64_t)r->config_crc, GLOFND_E_ARGUMENT,
            "%s was made under a different configuration; choose a different --out, or remove it and its lines in " GF_SWEEP_FILE,
            r->path);
    if (!event) return GLOFND_OK;
    if (strcmp(event, "start") == 0) r->finished = 0, r->evaluated = 0; /* trained again, after its folder was removed */
    if (strcmp(event, "finished") == 0) r->finished = 1;
    for (int e = 0; words && strcmp(event, "evaluated") == 0 && e < p->eval_count; e++)
        if (strcmp(words, p->eval[e]) == 0) r->evaluated |= 1u << e;
    return GLOFND_OK;
}

glofnd_status sweep_read_log(gf_error *err, const sweep_plan *p, sweep_run *runs, int count) {
    char path[PATH_MAX];
    gf_jsonl_reader line = {0};
    glofnd_status status = GLOFND_OK;
    TRY(gf_path_join(err, path, p->out, GF_SWEEP_FILE));
    int there;
    TRY(gf_exists(err, path, &there));
    if (!there) return GLOFND_OK;
    TRY(gf_jsonl_read_open(err, &line, path));
    while (status == GLOFND_OK && gf_jsonl_next(&line)) {
        const char *name = gf_jsonl_get_text(&line, "run");
        for (int i = 0; name && i < count && status == GLOFND_OK; i++)
            if (strcmp(runs[i].name, name) == 0) status = read_record(err, p, &runs[i], &line);
    }
    if (status == GLOFND_OK) status = line.status;
    gf_jsonl_read_close(&line);
    for (int i = 0; i < count; i++)
        if (!sweep_has_model(&runs[i])) runs[i].finished = 0, runs[i].evaluated = 0;
    return status;
}

glofnd_status sweep_record(gf_error *err, const sweep_plan *p, const sweep_run *r, const char *event, const char *eval) {
    char path[PATH_MAX];
    gf_jsonl log = {0};
    TRY(gf_path_join(err, path, p->out, GF_SWEEP_FILE));
    TRY(gf_jsonl_open_shared(err, &log, path));
    gf_jsonl_begin(&log);
    gf_jsonl_text(&log, "event", event);
    gf_jsonl_text(&log, "run", r->name);
    gf_jsonl_integer(&log, "config", (int64_t)r->config_crc);
    if (eval) gf_jsonl_text(&log, "eval", eval);
    gf_jsonl_end(&log);
    return gf_jsonl_close(&log);
}
