/* cmd_discover.c - glofnd discover: false negatives and duplicates in any embeddings. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/device_flags.h"
#include "cli/interrupt.h"
#include "cli/verbs/discover_decide.h"
#include "data/embedding_files.h"
#include "io/file.h"
#include "report/explorer/discover_page.h"
#include "run/layout.h"
#include "run/progress.h"
#include "util/clock.h"
#include "util/minmax.h"
#include "util/parallel.h"
#include "util/path.h"
#include "util/strings/number_text.h"
#include "util/strings/utf8.h"

enum { PROGRESS_STEPS = 1000000 };

typedef struct discover_job {
    gf_encoder_device where; /* as given; the device is also that of the search */
    gf_embedding_input in;   /* EMB: files, folders, patterns */
    gf_embedding_set *set;
    char source[256]; /* EMB in words */
    const char *data, *labels, *names, *query, *query_names, *query_labels, *stored, *out;
    int head, force, quiet, html, run; /* run: source is one, to encode images with */
    gf_discover_html page;
    gf_dataset *images;
    gf_dataset *split_images[GF_SPLITS_MAX];
    cli_decide decide;
    gf_decisions decisions;
    gf_discover_spec s;
    gf_progress line;
    gf_discover_data d, q;
    gf_discover_result r;
    float *lambda; /* stored thresholds */
} discover_job;

/* ----- progress ----- */

static void draw(void *user, const char *stage, double share) {
    discover_job *j = user;
    char text[80];
    snprintf(text, sizeof text, "%s: %.1f %%", stage, 100.0 * share);
    gf_progress_draw(&j->line, (int64_t)(share * PROGRESS_STEPS), PROGRESS_STEPS, text, share >= 1.0);
}

static void start(discover_job *j, const char *stage) {
    j->line = gf_progress_start(0, j->quiet ? GF_PROGRESS_QUIET : cli_progress_mode());
    j->s.watch = (gf_job_progress){.progress = draw, .user = j, .stage = stage, .stop = &cli_interrupted};
}

typedef char amount[24];

/* Three digits, and the unit they need. */
static const char *amount_of(amount out, double bytes) {
    const char *unit = bytes >= 1e9 ? "GB" : bytes >= 1e6 ? "MB" : "kB";
    const double x = bytes / (bytes >= 1e9 ? 1e9 : bytes >= 1e6 ? 1e6 : 1e3);
    snprintf(out, sizeof(amount), "%.*f %s", x < 10.0 ? 2 : x < 100.0 ? 1 : 0, x, unit);
    return out;
}

/* Reports the memory that will be taken, before it is. */
static glofnd_status report_memory(gf_error *err, const discover_job *j, int64_t n, int64_t dim) {
    int64_t rank = 0;
    TRY(gf_discover_rank(err, &j->s, n, &rank));
    const gf_pairs_plan p = gf_discover_plan_for(&j->s, n, dim, rank);
    const double raw = 4.0 * (double)n * (double)dim, work = (double)(p.lists + p.results + p.scratch);
    const double most = (double)p.rows + (j->s.learned || j->s.keep_rows ? raw + work : fmax(raw, work));
    amount a, b, c;
    if (!j->quiet && p.device)
        gf_print(stderr, "%lld x %lld: at most %s on the GPU (CUDA itself takes some 0.5 GB more) and %s of memory, %.3g pairs\n",
                 (long long)n, (long long)dim, amount_of(a, (double)p.device), amount_of(b, most),
                 0.5 * (double)n * (double)(n - 1));
    else if (!j->quiet)
        gf_print(stderr, "%lld x %lld: at most %s of memory (%s embeddings, %s lists), %d pass%s over %.3g pairs\n", (long long)n,
                 (long long)dim, amount_of(a, most), amount_of(b, (double)p.rows), amount_of(c, (double)p.lists), p.passes,
                 p.passes > 1 ? "es" : "", 0.5 * (double)n * (double)(n - 1));
    FAIL_IF(err, p.lists > j->s.memory, GLOFND_E_MEMORY,
            "the lists of the %lld most similar of %lld anchors take %s; --memory allows %s: raise it, or lower --top",
            (long long)j->s.top, (long long)n, amount_of(a, (double)p.lists), amount_of(b, (double)j->s.memory));
    return GLOFND_OK;
}

/* ----- embeddings of a run ----- */

static void report_unreadable(void *user, int64_t i, const char *message) {
    (void)user;
    gf_print(stderr, "glofnd discover: sample %lld is left out: %s\n", (long long)i, message);
}

