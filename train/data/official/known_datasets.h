/* known_datasets.h - one table of the datasets that this program knows by name: what they hold, and how they are scored.
 *
 * A name is also a SPEC: `pets:DIR` reads the unpacked download as its authors publish it. ?split= chooses an official split,
 * ?partition= one of several published ones (DTD, SUN397). A folder with other counts than the table's is refused, unless
 * ?counts=any is given.
 */
#pragma once

#include "util/status.h"
#include "util/string_list.h"

#define GF_KNOWN_SPLITS 8
#define GF_KNOWN_FOLDERS 5
#define GF_KNOWN_MARKS 4

typedef enum gf_scoring {
    GF_SCORE_TOP1,
    GF_SCORE_MEAN,         /* mean over classes of the accuracy */
    GF_SCORE_RECALL,       /* captions: image-text retrieval, mean of both recalls at 1 */
    GF_SCORE_MACRO_F1,     /* mean over classes of F1 (iWildCam) */
    GF_SCORE_WORST_GROUP,  /* top-1 of the worst group of images, as regions (FMoW, GeoDE) */
    GF_SCORE_WORST_GROUP5, /* top-5 of it (Dollar Street) */
    GF_SCORE_JACCARD       /* associations of images with words (WinoGAViL) */
} gf_scoring;

const char *gf_scoring_key(gf_scoring m);   /* in records: "top1", "mean_per_class", "recall1" ... */
const char *gf_scoring_title(gf_scoring m); /* "top-1", "mean per class", "mean R@1" ... */

typedef struct gf_known_split {
    const char *name;
    int64_t images; /* 0: any number */
} gf_known_split;

struct gf_official;

typedef struct gf_known_dataset {
    const char *name, *title, *full; /* of the SPEC; in tables; in messages */
    int32_t classes;                 /* 0: captions instead of labels */
    gf_scoring scoring;
    gf_known_split split[GF_KNOWN_SPLITS + 1]; /* the first is the default: for training */
    const char *test;                          /* the split that is scored; NULL: a fifth of each class is held out */
    int partitions;                            /* published partitions into these splits; 0: one */
    const char *folder[GF_KNOWN_FOLDERS + 1];  /* archives unpack to DIR itself, or to one of these below it */
    const char *mark[GF_KNOWN_MARKS + 1];      /* files or folders of which one is there; none: any folder may be it */
    const char *wants;                         /* what DIR must hold, for messages */
    const char *const *options;                /* keys of its SPEC, ended by NULL */
    glofnd_status (*read)(gf_error *err, struct gf_official *o); /* the layout; NULL: a format of its own (cifar10, cifar100) */
} gf_known_dataset;

const gf_known_dataset *gf_known_find(const char *name); /* NULL: unknown */
const gf_known_dataset *gf_known_at(int i);              /* NULL: past the last */
/* 1: `place` looks like the unpacked download. */
int gf_known_recognise(const gf_known_dataset *k, const char *place);
const gf_known_split *gf_known_split_find(const gf_known_dataset *k, const char *name);

/* ----- WinoGAViL: a cue, images to choose from, and those that people associate with the cue ----- */

typedef struct gf_winogavil {
    gf_string_list cue;   /* [n] */
    gf_string_list image; /* names of all candidates, sorted: positions of the dataset winogavil:DIR */
    int64_t *first;       /* [n + 1] where the candidates of an instance begin */
    int32_t *candidate;   /* [first[n]] positions of images */
    uint8_t *associated;  /* [first[n]] */
} gf_winogavil;

/* The table in a folder; E_FORMAT names what is wrong. */
glofnd_status gf_winogavil_read(gf_error *err, const char *root, gf_winogavil *out);
void gf_winogavil_free(gf_winogavil *w);
