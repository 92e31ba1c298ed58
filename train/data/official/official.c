/* official.c - datasets as their authors publish them: finds the folder, has its layout read, checks the counts, and is the
 * dataset then. See official.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/official/official.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "io/file.h"
#include "util/array.h"
#include "util/text.h"

/* ===== the table of known datasets. Counts are those of the official downloads; default splits those of torchvision ===== */

static const char *const plain[] = {"split", "counts", NULL};
static const char *const named[] = {"split", "classes", "names", "counts", NULL};
static const char *const parted[] = {"split", "partition", "counts", NULL};

/* The first eight are the paper's transfer table, in its order. */
/* clang-format off */
static const gf_known_dataset datasets[] = {
    {.name = "cifar10", .title = "CIFAR10", .full = "CIFAR-10", .classes = 10, .split = {{"train", 50000}, {"test", 10000}},
     .test = "test"},
    {.name = "cifar100", .title = "CIFAR100", .full = "CIFAR-100", .classes = 100, .split = {{"train", 50000}, {"test", 10000}},
     .test = "test"},
    {.name = "food101", .title = "Food101", .full = "Food-101", .classes = 101, .split = {{"train", 75750}, {"test", 25250}},
     .test = "test", .folder = {"food-101"}, .mark = {"meta/train.txt"}, .wants = "images/ and meta/ of food-101.tar.gz",
     .options = plain, .read = gf_read_food101},
    {.name = "caltech101", .title = "Caltech101", .full = "Caltech-101", .classes = 101, .scoring = GF_SCORE_MEAN,
     .split = {{"all", 8677}},
     .folder = {"101_ObjectCategories", "caltech-101/101_ObjectCategories", "caltech101/101_ObjectCategories"},
     .wants = "101_ObjectCategories/ with a folder per class", .options = plain, .read = gf_read_caltech101},
    {.name = "cars", .title = "Cars", .full = "Stanford Cars", .classes = 196, .split = {{"train", 8144}, {"test", 8041}},
     .test = "test", .folder = {"stanford_cars", "stanford-cars"}, .mark = {"train.tsv", "devkit", "car_devkit", "cars_annos.mat"},
     .wants = "images and the lists train.tsv and test.tsv", .options = plain, .read = gf_read_listed},
    {.name = "dtd", .title = "DTD", .full = "Describable Textures", .classes = 47,
     .split = {{"train", 1880}, {"val", 1880}, {"trainval", 3760}, {"test", 1880}}, .test = "test", .partitions = 10,
     .folder = {"dtd"}, .mark = {"labels/train1.txt"}, .wants = "images/ and labels/ of dtd-r1.0.1.tar.gz", .options = parted,
     .read = gf_read_dtd},
    {.name = "pets", .title = "Pets", .full = "Oxford-IIIT Pet", .classes = 37, .scoring = GF_SCORE_MEAN,
     .split = {{"trainval", 3680}, {"test", 3669}}, .test = "test", .folder = {"oxford-iiit-pet"},
     .mark = {"annotations/trainval.txt"}, .wants = "images/ and annotations/ of images.tar.gz and annotations.tar.gz",
     .options = plain, .read = gf_read_pets},
    {.name = "flowers", .title = "Flowers", .full = "Oxford 102 Flowers", .classes = 102, .scoring = GF_SCORE_MEAN,
     .split = {{"train", 1020}, {"val", 1020}, {"trainval", 2040}, {"test", 6149}}, .test = "test",
     .folder = {"flowers-102", "flowers102"}, .mark = {"train.tsv", "imagelabels.mat"},
     .wants = "jpg/ of 102flowers.tgz, and the lists train.tsv and test.tsv", .options = plain, .read = gf_read_listed},
    {.name = "tinyimagenet", .title = "TinyImageNet", .full = "Tiny-ImageNet", .classes = 200,
     .split = {{"train", 100000}, {"val", 10000}}, .test = "val", .folder = {"tiny-imagenet-200"}, .mark = {"train"},
     .wants = "tiny-imagenet-200/ of tiny-imagenet-200.zip: train/, val/, words.txt", .options = named,
     .read = gf_read_imagenet},
    {.name = "imagenet", .title = "ImageNet", .full = "ImageNet (ILSVRC 2012)", .classes = 1000,
     .split = {{"train", 1281167}, {"val", 50000}}, .test = "val", .folder = {"ILSVRC/Data/CLS-LOC", "imagenet", "ILSVRC2012"},
     .mark = {"train", "val"}, .wants = "train/ with a folder per class, and val/ with class folders or next to the devkit",
     .options = named, .read = gf_read_imagenet},
    {.name = "winogavil", .title = "WinoGAViL", .full = "WinoGAViL", .scoring = GF_SCORE_JACCARD, .split = {{"test", 0}},
     .test = "test", .wants = "winogavil_dataset.csv with columns cue, candidates, associations, and winogavil_images/NAME.jpg",
     .options = plain, .read = gf_read_winogavil},
};
/* clang-format on */