static void encoded(void *user, int64_t done, int64_t total) {
    const discover_job *j = user;
    gf_job_report(&j->s.watch, (double)done / (double)total);
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
        gf_utf8_clean(name, ' ');
        d->name[i] = name;
    }
    return GLOFND_OK;
}

static glofnd_status take_labels(gf_error *err, const gf_dataset *data, gf_discover_data *d) {
    d->label = malloc((size_t)d->n * sizeof *d->label);
    FAIL_IF(err, !d->label, GLOFND_E_MEMORY, "no memory for labels");
    for (int64_t i = 0; i < d->n; i++) d->label[i] = gf_dataset_label(data, i);
    return GLOFND_OK;
}

/* Unreadable samples keep their row, of zeros, so that rows are positions in the dataset. */
static glofnd_status encode(gf_error *err, discover_job *j, const gf_dataset *images, gf_discover_data *d) {
    gf_run_encoder *e = NULL;
    gf_features f = {0};
    const gf_encode_spec spec = {.aligned = 1, .unreadable = report_unreadable, .progress = encoded, .user = j};
    start(j, "images");
    const gf_run_encoder_spec run = {.run = j->in.path[0], .head = j->head, .placement = j->where};
    glofnd_status status = device_flags_open(err, "discover", &run, &e);
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, images, &spec, &f);
    gf_progress_end(&j->line);
    if (status == GLOFND_OK) {
        d->n = f.n, d->dim = f.dim, d->x = f.x;
        f.x = NULL;
    }
    gf_features_free(&f);
    gf_run_encoder_free(e);
    return status;
}

/* Labels and names of the dataset, unless files have them. */
static glofnd_status describe_rows(gf_error *err, discover_job *j) {
    const gf_dataset_info info = gf_dataset_describe(j->images);
    FAIL_IF(err, info.n != j->d.n, GLOFND_E_ARGUMENT,
            "%.200s has %lld images, '%.200s' %lld embeddings; row i must be of image i", j->data, (long long)info.n, j->source,
            (long long)j->d.n);
    if (!j->labels && info.classes > 0) TRY(take_labels(err, j->images, &j->d));
    return j->names ? GLOFND_OK : take_names(err, j->images, "", &j->d);
}

/* ----- the job ----- */

/* A folder is a run if it has a configuration; else its files are embeddings. */
static int is_run(const char *path) {
    char config[PATH_MAX];
    return gf_is_folder(path) && gf_path_join(NULL, config, path, GF_CONFIG_FILE) == GLOFND_OK && access(config, F_OK) == 0;
}

/* EMB in words, for summaries: "a.npy and 2 more"; of splits that are sources "train=a.npy test=b.npy". */
static void name_source(discover_job *j, const gf_option_strings *split) {
    const int more = j->in.paths - 1;
    size_t used = 0;
    if (more > 0) snprintf(j->source, sizeof j->source, "%.200s and %d more", j->in.path[0], more);
    else if (more == 0) snprintf(j->source, sizeof j->source, "%.250s", j->in.path[0]);
    for (int k = 0; more < 0 && k < split->count && used < sizeof j->source; k++)
        used += (size_t)snprintf(j->source + used, sizeof j->source - used, "%s%s", k ? " " : "", split->at[k]);
    gf_utf8_trim(j->source);
}

/* A file, folder or pattern beside EMB, read as that is. */
static glofnd_status read_files(gf_error *err, const discover_job *j, const char *path, gf_discover_data *d) {
    gf_embedding_input in = j->in;
    gf_embedding_set *set = NULL;
    in.path = &path, in.paths = 1;
    TRY(gf_embeddings_open(err, &in, &set));
    const glofnd_status status = gf_discover_read_set(err, set, d);
    gf_embeddings_close(set);
    return status;
}

static glofnd_status read_rows(gf_error *err, discover_job *j) {
    TRY(gf_embeddings_open(err, &j->in, &j->set));
    if (!j->query) TRY(report_memory(err, j, gf_embeddings_rows(j->set), gf_embeddings_dim(j->set)));
    return gf_discover_read_set(err, j->set, &j->d);
}

