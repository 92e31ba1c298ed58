/* official_captions.c - images with captions: Flickr30k (token file, or Karpathy's JSON) and MSCOCO (captions_*.json, or
 * Karpathy's JSON). Captions of an image are the lines of its text. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/official/official.h"
#include "io/file.h"
#include "io/json.h"
#include "util/array.h"
#include "util/string_list.h"

/* A further line of the text of the next image; line breaks inside become spaces. */
static glofnd_status add_caption(gf_error *err, gf_official *o, const char *text, size_t n) {
    gf_official_text *t = &o->caption;
    while (n > 0 && strchr(" \t\r\n", *text)) text++, n--;
    while (n > 0 && strchr(" \t\r\n", text[n - 1])) n--;
    if (n == 0) return GLOFND_OK;
    FAIL_IF(err, !gf_grow(&t->at, &t->capacity, t->n + n + 2, 1), GLOFND_E_MEMORY, "no memory for captions");
    if (t->n) t->at[t->n++] = '\n';
    for (size_t i = 0; i < n; i++) t->at[t->n++] = text[i] == '\n' || text[i] == '\r' || !text[i] ? ' ' : text[i];
    return GLOFND_OK;
}

/* The image with the captions that were added before it. */
static glofnd_status add_image(gf_error *err, gf_official *o, const char *folder, const char *name) {
    gf_official_text *t = &o->caption;
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", name);
    FAIL_IF(err, n < 0 || n >= (int)sizeof path, GLOFND_E_FORMAT, "a path below '%.300s' is too long", o->root);
    TRY(gf_official_add(err, o, path, -1));
    const glofnd_status status = gf_string_list_add(err, &o->texts, t->n ? t->at : "", t->n);
    t->n = 0;
    return status;
}

/* The first of these folders that has an image of this name; "": the root. */
static const char *image_folder(const gf_official *o, const char *const *folders, const char *image) {
    char path[PATH_MAX];
    for (; *folders; folders++)
        if (snprintf(path, sizeof path, "%s/%s", *folders, image) < (int)sizeof path && gf_official_has(o, path)) return *folders;
    return "";
}

static glofnd_status load_json(gf_error *err, gf_official *o, const char *name) {
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    TRY(gf_path_join(err, path, o->root, name));
    glofnd_status status = gf_file_read(err, path, (uint64_t)1 << 30, &bytes, &capacity, &size);
    if (status == GLOFND_OK)
        status = gf_json_read(err, path, (const char *)bytes, size, GF_JSON_DEPTH, GF_JSON_LENIENT, &o->json);
    free(bytes);
    return status;
}

/* A node that is no text is no caption. */
static glofnd_status add_json_caption(gf_error *err, gf_official *o, int64_t node) {
    const gf_json *j = &o->json;
    if (!gf_json_is(j, node, GF_JSON_TEXT)) return GLOFND_OK;
    return add_caption(err, o, gf_json_text(j, j->node[node].text), (size_t)j->node[node].count);
}

/* ----- Karpathy: {"images": [{"filename", "filepath"?, "split", "sentences": [{"raw"}]}]} ----- */

static glofnd_status read_karpathy(gf_error *err, gf_official *o, const char *file, const char *const *folders) {
    const gf_json *j = &o->json;
    TRY(load_json(err, o, file));
    const int64_t images = gf_json_find(j, 0, "images");
    const int all = strcmp(o->split, "all") == 0, train = strcmp(o->split, "train") == 0;
    FAIL_IF(err, !gf_json_is(j, images, GF_JSON_ARRAY), GLOFND_E_FORMAT, "'%.200s/%s' has no list 'images'", o->root, file);
    for (int64_t i = j->node[images].first; i >= 0; i = j->node[i].next) {
        const char *name = gf_json_find_text(j, i, "filename"), *split = gf_json_find_text(j, i, "split");
        const char *folder = gf_json_find_text(j, i, "filepath");
        const int64_t sentences = gf_json_find(j, i, "sentences");
        FAIL_IF(err, !name || !split || !gf_json_is(j, sentences, GF_JSON_ARRAY), GLOFND_E_FORMAT,
                "'%.200s': an image of the JSON lacks filename, split or sentences", o->root);
        /* train of MSCOCO is train and restval, as it is used since. */
        if (!all && strcmp(split, o->split) != 0 && !(train && strcmp(split, "restval") == 0)) continue;
        for (int64_t k = j->node[sentences].first; k >= 0; k = j->node[k].next)
            TRY(add_json_caption(err, o, gf_json_find(j, k, "raw")));
        TRY(add_image(err, o, folder ? folder : image_folder(o, folders, name), name));
    }
    return GLOFND_OK;
}

