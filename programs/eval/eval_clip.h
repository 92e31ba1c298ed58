/* eval_clip.h - what evaluations of image-text runs share: both encoders, retrieval on a dataset, flags that may come again. */
#pragma once

#include "programs/eval/eval.h"
#include "eval/retrieval.h"

typedef struct eval_encoders { /* all zero: none */
    gf_run_encoder *image, *text;
} eval_encoders;

/* `spec`: of the images. In a failure, too, to be freed. E_ARGUMENT: a run without encoder of captions. */
glofnd_status eval_encoders_open(gf_error *err, const gf_run_encoder_spec *spec, eval_encoders *out);
void eval_encoders_free(eval_encoders *t);

typedef struct eval_retrieved {
    gf_retrieval found;
    int64_t dim, repeated, lost; /* as gf_text_pairs */
} eval_retrieved;

/* Encodes images and captions, with a line about it, and ranks. */
glofnd_status eval_retrieve(gf_error *err, const eval_encoders *t, const char *spec, eval_retrieved *out);
/* Ranks what is there, on in->job.threads threads (0: all). */
glofnd_status eval_rank(gf_error *err, gf_retrieval_input *in, gf_retrieval *out);
/* `name`: of the dataset, short. */
glofnd_status eval_record_retrieval(gf_error *err, const eval_samples *s, const char *name, const gf_retrieval *r);

/* Takes every "--NAME VALUE" and "--NAME=VALUE" out of argv. Their number; -1, with a message, if they are more than `max`. */
int eval_gather(int *argc, char **argv, const char *name, const char **value, int max);
