/* discover_load.c - what `glofnd discover` reads: see discover_job.h. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embeddings/embedding_set.h"
#include "eval/encode.h"
#include "io/file.h"
#include "programs/cli.h"
#include "programs/discover_job.h"
#include "programs/trained_run.h"
#include "run/run_folder.h"
#include "util/text.h"

enum { PROGRESS_STEPS = 1000000 };

/* ----- progress ----- */

static void draw(void *user, const char *stage, double share) {
    cli_discover_job *j = user;
    char text[80];
    if (stage != j->stage) { /* a new stage: its time left is estimated from its own progress */
        gf_progress_end(&j->line);
        j->line = gf_progress_start(0, j->line.mode);
        j->stage = stage;
    }
    snprintf(text, sizeof text, "%s: %.1f %%", stage, 100.0 * share);
    gf_progress_draw(&j->line, (int64_t)(share * PROGRESS_STEPS), PROGRESS_STEPS, text, share >= 1.0);
}

void cli_discover_start(cli_discover_job *j, const char *stage) {
    j->line = gf_progress_start(0, j->quiet ? GF_PROGRESS_QUIET : cli_progress_mode());
    j->stage = stage;
    j->s.task.watch = (gf_job_progress){.progress = draw, .user = j, .stage = stage, .stop = &cli_interrupted};
}

/* Three digits, and the unit they need. */
const char *cli_amount(cli_amount_text out, double bytes) {
    const char *unit = bytes >= 1e9 ? "GB" : bytes >= 1e6 ? "MB" : "kB";
    const double x = bytes / (bytes >= 1e9 ? 1e9 : bytes >= 1e6 ? 1e6 : 1e3);
    snprintf(out, sizeof(cli_amount_text), "%.*f %s", x < 10.0 ? 2 : x < 100.0 ? 1 : 0, x, unit);
    return out;
}

/* Reports the memory that will be taken, before it is. */
static glofnd_status report_memory(gf_error *err, const cli_discover_job *j, int64_t n, int64_t dim) {
    int64_t rank = 0;
    TRY(gf_discover_rank(err, &j->s, n, &rank));
    const gf_pairs_plan p = gf_discover_plan_for(&j->s, n, dim, rank);
    const double raw = 4.0 * (double)n * (double)dim, work = (double)(p.lists + p.results + p.scratch);
    const double most = (double)p.rows + (j->s.learned || j->s.keep_rows ? raw + work : fmax(raw, work));
    cli_amount_text a, b, c;
    if (!j->quiet && p.device)
        gf_print(stderr, "%lld x %lld: at most %s on the GPU (CUDA itself takes some 0.5 GB more) and %s of memory, %.3g pairs\n",
                 (long long)n, (long long)dim, cli_amount(a, (double)p.device), cli_amount(b, most),
                 0.5 * (double)n * (double)(n - 1));
    else if (!j->quiet)
        gf_print(stderr, "%lld x %lld: at most %s of memory (%s embeddings, %s lists), %d pass%s over %.3g pairs\n", (long long)n,
                 (long long)dim, cli_amount(a, most), cli_amount(b, (double)p.rows), cli_amount(c, (double)p.lists), p.passes,
                 p.passes > 1 ? "es" : "", 0.5 * (double)n * (double)(n - 1));
    FAIL_IF(err, p.lists > j->s.task.memory, GLOFND_E_MEMORY,
            "the lists of the %lld most similar of %lld anchors take %s; --memory allows %s: raise it, or lower --top",
            (long long)j->s.task.top, (long long)n, cli_amount(a, (double)p.lists), cli_amount(b, (double)j->s.task.memory));
    return GLOFND_OK;
}

/* ----- embeddings of a run ----- */

static void report_unreadable(void *user, int64_t i, const char *message) {
    cli_discover_job *j = user;
    if (j->noted == GLOFND_OK) j->noted = gf_discover_set_unreadable(&j->note_error, j->encoding, i, message);
    gf_print(stderr, "glofnd discover: sample %lld is left out: %s\n", (long long)i, message);
}

static void encoded(void *user, int64_t done, int64_t total) {
    const cli_discover_job *j = user;
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
    return GLOFND_OK;
}

