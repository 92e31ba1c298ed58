/* eval.h - what the sub-verbs of `glofnd eval` share: which samples, the encoder of a run, and RUN/eval.jsonl. */
#ifndef GF_CLI_EVAL_EVAL_H
#define GF_CLI_EVAL_EVAL_H

#include "cli/cli.h"
#include "cli/device_flags.h"
#include "eval/encode.h"
#include "eval/split.h"
#include "run/eval_writer.h"

/* argv[0] is the title ("eval knn"), argv[1] the run. */
int eval_knn(int argc, char **argv);
int eval_linear(int argc, char **argv);
int eval_transfer(int argc, char **argv);
int eval_fn(int argc, char **argv);
int eval_threshold(int argc, char **argv);
int eval_retrieval(int argc, char **argv);
int eval_zeroshot(int argc, char **argv);

#define EVAL_HELD_OUT 0.2 /* of each class, where the data has no test split */

typedef struct eval_samples {
    const char *run, *data, *test; /* asked for; data NULL: the run's; test NULL: its test split, else EVAL_HELD_OUT of it */
    int untrained;
    gf_encoder_device where;
    char run_data[sizeof((gf_config *)0)->data]; /* found: SPEC of the data if none was given */
    char test_name[GF_SPLIT_NAME];               /* found: SPEC of the test samples; "" if they are held out of the data */
    int threads;                                 /* found: those of the encoder, for what comes after it */
    int embeddings; /* found: a run of task clip, of which embeddings are taken, not features of the backbone */
} eval_samples;

/* The encoder of the run, and which samples are for what. */
glofnd_status eval_open(gf_error *err, eval_samples *s, gf_run_encoder **encoder, gf_split *split);
/* Centre crops of training and test samples, with a line about it. Damaged samples are named on stderr and left out. */
glofnd_status eval_encode_split(gf_error *err, gf_run_encoder *encoder, const gf_split *split, gf_features *train,
                                gf_features *test);
/* Both. */
glofnd_status eval_encode(gf_error *err, eval_samples *s, gf_features *train, gf_features *test);
/* CLI_OK if there is one RUN among `n` plain arguments and `data` is not NULL; else what is wrong, the usage, and CLI_USAGE. */
int eval_check_arguments(const char *title, const char *usage, int n, const char *data);
/* 1, with a message that ends in `instead`, if --FLAG is given more than once: its last value would replace the others. */
int eval_repeated(int argc, char **argv, const char *flag, const char *instead);
/* The SPEC in "NAME=SPEC" or "SPEC", and a short name to call it by: NAME, or what the SPEC begins with. */
const char *eval_name(const char *text, char *name, size_t bytes);
/* "test  N samples of SPEC" */
void eval_print_samples(const eval_samples *s, int64_t train_n, int64_t test_n);

/* Begins a record of RUN/eval.jsonl with the keys that all events have; gf_eval_writer_end ends it. */
void eval_log_begin(gf_eval_writer *log, const char *event, const char *protocol, const eval_samples *s);

#endif
