/* export.c - see export.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/export.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/captions.h"
#include "data/tar.h"
#include "io/blockfile.h"
#include "util/text.h"

typedef struct exporter {
    gf_error *err;
    const gf_dataset *d;
    const gf_export *e;
    gf_export_result *out;
    gf_dataset_info info;
    gf_sample sample;
    uint8_t *png; /* of the current sample */
    size_t png_size;
    gf_writer shard;           /* WDS: the one being written */
    char shard_path[PATH_MAX]; /* "" : none */
    int64_t in_shard;
    int plain_names; /* FOLDER: class names are in bytewise order and usable unchanged */
    FILE *captions;
} exporter;

static glofnd_status path_in(exporter *x, char out[PATH_MAX], const char *name) {
    return gf_path_join(x->err, out, x->e->folder, name);
}

static glofnd_status make_folder(gf_error *err, const char *path) {
    FAIL_IF(err, mkdir(path, 0777) != 0 && errno != EEXIST, GLOFND_E_IO, "the folder '%.400s' cannot be made: %s", path,
            strerror(errno));
    return GLOFND_OK;
}

/* Names can be folders unchanged if reading them again gives the same labels: sorted, and valid as file names. */
static int names_are_plain(const gf_dataset *d, int32_t classes) {
    for (int32_t c = 0; c < classes; c++) {
        const char *name = gf_dataset_class(d, c), *before = c > 0 ? gf_dataset_class(d, c - 1) : "";
        if (!name || name[0] == '.' || strchr(name, '/') || strlen(name) > 200 || strcmp(before, name) >= 0) return 0;
        /* folder: takes these for something else than a class */
        if (strcmp(name, GF_UNLABELLED) == 0 || strcmp(name, "test") == 0 || strcmp(name, "val") == 0) return 0;
        if (strcmp(name, "train") == 0 && classes == 1) return 0;
    }
    return 1;
}

static void class_folder(const exporter *x, int32_t label, char out[NAME_MAX + 1]) {
    const char *name = gf_dataset_class(x->d, label);
    if (label < 0) snprintf(out, NAME_MAX + 1, GF_UNLABELLED);
    else if (x->plain_names) snprintf(out, NAME_MAX + 1, "%s", name);
    else snprintf(out, NAME_MAX + 1, "%07d%s%.200s", label, name ? " " : "", name ? name : "");
    for (char *p = out; *p; p++)
        if (*p == '/') *p = '_';
}

/* A field in quotes, those in it doubled; `tab` takes the place of tabs. */
static void put_quoted(FILE *f, const char *text, size_t n, char tab) {
    fputc('"', f);
    for (const char *p = text; p < text + n; p++) {
        if (*p == '"') fputc('"', f);
        fputc(*p == '\t' ? tab : *p, f);
    }
    fputc('"', f);
}

static glofnd_status write_to_folder(exporter *x, int64_t i) {
    char name[NAME_MAX + 64], path[PATH_MAX], class_name[NAME_MAX + 1];
    if (x->info.classes > 0) {
        class_folder(x, x->sample.label, class_name);
        TRY(path_in(x, path, class_name));
        TRY(make_folder(x->err, path));
        snprintf(name, sizeof name, "%s/%010lld.png", class_name, (long long)i);
    } else {
        snprintf(name, sizeof name, "%010lld.png", (long long)i);
    }
    TRY(path_in(x, path, name));
    TRY(gf_file_write(x->err, path, x->png, x->png_size));
    if (x->captions) {
        /* A row per caption, as open_clip's lists have. */
        FILE *f = x->captions;
        for (int64_t k = 0; k < gf_captions_count(x->sample.text); k++) {
            const gf_caption c = gf_caption_at(x->sample.text, k);
            if (strpbrk(name, "\t\r\n\"")) put_quoted(f, name, strlen(name), '\t');
            else fputs(name, f);
            fputc('\t', f);
            put_quoted(f, c.text, c.n, ' ');
            fputc('\n', f);
        }
    }
    return GLOFND_OK;
}

static void put_member(gf_writer *w, const char *name, const void *bytes, size_t n) {
    static const uint8_t zeros[GF_TAR_BLOCK];
    uint8_t block[GF_TAR_BLOCK];
    gf_tar_header(block, name, n);
    gf_put(w, block, sizeof block);
    gf_put(w, bytes, n);
    gf_put(w, zeros, (GF_TAR_BLOCK - n % GF_TAR_BLOCK) % GF_TAR_BLOCK);
}

