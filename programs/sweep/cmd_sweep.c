/* cmd_sweep.c - glofnd sweep: pretrains every run of a grid of values and seeds, evaluates them and compares.
 *
 * Runs are other processes of this program, so that a failure of one does not end the others. OUT/sweep.jsonl records finished
 * runs and evaluations; the same command continues after an interruption. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "data/captions.h"
#include "data/dataset.h"
#include "eval/split.h"
#include "io/blockfile.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "programs/cli.h"
#include "programs/comparing.h"
#include "programs/eval/eval.h"
#include "programs/sweep/sweep.h"
#include "run/progress.h"
#include "run/run_folder.h"
#include "util/array.h"
#include "util/text.h"

/* ---------- the plan ---------- */

#define TEXT_MAX (1 << 16) /* bytes of all settings; a fixed block, since pointers go into it */

static glofnd_status keep_text(gf_error *err, sweep_plan *p, const char *text, size_t length, const char **out) {
    if (!p->text) p->text = malloc(TEXT_MAX);
    FAIL_IF(err, !p->text || length >= TEXT_MAX - p->text_used, GLOFND_E_ARGUMENT, "the settings of the sweep are too long");
    char *to = p->text + p->text_used;
    memcpy(to, text, length);
    to[length] = 0;
    p->text_used += length + 1;
    *out = to;
    return GLOFND_OK;
}

void sweep_free(sweep_plan *p) {
    free(p->text);
    *p = (sweep_plan){0};
}