/* One split: a dataset that the run encodes, or a file of embeddings. */
static glofnd_status load_split(gf_error *err, discover_job *j, int k, gf_discover_data *part) {
    const char *spec = j->decide.split[k];
    if (!j->run) return read_files(err, j, spec, part);
    TRY(gf_dataset_open(err, spec, &j->split_images[k]));
    TRY(encode(err, j, j->split_images[k], part));
    if (gf_dataset_describe(j->split_images[k]).classes == gf_dataset_describe(j->split_images[0]).classes)
        TRY(take_labels(err, j->split_images[k], part));
    j->page.images[k] = (gf_row_images){j->split_images[k], j->d.n};
    j->page.image_sets = k + 1;
    return take_names(err, j->split_images[k], j->decide.spec.split[k].name, part);
}

/* The rows of all splits, one after the other. */
static glofnd_status load_splits(gf_error *err, discover_job *j) {
    int64_t rows[GF_SPLITS_MAX];
    for (int k = 0; k < j->decide.spec.splits; k++) {
        gf_discover_data part = {0};
        glofnd_status status = load_split(err, j, k, &part);
        rows[k] = part.n;
        if (status == GLOFND_OK) status = gf_discover_append(err, &j->d, &part);
        gf_discover_data_free(&part);
        TRY(status);
    }
    cli_decide_place(&j->decide, rows);
    return GLOFND_OK;
}

static glofnd_status load_sources(gf_error *err, discover_job *j) {
    if (j->decide.spec.splits && !j->decide.ranges) return load_splits(err, j);
    if (j->data) TRY(gf_dataset_open(err, j->data, &j->images));
    TRY(j->run ? encode(err, j, j->images, &j->d) : read_rows(err, j));
    return j->data ? describe_rows(err, j) : GLOFND_OK;
}

static glofnd_status load(gf_error *err, discover_job *j) {
    const int sources = j->decide.spec.splits && !j->decide.ranges;
    j->run = j->in.paths > 0 && is_run(j->in.path[0]);
    FAIL_IF(err, j->run && !j->data && !sources, GLOFND_E_ARGUMENT, "'%.250s' is a run; --data names its images", j->in.path[0]);
    FAIL_IF(err, j->run && j->in.paths > 1, GLOFND_E_ARGUMENT, "'%.250s' is a run; it must be the only one", j->in.path[0]);
    FAIL_IF(err, j->head && !j->run, GLOFND_E_ARGUMENT, "--head goes with a run; '%.300s' is a file of embeddings", j->source);
    TRY(load_sources(err, j));
    TRY(cli_decide_check(err, &j->decide, j->d.n));
    if (j->labels) TRY(gf_discover_read_labels(err, j->labels, &j->d));
    if (j->names) TRY(gf_discover_read_names(err, j->names, &j->d));
    TRY(gf_discover_classify(err, &j->d));
    if ((j->run || sources) && !j->query) TRY(report_memory(err, j, j->d.n, j->d.dim));
    return GLOFND_OK;
}

static glofnd_status load_query(gf_error *err, discover_job *j) {
    FAIL_IF(err, is_run(j->query), GLOFND_E_ARGUMENT,
            "--query '%.300s' is a run; it takes embeddings, as `glofnd embed` makes them of a run and images", j->query);
    TRY(read_files(err, j, j->query, &j->q));
    if (j->query_labels) TRY(gf_discover_read_labels(err, j->query_labels, &j->q));
    if (j->query_names) TRY(gf_discover_read_names(err, j->query_names, &j->q));
    TRY(gf_discover_classify(err, &j->q));
    return gf_discover_read_stored(err, j->stored, &j->d, &j->s, &j->lambda);
}

static glofnd_status search(gf_error *err, discover_job *j) {
    start(j, j->s.learned ? "thresholds and pairs" : "pairs");
    const glofnd_status status =
        j->query ? gf_discover_query(err, &j->s, &j->d, j->lambda, &j->q, &j->r) : gf_discover_run(err, &j->s, &j->d, &j->r);
    gf_progress_end(&j->line);
    return status;
}

/* --force must not replace what the query is compared with. */
static glofnd_status check_apart(gf_error *err, const discover_job *j) {
    struct stat out, stored;
    const int same = j->stored && stat(j->out, &out) == 0 && stat(j->stored, &stored) == 0 && out.st_dev == stored.st_dev &&
                     out.st_ino == stored.st_ino;
    FAIL_IF(err, same, GLOFND_E_OPTION, "--out is '%.300s', the stored result itself; it takes a folder of its own", j->out);
    return GLOFND_OK;
}

