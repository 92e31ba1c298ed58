/* cmd_discover.c - glofnd discover: false negatives and duplicates in any embeddings.
 *
 * One call from top to bottom: the job; ranks, and rows that do not fit into memory; what is read (files, a run, splits, a query, a
 * stored result); what decides (--keep, --split); the order of work; flags, and what does not go together. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/pixel_means.h"
#include "discover/discover_files.h"
#include "discover/stored_result.h"
#include "discover/units.h"
#include "dist/comm.h"
#include "dist/dist.h"
#include "embeddings/embedding_set.h"
#include "eval/encode.h"
#include "io/file.h"
#include "io/npy.h"
#include "programs/cli.h"
#include "programs/trained_run.h"
#include "report/explorer.h"
#include "run/progress.h"
#include "run/run_folder.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/parallel.h"
#include "util/text.h"

/* ---------- the job ---------- */

typedef struct discover_flags { /* as given */
    const char *keep, *from, *format, *label_column;
    gf_option_strings split;
    const char *out, *dup, *labels, *classes, *names, *tensor, *column, *id, *data, *query, *stored, *query_names, *query_labels,
        *device, *pred_probs;
    double alpha, html_mb, memory, rank_timeout;
    int64_t k, top, max_pairs, approx, batch, epochs, sample, seed, threads, negatives, outliers, rows;
    int32_t graph, html, head, probe, center, learned, duplicates, resume, worker, force, quiet;
} discover_flags;

typedef struct discover_job {
    const discover_flags *f;
    struct { /* 1: not given, so that a stored result decides: --stored the first two, --from all */
        int threshold, dup, top, max_pairs, format;
    } as_stored;
    gf_discover_spec s;
    gf_decide_spec decide;
    int quiet; /* --quiet, or not the first rank */

    /* what is read */
    gf_embedding_input in;          /* EMB: files, folders, patterns */
    gf_embedding_set *set;          /* they, opened */
    gf_string_list label_texts;     /* of --label-column, of all files */
    char source[256];               /* EMB in words */
    int run;                        /* EMB is a run, to encode images with */
    int pixels;                     /* EMB or the splits are SPECs of images, compared by their pixels */
    const char *data;               /* SPEC of the images; NULL: none */
    char run_data[PATH_MAX + 1024]; /* that of the run, if none was given */
    gf_dataset *images, *split_images[GF_SPLITS_MAX];
    const char *split_source[GF_SPLITS_MAX]; /* what follows the = of --split */
    int split_ranges;                        /* 1: ranges of rows, A:B; 0: sources of rows */
    gf_discover_data d, q;                   /* EMB; --query */
    gf_discover_data *encoding;              /* of the images that are encoded now: notes why some are unreadable */
    glofnd_status noted;
    gf_error note_error;
    float *lambda;        /* --stored: its thresholds */
    gf_stored_result old; /* --from */
    int new_labels;       /* --from: other labels than the stored ones */

    /* in units */
    gf_comm *comm;  /* NULL: no other ranks */
    int in_units;   /* 1: this search is done in units */
    int reads_rows; /* a rule needs the embeddings, also of a stored result */
    char unit_folder[PATH_MAX];
    gf_units units;

    /* the line of progress, which an attendant draws (attend) */
    pthread_mutex_t lock; /* of these */
    pthread_cond_t wake;
    pthread_t attendant;
    int attended, over;
    gf_progress line;
    const char *stage;  /* that the line shows; NULL: none */
    double share;       /* of it */
    struct stat before; /* --out when the call began; st_ino 0: nothing */

    /* what is found and written */
    gf_discover_result r;
    double *score;     /* of --keep */
    float *pred_probs; /* of --pred-probs */
    gf_decisions decisions;
    gf_table_format format;
    gf_discover_html page;
} discover_job;

typedef char amount_text[24];

/* "3.20 GB": three digits, and the unit they need. */
static const char *amount(amount_text out, double bytes) {
    const char *unit = bytes >= 1e9 ? "GB" : bytes >= 1e6 ? "MB" : "kB";
    const double x = bytes / (bytes >= 1e9 ? 1e9 : bytes >= 1e6 ? 1e6 : 1e3);
    snprintf(out, sizeof(amount_text), "%.*f %s", x < 10.0 ? 2 : x < 100.0 ? 1 : 0, x, unit);
    return out;
}

/* ---------- ranks, and rows that do not fit into memory ---------- */

static glofnd_status agree_over_ranks(gf_error *err, void *user, glofnd_status mine) {
    const discover_job *j = user;
    return gf_comm_agree(err, j->comm, mine);
}

static int rank_of(const discover_job *j) { return j->comm ? j->comm->rank : 0; }

static int several_ranks(const discover_job *j) { return j->comm && j->comm->ranks > 1; }

/* All ranks wait for each other; the first failure is that of all. */
static glofnd_status agree(gf_error *err, const discover_job *j, glofnd_status mine) {
    return several_ranks(j) ? gf_comm_agree(err, j->comm, mine) : mine;
}

/* ----- progress, and Ctrl-C -----
 *
 * Work reports its share; a thread draws the line, so that each stage is named after a second, and again later, even where the work is busy
 * with one long call. The same thread ends the process when the work has not answered a signal soon enough: files of a result appear
 * whole or not at all, and so do parts of DIR.partial, at whatever moment that is. */

enum { PROGRESS_STEPS = 1000000 };
#define ATTEND_SECONDS 0.1
#define ANSWER_SECONDS 0.3 /* that the work has to answer a signal by itself */

/* With j->lock. */
static void draw_line(discover_job *j) {
    char text[80];
    const int known = j->share >= 0.005 || gf_clock() - j->line.started >= 10.0; /* the time left */
    if (!j->stage) return;
    snprintf(text, sizeof text, "%s: %.1f %%", j->stage, 100.0 * j->share);
    gf_progress_draw(&j->line, known ? (int64_t)(j->share * PROGRESS_STEPS) : 0, PROGRESS_STEPS, text, j->share >= 1.0);
}

/* With j->lock. In a file, too, the first line comes after a second. */
static void start_line(discover_job *j, const char *stage) {
    gf_progress_end(&j->line);
    j->line = gf_progress_start(0, j->quiet ? GF_PROGRESS_QUIET : cli_progress_mode());
    j->line.next = j->line.drawn = j->line.started + 1.0;
    j->stage = stage, j->share = 0.0;
}

static void draw_stage(void *user, const char *stage, double share) {
    discover_job *j = user;
    pthread_mutex_lock(&j->lock);
    if (stage != j->stage) start_line(j, stage); /* its time left is estimated from its own progress */
    j->share = share;
    if (!j->attended || share >= 1.0) draw_line(j);
    pthread_mutex_unlock(&j->lock);
}

static void start_stage(discover_job *j, const char *stage) {
    pthread_mutex_lock(&j->lock);
    start_line(j, stage);
    pthread_mutex_unlock(&j->lock);
    j->s.task.watch = (gf_job_progress){.progress = draw_stage, .user = j, .stage = stage, .stop = &cli_interrupted};
}

static void end_stage(discover_job *j) {
    pthread_mutex_lock(&j->lock);
    gf_progress_end(&j->line);
    j->stage = NULL;
    pthread_mutex_unlock(&j->lock);
}

/* What a stopped call leaves. */
static void report_stop(const discover_job *j) {
    struct stat now;
    const int written = stat(j->f->out, &now) == 0 && (now.st_ino != j->before.st_ino || now.st_dev != j->before.st_dev);
    if (written) gf_print(stderr, "glofnd discover: stopped; %s is written\n", j->f->out);
    else if (j->in_units && access(j->unit_folder, F_OK) == 0)
        gf_print(stderr, "glofnd discover: stopped; finished parts are in %s: the same command continues\n", j->unit_folder);
    else gf_print(stderr, "glofnd discover: stopped; nothing is written\n");
}

