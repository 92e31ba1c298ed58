/* fuzz_stored.c - libFuzzer target of files that vouch for others: the first byte chooses DONE of a checkpoint, or summary.json,
 * anchors.npy or a file of names of a stored discovery. They are accepted or refused with a text; DONE never vouches for a file
 * that is not there; names are kept as they are, and escaped, as in tables, they are one line of UTF-8 each, and come back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "discover/stored_result.h"
#include "run/run_folder.h"
#include "util/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {"DONE", "summary.json", "anchors.npy", "names", "model"};
enum { FILES = sizeof files / sizeof *files };
static char folder[64];

static void leave(void) {
    for (int i = 0; i < FILES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void put(int i, const void *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f) != 0) abort();
}

static void check_manifest(void) {
    static const char *const needed[] = {"model"}, *const missing[] = {"no such file"};
    gf_error err = {""};
    int listed = 0;
    if (gf_manifest_check(&err, folder, needed, 1) != GLOFND_OK && !err.text[0]) abort();
    if (gf_manifest_check(&err, folder, missing, 1) == GLOFND_OK) abort();
    (void)gf_manifest_check_one(&err, folder, "model", &listed);
}

static void check_stored(void) {
    gf_discover_data d = {.n = 3, .dim = 2, .crc = 7};
    gf_discover_spec s = {0};
    gf_error err = {""};
    float *lambda = NULL;
    if (gf_discover_read_stored(&err, folder, &d, &s, &lambda) != GLOFND_OK && !err.text[0]) abort();
    free(lambda);
}

static void check_name(const char *name) {
    const size_t bytes = strlen(name);
    char *escaped = malloc(GF_ESCAPED_BYTES * bytes + 1);
    size_t used = 0;
    if (!escaped) abort();
    for (const char *p = name; *p;) used += gf_escape_next(&p, 0, escaped + used);
    escaped[used] = 0;
    if (gf_is_not_a_line(escaped) || !gf_unescape(escaped) || strcmp(escaped, name) != 0) abort();
    free(escaped);
}

static void check_names(void) {
    char path[128];
    gf_discover_data d = {.n = 3};
    gf_error err = {""};
    snprintf(path, sizeof path, "%s/names", folder);
    if (gf_discover_read_names(&err, path, NULL, &d) == GLOFND_OK) {
        for (int64_t i = 0; i < d.n; i++) check_name(d.name[i]);
    } else if (!err.text[0]) abort();
    free(d.name);
    free(d.name_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char summary[] = "{\"crc32c\": 7, \"k\": 1, \"alpha\": null, \"dup\": 0.98, \"query\": null}\n";
    if (size < 1) return 0;
    if (!folder[0]) {
        strcpy(folder, "/dev/shm/fuzz_stored-XXXXXX");
        if (!mkdtemp(folder) || atexit(leave) != 0) abort();
        put(4, "weights", 7);
    }
    const int which = data[0] % 4;
    put(1, summary, sizeof summary - 1);
    put(which, data + 1, size - 1);
    if (which == 0) check_manifest();
    else if (which == 3) check_names();
    else check_stored();
    return 0;
}