static glofnd_status discover(gf_error *err, discover_job *j) {
    j->s.pass = gf_pairs_search_find(err, j->where.device ? j->where.device : "cpu");
    if (!j->s.pass) return GLOFND_E_UNSUPPORTED;
    TRY(check_apart(err, j));
    TRY(gf_output_folder_check(err, j->out, j->force, &gf_discover_kind));
    const double begun = gf_clock();
    TRY(load(err, j));
    if (j->query) TRY(load_query(err, j));
    const double loaded = gf_clock();
    TRY(search(err, j));
    const double found = gf_clock();
    if (j->images) j->page.images[0] = (gf_row_images){j->images, 0}, j->page.image_sets = 1;
    if (!j->query) {
        TRY(cli_decide_scores(err, &j->decide, &j->d, &j->r, &j->page));
        TRY(gf_decide(err, &j->decide.spec, &j->s, &j->d, &j->r, &j->decisions));
    }
    const gf_discover_report report = {.source = j->source,
                                       .query = j->query,
                                       .s = &j->s,
                                       .r = &j->r,
                                       .d = &j->d,
                                       .q = j->query ? &j->q : &j->d,
                                       .lambda = j->lambda,
                                       .decide = &j->decide.spec,
                                       .decisions = j->query ? NULL : &j->decisions,
                                       .html = j->html ? &j->page : NULL,
                                       .write_html = gf_discover_write_html};
    TRY(gf_discover_write(err, j->out, j->force, &report));
    if (!j->quiet)
        gf_print(stderr, "%s %.1f s, search %.1f s, writing %.1f s\n", j->run ? "encoding" : "reading", loaded - begun,
                 found - loaded, gf_clock() - found);
    gf_text text = {0};
    gf_discover_summary(&text, &report);
    if (text.at) gf_print_lines(stdout, text.at);
    if (text.at) gf_print(stdout, "written to  %s%s\n", j->out, j->html ? ": open index.html in a browser" : "");
    gf_text_free(&text);
    return GLOFND_OK;
}

/* ----- flags ----- */

typedef struct discover_flags {
    const char *keep;
    gf_option_strings split;
    const char *out, *dup, *labels, *names, *tensor, *column, *id, *data, *query, *stored, *query_names, *query_labels, *device;
    double alpha, html_mb, memory;
    int64_t k, top, max_pairs, batch, epochs, sample, seed, threads, negatives, outliers;
    int32_t graph, html, head, learned, force, quiet;
} discover_flags;