static void *attend(void *user) {
    discover_job *j = user;
    double asked = INFINITY; /* when the signal was seen */
    pthread_mutex_lock(&j->lock);
    while (!j->over) {
        gf_timed_cond_wait(&j->wake, &j->lock, ATTEND_SECONDS);
        if (j->over) break;
        draw_line(j);
        if (atomic_load(&cli_interrupted)) asked = fmin(asked, gf_clock());
        if (gf_clock() - asked < ANSWER_SECONDS || isinf(asked)) continue;
        gf_progress_end(&j->line);
        gf_output_folder_abandon(j->f->out, &gf_discover_kind);
        if (rank_of(j) == 0) report_stop(j);
        alarm(10); /* ending other ranks may wait for their machines */
        if (several_ranks(j)) gf_dist_abort(j->comm, CLI_FAILED);
        _exit(CLI_FAILED);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static void start_attendant(discover_job *j) {
    if (stat(j->f->out, &j->before) != 0) j->before = (struct stat){0};
    pthread_mutex_init(&j->lock, NULL);
    gf_timed_cond_init(&j->wake);
    j->attended = gf_thread_start(&j->attendant, attend, j);
}

static void end_attendant(discover_job *j) {
    if (j->over) return;
    end_stage(j);
    pthread_mutex_lock(&j->lock);
    j->over = 1;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
    if (j->attended) pthread_join(j->attendant, NULL);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
}

/* A rank is lost: other threads may wait for it forever. Reporting may wait for its machine, too: the alarm ends this rank. */
static void end_lost(void *user, const char *text) {
    const discover_job *j = user;
    gf_error err;
    alarm(10);
    cli_failed("discover", gf_fail(&err, GLOFND_E_IO, "%s", text), &err);
    if (j->unit_folder[0])
        gf_print(stderr, "glofnd discover: finished parts are in %s: the same command continues\n", j->unit_folder);
    gf_dist_abort(j->comm, CLI_FAILED);
    _exit(CLI_FAILED);
}

static uint64_t hash_of(const char *text, uint64_t h) {
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return (h ^ 0xff) * 0x100000001b3u;
}

/* The value of a flag, as a number that differs if it differs. */
static uint64_t flag_hash(const gf_option *flag, const discover_flags *f) {
    const uint64_t start = 0xcbf29ce484222325u;
    const char *at = (const char *)f + flag->offset;
    char value[80] = "";
    if (flag->type == GF_OPTION_STRINGS) {
        gf_option_strings texts;
        uint64_t h = start;
        memcpy(&texts, at, sizeof texts);
        for (int i = 0; i < texts.count; i++) h = hash_of(texts.at[i], h);
        return h;
    }
    if (flag->type == GF_OPTION_STRING) {
        const char *text;
        memcpy(&text, at, sizeof text);
        return text ? hash_of(text, start) : start;
    }
    gf_option_format(flag, f, value, sizeof value);
    return hash_of(value, start);
}

/* All ranks have the same flags and EMB; the first flag that differs is named. Threads and --quiet may differ. */
static glofnd_status check_same_flags(gf_error *err, const discover_job *j) {
    const cli_verb *verb = &cmd_discover;
    const uint64_t start = 0xcbf29ce484222325u;
    uint64_t words = start, every;
    for (int i = 0; i < j->in.paths; i++) words = hash_of(j->in.path[i], words);
    every = words;
    for (int each = 0; each < 2; each++) { /* one message if all are equal, else one for each flag */
        for (int i = 0; i < verb->flag_count; i++) {
            char what[80];
            const gf_option *flag = &verb->flags[i];
            if (strcmp(flag->key, "threads") == 0 || strcmp(flag->key, "quiet") == 0) continue;
            const uint64_t hash = flag_hash(flag, j->f);
            snprintf(what, sizeof what, "--%s", flag->key);
            if (each) TRY(gf_comm_check_equal(err, j->comm, what, hash));
            else every = (every ^ hash) * 0x100000001b3u;
        }
        if (!each && gf_comm_check_equal(err, j->comm, "command", every) == GLOFND_OK) return GLOFND_OK;
    }
    return gf_comm_check_equal(err, j->comm, "EMB", words);
}

static glofnd_status join_launched(gf_error *err, discover_job *j, gf_join *join) {
    TRY(gf_dist_open(err, GF_RANKS_AUTO, 1, &j->comm));
    if (rank_of(j) > 0) j->quiet = 1;
    gf_join_reach(join, GF_JOIN_CHECKED);
    if (!several_ranks(j)) return GLOFND_OK;
    TRY(gf_comm_check_builds(err, j->comm));
    TRY(check_same_flags(err, j));
    return gf_dist_watch(err, j->comm, j->f->rank_timeout, end_lost, j);
}

/* Joins the other ranks, if a launcher has started some. From then on a rank that never comes or falls silent is named, and all
 * end. */
static glofnd_status join_ranks(gf_error *err, discover_job *j) {
    gf_join *join = NULL;
    if (j->f->worker || !gf_dist_launched(getenv)) return GLOFND_OK;
    TRY(gf_join_begin(err, j->f->rank_timeout, getenv, end_lost, j, &join));
    const glofnd_status status = join_launched(err, j, join);
    gf_join_end(join);
    if (status != GLOFND_OK || !j->f->device || strcmp(j->f->device, "cuda") != 0) return status;
    const gf_comm *c = j->comm;
    int sharing = 1;
    TRY(agree(err, j, gf_device_share(err, c->local_rank, c->local_ranks, &sharing)));
    if (sharing > 1 && !j->quiet) gf_print(stderr, "glofnd discover: %d ranks share a GPU, and its memory\n", sharing);
    return GLOFND_OK;
}

static glofnd_status read_source(gf_error *err, void *user, int64_t first, int64_t rows, float *x) {
    const discover_job *j = user;
    return gf_embeddings_read(err, j->set, first, rows, x);
}

static void report_units(void *user, int64_t units, int64_t done, int64_t chunks) {
    discover_job *j = user;
    if (j->quiet) return;
    pthread_mutex_lock(&j->lock);
    gf_progress_end(&j->line);
    pthread_mutex_unlock(&j->lock);
    gf_print(stderr, "%lld x %lld in %lld units", (long long)j->d.n, (long long)j->d.dim, (long long)units);
    if (done > 0) gf_print(stderr, ", of which %lld are already in %s", (long long)done, j->unit_folder);
    if (chunks == 0)
        gf_print(stderr, "; rows in the order of cells take %.2f GB in %s", 4e-9 * (double)j->d.good_n * (double)j->d.dim,
                 j->unit_folder);
    if (chunks > 1) gf_print(stderr, "; embeddings are read in %lld chunks for each", (long long)chunks);
    if (several_ranks(j)) gf_print(stderr, "; %d ranks", j->comm->ranks);
    gf_print(stderr, "\n");
}

/* E_OPTION: something does not allow ranks or units, which need embeddings of files. why NULL: nothing. */
static glofnd_status refuse_units(gf_error *err, const discover_job *j, const char *why) {
    FAIL_IF(err, why && several_ranks(j), GLOFND_E_OPTION, "%s: not over several ranks; start it without mpirun", why);
    FAIL_IF(err, why && j->f->resume, GLOFND_E_OPTION, "--resume does not go with %s", why);
    FAIL_IF(err, why && j->f->worker, GLOFND_E_OPTION, "--worker does not go with %s", why);
    return GLOFND_OK;
}

static void name_folder(discover_job *j) {
    size_t n = strlen(j->f->out);
    while (n > 1 && j->f->out[n - 1] == '/') n--;
    snprintf(j->unit_folder, sizeof j->unit_folder, "%.*s.partial", (int)(n < PATH_MAX - 16 ? n : PATH_MAX - 16), j->f->out);
}

/* "about 4m10", of a search that takes `seconds`; NAN: "time not known". */
static const char *expected_time(amount_text out, double seconds) {
    char time[16] = "2s";
    if (seconds >= 2.0) gf_progress_time(seconds, time, sizeof time);
    if (isnan(seconds)) snprintf(out, sizeof(amount_text), "time not known");
    else snprintf(out, sizeof(amount_text), "%s %.12s", seconds < 2.0 ? "less than" : "about", time);
    return out;
}

/* A search of so few products takes less than two seconds, and is not measured. */
static int is_short(int64_t n, int64_t dim) { return 0.5 * (double)n * (double)n * (double)dim < 2e9; }

/* j->set is open: decides whether its rows are streamed. E_OPTION: they must be, and something else does not allow it. */
static glofnd_status choose_units(gf_error *err, discover_job *j) {
    const char *why = j->f->from ? "--from" : j->f->query ? "--query" : NULL;
    if (!why && j->s.learned) why = "--learned";
    if (!why && j->f->center) why = "--center";
    TRY(refuse_units(err, j, why));
    /* What a search in memory takes. Lists of a search of all pairs can be made in two passes; those of probed cells cannot. */
    const int64_t n = gf_embeddings_rows(j->set), dim = gf_embeddings_dim(j->set);
    double bytes = 4.0 * (double)n * (double)dim;
    int64_t rank = 0;
    if (j->s.task.probe && gf_discover_rank(NULL, &j->s, n, &rank) == GLOFND_OK) {
        const gf_pairs_plan p = gf_discover_plan_for(&j->s, n, dim, rank);
        bytes = (double)p.rows + (double)p.lists;
    }
    j->in_units = !why && (several_ranks(j) || j->f->resume || j->f->worker || bytes > (double)j->s.task.memory);
    if (!j->in_units) return GLOFND_OK;
    /* What is known of each row stays in memory, beside the chunks of --memory. */
    const double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double known = (double)gf_pairs_found_bytes(n, GF_MIN(j->s.task.top, n - 1)) + 40.0 * (double)n;
    amount_text a, b, c;
    FAIL_IF(err, machine > 0.0 && known > machine, GLOFND_E_MEMORY,
            "the result of %lld rows takes %s of memory, this machine has %s; lower --top, or search in parts", (long long)n,
            amount(a, known), amount(b, machine));
    name_folder(j);
    j->units = (gf_units){
        .folder = j->unit_folder,
        .source = {.read = read_source, .user = j, .n = n, .dim = dim},
        .force = j->f->force,
        .rank = rank_of(j),
        .ranks = j->comm ? j->comm->ranks : 1,
        .worker = j->f->worker,
        .patience = j->f->rank_timeout > 0.0 ? j->f->rank_timeout : INFINITY,
        .agree = several_ranks(j) ? agree_over_ranks : NULL,
        .report = report_units,
        .user = j,
    };
    j->decide.rows = &j->units.source;
    if (j->quiet) return GLOFND_OK;
    const double seconds = is_short(n, dim) ? 0.0 : gf_discover_units_seconds(&j->s, &j->units) / j->units.ranks;
    gf_print(stderr, "%lld x %lld: %s of memory for the result, and at most %s at a time of the embeddings; the search: %s\n",
             (long long)n, (long long)dim, amount(a, known), amount(b, (double)j->s.task.memory), expected_time(c, seconds));
    return GLOFND_OK;
}

/* ---------- what decides ---------- */

/* Reads --keep and --split: CLI_OK, or CLI_USAGE with a message. j->split_ranges is set. */
static int read_decisions(const cli_call *call, discover_job *j) {
    /* Names stand in file headings and on pages: letters, digits, and - . _ only. */
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const gf_option_strings *split = &j->f->split;
    const int rows = j->split_ranges;
    const char *keep = j->f->keep ? j->f->keep : "first";
    gf_keep_rule rule = GF_KEEP_FIRST;
    if (strncmp(keep, "score:", 6) == 0 && keep[6]) rule = GF_KEEP_SCORE;
    else
        while (gf_keep_rule_name(rule) && (rule == GF_KEEP_SCORE || strcmp(keep, gf_keep_rule_name(rule)) != 0)) rule++;
    if (!gf_keep_rule_name(rule))
        return cli_misused(call, "--keep: \"%s\"; expected first, central, largest, label or score:FILE", keep);
    j->decide.keep = rule;
    if (split->count > GF_SPLITS_MAX) return cli_misused(call, "--split: at most %d splits", GF_SPLITS_MAX);
    for (int k = 0; k < split->count; k++) {
        gf_row_split *s = &j->decide.split[k];
        const char *equal = strchr(split->at[k], '=');
        const size_t length = equal ? (size_t)(equal - split->at[k]) : 0;
        if (length < 1 || length > GF_SPLIT_NAME || strspn(split->at[k], letters) < length || !equal[1])
            return cli_misused(call, "--split: \"%s\"; expected NAME=%s, NAME of at most %d letters, digits, - . _", split->at[k],
                               rows ? "FIRST:END" : "SPEC", GF_SPLIT_NAME);
        memcpy(s->name, split->at[k], length);
        j->split_source[k] = equal + 1;
        if (rows) { /* "A:B": rows A to B - 1 */
            char first[24];
            const char *colon = strchr(equal, ':');
            const size_t digits = colon ? (size_t)(colon - equal) - 1 : 0;
            int64_t end = 0;
            snprintf(first, sizeof first, "%.*s", (int)GF_MIN(digits, sizeof first), equal + 1);
            if (digits < 1 || digits >= sizeof first || gf_integer_read(first, &s->first) || gf_integer_read(colon + 1, &end) ||
                s->first < 0 || end <= s->first)
                return cli_misused(call, "--split: \"%s\"; with EMB or --from expected a range of rows, %s=FIRST:END",
                                   split->at[k], s->name);
            s->rows = end - s->first;
        }
        for (int i = 0; i < k; i++) {
            const gf_row_split *b = &j->decide.split[i];
            if (strcmp(s->name, b->name) == 0 || (rows && s->first < b->first + b->rows && b->first < s->first + s->rows))
                return cli_misused(call, "--split: %s has the name or rows of an earlier split", s->name);
        }
        j->decide.splits++;
    }
    return CLI_OK;
}

/* Splits that are sources have now these rows: source k has rows[k]. */
static void place_splits(discover_job *j, const int64_t *rows) {
    gf_decide_spec *c = &j->decide;
    for (int k = 0; k < c->splits; k++) {
        c->split[k].first = k ? c->split[k - 1].first + rows[k - 1] : 0;
        c->split[k].rows = rows[k];
    }
}

static glofnd_status check_splits(gf_error *err, const discover_job *j) {
    const gf_decide_spec *c = &j->decide;
    const int64_t n = j->d.n;
    for (int k = 0; k < c->splits; k++) {
        const gf_row_split *s = &c->split[k];
        FAIL_IF(err, s->first > n || s->rows > n - s->first, GLOFND_E_OPTION, "--split %s ends at row %lld; there are %lld rows",
                s->name, (long long)(s->first + s->rows), (long long)n);
    }
    return GLOFND_OK;
}

/* ----- scores of rows, by which one of a group of duplicates is kept ----- */

typedef struct scores {
    const char *path;
    double *score; /* [n] */
    int64_t n;
} scores;

static glofnd_status take_array(gf_error *err, void *user, const gf_npy *a) {
    const scores *x = user;
    FAIL_IF(err, a->rank != 1 || a->shape[0] != x->n, GLOFND_E_ARGUMENT,
            "%.300s: %lld numbers with %d axes for %lld embeddings; expected one axis, a number per row", x->path,
            (long long)a->count, a->rank, (long long)x->n);
    for (int64_t i = 0; i < x->n; i++) x->score[i] = gf_npy_f64(a, i);
    return GLOFND_OK;
}

static glofnd_status take_line(gf_error *err, void *user, const char *text, int64_t row) {
    const scores *x = user;
    double value = NAN;
    const char *why = strcasecmp(text, "nan") == 0 ? NULL : gf_number_read(text, &value);
    FAIL_IF(err, why, GLOFND_E_FORMAT, "%.300s: line %lld: \"%.40s\" %s", x->path, (long long)row + 1, text, why);
    if (row < x->n) x->score[row] = value;
    return GLOFND_OK;
}

/* ----- probabilities of labels ----- */

/* --pred-probs: [rows][labels]. Before that: the rows and labels of d. */
static glofnd_status read_probabilities(gf_error *err, discover_job *j) {
    gf_npy a = {0};
    const char *path = j->f->pred_probs;
    FAIL_IF(err, !j->d.label, GLOFND_E_OPTION, "--pred-probs needs labels: give --labels, --label-column or --data");
    TRY(gf_npy_read_header(err, path, &a));
    FAIL_IF(
        err, a.rank != 2 || a.shape[0] != j->d.n || a.shape[1] < 2 || a.shape[1] > INT32_MAX, GLOFND_E_ARGUMENT,
        "%.300s: %d axes, the first of %lld, for %lld embeddings; expected probabilities [rows][labels], of two labels or more",
        path, a.rank, a.rank ? (long long)a.shape[0] : 0, (long long)j->d.n);
    TRY(gf_npy_read(err, path, &a));
    if (a.type == GF_NPY_F4) {
        j->pred_probs = a.data, a.data = NULL;
    } else {
        j->pred_probs = malloc((size_t)a.count * sizeof *j->pred_probs);
        for (int64_t i = 0; i < a.count && j->pred_probs; i++) j->pred_probs[i] = (float)gf_npy_f64(&a, i);
    }
    j->decide.pred_probs = j->pred_probs, j->decide.pred_classes = a.shape[1];
    gf_npy_free(&a);
    FAIL_IF(err, !j->pred_probs, GLOFND_E_MEMORY, "no memory for the probabilities of %lld rows", (long long)j->d.n);
    return GLOFND_OK;
}

/* ----- sizes of images ----- */

typedef struct sized {
    int64_t pixels, row;
    uint64_t bytes;
} sized;

static int by_size(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->pixels != y->pixels) return x->pixels < y->pixels ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Reads or measures the scores that --keep needs. Before that: r. */
static glofnd_status score_rows(gf_error *err, discover_job *j) {
    if (j->decide.keep == GF_KEEP_SCORE) {
        /* score [n] from a .npy of numbers with one axis, or a text with a number per line ("nan": none). */
        const char *path = strchr(j->f->keep, ':') + 1;
        const int64_t n = j->d.n;
        j->score = malloc((size_t)n * sizeof *j->score);
        FAIL_IF(err, !j->score, GLOFND_E_MEMORY, "no memory for %lld scores", (long long)n);
        scores x = {path, j->score, n};
        const gf_row_values v = {.path = path, .array = take_array, .line = take_line, .user = &x};
        int64_t rows = 0;
        TRY(gf_row_values_read(err, &v, &rows));
        FAIL_IF(err, rows != n, GLOFND_E_ARGUMENT, "%.300s: %lld number%s for %lld embeddings; expected one per line and row",
                path, (long long)rows, rows == 1 ? "" : "s", (long long)n);
    }
    if (j->decide.keep == GF_KEEP_LARGEST) {
        /* score [d.n]: rank of the image of each row in a group by its pixels, then by the bytes of its file; NaN: unreadable, or in
         * no group. The image is that of the dataset, or the file that the name of the row is. */
        const gf_discover_html *h = &j->page;
        const gf_discover_data *d = &j->d;
        const gf_discover_result *r = &j->r;
        sized *list = malloc((size_t)(r->groups.nodes + 1) * sizeof *list);
        int64_t found = 0;
        j->score = malloc((size_t)d->n * sizeof *j->score);
        if (!list || !j->score) {
            free(list);
            GF_FAIL(err, GLOFND_E_MEMORY, "no memory for sizes of images");
        }
        for (int64_t row = 0; row < d->n; row++) j->score[row] = NAN;
        for (int64_t i = 0; i < d->good_n; i++) {
            sized *x = &list[found];
            if (r->groups.of[i] < 0) continue;
            *x = (sized){.row = d->good[i]};
            int k = h->image_sets - 1;
            while (k > 0 && x->row < h->images[k].first) k--;
            if (k >= 0) found += gf_dataset_image_size(h->images[k].data, x->row - h->images[k].first, &x->pixels, &x->bytes);
            else found += d->name && gf_image_file_size(d->name[x->row], &x->pixels, &x->bytes);
        }
        if (found) qsort(list, (size_t)found, sizeof *list, by_size);
        for (int64_t k = 0, rank = 0; k < found; k++) {
            rank += k > 0 && by_size(&list[k - 1], &list[k]) != 0;
            j->score[list[k].row] = (double)rank;
        }
        free(list);
        FAIL_IF(
            err, r->groups.nodes && !found, GLOFND_E_ARGUMENT,
            "--keep largest: no image of a duplicate can be measured; names must be paths of JPEG, PNG or WebP files, or --data "
            "of such");
    }
    j->decide.score = j->score;
    return GLOFND_OK;
}
/* ---------- what is read ---------- */

/* ----- memory ----- */

/* Reports the memory that will be taken, before it is. */
static glofnd_status report_memory(gf_error *err, const discover_job *j, int64_t n, int64_t dim) {
    int64_t rank = 0;
    TRY(gf_discover_rank(err, &j->s, n, &rank));
    const gf_pairs_plan p = gf_discover_plan_for(&j->s, n, dim, rank);
    const double raw = 4.0 * (double)n * (double)dim, work = (double)(p.lists + p.results + p.scratch);
    const double most = (double)p.rows + (j->s.learned || j->s.keep_rows ? raw + work : fmax(raw, work));
    amount_text a, b, c, time;
    const double pairs = 0.5 * (double)n * (double)(n - 1);
    if (!j->quiet) expected_time(time, is_short(n, dim) ? 0.0 : gf_discover_seconds(&j->s, n, dim, rank));
    if (!j->quiet && p.device)
        gf_print(stderr,
                 "%lld x %lld: at most %s on the GPU (CUDA itself takes some 0.5 GB more) and %s of memory, %.3g pairs; the "
                 "search: %s\n",
                 (long long)n, (long long)dim, amount(a, (double)p.device), amount(b, most), pairs, time);
    else if (!j->quiet)
        gf_print(stderr,
                 "%lld x %lld: at most %s of memory (%s embeddings, %s lists), %d pass%s over %.3g pairs; the search: %s\n",
                 (long long)n, (long long)dim, amount(a, most), amount(b, (double)p.rows), amount(c, (double)p.lists), p.passes,
                 p.passes > 1 ? "es" : "", pairs, time);
    FAIL_IF(err, p.lists > j->s.task.memory, GLOFND_E_MEMORY,
            "the lists of the %lld most similar of %lld anchors take %s; --memory allows %s: raise it, or lower --top",
            (long long)j->s.task.top, (long long)n, amount(a, (double)p.lists), amount(b, (double)j->s.task.memory));
    return GLOFND_OK;
}

/* ----- embeddings of a run ----- */

static void report_unreadable(void *user, int64_t i, const char *message) {
    discover_job *j = user;
    if (j->noted == GLOFND_OK) j->noted = gf_discover_set_unreadable(&j->note_error, j->encoding, i, message);
    gf_print(stderr, "glofnd discover: sample %lld is left out: %s\n", (long long)i, message);
}

static void encoded(void *user, int64_t done, int64_t total) {
    const discover_job *j = user;
    gf_job_report(&j->s.task.watch, (double)done / (double)total);
}

/* split: a word before each name, "": none. */
static glofnd_status take_names(gf_error *err, const gf_dataset *data, const char *split, gf_discover_data *d) {
    enum { NAME = 256 };
    d->name_text = malloc((size_t)d->n * NAME);
    d->name = malloc((size_t)d->n * sizeof *d->name);
    FAIL_IF(err, !d->name_text || !d->name, GLOFND_E_MEMORY, "no memory for names");
    for (int64_t i = 0; i < d->n; i++) {
        char *name = d->name_text + i * NAME;
        const int used = split[0] ? snprintf(name, NAME, "%.*s:", GF_SPLIT_NAME, split) : 0;
        gf_dataset_name(data, i, name + used, (size_t)(NAME - used));
        gf_utf8_trim(name); /* it may have been cut */
        d->name[i] = name;
    }
    return GLOFND_OK;
}

static glofnd_status take_labels(gf_error *err, const gf_dataset *data, gf_discover_data *d) {
    gf_string_list_free(&d->classes);
    d->label = malloc((size_t)d->n * sizeof *d->label);
    FAIL_IF(err, !d->label, GLOFND_E_MEMORY, "no memory for labels");
    for (int64_t i = 0; i < d->n; i++) d->label[i] = gf_dataset_label(data, i);
    /* Names of classes, if all have one. */
    const int32_t classes = gf_dataset_describe(data).classes;
    int32_t named = 0;
    while (named < classes && gf_dataset_class_title(data, named)) named++;
    for (int32_t k = 0; named == classes && k < classes; k++) {
        const char *name = gf_dataset_class_title(data, k);
        TRY(gf_string_list_add(err, &d->classes, name, strlen(name)));
        gf_utf8_clean(d->classes.text + d->classes.at[k], ' ');
    }
    return GLOFND_OK;
}

/* Unreadable samples keep their row, of zeros, so that rows are positions in the dataset. */
static glofnd_status encode(gf_error *err, discover_job *j, const gf_dataset *images, gf_discover_data *d) {
    gf_run_encoder *e = NULL;
    gf_features f = {0};
    const gf_encode_spec spec = {.aligned = 1, .unreadable = report_unreadable, .progress = encoded, .user = j};
    start_stage(j, "images");
    d->n = gf_dataset_describe(images).n;
    j->encoding = d;
    const gf_run_encoder_spec run = {.run = j->in.path[0],
                                     .head = j->f->head,
                                     .placement = {.device = j->f->device, .threads = (int)j->f->threads}};
    glofnd_status status = device_flags_open(err, "discover", &run, &e);
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, images, &spec, &f);
    end_stage(j);
    if (status == GLOFND_OK && j->noted != GLOFND_OK) status = gf_fail(err, j->noted, "%s", j->note_error.text);
    if (status == GLOFND_OK) {
        d->n = f.n, d->dim = f.dim, d->x = f.x;
        f.x = NULL;
    }
    gf_features_free(&f);
    gf_run_encoder_free(e);
    return status;
}

/* Rows of images without a network. Unreadable ones keep their row, as above. */
static glofnd_status measure_pixels(gf_error *err, discover_job *j, const gf_dataset *images, gf_discover_data *d) {
    start_stage(j, "images");
    d->n = gf_dataset_describe(images).n, d->dim = GF_PIXEL_MEANS;
    d->x = malloc((size_t)d->n * GF_PIXEL_MEANS * sizeof *d->x);
    FAIL_IF(err, !d->x, GLOFND_E_MEMORY, "no memory for %lld x %d float32", (long long)d->n, (int)GF_PIXEL_MEANS);
    j->encoding = d;
    const gf_pixel_means_job job = {.threads = j->s.task.threads,
                                    .watch = j->s.task.watch,
                                    .unreadable = report_unreadable,
                                    .user = j};
    const glofnd_status status = gf_dataset_pixel_means(err, images, &job, d->x);
    end_stage(j);
    FAIL_IF(err, status == GLOFND_OK && j->noted != GLOFND_OK, j->noted, "%s", j->note_error.text);
    return status;
}

static glofnd_status rows_of_images(gf_error *err, discover_job *j, const gf_dataset *images, gf_discover_data *d) {
    return j->pixels ? measure_pixels(err, j, images, d) : encode(err, j, images, d);
}

/* Labels and names of the dataset, unless files have them. */
static glofnd_status describe_rows(gf_error *err, discover_job *j) {
    const gf_dataset_info info = gf_dataset_describe(j->images);
    FAIL_IF(err, info.n != j->d.n, GLOFND_E_ARGUMENT,
            "%.200s has %lld images, '%.200s' %lld embeddings; row i must be of image i", j->data, (long long)info.n, j->source,
            (long long)j->d.n);
    if (!j->f->labels && info.classes > 0) TRY(take_labels(err, j->images, &j->d));
    return j->f->names ? GLOFND_OK : take_names(err, j->images, "", &j->d);
}

/* ----- embeddings ----- */

/* A folder is a run if it has a configuration; else its files are embeddings. */
static int is_run(const char *path) {
    char config[PATH_MAX];
    return gf_is_folder(path) && gf_path_join(NULL, config, path, GF_CONFIG_FILE) == GLOFND_OK && access(config, F_OK) == 0;
}

/* 1: a SPEC of images, as folder:DIR. */
static int is_data(const char *path) {
    const char *colon = strchr(path, ':');
    return colon && gf_dataset_is_format(path, (size_t)(colon - path)) && access(path, F_OK) != 0;
}

/* Names of columns that no file has would be without effect. columns: 1: some file of embeddings has columns. */
static glofnd_status check_columns(gf_error *err, const discover_job *j, int columns) {
    const int names = (j->f->names && gf_names_have_columns(j->f->names, j->in.id)) ||
                      (j->f->query_names && gf_names_have_columns(j->f->query_names, j->in.id));
    FAIL_IF(err, j->in.column && !columns, GLOFND_E_OPTION,
            "--column is a column of Parquet files or tables; the embeddings are in none");
    FAIL_IF(err, j->in.id && !columns && !names, GLOFND_E_OPTION,
            "--id is a column of Parquet files or tables: of the embeddings, or of --names FILES; there is none here");
    return GLOFND_OK;
}

/* --label-column must have something to choose from; files are known before anything is read. */
static glofnd_status check_label_column(gf_error *err, const discover_job *j) {
    const int array = j->f->labels && !gf_labels_have_columns(j->f->labels),
              query_array = j->f->query_labels && !gf_labels_have_columns(j->f->query_labels);
    FAIL_IF(err, j->f->label_column && (array || query_array) && (!j->f->labels || array) && (!j->f->query_labels || query_array),
            GLOFND_E_OPTION, "--label-column is a column of Parquet files or tables; '%.300s' is neither: drop one of the two",
            j->f->labels ? j->f->labels : j->f->query_labels);
    return GLOFND_OK;
}

static glofnd_status read_rows(gf_error *err, discover_job *j) {
    const glofnd_status opened = gf_embeddings_open(err, &j->in, &j->set);
    if (opened == GLOFND_E_IO && j->in.paths == 1 && gf_is_folder(j->in.path[0])) { /* perhaps a folder of images */
        char spec[PATH_MAX + 8];
        gf_dataset *images = NULL;
        snprintf(spec, sizeof spec, "folder:%s", j->in.path[0]);
        if (gf_dataset_open(NULL, spec, &images) == GLOFND_OK) {
            const int64_t n = gf_dataset_describe(images).n;
            gf_dataset_free(images);
            GF_FAIL(err, GLOFND_E_IO,
                    "'%.200s' holds images (%lld) and no embeddings; compare the images: glofnd discover folder:%.200s",
                    j->in.path[0], (long long)n, j->in.path[0]);
        }
    }
    TRY(opened);
    FAIL_IF(err, j->in.tensor && !gf_embeddings_have_tensors(j->set), GLOFND_E_OPTION,
            "--tensor is one of .safetensors files; the embeddings are in none");
    if (!j->f->query) TRY(check_columns(err, j, gf_embeddings_have_columns(j->set)));
    const char *columns = gf_embeddings_columns(j->set);
    if (columns && !j->quiet && rank_of(j) == 0) gf_print(stderr, "embeddings from %s\n", columns);
    if (j->in.label) TRY(gf_embeddings_labels(err, j->set, &j->label_texts));
    TRY(choose_units(err, j));
    if (j->in_units) {
        j->d.n = gf_embeddings_rows(j->set), j->d.dim = gf_embeddings_dim(j->set);
        return gf_embeddings_have_names(j->set) ? gf_discover_read_set_names(err, j->set, &j->d) : GLOFND_OK;
    }
    if (!j->f->query) TRY(report_memory(err, j, gf_embeddings_rows(j->set), gf_embeddings_dim(j->set)));
    start_stage(j, "reading");
    return gf_discover_read_set(err, j->set, &j->d);
}

/* One split: a dataset that the run encodes, or whose pixels are compared. */
static glofnd_status load_split(gf_error *err, discover_job *j, int k, gf_discover_data *part) {
    TRY(gf_dataset_open(err, j->split_source[k], &j->split_images[k]));
    TRY(rows_of_images(err, j, j->split_images[k], part));
    if (gf_dataset_describe(j->split_images[k]).classes == gf_dataset_describe(j->split_images[0]).classes)
        TRY(take_labels(err, j->split_images[k], part));
    j->page.images[k] = (gf_row_images){j->split_images[k], j->d.n};
    j->page.image_sets = k + 1;
    return take_names(err, j->split_images[k], j->decide.split[k].name, part);
}

static glofnd_status load_rows(gf_error *err, discover_job *j) {
    const int sources = j->decide.splits && !j->split_ranges;
    j->run = j->in.paths > 0 && is_run(j->in.path[0]);
    j->pixels = j->in.paths > 0 ? is_data(j->in.path[0]) : sources && is_data(j->split_source[0]);
    if (j->pixels && !sources) {
        FAIL_IF(err, j->data, GLOFND_E_OPTION, "'%.250s' is data itself: leave --data out", j->in.path[0]);
        j->data = j->in.path[0];
    }
    if (j->run && !j->data && !sources) {
        TRY(gf_run_data_of(err, j->in.path[0], j->run_data, sizeof j->run_data));
        j->data = j->run_data;
    }
    const int images = j->run || j->pixels;
    FAIL_IF(err, images && j->in.paths > 1, GLOFND_E_ARGUMENT, "'%.250s' is %s; it must be the only EMB", j->in.path[0],
            j->run ? "a run" : "data");
    FAIL_IF(err, images && j->in.label, GLOFND_E_ARGUMENT,
            "--label-column goes with files; images have the labels of their data");
    FAIL_IF(err, j->f->head && !j->run, GLOFND_E_ARGUMENT, "--head goes with a run; '%.300s' is not a run", j->source);
    FAIL_IF(err, j->pixels && j->f->query, GLOFND_E_OPTION,
            "--query takes embeddings; compare images by --split old=SPEC --split new=SPEC");
    TRY(check_label_column(err, j));
    if (images) TRY(check_columns(err, j, 0));
    TRY(refuse_units(err, j, j->run ? "the images of a run" : j->pixels ? "images" : NULL));
    if (j->decide.splits && !j->split_ranges) {
        if (!images) {
            /* Splits of files are one set of files: the rows of a split are those of its files. */
            int64_t splits_rows[GF_SPLITS_MAX], file = 0;
            j->in.path = j->split_source, j->in.paths = j->decide.splits, j->in.some_names = 1;
            TRY(read_rows(err, j));
            for (int k = 0; k < j->decide.splits; k++) {
                const gf_embedding_input one = {.path = &j->split_source[k], .paths = 1};
                gf_string_list files = {0};
                const glofnd_status status = gf_embedding_paths(err, &one, &files);
                const int64_t first = gf_embeddings_first(j->set, file);
                file += files.n;
                gf_string_list_free(&files);
                TRY(status);
                splits_rows[k] = gf_embeddings_first(j->set, file) - first;
            }
            place_splits(j, splits_rows);
        } else {
            /* The rows of all splits, one after the other. */
            int64_t rows[GF_SPLITS_MAX];
            for (int k = 0; k < j->decide.splits; k++) {
                gf_discover_data part = {0};
                glofnd_status status = load_split(err, j, k, &part);
                rows[k] = part.n;
                if (status == GLOFND_OK) status = gf_discover_append(err, &j->d, &part);
                gf_discover_data_free(&part);
                TRY(status);
            }
            place_splits(j, rows);
        }
    } else {
        if (j->data) TRY(gf_dataset_open(err, j->data, &j->images));
        TRY(images ? rows_of_images(err, j, j->images, &j->d) : read_rows(err, j));
        if (j->data) TRY(describe_rows(err, j));
    }
    TRY(check_splits(err, j));
    if (j->f->labels) TRY(gf_discover_read_labels(err, j->f->labels, j->f->label_column, &j->d));
    if (j->in.label) TRY(gf_row_labels_of_texts(err, &j->label_texts, j->d.n, &j->d.label, &j->d.classes));
    if (j->f->names) TRY(gf_discover_read_names(err, j->f->names, j->in.id, &j->d));
    if (j->in_units) {
        start_stage(j, "rows");
        const glofnd_status status = gf_discover_classify_stream(err, &j->units.source, &j->s.task.watch, &j->d);
        end_stage(j);
        TRY(status);
    } else {
        if (!j->stage) start_stage(j, "rows");
        TRY(gf_discover_classify(err, &j->d));
        if (j->f->center && !j->f->query) TRY(gf_discover_center(err, &j->d, NULL));
        end_stage(j);
    }
    if (images && !j->f->query) TRY(report_memory(err, j, j->d.n, j->d.dim));
    return GLOFND_OK;
}

/* What was not given is as a stored result has it. */
static void take_stored(discover_job *j, const gf_discover_spec *stored) {
    if (j->as_stored.threshold) j->s.alpha = stored->alpha, j->s.k = stored->k;
    if (j->as_stored.dup) j->s.dup_exact = stored->dup_exact, j->s.dup = stored->dup;
}

static glofnd_status load_query(gf_error *err, discover_job *j) {
    FAIL_IF(err, is_run(j->f->query), GLOFND_E_ARGUMENT,
            "--query '%.300s' is a run; it takes embeddings, as `glofnd embed` makes them of a run and images", j->f->query);
    /* A file, folder or pattern beside EMB, read as that is. */
    const char *path = j->f->query;
    gf_embedding_input in = j->in;
    gf_embedding_set *set = NULL;
    in.path = &path, in.paths = 1, in.label = NULL;
    TRY(gf_embeddings_open(err, &in, &set));
    const glofnd_status fits = check_columns(err, j, gf_embeddings_have_columns(set) || gf_embeddings_have_columns(j->set));
    if (fits != GLOFND_OK) {
        gf_embeddings_close(set);
        return fits;
    }
    const glofnd_status status = gf_discover_read_set(err, set, &j->q);
    gf_embeddings_close(set);
    TRY(status);
    if (j->f->query_labels) TRY(gf_discover_read_labels(err, j->f->query_labels, j->f->label_column, &j->q));
    if (j->f->query_names) TRY(gf_discover_read_names(err, j->f->query_names, j->in.id, &j->q));
    TRY(gf_discover_classify(err, &j->q));
    if (j->f->center) {
        FAIL_IF(err, j->q.dim != j->d.dim, GLOFND_E_ARGUMENT, "the new embeddings have %lld dimensions, the stored ones %lld",
                (long long)j->q.dim, (long long)j->d.dim);
        TRY(gf_discover_center(err, &j->d, &j->q));
    }
    gf_discover_spec stored = {0};
    TRY(gf_discover_read_stored(err, j->f->stored, &j->d, &stored, &j->lambda));
    take_stored(j, &stored);
    return GLOFND_OK;
}

/* ----- a stored result ----- */

/* Names and labels are the stored ones unless given. */
static glofnd_status load_stored(gf_error *err, discover_job *j) {
    TRY(check_label_column(err, j));
    if (!j->reads_rows) TRY(check_columns(err, j, 0));
    TRY(gf_stored_result_read(err, j->f->from, &j->old));
    take_stored(j, &j->old.s);
    FAIL_IF(
        err,
        j->old.s.task.only_dup &&
            (!j->as_stored.threshold || j->s.task.below > 0 || j->f->probe || j->f->pred_probs || j->f->rows > 0),
        GLOFND_E_ARGUMENT,
        "'%.300s' has only duplicates (--duplicates): with --from it takes a higher --dup or exact, --keep, --split, --sample, "
        "--names and --labels; --alpha, --k, --negatives, --html, --rows, --probe and --pred-probs need a search without "
        "--duplicates",
        j->f->from);
    j->s.task.only_dup = j->old.s.task.only_dup;
    if (j->s.task.only_dup) j->decide.outliers = 0;
    if (j->as_stored.top) j->s.task.top = j->old.s.task.top;
    if (j->as_stored.max_pairs) j->s.max_pairs = j->old.s.max_pairs;
    if (j->as_stored.format) j->format = j->old.format;
    if (!j->decide.splits) {
        memcpy(j->decide.split, j->old.split, sizeof j->old.split);
        j->decide.splits = j->old.splits;
    }
    const gf_discover_data none = {0};
    j->d = j->old.d, j->old.d = none;
    j->pixels = j->in.paths == 1 && is_data(j->in.path[0]);
    if (j->pixels && !j->data) j->data = j->in.path[0];
    glofnd_status status = j->data ? gf_dataset_open(err, j->data, &j->images) : GLOFND_OK;
    TRY(status);
    if (j->reads_rows) {
        /* The embeddings of the stored result, for decisions that need them. */
        gf_discover_data d = {0};
        if (!j->pixels) TRY(gf_embeddings_open(err, &j->in, &j->set));
        TRY(check_columns(err, j, j->set && gf_embeddings_have_columns(j->set)));
        glofnd_status embeddings_status =
            j->pixels ? measure_pixels(err, j, j->images, &d) : gf_discover_read_set(err, j->set, &d);
        if (embeddings_status == GLOFND_OK) embeddings_status = gf_discover_classify(err, &d);
        if (embeddings_status == GLOFND_OK && j->f->center) embeddings_status = gf_discover_center(err, &d, NULL);
        if (embeddings_status == GLOFND_OK && (d.n != j->d.n || d.dim != j->d.dim || d.crc != j->d.crc))
            embeddings_status = gf_fail(err, GLOFND_E_ARGUMENT, "'%.300s' is the result of other embeddings than '%.300s'",
                                        j->f->from, j->source);
        if (embeddings_status == GLOFND_OK) j->d.x = d.x, d.x = NULL;
        gf_discover_data_free(&d);
        TRY(embeddings_status);
    }
    int32_t *label = j->d.label;
    if (j->f->labels || j->data) j->d.label = NULL;
    if (j->data && !j->f->names) gf_discover_free_names(&j->d);
    if (j->data) status = describe_rows(err, j);
    if (j->f->labels && status == GLOFND_OK) status = gf_discover_read_labels(err, j->f->labels, j->f->label_column, &j->d);
    if (j->f->names && status == GLOFND_OK) status = gf_discover_read_names(err, j->f->names, j->in.id, &j->d);
    j->new_labels = label != j->d.label && (!label || !j->d.label || memcmp(label, j->d.label, (size_t)j->d.n * sizeof *label));
    if (label != j->d.label) free(label);
    TRY(status);
    return check_splits(err, j);
}
/* ---------- the order of work ---------- */

static glofnd_status search(gf_error *err, discover_job *j) {
    start_stage(j, j->f->from ? "deciding again" : j->s.learned ? "thresholds and pairs" : "pairs");
    if (j->f->from) return gf_rethreshold(err, &j->old, &j->s, &j->d, j->new_labels, &j->r);
    const glofnd_status status = j->in_units   ? gf_discover_run_units(err, &j->s, &j->units, &j->d, &j->r)
                                 : j->f->query ? gf_discover_query(err, &j->s, &j->d, j->lambda, &j->q, &j->r)
                                               : gf_discover_run(err, &j->s, &j->d, &j->r);
    end_stage(j);
    if (status != GLOFND_OK || j->f->query || j->f->worker || rank_of(j) > 0) return status;
    const double dup = j->s.dup;
    TRY(gf_discover_fit_dup(err, &j->s, &j->d, &j->r));
    if (!j->quiet && j->s.dup > dup)
        gf_print(stderr, "dup=auto: many rows have ten others of similarity %g; duplicates have %g or more\n", dup, j->s.dup);
    return GLOFND_OK;
}

static glofnd_status load(gf_error *err, discover_job *j) {
    const char *device = j->f->device ? j->f->device : "cpu";
    const int cpu = strcmp(device, "cpu") == 0;
    j->s.search = gf_pairs_search_find(err, device);
    if (!j->s.search) return GLOFND_E_UNSUPPORTED;
    if (j->s.task.probe || (j->s.task.only_dup && cpu)) j->s.search = &gf_pairs_search_cells;
    if (j->s.task.probe && !cpu && !j->quiet)
        gf_print(stderr, "glofnd discover: --approx compares on the CPU; without it the GPU compares all pairs\n");
    gf_error slow = {0};
    if (!j->quiet && j->s.search->check_speed && j->s.search->check_speed(&slow) != GLOFND_OK)
        gf_print(stderr, "glofnd discover: without tensor cores this takes about 40 times as long: %s\n", slow.text);
    TRY(refuse_units(err, j, j->f->from ? "--from" : NULL));
    /* --force must not replace what the query is compared with, or what is decided again. */
    struct stat out, stored;
    const char *read = j->f->stored ? j->f->stored : j->f->from;
    const int same = read && stat(j->f->out, &out) == 0 && stat(read, &stored) == 0 && out.st_dev == stored.st_dev &&
                     out.st_ino == stored.st_ino;
    FAIL_IF(err, same, GLOFND_E_OPTION, "--out is '%.300s', the stored result itself; it takes a folder of its own", j->f->out);
    if (rank_of(j) == 0) {
        const glofnd_status status = gf_output_folder_check(err, j->f->out, j->f->force, &gf_discover_kind);
        /* --resume, and the result is already there: a call that was killed at its very end may have left parts. */
        if (status != GLOFND_OK && j->f->resume && gf_discover_kind.is_result(j->f->out)) {
            name_folder(j);
            gf_unit_folder_remove(j->unit_folder);
        }
        TRY(status);
    }
    TRY(j->f->from ? load_stored(err, j) : load_rows(err, j));
    if (j->f->classes) {
        FAIL_IF(err, !j->d.label, GLOFND_E_OPTION, "--classes names labels: give --labels");
        FAIL_IF(err, j->d.classes.n > 0 && !j->f->from, GLOFND_E_OPTION,
                "--classes names labels that are numbers; these are names already, as '%.60s'",
                gf_string_list_get(&j->d.classes, 0));
        gf_string_list_free(&j->d.classes);
        TRY(gf_row_classes_read(err, j->f->classes, j->d.label, j->d.n, &j->d.classes));
    }
    if (j->f->pred_probs && rank_of(j) == 0) TRY(read_probabilities(err, j));
    FAIL_IF(err, j->f->probe && !j->d.label, GLOFND_E_OPTION, "--probe needs labels: give --labels, --label-column or --data");
    return j->f->query ? load_query(err, j) : GLOFND_OK;
}

/* begun, loaded: the clock before and after load(). */
static glofnd_status finish(gf_error *err, discover_job *j, double begun, double loaded) {
    const double found = gf_clock();
    if (j->in_units) TRY(gf_embeddings_check_unchanged(err, j->set));
    if (j->images) j->page.images[0] = (gf_row_images){j->images, 0}, j->page.image_sets = 1;
    if (!j->f->query) {
        start_stage(j, "decisions");
        TRY(score_rows(err, j));
        TRY(gf_decide(err, &j->decide, &j->s, &j->d, &j->r, &j->decisions));
    }
    const gf_discover_report report = {.source = j->f->from ? j->old.source : j->source,
                                       .query = j->f->query,
                                       .s = &j->s,
                                       .r = &j->r,
                                       .d = &j->d,
                                       .q = j->f->query ? &j->q : &j->d,
                                       .lambda = j->lambda,
                                       .format = j->format,
                                       .decide = &j->decide,
                                       .decisions = j->f->query ? NULL : &j->decisions,
                                       .html = j->f->html ? &j->page : NULL,
                                       .write_html = gf_discover_write_html};
    start_stage(j, "writing");
    TRY(gf_discover_write(err, j->f->out, j->f->force, &report));
    end_attendant(j);
    if (j->in_units) gf_unit_folder_remove(j->unit_folder);
    if (!j->quiet)
        gf_print(stderr, "%s %.1f s, search %.1f s, writing %.1f s\n", j->run && !j->f->from ? "encoding" : "reading",
                 loaded - begun, found - loaded, gf_clock() - found);
    /* A closed stdout (main.c has put something there that cannot be written) asks for no summary; summary.txt has it. */
    if ((fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) return GLOFND_OK;
    gf_text text = {0};
    gf_discover_summary(&text, &report);
    if (text.at) gf_print_lines(stdout, text.at);
    if (text.at) gf_print(stdout, "written to  %s%s\n", j->f->out, j->f->html ? ": open index.html in a browser" : "");
    gf_text_free(&text);
    return GLOFND_OK;
}

/* Over ranks all load, and search together; the first one writes. */
static glofnd_status discover(gf_error *err, discover_job *j) {
    const double begun = gf_clock();
    TRY(join_ranks(err, j));
    TRY(agree(err, j, load(err, j)));
    const double loaded = gf_clock();
    TRY(search(err, j));
    if (j->f->worker) {
        TRY(gf_embeddings_check_unchanged(err, j->set));
        gf_print(stdout, "all parts are in %s; the same command with --resume instead of --worker writes %s\n", j->unit_folder,
                 j->f->out);
        return GLOFND_OK;
    }
    return agree(err, j, rank_of(j) == 0 ? finish(err, j, begun, loaded) : GLOFND_OK);
}

/* ---------- flags ---------- */

#define F discover_flags
static const gf_option rows[] = {
    CLI_STRING(F, out, "out", "DIR", "output folder; it appears when it is complete"),
    CLI_NUMBER(F, alpha, "alpha", "A", "0.01", 1e-12, 1.0 - 1e-12, 0, "fraction of the other rows above an anchor's threshold"),
    CLI_COUNT(F, k, "k", "K", NULL, 1, 2147483645.0, "flag the K nearest rows of each anchor instead of a fraction --alpha"),
    CLI_COUNT(F, top, "top", "N", "20", 0, 1e6, "list at most N per anchor, most similar first"),
    CLI_COUNT(F, max_pairs, "max-pairs", "N", "1e7", 1, 1e15, "list at most N pairs in total, the most similar ones"),
    CLI_STRING(F, dup, "dup", "S",
               "minimum similarity of near duplicates, or \"exact\": only equal rows; default \"auto\": 0.98, or more if the "
               "embeddings are that dense"),
    CLI_SWITCH(F, duplicates, "duplicates",
               "find only duplicates, in less than n^2 time: no thresholds, pairs or components; helps with a --dup near 1"),
    CLI_COUNT(F, approx, "approx", "P", NULL, 1, 65536,
              "approximate: compare an anchor only with the rows of its P nearest cells; the recall is measured"),
    CLI_STRING(F, keep, "keep", "RULE",
               "which row of a group of duplicates to keep: first (default), central, largest (image), label (the most frequent) "
               "or score:FILE"),
    CLI_COUNT(F, rows, "rows", "N", NULL, 1, 2147483645.0,
              "keep N rows: duplicates are removed at the similarity that this takes, instead of --dup"),
    CLI_STRINGS(
        F, split, "split", "NAME=SPEC",
        "find leaks between splits: embedding files, data of the run, or rows FIRST:END of EMB; earlier splits keep their rows"),
    CLI_COUNT(F, negatives, "negatives", "K", NULL, 1, GF_BELOW_MAX, "also list the K most similar rows below each threshold"),
    CLI_COUNT(F, outliers, "outliers", "N", "1000", 0, 1e9, "list the N rows that are least similar to their nearest neighbours"),
    CLI_SWITCH(F, graph, "graph", "also graph.npz: the listed neighbours as a sparse matrix for SciPy"),
    CLI_STRING(
        F, format, "format", "NAME",
        "format of the tables: tsv (default), parquet (for pandas, pyarrow and Spark) or jsonl (tsv, and pairs.jsonl); with "
        "--from: as before"),
    CLI_STRING(F, labels, "labels", "Y.npy",
               "int [samples]: precision and recall of the pairs found; or Parquet files or tables with --label-column"),
    CLI_STRING(F, classes, "classes", "FILE", "names of classes 0, 1, 2 ..., one per line, for labels that are numbers"),
    CLI_STRING(F, pred_probs, "pred-probs", "P.npy",
               "float [samples][labels]: a classifier's out-of-sample probabilities; label issues by confident learning"),
    CLI_SWITCH(F, center, "center", "subtract the mean of all rows first; helps if all embeddings point in nearly one direction"),
    CLI_SWITCH(F, probe, "probe",
               "label issues also by a linear classifier on the embeddings, which predicts each row by the others"),
    CLI_STRING(F, names, "names", "FILE", "a name per line, for the tables; or Parquet files or tables with the column of --id"),
    CLI_STRING(F, tensor, "tensor", "NAME", "tensor of a .safetensors file; default: the only one with two axes"),
    CLI_STRING(F, column, "column", "NAME", "column of embeddings in Parquet files and tables; default: the only one that fits"),
    CLI_STRING(F, id, "id", "NAME", "column of row names in Parquet files and tables; default: a table's column of text"),
    CLI_STRING(F, label_column, "label-column", "NAME",
               "column of labels (integers or class names) in Parquet files and tables, or in --labels FILES"),
    CLI_STRING(F, data, "data", "SPEC",
               "images of a run, or of the rows of EMB (for labels, names and --html), as in `glofnd pretrain`"),
    CLI_SWITCH(F, html, "html",
               "also write DIR/index.html, a page to browse duplicates, components and neighbours; not with --query"),
    CLI_NUMBER(F, html_mb, "html-mb", "N", "32", 0.1, 1000, 0, "size limit in MB for the thumbnails of the page"),
    CLI_SWITCH(F, head, "head", "with a run: projections of the head instead of features of the backbone"),
    CLI_STRING(F, query, "query", "NEW", "new embeddings, against EMB and its stored result"),
    CLI_STRING(F, stored, "stored", "DIR", "stored result of EMB, for --query"),
    CLI_STRING(
        F, from, "from", "DIR",
        "decide again from the neighbours of that result, with the settings given here and else its own; without a search"),
    CLI_STRING(F, query_names, "query-names", "FILE", "names of the new embeddings"),
    CLI_STRING(F, query_labels, "query-labels", "Y.npy", "labels of the new embeddings"),
    CLI_SWITCH(F, learned, "learned", "also learn thresholds as training does, and report their error; not with --query"),
    CLI_COUNT(F, batch, "batch", "N", "1024", 2, 16384, "batch size (with --learned)"),
    CLI_COUNT(F, epochs, "epochs", "N", "20", 1, 100000, "epochs (with --learned)"),
    CLI_COUNT(F, sample, "sample", "N", "1000", 1, 1e9,
              "choose a diverse subset of N kept rows; with --learned: measure the error on N anchors"),
    CLI_COUNT(F, seed, "seed", "N", "1", 0, 4294967295.0, "seed for the batches of --learned and for --sample"),
    CLI_STRING(F, device, "device", "NAME", "cpu (default) or cuda: the same result, faster; also moves the encoder of a run"),
    CLI_NUMBER(F, memory, "memory", "GB", NULL, 0.001, 1e6, 0,
               "memory limit for candidate lists and embeddings; a lower limit takes more passes; default: half of the machine"),
    CLI_COUNT(F, threads, "threads", "N", NULL, 1, 1024,
              "number of threads; default: as OpenMP chooses, for the encoder of a run as the run was trained"),
    CLI_SWITCH(
        F, resume, "resume",
        "keep finished parts in DIR.partial: after a kill the same command continues; takes two to four times the products"),
    CLI_SWITCH(F, worker, "worker",
               "only compute parts in DIR.partial, together with other workers; then the same command with --resume writes DIR"),
    CLI_NUMBER(F, rank_timeout, "rank-timeout", "S", "120", 0, 1e6, 0,
               "end all ranks if one does not answer for S seconds; replace such a worker; 0: never"),
    CLI_SWITCH(F, force, "force", "replace an earlier result"),
    CLI_SWITCH(F, quiet, "quiet", "no progress"),
};

/* ----- what does not go together ----- */

/* What a call asks for, as bits. Four commands share one verb: a search of EMB, --duplicates, --query and --from. */
enum {
    ALPHA = 1 << 0,
    K = 1 << 1,
    LEARNED = 1 << 2,
    LEARNER = 1 << 3,
    QUERY = 1 << 4,
    STORED = 1 << 5,
    QUERY_ROWS = 1 << 6,
    FROM = 1 << 7,
    DUPLICATES = 1 << 8,
    APPROX = 1 << 9,
    HTML = 1 << 10,
    HTML_MB = 1 << 11,
    HEAD = 1 << 12,
    RUN = 1 << 13,
    DECIDES = 1 << 14,
    NEGATIVES = 1 << 15,
    NEEDS_ROWS = 1 << 16,
    EMB = 1 << 17,
    SOURCE = 1 << 18,
    OUT = 1 << 19,
    LABEL_COLUMN = 1 << 20,
    LABELS = 1 << 21,
    SPLIT = 1 << 22,
    DATA = 1 << 23,
    PRED_PROBS = 1 << 24,
    WORKER = 1 << 25,
    RESUME = 1 << 26,
    PROBE = 1 << 27,
    ROWS = 1 << 28,
    CLASSES = 1 << 29
};

/* A call is wrong if it asks for all of `all`, one of `any` (0: whatever) and none of `without`. The first that fits is reported. */
static const struct {
    unsigned all, any, without;
    const char *why;
} wrong_calls[] = {
    {0, 0, SOURCE, "EMB is needed: a file of embeddings, images as folder:DIR, or the folder of a run"},
    {ALPHA | K, 0, 0, "--alpha and --k exclude each other"},
    {0, 0, OUT, "--out is needed: the folder of the result"},
    {QUERY, 0, STORED, "--query and --stored go together"},
    {STORED, 0, QUERY, "--query and --stored go together"},
    {QUERY | LEARNED, 0, 0, "--learned does not go with --query"},
    {QUERY_ROWS, 0, QUERY, "--query-names and --query-labels go with --query"},
    {HEAD, 0, RUN, "--head goes with a run"},
    {QUERY | HTML, 0, 0, "--html does not go with --query: the page is of EMB alone"},
    {HTML_MB, 0, HTML, "--html-mb goes with --html"},
    {LEARNER, 0, LEARNED, "--batch and --epochs go with --learned"},
    {QUERY | DECIDES, 0, 0, "--keep, --split, --negatives, --sample and --graph do not go with --query"},
    {NEGATIVES | LEARNED, 0, 0, "--negatives needs exact thresholds; it does not go with --learned"},
    {FROM, QUERY | STORED | LEARNED | HEAD, 0, "--from does not go with --query, --stored, --learned and --head"},
    {FROM | NEEDS_ROWS, 0, EMB, "--keep central, --sample and --probe need the embeddings: glofnd discover EMB --from DIR"},
    {DUPLICATES, ALPHA | K | NEGATIVES | LEARNED | QUERY | FROM | HTML, 0,
     "--duplicates has no thresholds: it does not go with --alpha, --k, --negatives, --learned, --query, --from, --html"},
    {APPROX, DUPLICATES | LEARNED | QUERY | FROM, 0, "--approx does not go with --duplicates, --learned, --query and --from"},
    {PRED_PROBS | PROBE, 0, 0, "--pred-probs and --probe exclude each other"},
    {PROBE, DUPLICATES | QUERY, 0, "--probe decides on label issues: it does not go with --duplicates and --query"},
    {PRED_PROBS, DUPLICATES | QUERY, 0, "--pred-probs decides on label issues: it does not go with --duplicates and --query"},
    {WORKER | RESUME, 0, 0, "--worker computes parts, --resume writes the result: give one of them"},
    {LABEL_COLUMN | FROM, 0, LABELS, "--label-column goes with --labels FILES here: --from reads no EMB"},
    {ROWS, DUPLICATES | QUERY | APPROX, 0,
     "--rows needs the neighbours of all rows: not with --duplicates, --query and --approx"},
    {CLASSES, 0, LABELS | LABEL_COLUMN | FROM, "--classes names the labels of --labels or --label-column"},
    {SPLIT | DATA, 0, 0, "--split and --data exclude each other: with a run, each split has its own data"},
};

static int check_flags(const cli_call *call, const discover_flags *f) {
    const int sample = cli_given(call, "sample") && !f->learned, central = f->keep && strcmp(f->keep, "central") == 0;
    const struct {
        int given;
        unsigned bit;
    } facts[] = {
        {cli_given(call, "alpha"), ALPHA},
        {f->k > 0, K},
        {f->learned, LEARNED},
        {cli_given(call, "batch") || cli_given(call, "epochs"), LEARNER},
        {f->query != NULL, QUERY},
        {f->stored != NULL, STORED},
        {f->query_names || f->query_labels, QUERY_ROWS},
        {f->from != NULL, FROM},
        {f->duplicates, DUPLICATES},
        {f->approx > 0, APPROX},
        {f->html, HTML},
        {cli_given(call, "html-mb"), HTML_MB},
        {f->head, HEAD},
        {f->data || (call->words && is_run(call->word[0])), RUN},
        {f->keep || f->split.count || f->negatives || f->graph || sample, DECIDES},
        {f->negatives > 0, NEGATIVES},
        {central || cli_given(call, "sample") || f->probe, NEEDS_ROWS},
        {call->words > 0, EMB},
        {call->words || f->split.count || f->from, SOURCE},
        {f->out != NULL, OUT},
        {f->label_column != NULL, LABEL_COLUMN},
        {f->labels != NULL, LABELS},
        {f->split.count > 0, SPLIT},
        {f->data != NULL, DATA},
        {f->pred_probs != NULL, PRED_PROBS},
        {f->worker, WORKER},
        {f->resume, RESUME},
        {f->probe, PROBE},
        {f->rows > 0, ROWS},
        {f->classes != NULL, CLASSES},
    };
    unsigned asked = 0;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i].given) asked |= facts[i].bit;
    for (size_t i = 0; i < sizeof wrong_calls / sizeof *wrong_calls; i++) {
        const unsigned all = wrong_calls[i].all, any = wrong_calls[i].any;
        if ((asked & all) == all && (!any || asked & any) && !(asked & wrong_calls[i].without))
            return cli_misused(call, "%s", wrong_calls[i].why);
    }
    return CLI_OK;
}

