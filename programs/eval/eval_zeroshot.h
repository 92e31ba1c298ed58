/* eval_zeroshot.h - what `glofnd eval zeroshot` is made of: the datasets of a call, and running one of them. */
#pragma once

#include "programs/eval/eval_clip.h"
#include "eval/associations.h"
#include "eval/datacomp.h"
#include "eval/zeroshot.h"

typedef struct zeroshot_set { /* a row of the table */
    eval_dataset data;
    int retrieval; /* by captions, not by classes */
    gf_scoring scoring;
    const gf_datacomp_task *task;    /* of the benchmark that has this name; NULL: none */
    int of_benchmark;                /* found in the folder of the benchmark */
    const char *classes, *templates; /* files; NULL: the data's names, our own sentences */
    char own_templates[PATH_MAX];    /* the file that came with the data */
    eval_samples samples;
    uint32_t classes_sum, templates_sum; /* found: checksums of the names and sentences */
    gf_zeroshot found;
    eval_retrieved retrieved;
    gf_associations associated;
} zeroshot_set;

typedef struct zeroshot_job {
    const char *run;
    gf_encoder_device where;
    int untrained, metric; /* metric: 0 the dataset's own, 1 top-1, 2 mean per class */
    gf_option_strings data, retrieval, classes, templates;
    const char *datacomp; /* the folder with the benchmark's evaluation sets; NULL: none */
    zeroshot_set *set;    /* [sets] */
    int sets;
    eval_encoders encoders;
} zeroshot_job;

/* Opens the data and reads class names and templates: an error in the last dataset is reported before the first one runs. */
glofnd_status zeroshot_check(gf_error *err, zeroshot_set *s);
/* Fills found, retrieved or associated, by the score of the set. */
glofnd_status zeroshot_run(gf_error *err, const zeroshot_job *j, zeroshot_set *s);