/* "a,b,c" to the values of an axis. */
static glofnd_status take_values(gf_error *err, sweep_plan *p, sweep_axis *axis, const char *list) {
    for (axis->count = 0;;) {
        /* Bytes of the first value of a list; a comma behind a backslash does not end it. */
        size_t n = strcspn(list, ",");
        while (n > 0 && list[n] == ',' && list[n - 1] == '\\') n += 1 + strcspn(list + n + 1, ",");
        FAIL_IF(err, n == 0, GLOFND_E_OPTION, "%s: a value is missing; write a,b,c", axis->key);
        FAIL_IF(err, axis->count == SWEEP_VALUES_MAX, GLOFND_E_OPTION, "%s: more than %d values", axis->key, SWEEP_VALUES_MAX);
        TRY(keep_text(err, p, list, n, &axis->value[axis->count]));
        char *to = p->text + (axis->value[axis->count++] - p->text);
        for (const char *at = to; *at; at++)
            if (at[0] != '\\' || at[1] != ',') *to++ = *at;
        *to = 0;
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

static glofnd_status take_listed(gf_error *err, sweep_plan *p, const char **list, int *count, int max, const char *text) {
    FAIL_IF(err, *count == max, GLOFND_E_OPTION, "more than %d settings of one kind", max);
    return keep_text(err, p, text, strlen(text), &list[(*count)++]);
}

/* Bytes of "PRESET:" in a setting "PRESET:KEY=VALUE", which counts for the runs of one configuration; 0: it counts for all. */
static size_t preset_part(const char *pair) {
    const size_t n = strcspn(pair, ":=");
    return pair[n] == ':' ? n + 1 : 0;
}

/* "KEY=VALUE" for all runs: what an earlier file varies of that key does not count. */
static glofnd_status take_set(gf_error *err, sweep_plan *p, const char *pair) {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    const int a = earlier_axis(p, gf_text_trim(key));
    TRY(take_listed(err, p, p->set, &p->set_count, SWEEP_SET_MAX, pair));
    if (a < 0) return GLOFND_OK;
    memmove(&p->vary[a], &p->vary[a + 1], sizeof p->vary[a] * (size_t)(p->vary_count - a - 1));
    p->vary_count--;
    return GLOFND_OK;
}

glofnd_status sweep_set(gf_error *err, sweep_plan *p, const char *key, const char *value, const char *folder) {
    char pair[2100];
    if (folder && (strcmp(key, "vary") == 0 || strcmp(key, "set") == 0)) {
        /* E_OPTION: a file names a command, "on_epoch=COMMAND". Files may come from elsewhere: only one of the command line
         * is run. */
        char command_key[64];
        int in_method;
        const char *pair_of = value + (strcmp(key, "set") == 0 ? preset_part(value) : 0);
        snprintf(command_key, sizeof command_key, "%.*s", (int)strcspn(pair_of, "="), pair_of);
        const gf_option *o = gf_config_find(gf_text_trim(command_key), &in_method);
        FAIL_IF(err, o && strcmp(o->key, "on_epoch") == 0, GLOFND_E_OPTION,
                "a file may not name a command to run; give it on the command line: --set on_epoch=COMMAND");
    }
    if (strcmp(key, "vary") == 0) {
        const char *equals = strchr(value, '=');
        FAIL_IF(err, !equals || equals == value, GLOFND_E_OPTION, "vary takes KEY=a,b,c, not \"%.60s\"", value);
        const char *vary_key = NULL;
        TRY(keep_text(err, p, value, (size_t)(equals - value), &vary_key));
        int in_method;
        const gf_option *o = gf_config_find(vary_key, &in_method);
        FAIL_IF(err, o && strcmp(o->key, "seed") == 0, GLOFND_E_OPTION, "seed cannot be varied; seeds are given by seeds");
        for (int a = 0; a < p->vary_count; a++)
            FAIL_IF(err, o && p->vary[a].source == p->source && same_key(p->vary[a].key, vary_key), GLOFND_E_OPTION,
                    "%s is varied twice; all its values go into one list: vary %s=a,b,c", o->key, o->key);
        const int earlier = earlier_axis(p, vary_key), at = earlier < 0 ? p->vary_count : earlier;
        FAIL_IF(err, at == SWEEP_VARY_MAX, GLOFND_E_OPTION, "more than %d keys to vary", SWEEP_VARY_MAX);
        p->vary_count += earlier < 0;
        p->vary[at] = (sweep_axis){.key = vary_key, .source = p->source};
        return take_values(err, p, &p->vary[at], equals + 1);
    }
    if (strcmp(key, "seeds") == 0) return p->seeds.key = "seeds", take_values(err, p, &p->seeds, value);
    if (strcmp(key, "jobs") == 0) {
        int64_t n;
        FAIL_IF(err, gf_integer_read(value, &n) || n < 1 || n > 256, GLOFND_E_OPTION,
                "jobs is \"%.40s\"; expected an integer in [1, 256]", value);
        p->jobs = n;
        return GLOFND_OK;
    }
    if (strcmp(key, "config") == 0) {
        /* A configuration named in a sweep file is relative to it. Those of an earlier file are replaced. */
        char joined[PATH_MAX];
        if (folder && value[0] != '/') TRY(gf_path_join(err, joined, folder, value));
        else TRY(cli_preset_file(err, value, ".cfg", joined));
        if (p->config_source < p->source) p->config_count = 0;
        p->config_source = p->source;
        return take_listed(err, p, p->config, &p->config_count, SWEEP_CONFIG_MAX, joined);
    }
    if (strcmp(key, "set") == 0) return take_set(err, p, value);
    if (strcmp(key, "eval") == 0) return take_listed(err, p, p->eval, &p->eval_count, SWEEP_EVAL_MAX, value);
    if (strcmp(key, "data") == 0) {
        const int n = snprintf(pair, sizeof pair, "data=%s", value);
        FAIL_IF(err, n < 0 || (size_t)n >= sizeof pair, GLOFND_E_ARGUMENT, "the SPEC of the data is too long");
        return take_set(err, p, pair);
    }
    const char **to = strcmp(key, "choose") == 0 ? &p->choose : strcmp(key, "out") == 0 ? &p->out : NULL;
    FAIL_IF(err, !to, GLOFND_E_OPTION,
            "unknown setting \"%.60s\" of a sweep; available: config, vary, seeds, set, data, eval, jobs, choose, out", key);
    return keep_text(err, p, value, strlen(value), to);
}

/* ----- a sweep file: lines `key = value` with these names, # comments ----- */

typedef struct reading {
    sweep_plan *plan;
    const char *path;
} reading;

static glofnd_status read_line(gf_error *err, void *user, char *line, int number) {
    sweep_plan *p = ((const reading *)user)->plan;
    const char *path = ((const reading *)user)->path;
    char folder[1024];
    char *text = gf_text_trim(line), *equals = strchr(text, '=');
    const char *slash = strrchr(path, '/');
    if (!*text || *text == '#') return GLOFND_OK;
    FAIL_IF(err, !equals, GLOFND_E_FORMAT, "%s:%d: \"%.40s\" is not key = value", path, number, text);
    *equals = 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    gf_error inner = {{0}};
    const glofnd_status status = sweep_set(&inner, p, gf_text_trim(text), gf_text_trim(equals + 1), folder);
    if (status != GLOFND_OK) gf_fail(err, status, "%s:%d: %s", path, number, inner.text);
    return status;
}

/* ---------- the runs of the grid ---------- */

/* 1: the values of this axis are configurations: presets or files, read before all other keys. */
static int is_config(const sweep_axis *a) { return strcmp(a->key, "config") == 0; }

/* Setting i as "KEY=VALUE", if it counts for this run; NULL: it is of another configuration. */
static const char *setting_for(const sweep_plan *p, const sweep_run *r, int i) {
    const size_t n = preset_part(p->set[i]);
    for (int a = 0; n && a < p->vary_count; a++)
        if (is_config(&p->vary[a]) && strlen(r->value[a]) == n - 1 && strncmp(r->value[a], p->set[i], n - 1) == 0)
            return p->set[i] + n;
    return n ? NULL : p->set[i];
}

static size_t add_part(char *name, size_t used, size_t capacity, const char *key, const char *value) {
    if (used >= capacity) return used;
    const int n = snprintf(name + used, capacity - used, "%s%s-%.48s", used ? "_" : "", key, value);
    for (size_t i = used; i < capacity && name[i]; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._+-", name[i])) name[i] = '_';
    return used + (size_t)(n > 0 ? n : 0);
}

static glofnd_status make_run(gf_error *err, const sweep_plan *p, int index, sweep_run *r) {
    *r = (sweep_run){.seed = p->seeds.value[index % p->seeds.count]};
    index /= p->seeds.count;
    for (int a = p->vary_count - 1; a >= 0; index /= p->vary[a--].count) r->value[a] = p->vary[a].value[index % p->vary[a].count];
    size_t used = 0;
    for (int a = 0; a < p->vary_count; a++) used = add_part(r->name, used, sizeof r->name, p->vary[a].key, r->value[a]);
    used = add_part(r->name, used, sizeof r->name, "seed", r->seed);
    const int length = snprintf(r->path, sizeof r->path, "%s/%s", p->out, r->name);
    FAIL_IF(err, used >= sizeof r->name || length < 0 || (size_t)length >= sizeof r->path, GLOFND_E_ARGUMENT,
            "the folder name of a run is too long: %.100s...", r->name);
    /* In the order of the run's flags: files, keys for all runs, varied keys. */
    char path[PATH_MAX];
    TRY(gf_config_init(err, &r->config));
    for (int i = 0; i < p->config_count; i++) TRY(gf_config_read(err, &r->config, p->config[i]));
    for (int a = 0; a < p->vary_count; a++)
        if (is_config(&p->vary[a])) {
            TRY(cli_preset_file(err, r->value[a], ".cfg", path));
            TRY(gf_config_read(err, &r->config, path));
        }
    for (int i = 0; i < p->set_count; i++) {
        const char *pair = setting_for(p, r, i);
        char pair_key[64];
        if (!pair) continue;
        const char *equals = strchr(pair, '=');
        FAIL_IF(err, !equals || (size_t)(equals - pair) >= sizeof pair_key, GLOFND_E_OPTION, "set takes KEY=VALUE, not \"%.60s\"",
                pair);
        snprintf(pair_key, sizeof pair_key, "%.*s", (int)(equals - pair), pair);
        TRY(gf_config_set(err, &r->config, pair_key, equals + 1));
    }
    for (int a = 0; a < p->vary_count; a++)
        if (!is_config(&p->vary[a])) TRY(gf_config_set(err, &r->config, p->vary[a].key, r->value[a]));
    TRY(gf_config_set(err, &r->config, "seed", r->seed));
    r->resolved = r->config;
    const glofnd_status status = gf_config_resolve(err, &r->resolved); /* errors show before the first run starts */
    const gf_error why = *err;
    FAIL_IF(err, status != GLOFND_OK, status, "%s cannot be trained: %.300s", r->name, why.text);
    /* Without keys that may change from one call to the next. */
    char line[1200], value[1100];
    const char *key;
    uint32_t crc = 0;
    for (int i = 0; (key = gf_config_value(&r->config, i, value, sizeof value)); i++) {
        const int may_change =
            !strcmp(key, "threads") || !strcmp(key, "workers") || !strcmp(key, "prefetch") || !strcmp(key, "checkpoint_epochs");
        const int n = snprintf(line, sizeof line, "%s=%s\n", key, value);
        if (!may_change && n > 0) crc = gf_crc32c(crc, line, (size_t)n);
    }
    r->config_crc = crc;
    return GLOFND_OK;
}

/* All runs of the grid, checked: the first axis varies slowest, seeds fastest. *runs is to be freed. */
static glofnd_status make_runs(gf_error *err, const sweep_plan *p, sweep_run **runs, int *count) {
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
    for (int i = 0; i < p->set_count && status == GLOFND_OK; i++) {
        int used = 0;
        for (int k = 0; k < n; k++) used |= setting_for(p, &r[k], i) != NULL;
        if (!used)
            status =
                gf_fail(err, GLOFND_E_OPTION, "set %s: no run has the configuration \"%.*s\"; PRESET: is one of those that vary",
                        p->set[i], (int)preset_part(p->set[i]) - 1, p->set[i]);
    }
    if (status != GLOFND_OK) free(r);
    else *runs = r, *count = (int)n;
    return status;
}

/* ---------- sweep.jsonl ---------- */

/* 1: the final weights exist. */
static int has_model(const sweep_run *r) {
    char path[PATH_MAX];
    return gf_path_join(NULL, path, r->path, GF_MODEL_FILE) == GLOFND_OK && access(path, F_OK) == 0;
}

/* E_ARGUMENT: a run of this name was made under a different configuration. */
static glofnd_status read_log(gf_error *err, const sweep_plan *p, sweep_run *runs, int count) {
    char path[PATH_MAX];
    gf_jsonl_reader line = {0};
    glofnd_status status = GLOFND_OK;
    TRY(gf_path_join(err, path, p->out, GF_SWEEP_FILE));
    int there;
    TRY(gf_exists(err, path, &there));
    if (!there) return GLOFND_OK;
    TRY(gf_jsonl_read_open(err, &line, path));
    while (status == GLOFND_OK && gf_jsonl_next(&line)) {
        const char *name = gf_jsonl_get_text(&line, "run"), *event = gf_jsonl_get_text(&line, "event"),
                   *words = gf_jsonl_get_text(&line, "eval");
        int64_t crc = -1;
        int i = 0;
        gf_jsonl_get_integer(&line, "config", &crc);
        while (name && i < count && strcmp(runs[i].name, name) != 0) i++;
        if (!name || i == count) continue;
        sweep_run *r = &runs[i];
        if (crc != (int64_t)r->config_crc)
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "%s was made under a different configuration; choose a different --out, or remove it and its lines "
                             "in " GF_SWEEP_FILE,
                             r->path);
        if (!event || status != GLOFND_OK) continue;
        if (strcmp(event, "start") == 0) r->finished = 0, r->evaluated = 0; /* trained again, after its folder was removed */
        if (strcmp(event, "finished") == 0) r->finished = 1;
        for (int e = 0; words && strcmp(event, "evaluated") == 0 && e < p->eval_count; e++)
            if (strcmp(words, p->eval[e]) == 0) r->evaluated |= 1u << e;
    }
    if (status == GLOFND_OK) status = line.status;
    gf_jsonl_read_close(&line);
    for (int i = 0; i < count; i++)
        if (!has_model(&runs[i])) runs[i].finished = 0, runs[i].evaluated = 0;
    return status;
}

/* Appends a record: event "start", "finished" or "evaluated" (with the arguments of the evaluation). */
static glofnd_status append_record(gf_error *err, const sweep_plan *p, const sweep_run *r, const char *event, const char *eval) {
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

/* ---------- commands: arguments of `glofnd pretrain` and `glofnd eval` for a run ---------- */

#define ARGUMENTS_MAX 192

typedef struct command {
    const char *argv[ARGUMENTS_MAX]; /* ends with NULL; argv[0] is the name of the program */
    int count;
    char *text; /* [SWEEP_COMMAND_MAX] memory of the arguments */
    size_t used;
    int cut; /* 1: some arguments did not fit, and the command must not be run */
} command;

static void add_word(command *w, const char *a, const char *b) {
    w->cut |= w->count + 1 >= ARGUMENTS_MAX || SWEEP_COMMAND_MAX - w->used < strlen(a) + strlen(b) + 1;
    if (w->cut) return;
    char *to = w->text + w->used;
    w->used += (size_t)sprintf(to, "%s%s", a, b) + 1;
    w->argv[w->count++] = to;
    w->argv[w->count] = NULL;
}

static void make_pretrain_command(command *w, const sweep_plan *p, const sweep_run *r) {
    char pair[1200];
    add_word(w, "glofnd", ""), add_word(w, "pretrain", ""), add_word(w, "--quiet", ""), add_word(w, "--resume", "");
    for (int i = 0; i < p->config_count; i++) add_word(w, "--config=", p->config[i]);
    for (int a = 0; a < p->vary_count; a++)
        if (is_config(&p->vary[a])) add_word(w, "--config=", r->value[a]);
    for (int i = 0; i < p->set_count; i++)
        if (setting_for(p, r, i)) add_word(w, "--set=", setting_for(p, r, i));
    for (int a = 0; a < p->vary_count; a++) {
        if (is_config(&p->vary[a])) continue;
        snprintf(pair, sizeof pair, "--set=%s=%s", p->vary[a].key, r->value[a]);
        add_word(w, pair, "");
    }
    add_word(w, "--seed=", r->seed), add_word(w, "--out=", r->path);
    /* Processors are divided among the runs, unless the configuration has a number of threads. */
    char text[32];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN), each = cores / p->jobs;
    if (p->jobs >= 2 && r->config.method.threads <= 0) {
        snprintf(text, sizeof text, "%ld", each < 1 ? 1 : each);
        add_word(w, "--threads=", text);
    }
}

/* The next of argv[*i ...], arguments of `glofnd eval WHAT` behind the run, that is neither a flag nor its value; *i moves past
 * it. NULL: none is left. */
static const char *next_word(const char *what, int argc, const char *const *argv, int *i) {
    while (*i < argc) {
        const char *word = argv[(*i)++];
        if (strncmp(word, "--", 2) != 0) return word;
        for (const cli_verb *const *v = cmd_eval.verbs; *v && !strchr(word, '='); v++)
            for (int k = 0; strcmp((*v)->name, what) == 0 && k < (*v)->flag_count; k++)
                if (strcmp((*v)->flags[k].key, word + 2) == 0) *i += (*v)->flags[k].type != GF_OPTION_BOOL;
    }
    return NULL;
}

/* The data of the run is added to a call that names none. */
static void make_eval_command(command *w, const sweep_run *r, const char *call) {
    static const char *const flags[] = {"--data", "--retrieval", "--datacomp"};
    char text[SWEEP_COMMAND_MAX];
    const char *run = r->path;
    add_word(w, "glofnd", ""), add_word(w, "eval", "");
    w->cut |= snprintf(text, sizeof text, "%s", call) >= (int)sizeof text;
    char *rest = text;
    for (char *word; (word = strsep(&rest, " \t"));) {
        if (!*word) continue;
        add_word(w, word, "");
        if (run) add_word(w, run, "");
        run = NULL;
    }
    /* glofnd, eval, WHAT, the run, then flags and SPECs. */
    int next = 4;
    for (int i = 4; i < w->count; i++)
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
            const size_t n = strcspn(w->argv[i], "=");
            if (strncmp(w->argv[i], flags[k], n) == 0 && strlen(flags[k]) == n) return;
        }
    if (!next_word(w->count > 2 ? w->argv[2] : "", w->count, w->argv, &next)) add_word(w, "--data=", r->config.data);
}

/* ---------- checks of evaluations before the first run ---------- */

#define CANNOT_WORK "--eval \"%.200s\" cannot work%s; nothing was started"

/* ----- arguments ----- */
/* Makes the call for an impossible run, so that it ends with CLI_USAGE exactly if its arguments are wrong; its messages go to
 * `messages`. */
static int try_call(const sweep_run *first, const char *call, FILE *messages) {
    static char text[SWEEP_COMMAND_MAX];
    command w = {.text = text};
    sweep_run missing = *first;
    int status = 0;
    snprintf(missing.path, sizeof missing.path, "/dev/null/run");
    make_eval_command(&w, &missing, call);
    if (w.cut) return gf_print(messages, "glofnd sweep: it has too many arguments\n"), CLI_USAGE;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int sink = open("/dev/null", O_WRONLY);
        if (sink < 0 || dup2(sink, 1) < 0 || dup2(fileno(messages), 2) < 0) _exit(CLI_FAILED);
        const int code = cli_run(&cmd_eval, w.count - 1, (char **)w.argv + 1);
        fflush(NULL);
        _exit(code);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

/* E_OPTION: an evaluation has wrong arguments. The messages of `glofnd eval` go to stderr. */
static glofnd_status check_arguments(gf_error *err, const sweep_plan *p, const sweep_run *first) {
    char line[1024];
    for (int e = 0; e < p->eval_count; e++) {
        FILE *messages = tmpfile();
        FAIL_IF(err, !messages, GLOFND_E_IO, "no temporary file can be made: %s", strerror(errno));
        const int code = try_call(first, p->eval[e], messages);
        rewind(messages);
        while (code == CLI_USAGE && fgets(line, sizeof line, messages)) gf_print_lines(stderr, line);
        fclose(messages);
        FAIL_IF(err, code == CLI_USAGE, GLOFND_E_OPTION, CANNOT_WORK, p->eval[e], "");
    }
    return GLOFND_OK;
}

/* ----- tasks and data ----- */

enum { SPECS_MAX = 64 };

typedef enum need { NOTHING, LABELS, CAPTIONS } need;

static const struct evaluation {
    const char *verb;
    int of_views, of_clip; /* runs of these tasks */
    need data;             /* of the samples */
    int named;             /* SPECs may have a NAME= before them, and may follow the run */
} evaluations[] = {
    {"knn", 1, 1, LABELS, 0},        {"linear", 1, 1, LABELS, 0},      {"transfer", 1, 1, LABELS, 1}, {"fn", 1, 1, LABELS, 0},
    {"threshold", 1, 0, NOTHING, 0}, {"retrieval", 0, 1, CAPTIONS, 1}, {"zeroshot", 0, 1, LABELS, 1},
};

static glofnd_status check_spec(gf_error *err, const struct evaluation *x, const char *text, need n, int test_split) {
    eval_dataset named = {0};
    gf_dataset *data = NULL;
    if (x->named) TRY(eval_dataset_read(err, text, &named));
    const char *spec = x->named ? named.spec : text;
    TRY(gf_dataset_open(err, spec, &data));
    glofnd_status status = n == CAPTIONS ? gf_captions_require(err, data) : GLOFND_OK;
    const gf_known_dataset *known = gf_dataset_known(data);
    if (n == LABELS && gf_dataset_describe(data).classes == 0 && !(known && known->scoring == GF_SCORE_JACCARD))
        status = gf_fail(err, GLOFND_E_ARGUMENT, "%.200s has no labels; this evaluation needs them", spec);
    /* The test split that comes with data: an incomplete one would else be noticed after all training. */
    char own_test[2100];
    if (status == GLOFND_OK && test_split && gf_dataset_test_spec(data, own_test, sizeof own_test)) {
        gf_dataset *test = NULL;
        status = gf_dataset_open(err, own_test, &test);
        gf_dataset_free(test);
    }
    gf_dataset_free(data);
    return status;
}

/* Takes every "--NAME VALUE" and "--NAME=VALUE" out of argv. Their number; -1, with a message, if they are more than SPECS_MAX. */
static int gather_flag(int *argc, char **argv, const char *name, const char *value[SPECS_MAX]) {
    const size_t n = strlen(name);
    int kept = 1, found = 0, plain = 0;
    for (int i = 1; i < *argc; i++) {
        char *word = argv[i];
        const char *text = NULL;
        plain |= strcmp(word, "--") == 0; /* all after it are words */
        if (!plain && strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, n) == 0) {
            if (word[2 + n] == '=') text = word + 3 + n;
            else if (word[2 + n] == 0 && i + 1 < *argc) text = argv[++i];
        }
        if (!text) argv[kept++] = word;
        else if (found < SPECS_MAX) value[found++] = text;
        else {
            gf_print(stderr, "glofnd %s: --%s is given more than %d times\n", argv[0], name, SPECS_MAX);
            return -1;
        }
    }
    *argc = kept;
    return found;
}

/* All SPECs of --flag. */
static glofnd_status check_flag(gf_error *err, const struct evaluation *x, int *argc, char **argv, const char *flag, need n,
                                int test_split) {
    const char *spec[SPECS_MAX];
    const int count = gather_flag(argc, argv, flag, spec);
    for (int i = 0; i < count; i++) TRY(check_spec(err, x, spec[i], n, test_split));
    return GLOFND_OK;
}

/* argv: "knn", the run, flags. Captions serve `eval fn` where there are no labels. */
static glofnd_status check_call(gf_error *err, const gf_config *c, int argc, char **argv) {
    const struct evaluation *x = evaluations, *end = evaluations + sizeof evaluations / sizeof *evaluations;
    const int clip = c->task == GF_TASK_CLIP;
    const char *truth[SPECS_MAX];
    while (x < end && strcmp(x->verb, argv[0]) != 0) x++;
    if (x == end) return GLOFND_OK; /* unknown here */
    need data = x->data;
    FAIL_IF(err, clip ? !x->of_clip : !x->of_views, GLOFND_E_OPTION, "it is for runs of task = %s, and these are of task = %s",
            clip ? "views" : "clip", clip ? "clip" : "views");
    const int truths = gather_flag(&argc, argv, "truth", truth);
    const int by_captions = truths > 0 && strcmp(truth[truths - 1], "captions") == 0;
    FAIL_IF(err, by_captions && !clip, GLOFND_E_OPTION, "--truth captions is for runs of task = clip");
    if (strcmp(x->verb, "fn") == 0 && clip && (by_captions || truths < 1)) data = NOTHING;
    const int before = argc;
    TRY(check_flag(err, x, &argc, argv, "test", LABELS, 0));
    const int own_split = argc == before && (strcmp(x->verb, "knn") == 0 || strcmp(x->verb, "linear") == 0);
    TRY(check_flag(err, x, &argc, argv, "data", data, own_split));
    TRY(check_flag(err, x, &argc, argv, "retrieval", CAPTIONS, 0));
    /* SPECs that follow the run. */
    int i = 2;
    for (const char *spec; x->named && (spec = next_word(x->verb, argc, (const char *const *)argv, &i));)
        TRY(check_spec(err, x, spec, LABELS, 0));
    return GLOFND_OK;
}

/* 1: both are trained in the same way on the same data, as far as checks can tell. */
static int same_data(const sweep_run *a, const sweep_run *b) {
    return a->config.task == b->config.task && strcmp(a->config.data, b->config.data) == 0;
}

/* After read_log. E_OPTION: the data of a run that is still to be trained cannot be opened; or a missing evaluation is not
 * for runs of this task, or its data cannot be opened or lacks labels or captions. */
static glofnd_status check_data(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count) {
    static char text[SWEEP_COMMAND_MAX];
    for (int i = 0; i < count; i++) {
        int known = runs[i].finished;
        for (int k = 0; k < i; k++) known |= !runs[k].finished && same_data(&runs[k], &runs[i]);
        if (!known) {
            /* Checks that the run can be trained on its data. */
            const sweep_run *r = &runs[i];
            gf_error why = {{0}};
            gf_dataset *data = NULL;
            glofnd_status status = gf_dataset_open(&why, r->config.data, &data);
            if (status == GLOFND_OK && r->config.task == GF_TASK_CLIP) status = gf_captions_require(&why, data);
            gf_dataset_free(data);
            FAIL_IF(err, status != GLOFND_OK, GLOFND_E_OPTION, "%.200s cannot be trained: %.400s; nothing was started", r->name,
                    why.text);
        }
    }
    for (int e = 0; e < p->eval_count; e++)
        for (int i = 0; i < count; i++) {
            int known = runs[i].evaluated >> e & 1u;
            for (int k = 0; k < i; k++) known |= !(runs[k].evaluated >> e & 1u) && same_data(&runs[k], &runs[i]);
            if (known) continue;
            char more[sizeof err->text];
            gf_error why = {{0}};
            command w = {.text = text};
            make_eval_command(&w, &runs[i], p->eval[e]);
            const glofnd_status status = check_call(&why, &runs[i].config, w.count - 2, (char **)w.argv + 2);
            snprintf(more, sizeof more, ": %.400s", why.text);
            FAIL_IF(err, status != GLOFND_OK, GLOFND_E_OPTION, CANNOT_WORK, p->eval[e], more);
        }
    return GLOFND_OK;
}

/* ---------- jobs: commands of this program as processes, some at a time ---------- */

typedef enum job_state { JOB_WAITING, JOB_RUNNING, JOB_DONE, JOB_FAILED } job_state;

typedef struct job {
    command command;
    char log[PATH_MAX]; /* its output is appended here */
    sweep_run *run;
    job_state state; /* DONE from the start: left out */
    pid_t pid;
    int signal; /* that ended it; 0: none did */
} job;

typedef struct sweeping {
    const sweep_plan *plan;
    sweep_end end; /* instead of comparing; NULL: compare */
    void *user;
    sweep_run *run; /* [count] */
    job *job;       /* [count] */
    int count;
    int eval; /* index of the present evaluation; -1: pretraining */
    gf_progress progress;
    gf_error err; /* of a record that could not be written */
    glofnd_status status;
} sweeping;

static int stopped(void) { return atomic_load(&cli_interrupted); }

static void record_event(sweeping *s, const sweep_run *r, const char *event, const char *text) {
    if (s->status == GLOFND_OK) s->status = append_record(&s->err, s->plan, r, event, text);
}

static void clear_line(const sweeping *s) {
    if (s->progress.mode == GF_PROGRESS_AUTO) gf_print(stderr, "\r\033[K");
}

/* The end of a text file, at most `bytes` - 1 of it; "": it cannot be read. */
static void read_tail(const char *path, char *out, size_t bytes) {
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (!f) return;
    if (fseek(f, -(long)(bytes - 1), SEEK_END) != 0) rewind(f);
    out[fread(out, 1, bytes - 1, f)] = 0;
    fclose(f);
}

/* 0: it cannot start yet, but will once others have gone on. A run that another process still trains, as one of a sweep that was
 * killed does until its checkpoint is written, is waited for: it continues from there. */
static int is_ready(sweeping *s, sweep_run *r) {
    if (s->eval >= 0) return 1;
    if (gf_folder_in_use(r->path)) {
        if (!r->waited) clear_line(s), gf_print(stderr, "%s waits: another process still uses its folder\n", r->name);
        r->waited = 1;
        return 0;
    }
    return 1;
}

/* 1: it runs. */
static int start_job(sweeping *s, job *j) {
    const pid_t parent = getpid();
    fflush(NULL);
    j->pid = fork();
    if (j->pid == 0) {
        /* In the child, which ends with this process, however that ends; its checkpoint is kept. */
        const int in = open("/dev/null", O_RDONLY), out = open(j->log, O_WRONLY | O_CREAT | O_APPEND, 0666);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent || in < 0 || out < 0) _exit(126);
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        if (s->plan->jobs > 1) setenv("OMP_WAIT_POLICY", "passive", 0); /* waiting threads must not occupy cores of other jobs */
        execv("/proc/self/exe", (char *const *)j->command.argv);
        _exit(127);
    }
    j->state = j->pid < 0 ? JOB_FAILED : JOB_RUNNING;
    if (j->pid > 0 && s->eval < 0) record_event(s, j->run, "start", NULL);
    return j->pid > 0;
}