/* Unreadable samples keep their row, of zeros, so that rows are positions in the dataset. */
static glofnd_status encode(gf_error *err, cli_discover_job *j, const gf_dataset *images, gf_discover_data *d) {
    gf_run_encoder *e = NULL;
    gf_features f = {0};
    const gf_encode_spec spec = {.aligned = 1, .unreadable = report_unreadable, .progress = encoded, .user = j};
    cli_discover_start(j, "images");
    d->n = gf_dataset_describe(images).n;
    j->encoding = d;
    const gf_run_encoder_spec run = {.run = j->in.path[0],
                                     .head = j->f->head,
                                     .placement = {.device = j->f->device, .threads = (int)j->f->threads}};
    glofnd_status status = device_flags_open(err, "discover", &run, &e);
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, images, &spec, &f);
    gf_progress_end(&j->line);
    if (status == GLOFND_OK && j->noted != GLOFND_OK) status = gf_fail(err, j->noted, "%s", j->note_error.text);
    if (status == GLOFND_OK) {
        d->n = f.n, d->dim = f.dim, d->x = f.x;
        f.x = NULL;
    }
    gf_features_free(&f);
    gf_run_encoder_free(e);
    return status;
}

/* Labels and names of the dataset, unless files have them. */
static glofnd_status describe_rows(gf_error *err, cli_discover_job *j) {
    const gf_dataset_info info = gf_dataset_describe(j->images);
    FAIL_IF(err, info.n != j->d.n, GLOFND_E_ARGUMENT,
            "%.200s has %lld images, '%.200s' %lld embeddings; row i must be of image i", j->data, (long long)info.n, j->source,
            (long long)j->d.n);
    if (!j->f->labels && info.classes > 0) TRY(take_labels(err, j->images, &j->d));
    return j->f->names ? GLOFND_OK : take_names(err, j->images, "", &j->d);
}

/* ----- the job ----- */

/* A folder is a run if it has a configuration; else its files are embeddings. */
int cli_is_run(const char *path) {
    char config[PATH_MAX];
    return gf_is_folder(path) && gf_path_join(NULL, config, path, GF_CONFIG_FILE) == GLOFND_OK && access(config, F_OK) == 0;
}

/* EMB in words, for summaries: "a.npy and 2 more"; of splits that are sources "train=a.npy test=b.npy". */
void cli_discover_name_source(cli_discover_job *j) {
    const gf_option_strings *split = &j->f->split;
    const int more = j->in.paths - 1;
    size_t used = 0;
    if (more > 0) snprintf(j->source, sizeof j->source, "%.200s and %d more", j->in.path[0], more);
    else if (more == 0) snprintf(j->source, sizeof j->source, "%.250s", j->in.path[0]);
    for (int k = 0; more < 0 && k < split->count && used < sizeof j->source; k++)
        used += (size_t)snprintf(j->source + used, sizeof j->source - used, "%s%s", k ? " " : "", split->at[k]);
    gf_utf8_trim(j->source);
}

/* Names of columns that no file has would be without effect. columns: 1: some file of embeddings has columns. */
static glofnd_status check_columns(gf_error *err, const cli_discover_job *j, int columns) {
    const int names = (j->f->names && gf_names_have_columns(j->f->names, j->in.id)) ||
                      (j->f->query_names && gf_names_have_columns(j->f->query_names, j->in.id));
    FAIL_IF(err, j->in.column && !columns, GLOFND_E_OPTION,
            "--column is a column of Parquet files or tables; the embeddings are in none");
    FAIL_IF(err, j->in.id && !columns && !names, GLOFND_E_OPTION,
            "--id is a column of Parquet files or tables: of the embeddings, or of --names FILES; there is none here");
    return GLOFND_OK;
}