static const char *first_there(const gf_official *o, const char *const *names) {
    for (; *names; names++)
        if (gf_official_has(o, *names)) return *names;
    return NULL;
}

/* ----- Flickr30k: "1000092795.jpg#0<TAB>caption", or "1000092795.jpg| 0| caption" ----- */

/* Name and caption of a line; 0: it is neither of the two. */
static int cut_token_line(char *line, char **caption) {
    char *hash = strchr(line, '#'), *bar = strchr(line, '|'), *tab = strchr(line, '\t');
    const int tabbed = hash && tab && hash < tab;
    char *second = tabbed ? tab : bar ? strchr(bar + 1, '|') : NULL;
    if (!second) return 0;
    *(tabbed ? hash : bar) = 0;
    *caption = second + 1;
    return 1;
}

glofnd_status gf_read_flickr30k(gf_error *err, gf_official *o) {
    static const char *const json[] = {"dataset_flickr30k.json", "karpathy/dataset_flickr30k.json", "dataset.json", NULL};
    static const char *const tokens[] = {"results_20130124.token", "results.csv", "flickr30k_images/results.csv", NULL};
    static const char *const folders[] = {"flickr30k-images", "flickr30k_images/flickr30k_images",
                                          "flickr30k_images", "images",
                                          "Images",           NULL};
    const char *file = first_there(o, json);
    if (file) return read_karpathy(err, o, file, folders);
    file = first_there(o, tokens);
    FAIL_IF(err, !file, GLOFND_E_IO, "'%.200s' has no captions; flickr30k:DIR needs %s", o->root, o->known->wants);
    FAIL_IF(err, strcmp(o->split, "all") != 0, GLOFND_E_IO,
            "'%.200s/%s' has no splits; put Karpathy's dataset_flickr30k.json beside it, or take all images with ?split=all",
            o->root, file);
    const gf_string_list *lines = &o->list[0];
    char line[8192], last[8192] = "";
    const char *folder = NULL;
    TRY(gf_official_lines(err, o, file, &o->list[0]));
    for (int64_t i = 0; i < lines->n; i++) {
        char *caption;
        const int n = snprintf(line, sizeof line, "%s", gf_string_list_get(lines, i));
        if (i == 0 && strncmp(line, "image_name", 10) == 0) continue;
        FAIL_IF(err, n >= (int)sizeof line, GLOFND_E_FORMAT, "'%.200s': line %lld of the captions is too long", o->root,
                (long long)i + 1);
        if (!cut_token_line(line, &caption)) continue; /* one line of Kaggle's table has its last separator missing */
        if (!folder) folder = image_folder(o, folders, line);
        if (last[0] && strcmp(last, line) != 0) TRY(add_image(err, o, folder, last));
        memcpy(last, line, strlen(line) + 1);
        TRY(add_caption(err, o, caption, strlen(caption)));
    }
    return last[0] ? add_image(err, o, folder, last) : GLOFND_OK;
}

/* ----- img2dataset, output_format "files": folders 00000, 00001 ... of KEY.jpg with KEY.txt ----- */

glofnd_status gf_read_img2dataset(gf_error *err, gf_official *o) {
    gf_string_list *folders = &o->list[0], *images = &o->list[1];
    TRY(gf_official_folders(err, o, ".", folders));
    for (int64_t k = 0; k < folders->n; k++) {
        const char *folder = gf_string_list_get(folders, k);
        gf_string_list_free(images);
        TRY(gf_official_images(err, o, folder, images));
        for (int64_t i = 0; i < images->n; i++) {
            const char *image = gf_string_list_get(images, i), *dot = strrchr(image, '.');
            char path[PATH_MAX];
            uint8_t *bytes = NULL;
            size_t capacity = 0, size = 0;
            TRY(gf_official_path(err, o, path, "%s/%.*s.txt", folder, (int)(dot ? dot - image : (ptrdiff_t)strlen(image)),
                                 image));
            if (access(path, F_OK) == 0) { /* the caption beside an image */
                glofnd_status status = gf_file_read(err, path, (uint64_t)1 << 20, &bytes, &capacity, &size);
                if (status == GLOFND_OK) status = add_caption(err, o, (const char *)bytes, size);
                free(bytes);
                TRY(status);
            }
            TRY(add_image(err, o, folder, image));
        }
    }
    FAIL_IF(err, o->paths.n == 0 && gf_official_has(o, "00000.tar"), GLOFND_E_FORMAT,
            "'%.200s' holds shards of img2dataset; write wds:%.200s", o->root, o->root);
    return GLOFND_OK;
}

