/* discover_job.h - one call of `glofnd discover`: what was asked for, what it reads and what it finds.
 *
 * cmd_discover.c has the flags and the order of work; discover_load.c reads; discover_decide.c is about --keep and --split;
 * discover_units.c about what does not fit into memory, is resumed, or runs over ranks.
 */
#pragma once

#include <limits.h>

#include "discover/discover_files.h"
#include "discover/stored_result.h"
#include "discover/units.h"
#include "dist/comm.h"
#include "eval/encode.h"
#include "programs/cli.h"
#include "report/explorer.h"
#include "run/progress.h"
#include "util/text.h"

typedef struct discover_flags { /* as given */
    const char *keep, *from, *format, *label_column;
    gf_option_strings split;
    const char *out, *dup, *labels, *names, *tensor, *column, *id, *data, *query, *stored, *query_names, *query_labels, *device;
    double alpha, html_mb, memory, rank_timeout;
    int64_t k, top, max_pairs, approx, batch, epochs, sample, seed, threads, negatives, outliers;
    int32_t graph, html, head, learned, duplicates, resume, force, quiet;
} discover_flags;

typedef struct cli_discover_job {
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

    /* what is found and written */
    gf_progress line;
    const char *stage; /* that the line shows */
    gf_discover_result r;
    double *score; /* of --keep */
    gf_decisions decisions;
    gf_table_format format;
    gf_discover_html page;
} cli_discover_job;

/* ----- discover_load.c ----- */

typedef char cli_amount_text[24];

/* "3.20 GB": three digits, and the unit they need. */
const char *cli_amount(cli_amount_text out, double bytes);

/* 1: a folder with a configuration of a run; in other folders the files are embeddings. */
int cli_is_run(const char *path);
/* Sets j->source. */
void cli_discover_name_source(cli_discover_job *j);
/* A line of progress under this name. */
void cli_discover_start(cli_discover_job *j, const char *stage);
/* Embeddings of files, of a run and its images or of splits, with names and labels; those of --query; a stored result. */
glofnd_status cli_discover_load(gf_error *err, cli_discover_job *j);
glofnd_status cli_discover_load_query(gf_error *err, cli_discover_job *j);
glofnd_status cli_discover_load_from(gf_error *err, cli_discover_job *j);

/* ----- discover_decide.c ----- */

/* Reads --keep and --split: CLI_OK, or CLI_USAGE with a message. j->split_ranges is set. */
int cli_decide_read(const cli_call *call, cli_discover_job *j);
/* Splits that are sources have now these rows: source k has rows[k]. */
void cli_decide_place(cli_discover_job *j, const int64_t *rows);
/* Checks splits against the rows. */
glofnd_status cli_decide_check(gf_error *err, const cli_discover_job *j);
/* Reads or measures the scores that --keep needs. Before that: r. */
glofnd_status cli_decide_scores(gf_error *err, cli_discover_job *j);

/* ----- discover_units.c ----- */

/* Joins the other ranks, if a launcher has started some. From then on a rank that never comes or falls silent is named, and all
 * end. */
glofnd_status cli_units_open(gf_error *err, cli_discover_job *j);
void cli_units_close(cli_discover_job *j);
int cli_units_rank(const cli_discover_job *j);
/* All ranks wait for each other; the first failure is that of all. */
glofnd_status cli_units_agree(gf_error *err, const cli_discover_job *j, glofnd_status mine);
/* j->set is open: decides whether its rows are streamed. E_OPTION: they must be, and something else does not allow it. */
glofnd_status cli_units_choose(gf_error *err, cli_discover_job *j);
/* Also without embeddings of files, which units need. */
glofnd_status cli_units_refuse(gf_error *err, const cli_discover_job *j, const char *why);
/* --resume, and the result is already there: a call that was killed at its very end may have left parts. */
void cli_units_clean(cli_discover_job *j);
