/* manifest.c - see manifest.h. */
#include "run/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/calls.h"
#include "io/checksum.h"
#include "run/layout.h"
#include "util/path.h"

enum { LINE = 96, CRC_DIGITS = 8, BYTES_MAX = 1 << 20 }; /* BYTES_MAX: of DONE, for some ten thousand ranks */

#define END "end "

typedef struct sums { /* of one file */
    uint64_t bytes, mixed;
    uint32_t crc;
} sums;

static glofnd_status add_up(gf_error *err, const char *path, sums *out) {
    unsigned char part[1 << 14];
    gf_reader r;
    TRY(gf_reader_open(err, &r, path));
    *out = (sums){.bytes = r.size, .mixed = GF_CHECKSUM_START};
    while (r.status == GLOFND_OK && gf_reader_left(&r) > 0) {
        const uint64_t left = gf_reader_left(&r);
        const size_t n = left < sizeof part ? (size_t)left : sizeof part;
        gf_get(&r, part, n);
        out->mixed = gf_checksum(out->mixed, part, n);
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
    FILE *f = gf_stream_open(path, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
    *done = malloc(BYTES_MAX + 1);
    if (*done) (*done)[fread(*done, 1, BYTES_MAX, f)] = 0;
    const int failed = ferror(f), why = errno;
    fclose(f);
    FAIL_IF(err, !*done, GLOFND_E_MEMORY, "no memory to read %s", path);
    if (!failed) return GLOFND_OK;
    free(*done);
    GF_FAIL(err, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(why));
}

glofnd_status gf_manifest_check(gf_error *err, const char *folder, const char *const *needed, int count) {
    char *done;
    TRY(read_done(err, folder, &done));
    const glofnd_status status = check_text(err, folder, done, needed, count);
    free(done);
    return status;
}

/* The line of DONE that lists `name`; "": none. */
static glofnd_status find_line(gf_error *err, const char *folder, const char *name, char found[LINE]) {
    char *done, *rest;
    *found = 0;
    TRY(read_done(err, folder, &done));
    for (char *line = strtok_r(done, "\n", &rest); line && !*found; line = strtok_r(NULL, "\n", &rest)) {
        const char *space = strrchr(line, ' ');
        if (space && strcmp(space + 1, name) == 0 && strlen(line) < LINE) memcpy(found, line, strlen(line) + 1);
    }
    free(done);
    return GLOFND_OK;
}

glofnd_status gf_manifest_check_one(gf_error *err, const char *folder, const char *name, int *listed) {
    char line[LINE];
    TRY(find_line(err, folder, name, line));
    *listed = *line != 0;
    return *listed ? check_line(err, folder, line) : GLOFND_OK;
}

/* All lines but that of `name` stay as they are, of whichever kind. */
static glofnd_status put_renewed(gf_error *err, gf_writer *w, const char *folder, char *done, const char *name) {
    char renewed[LINE], *rest;
    for (char *line = strtok_r(done, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *space = strrchr(line, ' '), *put = line;
        if (space && strcmp(space + 1, name) == 0) {
            TRY(describe(err, folder, name, (int)strcspn(line, " "), renewed));
            put = renewed;
        }
        gf_put(w, put, strlen(put));
        gf_put(w, "\n", 1);
    }
    return GLOFND_OK;
}

static glofnd_status write_renewed(gf_error *err, const char *folder, char *done, const char *name) {
    char path[PATH_MAX];
    gf_writer w;
    TRY(gf_path_join(err, path, folder, GF_DONE_FILE));
    TRY(gf_writer_open(err, &w, path));
    const glofnd_status status = put_renewed(err, &w, folder, done, name);
    if (status == GLOFND_OK) return gf_writer_finish(&w);
    gf_writer_close(&w);
    return status;
}

glofnd_status gf_manifest_renew(gf_error *err, const char *folder, const char *name) {
    char *done;
    TRY(read_done(err, folder, &done));
    const glofnd_status status = write_renewed(err, folder, done, name);
    free(done);
    return status;
}

glofnd_status gf_manifest_same(gf_error *err, const char *folder, const char *other, const char *name, int *same) {
    char line[LINE], there[LINE];
    *same = 0;
    TRY(find_line(err, folder, name, line));
    if (!*line) return GLOFND_OK;
    TRY(describe(err, other, name, (int)strcspn(line, " "), there));
    *same = strcmp(line, there) == 0;
    return GLOFND_OK;
}
