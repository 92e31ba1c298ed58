/* official.h - what the readers of official layouts fill in; one reader per layout, named in the table of official.c.
 *
 * A reader adds an item per image of o->split: a path below o->root and its label. official.c finds the root, checks counts, and
 * is the dataset afterwards.
 */
#pragma once

#include "data/dataset_format.h"
#include "data/official/known_datasets.h"
#include "util/text.h"

typedef struct gf_official_names { /* by label */
    char **at;                     /* [n] NULL: none */
    size_t n, capacity;
} gf_official_names;

typedef struct gf_official {
    const gf_known_dataset *known;
    gf_dataset *data;    /* for notes and the SPEC */
    char root[PATH_MAX]; /* DIR, or the folder below it that holds the dataset */
    const char *split;
    int64_t partition;    /* from 1 */
    gf_string_list paths; /* [n] from the root */
    int32_t *label;       /* [n] -1: none */
    size_t label_capacity;
    gf_official_names names, titles; /* of classes; titles where names are identifiers */
    int32_t expected_classes;        /* those of the table, unless the reader knows better; images 0: any number */
    int64_t expected_images;
    int64_t classes_found; /* those with an image */
    int known_counts;      /* classes and images are as many as the dataset has */
    /* What readers hold while they read: freed afterwards, also where one fails. */
    gf_string_list list[5];
} gf_official;

extern const gf_dataset_format gf_format_official;

/* An image. E_FORMAT: a label out of range, or a path that leaves the root. */
glofnd_status gf_official_add(gf_error *err, gf_official *o, const char *path, int64_t label);
/* Names a class; the name given last counts. */
glofnd_status gf_official_name_class(gf_error *err, gf_official *o, int64_t label, const char *name, size_t length);
/* A title for a class whose name is an identifier, as a WordNet id; prompts are made from it. */
glofnd_status gf_official_title_class(gf_error *err, gf_official *o, int64_t label, const char *title, size_t length);
/* 1: there is such a file or folder below the root. */
int gf_official_has(const gf_official *o, const char *name);
/* Lines of a text file below the root, trimmed, without empty ones. */
glofnd_status gf_official_lines(gf_error *err, const gf_official *o, const char *name, gf_string_list *out);
/* Sorted names of the folders, or of the images, in a folder below the root; dot files are left out. */
glofnd_status gf_official_folders(gf_error *err, const gf_official *o, const char *where, gf_string_list *out);
glofnd_status gf_official_images(gf_error *err, const gf_official *o, const char *where, gf_string_list *out);
/* All images of a folder below the root, with one label. */
glofnd_status gf_official_add_folder(gf_error *err, gf_official *o, const char *where, int64_t label);
/* Cuts a line at spaces and tabs, in place, into at most `most` words; their number. The last word is the rest of the line. */
int gf_official_words(char *line, char **word, int most);

/* Classes 0, 1 ... get the names of the list. */
glofnd_status gf_official_name_all(gf_error *err, gf_official *o, const gf_string_list *names);

typedef glofnd_status gf_official_reader(gf_error *err, gf_official *o);
gf_official_reader gf_read_pets, gf_read_listed, gf_read_dtd, gf_read_food101, gf_read_caltech101, gf_read_imagenet,
    gf_read_winogavil;
