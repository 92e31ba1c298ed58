/* sweep.c - see sweep.h. */
#include "programs/sweep/sweep.h"

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
#include "programs/eval/eval.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "util/text.h"

/* ----- the plan: texts ----- */

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

/* "a,b,c" to the values of an axis. */
static glofnd_status take_values(gf_error *err, sweep_plan *p, sweep_axis *axis, const char *list) {
    for (axis->count = 0;;) {
        /* Bytes of the first value of a list; a comma behind a backslash does not end it. */
        size_t n = strcspn(list, ",");
        while (n > 0 && list[n] == ',' && list[n - 1] == '\\') n += 1 + strcspn(list + n + 1, ",");
        FAIL_IF(err, n == 0, GLOFND_E_OPTION, "%s: a value is missing; write a,b,c", axis->key);
        FAIL_IF(err, axis->count == SWEEP_VALUES_MAX, GLOFND_E_OPTION, "%s: more than %d values", axis->key, SWEEP_VALUES_MAX);
        char *value = keep(p, list, n);
        if (!value) return too_long(err);
        char *at = value;
        char *to = at;
        for (; *at; at++)
            if (at[0] != '\\' || at[1] != ',') *to++ = *at;
        *to = 0;
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

static glofnd_status take_listed(gf_error *err, sweep_plan *p, const char **list, int *count, int max, const char *text) {
    FAIL_IF(err, *count == max, GLOFND_E_OPTION, "more than %d settings of one kind", max);
    list[*count] = keep(p, text, strlen(text));
    return list[(*count)++] ? GLOFND_OK : too_long(err);
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

glofnd_status sweep_set(gf_error *err, sweep_plan *p, const char *key, const char *value, const char *folder) {
    char pair[2100];
    if (folder && (strcmp(key, "vary") == 0 || strcmp(key, "set") == 0)) {
        /* E_OPTION: a file names a command, "on_epoch=COMMAND". Files may come from elsewhere: only one of the command line
         * is run. */
        char command_key[64];
        int in_method;
        snprintf(command_key, sizeof command_key, "%.*s", (int)strcspn(value, "="), value);
        const gf_option *o = gf_config_find(trimmed(command_key), &in_method);
        FAIL_IF(err, o && strcmp(o->key, "on_epoch") == 0, GLOFND_E_OPTION,
                "a file may not name a command to run; give it on the command line: --set on_epoch=COMMAND");
    }
    if (strcmp(key, "vary") == 0) {
        const char *equals = strchr(value, '=');
        FAIL_IF(err, !equals || equals == value, GLOFND_E_OPTION, "vary takes KEY=a,b,c, not \"%.60s\"", value);
        const char *vary_key = keep(p, value, (size_t)(equals - value));
        if (!vary_key) return too_long(err);
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
    if (strcmp(key, "share") == 0) {
        FAIL_IF(err, strcmp(value, "0") != 0 && strcmp(value, "1") != 0, GLOFND_E_OPTION, "share is \"%.40s\"; expected 0 or 1",
                value);
        p->share = *value == '1';
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
            "unknown setting \"%.60s\" of a sweep; available: config, vary, seeds, set, data, eval, jobs, share, choose, out",
            key);
    *to = keep(p, value, strlen(value));
    return *to ? GLOFND_OK : too_long(err);
}

/* ----- the plan: files ----- */

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

/* ----- the plan: runs ----- */

/* 1: the values of this axis are configurations: presets or files, read before all other keys. */
static int sweep_is_config(const sweep_axis *a) { return strcmp(a->key, "config") == 0; }

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
    for (int i = 0; i < p->set_count; i++) {
        const char *pair = p->set[i];
        char key[64];
        const char *equals = strchr(pair, '=');
        FAIL_IF(err, !equals || (size_t)(equals - pair) >= sizeof key, GLOFND_E_OPTION, "set takes KEY=VALUE, not \"%.60s\"",
                pair);
        snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
        TRY(gf_config_set(err, &r->config, key, equals + 1));
    }
    for (int a = 0; a < p->vary_count; a++)
        if (!sweep_is_config(&p->vary[a])) TRY(gf_config_set(err, &r->config, p->vary[a].key, r->value[a]));
    TRY(gf_config_set(err, &r->config, "seed", r->seed));
    r->resolved = r->config;
    const glofnd_status status = gf_config_resolve(err, &r->resolved); /* errors show before the first run starts */
    const gf_error why = *err;
    FAIL_IF(err, status != GLOFND_OK, status, "%s cannot be trained: %.300s", r->name, why.text);
    return gf_config_kept_epochs(err, &r->resolved, r->keep, &r->keep_count);
}

static size_t add_part(char *name, size_t used, size_t capacity, const char *key, const char *value) {
    if (used >= capacity) return used;
    const int n = snprintf(name + used, capacity - used, "%s%s-%.48s", used ? "_" : "", key, value);
    for (size_t i = used; i < capacity && name[i]; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._+-", name[i])) name[i] = '_';
    return used + (size_t)(n > 0 ? n : 0);
}

static glofnd_status make_run(gf_error *err, const sweep_plan *p, int index, sweep_run *r) {
    *r = (sweep_run){.seed = p->seeds.value[index % p->seeds.count], .trunk = -1};
    index /= p->seeds.count;
    for (int a = p->vary_count - 1; a >= 0; index /= p->vary[a--].count) r->value[a] = p->vary[a].value[index % p->vary[a].count];
    size_t used = 0;
    for (int a = 0; a < p->vary_count; a++) used = add_part(r->name, used, sizeof r->name, p->vary[a].key, r->value[a]);
    used = add_part(r->name, used, sizeof r->name, "seed", r->seed);
    const int length = snprintf(r->path, sizeof r->path, "%s/%s", p->out, r->name);
    FAIL_IF(err, used >= sizeof r->name || length < 0 || (size_t)length >= sizeof r->path, GLOFND_E_ARGUMENT,
            "the folder name of a run is too long: %.100s...", r->name);
    TRY(configure(err, p, r));
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

/* ----- commands -----
 *
 * Arguments of commands. */

static void add_word(sweep_command *w, const char *a, const char *b) {
    w->cut |= w->count + 1 >= JOB_ARGUMENTS_MAX || SWEEP_COMMAND_MAX - w->used < strlen(a) + strlen(b) + 1;
    if (w->cut) return;
    char *to = w->text + w->used;
    w->used += (size_t)sprintf(to, "%s%s", a, b) + 1;
    w->job->argv[w->count++] = to;
    w->job->argv[w->count] = NULL;
}

void sweep_pretrain_command(sweep_command *w, const sweep_plan *p, const sweep_run *r) {
    char pair[1200];
    add_word(w, "glofnd", ""), add_word(w, "pretrain", ""), add_word(w, "--quiet", ""), add_word(w, "--resume", "");
    for (int i = 0; i < p->config_count; i++) add_word(w, "--config=", p->config[i]);
    for (int a = 0; a < p->vary_count; a++)
        if (sweep_is_config(&p->vary[a])) add_word(w, "--config=", r->value[a]);
    for (int i = 0; i < p->set_count; i++) add_word(w, "--set=", p->set[i]);
    for (int a = 0; a < p->vary_count; a++) {
        if (sweep_is_config(&p->vary[a])) continue;
        snprintf(pair, sizeof pair, "--set=%s=%s", p->vary[a].key, r->value[a]);
        add_word(w, pair, "");
    }
    add_word(w, "--seed=", r->seed), add_word(w, "--out=", r->path);
    /* Always: a run that is resumed may have kept others. */
    char list[sizeof r->config.checkpoint_epochs];
    size_t used = 0;
    *list = 0;
    for (int i = 0; i < r->keep_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? "," : "", (int)r->keep[i]);
    w->cut |= used >= sizeof list;
    add_word(w, "--checkpoint-epochs=", list);
    /* Processors are divided among the runs, unless the configuration has a number of threads. */
    char text[32];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN), each = cores / p->jobs;
    if (p->jobs >= 2 && r->config.method.threads <= 0) {
        snprintf(text, sizeof text, "%ld", each < 1 ? 1 : each);
        add_word(w, "--threads=", text);
    }
}

/* 1: the flag of this evaluation has a value. */
static int takes_value(const char *what, const char *flag, size_t length) {
    for (const cli_verb *const *v = cmd_eval.verbs; *v; v++)
        for (int k = 0; strcmp((*v)->name, what) == 0 && k < (*v)->flag_count; k++) {
            const gf_option *o = &(*v)->flags[k];
            if (strlen(o->key) == length && strncmp(o->key, flag, length) == 0) return o->type != GF_OPTION_BOOL;
        }
    return 0;
}

/* The next of argv[*i ...], arguments of `glofnd eval WHAT` behind the run, that is neither a flag nor its value; *i moves past
 * it. NULL: none is left. */
static const char *sweep_next_word(const char *what, int argc, const char *const *argv, int *i) {
    while (*i < argc) {
        const char *word = argv[(*i)++];
        if (strncmp(word, "--", 2) != 0) return word;
        *i += !strchr(word, '=') && takes_value(what, word + 2, strlen(word + 2));
    }
    return NULL;
}

/* argv: WHAT, the run, then flags and SPECs. */
static int names_data(int argc, const char *const *argv) {
    static const char *const flags[] = {"--data", "--retrieval", "--datacomp"};
    int next = 2;
    for (int i = 2; i < argc; i++)
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            if (strncmp(argv[i], flags[k], strcspn(argv[i], "=")) == 0 && strlen(flags[k]) == strcspn(argv[i], "=")) return 1;
    return sweep_next_word(argv[0], argc, argv, &next) != NULL;
}

void sweep_eval_command(sweep_command *w, const sweep_run *r, const char *call) {
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
    if (!names_data(w->count - 2, w->job->argv + 2)) add_word(w, "--data=", r->config.data);
}

/* Checks of evaluations before the first run. */

#define CANNOT_WORK "--eval \"%.200s\" cannot work%s; nothing was started"

/* ----- checks: arguments ----- */

/* Makes the call for an impossible run, so that it ends with CLI_USAGE exactly if its arguments are wrong; its messages go to
 * `messages`. */
static int try_call(const sweep_run *first, const char *call, FILE *messages) {
    static char text[SWEEP_COMMAND_MAX];
    job j = {.state = JOB_WAITING};
    sweep_command w = {.job = &j, .text = text};
    sweep_run missing = *first;
    int status = 0;
    snprintf(missing.path, sizeof missing.path, "/dev/null/run");
    sweep_eval_command(&w, &missing, call);
    if (w.cut) return gf_print(messages, "glofnd sweep: it has too many arguments\n"), CLI_USAGE;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int sink = open("/dev/null", O_WRONLY);
        if (sink < 0 || dup2(sink, 1) < 0 || dup2(fileno(messages), 2) < 0) _exit(CLI_FAILED);
        const int code = cli_run(&cmd_eval, w.count - 1, (char **)j.argv + 1);
        fflush(NULL);
        _exit(code);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

glofnd_status sweep_check_calls(gf_error *err, const sweep_plan *p, const sweep_run *first) {
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

/* ----- checks: tasks and data ----- */

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

static const struct evaluation *find_evaluation(const char *verb) {
    for (size_t i = 0; i < sizeof evaluations / sizeof *evaluations; i++)
        if (strcmp(evaluations[i].verb, verb) == 0) return &evaluations[i];
    return NULL;
}

/* The test split that comes with data: an incomplete one would else be noticed after all training. */
static glofnd_status check_test_split(gf_error *err, const gf_dataset *data) {
    gf_dataset *test = NULL;
    char spec[2100];
    if (!gf_dataset_test_spec(data, spec, sizeof spec)) return GLOFND_OK;
    const glofnd_status status = gf_dataset_open(err, spec, &test);
    gf_dataset_free(test);
    return status;
}

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
    if (status == GLOFND_OK && test_split) status = check_test_split(err, data);
    gf_dataset_free(data);
    return status;
}

/* All SPECs of --flag. */
static glofnd_status check_flag(gf_error *err, const struct evaluation *x, int *argc, char **argv, const char *flag, need n,
                                int test_split) {
    const char *spec[SPECS_MAX];
    const int count = eval_gather(argc, argv, flag, spec, SPECS_MAX);
    for (int i = 0; i < count; i++) TRY(check_spec(err, x, spec[i], n, test_split));
    return GLOFND_OK;
}

/* argv: "knn", the run, flags. Captions serve `eval fn` where there are no labels. */
static glofnd_status check_call(gf_error *err, const gf_config *c, int argc, char **argv) {
    const struct evaluation *x = find_evaluation(argv[0]);
    const int clip = c->task == GF_TASK_CLIP;
    const char *truth[SPECS_MAX];
    if (!x) return GLOFND_OK; /* unknown here */
    need data = x->data;
    FAIL_IF(err, clip ? !x->of_clip : !x->of_views, GLOFND_E_OPTION, "it is for runs of task = %s, and these are of task = %s",
            clip ? "views" : "clip", clip ? "clip" : "views");
    const int truths = eval_gather(&argc, argv, "truth", truth, SPECS_MAX);
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
    for (const char *spec; x->named && (spec = sweep_next_word(x->verb, argc, (const char *const *)argv, &i));)
        TRY(check_spec(err, x, spec, LABELS, 0));
    return GLOFND_OK;
}

static glofnd_status check_run(gf_error *err, const sweep_run *r, const char *call) {
    static char text[SWEEP_COMMAND_MAX];
    char more[sizeof err->text];
    gf_error why = {{0}};
    job j = {.state = JOB_WAITING};
    sweep_command w = {.job = &j, .text = text};
    sweep_eval_command(&w, r, call);
    if (check_call(&why, &r->config, w.count - 2, (char **)j.argv + 2) == GLOFND_OK) return GLOFND_OK;
    snprintf(more, sizeof more, ": %.400s", why.text);
    GF_FAIL(err, GLOFND_E_OPTION, CANNOT_WORK, call, more);
}

/* 1: an earlier run that needs evaluation e has the same task and data. */
static int is_known(const sweep_run *runs, int i, int e) {
    for (int k = 0; k < i; k++)
        if (!(runs[k].evaluated >> e & 1u) && runs[k].config.task == runs[i].config.task &&
            strcmp(runs[k].config.data, runs[i].config.data) == 0)
            return 1;
    return 0;
}

/* 1: an earlier run that is still to be trained has the same task and data. */
static int is_trained_on(const sweep_run *runs, int i) {
    for (int k = 0; k < i; k++)
        if (!runs[k].finished && runs[k].config.task == runs[i].config.task &&
            strcmp(runs[k].config.data, runs[i].config.data) == 0)
            return 1;
    return 0;
}

glofnd_status sweep_check_data(gf_error *err, const sweep_plan *p, const sweep_run *runs, int count) {
    for (int i = 0; i < count; i++)
        if (!runs[i].finished && !is_trained_on(runs, i)) {
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
    for (int e = 0; e < p->eval_count; e++)
        for (int i = 0; i < count; i++)
            if (!(runs[i].evaluated >> e & 1u) && !is_known(runs, i, e)) TRY(check_run(err, &runs[i], p->eval[e]));
    return GLOFND_OK;
}

/* ----- jobs ----- */

static int is_ready(const jobs *all, job *j) { return !all->ready || all->ready(all->user, j); }

static int start(const jobs *all, job *j) {
    const pid_t parent = getpid();
    fflush(NULL);
    j->pid = fork();
    if (j->pid == 0) {
        /* In the child, which ends with this process, however that ends; its checkpoint is kept. */
        const int parallel = all->parallel;
        const int in = open("/dev/null", O_RDONLY), out = open(j->log, O_WRONLY | O_CREAT | O_APPEND, 0666);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent || in < 0 || out < 0) _exit(126);
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        if (parallel > 1) setenv("OMP_WAIT_POLICY", "passive", 0); /* waiting threads must not occupy the cores of other jobs */
        execv("/proc/self/exe", (char *const *)j->argv);
        _exit(127);
    }
    j->state = j->pid < 0 ? JOB_FAILED : JOB_RUNNING;
    if (j->pid > 0 && all->started) all->started(all->user, j);
    return j->pid > 0;
}

/* 1: it has ended. */
static int poll_job(const jobs *all, job *j) {
    int status;
    const pid_t found = waitpid(j->pid, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return 0;
    j->signal = found == j->pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int code = found == j->pid && WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    const int good = all->ended ? all->ended(all->user, j, code) : code == 0;
    j->state = good ? JOB_DONE : JOB_FAILED;
    return 1;
}

int jobs_run(jobs *all) {
    int running = 0, failed = 0, asked = 0;
    for (;;) {
        const int stop = all->stop && atomic_load(all->stop);
        for (int i = 0; i < all->count && running < all->parallel && !stop; i++)
            if (all->job[i].state == JOB_WAITING && is_ready(all, &all->job[i])) running += start(all, &all->job[i]);
        for (int i = 0; i < all->count; i++) {
            job *j = &all->job[i];
            if (j->state != JOB_RUNNING) continue;
            if (stop && !asked) kill(j->pid, SIGTERM);
            running -= poll_job(all, j);
        }
        asked |= stop;
        if (all->tick) all->tick(all->user);
        int waiting = 0;
        for (int i = 0; i < all->count; i++) waiting += all->job[i].state == JOB_WAITING;
        if (!running && (stop || !waiting)) break;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    for (int i = 0; i < all->count; i++) failed += all->job[i].state == JOB_FAILED;
    return failed;
}

/* ----- shared steps: groups ----- */

/* Epochs that the run can take over: until its detector starts. Where that is never, all but the last, which makes the files of
 * its own. */
static int32_t shared_epochs(const sweep_run *r) {
    const int32_t start = gf_detector_start(&r->resolved), most = r->resolved.epochs - 1;
    return start < most ? start : most;
}

/* Of them, those that it can take over from t. */
static int32_t epochs_from(const sweep_run *r, const sweep_run *t) {
    const int32_t own = shared_epochs(r), start = gf_detector_start(&t->resolved);
    return own < start ? own : start;
}

static int64_t step_of(const sweep_run *r, int32_t epoch) { return epoch * r->epoch_steps; }

/* ----- shared steps: who begins as whose copy ----- */

static int has_folder(const sweep_run *r) { return access(r->path, F_OK) == 0; }

static int keeps(const sweep_run *r, int32_t epoch) {
    for (int i = 0; i < r->keep_count; i++)
        if (r->keep[i] == epoch) return 1;
    return 0;
}

static int memories(const sweep_run *r) { return __builtin_popcount(gf_detector_memory(&r->resolved)); }

/* 1: a comes before b: it remembers more, or starts later. Only runs that come before r can be its trunk. */
static int is_before(const sweep_run *a, const sweep_run *b) {
    if (memories(a) != memories(b)) return memories(a) > memories(b);
    /* 1: a starts later than b; of equal ones the first. */
    const int32_t x = gf_detector_start(&a->resolved), y = gf_detector_start(&b->resolved);
    return x != y ? x > y : a < b;
}

/* The run of its group that gives r most epochs; of equal ones the first in this order. */
static glofnd_status find_trunk(gf_error *err, sweep_run *runs, int count, sweep_run *r) {
    int best = -1, yes;
    if (r->finished || has_folder(r)) return GLOFND_OK;
    for (int i = 0; i < count; i++) {
        const sweep_run *t = &runs[i];
        const int32_t epoch = epochs_from(r, t), most = best < 0 ? 0 : epochs_from(r, &runs[best]);
        if (t->group != r->group || !is_before(t, r) || gf_parting_key(&t->resolved, &r->resolved)) continue;
        if (epoch < most || epoch < 1 || (epoch == most && !is_before(t, &runs[best]))) continue;
        /* yes: the run has the checkpoint of this epoch, or is still to come there. A branch comes only to those after its
         * beginning. */
        char latest[PATH_MAX];
        yes = 0;
        if (!(t->trunk >= 0 && epoch <= t->from) && (t->keep_count != GF_KEPT_EPOCHS || keeps(t, epoch))) {
            TRY(gf_checkpoint_exists(err, t->path, step_of(t, epoch), &yes));
            if (!yes && !t->finished) {
                TRY(gf_checkpoint_latest(err, t->path, latest));
                yes = !*latest || gf_checkpoint_step(latest) < step_of(t, epoch);
            }
        }
        if (yes) best = i;
    }
    if (best < 0) return GLOFND_OK;
    sweep_run *t = &runs[best];
    r->trunk = best, r->from = epochs_from(r, t);
    if (!keeps(t, r->from)) t->keep[t->keep_count++] = r->from;
    return GLOFND_OK;
}

static int compare_runs(const void *a, const void *b) {
    const sweep_run *const *x = a, *const *y = b;
    return is_before(*x, *y) ? -1 : 1;
}

/* In this order: whether the trunk of a run is a branch itself is known then. */
glofnd_status sweep_share_plan(gf_error *err, const sweep_plan *p, sweep_run *runs, int count) {
    if (!p->share) return GLOFND_OK;
    /* Runs that take the same steps have the number of the first of them; the data of a group is opened once. */
    for (int i = 0; i < count; i++) {
        runs[i].group = i;
        for (int k = 0; k < i && runs[i].group == i; k++)
            if (runs[k].group == k && !gf_early_key(&runs[k].resolved, &runs[i].resolved)) runs[i].group = k;
        sweep_run *first = &runs[runs[i].group];
        if (first != &runs[i] && first->epoch_steps == 0) {
            gf_dataset *data = NULL;
            TRY(gf_dataset_open(err, first->resolved.data, &data));
            first->epoch_steps = gf_dataset_describe(data).n / first->resolved.batch;
            gf_dataset_free(data);
        }
        runs[i].epoch_steps = first->epoch_steps;
    }
    sweep_run **order = malloc((size_t)count * sizeof *order);
    FAIL_IF(err, !order, GLOFND_E_MEMORY, "no memory for %d runs", count);
    for (int i = 0; i < count; i++) order[i] = &runs[i];
    qsort(order, (size_t)count, sizeof *order, compare_runs);
    glofnd_status status = GLOFND_OK;
    for (int i = 0; i < count && status == GLOFND_OK; i++) status = find_trunk(err, runs, count, order[i]);
    free(order);
    return status;
}

/* ----- shared steps: while they run ----- */

/* 1: the checkpoint of t is the user's, or a branch still needs it. */
static int is_needed(const sweep_run *runs, int count, const sweep_run *t, int32_t epoch) {
    int32_t own[GF_KEPT_EPOCHS];
    int owned = 0;
    if (gf_config_kept_epochs(NULL, &t->resolved, own, &owned) != GLOFND_OK) return 1;
    for (int i = 0; i < owned; i++)
        if (own[i] == epoch) return 1;
    for (int i = 0; i < count; i++)
        if (runs[i].trunk >= 0 && &runs[runs[i].trunk] == t && runs[i].from == epoch && !has_folder(&runs[i])) return 1;
    return 0;
}

static void release(const sweep_run *runs, int count, const sweep_run *t, int32_t epoch) {
    if (epoch > 0 && t->epoch_steps > 0 && !is_needed(runs, count, t, epoch))
        gf_checkpoint_drop(t->path, step_of(t, epoch), t->resolved.keep_checkpoints);
}

int sweep_share_begin(sweep_run *runs, int count, sweep_run *r, int trunk_ended, char *said, size_t bytes) {
    const sweep_run *t = &runs[r->trunk];
    const int64_t step = step_of(r, r->from);
    gf_error err = {{0}};
    int there = 0;
    *said = 0;
    glofnd_status status = gf_checkpoint_exists(&err, t->path, step, &there);
    if (status == GLOFND_OK && !there && !trunk_ended) return 0;
    if (status == GLOFND_OK && !there)
        status = gf_fail(&err, GLOFND_E_IO, "%.200s has ended without its checkpoint after %d epochs", t->name, (int)r->from);
    if (status == GLOFND_OK) status = gf_branch_make(&err, t->path, step, r->path, &r->resolved);
    if (status == GLOFND_OK) {
        snprintf(said, bytes, "%s begins as %s after %d epoch%s", r->name, t->name, (int)r->from, r->from == 1 ? "" : "s");
        release(runs, count, t, r->from);
        return 1;
    }
    snprintf(said, bytes, "%s shares nothing and begins by itself: %.400s", r->name, err.text);
    r->trunk = -1, r->from = 0;
    return 1;
}

void sweep_share_clean(const sweep_plan *p, const sweep_run *runs, int count, int leftovers) {
    if (!p->share) return;
    for (int i = 0; i < count && leftovers; i++) gf_branch_clean(runs[i].path);
    for (int t = 0; t < count; t++)
        for (int i = 0; i < count; i++)
            if (i != t && runs[i].group == runs[t].group) release(runs, count, &runs[t], epochs_from(&runs[i], &runs[t]));
}

/* ----- shared steps: for people ----- */

/* A key that keeps runs of one seed apart, whichever of them were the first; NULL: none does. */
static const char *reason(const sweep_run *runs, int count) {
    for (int i = 1; i < count; i++) {
        const gf_config *a = &runs[0].resolved, *b = &runs[i].resolved;
        const char *key = strcmp(runs[i].seed, runs[0].seed) == 0 && gf_parting_key(b, a) ? gf_parting_key(a, b) : NULL;
        if (key) return key;
    }
    return NULL;
}

void sweep_share_print(FILE *to, const sweep_plan *p, const sweep_run *runs, int count) {
    int64_t saved = 0, all = 0;
    int branches = 0;
    if (!p->share) return;
    for (int i = 0; i < count; i++) {
        all += runs[i].finished ? 0 : runs[i].resolved.epochs;
        saved += runs[i].from;
        branches += runs[i].trunk >= 0;
    }
    const char *key = reason(runs, count);
    if (branches)
        gf_print(to, "shared: %d run%s begin%s as a copy of another, which saves %lld of %lld epochs\n", branches,
                 branches == 1 ? "" : "s", branches == 1 ? "s" : "", (long long)saved, (long long)all);
    else
        gf_print(to, "shared: nothing%s%s%s\n", key ? "; " : "", key ? key : "",
                 key ? " must be equal, as it acts from the first step on" : "");
}