#define F discover_flags
static const gf_option rows[] = {
    CLI_STRING(F, out, "out", "DIR", "folder of the result; it is written whole or not at all"),
    CLI_NUMBER(F, alpha, "alpha", "A", "0.01", 1e-12, 1.0 - 1e-12, 0,
               "share of the others that lies above an anchor's threshold"),
    CLI_COUNT(F, k, "k", "K", NULL, 1, 2147483645.0, "instead: how many of them"),
    CLI_COUNT(F, top, "top", "N", "20", 0, 1e6, "list so many of them at most, the most similar ones"),
    CLI_COUNT(F, max_pairs, "max-pairs", "N", "1e7", 1, 1e15, "list so many in all at most, the most similar ones"),
    CLI_STRING(F, dup, "dup", "S", "similarity of near duplicates (0.98; as --stored has it), or \"exact\": only equal rows"),
    CLI_STRING(F, keep, "keep", "RULE",
               "of duplicates keep the first (default), central, largest (image), label (the most frequent) or score:FILE one"),
    CLI_STRINGS(
        F, split, "split", "NAME=SPEC",
        "leaks between splits, each a file of embeddings, data of the run, or rows FIRST:END of EMB; earlier ones are kept"),
    CLI_COUNT(F, negatives, "negatives", "K", NULL, 1, GF_PAIRS_EDGE,
              "also the K most similar others of each that are not above"),
    CLI_COUNT(F, outliers, "outliers", "N", "1000", 0, 1e9, "list so many rows whose nearest one is least similar"),
    CLI_SWITCH(F, graph, "graph", "also graph.npz: the listed neighbours as a sparse matrix for SciPy"),
    CLI_STRING(F, labels, "labels", "Y.npy", "int [samples]: precision and recall of the pairs found"),
    CLI_STRING(F, names, "names", "FILE", "a name per line, for the tables"),
    CLI_STRING(F, tensor, "tensor", "NAME", "of a .safetensors file; default: the only one with two axes"),
    CLI_STRING(F, column, "column", "NAME", "of Parquet files and tables: the embeddings; default: the only one that fits"),
    CLI_STRING(F, id, "id", "NAME", "of Parquet files and tables: the names of rows; default: a table's column of text"),
    CLI_STRING(F, data, "data", "SPEC",
               "images, as of `glofnd pretrain`: of a run, or those of EMB's rows (labels, names, --html)"),
    CLI_SWITCH(F, html, "html",
               "also DIR/index.html: a page that shows duplicates, components and any anchor's neighbours; not with --query"),
    CLI_NUMBER(F, html_mb, "html-mb", "N", "32", 0.1, 1000, 0, "megabytes at most of its thumbnails, and of its numbers"),
    CLI_SWITCH(F, head, "head", "with a run: projections of the head instead of features of the backbone"),
    CLI_STRING(F, query, "query", "NEW", "new embeddings, against EMB and its stored result"),
    CLI_STRING(F, stored, "stored", "DIR", "that result"),
    CLI_STRING(F, query_names, "query-names", "FILE", "names of the new ones"),
    CLI_STRING(F, query_labels, "query-labels", "Y.npy", "labels of the new ones"),
    CLI_SWITCH(F, learned, "learned",
               "thresholds by the stochastic learner, and how far they are from exact ones; not with --query"),
    CLI_COUNT(F, batch, "batch", "N", "1024", 2, 16384, "of the learner"),
    CLI_COUNT(F, epochs, "epochs", "N", "20", 1, 100000, "of the learner"),
    CLI_COUNT(F, sample, "sample", "N", "1000", 1, 1e9,
              "a diverse subset of N kept rows; with --learned instead: anchors its error is measured on"),
    CLI_COUNT(F, seed, "seed", "N", "1", 0, 4294967295.0, "of the learner's batches and that sample"),
    CLI_STRING(F, device, "device", "NAME",
               "cpu (default) or cuda: the same result, sooner; the encoder of a run follows it if given"),
    CLI_NUMBER(F, memory, "memory", "GB", NULL, 0.001, 1e6, 0,
               "for lists of candidates; less takes a second pass; default: half of the machine"),
    CLI_COUNT(F, threads, "threads", "N", NULL, 1, 1024,
              "default: as many as OpenMP would use, in the encoder of a run as the run"),
    CLI_SWITCH(F, force, "force", "replace an earlier result"),
    CLI_SWITCH(F, quiet, "quiet", "no progress"),
};

static double half_of_memory(void) {
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes > 0.0 ? 0.5 * bytes : 2e9;
}

static int check_flags(const cli_call *call, const discover_flags *f) {
    const int learner = cli_given(call, "batch") || cli_given(call, "epochs");
    const int decides = f->keep || f->split.count || f->negatives || f->graph || (cli_given(call, "sample") && !f->learned);
    const char *wrong = NULL;
    if (!call->words && !f->split.count) return cli_misused(call, "EMB is needed: a file of embeddings, or the folder of a run");
    if (cli_given(call, "alpha") && cli_given(call, "k")) wrong = "--alpha and --k exclude each other";
    else if (!f->out) wrong = "--out is needed: the folder of the result";
    else if (!f->query != !f->stored) wrong = "--query and --stored go together";
    else if (f->query && f->learned) wrong = "--learned does not go with --query";
    else if (!f->query && (f->query_names || f->query_labels)) wrong = "--query-names and --query-labels go with --query";
    else if (f->head && !f->data) wrong = "--head goes with a run and --data";
    else if (f->query && f->html) wrong = "--html does not go with --query: the page is of EMB alone";
    else if (cli_given(call, "html-mb") && !f->html) wrong = "--html-mb goes with --html";
    else if (learner && !f->learned) wrong = "--batch and --epochs go with --learned";
    else if (f->query && decides) wrong = "--keep, --split, --negatives, --sample and --graph do not go with --query";
    else if (f->negatives && f->learned) wrong = "--negatives needs exact thresholds; it does not go with --learned";
    else if (f->split.count && f->data) wrong = "--split and --data exclude each other: with a run, each split has its own data";
    if (wrong) gf_print(stderr, "glofnd discover: %s; --help explains\n", wrong);
    return wrong ? CLI_USAGE : CLI_OK;
}

/* "exact" or a number; NaN: as the stored result has it. */
static int read_dup(const cli_call *call, const discover_flags *f, double *dup) {
    *dup = f->dup ? GF_DUP_EXACT : f->stored ? NAN : 0.98;
    if (!f->dup || strcmp(f->dup, "exact") == 0) return CLI_OK;
    if (!gf_number_read(f->dup, dup) && *dup >= -1.0 && *dup <= 1.0) return CLI_OK;
    return cli_misused(call, "--dup: \"%s\"; expected a number in [-1, 1], or exact", f->dup);
}