static glofnd_status end_shard(exporter *x) {
    static const uint8_t zeros[2 * GF_TAR_BLOCK];
    if (!x->shard_path[0]) return GLOFND_OK;
    gf_put(&x->shard, zeros, sizeof zeros);
    const glofnd_status status = gf_writer_commit(&x->shard);
    gf_writer_close(&x->shard);
    x->shard_path[0] = 0;
    return status;
}

static glofnd_status write_to_shard(exporter *x, int64_t i) {
    char name[64], label[32];
    const int64_t per_shard = x->e->per_shard > 0 ? x->e->per_shard : 10000;
    if (x->shard_path[0] && x->in_shard == per_shard) TRY(end_shard(x));
    if (!x->shard_path[0]) {
        char shard_name[64];
        snprintf(shard_name, sizeof shard_name, "shard-%06lld.tar", (long long)x->out->shards);
        TRY(path_in(x, x->shard_path, shard_name));
        const glofnd_status status = gf_writer_open(x->err, &x->shard, x->shard_path);
        if (status != GLOFND_OK) x->shard_path[0] = 0;
        else x->out->shards++;
        x->in_shard = 0;
        TRY(status);
    }
    snprintf(name, sizeof name, "%010lld.png", (long long)i);
    put_member(&x->shard, name, x->png, x->png_size);
    if (x->sample.label >= 0) {
        snprintf(name, sizeof name, "%010lld.cls", (long long)i);
        put_member(&x->shard, name, label, (size_t)snprintf(label, sizeof label, "%d", x->sample.label));
    }
    if (x->sample.text) {
        snprintf(name, sizeof name, "%010lld.txt", (long long)i);
        put_member(&x->shard, name, x->sample.text, strlen(x->sample.text));
    }
    x->in_shard++;
    return x->shard.status;
}

static glofnd_status write_sample(exporter *x, int64_t i) {
    const glofnd_status status = gf_dataset_read(x->err, x->d, i, 0, &x->sample);
    if ((status == GLOFND_E_FORMAT || status == GLOFND_E_IO) && !x->e->strict) {
        x->out->unreadable++;
        return GLOFND_OK;
    }
    TRY(status);
    TRY(gf_image_encode_png(x->err, &x->sample.image, &x->png, &x->png_size));
    const glofnd_status written = x->e->form == GF_EXPORT_WDS ? write_to_shard(x, i) : write_to_folder(x, i);
    free(x->png);
    x->png = NULL;
    x->out->written += written == GLOFND_OK;
    return written;
}

