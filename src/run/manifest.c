/* manifest.c - see manifest.h. */
#include "run/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "run/layout.h"
#include "util/path.h"

enum { LINE = 96, CRC_DIGITS = 8, BYTES_MAX = 1 << 20 }; /* BYTES_MAX: of DONE, for some ten thousand ranks */

#define END "end "

typedef struct sums { /* of one file */
    uint64_t bytes, mixed;
    uint32_t crc;
} sums;

static uint64_t word_of(const unsigned char *p, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)p[i] << 8 * i;
    return word;
}

/* A bijection of h, so that different values stay different; and not linear, so that no field of a file can cancel the bytes
 * before it, as a CRC does. */
static uint64_t stir(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* n is a multiple of 8 but for the end of a file, whose last word is filled up with zeros: the length is in the line as well. */
static uint64_t mix(uint64_t h, const unsigned char *p, size_t n) {
    for (; n >= 8; n -= 8, p += 8) h = stir(h, word_of(p, 8));
    return n > 0 ? stir(h, word_of(p, n)) : h;
}

static glofnd_status add_up(gf_error *err, const char *path, sums *out) {
    unsigned char part[1 << 14];
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    *out = (sums){.bytes = r.size, .mixed = 0xcbf29ce484222325u};
    while (r.status == GLOFND_OK && gf_reader_left(&r) > 0) {
        const uint64_t left = gf_reader_left(&r);
        const size_t n = left < sizeof part ? (size_t)left : sizeof part;
        gf_get(&r, part, n);
        out->mixed = mix(out->mixed, part, n);
    }
    out->crc = r.crc;
    gf_reader_close(&r);
    return r.status;
}

/* digits: of the checksum; they distinguish the two kinds. */
static glofnd_status describe(gf_error *err, const char *folder, const char *name, int digits, char line[LINE]) {
    char path[PATH_MAX];
    sums s;
    TRY(gf_path_join(err, path, folder, name));
    TRY(add_up(err, path, &s));
    if (digits == CRC_DIGITS) snprintf(line, LINE, "%08x %llu %s", (unsigned)s.crc, (unsigned long long)s.bytes, name);
    else snprintf(line, LINE, "%016llx %llu %s", (unsigned long long)s.mixed, (unsigned long long)s.bytes, name);
    return GLOFND_OK;
}

static void put_lines(gf_error *err, gf_writer *w, const char *folder, const char *const *name, int count) {
    char line[LINE];
    for (int i = 0; i < count && w->status == GLOFND_OK; i++) {
        if ((w->status = describe(err, folder, name[i], 2 * CRC_DIGITS, line)) != GLOFND_OK) return;
        gf_put(w, line, strlen(line));
        gf_put(w, "\n", 1);
    }
    gf_put(w, line, (size_t)snprintf(line, sizeof line, END "%d\n", count));
}

glofnd_status gf_manifest_write(gf_error *err, const char *folder, const char *const *name, int count) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(gf_path_join(err, path, folder, GF_DONE_FILE));
    TRY(gf_writer_open(err, &w, path));
    put_lines(err, &w, folder, name, count);
    return gf_writer_finish(&w);
}

/* ----- checking ----- */

/* The file must be as its line says. */
static glofnd_status check_line(gf_error *err, const char *folder, const char *line) {
    char expected[LINE];
    const char *name = strrchr(line, ' ');
    FAIL_IF(err, !name || strlen(line) >= LINE || strchr(name, '/'), GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " is corrupt", folder);
    TRY(describe(err, folder, name + 1, (int)strcspn(line, " "), expected));
    FAIL_IF(err, strcmp(expected, line) != 0, GLOFND_E_FORMAT,
            "%s/%s is corrupt, or of a different checkpoint: its length or checksum is not the one in " GF_DONE_FILE
            "; put the right one back, or remove the folder of the checkpoint to let --resume start from the beginning",
            folder, name + 1);
    return GLOFND_OK;
}

/* "end LINES". */
static glofnd_status check_end(gf_error *err, const char *folder, const char *line, int lines) {
    char expected[LINE];
    snprintf(expected, sizeof expected, END "%d", lines);
    FAIL_IF(err, strcmp(line, expected) != 0, GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " is corrupt", folder);
    return GLOFND_OK;
}

static glofnd_status check_text(gf_error *err, const char *folder, char *done, const char *const *needed, int count) {
    for (int i = 0; i < count; i++)
        FAIL_IF(err, !strstr(done, needed[i]), GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " does not list %s: it is corrupt", folder,
                needed[i]);
    int lines = 0, must_end = 0, ended = 0;
    for (char *line = done, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        FAIL_IF(err, !end || ended, GLOFND_E_FORMAT, "%s/" GF_DONE_FILE " is corrupt", folder);
        *end = 0;
        must_end |= strcspn(line, " ") != CRC_DIGITS;
        ended = strncmp(line, END, strlen(END)) == 0;
        TRY(ended ? check_end(err, folder, line, lines) : check_line(err, folder, line));
        lines++;
    }
    FAIL_IF(err, must_end && !ended, GLOFND_E_FORMAT,
            "%s/" GF_DONE_FILE " is cut short: remove the folder of the checkpoint to let --resume start from the beginning",
            folder);
    return GLOFND_OK;
}

/* *done: all of DONE, to be freed. */
static glofnd_status read_done(gf_error *err, const char *folder, char **done) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, folder, GF_DONE_FILE));
    FILE *f = fopen(path, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
    *done = malloc(BYTES_MAX + 1);
    if (*done) (*done)[fread(*done, 1, BYTES_MAX, f)] = 0;
    fclose(f);
    FAIL_IF(err, !*done, GLOFND_E_MEMORY, "no memory to read %s", path);
    return GLOFND_OK;
}

glofnd_status gf_manifest_check(gf_error *err, const char *folder, const char *const *needed, int count) {
    char *done;
    TRY(read_done(err, folder, &done));
    const glofnd_status status = check_text(err, folder, done, needed, count);
    free(done);
    return status;
}

glofnd_status gf_manifest_check_one(gf_error *err, const char *folder, const char *name, int *listed) {
    char *done, *rest;
    glofnd_status status = GLOFND_OK;
    TRY(read_done(err, folder, &done));
    *listed = 0;
    for (char *line = strtok_r(done, "\n", &rest); line && !*listed; line = strtok_r(NULL, "\n", &rest)) {
        const char *space = strrchr(line, ' ');
        *listed = space && strcmp(space + 1, name) == 0;
        if (*listed) status = check_line(err, folder, line);
    }
    free(done);
    return status;
}