static int read_spec(const cli_call *call, const discover_flags *f, discover_job *j) {
    const int as_stored = f->stored && !cli_given(call, "alpha") && !f->k;
    double dup;
    int code = read_dup(call, f, &dup);
    if (code == CLI_OK && f->device) code = device_flags_check("discover", f->device);
    j->s = (gf_discover_spec){
        .alpha = f->k || as_stored ? 0.0 : f->alpha,
        .k = f->k,
        .top = f->top,
        .max_pairs = f->max_pairs,
        .dup = dup,
        .learned = f->learned,
        .batch = f->batch,
        .epochs = f->epochs,
        .sample = f->sample,
        .seed = (uint64_t)f->seed,
        .memory = (size_t)(f->memory > 0.0 ? 1e9 * f->memory : half_of_memory()),
        .threads = f->threads > 0 ? (int)f->threads : gf_parallel_default(),
        .edge = GF_MAX(f->negatives, f->html ? GF_PAGE_EDGE : 0),
    };
    if (code == CLI_OK) code = cli_decide_read(call, f->keep, &f->split, call->words > 0 && !is_run(call->word[0]), &j->decide);
    gf_decide_spec *c = &j->decide.spec;
    c->negatives = f->negatives, c->outliers = f->outliers, c->graph = f->graph;
    c->sample = cli_given(call, "sample") && !f->learned ? f->sample : 0;
    j->s.keep_rows = c->sample > 0 || c->keep == GF_KEEP_CENTRAL;
    return code;
}

static int run(const cli_call *call, const void *flags) {
    const discover_flags *f = flags;
    gf_error err = {{0}};
    discover_job j = {.where = {.device = f->device, .threads = (int)f->threads},
                      .in = {.path = (const char *const *)call->word,
                             .paths = call->words,
                             .tensor = f->tensor,
                             .column = f->column,
                             .id = f->id},
                      .data = f->data,
                      .labels = f->labels,
                      .names = f->names,
                      .query = f->query,
                      .query_names = f->query_names,
                      .query_labels = f->query_labels,
                      .stored = f->stored,
                      .out = f->out,
                      .head = f->head,
                      .force = f->force,
                      .quiet = f->quiet,
                      .html = f->html,
                      .page.bytes = (size_t)(1e6 * f->html_mb)};
    int code;
    if ((code = read_spec(call, f, &j)) || (code = check_flags(call, f))) return code;
    name_source(&j, &f->split);
    cli_catch_interrupts(NULL);
    const glofnd_status status = discover(&err, &j);
    gf_discover_result_free(&j.r);
    gf_discover_data_free(&j.d);
    gf_discover_data_free(&j.q);
    gf_embeddings_close(j.set);
    gf_dataset_free(j.images);
    for (int k = 0; k < GF_SPLITS_MAX; k++) gf_dataset_free(j.split_images[k]);
    gf_decisions_free(&j.decisions);
    free(j.decide.score);
    free(j.lambda);
    if (status == GLOFND_OK) return CLI_OK;
    if (!atomic_load(&cli_interrupted)) return cli_failed("discover", status, &err);
    gf_print(stderr, "glofnd discover: stopped; nothing is written\n");
    return CLI_FAILED;
}

const cli_verb cmd_discover = {
    .name = "discover",
    .summary = "false negatives and duplicates in any embeddings",
    .usage = "glofnd discover EMB ... --out DIR [--alpha A | --k K] [--labels Y.npy] [--names FILE] ...\n"
             "       glofnd discover RUN --data SPEC --out DIR ...\n"
             "       glofnd discover EMB --query NEW --stored DIR --out DIR2 ...\n"
             "       glofnd discover --split train=A.npy --split test=B.npy --out DIR ...     leaks between splits\n"
             "       glofnd discover RUN --split train=SPEC --split test=SPEC --out DIR ...\n"
             "       glofnd discover EMB --data SPEC --html --out DIR ...     a page to look at: DIR/index.html\n"
             "EMB, NEW: [samples][numbers] as .npy, .safetensors, Parquet, .csv or .tsv files, folders or patterns of them",
    CLI_FLAGS(rows, discover_flags),
    .word = "EMB",
    .word_help = "files of embeddings, folders or patterns of them (\"emb_{000..099}.npy\"); or the folder of a run",
    .min_words = 0,
    .max_words = -1,
    .run = run,
};
