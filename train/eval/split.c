/* split.c - see split.h. */
#include "eval/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/rng.h"

/* ----- samples in the order of a keyed permutation, each class up to its quota ----- */

glofnd_status gf_stratified_draw(gf_error *err, gf_stratified_sample *d, const int32_t *label, int64_t n, uint8_t *chosen) {
    FAIL_IF(err, !(d->share > 0.0 && d->share <= 1.0), GLOFND_E_ARGUMENT, "the share is %g; expected a number in (0, 1]",
            d->share);
    int32_t max = -1;
    for (int64_t i = 0; i < n; i++) max = GF_MAX(label[i], max);
    const int32_t classes = max + 1;
    int64_t *quota = calloc((size_t)classes + 1, sizeof *quota);
    FAIL_IF(err, !quota, GLOFND_E_MEMORY, "no memory to draw from %d classes", (int)classes);
    /* quota [classes]: samples still to be drawn. */
    d->classes = 0;
    d->raised = 0;
    for (int64_t i = 0; i < n; i++)
        if (label[i] >= 0) quota[label[i]]++;
    for (int32_t c = 0; c < classes; c++) {
        if (quota[c] == 0) continue;
        d->classes++;
        quota[c] = (int64_t)(d->share * (double)quota[c] + 1e-9); /* 0.1 of 30 are 3, although 0.1 is not exact */
        if (quota[c] > 0 || !d->at_least_one) continue;
        quota[c] = 1;
        d->raised++;
    }
    for (int64_t i = 0; i < n; i++) chosen[i] = 0;
    d->count = 0;
    for (int64_t position = 0; position < n; position++) {
        const int64_t i = gf_permute(d->seed, d->stream, n, position);
        if (label[i] < 0 || quota[label[i]] == 0) continue;
        quota[label[i]]--;
        chosen[i] = 1;
        d->count++;
    }
    free(quota);
    return GLOFND_OK;
}

/* ----- samples ----- */

static glofnd_status samples_alloc(gf_error *err, gf_samples *p, const gf_dataset *data, int64_t n) {
    *p = (gf_samples){.data = data};
    p->id = malloc((size_t)(n + 1) * sizeof *p->id);
    p->label = malloc((size_t)(n + 1) * sizeof *p->label);
    if (p->id && p->label) return GLOFND_OK;
    gf_samples_free(p);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the labels of %lld samples", (long long)n);
}

void gf_samples_free(gf_samples *p) {
    if (!p) return;
    free(p->id);
    free(p->label);
    *p = (gf_samples){0};
}

/* All samples of the dataset that have a label. */
static glofnd_status labelled_samples(gf_error *err, const gf_dataset *data, gf_samples *out) {
    const int64_t n = gf_dataset_describe(data).n;
    TRY(samples_alloc(err, out, data, n));
    for (int64_t i = 0; i < n; i++) {
        const int32_t label = gf_dataset_label(data, i);
        if (label < 0) continue;
        out->id[out->n] = i;
        out->label[out->n++] = label;
    }
    return GLOFND_OK;
}

glofnd_status gf_samples_choose(gf_error *err, const gf_samples *from, const uint8_t *chosen, int want, gf_samples *to) {
    TRY(samples_alloc(err, to, from->data, from->n));
    for (int64_t i = 0; i < from->n; i++) {
        if (chosen[i] != want) continue;
        to->id[to->n] = from->id[i];
        to->label[to->n++] = from->label[i];
    }
    return GLOFND_OK;
}

glofnd_status gf_samples_hold_out(gf_error *err, gf_samples *from, double share, uint64_t seed, uint32_t stream, gf_samples *to) {
    gf_stratified_sample d = {.share = share, .seed = seed, .stream = stream};
    gf_samples rest = {0};
    uint8_t *chosen = malloc((size_t)from->n + 1);
    FAIL_IF(err, !chosen, GLOFND_E_MEMORY, "no memory to split %lld samples", (long long)from->n);
    glofnd_status status = gf_stratified_draw(err, &d, from->label, from->n, chosen);
    if (status == GLOFND_OK && d.count == 0)
        status = gf_fail(err, GLOFND_E_ARGUMENT, "no class has enough samples to hold out %g %% of it", 100.0 * share);
    if (status == GLOFND_OK) status = gf_samples_choose(err, from, chosen, 1, to);
    if (status == GLOFND_OK) status = gf_samples_choose(err, from, chosen, 0, &rest);
    free(chosen);
    if (status != GLOFND_OK) return status;
    gf_samples_free(from);
    *from = rest;
    return GLOFND_OK;
}

