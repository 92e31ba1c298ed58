/* encode_pairs.c - see encode_pairs.h. */
#include "eval/encode_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "util/string_list.h"

#define NAME 4400

typedef struct named { /* a sample, to be sorted by name */
    const char *name;
    int64_t sample;
} named;

typedef struct pairing {
    const gf_dataset *data;
    const gf_encode_spec *report; /* [2] */
    int64_t n;                    /* samples */
    int64_t *row;                 /* [n] row of each sample's image; -1: unreadable */
    int64_t *id;                  /* [ids] samples whose images are encoded: the first of each name */
    int64_t ids;
} pairing;

/* ----- samples with the same image ----- */

static int by_name(const void *a, const void *b) {
    const named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->sample > y->sample) - (x->sample < y->sample);
}

/* row[i] = the first sample with the name of sample i. */
static glofnd_status find_first(gf_error *err, pairing *p, gf_string_list *names, named *order) {
    char name[NAME];
    for (int64_t i = 0; i < p->n; i++) {
        gf_dataset_name(p->data, i, name, sizeof name);
        TRY(gf_string_list_add(err, names, name, strlen(name)));
    }
    for (int64_t i = 0; i < p->n; i++) order[i] = (named){gf_string_list_get(names, i), i};
    qsort(order, (size_t)p->n, sizeof *order, by_name);
    for (int64_t k = 0; k < p->n; k++) {
        const int again = k > 0 && strcmp(order[k].name, order[k - 1].name) == 0;
        p->row[order[k].sample] = again ? p->row[order[k - 1].sample] : order[k].sample;
    }
    return GLOFND_OK;
}

static glofnd_status group_samples(gf_error *err, pairing *p) {
    gf_string_list names = {0};
    named *order = malloc((size_t)p->n * sizeof *order);
    p->row = malloc((size_t)p->n * sizeof *p->row);
    p->id = malloc((size_t)p->n * sizeof *p->id);
    glofnd_status status = order && p->row && p->id ? find_first(err, p, &names, order)
                                                    : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld names", (long long)p->n);
    gf_string_list_free(&names);
    free(order);
    for (int64_t i = 0; status == GLOFND_OK && i < p->n; i++)
        if (p->row[i] == i) p->id[p->ids++] = i;
    return status;
}

/* ----- images ----- */

static void mark_unreadable(void *user, int64_t i, const char *message) {
    pairing *p = user;
    p->row[i] = -1;
    if (p->report->unreadable) p->report->unreadable(p->report->user, i, message);
}

static void pass_progress(void *user, int64_t done, int64_t total) {
    const pairing *p = user;
    if (p->report->progress) p->report->progress(p->report->user, done, total);
}

static void move_row(gf_features *f, int64_t to, int64_t from) {
    if (to == from) return;
    memcpy(f->x + to * f->dim, f->x + from * f->dim, (size_t)f->dim * sizeof *f->x);
    f->label[to] = f->label[from];
}

/* Removes the rows of unreadable images; row[i] becomes the row of sample i's image. First ones come before their repetitions. */
static void assign_rows(pairing *p, gf_features *image) {
    int64_t rows = 0, k = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const int first = k < p->ids && p->id[k] == i;
        if (!first) p->row[i] = p->row[p->row[i]];
        else if (p->row[i] >= 0) move_row(image, rows, k), p->row[i] = rows++;
        k += first;
    }
    image->n = rows;
}

static glofnd_status encode_images(gf_error *err, pairing *p, gf_run_encoder *e, gf_features *out) {
    const gf_encode_spec spec = {
        .ids = p->id, .id_count = p->ids, .aligned = 1, .unreadable = mark_unreadable, .progress = pass_progress, .user = p};
    TRY(gf_encode_samples(err, e, p->data, &spec, out));
    assign_rows(p, out);
    return GLOFND_OK;
}

/* ----- captions ----- */

/* owner changes from samples to rows of images; captions of unreadable images are dropped. */
static void assign_owners(const pairing *p, gf_text_pairs *out) {
    int64_t kept = 0;
    for (int64_t i = 0; i < out->text.n; i++) {
        const int64_t row = p->row[out->owner[i]];
        if (row < 0) continue;
        move_row(&out->text, kept, i);
        out->owner[kept++] = row;
    }
    out->lost = out->text.n - kept;
    out->text.n = kept;
}

static glofnd_status encode_both(gf_error *err, pairing *p, gf_run_encoder *image, gf_run_encoder *text, gf_text_pairs *out) {
    TRY(gf_captions_require(err, p->data));
    TRY(group_samples(err, p));
    out->repeated = p->n - p->ids;
    TRY(encode_images(err, p, image, &out->image));
    TRY(gf_encode_captions(err, text, p->data, &p->report[1], &out->text, &out->owner));
    assign_owners(p, out);
    FAIL_IF(err, out->text.n == 0, GLOFND_E_FORMAT, "no readable image has a caption");
    return GLOFND_OK;
}

glofnd_status gf_encode_pairs(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const gf_dataset *data,
                              const gf_encode_spec report[2], gf_text_pairs *out) {
    pairing p = {.data = data, .report = report, .n = gf_dataset_describe(data).n};
    *out = (gf_text_pairs){0};
    const glofnd_status status = encode_both(err, &p, image, text, out);
    if (status != GLOFND_OK) gf_text_pairs_free(out);
    free(p.row);
    free(p.id);
    return status;
}

void gf_text_pairs_free(gf_text_pairs *p) {
    gf_features_free(&p->image);
    gf_features_free(&p->text);
    free(p->owner);
    *p = (gf_text_pairs){0};
}
