/* eval.h - what the sub-verbs of `glofnd eval` share: which samples, the encoder of a run, and RUN/eval.jsonl. */
#pragma once

#include "eval/encode.h"
#include "eval/split.h"
#include "eval/zeroshot.h"
#include "programs/cli.h"
#include "programs/trained_run.h"
#include "run/run_eval.h"

extern const cli_verb eval_knn, eval_linear, eval_transfer, eval_fn, eval_threshold, eval_retrieval, eval_zeroshot;

/* Rows that several of them have; f: a field of s. */
#define EVAL_UNTRAINED(s, f) CLI_SWITCH(s, f, "untrained", "use the run's initial weights: the baseline")
#define EVAL_METRIC(s, f, h) CLI_CHOICE(s, f, "metric", NULL, eval_metrics, h)
#define EVAL_TAKES_RUN                                                                                          \
    .word = "RUN", .word_help = "the folder of a run, or a file of embeddings", .min_words = 1, .max_words = 1, \
    .shows_progress = 1
#define EVAL_ONE_DATASET .once = "expected one"
extern const char *const eval_metrics[]; /* top1, mean */
enum { EVAL_DATASETS_MAX = GF_OPTION_STRINGS_MAX };

#define EVAL_HELD_OUT 0.2 /* of each class, where the data has no test split */

typedef struct eval_samples {
    const char *run, *data, *test; /* asked for; data NULL: the run's; test NULL: its test split, else EVAL_HELD_OUT of it */
    int untrained;
    gf_encoder_device where;
    char run_data[sizeof((gf_config *)0)->data]; /* found: SPEC of the data if none was given */
    char test_name[GF_TEST_SPEC];                /* found: SPEC of the test samples; "" if they are held out of the data */
    int trained_on;                              /* found: the data is that of the run, and its weights are used */
    int threads;                                 /* found: those of the encoder, for what comes after it */
    int embeddings; /* found: a run of task clip, of which embeddings are taken, not features of the backbone */
} eval_samples;

/* The encoder of the run, and which samples are for what. */
glofnd_status eval_open(gf_error *err, eval_samples *s, gf_run_encoder **encoder, gf_split *split);
/* Centre crops of training and test samples, with a line about it. Damaged samples are named on stderr and left out. */
glofnd_status eval_encode_split(gf_error *err, gf_run_encoder *encoder, const gf_split *split, gf_features *train,
                                gf_features *test);

/* An argument: "SPEC", "NAME=SPEC"; "NAME=DIR" or "NAME=folder:DIR" of a known dataset is NAME:DIR. */
typedef struct eval_dataset {
    char name[64], spec[GF_TEST_SPEC]; /* the name of a bare SPEC is what the SPEC begins with */
    const gf_known_dataset *known;     /* of that name; NULL: none */
} eval_dataset;
/* E_ARGUMENT: too long. */
glofnd_status eval_dataset_read(gf_error *err, const char *text, eval_dataset *out);
/* The same for data that is only tested on: a known dataset without ?split= is its test split. */
glofnd_status eval_dataset_read_test(gf_error *err, const char *text, eval_dataset *out);
/* The run with its thresholds, for `what`: fn, threshold. *alpha 0: becomes the run's. Thresholds learned with similarity bank
 * are on the scale of averages: a warning says so. */
glofnd_status eval_open_trained(gf_error *err, const char *what, eval_samples *s, eval_progress *progress, gf_trained_run **run,
                                double *alpha);
/* "test  N samples of SPEC"; a warning on stderr if they are a part of the images that the encoder was trained on. */
void eval_print_samples(const eval_samples *s, int64_t train_n, int64_t test_n);

/* Begins a record of RUN/eval.jsonl with the keys that all events have; gf_eval_writer_end ends it. */
void eval_log_begin(gf_eval_writer *log, const char *event, const char *protocol, const eval_samples *s);
/* status: of storing results that are printed already. A failure says so. */
glofnd_status eval_stored(gf_error *err, glofnd_status status);

/* ----- files ----- */

/* Evaluations of embeddings in files, by any model, in place of a run: `glofnd eval knn FILE.npy --labels
 * FILE.npy`. Nothing is recorded: there is no run.
 */

#define EVAL_FILE_SEED 1 /* of the rows that are held out, and of the order of batches */

typedef struct eval_files {
    const char *labels, *test_labels, *thresholds;
} eval_files;

#define EVAL_FILES_USAGE "EMBEDDINGS --labels FILE.npy"
#define EVAL_LABELS(s, f) \
    CLI_STRING(s, f.labels, "labels", "FILE.npy", "labels of an embeddings file: int32, int64 or uint8 [rows], negative: none")
#define EVAL_TEST_LABELS(s, f) \
    CLI_STRING(s, f.test_labels, "test-labels", "FILE.npy", "labels for --test, which must then be an embeddings file")
#define EVAL_THRESHOLDS(s, f) \
    CLI_STRING(s, f.thresholds, "thresholds", "FILE.npy", "learned thresholds for an embeddings file: float32 [rows], NaN: none")

/* 1: `word` names a file, not the folder of a run. */
int eval_is_file(const char *word);
/* Flags that do not go with a file, or with a run: CLI_USAGE, with a message. `data` NULL: not given. */
int eval_files_check(const cli_call *call, const eval_files *f, const char *data, const device_flags *device, int untrained);
/* Labelled rows; labels of test rows are numbered as those of training rows. test NULL: EVAL_HELD_OUT of each class. Fills
 * names in *s for eval_print_samples. */
glofnd_status eval_files_split(gf_error *err, eval_samples *s, const eval_files *f, gf_features *train, gf_features *test);
/* All rows in random order: files are often sorted by class, and batches of one class say nothing. labels NULL: none.
 * *lambda [n], to be freed: thresholds in that order; NULL: none. */
glofnd_status eval_files_view_set(gf_error *err, const char *path, const eval_files *f, gf_view_set *out, float **lambda);