/* ----- MSCOCO: {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]} ----- */

typedef struct coco_row { /* an image, or a caption of it */
    int64_t id;
    int64_t node; /* of the JSON: rises within its list */
} coco_row;

static int by_id(const void *a, const void *b) {
    const coco_row *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Rows of a list, sorted by the number under `key`; malloc'ed. */
static glofnd_status sort_rows(gf_error *err, const gf_official *o, int64_t list, const char *key, coco_row **out) {
    const gf_json *j = &o->json;
    const size_t count = (size_t)j->node[list].count;
    size_t n = 0;
    *out = malloc((count + 1) * sizeof **out);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %llu captions", (unsigned long long)count);
    for (int64_t k = j->node[list].first; k >= 0; k = j->node[k].next) {
        const int64_t id = gf_json_find(j, k, key);
        FAIL_IF(err, !gf_json_is(j, id, GF_JSON_INTEGER), GLOFND_E_FORMAT,
                "'%.200s': an entry of the annotations has no integer '%s'", o->root, key);
        (*out)[n++] = (coco_row){j->node[id].integer, k};
    }
    qsort(*out, n, sizeof **out, by_id);
    return GLOFND_OK;
}

/* Images in the order of their ids, each with its captions. */
static glofnd_status merge_coco(gf_error *err, gf_official *o, const coco_row *image, int64_t images, const coco_row *caption,
                                int64_t captions) {
    const gf_json *j = &o->json;
    char folder[64];
    snprintf(folder, sizeof folder, "%s%.20s", gf_official_has(o, "images") ? "images/" : "", o->split);
    for (int64_t i = 0, k = 0; i < images; i++) {
        const char *name = gf_json_find_text(j, image[i].node, "file_name");
        FAIL_IF(err, !name, GLOFND_E_FORMAT, "'%.200s': an image of the annotations has no file_name", o->root);
        while (k < captions && caption[k].id < image[i].id) k++;
        for (; k < captions && caption[k].id == image[i].id; k++)
            TRY(add_json_caption(err, o, gf_json_find(j, caption[k].node, "caption")));
        TRY(add_image(err, o, folder, name));
    }
    return GLOFND_OK;
}

glofnd_status gf_read_coco(gf_error *err, gf_official *o) {
    static const char *const json[] = {"dataset_coco.json", "karpathy/dataset_coco.json", "annotations/dataset_coco.json",
                                       "dataset.json", NULL};
    static const char *const folders[] = {"val2014", "train2014", NULL};
    char file[64];
    const char *karpathy = first_there(o, json);
    if (strncmp(o->split, "train2", 6) == 0 || strncmp(o->split, "val2", 4) == 0) {
        snprintf(file, sizeof file, "annotations/captions_%.20s.json", o->split);
        coco_row *image = NULL, *caption = NULL;
        TRY(load_json(err, o, file));
        const gf_json *j = &o->json;
        const int64_t images = gf_json_find(j, 0, "images"), captions = gf_json_find(j, 0, "annotations");
        FAIL_IF(err, !gf_json_is(j, images, GF_JSON_ARRAY) || !gf_json_is(j, captions, GF_JSON_ARRAY), GLOFND_E_FORMAT,
                "'%.200s/%s' has no lists 'images' and 'annotations'", o->root, file);
        glofnd_status status = sort_rows(err, o, images, "id", &image);
        if (status == GLOFND_OK) status = sort_rows(err, o, captions, "image_id", &caption);
        if (status == GLOFND_OK) status = merge_coco(err, o, image, j->node[images].count, caption, j->node[captions].count);
        free(image);
        free(caption);
        return status;
    }
    FAIL_IF(
        err, !karpathy, GLOFND_E_IO,
        "'%.150s' has no dataset_coco.json with Karpathy's splits train, val and test; ?split=train2014, val2014, train2017 and "
        "val2017 are those of the official annotations",
        o->root);
    return read_karpathy(err, o, karpathy, folders);
}

/* ----- WinoGAViL: a table with the columns cue, candidates and associations; the last two are JSON lists of names, of images
 * NAME.jpg ----- */

enum { CANDIDATES_MAX = 64 };

typedef struct table_lists { /* candidates of all instances, as names, until all are known */
    gf_string_list name;
    size_t first_capacity, associated_capacity;
} table_lists;

static glofnd_status add_candidates(gf_error *err, gf_winogavil *w, table_lists *t, const char *path, const gf_json *candidates,
                                    const gf_json *associations) {
    int found = 0;
    for (int64_t k = candidates->node[0].first; k >= 0; k = candidates->node[k].next) {
        const char *name = gf_json_is(candidates, k, GF_JSON_TEXT) ? gf_json_text(candidates, candidates->node[k].text) : NULL;
        FAIL_IF(err, !name || strchr(name, '/'), GLOFND_E_FORMAT, "'%.300s': a candidate is no name of an image", path);
        FAIL_IF(err, !gf_grow(&w->associated, &t->associated_capacity, (size_t)t->name.n + 1, 1), GLOFND_E_MEMORY,
                "no memory for candidates");
        uint8_t *associated = &w->associated[t->name.n];
        *associated = 0;
        for (int64_t a = associations->node[0].first; a >= 0; a = associations->node[a].next)
            *associated |= gf_json_is(associations, a, GF_JSON_TEXT) &&
                           strcmp(gf_json_text(associations, associations->node[a].text), name) == 0;
        found |= *associated;
        TRY(gf_string_list_add(err, &t->name, name, strlen(name)));
    }
    FAIL_IF(err, !found, GLOFND_E_FORMAT, "'%.300s': no association of '%.60s' is among its candidates", path,
            gf_string_list_get(&w->cue, w->cue.n - 1));
    return GLOFND_OK;
}

/* A JSON list of at most CANDIDATES_MAX names. */
static glofnd_status read_list(gf_error *err, const char *path, int64_t line, const char *text, gf_json *out) {
    gf_error why = {""};
    const glofnd_status status = gf_json_read(&why, path, text, strlen(text), 1, 0, out);
    FAIL_IF(err, status == GLOFND_E_MEMORY, status, "%s", why.text);
    FAIL_IF(err, status != GLOFND_OK || !gf_json_is(out, 0, GF_JSON_ARRAY) || out->node[0].count > CANDIDATES_MAX,
            GLOFND_E_FORMAT, "'%.300s', line %lld: expected a cue and JSON lists of at most %d names", path, (long long)line,
            CANDIDATES_MAX);
    return GLOFND_OK;
}

static glofnd_status add_row(gf_error *err, gf_winogavil *w, table_lists *t, const char *path, int64_t line, const char *cue,
                             const char *candidate_text, const char *association_text) {
    gf_json candidates = {0}, associations = {0};
    glofnd_status status = read_list(err, path, line, candidate_text, &candidates);
    if (status == GLOFND_OK) status = read_list(err, path, line, association_text, &associations);
    if (status == GLOFND_OK && !cue[0])
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s', line %lld has no cue", path, (long long)line);
    if (status == GLOFND_OK && !gf_grow(&w->first, &t->first_capacity, (size_t)w->cue.n + 2, sizeof *w->first))
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the instances of '%.300s'", path);
    if (status == GLOFND_OK) {
        w->first[w->cue.n] = t->name.n;
        status = gf_string_list_add(err, &w->cue, cue, strlen(cue));
    }
    if (status == GLOFND_OK) status = add_candidates(err, w, t, path, &candidates, &associations);
    if (status == GLOFND_OK) w->first[w->cue.n] = t->name.n;
    gf_json_free(&candidates);
    gf_json_free(&associations);
    return status;
}

static glofnd_status read_rows(gf_error *err, const char *path, gf_csv *csv, gf_string_list *row, gf_winogavil *w,
                               table_lists *t) {
    TRY(gf_csv_next(err, csv, row));
    const int64_t cue = gf_string_list_first(row, "cue"), candidates = gf_string_list_first(row, "candidates"),
                  associations = gf_string_list_first(row, "associations");
    FAIL_IF(err, cue < 0 || candidates < 0 || associations < 0, GLOFND_E_FORMAT,
            "'%.300s' lacks one of the columns cue, candidates, associations", path);
    for (;;) {
        TRY(gf_csv_next(err, csv, row));
        if (row->n == 0) return GLOFND_OK;
        FAIL_IF(err, row->n <= cue || row->n <= candidates || row->n <= associations, GLOFND_E_FORMAT,
                "'%.300s', line %lld has too few fields", path, (long long)csv->line);
        TRY(add_row(err, w, t, path, csv->line, gf_string_list_get(row, cue), gf_string_list_get(row, candidates),
                    gf_string_list_get(row, associations)));
    }
}

/* Sorts the names, and replaces each candidate by its position among them. */
static glofnd_status number_images(gf_error *err, gf_winogavil *w, const table_lists *t) {
    for (int64_t i = 0; i < t->name.n; i++)
        TRY(gf_string_list_add(err, &w->image, gf_string_list_get(&t->name, i), strlen(gf_string_list_get(&t->name, i))));
    TRY(gf_string_list_sort(err, &w->image));
    gf_string_list_unique(&w->image);
    w->candidate = malloc(((size_t)t->name.n + 1) * sizeof *w->candidate);
    FAIL_IF(err, !w->candidate, GLOFND_E_MEMORY, "no memory for %lld candidates", (long long)t->name.n);
    for (int64_t i = 0; i < t->name.n; i++)
        w->candidate[i] = (int32_t)gf_string_list_find(&w->image, gf_string_list_get(&t->name, i));
    return GLOFND_OK;
}

glofnd_status gf_winogavil_read(gf_error *err, const char *root, gf_winogavil *out) {
    static const char *const names[] = {"winogavil_dataset.csv", "winogavil_test.csv", "test.csv", "assets/winogavil_test.csv"};
    char path[PATH_MAX];
    *out = (gf_winogavil){0};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        TRY(gf_path_join(err, path, root, names[k]));
        if (access(path, F_OK) != 0) continue;
        uint8_t *bytes = NULL;
        size_t capacity = 0, size = 0;
        gf_string_list row = {0};
        table_lists t = {0};
        glofnd_status status = gf_file_read(err, path, (uint64_t)1 << 28, &bytes, &capacity, &size);
        if (status == GLOFND_OK) {
            gf_csv csv = gf_csv_begin(path, (char *)bytes, (char *)bytes + size);
            status = read_rows(err, path, &csv, &row, out, &t);
        }
        if (status == GLOFND_OK) status = number_images(err, out, &t);
        if (status == GLOFND_OK && out->cue.n == 0) status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has no instance", path);
        gf_string_list_free(&row);
        gf_string_list_free(&t.name);
        free(bytes);
        if (status != GLOFND_OK) gf_winogavil_free(out);
        return status;
    }
    GF_FAIL(err, GLOFND_E_IO, "'%.300s' has no winogavil_dataset.csv, winogavil_test.csv or test.csv", root);
}