/* 1: it has ended. A run that was asked to stop succeeds, too, but has no weights. */
static int poll_job(sweeping *s, job *j) {
    int status;
    const pid_t found = waitpid(j->pid, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return 0;
    j->signal = found == j->pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int good = found == j->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 && (s->eval >= 0 || has_model(j->run));
    j->state = good || stopped() ? JOB_DONE : JOB_FAILED;
    if (!good && !stopped()) {
        /* Also why: the signal that ended it, else the last message of the program in its log. */
        char tail[4096], *message = NULL, *rest = tail;
        clear_line(s);
        if (s->eval < 0) gf_print(stderr, "glofnd %s: %s failed; see %s\n", s->plan->verb, j->run->name, j->log);
        else
            gf_print(stderr, "glofnd %s: %s: eval %s failed; see %s\n", s->plan->verb, j->run->name, s->plan->eval[s->eval],
                     j->log);
        if (j->signal) {
            gf_print(stderr, "    it was ended by signal %d, %s%s\n", j->signal, strsignal(j->signal),
                     j->signal == SIGKILL ? " (the system does that when memory runs out)" : "");
        } else {
            read_tail(j->log, tail, sizeof tail);
            for (char *line; (line = strsep(&rest, "\n"));)
                if (strncmp(line, "glofnd ", 7) == 0) message = line;
            if (message) gf_print(stderr, "    %s\n", message);
        }
    }
    if (good && s->eval >= 0) record_event(s, j->run, "evaluated", s->plan->eval[s->eval]);
    if (good && s->eval < 0) {
        j->run->finished = 1;
        record_event(s, j->run, "finished", NULL);
        clear_line(s);
        gf_print(stderr, "%s finished\n", j->run->name);
    }
    return 1;
}

/* Units of a job in the progress: epochs of a training, else 1. */
static int units_of(const sweeping *s, const job *j) { return s->eval < 0 ? j->run->resolved.epochs : 1; }

static void draw_progress(sweeping *s) {
    char text[240], where[120] = "", path[PATH_MAX], tail[4096];
    int64_t done = 0, total = 0;
    int finished = 0, running = 0;
    if (s->progress.mode != GF_PROGRESS_AUTO) return;
    for (int i = 0; i < s->count; i++) {
        const job *j = &s->job[i];
        const sweep_run *r = j->run;
        const int units = units_of(s, j);
        int epoch = 0; /* of a run that is training, from the end of its log; 0: unknown */
        if (s->eval < 0 && j->state == JOB_RUNNING && gf_path_join(NULL, path, r->path, GF_LOG_FILE) == GLOFND_OK) {
            read_tail(path, tail, sizeof tail);
            const char *last = NULL;
            for (const char *at = tail; (at = strstr(at, "\"epoch\": ")); at++) last = at;
            epoch = last ? (int)strtol(last + 9, NULL, 10) : 0;
        }
        total += units;
        done += (j->state == JOB_DONE || j->state == JOB_FAILED) ? units : epoch;
        finished += j->state == JOB_DONE, running += j->state == JOB_RUNNING;
        if (j->state == JOB_RUNNING && !*where) /* from 1; in the log from 0 */
            snprintf(where, sizeof where, " | %.80s epoch %d/%d", r->name, epoch < units ? epoch + 1 : units, units);
    }
    snprintf(text, sizeof text, "%.60s: %d of %d done, %d running%s", s->eval < 0 ? "pretraining" : s->plan->eval[s->eval],
             finished, s->count, running, s->eval < 0 ? where : "");
    gf_progress_draw(&s->progress, done, total, text, 0);
}

/* Runs all that wait, and returns when all have ended. After an interruption running ones are asked to end, waiting ones stay so. */
static void run_jobs(sweeping *s) {
    for (int running = 0, asked = 0;;) {
        const int stop = stopped();
        int waiting = 0;
        for (int i = 0; i < s->count && running < s->plan->jobs && !stop; i++)
            if (s->job[i].state == JOB_WAITING && is_ready(s, s->job[i].run)) running += start_job(s, &s->job[i]);
        for (int i = 0; i < s->count; i++) {
            job *j = &s->job[i];
            if (j->state != JOB_RUNNING) continue;
            if (stop && !asked) kill(j->pid, SIGTERM);
            running -= poll_job(s, j);
        }
        asked |= stop;
        draw_progress(s);
        for (int i = 0; i < s->count; i++) waiting += s->job[i].state == JOB_WAITING;
        if (!running && (stop || !waiting)) return;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}

/* A job per run that still needs it. One evaluation after the other: two must not write to one eval.jsonl at a time. */
static glofnd_status run_phase(sweeping *s, int eval) {
    int64_t todo = 0, done = 0;
    char *text = malloc((size_t)s->count * SWEEP_COMMAND_MAX);
    s->eval = eval;
    s->job = calloc((size_t)s->count, sizeof *s->job);
    if (!s->job || !text) s->status = gf_fail(&s->err, GLOFND_E_MEMORY, "no memory for %d jobs", s->count);
    for (int i = 0; i < s->count && s->status == GLOFND_OK; i++) {
        job *j = &s->job[i];
        sweep_run *r = &s->run[i];
        *j = (job){.run = r, .command.text = text + (size_t)i * SWEEP_COMMAND_MAX};
        snprintf(j->log, sizeof j->log, "%s.log", r->path);
        if (eval < 0) make_pretrain_command(&j->command, s->plan, r);
        else make_eval_command(&j->command, r, s->plan->eval[eval]);
        j->state = (eval < 0 ? !r->finished : r->finished && !(r->evaluated & 1u << eval)) ? JOB_WAITING : JOB_DONE;
        if (j->command.cut) s->status = gf_fail(&s->err, GLOFND_E_ARGUMENT, "the arguments of %.200s are too long", r->name);
        todo += j->state == JOB_WAITING, done += j->state == JOB_DONE ? units_of(s, j) : 0;
    }
    s->progress = gf_progress_start(done, cli_progress_mode());
    if (s->status == GLOFND_OK && todo) {
        run_jobs(s);
        clear_line(s);
    }
    free(s->job);
    free(text);
    return s->status;
}

/* ----- comparing ----- */

static int groups_with(const gf_comparison *c, int metric) {
    int n = 0;
    for (int g = 0; g < c->groups; g++) n += gf_compare_cell(c, g, metric).n > 0;
    return n;
}

/* The figure with both texts in its name that most configurations have, then the first; -1: none. */
static int find_figure(const gf_comparison *c, const char *a, const char *b) {
    int best = -1;
    for (int m = 0; m < c->metrics; m++) {
        if (!gf_metric_has(&c->metric[m], a) || !gf_metric_has(&c->metric[m], b) || !c->metric[m].better) continue;
        if (best < 0 || groups_with(c, m) > groups_with(c, best)) best = m;
    }
    return best;
}

static glofnd_status choose_best(gf_error *err, const sweep_plan *p, const gf_comparison *c) {
    int m = p->choose ? find_figure(c, p->choose, "") : find_figure(c, "linear", "mean");
    char names[330];
    compare_names(c, names, sizeof names);
    FAIL_IF(err, p->choose && m < 0, GLOFND_E_ARGUMENT,
            "no run has a figure whose name has \"%.60s\" to choose by; available: %s", p->choose, names);
    if (m < 0) m = find_figure(c, "linear", "");
    if (m < 0) m = find_figure(c, "knn", "");
    const int best = m < 0 ? -1 : gf_compare_best(c, m);
    if (best >= 0)
        gf_print(stdout, "\nbest      %s: %s %.2f\n", c->label[best], c->metric[m].name, gf_compare_cell(c, best, m).mean);
    else gf_print(stderr, "glofnd sweep: no evaluation to choose the best by: --eval linear or --eval knn gives one\n");
    if (best >= 0 && groups_with(c, m) < c->groups)
        gf_print(stderr,
                 "glofnd sweep: %d of %d configurations were not measured with these settings: the best is among the others\n",
                 c->groups - groups_with(c, m), c->groups);
    return GLOFND_OK;
}

static glofnd_status compare_runs(gf_error *err, const sweeping *s) {
    static const char *const files[3][2] = {{"csv", GF_COMPARE_FILE ".csv"},
                                            {"json", GF_COMPARE_FILE ".json"},
                                            {"latex", GF_COMPARE_FILE ".tex"}};
    char path[PATH_MAX];
    const char *paths[GF_COMPARE_RUNS_MAX];
    gf_comparison c = {0};
    int n = 0;
    for (int i = 0; i < s->count; i++)
        if (s->run[i].finished) paths[n++] = s->run[i].path;
    if (n == 0) return GLOFND_OK;
    TRY(gf_compare_read(err, paths, n, &c));
    gf_compare_select(&c, NULL, 0);
    compare_warn("sweep", &c);
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < 3 && status == GLOFND_OK; i++) {
        status = gf_path_join(err, path, s->plan->out, files[i][1]);
        if (status == GLOFND_OK) status = compare_write(err, &c, files[i][0], path);
    }
    if (status == GLOFND_OK) status = compare_write(err, &c, "text", NULL);
    if (status == GLOFND_OK) status = choose_best(err, s->plan, &c);
    gf_compare_free(&c);
    return status;
}

/* ---------- all phases ---------- */

/* E_OPTION: no figure can have such a name. Names of data and protocols are in the calls; numbers are not checked. */
static glofnd_status check_choose(gf_error *err, const sweep_plan *p, const sweep_run *first) {
    char text[256];
    snprintf(text, sizeof text, "%s", p->choose ? p->choose : "");
    char *rest = text;
    for (char *word; (word = strsep(&rest, " "));) {
        int known = !*word || strpbrk(word, "0123456789") || gf_eval_has_word(word) || strcasestr(first->config.data, word);
        for (int e = 0; e < p->eval_count; e++) known |= strcasestr(p->eval[e], word) != NULL;
        FAIL_IF(err, !known, GLOFND_E_OPTION,
                "--choose \"%.100s\": no figure has \"%.60s\" in its name; names are such as \"linear paper mean top-1 %%\" or "
                "\"knn k 20 top-1 %%\"",
                p->choose, word);
    }
    return GLOFND_OK;
}

/* Before the first run: the grid, its finished runs, and whether the rest can work. An exit code. */
static int prepare_runs(sweeping *s) {
    const sweep_plan *p = s->plan;
    glofnd_status status = make_runs(&s->err, p, &s->run, &s->count);
    if (status == GLOFND_OK) status = check_choose(&s->err, p, s->run);
    if (status == GLOFND_OK) status = check_arguments(&s->err, p, s->run);
    if (status != GLOFND_OK) {
        cli_failed(p->verb, status, &s->err);
        return status == GLOFND_E_IO ? CLI_FAILED : CLI_USAGE;
    }
    status = read_log(&s->err, p, s->run, s->count);
    if (status == GLOFND_OK) status = check_data(&s->err, p, s->run, s->count);
    return status == GLOFND_OK ? CLI_OK : cli_failed(p->verb, status, &s->err);
}

/* One sweep at a time in a folder; what another one has finished meanwhile counts. */
static glofnd_status run_phases(sweeping *s, int *folder) {
    const sweep_plan *p = s->plan;
    TRY(gf_folder_make(&s->err, p->out, NULL));
    glofnd_status status = gf_folder_lock(&s->err, p->out, folder);
    const gf_error why = s->err;
    FAIL_IF(&s->err, status != GLOFND_OK, status, "%.400s; two sweeps need two folders", why.text);
    TRY(read_log(&s->err, p, s->run, s->count));
    TRY(run_phase(s, -1));
    for (int e = 0; e < p->eval_count && !stopped(); e++) {
        TRY(run_phase(s, e));
        TRY(read_log(&s->err, p, s->run, s->count));
    }
    if (stopped()) return GLOFND_OK;
    return s->end ? s->end(&s->err, p, s->run, s->count, s->user) : compare_runs(&s->err, s);
}

int sweep_run_plan(const sweep_plan *p, int dry, sweep_end end, void *user) {
    sweeping s = {.plan = p, .end = end, .user = user};
    glofnd_status status = GLOFND_OK;
    int code = prepare_runs(&s);
    if (code == CLI_OK && dry) {
        int finished = 0;
        for (int i = 0; i < s.count; i++) {
            const sweep_run *r = &s.run[i];
            finished += r->finished;
            gf_print(stdout, "%-60s %s\n", r->path, r->finished ? "finished" : access(r->path, F_OK) == 0 ? "begun" : "to do");
        }
        gf_print(stdout, "%d run%s, %d finished\n", s.count, s.count == 1 ? "" : "s", finished);
    } else if (code == CLI_OK) {
        int folder = -1, missing = 0;
        cli_catch_interrupts(NULL);
        status = run_phases(&s, &folder);
        /* CLI_OK only if all runs and evaluations are complete. */
        for (int i = 0; i < s.count; i++) missing += !s.run[i].finished || s.run[i].evaluated != (1u << p->eval_count) - 1u;
        if (status != GLOFND_OK) code = cli_failed(p->verb, status, &s.err);
        else if (stopped()) gf_print(stderr, "glofnd %s: stopped; the same command continues\n", p->verb);
        else if (missing)
            gf_print(stderr, "glofnd %s: %d of %d runs are incomplete; the same command tries them again\n", p->verb, missing,
                     s.count);
        if (status == GLOFND_OK) code = stopped() || missing ? CLI_FAILED : CLI_OK;
        if (folder >= 0) close(folder);
    }
    free(s.run);
    return code;
}

/* ---------- the verb ---------- */

/* Flags, which are also the keys of a sweep file; sweep_set reads their values. */
#define SETTING(k, v, p, h) \
    { .key = k, .type = GF_OPTION_STRINGS, .value = v, .preset = p, .help = h }
static const gf_option rows[] = {
    SETTING("config", "FILE.cfg", NULL, "preset or file that all runs share; may be repeated, later ones win"),
    SETTING("vary", "KEY=a,b,c", NULL,
            "a key of the configuration and its values, \\, for a comma in one; repeated for other keys;\n"
            "                           config=a,b: files or presets"),
    SETTING("seeds", "1,2,3", "1", "a run of each"),
    SETTING("set", "KEY=VALUE", NULL,
            "a key of the configuration for all runs, PRESET:KEY=VALUE for those of a preset that varies; may be repeated"),
    SETTING("data", "SPEC", NULL, "the same as --set data=SPEC"),
    SETTING("eval", "\"WHAT FLAGS\"", NULL,
            "a call of `glofnd eval` for every run: knn, \"linear --fractions 100,10\"; may be repeated"),
    SETTING("choose", "TEXT", NULL,
            "the best value has the best mean of the figure whose name has this text; of several figures\n"
            "                           the one that most values have, then the first;\n"
            "                           default: the mean of the label fractions, else linear, else kNN"),
    SETTING("file", "FILE.sweep", NULL,
            "lines `key = value` with the flags above; a flag wins over files, wherever it stands, and a later file over an "
            "earlier one; sweep-start-epoch is the paper's"),
    SETTING("out", "DIR", NULL, "folder of the runs, their logs, sweep.jsonl, and compare.csv, .json, .tex"),
    SETTING("jobs", "N", "1", "number of runs at a time"),
    {.key = "dry-run", .type = GF_OPTION_BOOL, .help = "only list the runs"},
};

/* One "--key value" or "--key=value"; *i moves past a value taken from the next word. *value NULL: it is --dry-run. */
static glofnd_status parse_flag(gf_error *err, int argc, char **argv, int *i, char key[32], const char **value) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    FAIL_IF(err, strncmp(word, "--", 2) != 0, GLOFND_E_OPTION, "\"%.60s\" is not a flag; --help lists them", word);
    const size_t length = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;
    FAIL_IF(err, length >= 32, GLOFND_E_OPTION, "unknown flag %.60s; --help lists them", word);
    snprintf(key, 32, "%.*s", (int)length, word + 2);
    *value = NULL;
    FAIL_IF(err, equals && strcmp(key, "dry-run") == 0, GLOFND_E_OPTION, "--dry-run takes no value");
    if (strcmp(key, "dry-run") == 0) return GLOFND_OK;
    FAIL_IF(err, !equals && *i + 1 >= argc, GLOFND_E_OPTION, "--%s needs a value", key);
    *value = equals ? equals + 1 : argv[++*i];
    return GLOFND_OK;
}

