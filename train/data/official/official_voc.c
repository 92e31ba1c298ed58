/* official_voc.c - Pascal VOC 2007: several classes per image. ImageSets/Main/CLASS_SPLIT.txt says of every image of a split 1
 * (has the class), -1 (has not) or 0 (difficult: not counted). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/official.h"

static const char *const names[] = {"aeroplane", "bicycle", "bird",  "boat",        "bottle",      "bus",       "car",
                                    "cat",       "chair",   "cow",   "dog",         "horse",       "motorbike", "person",
                                    "sheep",     "sofa",    "train", "diningtable", "pottedplant", "tvmonitor"};

enum { CLASSES = sizeof names / sizeof *names };
_Static_assert(CLASSES == 20, "classes of VOC");

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Images of the split, in the order of its list. */
static glofnd_status add_images(gf_error *err, gf_official *o, const gf_string_list *lines) {
    char path[400];
    for (int64_t i = 0; i < lines->n; i++) {
        snprintf(path, sizeof path, "JPEGImages/%.300s.jpg", gf_string_list_get(lines, i));
        TRY(gf_official_add(err, o, path, -1));
    }
    o->several = calloc((size_t)lines->n + 1, CLASSES);
    FAIL_IF(err, !o->several, GLOFND_E_MEMORY, "no memory for the labels of %lld images", (long long)lines->n);
    return GLOFND_OK;
}

/* Lines of a class: the images of the split in the same order, "000005 -1". */
static glofnd_status mark_class(gf_error *err, gf_official *o, int c, const char *list, const gf_string_list *images,
                                const gf_string_list *lines) {
    FAIL_IF(err, lines->n != images->n, GLOFND_E_FORMAT, "'%.200s/%s' has %lld lines; the split has %lld images", o->root, list,
            (long long)lines->n, (long long)images->n);
    for (int64_t i = 0; i < lines->n; i++) {
        char line[256], *word[2];
        snprintf(line, sizeof line, "%.255s", gf_string_list_get(lines, i));
        const int words = gf_official_words(line, word, 2);
        FAIL_IF(err, words < 2 || strcmp(word[0], gf_string_list_get(images, i)) != 0, GLOFND_E_FORMAT,
                "'%.200s/%s': line %lld is not about image %.60s", o->root, list, (long long)i + 1,
                gf_string_list_get(images, i));
        const int yes = strcmp(word[1], "1") == 0, difficult = strcmp(word[1], "0") == 0;
        FAIL_IF(err, !yes && !difficult && strcmp(word[1], "-1") != 0, GLOFND_E_FORMAT,
                "'%.200s/%s': line %lld has '%.30s'; expected 1, 0 or -1", o->root, list, (long long)i + 1, word[1]);
        o->several[i * CLASSES + c] = yes ? GF_LABEL_PRESENT : difficult ? GF_LABEL_DIFFICULT : GF_LABEL_ABSENT;
    }
    return GLOFND_OK;
}

/* An image of exactly one class has it as its label. */
static void label_single(gf_official *o) {
    int64_t without = 0;
    for (int64_t i = 0; i < o->paths.n; i++) {
        int count = 0, last = -1;
        for (int c = 0; c < CLASSES; c++)
            if (o->several[i * CLASSES + c] != GF_LABEL_ABSENT) count++, last = c;
        o->label[i] = count == 1 ? last : -1;
        without += count != 1;
    }
    gf_dataset_add_note(o->data,
                        "%lld of %lld images have several classes: they have no single label, as knn and linear evaluation need; "
                        "eval transfer scores all of them by 11-point mAP",
                        (long long)without, (long long)o->paths.n);
}

static glofnd_status read_lists(gf_error *err, gf_official *o, gf_string_list *images, gf_string_list *lines) {
    const char *sorted[CLASSES];
    char list[128];
    memcpy(sorted, names, sizeof names);
    qsort(sorted, CLASSES, sizeof *sorted, by_name);
    snprintf(list, sizeof list, "ImageSets/Main/%.20s.txt", o->split);
    TRY(gf_official_lines(err, o, list, images));
    TRY(add_images(err, o, images));
    for (int c = 0; c < CLASSES; c++) {
        TRY(gf_official_name_class(err, o, c, sorted[c], strlen(sorted[c])));
        snprintf(list, sizeof list, "ImageSets/Main/%s_%.20s.txt", sorted[c], o->split);
        gf_string_list_free(lines);
        TRY(gf_official_lines(err, o, list, lines));
        TRY(mark_class(err, o, c, list, images, lines));
    }
    label_single(o);
    return GLOFND_OK;
}

glofnd_status gf_read_voc2007(gf_error *err, gf_official *o) {
    gf_string_list images = {0}, lines = {0};
    const glofnd_status status = read_lists(err, o, &images, &lines);
    gf_string_list_free(&images);
    gf_string_list_free(&lines);
    return status;
}
