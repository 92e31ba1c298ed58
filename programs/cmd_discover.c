/* cmd_discover.c - glofnd discover: false negatives and duplicates in any embeddings. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/cli.h"
#include "programs/discover_job.h"
#include "programs/trained_run.h"
#include "util/array.h"
#include "util/machine.h"
#include "util/parallel.h"
#include "util/text.h"

/* ----- the job ----- */

static glofnd_status search(gf_error *err, cli_discover_job *j) {
    if (j->f->from) return gf_rethreshold(err, &j->old, &j->s, &j->d, j->new_labels, &j->r);
    cli_discover_start(j, j->s.learned ? "thresholds and pairs" : "pairs");
    const glofnd_status status = j->in_units   ? gf_discover_run_units(err, &j->s, &j->units, &j->d, &j->r)
                                 : j->f->query ? gf_discover_query(err, &j->s, &j->d, j->lambda, &j->q, &j->r)
                                               : gf_discover_run(err, &j->s, &j->d, &j->r);
    gf_progress_end(&j->line);
    return status;
}

static glofnd_status load(gf_error *err, cli_discover_job *j) {
    const char *device = j->f->device ? j->f->device : "cpu";
    const int cpu = strcmp(device, "cpu") == 0;
    j->s.search = gf_pairs_search_find(err, device);
    if (!j->s.search) return GLOFND_E_UNSUPPORTED;
    if (j->s.task.probe || (j->s.task.only_dup && cpu)) j->s.search = &gf_pairs_search_cells;
    if (j->s.task.probe && !cpu && !j->quiet)
        gf_print(stderr, "glofnd discover: --approx compares on the CPU; without it the GPU compares all pairs\n");
    TRY(cli_units_refuse(err, j, j->f->from ? "--from" : NULL));
    /* --force must not replace what the query is compared with, or what is decided again. */
    struct stat out, stored;
    const char *read = j->f->stored ? j->f->stored : j->f->from;
    const int same = read && stat(j->f->out, &out) == 0 && stat(read, &stored) == 0 && out.st_dev == stored.st_dev &&
                     out.st_ino == stored.st_ino;
    FAIL_IF(err, same, GLOFND_E_OPTION, "--out is '%.300s', the stored result itself; it takes a folder of its own", j->f->out);
    if (cli_units_rank(j) == 0) {
        const glofnd_status status = gf_output_folder_check(err, j->f->out, j->f->force, &gf_discover_kind);
        if (status != GLOFND_OK) cli_units_clean(j);
        TRY(status);
    }
    TRY(j->f->from ? cli_discover_load_from(err, j) : cli_discover_load(err, j));
    return j->f->query ? cli_discover_load_query(err, j) : GLOFND_OK;
}

