/* memory_file.c - see memory_file.h. */
#include "run/memory_file.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/jsonl.h"
#include "run/layout.h"
#include "util/path.h"

#define FIELD(name) \
    { #name, offsetof(gf_memory_record, name) }
#define PART(name) \
    { #name, offsetof(gf_memory_record, bytes.name) }

static const struct {
    const char *key;
    size_t at;
} fields[] = {FIELD(step),       FIELD(ranks),    FIELD(anchors), PART(weights), PART(optimizer),
              PART(activations), PART(workspace), PART(loss),     PART(data),    PART(peak)};

enum { FIELDS = sizeof fields / sizeof *fields };

/* Under a temporary name first, so that a reader finds the old file or the new one. */
glofnd_status gf_memory_write(gf_error *err, const char *run, const gf_memory_record *r) {
    char path[PATH_MAX], temp[PATH_MAX + 8];
    gf_jsonl j = {0};
    TRY(gf_path_join(err, path, run, GF_MEMORY_FILE));
    snprintf(temp, sizeof temp, "%s" GF_TEMP_MARK "0", path);
    TRY(gf_jsonl_open(err, &j, temp, 0));
    gf_jsonl_begin(&j);
    gf_jsonl_text(&j, "device", r->gpu ? "cuda" : "cpu");
    for (int i = 0; i < FIELDS; i++) {
        int64_t x;
        memcpy(&x, (const char *)r + fields[i].at, sizeof x);
        gf_jsonl_integer(&j, fields[i].key, x);
    }
    gf_jsonl_end(&j);
    TRY(gf_jsonl_close(&j));
    FAIL_IF(err, rename(temp, path) != 0, GLOFND_E_IO, "%s cannot be replaced: %s", path, strerror(errno));
    return GLOFND_OK;
}

/* 1: the line has every field, and none of them is negative. */
static int read_fields(const gf_jsonl_reader *line, gf_memory_record *out) {
    for (int i = 0; i < FIELDS; i++) {
        int64_t x = -1;
        if (!gf_jsonl_get_integer(line, fields[i].key, &x) || x < 0) return 0;
        memcpy((char *)out + fields[i].at, &x, sizeof x);
    }
    return 1;
}

void gf_memory_read(const char *run, gf_memory_record *out) {
    char path[PATH_MAX];
    gf_error ignored = {{0}};
    gf_jsonl_reader line = {0};
    *out = (gf_memory_record){0};
    if (gf_path_join(NULL, path, run, GF_MEMORY_FILE) != GLOFND_OK || access(path, R_OK) != 0) return;
    if (gf_jsonl_read_open(&ignored, &line, path) != GLOFND_OK) return;
    if (gf_jsonl_next(&line) && read_fields(&line, out)) {
        const char *device = gf_jsonl_get_text(&line, "device");
        out->gpu = device && strcmp(device, "cuda") == 0;
        out->known = 1;
    } else {
        *out = (gf_memory_record){0};
    }
    gf_jsonl_read_close(&line);
}
