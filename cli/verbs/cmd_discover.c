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
#include "discover/discover_files.h"
#include "run/progress.h"
#include "util/clock.h"
#include "util/parallel.h"

static const char usage[] = "glofnd discover EMB --out DIR [--alpha A | --k K] [--labels Y.npy] [--names FILE] ...\n"
                            "       glofnd discover RUN --data SPEC --out DIR ...\n"
                            "       glofnd discover EMB --query NEW --stored DIR --out DIR2 ...\n"
                            "       glofnd discover EMB --data SPEC --html --out DIR ...     a page to look at: DIR/index.html\n"
                            "EMB, NEW: float32 or float16 [samples][numbers] as .npy, or a tensor of a .safetensors file";

enum { PROGRESS_STEPS = 1000000 };

typedef struct discover_job {
    gf_encoder_device where; /* as given; the device is also that of the search */
    const char *source, *data, *tensor, *labels, *names, *query, *query_names, *query_labels, *stored, *out;
    int head, force, quiet, html, run; /* run: source is one, to encode images with */
    gf_discover_html page;
    gf_dataset *images;
    gf_discover_spec s;
    gf_progress line;
    gf_discover_data d, q;
    gf_discover_result r;
    float *lambda; /* stored thresholds */
} discover_job;

/* ----- talk ----- */

static void draw(void *user, const char *stage, double share) {
    discover_job *j = user;
    char text[80];
    snprintf(text, sizeof text, "%s: %.1f %%", stage, 100.0 * share);
    gf_progress_draw(&j->line, (int64_t)(share * PROGRESS_STEPS), PROGRESS_STEPS, text, share >= 1.0);
}

