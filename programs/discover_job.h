/* discover_job.h - one call of `glofnd discover`: its settings as given, what it reads and what it finds. */
#pragma once

#include "programs/discover_decide.h"
#include "programs/discover_units.h"
#include "discover/discover_files.h"
#include "discover/stored_result.h"
#include "eval/encode.h"
#include "run/progress.h"
#include "util/text.h"

typedef struct cli_discover_job {
    gf_encoder_device where; /* as given; the device is also that of the search */
    gf_embedding_input in;   /* EMB: files, folders, patterns */
    gf_embedding_set *set;
    gf_string_list label_texts;     /* of --label-column, of all files */
    char source[256];               /* EMB in words */
    char run_data[PATH_MAX + 1024]; /* SPEC of the run, if none was given */
    const char *label_column;       /* of the files of --labels */
    const char *data, *labels, *names, *query, *query_names, *query_labels, *stored, *from, *out;
    int as_stored_top, as_stored_max, as_stored_format; /* --from: not given */
    int head, force, quiet, html, run;                  /* run: source is one, to encode images with */
    gf_table_format format;
    gf_discover_html page;
    gf_dataset *images;
    gf_dataset *split_images[GF_SPLITS_MAX];
    cli_decide decide;
    gf_decisions decisions;
    gf_stored_result old;
    int new_labels; /* --from: other labels than the stored ones */
    cli_units units;
    gf_discover_spec s;
    gf_progress line;
    const char *stage; /* that the line shows */
    gf_discover_data d, q;
    gf_discover_data *encoding; /* of the images that are encoded now: notes why some are unreadable */
    glofnd_status noted;
    gf_error note_error;
    gf_discover_result r;
    float *lambda; /* stored thresholds */
} cli_discover_job;

/* 1: a folder with a configuration of a run; in other folders the files are embeddings. */
int cli_is_run(const char *path);
/* Sets j->source. */
void cli_discover_name_source(cli_discover_job *j, const gf_option_strings *split);
/* A line of progress under this name. */
void cli_discover_start(cli_discover_job *j, const char *stage);
/* Embeddings of files, of a run and its images or of splits, with names and labels; those of --query; a stored result. */
glofnd_status cli_discover_load(gf_error *err, cli_discover_job *j);
glofnd_status cli_discover_load_query(gf_error *err, cli_discover_job *j);
glofnd_status cli_discover_load_from(gf_error *err, cli_discover_job *j);