/* ----- flags become settings ----- */

static int read_settings(const cli_call *call, const discover_flags *f, discover_job *j) {
    const int stored = f->stored || f->from;
    const double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    j->as_stored.threshold = stored && !cli_given(call, "alpha") && !f->k;
    j->as_stored.dup = stored && !f->dup;
    j->as_stored.top = !cli_given(call, "top");
    j->as_stored.max_pairs = !cli_given(call, "max-pairs");
    j->as_stored.format = !f->format;
    j->s = (gf_discover_spec){
        .alpha = f->alpha,
        .k = f->k,
        .max_pairs = f->max_pairs,
        .dup_exact = f->dup && strcmp(f->dup, "exact") == 0,
        .dup = 0.98,
        .dup_fits = f->dup ? strcmp(f->dup, "auto") == 0 : !stored,
        .learned = f->learned,
        .batch = f->batch,
        .epochs = f->epochs,
        .sample = f->sample,
        .seed = (uint64_t)f->seed,
        .task = {.top = f->top,
                 .below = GF_MAX(f->negatives, f->html ? GF_PAGE_BELOW : 0),
                 .memory = (size_t)(f->memory > 0.0 ? 1e9 * f->memory
                                    : machine > 0.0 ? 0.5 * machine
                                                    : 2e9),
                 .only_dup = f->duplicates,
                 .probe = f->approx,
                 .threads = f->threads > 0 ? (int)f->threads : gf_parallel_default()},
    };
    if (f->dup && !j->s.dup_exact && !j->s.dup_fits &&
        (gf_number_read(f->dup, &j->s.dup) || !(j->s.dup >= -1.0 && j->s.dup <= 1.0)))
        return cli_misused(call, "--dup: \"%s\"; expected a number in [-1, 1], exact or auto", f->dup);
    static const char *const formats[] = {"tsv", "parquet", "jsonl"}; /* by gf_table_format */
    for (int k = 0; k < 3; k++)
        if (f->format && strcmp(f->format, formats[k]) == 0) j->format = (gf_table_format)k;
    if (f->format && strcmp(f->format, formats[j->format]) != 0)
        return cli_misused(call, "--format: \"%s\"; expected tsv, parquet or jsonl", f->format);
    int code = f->device ? device_flags_check("discover", f->device) : CLI_OK;
    j->split_ranges = f->from || (call->words > 0 && !is_run(call->word[0]));
    if (code == CLI_OK) code = read_decisions(call, j);
    j->decide.most = f->rows, j->decide.probe = f->probe;
    j->decide.negatives = f->negatives, j->decide.graph = f->graph;
    j->decide.outliers = f->duplicates ? 0 : f->outliers;
    j->decide.sample = cli_given(call, "sample") && !f->learned ? f->sample : 0;
    j->reads_rows = j->decide.sample > 0 || j->decide.keep == GF_KEEP_CENTRAL || f->probe || (f->from && call->words > 0);
    j->s.keep_rows = j->reads_rows || !f->query; /* rows with more duplicates than are listed are compared again */
    return code;
}

