/* fuzz_lists.c - libFuzzer target of text files that describe data: the first byte chooses a list, a csv with captions, names of
 * classes, or an image file whose header is probed. Whatever is in it, the dataset opens or is refused with a text, and every
 * sample has a name, a label in range, and captions that end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"
#include "util/print.h"
#include "util/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void path_of(char out[128], const char *name) { snprintf(out, 128, "%s/%s", folder, name); }

static void put(const char *name, const void *bytes, size_t n) {
    char path[128];
    path_of(path, name);
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f) != 0) abort();
}

static void leave(void) {
    static const char *const names[] = {"list",     "images/a/x.jpg", "images/b/y.jpg", "images/classnames.txt",
                                        "images/a", "images/b",       "images"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        path_of(path, names[i]);
        remove(path);
    }
    rmdir(folder);
}

static void begin(void) {
    strcpy(folder, "/dev/shm/fuzz_lists-XXXXXX");
    if (!mkdtemp(folder) || atexit(leave) != 0) abort();
    static const char *const folders[] = {"images", "images/a", "images/b"};
    for (int i = 0; i < 3; i++) {
        char path[128];
        path_of(path, folders[i]);
        if (mkdir(path, 0777) != 0) abort();
    }
}

/* What is shown is UTF-8 without control characters. */
static void check_shown(const char *text) {
    char shown[4096];
    gf_show_text(text, shown, sizeof shown);
    for (const unsigned char *p = (const unsigned char *)shown; *p;) {
        const size_t n = gf_utf8_bytes(p);
        if (n == 0 || *p < 0x20 || *p == 0x7f) abort();
        p += n;
    }
}

static void check_data(gf_dataset *d) {
    const gf_dataset_info info = gf_dataset_describe(d);
    gf_sample s = {0};
    check_shown(gf_dataset_note(d));
    for (int64_t i = 0; i < info.n && i < 50; i++) {
        char name[600];
        gf_error err = {""};
        gf_dataset_name(d, i, name, sizeof name);
        check_shown(name);
        const int32_t label = gf_dataset_label(d, i);
        if (label < -1 || label >= GF_CLASSES_MAX) abort();
        if (gf_dataset_text(&err, d, i, &s) == GLOFND_OK && s.text && strlen(s.text) > 1 << 20) abort();
        if (gf_dataset_read(&err, d, i, NULL, &s) != GLOFND_OK && !err.text[0]) abort();
    }
    (void)gf_dataset_sizes(d);
    gf_sample_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const kinds[] = {"list:%s/list", "csv:%s/list", "folder:%s/images", "folder:%s/images",
                                        "csv:%s/list?label=label"};
    char spec[256];
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (size < 1 || size > 20000) return 0;
    if (!folder[0]) begin();
    const int kind = data[0] % 5;
    put("images/a/x.jpg", data + 1, kind == 2 ? size - 1 : 0);
    put("images/b/y.jpg", "", 0);
    put("images/classnames.txt", data + 1, kind == 3 ? size - 1 : 0);
    if (kind != 2 && kind != 3) put("list", data + 1, size - 1);
    snprintf(spec, sizeof spec, kinds[kind], folder);
    if (gf_dataset_open(&err, spec, &d) == GLOFND_OK) check_data(d);
    else if (!err.text[0]) abort();
    check_shown(err.text);
    gf_dataset_free(d);
    return 0;
}
