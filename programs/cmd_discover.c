/* cmd_discover.c - glofnd discover: false negatives and duplicates in any embeddings. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/device_flags.h"
#include "programs/interrupt.h"
#include "programs/discover_job.h"
#include "util/machine.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/text.h"

/* ----- the job ----- */

static glofnd_status search(gf_error *err, cli_discover_job *j) {
    if (j->from) return gf_rethreshold(err, &j->old, &j->s, &j->d, j->new_labels, &j->r);
    cli_discover_start(j, j->s.learned ? "thresholds and pairs" : "pairs");
    const glofnd_status status = j->units.on ? cli_units_search(err, j)
                                 : j->query  ? gf_discover_query(err, &j->s, &j->d, j->lambda, &j->q, &j->r)
                                             : gf_discover_run(err, &j->s, &j->d, &j->r);
    gf_progress_end(&j->line);
    return status;
}

/* --force must not replace what the query is compared with, or what is decided again. */
static glofnd_status check_apart(gf_error *err, const cli_discover_job *j) {
    struct stat out, stored;
    const char *read = j->stored ? j->stored : j->from;
    const int same =
        read && stat(j->out, &out) == 0 && stat(read, &stored) == 0 && out.st_dev == stored.st_dev && out.st_ino == stored.st_ino;
    FAIL_IF(err, same, GLOFND_E_OPTION, "--out is '%.300s', the stored result itself; it takes a folder of its own", j->out);
    return GLOFND_OK;
}

static glofnd_status load(gf_error *err, cli_discover_job *j) {
    const char *device = j->where.device ? j->where.device : "cpu";
    const int cpu = strcmp(device, "cpu") == 0;
    j->s.pass = gf_pairs_search_find(err, device);
    if (!j->s.pass) return GLOFND_E_UNSUPPORTED;
    if (j->s.approx || (j->s.only_dup && cpu)) j->s.pass = &gf_pairs_search_cells;
    if (j->s.approx && !cpu && !j->quiet)
        gf_print(stderr, "glofnd discover: --approx compares on the CPU; without it the GPU compares all pairs\n");
    TRY(cli_units_refuse(err, j, j->from ? "--from" : NULL));
    TRY(check_apart(err, j));
    if (cli_units_rank(&j->units) == 0) {
        const glofnd_status status = gf_output_folder_check(err, j->out, j->force, &gf_discover_kind);
        if (status != GLOFND_OK) cli_units_clean(j);
        TRY(status);
    }
    TRY(j->from ? cli_discover_load_from(err, j) : cli_discover_load(err, j));
    return j->query ? cli_discover_load_query(err, j) : GLOFND_OK;
}

/* begun, loaded: the clock before and after load(). */
static glofnd_status finish(gf_error *err, cli_discover_job *j, double begun, double loaded) {
    const double found = gf_clock();
    if (j->images) j->page.images[0] = (gf_row_images){j->images, 0}, j->page.image_sets = 1;
    if (!j->query) {
        TRY(cli_decide_scores(err, &j->decide, &j->d, &j->r, &j->page));
        TRY(gf_decide(err, &j->decide.spec, &j->s, &j->d, &j->r, &j->decisions));
    }
    const gf_discover_report report = {.source = j->from ? j->old.source : j->source,
                                       .query = j->query,
                                       .s = &j->s,
                                       .r = &j->r,
                                       .d = &j->d,
                                       .q = j->query ? &j->q : &j->d,
                                       .lambda = j->lambda,
                                       .format = j->format,
                                       .decide = &j->decide.spec,
                                       .decisions = j->query ? NULL : &j->decisions,
                                       .html = j->html ? &j->page : NULL,
                                       .write_html = gf_discover_write_html};
    TRY(gf_discover_write(err, j->out, j->force, &report));
    if (j->units.on) gf_unit_folder_remove(j->units.folder);
    if (!j->quiet)
        gf_print(stderr, "%s %.1f s, search %.1f s, writing %.1f s\n", j->run && !j->from ? "encoding" : "reading",
                 loaded - begun, found - loaded, gf_clock() - found);
    gf_text text = {0};
    gf_discover_summary(&text, &report);
    if (text.at) gf_print_lines(stdout, text.at);
    if (text.at) gf_print(stdout, "written to  %s%s\n", j->out, j->html ? ": open index.html in a browser" : "");
    gf_text_free(&text);
    return GLOFND_OK;
}