#define COUNT ((int)(sizeof datasets / sizeof *datasets))

const gf_known_dataset *gf_known_at(int i) { return i >= 0 && i < COUNT ? &datasets[i] : NULL; }

const gf_known_dataset *gf_known_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(datasets[i].name, name) == 0) return &datasets[i];
    return NULL;
}

const gf_known_split *gf_known_split_find(const gf_known_dataset *k, const char *name) {
    for (const gf_known_split *s = k->split; s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static const struct {
    const char *key, *title;
} metrics[] = {
    [GF_SCORE_TOP1] = {"top1", "top-1"},
    [GF_SCORE_MEAN] = {"mean_per_class", "mean per class"},
    [GF_SCORE_RECALL] = {"recall1", "mean R@1"},
    [GF_SCORE_MACRO_F1] = {"macro_f1", "macro F1"},
    [GF_SCORE_WORST_GROUP] = {"worst_group", "worst group"},
    [GF_SCORE_WORST_GROUP5] = {"worst_group5", "worst group @5"},
    [GF_SCORE_JACCARD] = {"jaccard", "Jaccard"},
};

const char *gf_scoring_key(gf_scoring m) { return metrics[m].key; }
const char *gf_scoring_title(gf_scoring m) { return metrics[m].title; }

/* ===== a known dataset, read ===== */

/* ----- for readers ----- */

/* Not absolute, and without "..": what a list names lies below the root. */
static int stays_below(const char *path) {
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return 0;
    return path[0] && path[0] != '/';
}

glofnd_status gf_official_add(gf_error *err, gf_official *o, const char *path, int64_t label) {
    FAIL_IF(err, label < -1 || label >= GF_CLASSES_MAX, GLOFND_E_FORMAT, "'%.200s': '%.100s' has label %lld, out of range",
            o->root, path, (long long)label);
    FAIL_IF(err, !stays_below(path), GLOFND_E_FORMAT, "'%.200s': the path '%.150s' of a list leaves this folder", o->root, path);
    FAIL_IF(err, !gf_grow(&o->label, &o->label_capacity, (size_t)o->paths.n + 1, sizeof *o->label), GLOFND_E_MEMORY,
            "no memory for %lld labels", (long long)o->paths.n + 1);
    o->label[o->paths.n] = (int32_t)label;
    return gf_string_list_add(err, &o->paths, path, strlen(path));
}

static glofnd_status set_name(gf_error *err, const gf_official *o, gf_official_names *names, int64_t label, const char *name,
                              size_t length) {
    const size_t k = (size_t)label;
    FAIL_IF(err, label < 0 || label >= GF_CLASSES_MAX, GLOFND_E_FORMAT, "'%.200s': class %lld is out of range", o->root,
            (long long)label);
    if (k < names->n && names->at[k] && strlen(names->at[k]) == length && !memcmp(names->at[k], name, length)) return GLOFND_OK;
    char *copy = strndup(name, length);
    if (!copy || !gf_grow(&names->at, &names->capacity, k + 1, sizeof *names->at)) {
        free(copy);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the names of classes");
    }
    while (names->n <= k) names->at[names->n++] = NULL;
    free(names->at[k]);
    names->at[k] = copy;
    gf_utf8_clean(copy, '?');
    return GLOFND_OK;
}

glofnd_status gf_official_name_class(gf_error *err, gf_official *o, int64_t label, const char *name, size_t length) {
    return set_name(err, o, &o->names, label, name, length);
}

glofnd_status gf_official_title_class(gf_error *err, gf_official *o, int64_t label, const char *title, size_t length) {
    return set_name(err, o, &o->titles, label, title, length);
}

int gf_official_has(const gf_official *o, const char *name) {
    char path[PATH_MAX];
    return gf_path_join(NULL, path, o->root, name) == GLOFND_OK && access(path, F_OK) == 0;
}

glofnd_status gf_official_lines(gf_error *err, const gf_official *o, const char *name, gf_string_list *out) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, o->root, name));
    return gf_read_lines(err, path, 0, out);
}