void gf_winogavil_free(gf_winogavil *w) {
    gf_string_list_free(&w->cue);
    gf_string_list_free(&w->image);
    free(w->first);
    free(w->candidate);
    free(w->associated);
    *w = (gf_winogavil){0};
}

glofnd_status gf_read_winogavil(gf_error *err, gf_official *o) {
    static const char *const folders[] = {"winogavil_images", "images", "assets/winogavil_images", "."};
    gf_winogavil w;
    char path[PATH_MAX];
    size_t k = 0;
    while (k + 1 < sizeof folders / sizeof *folders && !gf_official_has(o, folders[k])) k++;
    TRY(gf_winogavil_read(err, o->root, &w));
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < w.image.n && status == GLOFND_OK; i++) {
        const char *name = gf_string_list_get(&w.image, i), *dot = strrchr(name, '.');
        const int has_end = dot && (strcmp(dot, ".jpg") == 0 || strcmp(dot, ".png") == 0);
        const int n = snprintf(path, sizeof path, "%s/%s%s", folders[k], name, has_end ? "" : ".jpg");
        status = n > 0 && n < (int)sizeof path ? gf_official_add(err, o, path, -1)
                                               : gf_fail(err, GLOFND_E_FORMAT, "a path below '%.300s' is too long", o->root);
    }
    gf_winogavil_free(&w);
    return status;
}