/* begun, loaded: the clock before and after load(). */
static glofnd_status finish(gf_error *err, cli_discover_job *j, double begun, double loaded) {
    const double found = gf_clock();
    if (j->in_units) TRY(gf_embeddings_check_unchanged(err, j->set));
    if (j->images) j->page.images[0] = (gf_row_images){j->images, 0}, j->page.image_sets = 1;
    if (!j->f->query) {
        TRY(cli_decide_scores(err, j));
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
    TRY(gf_discover_write(err, j->f->out, j->f->force, &report));
    if (j->in_units) gf_unit_folder_remove(j->unit_folder);
    if (!j->quiet)
        gf_print(stderr, "%s %.1f s, search %.1f s, writing %.1f s\n", j->run && !j->f->from ? "encoding" : "reading",
                 loaded - begun, found - loaded, gf_clock() - found);
    gf_text text = {0};
    gf_discover_summary(&text, &report);
    if (text.at) gf_print_lines(stdout, text.at);
    if (text.at) gf_print(stdout, "written to  %s%s\n", j->f->out, j->f->html ? ": open index.html in a browser" : "");
    gf_text_free(&text);
    return GLOFND_OK;
}

/* Over ranks all load, and search together; the first one writes. */
static glofnd_status discover(gf_error *err, cli_discover_job *j) {
    const double begun = gf_clock();
    TRY(cli_units_open(err, j));
    TRY(cli_units_agree(err, j, load(err, j)));
    const double loaded = gf_clock();
    TRY(search(err, j));
    return cli_units_agree(err, j, cli_units_rank(j) == 0 ? finish(err, j, begun, loaded) : GLOFND_OK);
}

/* The exit code; over ranks the first one says what happened. */
static int report_end(const cli_discover_job *j, glofnd_status status, const gf_error *err) {
    if (status == GLOFND_OK) return CLI_OK;
    if (cli_units_rank(j) > 0) return CLI_FAILED;
    if (!atomic_load(&cli_interrupted)) return cli_failed("discover", status, err);
    if (j->in_units && access(j->unit_folder, F_OK) == 0)
        gf_print(stderr, "glofnd discover: stopped; finished parts are in %s: the same command continues\n", j->unit_folder);
    else gf_print(stderr, "glofnd discover: stopped; nothing is written\n");
    return CLI_FAILED;
}

/* ----- flags ----- */

#define F discover_flags
static const gf_option rows[] = {
    CLI_STRING(F, out, "out", "DIR", "folder of the result; it is written whole or not at all"),
    CLI_NUMBER(F, alpha, "alpha", "A", "0.01", 1e-12, 1.0 - 1e-12, 0,
               "share of the others that lies above an anchor's threshold"),
    CLI_COUNT(F, k, "k", "K", NULL, 1, 2147483645.0, "instead: how many of them"),
    CLI_COUNT(F, top, "top", "N", "20", 0, 1e6, "list so many of them at most, the most similar ones"),
    CLI_COUNT(F, max_pairs, "max-pairs", "N", "1e7", 1, 1e15, "list so many in all at most, the most similar ones"),
    CLI_STRING(F, dup, "dup", "S", "similarity of near duplicates (0.98; as --stored has it), or \"exact\": only equal rows"),
    CLI_SWITCH(F, duplicates, "duplicates",
               "only duplicates, exact, in less than n^2 time: no thresholds, pairs and components; pays for a --dup near 1"),
    CLI_COUNT(F, approx, "approx", "P", NULL, 1, 65536,
              "approximate: compare an anchor only with the rows of its P nearest cells; the recall is measured"),
    CLI_STRING(F, keep, "keep", "RULE",
               "of duplicates keep the first (default), central, largest (image), label (the most frequent) or score:FILE one"),
    CLI_STRINGS(
        F, split, "split", "NAME=SPEC",
        "leaks between splits, each a file of embeddings, data of the run, or rows FIRST:END of EMB; earlier ones are kept"),
    CLI_COUNT(F, negatives, "negatives", "K", NULL, 1, GF_BELOW_MAX, "also the K most similar others of each that are not above"),
    CLI_COUNT(F, outliers, "outliers", "N", "1000", 0, 1e9, "list so many rows that are least similar to their nearest ones"),
    CLI_SWITCH(F, graph, "graph", "also graph.npz: the listed neighbours as a sparse matrix for SciPy"),
    CLI_STRING(F, format, "format", "NAME",
               "of the tables: tsv (default), parquet, for pandas, pyarrow and Spark, or jsonl: tsv, and pairs.jsonl; --from: as "
               "they were"),
    CLI_STRING(F, labels, "labels", "Y.npy",
               "int [samples]: precision and recall of the pairs found; or Parquet files or tables with --label-column"),
    CLI_STRING(F, names, "names", "FILE", "a name per line, for the tables; or Parquet files or tables with the column of --id"),
    CLI_STRING(F, tensor, "tensor", "NAME", "of a .safetensors file; default: the only one with two axes"),
    CLI_STRING(F, column, "column", "NAME", "of Parquet files and tables: the embeddings; default: the only one that fits"),
    CLI_STRING(F, id, "id", "NAME", "of Parquet files and tables: the names of rows; default: a table's column of text"),
    CLI_STRING(F, label_column, "label-column", "NAME",
               "of Parquet files and tables: labels, integers or names of classes; with --labels FILES: their column"),
    CLI_STRING(F, data, "data", "SPEC",
               "images, as of `glofnd pretrain`: of a run, or those of EMB's rows (labels, names, --html)"),
    CLI_SWITCH(F, html, "html",
               "also DIR/index.html: a page that shows duplicates, components and any anchor's neighbours; not with --query"),
    CLI_NUMBER(F, html_mb, "html-mb", "N", "32", 0.1, 1000, 0, "megabytes at most of its thumbnails, and of its numbers"),
    CLI_SWITCH(F, head, "head", "with a run: projections of the head instead of features of the backbone"),
    CLI_STRING(F, query, "query", "NEW", "new embeddings, against EMB and its stored result"),
    CLI_STRING(F, stored, "stored", "DIR", "that result"),
    CLI_STRING(
        F, from, "from", "DIR",
        "decide again from the neighbours of that result, with the settings given here and else its own; without a search"),
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
    CLI_NUMBER(
        F, memory, "memory", "GB", NULL, 0.001, 1e6, 0,
        "for lists of candidates, less takes a second pass; embeddings beyond it are streamed; default: half of the machine"),
    CLI_COUNT(F, threads, "threads", "N", NULL, 1, 1024,
              "default: as many as OpenMP would use, in the encoder of a run as the run"),
    CLI_SWITCH(
        F, resume, "resume",
        "keep finished parts in DIR.partial: after a kill the same command continues; takes two to four times the products"),
    CLI_NUMBER(F, rank_timeout, "rank-timeout", "S", "120", 0, 1e6, 0,
               "over ranks: seconds of silence from one after which all end; 0: never"),
    CLI_SWITCH(F, force, "force", "replace an earlier result"),
    CLI_SWITCH(F, quiet, "quiet", "no progress"),
};

static double half_of_memory(void) {
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return bytes > 0.0 ? 0.5 * bytes : 2e9;
}

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
    DATA = 1 << 23
};