/* Files first, in their order, then flags, which win wherever they stand; *dry is set by --dry-run. */
static glofnd_status read_flags(gf_error *err, sweep_plan *p, int argc, char **argv, int *dry) {
    char key[32], path[PATH_MAX];
    const char *value;
    for (int i = 1; i < argc; i++) {
        TRY(parse_flag(err, argc, argv, &i, key, &value));
        if (strcmp(key, "file") != 0) continue;
        TRY(cli_preset_file(err, value, ".sweep", path));
        reading r = {p, path};
        const glofnd_status status = gf_each_line(err, path, read_line, &r);
        p->source++;
        TRY(status);
    }
    for (int i = 1; i < argc; i++) {
        TRY(parse_flag(err, argc, argv, &i, key, &value));
        if (!value) *dry = 1;
        else if (strcmp(key, "file") != 0) TRY(sweep_set(err, p, key, value, NULL));
    }
    FAIL_IF(err, !p->out, GLOFND_E_OPTION, "--out is needed: the folder of the runs");
    FAIL_IF(err, !p->vary_count && !p->seeds.count, GLOFND_E_OPTION, "--vary or --seeds is needed: what the runs differ in");
    return p->seeds.count ? GLOFND_OK : sweep_set(err, p, "seeds", "1", NULL);
}

