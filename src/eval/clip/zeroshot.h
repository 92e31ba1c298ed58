/* zeroshot.h - classification without training: an image belongs to the class whose sentences its embedding is nearest to.
 *
 *     gf_prompts p;  TRY(gf_prompts_templates(err, NULL, &p.templates));  ... names, in the order of the labels, to p.classes
 *     float *c;      TRY(gf_zeroshot_classifier(err, text_encoder, &p, &c));
 *     TRY(gf_zeroshot_score(err, &images, c, p.classes.n, &how, &found));
 */
#ifndef GF_EVAL_CLIP_ZEROSHOT_H
#define GF_EVAL_CLIP_ZEROSHOT_H

#include "eval/encode.h"
#include "pairs/tiles.h"
#include "util/strings/string_list.h"

#define GF_PROMPT_MAX 4096 /* bytes of a class name or template */

typedef struct gf_prompts {   /* all zero: none */
    gf_string_list classes;   /* name of label i */
    gf_string_list templates; /* sentences with {} where the name goes */
} gf_prompts;

void gf_prompts_free(gf_prompts *p);
/* Lines of a file; NULL: a small set of our own. E_FORMAT names file and line: without {}, empty (but for the end), too long.
 */
glofnd_status gf_prompts_templates(gf_error *err, const char *path, gf_string_list *out);
/* The class names of a dataset, from a file with one per line or, path NULL, its own, whose _ become spaces. E_FORMAT: a file
 * with another number of names than the data has named classes, or fewer than it has labels. E_ARGUMENT: no labels, or no
 * names. */
glofnd_status gf_prompts_classes(gf_error *err, const gf_dataset *data, const char *path, gf_string_list *out);
/* A template with every {} replaced, closed by 0; its length, which may be more than fits. */
size_t gf_prompt_fill(const char *template, const char *name, char *out, size_t bytes);

/* z [classes][templates][dim] of any length to out [classes][dim]: mean of the unit vectors, made unit. */
glofnd_status gf_zeroshot_average(gf_error *err, const float *z, int64_t classes, int64_t templates, int64_t dim, float *out);
/* Every sentence of every class through the encoder of captions; *out [classes][dim], to be freed. */
glofnd_status gf_zeroshot_classifier(gf_error *err, gf_run_encoder *text, const gf_prompts *p, float **out);

typedef struct gf_zeroshot {
    int64_t n, classes; /* images with a label; classes to choose from */
    int64_t seen;       /* classes with an image */
    double top1, top5;  /* shares of the images */
    double per_class;   /* mean over seen classes of their top-1 */
} gf_zeroshot;

/* Of equally similar classes the smaller label comes first. Images without label are not counted; E_ARGUMENT: none has one, or a
 * label is beyond the classes. */
glofnd_status gf_zeroshot_score(gf_error *err, const gf_features *images, const float *classifier, int64_t classes,
                                const gf_pair_how *how, gf_zeroshot *out);

#endif