/* The same of labels, which are known before anything is read. */
static glofnd_status check_label_column(gf_error *err, const cli_discover_job *j) {
    const int array = j->f->labels && !gf_labels_have_columns(j->f->labels),
              query_array = j->f->query_labels && !gf_labels_have_columns(j->f->query_labels);
    FAIL_IF(err, j->f->label_column && (array || query_array) && (!j->f->labels || array) && (!j->f->query_labels || query_array),
            GLOFND_E_OPTION, "--label-column is a column of Parquet files or tables; '%.300s' is none: leave one of the two out",
            j->f->labels ? j->f->labels : j->f->query_labels);
    return GLOFND_OK;
}

static glofnd_status read_rows(gf_error *err, cli_discover_job *j) {
    TRY(gf_embeddings_open(err, &j->in, &j->set));
    FAIL_IF(err, j->in.tensor && !gf_embeddings_have_tensors(j->set), GLOFND_E_OPTION,
            "--tensor is one of .safetensors files; the embeddings are in none");
    if (!j->f->query) TRY(check_columns(err, j, gf_embeddings_have_columns(j->set)));
    const char *columns = gf_embeddings_columns(j->set);
    if (columns && !j->quiet && cli_units_rank(j) == 0) gf_print(stderr, "embeddings from %s\n", columns);
    if (j->in.label) TRY(gf_embeddings_labels(err, j->set, &j->label_texts));
    TRY(cli_units_choose(err, j));
    if (j->in_units) {
        j->d.n = gf_embeddings_rows(j->set), j->d.dim = gf_embeddings_dim(j->set);
        return gf_embeddings_have_names(j->set) ? gf_discover_read_set_names(err, j->set, &j->d) : GLOFND_OK;
    }
    if (!j->f->query) TRY(report_memory(err, j, gf_embeddings_rows(j->set), gf_embeddings_dim(j->set)));
    return gf_discover_read_set(err, j->set, &j->d);
}

/* One split: a dataset that the run encodes. */
static glofnd_status load_split(gf_error *err, cli_discover_job *j, int k, gf_discover_data *part) {
    TRY(gf_dataset_open(err, j->split_source[k], &j->split_images[k]));
    TRY(encode(err, j, j->split_images[k], part));
    if (gf_dataset_describe(j->split_images[k]).classes == gf_dataset_describe(j->split_images[0]).classes)
        TRY(take_labels(err, j->split_images[k], part));
    j->page.images[k] = (gf_row_images){j->split_images[k], j->d.n};
    j->page.image_sets = k + 1;
    return take_names(err, j->split_images[k], j->decide.split[k].name, part);
}

glofnd_status cli_discover_load(gf_error *err, cli_discover_job *j) {
    const int sources = j->decide.splits && !j->split_ranges;
    j->run = j->in.paths > 0 && cli_is_run(j->in.path[0]);
    if (j->run && !j->data && !sources) {
        TRY(gf_run_data_of(err, j->in.path[0], j->run_data, sizeof j->run_data));
        j->data = j->run_data;
    }
    FAIL_IF(err, j->run && j->in.paths > 1, GLOFND_E_ARGUMENT, "'%.250s' is a run; it must be the only one", j->in.path[0]);
    FAIL_IF(err, j->run && j->in.label, GLOFND_E_ARGUMENT,
            "--label-column goes with files; the labels of a run are those of its data");
    FAIL_IF(err, j->f->head && !j->run, GLOFND_E_ARGUMENT, "--head goes with a run; '%.300s' is a file of embeddings", j->source);
    TRY(check_label_column(err, j));
    if (j->run) TRY(check_columns(err, j, 0));
    TRY(cli_units_refuse(err, j, j->run ? "the images of a run" : NULL));
    if (j->decide.splits && !j->split_ranges) {
        if (!j->run) {
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
            cli_decide_place(j, splits_rows);
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
            cli_decide_place(j, rows);
        }
    } else {
        if (j->data) TRY(gf_dataset_open(err, j->data, &j->images));
        TRY(j->run ? encode(err, j, j->images, &j->d) : read_rows(err, j));
        if (j->data) TRY(describe_rows(err, j));
    }
    TRY(cli_decide_check(err, j));
    if (j->f->labels) TRY(gf_discover_read_labels(err, j->f->labels, j->f->label_column, &j->d));
    if (j->in.label) TRY(gf_row_labels_of_texts(err, &j->label_texts, j->d.n, &j->d.label, &j->d.classes));
    if (j->f->names) TRY(gf_discover_read_names(err, j->f->names, j->in.id, &j->d));
    if (j->in_units) {
        cli_discover_start(j, "rows");
        const glofnd_status status = gf_discover_classify_stream(err, &j->units.source, &j->s.task.watch, &j->d);
        gf_progress_end(&j->line);
        TRY(status);
    } else {
        TRY(gf_discover_classify(err, &j->d));
    }
    if (j->run && !j->f->query) TRY(report_memory(err, j, j->d.n, j->d.dim));
    return GLOFND_OK;
}

