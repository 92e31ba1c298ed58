/* dataset.h - a SPEC opened as a list of samples with stable ids.
 *
 * SPEC = format:place?option=value&option=value, see gf_dataset_open. A dataset is read by position 0..n-1; reading is
 * thread-safe. gf_dataset *d;  TRY(gf_dataset_open(err, "cifar10:data/cifar10", &d)); gf_sample s = {0};
 * TRY(gf_dataset_read(err, d, i, 0, &s));  ...  gf_sample_free(&s);  gf_dataset_free(d);
 */
#pragma once

#include "data/official/known_datasets.h"
#include "image/image.h"
#include "util/status.h"

#define GF_CLASSES_MAX (1 << 20)   /* labels are below it */
#define GF_UNLABELLED "unlabelled" /* a folder beside the class folders, unless classnames.txt names it */

typedef struct gf_dataset gf_dataset;

typedef struct gf_sample { /* result of one read; memory belongs to the sample and is reused by the next read into it */
    gf_image image;        /* decoded, 8-bit RGB */
    char *text;            /* captions, one per line; NULL: none */
    int32_t label;         /* -1: none */
    char *text_buffer;     /* private: memory behind text, and of the encoded image */
    size_t text_capacity;
    uint8_t *encoded;
    size_t encoded_capacity, encoded_size; /* encoded_size: of the encoded image; 0: it was made, not read from a file */
} gf_sample;

typedef struct gf_dataset_info {
    const char *
        format; /* "shapes", "cifar10", "cifar100", "folder", "wds", "csv", "list", "mnist" ...; or a name of official/official.c */
    int64_t n;
    int32_t classes; /* 0: no labels */
    int has_text;
    int width, height; /* of every image; 0: known only from their headers (gf_dataset_sizes) */
} gf_dataset_info;

#define GF_SIZES_MAX 1000 /* images that gf_dataset_sizes probes */
#define GF_SIZES_VIEW 224

typedef struct gf_sizes {          /* image sizes by the headers */
    int64_t probed, read;          /* images probed, and of these readable; both end at the first one that differs */
    int width, height;             /* of the first readable one; 0: there is none */
    int other_width, other_height; /* of the first that differs; 0: none does */
} gf_sizes;

#define GF_NOTE_BYTES 1200

/* shapes:n=4096,classes=20,size=32,seed=1        drawn images, labelled, any n; split=test: others; captions=class
 * cifar10:DIR  cifar100:DIR  the official binary files; ?split=test, ?coarse=1 (cifar100), ?captions=1 "a photo of a CLASS." ...
 * mnist:DIR  fashion_mnist:DIR  the IDX files, also packed by gzip; ?split=test, ?set=letters (EMNIST)
 * folder:DIR            class folders, or flat; ?classes=FILE takes a subset of classes, ?split=test reads DIR/test or DIR/val;
 *                       default DIR/train if there is one; ?split=all: DIR itself
 * wds:GLOB_OR_BRACES    WebDataset tars (key.jpg|.jpeg|.png, .txt, .cls, .json); an index is kept beside them
 * list:FILE             path<TAB>label lines
 * csv:FILE              filepath<TAB>title, with a header; ?image=COLUMN, ?caption=COLUMN, ?label=COLUMN
 * pets:DIR  flowers:DIR ...  a dataset of official/official.c as it is published; ?split=, ?counts=any
 * All: ?rows=FILE, ?labels=LIST, ?imbalance=F, ?every=K, ?fraction=F, ?first=N take a part (formats/subset.c).
 * Errors name what is wrong with the SPEC or the files. */
glofnd_status gf_dataset_open(gf_error *err, const char *spec, gf_dataset **out);
/* 1: SPECs may begin with this word. */
int gf_dataset_is_format(const char *word, size_t length);
void gf_dataset_free(gf_dataset *d);
gf_dataset_info gf_dataset_describe(const gf_dataset *d);
/* The dataset that the SPEC names, if it is one of known_datasets.h; else NULL. */
const gf_known_dataset *gf_dataset_known(const gf_dataset *d);
/* The folder that holds a known dataset; "" of others. */
const char *gf_dataset_root(const gf_dataset *d);
/* 1: it has the classes and images that the known dataset has; 0: others (?counts=any), or it is none. */
int gf_dataset_as_known(const gf_dataset *d);
/* Remarks of opening it that are no errors: images of other formats that were left out, labels and captions that cannot be read,
 * shards that may be cut short. "": none. */
const char *gf_dataset_note(const gf_dataset *d);
/* strict: E_FORMAT names a shard that was opened though it may be cut short, or a label or caption that cannot be read, as in the
 * note. */
glofnd_status gf_dataset_check_complete(gf_error *err, const gf_dataset *d);
/* Probes the headers of all images, or of GF_SIZES_MAX spread evenly over the dataset; the same ones every time. */
gf_sizes gf_dataset_sizes(const gf_dataset *d);
/* Pixels and bytes of image i by its header; 0: it cannot be read, or is not encoded. */
int gf_dataset_image_size(const gf_dataset *d, int64_t i, int64_t *pixels, uint64_t *bytes);
/* The same of an image file. */
int gf_image_file_size(const char *path, int64_t *pixels, uint64_t *bytes);
/* Default size of a view: that of the images, if all probed ones are squares of one size up to GF_SIZES_VIEW; else that. */
int gf_sizes_default_view(const gf_sizes *s);
/* The SPEC of this dataset's own test split, written to `out`; 0 if it has none (or `bytes` are too few). */
int gf_dataset_test_spec(const gf_dataset *d, char *out, size_t bytes);
/* The same SPEC with ?split=SPLIT; 0 if `bytes` are too few. */
int gf_dataset_split_spec(const gf_dataset *d, const char *split, char *out, size_t bytes);
int32_t gf_dataset_label(const gf_dataset *d, int64_t i);         /* without decoding; -1: none */
const char *gf_dataset_class(const gf_dataset *d, int32_t label); /* NULL: unnamed */
/* The name of a class in a sentence: its name, or a title where the name is an identifier (ImageNet's WordNet ids). */
const char *gf_dataset_class_title(const gf_dataset *d, int32_t label);
int32_t gf_dataset_group(const gf_dataset *d, int64_t i); /* of groups by which samples are scored, as regions; -1: none */
/* The file of sentences that came with the data; 0: there is none. */
int gf_dataset_templates(const gf_dataset *d, char *out, size_t bytes);
/* File name, tar member or "#i": names a sample in messages; and a 64-bit hash that stays the same when shards are re-cut. */
void gf_dataset_name(const gf_dataset *d, int64_t i, char *out, size_t bytes);
uint64_t gf_dataset_key(const gf_dataset *d, int64_t i);
/* Decodes sample i. `hint` (may be NULL): the part of a JPEG that is needed.
 * E_FORMAT, E_IO: the sample is unreadable; the message names it. */
glofnd_status gf_dataset_read(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out);
/* Only the text of sample i, without decoding its image: out->text, NULL if it has none. */
glofnd_status gf_dataset_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out);
/* Hash of the image: of the file's bytes, or of the pixels where there is no file. */
uint64_t gf_sample_image_hash(const gf_sample *s);
void gf_sample_free(gf_sample *s);