static glofnd_status write_all(exporter *x, int64_t count) {
    gf_error *err = x->err;
    char path[PATH_MAX], folder[NAME_MAX + 1];
    TRY(make_folder(err, x->e->folder));
    DIR *dir = opendir(x->e->folder);
    FAIL_IF(err, !dir, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", x->e->folder, strerror(errno));
    int entries = 0, named = 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        entries += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    FAIL_IF(err, entries > 0, GLOFND_E_ARGUMENT, "the folder '%.400s' is not empty; nothing is written into it", x->e->folder);
    /* A line per class, empty where it has no name. Class folders always need it: their own names may be made up. */
    for (int32_t c = 0; c < x->info.classes && !named; c++) named = gf_dataset_class(x->d, c) != NULL;
    if (x->info.classes != 0 && (x->e->form != GF_EXPORT_WDS || named)) {
        TRY(path_in(x, path, "classnames.txt"));
        gf_writer w;
        TRY(gf_writer_open(err, &w, path));
        for (int32_t c = 0; c < x->info.classes; c++) {
            const char *name = gf_dataset_class(x->d, c);
            for (; name && *name; name++) gf_put(&w, *name == '\n' ? " " : name, 1);
            gf_put(&w, "\n", 1);
        }
        TRY(gf_writer_finish(&w));
    }
    if (x->e->form == GF_EXPORT_FOLDER) {
        /* All class folders at once, so that a class without samples keeps its number. */
        x->plain_names = names_are_plain(x->d, x->info.classes);
        for (int32_t c = 0; c < x->info.classes; c++) {
            class_folder(x, c, folder);
            TRY(path_in(x, path, folder));
            TRY(make_folder(err, path));
        }
        if (x->info.has_text) {
            TRY(path_in(x, path, "captions.csv"));
            x->captions = fopen(path, "wx");
            FAIL_IF(x->err, !x->captions, GLOFND_E_IO, "'%.400s' cannot be written: %s", path, strerror(errno));
            fputs("filepath\ttitle\n", x->captions);
        }
    }
    for (int64_t k = 0; k < count; k++) {
        TRY(write_sample(x, x->e->first + k));
        if (x->e->progress && x->e->progress(x->e->user, k + 1, count)) break;
    }
    TRY(end_shard(x));
    if (x->captions) {
        const int failed = ferror(x->captions) | (fclose(x->captions) != 0);
        x->captions = NULL;
        FAIL_IF(x->err, failed, GLOFND_E_IO, "'%.400s/captions.csv' cannot be written", x->e->folder);
    }
    FAIL_IF(x->err, x->out->written == 0, GLOFND_E_FORMAT, "none of %lld samples is readable", (long long)count);
    return GLOFND_OK;
}

glofnd_status gf_dataset_export(gf_error *err, const gf_dataset *d, const gf_export *e, gf_export_result *out) {
    const gf_dataset_info info = gf_dataset_describe(d);
    *out = (gf_export_result){0};
    FAIL_IF(err, e->first < 0 || e->first >= info.n || e->count < 0 || e->count > info.n - e->first, GLOFND_E_ARGUMENT,
            "samples %lld..%lld of %lld", (long long)e->first, (long long)(e->first + e->count - 1), (long long)info.n);
    if (e->strict) TRY(gf_dataset_check_complete(err, d));
    exporter x = {.err = err, .d = d, .e = e, .out = out, .info = info};
    const glofnd_status status = write_all(&x, e->count > 0 ? e->count : info.n - e->first);
    if (x.shard_path[0]) gf_writer_close(&x.shard);
    if (x.captions) fclose(x.captions);
    free(x.png);
    gf_sample_free(&x.sample);
    if (status == GLOFND_OK) {
        if (e->form == GF_EXPORT_FOLDER) snprintf(out->spec, sizeof out->spec, "folder:%s", e->folder);
        else if (out->shards == 1) snprintf(out->spec, sizeof out->spec, "wds:%s/shard-000000.tar", e->folder);
        else snprintf(out->spec, sizeof out->spec, "wds:%s/shard-{000000..%06lld}.tar", e->folder, (long long)out->shards - 1);
    }
    return status;
}

/* ----- contact sheet ----- */

/* Nearest pixels, proportions kept. */
static void paste_image(gf_image *to, int left, int top, int cell, const gf_image *m) {
    const int longer = m->width > m->height ? m->width : m->height;
    const int w = (int)((int64_t)m->width * cell / longer), h = (int)((int64_t)m->height * cell / longer);
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            const size_t from =
                ((size_t)y * (size_t)m->height / (size_t)h) * (size_t)m->width + (size_t)x * (size_t)m->width / (size_t)w;
            memcpy(to->rgb + 3 * ((size_t)(top + y) * (size_t)to->width + (size_t)(left + x)), m->rgb + 3 * from, 3);
        }
    }
}

glofnd_status gf_dataset_sheet(gf_error *err, const gf_dataset *d, int64_t first, int rows, int columns, int cell,
                               gf_image *out) {
    FAIL_IF(err, rows < 1 || columns < 1 || cell < 1 || rows > 1000 || columns > 1000 || cell > 4096, GLOFND_E_ARGUMENT,
            "a sheet of %d x %d pictures of %d pixels", rows, columns, cell);
    TRY(gf_image_resize(err, out, columns * (cell + 2) + 2, rows * (cell + 2) + 2));
    memset(out->rgb, 128, (size_t)3 * (size_t)out->width * (size_t)out->height);
    gf_sample s = {0};
    glofnd_status status = GLOFND_OK;
    for (int k = 0; k < rows * columns && first + k < gf_dataset_describe(d).n && status != GLOFND_E_MEMORY; k++) {
        status = gf_dataset_read(err, d, first + k, 0, &s);
        if (status == GLOFND_OK) paste_image(out, 2 + k % columns * (cell + 2), 2 + k / columns * (cell + 2), cell, &s.image);
    }
    gf_sample_free(&s);
    return status == GLOFND_E_MEMORY ? status : GLOFND_OK;
}