/* A call is wrong if it asks for all of `all`, one of `any` (0: whatever) and none of `without`. The first that fits is reported. */
static const struct {
    unsigned all, any, without;
    const char *why;
} wrong_calls[] = {
    {0, 0, SOURCE, "EMB is needed: a file of embeddings, or the folder of a run"},
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
    {FROM | NEEDS_ROWS, 0, EMB, "--keep central and --sample need the embeddings: glofnd discover EMB --from DIR"},
    {DUPLICATES, ALPHA | K | NEGATIVES | LEARNED | QUERY | FROM | HTML, 0,
     "--duplicates has no thresholds: it does not go with --alpha, --k, --negatives, --learned, --query, --from, --html"},
    {APPROX, DUPLICATES | LEARNED | QUERY | FROM, 0, "--approx does not go with --duplicates, --learned, --query and --from"},
    {LABEL_COLUMN | FROM, 0, LABELS, "--label-column goes with --labels FILES here: --from reads no EMB"},
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
        {f->data || (call->words && cli_is_run(call->word[0])), RUN},
        {f->keep || f->split.count || f->negatives || f->graph || sample, DECIDES},
        {f->negatives > 0, NEGATIVES},
        {central || cli_given(call, "sample"), NEEDS_ROWS},
        {call->words > 0, EMB},
        {call->words || f->split.count || f->from, SOURCE},
        {f->out != NULL, OUT},
        {f->label_column != NULL, LABEL_COLUMN},
        {f->labels != NULL, LABELS},
        {f->split.count > 0, SPLIT},
        {f->data != NULL, DATA},
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

static int read_settings(const cli_call *call, const discover_flags *f, cli_discover_job *j) {
    const int stored = f->stored || f->from;
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
        .learned = f->learned,
        .batch = f->batch,
        .epochs = f->epochs,
        .sample = f->sample,
        .seed = (uint64_t)f->seed,
        .task = {.top = f->top,
                 .below = GF_MAX(f->negatives, f->html ? GF_PAGE_BELOW : 0),
                 .memory = (size_t)(f->memory > 0.0 ? 1e9 * f->memory : half_of_memory()),
                 .only_dup = f->duplicates,
                 .probe = f->approx,
                 .threads = f->threads > 0 ? (int)f->threads : gf_parallel_default()},
    };
    if (f->dup && !j->s.dup_exact && (gf_number_read(f->dup, &j->s.dup) || !(j->s.dup >= -1.0 && j->s.dup <= 1.0)))
        return cli_misused(call, "--dup: \"%s\"; expected a number in [-1, 1], or exact", f->dup);
    static const char *const formats[] = {"tsv", "parquet", "jsonl"}; /* by gf_table_format */
    for (int k = 0; k < 3; k++)
        if (f->format && strcmp(f->format, formats[k]) == 0) j->format = (gf_table_format)k;
    if (f->format && strcmp(f->format, formats[j->format]) != 0)
        return cli_misused(call, "--format: \"%s\"; expected tsv, parquet or jsonl", f->format);
    int code = f->device ? device_flags_check("discover", f->device) : CLI_OK;
    j->split_ranges = f->from || (call->words > 0 && !cli_is_run(call->word[0]));
    if (code == CLI_OK) code = cli_decide_read(call, j);
    j->decide.negatives = f->negatives, j->decide.graph = f->graph;
    j->decide.outliers = f->duplicates ? 0 : f->outliers;
    j->decide.sample = cli_given(call, "sample") && !f->learned ? f->sample : 0;
    j->reads_rows = j->decide.sample > 0 || j->decide.keep == GF_KEEP_CENTRAL || (f->from && call->words > 0);
    j->s.keep_rows = j->reads_rows || !f->query; /* rows with more duplicates than are listed are compared again */
    return code;
}