static void start(discover_job *j, const char *stage) {
    j->line = gf_progress_start(0, j->quiet);
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

/* What will be taken, before it is. */
static glofnd_status tell_memory(gf_error *err, const discover_job *j, int64_t n, int64_t dim) {
    int64_t rank = 0;
    TRY(gf_discover_rank(err, &j->s, n, &rank));
    const gf_pairs_plan p = gf_discover_plan_for(&j->s, n, dim, rank);
    const double raw = 4.0 * (double)n * (double)dim, work = (double)(p.lists + p.results + p.scratch);
    const double most = (double)p.rows + (j->s.learned ? raw + work : fmax(raw, work));
    amount a, b, c;
    if (!j->quiet && p.device)
        fprintf(stderr, "%lld x %lld: at most %s on the GPU (CUDA itself takes some 0.5 GB more) and %s of memory, %.3g pairs\n",
                (long long)n, (long long)dim, amount_of(a, (double)p.device), amount_of(b, most),
                0.5 * (double)n * (double)(n - 1));
    else if (!j->quiet)
        fprintf(stderr, "%lld x %lld: at most %s of memory (%s embeddings, %s lists), %d pass%s over %.3g pairs\n", (long long)n,
                (long long)dim, amount_of(a, most), amount_of(b, (double)p.rows), amount_of(c, (double)p.lists), p.passes,
                p.passes > 1 ? "es" : "", 0.5 * (double)n * (double)(n - 1));
    FAIL_IF(err, p.lists > j->s.memory, GLOFND_E_MEMORY,
            "the lists of the %lld most similar of %lld anchors take %s; --memory allows %s: raise it, or lower --top",
            (long long)j->s.top, (long long)n, amount_of(a, (double)p.lists), amount_of(b, (double)j->s.memory));
    return GLOFND_OK;
}

/* ----- embeddings of a run ----- */

static void damaged(void *user, int64_t i, const char *message) {
    (void)user;
    fprintf(stderr, "glofnd discover: sample %lld is left out: %s\n", (long long)i, message);
}

static void encoded(void *user, int64_t done, int64_t total) {
    const discover_job *j = user;
    gf_job_report(&j->s.watch, (double)done / (double)total);
}

static glofnd_status take_names(gf_error *err, const gf_dataset *data, gf_discover_data *d) {
    enum { NAME = 256 };
    d->name_text = malloc((size_t)d->n * NAME);
    d->name = malloc((size_t)d->n * sizeof *d->name);
    FAIL_IF(err, !d->name_text || !d->name, GLOFND_E_MEMORY, "no memory for names");
    for (int64_t i = 0; i < d->n; i++) {
        char *name = d->name_text + i * NAME;
        gf_dataset_name(data, i, name, NAME);
        for (char *c = name; *c; c++)
            if ((unsigned char)*c < ' ') *c = ' ';
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

/* Damaged samples keep their row, of zeros, so that rows are positions in the dataset. */
static glofnd_status encode(gf_error *err, discover_job *j) {
    gf_run_encoder *e = NULL;
    gf_features f = {0};
    const gf_encode_spec spec = {.aligned = 1, .unreadable = damaged, .progress = encoded, .user = j};
    start(j, "images");
    const gf_run_encoder_spec run = {.run = j->source, .head = j->head, .placement = j->where};
    glofnd_status status = device_flags_open(err, "discover", &run, &e);
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, j->images, &spec, &f);
    gf_progress_end(&j->line);
    if (status == GLOFND_OK) {
        j->d.n = f.n, j->d.dim = f.dim, j->d.x = f.x;
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
    return j->names ? GLOFND_OK : take_names(err, j->images, &j->d);
}

/* ----- the job ----- */

static int is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static glofnd_status read_rows(gf_error *err, discover_job *j) {
    int64_t n = 0, dim = 0;
    TRY(gf_discover_shape(err, j->source, j->tensor, &n, &dim));
    if (!j->query) TRY(tell_memory(err, j, n, dim));
    return gf_discover_read(err, j->source, j->tensor, &j->d);
}

static glofnd_status load(gf_error *err, discover_job *j) {
    j->run = is_folder(j->source);
    FAIL_IF(err, j->run && !j->data, GLOFND_E_ARGUMENT, "'%.300s' is a folder; with a run, --data names its images", j->source);
    FAIL_IF(err, j->head && !j->run, GLOFND_E_ARGUMENT, "--head goes with a run; '%.300s' is a file of embeddings", j->source);
    if (j->data) TRY(gf_dataset_open(err, j->data, &j->images));
    TRY(j->run ? encode(err, j) : read_rows(err, j));
    if (j->data) TRY(describe_rows(err, j));
    if (j->labels) TRY(gf_discover_read_labels(err, j->labels, &j->d));
    if (j->names) TRY(gf_discover_read_names(err, j->names, &j->d));
    TRY(gf_discover_classify(err, &j->d));
    if (j->run && !j->query) TRY(tell_memory(err, j, j->d.n, j->d.dim));
    return GLOFND_OK;
}

static glofnd_status load_query(gf_error *err, discover_job *j) {
    FAIL_IF(err, is_folder(j->query), GLOFND_E_ARGUMENT,
            "--query '%.300s' is a folder; it takes embeddings, as `glofnd embed` makes them of a run and images", j->query);
    TRY(gf_discover_read(err, j->query, j->tensor, &j->q));
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
    TRY(gf_output_folder_check(err, j->out, j->force, GF_DISCOVER_MARK));
    const double begun = gf_clock();
    TRY(load(err, j));
    if (j->query) TRY(load_query(err, j));
    const double loaded = gf_clock();
    TRY(search(err, j));
    const double found = gf_clock();
    const gf_discover_report report = {.source = j->source,
                                       .query = j->query,
                                       .s = &j->s,
                                       .r = &j->r,
                                       .d = &j->d,
                                       .q = j->query ? &j->q : &j->d,
                                       .lambda = j->lambda,
                                       .html = j->html ? &j->page : NULL};
    j->page.images = j->images;
    TRY(gf_discover_write(err, j->out, j->force, &report));
    if (!j->quiet)
        fprintf(stderr, "%s %.1f s, search %.1f s, writing %.1f s\n", j->run ? "encoding" : "reading", loaded - begun,
                found - loaded, gf_clock() - found);
    gf_text text = {0};
    gf_discover_summary(&text, &report);
    if (text.at) printf("%swritten to  %s%s\n", text.at, j->out, j->html ? ": open index.html in a browser" : "");
    gf_text_free(&text);
    return GLOFND_OK;
}

/* ----- flags ----- */

/* A number in [min, max]; whole ones may be written as 1e7. */
static int number(const char *flag, const char *text, double min, double max, int whole, double *out) {
    char *end;
    errno = 0;
    const double x = strtod(text, &end);
    if (errno || end == text || *end || !(x >= min && x <= max) || (whole && x != floor(x))) {
        fprintf(stderr, "glofnd discover: --%s is \"%s\"; it takes a %snumber in [%g, %g]\n", flag, text, whole ? "whole " : "",
                min, max);
        return CLI_USAGE;
    }
    *out = x;
    return CLI_OK;
}

typedef struct texts {
    const char *alpha, *k, *top, *max_pairs, *dup, *batch, *epochs, *sample, *seed, *memory, *threads;
    const char *html_mb, *learned, *head, *html, *force, *quiet;
} texts;

static double half_of_memory(void) {
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes > 0.0 ? 0.5 * bytes : 2e9;
}

static const char *given(const char *text, const char *otherwise) { return text ? text : otherwise; }

static int take_numbers(const texts *t, discover_job *j) {
    double html_mb, alpha = 0.01, k = 0, top, most, dup = GF_DUP_EXACT, batch, epochs, sample, seed, memory = 0, threads = 0;
    int code;
    if (t->alpha && t->k) {
        fprintf(stderr, "glofnd discover: --alpha and --k exclude each other\n");
        return CLI_USAGE;
    }
    if (t->alpha && (code = number("alpha", t->alpha, 1e-12, 1.0 - 1e-12, 0, &alpha))) return code;
    if (t->k && (code = number("k", t->k, 1, 2147483645.0, 1, &k))) return code;
    if (!t->dup) dup = j->stored ? NAN : 0.98; /* NaN: as the stored result has it */
    else if (strcmp(t->dup, "exact") != 0 && (code = number("dup", t->dup, -1.0, 1.0, 0, &dup))) return code;
    if ((code = number("top", t->top, 0, 1e6, 1, &top)) || (code = number("max-pairs", t->max_pairs, 1, 1e15, 1, &most)) ||
        (code = number("batch", given(t->batch, "1024"), 2, 16384, 1, &batch)) ||
        (code = number("epochs", given(t->epochs, "20"), 1, 100000, 1, &epochs)) ||
        (code = number("sample", given(t->sample, "1000"), 1, 1e9, 1, &sample)) ||
        (code = number("seed", t->seed, 0, 4294967295.0, 1, &seed)))
        return code;
    if ((code = number("html-mb", given(t->html_mb, "32"), 0.1, 1000, 0, &html_mb))) return code;
    j->page.bytes = (size_t)(1e6 * html_mb);
    if (t->memory && (code = number("memory", t->memory, 0.001, 1e6, 0, &memory))) return code;
    if (t->threads && (code = number("threads", t->threads, 1, 1024, 1, &threads))) return code;
    if (j->where.device && (code = device_flags_check("discover", j->where.device))) return code;
    j->where.threads = (int)threads;
    j->s = (gf_discover_spec){
        .alpha = t->k ? 0.0 : alpha,
        .k = (int64_t)k,
        .top = (int64_t)top,
        .max_pairs = (int64_t)most,
        .dup = dup,
        .learned = t->learned != NULL,
        .batch = (int64_t)batch,
        .epochs = (int64_t)epochs,
        .sample = (int64_t)sample,
        .seed = (uint64_t)seed,
        .memory = (size_t)(t->memory ? 1e9 * memory : half_of_memory()),
        .threads = threads > 0 ? (int)threads : gf_parallel_default(),
    };
    if (j->stored && !t->alpha && !t->k) j->s.alpha = 0.0; /* as the stored result has it */
    return CLI_OK;
}

static int check_flags(const discover_job *j, const texts *t) {
    const char *wrong = NULL;
    if (!j->out) wrong = "--out is needed: the folder of the result";
    else if (!j->query != !j->stored) wrong = "--query and --stored go together";
    else if (j->query && j->s.learned) wrong = "--learned does not go with --query";
    else if (!j->query && (j->query_names || j->query_labels)) wrong = "--query-names and --query-labels go with --query";
    else if (t->head && !j->data) wrong = "--head goes with a run and --data";
    else if (j->query && t->html) wrong = "--html does not go with --query: the page is of EMB alone";
    else if (t->html_mb && !t->html) wrong = "--html-mb goes with --html";
    else if ((t->batch || t->epochs || t->sample) && !t->learned) wrong = "--batch, --epochs and --sample go with --learned";
    if (wrong) fprintf(stderr, "glofnd discover: %s; --help explains\n", wrong);
    return wrong ? CLI_USAGE : CLI_OK;
}

static int parse(int argc, char **argv, discover_job *j) {
    texts t = {.top = "20", .max_pairs = "1e7", .seed = "1"};
    const cli_flag flags[] = {
        {"out", "DIR", "folder of the result; it is written whole or not at all", &j->out},
        {"alpha", "A", "share of the others that lies above an anchor's threshold (0.01)", &t.alpha},
        {"k", "K", "instead: how many of them", &t.k},
        {"top", "N", "list so many of them at most, the most similar ones (20)", &t.top},
        {"max-pairs", "N", "list so many in all at most, the most similar ones (1e7)", &t.max_pairs},
        {"dup", "S", "similarity of near duplicates (0.98; as --stored has it), or \"exact\": only equal rows", &t.dup},
        {"labels", "Y.npy", "int [samples]: precision and recall of what is found", &j->labels},
        {"names", "FILE", "a name per line, for the tables", &j->names},
        {"tensor", "NAME", "of a .safetensors file; default: the only one with two axes", &j->tensor},
        {"data", "SPEC", "images, as of `glofnd pretrain`: of a run, or those of EMB's rows (labels, names, --html)", &j->data},
        {"html", NULL,
         "also DIR/index.html: a page to look at duplicates, components and any anchor's neighbours; not with --query", &t.html},
        {"html-mb", "N", "its thumbnails, and its numbers, take at most so many megabytes each (32)", &t.html_mb},
        {"head", NULL, "with a run: projections of the head instead of features of the backbone", &t.head},
        {"query", "NEW", "new embeddings, against EMB and its stored result", &j->query},
        {"stored", "DIR", "that result", &j->stored},
        {"query-names", "FILE", "names of the new ones", &j->query_names},
        {"query-labels", "Y.npy", "labels of the new ones", &j->query_labels},
        {"learned", NULL, "thresholds by the stochastic learner, and how far they are from exact ones; not with --query",
         &t.learned},
        {"batch", "N", "of the learner (1024)", &t.batch},
        {"epochs", "N", "of the learner (20)", &t.epochs},
        {"sample", "N", "anchors its error is measured on (1000)", &t.sample},
        {"seed", "N", "of the learner's batches and that sample (1)", &t.seed},
        {"device", "NAME", "cpu (default) or cuda: the same result, sooner; the encoder of a run follows it if given",
         &j->where.device},
        {"memory", "GB", "for lists of candidates; less takes a second pass (half of the machine)", &t.memory},
        {"threads", "N", "default: as many as OpenMP would use, in the encoder of a run as the run", &t.threads},
        {"force", NULL, "replace an earlier result", &t.force},
        {"quiet", NULL, "no progress", &t.quiet},
    };
    int n;
    int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code;
    if (n != 1) {
        fprintf(stderr, "usage: %s\n", usage);
        return CLI_USAGE;
    }
    j->source = argv[1], j->head = t.head != NULL, j->force = t.force != NULL, j->quiet = t.quiet != NULL;
    j->html = t.html != NULL;
    code = take_numbers(&t, j);
    j->s.edge = j->html ? GF_PAIRS_EDGE : 0;
    return code == CLI_OK ? check_flags(j, &t) : code;
}

int cmd_discover(int argc, char **argv) {
    discover_job j = {0};
    gf_error err = {{0}};
    const int code = parse(argc, argv, &j);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    cli_catch_interrupts(NULL);
    const glofnd_status status = discover(&err, &j);
    gf_discover_result_free(&j.r);
    gf_discover_data_free(&j.d);
    gf_discover_data_free(&j.q);
    gf_dataset_free(j.images);
    free(j.lambda);
    if (status == GLOFND_OK) return CLI_OK;
    if (!atomic_load(&cli_interrupted)) return cli_failed("discover", status, &err);
    fprintf(stderr, "glofnd discover: stopped; nothing is written\n");
    return CLI_FAILED;
}
