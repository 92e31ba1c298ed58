/* zeroshot.h - zero-shot classification: an image gets the class whose prompts are nearest to its embedding.
 *
 *     gf_prompts p;  TRY(gf_prompts_templates(err, NULL, &p.templates));  ... names, in the order of the labels, to p.classes
 *     float *c;      TRY(gf_zeroshot_classifier(err, text_encoder, &p, &c));
 *     TRY(gf_zeroshot_score(err, &images, c, p.classes.n, &job, &result));
 */
#pragma once

#include "eval/encode.h"
#include "pairs/pairs_sweep.h"
#include "util/string_list.h"

#define GF_PROMPT_MAX 4096 /* bytes of a class name or template */

typedef struct gf_prompts {   /* zeroed: none */
    gf_string_list classes;   /* name of label i */
    gf_string_list templates; /* sentences with {} in place of the class name */
} gf_prompts;

void gf_prompts_free(gf_prompts *p);
/* Lines of a file; NULL: a small built-in set. E_FORMAT names file and line: no {}, empty (except at the end), too long. */
glofnd_status gf_prompts_templates(gf_error *err, const char *path, gf_string_list *out);
/* Class names of a dataset: from a file with one per line, or (path NULL) its own, with _ replaced by spaces. E_FORMAT: the file
 * does not have as many names as the data has named classes, or has fewer than labels. E_ARGUMENT: no labels, or no names. */
glofnd_status gf_prompts_classes(gf_error *err, const gf_dataset *data, const char *path, gf_string_list *out);
/* The template with every {} replaced, terminated by 0; returns its full length, which may exceed `bytes`. */
size_t gf_prompt_fill(const char *template, const char *name, char *out, size_t bytes);

/* z [classes][templates][dim], rows of any length, to out [classes][dim]: normalised mean of the normalised rows. */
glofnd_status gf_zeroshot_average(gf_error *err, const float *z, int64_t classes, int64_t templates, int64_t dim, float *out);
/* Every prompt of every class through the text encoder; *out [classes][dim], malloc'ed. */
glofnd_status gf_zeroshot_classifier(gf_error *err, gf_run_encoder *text, const gf_prompts *p, float **out);

typedef struct gf_zeroshot {
    int64_t n, classes; /* images with a label; classes to choose from */
    int64_t seen;       /* classes with an image */
    double top1, top5;
    double per_class;                 /* mean top-1 over seen classes */
    double macro_f1;                  /* mean over seen classes of F1 */
    int64_t groups;                   /* groups with an image; 0: none are given */
    double worst_group, worst_group5; /* smallest top-1 and top-5 of a group; NaN: no groups */
} gf_zeroshot;

typedef struct gf_zeroshot_groups {
    const int32_t *group; /* [images] -1: in none */
    int32_t left_out;     /* a group that does not count; -1: none */
} gf_zeroshot_groups;

/* Among equally similar classes, the smaller label comes first. Images without label are not counted. E_ARGUMENT: no image has a
 * label, or a label is not below `classes`. */
glofnd_status gf_zeroshot_score(gf_error *err, const gf_features *images, const float *classifier, int64_t classes,
                                const gf_sweep_job *job, gf_zeroshot *out);
/* The same, and scores of groups of images, as regions. */
glofnd_status gf_zeroshot_score_groups(gf_error *err, const gf_features *images, const gf_zeroshot_groups *groups,
                                       const float *classifier, int64_t classes, const gf_sweep_job *job, gf_zeroshot *out);
