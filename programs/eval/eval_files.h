/* eval_files.h - evaluations of embeddings in files, by any model, in place of a run: `glofnd eval knn FILE.npy --labels
 * FILE.npy`. Nothing is recorded: there is no run.
 */
#pragma once

#include "programs/eval/eval.h"
#include "eval/view_set.h"

#define EVAL_FILE_SEED 1 /* of the rows that are held out, and of the order of batches */

typedef struct eval_files {
    const char *labels, *test_labels, *thresholds;
} eval_files;

#define EVAL_FILES_USAGE "EMBEDDINGS --labels FILE.npy"
#define EVAL_LABELS(s, f) \
    CLI_STRING(s, f.labels, "labels", "FILE.npy", "of embeddings in a file: int32, int64 or uint8 [rows], negative: none")
#define EVAL_TEST_LABELS(s, f) \
    CLI_STRING(s, f.test_labels, "test-labels", "FILE.npy", "of test embeddings: --test is then a file, too")
#define EVAL_THRESHOLDS(s, f) \
    CLI_STRING(s, f.thresholds, "thresholds", "FILE.npy", "of embeddings in a file: learned ones, float32 [rows], NaN: none")

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