int gf_official_words(char *line, char **word, int most) {
    int n = 0;
    for (char *p = line; n < most;) {
        p += strspn(p, " \t");
        if (!*p) break;
        word[n++] = p;
        if (n == most) break;
        p += strcspn(p, " \t");
        if (*p) *p++ = 0;
    }
    return n;
}

static int is_image_name(const char *name) {
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t k = 0; dot && k < sizeof ends / sizeof *ends; k++)
        if (strcasecmp(dot, ends[k]) == 0) return 1;
    return 0;
}

/* d_type is not known on every file system, and links count as what they lead to. */
static int is_folder(const char *path, const struct dirent *e) {
    char below[PATH_MAX];
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
    return gf_path_join(NULL, below, path, e->d_name) == GLOFND_OK && gf_is_folder(below);
}

static glofnd_status list_names(gf_error *err, const gf_official *o, const char *where, int folders, gf_string_list *out) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, o->root, where));
    DIR *dir = opendir(path);
    FAIL_IF(err, !dir, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    glofnd_status status = GLOFND_OK;
    const struct dirent *e;
    while (status == GLOFND_OK && (errno = 0, e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || (folders ? !is_folder(path, e) : !is_image_name(e->d_name))) continue;
        status = gf_string_list_add(err, out, e->d_name, strlen(e->d_name));
    }
    if (status == GLOFND_OK && errno)
        status = gf_fail(err, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    closedir(dir);
    return status == GLOFND_OK ? gf_string_list_sort(err, out) : status;
}

glofnd_status gf_official_folders(gf_error *err, const gf_official *o, const char *where, gf_string_list *out) {
    return list_names(err, o, where, 1, out);
}

glofnd_status gf_official_images(gf_error *err, const gf_official *o, const char *where, gf_string_list *out) {
    return list_names(err, o, where, 0, out);
}

glofnd_status gf_official_add_folder(gf_error *err, gf_official *o, const char *where, int64_t label) {
    gf_string_list images = {0};
    char path[PATH_MAX];
    glofnd_status status = gf_official_images(err, o, where, &images);
    for (int64_t i = 0; i < images.n && status == GLOFND_OK; i++) {
        status = gf_path_join(err, path, where, gf_string_list_get(&images, i));
        if (status == GLOFND_OK) status = gf_official_add(err, o, path, label);
    }
    gf_string_list_free(&images);
    return status;
}

glofnd_status gf_official_name_all(gf_error *err, gf_official *o, const gf_string_list *names) {
    for (int64_t k = 0; k < names->n; k++)
        TRY(gf_official_name_class(err, o, k, gf_string_list_get(names, k), strlen(gf_string_list_get(names, k))));
    return GLOFND_OK;
}

/* 1: this is the folder of the dataset; root [PATH_MAX] is its path. */
static int is_root(const gf_known_dataset *k, const char *place, const char *below, char *root) {
    char path[PATH_MAX];
    const int n = snprintf(root, PATH_MAX, "%s%s%s", place, below[0] ? "/" : "", below);
    int found = n > 0 && n < PATH_MAX && gf_is_folder(root) && !k->mark[0];
    for (int i = 0; k->mark[i] && n < PATH_MAX; i++)
        found |= gf_path_join(NULL, path, root, k->mark[i]) == GLOFND_OK && access(path, F_OK) == 0;
    return found;
}

/* The folder with a mark of the dataset; where it has none, a folder of the archive's name, else DIR. */
static int find_root(const gf_known_dataset *k, const char *place, char *root) {
    if (k->mark[0] && is_root(k, place, "", root)) return 1;
    for (int i = 0; k->folder[i]; i++)
        if (is_root(k, place, k->folder[i], root)) return 1;
    return is_root(k, place, "", root);
}

int gf_known_recognise(const gf_known_dataset *k, const char *place) {
    char root[PATH_MAX];
    return k->read && gf_is_folder(place) && find_root(k, place, root);
}

/* "37 classes and 3680 images"; captions have no classes. */
static void count_text(int64_t classes, int64_t images, int captions, char *out, size_t bytes) {
    char any[40] = "any number of";
    if (images) snprintf(any, sizeof any, "%lld", (long long)images);
    if (captions) snprintf(out, bytes, "%s images", any);
    else snprintf(out, bytes, "%lld classes and %s images", (long long)classes, any);
}

static glofnd_status copy_names(gf_error *err, const gf_official_names *names, gf_string_list *out) {
    for (size_t k = 0; k < names->n; k++)
        TRY(gf_string_list_add(err, out, names->at[k] ? names->at[k] : "", names->at[k] ? strlen(names->at[k]) : 0));
    return GLOFND_OK;
}

static void free_scratch(gf_official *o) {
    for (int i = 0; i < 5; i++) gf_string_list_free(&o->list[i]);
}

static glofnd_status open_official(gf_error *err, gf_dataset *d) {
    gf_official *o = calloc(1, sizeof *o);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory to open data");
    d->self = o;
    o->data = d;
    o->known = gf_known_find(d->spec.format);
    d->info.format = o->known->name;
    const gf_known_dataset *k = o->known;
    const char *place = d->spec.place, *counts = gf_spec_value(&d->spec, "counts"), *split = gf_spec_value(&d->spec, "split");
    char names[200] = "";
    FAIL_IF(err, counts && strcmp(counts, "any") != 0, GLOFND_E_OPTION, "data '%s': counts is '%.60s'; it can only be any",
            k->name, counts);
    o->split = split ? split : k->split[0].name;
    for (const gf_known_split *s = k->split; s->name; s++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", s == k->split ? "" : ", ", s->name);
    FAIL_IF(err, !gf_known_split_find(k, o->split), GLOFND_E_OPTION, "data '%s': split is '%.60s'; expected one of %s", k->name,
            o->split, names);
    o->partition = 1;
    TRY(gf_spec_integer(err, &d->spec, "partition", 1, k->partitions, &o->partition));
    o->expected_classes = k->classes;
    o->expected_images = gf_known_split_find(k, o->split)->images;
    FAIL_IF(err, !gf_is_folder(place), GLOFND_E_IO, "'%.400s' is not a folder that can be read", place);
    FAIL_IF(err, !find_root(k, place, o->root), GLOFND_E_IO, "'%.200s' has no %s: it is not the folder of %s; %s:DIR needs %s",
            place, k->mark[0], k->full, k->name, k->wants);
    TRY(k->read(err, o));
    free_scratch(o);
    /* Classes that have a sample. */
    int32_t max = (int32_t)o->names.n - 1;
    const int64_t n = o->paths.n, images = o->expected_images;
    for (int64_t i = 0; i < n; i++) max = o->label[i] > max ? o->label[i] : max;
    d->info.classes = max + 1;
    uint8_t *found = calloc((size_t)max + 2, 1);
    FAIL_IF(err, !found, GLOFND_E_MEMORY, "no memory for %d classes", (int)max + 1);
    for (int64_t i = 0; i < n; i++)
        if (o->label[i] >= 0) found[o->label[i]] = 1;
    for (int32_t c = 0; c <= max; c++) o->classes_found += found[c];
    free(found);
    FAIL_IF(err, n == 0, GLOFND_E_FORMAT, "'%.300s' has no image of split %s; %s:DIR needs %.150s", o->root, o->split, k->name,
            k->wants);
    o->known_counts = o->classes_found == o->expected_classes && (!images || n == images);
    if (!o->known_counts) {
        char counted[120], expected[120];
        count_text(o->classes_found, n, !k->classes, counted, sizeof counted);
        count_text(o->expected_classes, images, !k->classes, expected, sizeof expected);
        FAIL_IF(
            err, !counts, GLOFND_E_FORMAT,
            "'%.150s' has %s in split %s; %s has %s. Is it unpacked completely? To use it as it is, add ?counts=any to the SPEC",
            o->root, counted, o->split, k->full, expected);
        gf_dataset_add_note(d, "%s in split %s, where %s has %s: results are not comparable", counted, o->split, k->full,
                            expected);
    }
    /* Lists and images are separate downloads of many datasets: some files, spread over the list, must all exist. */
    const int64_t probed = n < 16 ? n : 16;
    for (int64_t i = 0; i < probed; i++) {
        const char *name = gf_string_list_get(&o->paths, n / probed * i);
        FAIL_IF(err, !gf_official_has(o, name), GLOFND_E_IO, "'%.200s' lists '%.150s', which does not exist; %s:DIR needs %.100s",
                o->root, name, k->name, k->wants);
    }
    d->info.n = o->paths.n;
    TRY(copy_names(err, &o->names, &d->classes));
    return copy_names(err, &o->titles, &d->titles);
}

static void free_names(gf_official_names *names) {
    for (size_t k = 0; k < names->n; k++) free(names->at[k]);
    free(names->at);
}

static void close_official(void *self) {
    gf_official *o = self;
    if (!o) return;
    free_names(&o->names);
    free_names(&o->titles);
    free_scratch(o);
    free(o->label);
    gf_string_list_free(&o->paths);
    free(o);
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return ((const gf_official *)d->self)->label[i]; }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const gf_official *o = d->self;
    snprintf(out, bytes, "%s/%s", o->root, gf_string_list_get(&o->paths, i));
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const char *path = gf_string_list_get(&((const gf_official *)d->self)->paths, i);
    return gf_key_hash(path, strlen(path));
}

static glofnd_status find_image(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out) {
    const gf_official *o = d->self;
    const char *name = gf_string_list_get(&o->paths, i);
    const int n = snprintf(path, bytes, "%s/%s", o->root, name);
    FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_FORMAT, "the path '%.200s/%.200s' is too long", o->root, name);
    *out = (gf_span){0, UINT64_MAX};
    return GLOFND_OK;
}

static glofnd_status read_official(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    char path[PATH_MAX];
    gf_span whole;
    TRY(find_image(err, d, i, path, sizeof path, &whole));
    return gf_sample_read_file(err, path, hint, out);
}

static int test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const gf_official *o = d->self;
    return o->known->test && strcmp(o->split, o->known->test) != 0 && gf_spec_with(&d->spec, "split", o->known->test, out, bytes);
}

const gf_dataset_format gf_format_official = {
    .name = "official",
    .open = open_official,
    .close = close_official,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_official,
    .test_spec = test_spec,
    .find = find_image,
};