static int run_sweep(int argc, char **argv) {
    gf_error err = {{0}};
    sweep_plan p = {.verb = "sweep", .jobs = 1};
    int dry = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--help-all") == 0 || strcmp(argv[i], "-h") == 0) {
            cli_help(&cmd_sweep, 1);
            return CLI_OK;
        }
    const glofnd_status status = read_flags(&err, &p, argc, argv, &dry);
    int code;
    if (status == GLOFND_OK) {
        code = sweep_run_plan(&p, dry, NULL, NULL);
    } else {
        cli_failed("sweep", status, &err);
        code = status == GLOFND_E_IO ? CLI_FAILED : CLI_USAGE;
    }
    sweep_free(&p);
    return code;
}

const cli_verb cmd_sweep = {
    .name = "sweep",
    .summary = "train a grid of values and seeds, evaluate and compare",
    .usage = "glofnd sweep --config FILE.cfg --vary KEY=a,b,c [--vary ...] --seeds 1,2,3 --out DIR [--jobs N] ...\n"
             "       glofnd sweep --file FILE.sweep --data SPEC --out DIR\n"
             "Pretrains the grid of values and seeds, evaluates and compares. The same command continues after an interruption.",
    CLI_FLAGS(rows, sweep_plan),
    .run_raw = run_sweep,
};