static int run(const cli_call *call, const void *flags) {
    const discover_flags *f = flags;
    gf_error err = {{0}};
    cli_discover_job j = {.f = f,
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
    cli_discover_name_source(&j);
    cli_catch_interrupts(NULL);
    const glofnd_status status = discover(&err, &j);
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
    free(j.lambda);
    code = report_end(&j, status, &err);
    cli_units_close(&j); /* waits for all ranks: one that returned earlier would end the first one before it reports */
    return code;
}

const cli_verb cmd_discover = {
    .brief = "out alpha k dup keep split labels names data html query stored device force",
    .name = "discover",
    .summary = "false negatives and duplicates in any embeddings",
    .usage = "glofnd discover EMB ... --out DIR [--alpha A | --k K] [--labels Y.npy] [--names FILE] ...\n"
             "       glofnd discover RUN [--data SPEC] --out DIR ...\n"
             "       glofnd discover EMB --query NEW --stored DIR --out DIR2 ...\n"
             "       glofnd discover --split train=A.npy --split test=B.npy --out DIR ...     leaks between splits\n"
             "       glofnd discover RUN --split train=SPEC --split test=SPEC --out DIR ...\n"
             "       glofnd discover [EMB] --from DIR --dup 0.95 --out DIR2 ...     decide again, without a search\n"
             "       glofnd discover EMB --data SPEC --html --out DIR ...     a page to look at: DIR/index.html\n"
             "EMB, NEW: [samples][numbers] as .npy, .safetensors, Parquet, .csv or .tsv files, folders or patterns of them",
    CLI_FLAGS(rows, discover_flags),
    .word = "EMB",
    .word_help = "files of embeddings, folders or patterns of them (\"emb_{000..099}.npy\"); or the folder of a run",
    .min_words = 0,
    .max_words = -1,
    .run = run,
};