/* ----- classes ----- */

typedef struct named_class {
    const char *name;
    int32_t label;
} named_class;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named_class *)a)->name, ((const named_class *)b)->name);
}

/* True if every named test class has the same name under the same label in training. */
static int labels_agree(const gf_split *s) {
    if (s->test.data == s->train.data) return 1;
    for (int64_t i = 0; i < s->test.n; i++) {
        const char *name = gf_dataset_class(s->test.data, s->test.label[i]);
        const char *other = gf_dataset_class(s->train.data, s->test.label[i]);
        if (name && (!other || strcmp(name, other) != 0)) return 0;
    }
    return 1;
}

static glofnd_status find_class(gf_error *err, const gf_split *s, const named_class *list, size_t n, int32_t *label) {
    const named_class wanted = {.name = gf_dataset_class(s->test.data, *label)};
    if (!wanted.name) return GLOFND_OK;
    const named_class *found = bsearch(&wanted, list, n, sizeof *list, by_name);
    FAIL_IF(err, !found, GLOFND_E_ARGUMENT,
            "class %d (%.100s) of the test samples has no training sample: none of the %zu training classes has that name "
            "(the first is \"%.100s\"); rename the class, or remove it",
            (int)*label, wanted.name, n, list[0].name);
    FAIL_IF(err, (found > list && by_name(found - 1, found) == 0) || (found + 1 < list + n && by_name(found + 1, found) == 0),
            GLOFND_E_ARGUMENT, "class %d of the test samples is called \"%.100s\", which is the name of two training classes",
            (int)*label, wanted.name);
    *label = found->label;
    return GLOFND_OK;
}

static glofnd_status open_split(gf_error *err, const gf_split_spec *spec, gf_split *s) {
    TRY(gf_dataset_open(err, spec->data, &s->data));
    TRY(labelled_samples(err, s->data, &s->train));
    FAIL_IF(err, s->train.n == 0, GLOFND_E_ARGUMENT, "%.200s has no labels; this evaluation needs them", spec->data);
    if (spec->test) {
        const int length = snprintf(s->test_name, sizeof s->test_name, "%s", spec->test);
        FAIL_IF(err, length < 0 || (size_t)length >= sizeof s->test_name, GLOFND_E_ARGUMENT,
                "the SPEC of the test samples is too long");
    } else if (spec->held_out || !gf_dataset_test_spec(s->data, s->test_name, sizeof s->test_name)) {
        s->test_name[0] = 0;
    }
    if (!*s->test_name) TRY(gf_samples_hold_out(err, &s->train, spec->share, spec->seed, GF_STRATIFIED_TEST, &s->test));
    else {
        TRY(gf_dataset_open(err, s->test_name, &s->test_data));
        TRY(labelled_samples(err, s->test_data, &s->test));
    }
    s->classes = 0;
    glofnd_status status = GLOFND_OK;
    FAIL_IF(err, s->train.n == 0, GLOFND_E_ARGUMENT, "%.200s has no labels; this evaluation needs them", spec->data);
    FAIL_IF(err, s->test.n == 0, GLOFND_E_ARGUMENT, "no test sample has a label");
    /* Gives test labels the training set's numbers, by class name: a test set may lack classes, or have them in a different
     * order. Where one of the two has no names, the numbers stay. */
    named_class *list = NULL;
    size_t n = 0;
    if (!labels_agree(s)) {
        const int32_t classes = gf_dataset_describe(s->train.data).classes;
        list = malloc(((size_t)classes + 1) * sizeof *list);
        FAIL_IF(err, !list, GLOFND_E_MEMORY, "no memory for %d classes", (int)classes);
        for (int32_t c = 0; c < classes; c++) {
            const char *name = gf_dataset_class(s->train.data, c);
            if (name) list[n++] = (named_class){name, c};
        }
        qsort(list, n, sizeof *list, by_name);
        for (int64_t i = 0; n > 0 && i < s->test.n && status == GLOFND_OK; i++)
            status = find_class(err, s, list, n, &s->test.label[i]);
        free(list);
        TRY(status);
    }
    for (int64_t i = 0; i < s->train.n; i++) s->classes = s->train.label[i] >= s->classes ? s->train.label[i] + 1 : s->classes;
    uint8_t *known = calloc((size_t)s->classes, 1);
    FAIL_IF(err, !known, GLOFND_E_MEMORY, "no memory for %d classes", (int)s->classes);
    for (int64_t i = 0; i < s->train.n; i++) known[s->train.label[i]] = 1;
    for (int64_t i = 0; i < s->test.n && status == GLOFND_OK; i++) {
        const int32_t label = s->test.label[i];
        const char *name = gf_dataset_class(s->train.data, label);
        if (!name) name = gf_dataset_class(s->test.data, label);
        if (label >= s->classes || !known[label])
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "class %d%s%.100s%s of the test samples has no training sample; a part of each class is "
                             "DATA?fraction=0.1",
                             (int)label, name ? " (" : "", name ? name : "", name ? ")" : "");
    }
    free(known);
    return status;
}

