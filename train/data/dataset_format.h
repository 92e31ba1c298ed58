/* dataset_format.h - the functions that a dataset format provides to dataset.c; one constant per format, listed in dataset.c. */
#pragma once

#include "data/dataset.h"
#include "data/spec.h"
#include "util/string_list.h"

typedef struct gf_span { /* bytes of a file */
    uint64_t at, size;   /* size UINT64_MAX: up to its end */
} gf_span;

typedef struct gf_dataset_format {
    const char *name;
    const char *const *options; /* keys its SPEC may have, ended by NULL; NULL: those of d->known */
    int place_is_options;       /* shapes: the place is a list of options too */
    /* d->spec is parsed and checked. Sets d->self, d->info and perhaps d->classes; after a failure, too, close is called. */
    glofnd_status (*open)(gf_error *err, gf_dataset *d);
    void (*close)(void *self);                                      /* self may be NULL */
    int (*templates)(const gf_dataset *d, char *out, size_t bytes); /* gf_dataset_templates; NULL: has none */
    /* All below: 0 <= i < info.n, any thread. */
    int32_t (*group)(const gf_dataset *d, int64_t i); /* gf_dataset_group; NULL: has none */
    int32_t (*label)(const gf_dataset *d, int64_t i);
    void (*name_of)(const gf_dataset *d, int64_t i, char *out, size_t bytes);
    uint64_t (*key)(const gf_dataset *d, int64_t i);
    /* Sets out->image and perhaps out->text; label and text have their defaults before. */
    glofnd_status (*read)(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out);
    /* Sets out->text only, without decoding an image; NULL: has no texts. */
    glofnd_status (*read_text)(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out);
    glofnd_status (*check_complete)(gf_error *err, const gf_dataset *d); /* gf_dataset_check_complete; NULL: opening finds all */
    int (*test_spec)(const gf_dataset *d, char *out, size_t bytes);      /* NULL: has none */
    /* The file that holds image i, and its bytes there; NULL: not encoded, then info has the size. E_FORMAT: the path is too
     * long. */
    glofnd_status (*find)(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out);
} gf_dataset_format;

struct gf_dataset {
    const gf_dataset_format *format;
    const gf_known_dataset *known; /* NULL: none of known_datasets.h */
    gf_spec spec;
    gf_dataset_info info;
    gf_string_list classes;   /* names by label, "": none; may be empty */
    gf_string_list titles;    /* of classes whose names are identifiers; the same */
    char note[GF_NOTE_BYTES]; /* gf_dataset_note */
    void *self;
    int64_t all;   /* samples of the format */
    int64_t *rows; /* [info.n] those that formats/subset.c chose; NULL: all */
};

/* Position in the format of sample i, 0 <= i < info.n. */
static inline int64_t gf_dataset_row(const gf_dataset *d, int64_t i) { return d->rows ? d->rows[i] : i; }

extern const gf_dataset_format gf_format_shapes, gf_format_cifar10, gf_format_cifar100, gf_format_folder, gf_format_wds,
    gf_format_list, gf_format_csv, gf_format_mnist, gf_format_fashion_mnist;

/* ----- a part of a dataset, whatever its format: formats/subset.c ----- */

extern const char *const gf_subset_options[]; /* ended by NULL */
/* After d is open: sets d->rows, d->all and d->info.n. E_OPTION: a value out of range. */
glofnd_status gf_subset_take(gf_error *err, gf_dataset *d);
/* A copy of the SPEC without these options; its strings are those of *s. */
gf_spec gf_subset_without(const gf_spec *s);

/* ----- shared by formats ----- */

uint64_t gf_key_hash(const void *bytes, size_t n);
/* Adds a sentence to gf_dataset_note. */
void gf_dataset_add_note(gf_dataset *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Copies the text of a sample. A line break at the end, zero bytes and carriage returns are dropped; "" becomes NULL. */
glofnd_status gf_sample_set_text(gf_error *err, gf_sample *s, const char *text, size_t n);
/* Captions from the name of a class: a few plain sentences, a line each; _ in the name becomes a space. */
glofnd_status gf_sample_set_class_text(gf_error *err, gf_sample *s, const char *name);
/* Reads and decodes the image file at `path`. */
glofnd_status gf_sample_read_file(gf_error *err, const char *path, const gf_decode_hint *hint, gf_sample *s);
/* The lines of a text file, trimmed of spaces; empty ones are kept only if `keep_empty`. */
glofnd_status gf_read_lines(gf_error *err, const char *path, int keep_empty, gf_string_list *out);
/* `classnames.txt`: line k is the name of class k; an empty line: none. It must have `min` to `max` lines, not counting empty
 * ones at its end; otherwise a note is added and `out` stays empty, as without such a file. */
glofnd_status gf_read_class_names(gf_error *err, gf_dataset *d, const char *path, int64_t min, int64_t max, gf_string_list *out);
/* Resolves a path of a list: relative ones start at the folder of `list`. E_FORMAT: too long. */
glofnd_status gf_path_beside(gf_error *err, const char *list, const char *path, char *out, size_t bytes);