static int run_discover(const cli_call *call, const void *flags) {
    const discover_flags *f = flags;
    gf_error err = {{0}};
    discover_job j = {.f = f,
                      .quiet = f->quiet,
                      .data = f->data,
                      .in = {.path = (const char *const *)call->word,
                             .paths = call->words,
                             .tensor = f->tensor,
                             .column = f->column,
                             .id = f->id,
                             .label = f->labels || f->query_labels || f->from ? NULL : f->label_column},
                      .page.bytes = (size_t)(1e6 * f->html_mb)};
    int code;
    if ((code = read_settings(call, f, &j)) || (code = check_flags(call, f))) return code;
    /* EMB in words, for summaries: "a.npy and 2 more"; of splits that are sources "train=a.npy test=b.npy". */
    const gf_option_strings *split = &j.f->split;
    const int more = j.in.paths - 1;
    size_t used = 0;
    if (more > 0) snprintf(j.source, sizeof j.source, "%.200s and %d more", j.in.path[0], more);
    else if (more == 0) snprintf(j.source, sizeof j.source, "%.250s", j.in.path[0]);
    for (int k = 0; more < 0 && k < split->count && used < sizeof j.source; k++)
        used += (size_t)snprintf(j.source + used, sizeof j.source - used, "%s%s", k ? " " : "", split->at[k]);
    gf_utf8_trim(j.source);
    cli_catch_interrupts(NULL);
    start_attendant(&j);
    const glofnd_status status = discover(&err, &j);
    end_attendant(&j);
    gf_discover_result_free(&j.r);
    gf_discover_data_free(&j.d);
    gf_discover_data_free(&j.q);
    gf_embeddings_close(j.set);
    gf_string_list_free(&j.label_texts);
    gf_dataset_free(j.images);
    for (int k = 0; k < GF_SPLITS_MAX; k++) gf_dataset_free(j.split_images[k]);
    gf_decisions_free(&j.decisions);
    gf_stored_result_free(&j.old);
    free(j.score);
    free(j.pred_probs);
    free(j.lambda);
    /* The exit code; over ranks the first one says what happened. */
    code = status == GLOFND_OK ? CLI_OK : CLI_FAILED;
    if (status != GLOFND_OK && rank_of(&j) == 0) {
        if (!atomic_load(&cli_interrupted)) code = cli_failed("discover", status, &err);
        else report_stop(&j);
    }
    /* waits for all ranks: one that returned earlier would end the first one before it reports */
    gf_dist_close(j.comm);
    return code;
}

