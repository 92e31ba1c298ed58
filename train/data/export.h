/* export.h - writes a dataset as WebDataset shards or as an image folder, images as PNG; and a contact sheet. */
#pragma once

#include "data/dataset.h"

typedef enum gf_export_form { GF_EXPORT_WDS, GF_EXPORT_FOLDER } gf_export_form;

typedef struct gf_export {
    gf_export_form form;
    const char *folder;   /* made if missing; must be empty */
    int64_t first, count; /* which samples; count 0: all from `first` on */
    int64_t per_shard;    /* WDS: samples per shard; 0: 10000 */
    int strict;           /* an unreadable sample, or data that may be cut short, is an error; else left out and counted */
    /* Called now and then with the samples done so far; may be NULL. Not 0: stop, and keep what is written so far. */
    int (*progress)(void *user, int64_t done, int64_t total);
    void *user;
} gf_export;

typedef struct gf_export_result {
    int64_t written, unreadable, shards;
    char spec[4300]; /* opens the result */
} gf_export_result;

/* WDS: FOLDER/shard-000000.tar ... with KEY.png, KEY.cls, KEY.txt, and classnames.txt where classes have names.
 * FOLDER: FOLDER/CLASS/KEY.png, FOLDER/unlabelled/KEY.png, or FOLDER/KEY.png without labels; captions in captions.csv. Class
 * folders are named so that their order is that of the labels; classnames.txt names the classes. Keys are positions in the
 * dataset. */
glofnd_status gf_dataset_export(gf_error *err, const gf_dataset *d, const gf_export *e, gf_export_result *out);

/* rows x columns pictures from position `first` on, each fitted into cell x cell pixels, 2 pixels apart. Unreadable
 * ones stay gray. */
glofnd_status gf_dataset_sheet(gf_error *err, const gf_dataset *d, int64_t first, int rows, int columns, int cell, gf_image *out);