glofnd_status gf_split_init(gf_error *err, const gf_split_spec *spec, gf_split *out) {
    *out = (gf_split){0};
    const glofnd_status status = open_split(err, spec, out);
    if (status != GLOFND_OK) gf_split_free(out);
    return status;
}

void gf_split_free(gf_split *s) {
    if (!s) return;
    gf_samples_free(&s->train);
    gf_samples_free(&s->test);
    gf_dataset_free(s->data);
    gf_dataset_free(s->test_data);
    *s = (gf_split){0};
}

/* ----- protocol ----- */

/* `paper` follows the text of the paper, `official` the authors' scripts; where the text gives no
 * value (decay of the learning rate, scaling of the features) `paper` follows the scripts, too. */

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* clang-format off */
static const gf_probe_protocol probes[] = {
    {.name = "paper", .text = "AdamW, lr 0.1, cosine", .adamw = 1, .lr = 0.1, .momentum = 0.9, .batch = 1024, .patience = 100},
    {.name = "official", .text = "SGD, momentum 0.9, lr 0.1 batch / 256, cosine", .lr = 0.1, .lr_by_batch = 1, .momentum = 0.9,
     .batch = 1024, .patience = 100},
};

static const gf_transfer_protocol transfers[] = {
    {.name = "paper", .text = "l2 in 1e-6 .. 1e5, features of length 1, standardised", .unit = 1, .standard = 1, .lowest = 1e-6,
     .highest = 1e5, .iterations = 500},
    {.name = "official", .text = "C = 1 / l2 in 1e-6 .. 1e5, features of length 1, standardised", .unit = 1, .standard = 1,
     .inverse = 1, .lowest = 1e-6, .highest = 1e5, .iterations = 500},
    {.name = "raw", .text = "l2 in 1e-6 .. 1e5, features as they are", .lowest = 1e-6, .highest = 1e5, .iterations = 500},
};
/* clang-format on */

const gf_probe_protocol *gf_probe_protocol_at(int i) { return i >= 0 && i < COUNT(probes) ? &probes[i] : NULL; }
const gf_transfer_protocol *gf_transfer_protocol_at(int i) { return i >= 0 && i < COUNT(transfers) ? &transfers[i] : NULL; }

const gf_probe_protocol *gf_probe_protocol_find(const char *name) {
    for (int i = 0; i < COUNT(probes); i++)
        if (strcmp(probes[i].name, name) == 0) return &probes[i];
    return NULL;
}

const gf_transfer_protocol *gf_transfer_protocol_find(const char *name) {
    for (int i = 0; i < COUNT(transfers); i++)
        if (strcmp(transfers[i].name, name) == 0) return &transfers[i];
    return NULL;
}

int64_t gf_probe_epochs(double share) {
    const double epochs = 90.0 / sqrt(share);
    return epochs > 900.0 ? 900 : (int64_t)(epochs + 0.5);
}

void gf_transfer_strengths(const gf_transfer_protocol *p, double *l2) {
    const int last = GF_TRANSFER_STRENGTHS - 1;
    for (int i = 0; i <= last; i++) {
        const double x = p->lowest * pow(p->highest / p->lowest, (double)i / last);
        l2[p->inverse ? i : last - i] = p->inverse ? 1.0 / x : x;
    }
}