const cli_verb cmd_discover = {
    .brief = "out alpha k dup keep split labels names data html query stored device force",
    .name = "discover",
    .summary = "find duplicates, leaks, label errors and false negatives in embeddings or images",
    .usage = "glofnd discover EMB ... --out DIR [--alpha A | --k K] [--labels Y.npy] [--names FILE] ...\n"
             "       glofnd discover folder:DIR --out DIR ...     near duplicates of images, without a network\n"
             "       glofnd discover RUN [--data SPEC] --out DIR ...\n"
             "       glofnd discover EMB --query NEW --stored DIR --out DIR2 ...\n"
             "       glofnd discover --split train=A.npy --split test=B.npy --out DIR ...     leaks between splits\n"
             "       glofnd discover RUN --split train=SPEC --split test=SPEC --out DIR ...\n"
             "       glofnd discover [EMB] --from DIR --dup 0.95 --out DIR2 ...     decide again, without a search\n"
             "       glofnd discover EMB --data SPEC --html --out DIR ...     a page to look at: DIR/index.html\n"
             "EMB, NEW: [samples][numbers] as .npy, .safetensors, Parquet, .csv or .tsv files, folders or patterns of them",
    CLI_FLAGS(rows, discover_flags),
    .word = "EMB",
    .word_help = "embedding files, folders or patterns of them (\"emb_{000..099}.npy\"); data as folder:DIR, cifar100:DIR, "
                 "mnist:DIR, compared by 8 x 8 x 3 means of pixels; or the folder of a run",
    .min_words = 0,
    .max_words = -1,
    .run = run_discover,
};
