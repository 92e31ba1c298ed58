/* fuzz_official.c - libFuzzer target of the lists of published datasets: text, JSON and tables, each at its place in a folder
 * of the dataset. The first byte chooses. What opens must be readable by position; what does not must say why. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct target {
    const char *file, *spec; /* the file that is fuzzed; the SPEC behind FOLDER is in `options` */
    const char *options;
} target;

static const target targets[] = {
    {"pets/annotations/trainval.txt", "pets", ""},  {"dtd/labels/train1.txt", "dtd", ""},
    {"flowers/train.tsv", "flowers", ""},           {"tinyimagenet/val/val_annotations.txt", "tinyimagenet", "&split=val"},
    {"tinyimagenet/words.txt", "tinyimagenet", ""}, {"winogavil/test.csv", "winogavil", ""},
};

static char root[64];

/* Writes ROOT/name, with the folders above it. */
static void put(const char *name, const void *bytes, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        (void)mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void leave(void) { (void)nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static void make_folders(void) {
    strcpy(root, "/dev/shm/fuzz_official-XXXXXX");
    if (!mkdtemp(root) || atexit(leave) != 0) abort();
    put("winogavil/images/a.jpg", "", 0);
    put("dtd/images/a/a.jpg", "", 0), put("dtd/images/b/b.jpg", "", 0);
    put("pets/images/a.jpg", "", 0), put("flowers/jpg/a.jpg", "", 0);
    put("tinyimagenet/train/n01/images/a.JPEG", "", 0), put("tinyimagenet/val/images/a.JPEG", "", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char spec[256];
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (size < 1) return 0;
    if (!root[0]) make_folders();
    const target *t = &targets[data[0] % (sizeof targets / sizeof *targets)];
    put(t->file, data + 1, size - 1);
    snprintf(spec, sizeof spec, "%s:%s/%s?counts=any%s", t->spec, root, t->spec, t->options);
    if (gf_dataset_open(&err, spec, &d) != GLOFND_OK) {
        if (!err.text[0] || d) abort();
        return 0;
    }
    const gf_dataset_info info = gf_dataset_describe(d);
    gf_sample s = {0};
    for (int64_t i = 0; i < info.n && i < 50; i++) {
        if (gf_dataset_label(d, i) >= info.classes && info.classes > 0) abort();
        (void)gf_dataset_text(NULL, d, i, &s);
    }
    gf_sample_free(&s);
    gf_dataset_free(d);
    return 0;
}