/* Over ranks all load, and search together; the first one writes. */
static glofnd_status discover(gf_error *err, cli_discover_job *j) {
    const double begun = gf_clock();
    TRY(cli_units_open(err, j));
    TRY(cli_units_agree(err, &j->units, load(err, j)));
    const double loaded = gf_clock();
    TRY(search(err, j));
    return cli_units_agree(err, &j->units, cli_units_rank(&j->units) == 0 ? finish(err, j, begun, loaded) : GLOFND_OK);
}

/* The exit code; over ranks the first one says what happened. */
static int report_end(const cli_discover_job *j, glofnd_status status, const gf_error *err) {
    if (status == GLOFND_OK) return CLI_OK;
    if (cli_units_rank(&j->units) > 0) return CLI_FAILED;
    if (!atomic_load(&cli_interrupted)) return cli_failed("discover", status, err);
    if (j->units.on)
        gf_print(stderr, "glofnd discover: stopped; finished parts are in %s: the same command continues\n", j->units.folder);
    else gf_print(stderr, "glofnd discover: stopped; nothing is written\n");
    return CLI_FAILED;
}

/* ----- flags ----- */

typedef struct discover_flags {
    const char *keep, *from, *format, *label_column;
    gf_option_strings split;
    const char *out, *dup, *labels, *names, *tensor, *column, *id, *data, *query, *stored, *query_names, *query_labels, *device;
    double alpha, html_mb, memory, rank_timeout;
    int64_t k, top, max_pairs, approx, batch, epochs, sample, seed, threads, negatives, outliers;
    int32_t graph, html, head, learned, duplicates, resume, force, quiet;
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
    CLI_SWITCH(F, duplicates, "duplicates",
               "only duplicates, exact, in less than n^2 time: no thresholds, pairs and components; pays for a --dup near 1"),
    CLI_COUNT(F, approx, "approx", "P", NULL, 1, 65536,
              "approximate: compare an anchor only with the rows of its P nearest cells; the recall is measured"),
    CLI_STRING(F, keep, "keep", "RULE",
               "of duplicates keep the first (default), central, largest (image), label (the most frequent) or score:FILE one"),
    CLI_STRINGS(
        F, split, "split", "NAME=SPEC",
        "leaks between splits, each a file of embeddings, data of the run, or rows FIRST:END of EMB; earlier ones are kept"),
    CLI_COUNT(F, negatives, "negatives", "K", NULL, 1, GF_PAIRS_EDGE,
              "also the K most similar others of each that are not above"),
    CLI_COUNT(F, outliers, "outliers", "N", "1000", 0, 1e9, "list so many rows whose nearest one is least similar"),
    CLI_SWITCH(F, graph, "graph", "also graph.npz: the listed neighbours as a sparse matrix for SciPy"),
    CLI_STRING(
        F, format, "format", "NAME",
        "of the tables: tsv (default; pairs also as .jsonl), or parquet, for pandas, pyarrow and Spark; --from: as they were"),
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

static int check_flags(const cli_call *call, const discover_flags *f) {
    const int learner = cli_given(call, "batch") || cli_given(call, "epochs");
    const int decides = f->keep || f->split.count || f->negatives || f->graph || (cli_given(call, "sample") && !f->learned);
    const char *wrong = NULL;
    if (!call->words && !f->split.count && !f->from)
        return cli_misused(call, "EMB is needed: a file of embeddings, or the folder of a run");
    if (cli_given(call, "alpha") && cli_given(call, "k")) wrong = "--alpha and --k exclude each other";
    else if (!f->out) wrong = "--out is needed: the folder of the result";
    else if (!f->query != !f->stored) wrong = "--query and --stored go together";
    else if (f->query && f->learned) wrong = "--learned does not go with --query";
    else if (!f->query && (f->query_names || f->query_labels)) wrong = "--query-names and --query-labels go with --query";
    else if (f->head && !f->data && !(call->words && cli_is_run(call->word[0]))) wrong = "--head goes with a run";
    else if (f->query && f->html) wrong = "--html does not go with --query: the page is of EMB alone";
    else if (cli_given(call, "html-mb") && !f->html) wrong = "--html-mb goes with --html";
    else if (learner && !f->learned) wrong = "--batch and --epochs go with --learned";
    else if (f->query && decides) wrong = "--keep, --split, --negatives, --sample and --graph do not go with --query";
    else if (f->negatives && f->learned) wrong = "--negatives needs exact thresholds; it does not go with --learned";
    else if (f->from && (f->query || f->stored || f->learned || f->head))
        wrong = "--from does not go with --query, --stored, --learned and --head";
    else if (f->from && !call->words && ((f->keep && strcmp(f->keep, "central") == 0) || cli_given(call, "sample")))
        wrong = "--keep central and --sample need the embeddings: glofnd discover EMB --from DIR";
    else if (f->duplicates && (cli_given(call, "alpha") || f->k || f->negatives || f->learned || f->query || f->from || f->html))
        wrong =
            "--duplicates has no thresholds: it does not go with --alpha, --k, --negatives, --learned, --query, --from, --html";
    else if (f->approx && (f->duplicates || f->learned || f->query || f->from))
        wrong = "--approx does not go with --duplicates, --learned, --query and --from";
    else if (f->label_column && f->from && !f->labels)
        wrong = "--label-column goes with --labels FILES here: --from reads no EMB";
    else if (f->split.count && f->data) wrong = "--split and --data exclude each other: with a run, each split has its own data";
    return wrong ? cli_misused(call, "%s", wrong) : CLI_OK;
}

/* "exact" or a number; NaN: as the stored result has it. */
static int read_dup(const cli_call *call, const discover_flags *f, double *dup) {
    *dup = f->dup ? GF_DUP_EXACT : f->stored || f->from ? NAN : 0.98;
    if (!f->dup || strcmp(f->dup, "exact") == 0) return CLI_OK;
    if (!gf_number_read(f->dup, dup) && *dup >= -1.0 && *dup <= 1.0) return CLI_OK;
    return cli_misused(call, "--dup: \"%s\"; expected a number in [-1, 1], or exact", f->dup);
}

static int read_format(const cli_call *call, const char *name, gf_table_format *out) {
    *out = name && strcmp(name, "parquet") == 0 ? GF_TABLE_PARQUET : GF_TABLE_TSV;
    if (*out == GF_TABLE_PARQUET || !name || strcmp(name, "tsv") == 0) return CLI_OK;
    return cli_misused(call, "--format: \"%s\"; expected tsv or parquet", name);
}

static int read_spec(const cli_call *call, const discover_flags *f, cli_discover_job *j) {
    const int as_stored = (f->stored || f->from) && !cli_given(call, "alpha") && !f->k;
    double dup;
    int code = read_dup(call, f, &dup);
    if (code == CLI_OK) code = read_format(call, f->format, &j->format);
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
    if (code == CLI_OK)
        code = cli_decide_read(call, f->keep, &f->split, f->from || (call->words > 0 && !cli_is_run(call->word[0])), &j->decide);
    gf_decide_spec *c = &j->decide.spec;
    c->negatives = f->negatives, c->outliers = f->outliers, c->graph = f->graph;
    c->sample = cli_given(call, "sample") && !f->learned ? f->sample : 0;
    j->s.only_dup = f->duplicates, j->s.approx = f->approx;
    if (f->duplicates) c->outliers = 0;
    j->s.keep_rows = c->sample > 0 || c->keep == GF_KEEP_CENTRAL;
    return code;
}

static int run(const cli_call *call, const void *flags) {
    const discover_flags *f = flags;
    gf_error err = {{0}};
    cli_discover_job j = {.where = {.device = f->device, .threads = (int)f->threads},
                          .in = {.path = (const char *const *)call->word,
                                 .paths = call->words,
                                 .tensor = f->tensor,
                                 .column = f->column,
                                 .id = f->id,
                                 .label = f->labels || f->query_labels || f->from ? NULL : f->label_column},
                          .label_column = f->label_column,
                          .data = f->data,
                          .labels = f->labels,
                          .names = f->names,
                          .query = f->query,
                          .query_names = f->query_names,
                          .query_labels = f->query_labels,
                          .stored = f->stored,
                          .from = f->from,
                          .as_stored_top = !cli_given(call, "top"),
                          .as_stored_max = !cli_given(call, "max-pairs"),
                          .as_stored_format = !f->format,
                          .out = f->out,
                          .units.resume = f->resume,
                          .units.silence = f->rank_timeout,
                          .head = f->head,
                          .force = f->force,
                          .quiet = f->quiet,
                          .html = f->html,
                          .page.bytes = (size_t)(1e6 * f->html_mb)};
    int code;
    if ((code = read_spec(call, f, &j)) || (code = check_flags(call, f))) return code;
    cli_discover_name_source(&j, &f->split);
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
    free(j.decide.score);
    free(j.lambda);
    code = report_end(&j, status, &err);
    cli_units_close(&j.units); /* waits for all ranks: one that returned earlier would end the first one before it reports */
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
