/* zeroshot.h - zero-shot classification: an image gets the class whose prompts are nearest to its embedding.
 *
 *     gf_prompts p;  TRY(gf_prompts_templates(err, NULL, &p.templates));  ... names, in the order of the labels, to p.classes
 *     float *c;      TRY(gf_zeroshot_classifier(err, text_encoder, &p, &c));
 *     TRY(gf_zeroshot_score(err, &images, NULL, c, p.classes.n, &job, &result));
 */
#pragma once

#include "data/official/known_datasets.h"
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
 * label, or a label is not below `classes`. groups: of images, as regions, to be scored, too; NULL: none. */
glofnd_status gf_zeroshot_score(gf_error *err, const gf_features *images, const gf_zeroshot_groups *groups,
                                const float *classifier, int64_t classes, const gf_sweep_job *job, gf_zeroshot *out);

/* ----- retrieval ----- */

/* Image-text retrieval: the image of a caption among all images, and a caption of an image among all captions.
 *
 * Recall@k is the share of queries with a match among the k most similar candidates; of equally similar ones the smaller index
 * comes first. Memory: that of gf_nearest(), and 80 bytes per image and caption.
 */

#define GF_RECALLS 3
extern const int gf_recall_at[GF_RECALLS]; /* 1, 5, 10 */

typedef struct gf_retrieval_input { /* embeddings of any length */
    const float *image, *text;      /* [images][dim], [texts][dim] */
    int64_t images, texts, dim;
    const int64_t *owner; /* [texts] image of a caption; any number of captions per image */
    gf_sweep_job job;     /* threads 0: all */
} gf_retrieval_input;

typedef struct gf_recalls { /* shares, and their mean over k */
    double at[GF_RECALLS], mean;
} gf_recalls;

typedef struct gf_retrieval {
    int64_t images, texts;
    int64_t queries;                 /* images with a caption; the others are only candidates */
    gf_recalls ir, tr;               /* text to image; image to text, where any of its captions is a match */
    gf_recalls ir_chance, tr_chance; /* of a random order */
    double mean;                     /* of the two means */
} gf_retrieval;

/* E_ARGUMENT: no image or caption, an owner out of range. E_NUMERIC: an embedding is not finite. */
glofnd_status gf_retrieval_measure(gf_error *err, const gf_retrieval_input *in, gf_retrieval *out);

/* ----- associations ----- */

/* WinoGAViL: for a cue, as many images as people associate with it are chosen by similarity; the score is the
 * Jaccard index of both choices. */

typedef struct gf_associations {
    int64_t instances, images;
    double all, few, many; /* mean Jaccard index of all instances, of 5 or 6 candidates, of 10 or more: DataComp's */
    int64_t few_n, many_n; /* instances of the last two; their mean is NaN without any */
    int64_t unreadable;    /* images that cannot be read: they are never similar */
} gf_associations;

/* image [w->image.n][dim], cue [w->cue.n][dim], rows of length 1 or 0. Of equal similarities the smaller position comes first. */
void gf_associations_score(const gf_winogavil *w, const float *image, const float *cue, int64_t dim, gf_associations *out);
/* "An octopus": a cue as a prompt. */
void gf_association_prompt(const char *cue, char *out, size_t bytes);
/* Jaccard index of winogavil:DIR, by the two encoders of a run. `report`: only its callbacks of encoding images are used. */
glofnd_status gf_associations_run(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const char *spec,
                                  const gf_encode_spec *report, gf_associations *out);

/* ----- the 38 tasks of the DataComp benchmark, by its own list of tasks: their folders, sizes and scores ----- */

typedef struct gf_datacomp_task {
    const char *key;    /* in the benchmark's list, as vtab/pets */
    const char *title;  /* there */
    const char *name;   /* of the dataset here: what --data NAME=SPEC calls it */
    gf_scoring scoring; /* the task's main metric */
    int64_t size;       /* images */
    int32_t left_out;   /* a group that does not count; -1: none */
    const char *other;  /* a second name of its folder; NULL: none */
} gf_datacomp_task;

#define GF_DATACOMP_TASKS 38

const gf_datacomp_task *gf_datacomp_at(int i);              /* NULL: past the last */
const gf_datacomp_task *gf_datacomp_find(const char *name); /* by name; NULL: unknown */
/* Its folder below `root`, written to `out`; 0: not there. `out` then has the name that was looked for, without root. */
int gf_datacomp_folder(const gf_datacomp_task *t, const char *root, char *out, size_t bytes);