/* What was not given is as a stored result has it. */
static void take_stored(cli_discover_job *j, const gf_discover_spec *stored) {
    if (j->as_stored.threshold) j->s.alpha = stored->alpha, j->s.k = stored->k;
    if (j->as_stored.dup) j->s.dup_exact = stored->dup_exact, j->s.dup = stored->dup;
}

glofnd_status cli_discover_load_query(gf_error *err, cli_discover_job *j) {
    FAIL_IF(err, cli_is_run(j->f->query), GLOFND_E_ARGUMENT,
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
    gf_discover_spec stored = {0};
    TRY(gf_discover_read_stored(err, j->f->stored, &j->d, &stored, &j->lambda));
    take_stored(j, &stored);
    return GLOFND_OK;
}

/* ----- a stored result ----- */

/* Names and labels are the stored ones unless given. */
glofnd_status cli_discover_load_from(gf_error *err, cli_discover_job *j) {
    TRY(check_label_column(err, j));
    if (!j->reads_rows) TRY(check_columns(err, j, 0));
    TRY(gf_stored_result_read(err, j->f->from, &j->old));
    take_stored(j, &j->old.s);
    if (j->as_stored.top) j->s.task.top = j->old.s.task.top;
    if (j->as_stored.max_pairs) j->s.max_pairs = j->old.s.max_pairs;
    if (j->as_stored.format) j->format = j->old.format;
    if (!j->decide.splits) {
        memcpy(j->decide.split, j->old.split, sizeof j->old.split);
        j->decide.splits = j->old.splits;
    }
    const gf_discover_data none = {0};
    j->d = j->old.d, j->old.d = none;
    if (j->reads_rows) {
        /* The embeddings of the stored result, for decisions that need them. */
        gf_discover_data d = {0};
        TRY(gf_embeddings_open(err, &j->in, &j->set));
        TRY(check_columns(err, j, gf_embeddings_have_columns(j->set)));
        glofnd_status embeddings_status = gf_discover_read_set(err, j->set, &d);
        if (embeddings_status == GLOFND_OK) embeddings_status = gf_discover_classify(err, &d);
        if (embeddings_status == GLOFND_OK && (d.n != j->d.n || d.dim != j->d.dim || d.crc != j->d.crc))
            embeddings_status = gf_fail(err, GLOFND_E_ARGUMENT, "'%.300s' is the result of other embeddings than '%.300s'",
                                        j->f->from, j->source);
        if (embeddings_status == GLOFND_OK) j->d.x = d.x, d.x = NULL;
        gf_discover_data_free(&d);
        TRY(embeddings_status);
    }
    int32_t *label = j->d.label;
    if (j->f->labels || j->data) j->d.label = NULL;
    glofnd_status status = j->data ? gf_dataset_open(err, j->data, &j->images) : GLOFND_OK;
    if (j->data && !j->f->names && status == GLOFND_OK) gf_discover_free_names(&j->d);
    if (j->data && status == GLOFND_OK) status = describe_rows(err, j);
    if (j->f->labels && status == GLOFND_OK) status = gf_discover_read_labels(err, j->f->labels, j->f->label_column, &j->d);
    if (j->f->names && status == GLOFND_OK) status = gf_discover_read_names(err, j->f->names, j->in.id, &j->d);
    j->new_labels = label != j->d.label && (!label || !j->d.label || memcmp(label, j->d.label, (size_t)j->d.n * sizeof *label));
    if (label != j->d.label) free(label);
    TRY(status);
    return cli_decide_check(err, j);
}
