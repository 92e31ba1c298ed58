/* zeroshot.c - see zeroshot.h: prompts, classification by them, retrieval, associations, the tasks of DataComp. */
#include "eval/zeroshot.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "pairs/nearest.h"
#include "util/array.h"

/* ----- prompts of classes: names and templates, from untrusted files ----- */

void gf_prompts_free(gf_prompts *p) {
    gf_string_list_free(&p->classes);
    gf_string_list_free(&p->templates);
}

static int is_blank(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n') return 0;
    return 1;
}

/* Adds the lines of text [n], terminated by 0, without carriage returns. Blank lines are allowed at the end. */
static glofnd_status add_lines(gf_error *err, const char *path, const char *text, size_t n, gf_string_list *out) {
    const char *end = text + n;
    FAIL_IF(err, memchr(text, 0, n) != NULL, GLOFND_E_FORMAT, "%.300s is not a text file: it has a zero byte", path);
    for (int64_t line = 1; text < end && !is_blank(text, (size_t)(end - text)); line++) {
        const size_t length = strcspn(text, "\n"), used = length && text[length - 1] == '\r' ? length - 1 : length;
        FAIL_IF(err, is_blank(text, used), GLOFND_E_FORMAT, "%.300s, line %lld is empty", path, (long long)line);
        FAIL_IF(err, used >= GF_PROMPT_MAX, GLOFND_E_FORMAT, "%.300s, line %lld has more than %d bytes", path, (long long)line,
                GF_PROMPT_MAX - 1);
        TRY(gf_string_list_add(err, out, text, used));
        text += length + (text + length < end);
    }
    FAIL_IF(err, out->n == 0, GLOFND_E_FORMAT, "%.300s is empty; expected one entry per line", path);
    return GLOFND_OK;
}

static glofnd_status read_lines(gf_error *err, const char *path, gf_string_list *out) {
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    glofnd_status status = gf_file_read_text(err, path, (uint64_t)64 << 20, &bytes, &capacity, &size);
    const size_t mark = status == GLOFND_OK && size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* byte order mark */
    if (status == GLOFND_OK) status = add_lines(err, path, (const char *)bytes + mark, size - mark, out);
    free(bytes);
    return status;
}

static const char *const own_templates[] = {
    "a photo of a {}.", "a photo of the {}.", "a picture of a {}.",    "an image of a {}.",
    "a small {}.",      "a large {}.",        "a close view of a {}.",
};

/* Bytes of a gap for the class name that the text begins with, {} or {c} as clip_benchmark writes it; 0: none. */
static size_t gap_at(const char *text) { return strncmp(text, "{}", 2) == 0 ? 2 : strncmp(text, "{c}", 3) == 0 ? 3 : 0; }

static glofnd_status read_templates(gf_error *err, const char *path, gf_string_list *out) {
    if (path) TRY(read_lines(err, path, out));
    for (size_t i = 0; !path && i < sizeof own_templates / sizeof *own_templates; i++)
        TRY(gf_string_list_add(err, out, own_templates[i], strlen(own_templates[i])));
    for (int64_t i = 0; i < out->n; i++) {
        const char *template = gf_string_list_get(out, i), *at = template;
        while (*at && !gap_at(at)) at++;
        FAIL_IF(err, !*at, GLOFND_E_FORMAT, "%.300s, line %lld has no {} or {c} for the class name: \"%.60s\"", path,
                (long long)i + 1, template);
    }
    return GLOFND_OK;
}

glofnd_status gf_prompts_templates(gf_error *err, const char *path, gf_string_list *out) {
    *out = (gf_string_list){0};
    const glofnd_status status = read_templates(err, path, out);
    if (status != GLOFND_OK) gf_string_list_free(out);
    return status;
}

size_t gf_prompt_fill(const char *template, const char *name, char *out, size_t bytes) {
    const size_t name_length = strlen(name);
    size_t n = 0;
    while (*template) {
        const size_t gap = gap_at(template);
        const char *from = gap ? name : template;
        const size_t length = gap ? name_length : 1;
        for (size_t i = 0; i < length; i++, n++)
            if (n + 1 < bytes) out[n] = from[i];
        template += gap ? gap : 1;
    }
    if (bytes) out[n < bytes ? n : bytes - 1] = 0;
    return n;
}

/* A WordNet id, as ImageNet's folders are called; it says nothing to a text encoder. */
static int is_wordnet_id(const char *name, size_t n) {
    if (n != 9 || name[0] != 'n') return 0;
    for (size_t i = 1; i < 9; i++)
        if (name[i] < '0' || name[i] > '9') return 0;
    return 1;
}

static size_t first_word(const char *line) { return strcspn(line, " \t,"); }

/* The name that the lines give to an id, up to the first comma; NULL: none. */
static const char *name_of_id(const gf_string_list *lines, const char *id, size_t *n) {
    for (int64_t i = 0; i < lines->n; i++) {
        const char *line = gf_string_list_get(lines, i), *name = line + first_word(line);
        if (strncmp(line, id, first_word(line)) != 0 || strlen(id) != first_word(line)) continue;
        name += strspn(name, " \t,");
        *n = strcspn(name, ",");
        return *n ? name : NULL;
    }
    return NULL;
}

/* Labels without names give only a lower limit of the number of classes. */
static glofnd_status read_classes(gf_error *err, const gf_dataset *data, const char *path, gf_string_list *out) {
    const int32_t classes = gf_dataset_describe(data).classes;
    const int named = classes > 0 && gf_dataset_class(data, 0) != NULL;
    FAIL_IF(err, classes == 0, GLOFND_E_ARGUMENT, "this data has no labels to score images with");
    if (!path) {
        char name[GF_PROMPT_MAX];
        for (int32_t c = 0; c < classes; c++) {
            const char *given = gf_dataset_class_title(data, c);
            FAIL_IF(err, !given, GLOFND_E_ARGUMENT,
                    "class %d of this data has no name; give a file with one per line by --classes", (int)c);
            FAIL_IF(
                err, is_wordnet_id(given, strlen(given)), GLOFND_E_ARGUMENT,
                "class %d of this data is called %s, a WordNet id; give a file with lines \"%s NAME\", or a name per line, by "
                "--classes",
                (int)c, given, given);
            const size_t n = (size_t)snprintf(name, sizeof name, "%s", given);
            FAIL_IF(err, n >= sizeof name, GLOFND_E_FORMAT, "the name of class %d has more than %d bytes", (int)c,
                    GF_PROMPT_MAX - 1);
            for (char *at = name; *at; at++)
                if (*at == '_') *at = ' ';
            TRY(gf_string_list_add(err, out, name, n));
        }
        return GLOFND_OK;
    }
    TRY(read_lines(err, path, out));
    /* 1: every line is "n01440764 tench, Tinca tinca". */
    int64_t i = 0;
    while (i < out->n && is_wordnet_id(gf_string_list_get(out, i), first_word(gf_string_list_get(out, i)))) i++;
    if (out->n > 0 && i == out->n) {
        /* Lines with ids serve every dataset whose classes are called by them, in any order, as ImageNet and parts of it. */
        gf_string_list id_named = {0};
        glofnd_status status = GLOFND_OK;
        for (int32_t c = 0; c < classes && status == GLOFND_OK; c++) {
            const char *id = gf_dataset_class(data, c), *name;
            size_t n = 0;
            if (id && (name = name_of_id(out, id, &n))) status = gf_string_list_add(err, &id_named, name, n);
            else status = gf_fail(err, GLOFND_E_FORMAT, "%.300s has no line for class %d, \"%.60s\"", path, (int)c, id ? id : "");
        }
        gf_string_list_free(out);
        *out = id_named;
        return status;
    }
    FAIL_IF(err, out->n < classes || (named && out->n > classes), GLOFND_E_FORMAT,
            "%.300s has %lld class names, the data has %d classes; expected one name per line, in the order of the labels", path,
            (long long)out->n, (int)classes);
    return GLOFND_OK;
}

glofnd_status gf_prompts_classes(gf_error *err, const gf_dataset *data, const char *path, gf_string_list *out) {
    *out = (gf_string_list){0};
    const glofnd_status status = read_classes(err, data, path, out);
    if (status != GLOFND_OK) gf_string_list_free(out);
    return status;
}

/* ----- the classifier ----- */

enum { PART = 512 }; /* prompts encoded at a time, but at least those of one class */

glofnd_status gf_zeroshot_average(gf_error *err, const float *z, int64_t classes, int64_t templates, int64_t dim, float *out) {
    double *sum = malloc((size_t)dim * sizeof *sum);
    FAIL_IF(err, !sum, GLOFND_E_MEMORY, "no memory for an embedding of %lld numbers", (long long)dim);
    for (int64_t c = 0; c < classes; c++) {
        double square = 0.0;
        for (int64_t i = 0; i < dim; i++) sum[i] = 0.0;
        for (int64_t t = 0; t < templates; t++) {
            /* sum += x / |x|; zeros add nothing. */
            const float *x = z + (c * templates + t) * dim;
            double length = 0.0;
            for (int64_t i = 0; i < dim; i++) length += (double)x[i] * (double)x[i];
            const double scale = length > 0.0 ? 1.0 / sqrt(length) : 0.0;
            for (int64_t i = 0; i < dim; i++) sum[i] += scale * (double)x[i];
        }
        for (int64_t i = 0; i < dim; i++) square += sum[i] * sum[i];
        for (int64_t i = 0; i < dim; i++) out[c * dim + i] = square > 0.0 ? (float)(sum[i] / sqrt(square)) : 0.0f;
    }
    free(sum);
    return GLOFND_OK;
}

typedef struct prompt_encoding {
    gf_error *err;
    gf_run_encoder *e;
    const gf_prompts *p;
    gf_bpe_scratch scratch;
    int64_t part;   /* classes at a time */
    int32_t *token; /* [part][templates][context] */
    float *z;       /* [part][templates][dim] */
    float *out;     /* [classes][dim] */
} prompt_encoding;

static glofnd_status encode_classes(prompt_encoding *x) {
    const int64_t classes = x->p->classes.n, templates = x->p->templates.n, dim = gf_run_encoder_dim(x->e);
    const int context = gf_run_encoder_config(x->e)->context;
    const size_t prompts = (size_t)(x->part * templates);
    x->token = malloc(prompts * (size_t)context * sizeof *x->token);
    x->z = malloc(prompts * (size_t)dim * sizeof *x->z);
    x->out = malloc((size_t)(classes * dim) * sizeof *x->out);
    FAIL_IF(x->err, !x->token || !x->z || !x->out, GLOFND_E_MEMORY, "no memory for the prompts of %lld classes",
            (long long)classes);
    for (int64_t first = 0; first < classes; first += x->part) {
        const int64_t part = classes - first < x->part ? classes - first : x->part;
        for (int64_t i = 0; i < part * templates; i++) {
            const int64_t c = first + i / templates;
            char text[2 * GF_PROMPT_MAX];
            int count;
            const char *name = gf_string_list_get(&x->p->classes, c);
            const size_t n = gf_prompt_fill(gf_string_list_get(&x->p->templates, i % templates), name, text, sizeof text);
            FAIL_IF(x->err, n >= sizeof text, GLOFND_E_FORMAT, "a prompt of class %lld, '%.60s', has more than %zu bytes",
                    (long long)c, name, sizeof text - 1);
            TRY(gf_bpe_encode(x->err, gf_run_encoder_vocabulary(x->e), &x->scratch, text, n, context, x->token + i * context,
                              &count));
        }
        TRY(gf_run_encoder_tokens(x->err, x->e, x->token, part * templates, x->z));
        TRY(gf_zeroshot_average(x->err, x->z, part, templates, dim, x->out + first * dim));
    }
    return GLOFND_OK;
}

glofnd_status gf_zeroshot_classifier(gf_error *err, gf_run_encoder *text, const gf_prompts *p, float **out) {
    prompt_encoding x = {.err = err, .e = text, .p = p};
    *out = NULL;
    FAIL_IF(err, p->classes.n < 1 || p->templates.n < 1, GLOFND_E_ARGUMENT, "no class or no template");
    x.part = p->templates.n < PART ? PART / p->templates.n : 1;
    if (x.part > p->classes.n) x.part = p->classes.n;
    const glofnd_status status = encode_classes(&x);
    gf_bpe_scratch_free(&x.scratch);
    free(x.token);
    free(x.z);
    if (status == GLOFND_OK) *out = x.out;
    else free(x.out);
    return status;
}

/* ----- scores ----- */

/* Place of the label among the k best; k: not there. */
static int place_of(const int64_t *best, int k, int32_t label) {
    int place = 0;
    while (place < k && best[place] != label) place++;
    return place;
}

/* best [n][k]; right, all, chosen: zeroed scratch [classes]. */
static void score_classes(const gf_features *images, const int64_t *best, int k, int64_t *right, int64_t *all, int64_t *chosen,
                          gf_zeroshot *out) {
    for (int64_t i = 0; i < images->n; i++) {
        const int32_t label = images->label[i];
        if (label < 0) continue;
        const int place = place_of(best + i * k, k, label);
        all[label]++, right[label] += place == 0;
        if (best[i * k] >= 0) chosen[best[i * k]]++;
        out->n++;
        out->top1 += place == 0;
        out->top5 += place < k;
    }
    for (int64_t c = 0; c < out->classes; c++) {
        out->seen += all[c] > 0;
        if (all[c]) out->per_class += (double)right[c] / (double)all[c];
        if (all[c]) out->macro_f1 += 2.0 * (double)right[c] / (double)(all[c] + chosen[c]);
    }
    out->top1 /= (double)out->n;
    out->top5 /= (double)out->n;
    out->per_class /= (double)out->seen;
    out->macro_f1 /= (double)out->seen;
}

typedef struct group_count {
    int64_t n, top1, top5;
} group_count;

static glofnd_status score_by_groups(gf_error *err, const gf_features *images, const int64_t *best, int k,
                                     const gf_zeroshot_groups *groups, gf_zeroshot *out) {
    int32_t max = -1;
    out->worst_group = out->worst_group5 = NAN;
    for (int64_t i = 0; groups && i < images->n; i++) max = groups->group[i] > max ? groups->group[i] : max;
    group_count *count = calloc((size_t)max + 2, sizeof *count);
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for %d groups", (int)max + 1);
    for (int64_t i = 0; groups && i < images->n; i++) {
        const int32_t g = groups->group[i];
        if (g < 0 || g == groups->left_out || images->label[i] < 0) continue;
        const int place = place_of(best + i * k, k, images->label[i]);
        count[g].n++;
        count[g].top1 += place == 0;
        count[g].top5 += place < k;
    }
    for (int32_t g = 0; g <= max; g++) {
        if (count[g].n == 0) continue;
        out->groups++;
        out->worst_group = fmin(out->worst_group, (double)count[g].top1 / (double)count[g].n); /* fmin skips NaN */
        out->worst_group5 = fmin(out->worst_group5, (double)count[g].top5 / (double)count[g].n);
    }
    free(count);
    return GLOFND_OK;
}

glofnd_status gf_zeroshot_score(gf_error *err, const gf_features *images, const gf_zeroshot_groups *groups,
                                const float *classifier, int64_t classes, const gf_sweep_job *job, gf_zeroshot *out) {
    enum { K = 5 };
    const gf_vectors rows = {.x = images->x, .n = images->n, .dim = images->dim, .name = "embedding of image"},
                     cols = {.x = classifier, .n = classes, .dim = images->dim, .name = "embedding of class"};
    const gf_sweep_job stage = gf_sweep_stage(job, "classes");
    *out = (gf_zeroshot){.classes = classes};
    int64_t labelled = 0;
    for (int64_t i = 0; i < images->n; i++) {
        labelled += images->label[i] >= 0;
        FAIL_IF(err, images->label[i] >= classes, GLOFND_E_ARGUMENT, "an image has label %d; there are names for %lld classes",
                (int)images->label[i], (long long)classes);
    }
    FAIL_IF(err, labelled == 0, GLOFND_E_ARGUMENT, "no image has a label");
    int64_t *best = malloc((size_t)images->n * K * sizeof *best), *counts = calloc(3 * (size_t)classes, sizeof *counts);
    glofnd_status status = best && counts ? gf_nearest(err, &rows, &cols, K, &stage, best)
                                          : gf_fail(err, GLOFND_E_MEMORY, "no memory to classify images");
    if (status == GLOFND_OK) score_classes(images, best, K, counts, counts + classes, counts + 2 * classes, out);
    if (status == GLOFND_OK) status = score_by_groups(err, images, best, K, groups, out);
    free(best);
    free(counts);
    return status;
}

/* ----- retrieval ----- */

const int gf_recall_at[GF_RECALLS] = {1, 5, 10};

enum { K_MAX = 10 }; /* the largest of gf_recall_at */

static void finish_recalls(gf_recalls *r, int64_t queries) {
    r->mean = 0.0;
    for (int k = 0; k < GF_RECALLS; k++) {
        r->at[k] /= (double)queries;
        r->mean += r->at[k] / GF_RECALLS;
    }
}

/* Recalls of captions for their image, or of images for any of their captions; an image without a caption is no query. */
static glofnd_status rank_queries(gf_error *err, const gf_retrieval_input *in, int by_text, int64_t queries, int64_t *best,
                                  gf_recalls *out) {
    const gf_vectors images = {.x = in->image, .n = in->images, .dim = in->dim, .name = "embedding of image"},
                     texts = {.x = in->text, .n = in->texts, .dim = in->dim, .name = "embedding of caption"};
    const gf_sweep_job job = gf_sweep_stage(&in->job, by_text ? "images of captions" : "captions of images");
    TRY(gf_nearest(err, by_text ? &texts : &images, by_text ? &images : &texts, K_MAX, &job, best));
    for (int64_t i = 0; i < (by_text ? in->texts : in->images); i++, best += K_MAX) {
        int place = 0; /* of the first match; K_MAX: none */
        if (by_text)
            while (place < K_MAX && best[place] != in->owner[i]) place++;
        else
            while (place < K_MAX && !(best[place] >= 0 && in->owner[best[place]] == i)) place++;
        for (int k = 0; k < GF_RECALLS; k++) out->at[k] += place < gf_recall_at[k];
    }
    finish_recalls(out, queries);
    return GLOFND_OK;
}

/* Probability that at least one of `own` is among the first k of n in random order. */
static double chance(int64_t n, int64_t own, int k) {
    double none = 1.0;
    for (int i = 0; i < k && i < n; i++) none *= n - i > own ? (double)(n - i - own) / (double)(n - i) : 0.0;
    return 1.0 - none;
}

glofnd_status gf_retrieval_measure(gf_error *err, const gf_retrieval_input *in, gf_retrieval *out) {
    *out = (gf_retrieval){.images = in->images, .texts = in->texts};
    FAIL_IF(err, in->images < 1 || in->texts < 1, GLOFND_E_ARGUMENT,
            "%lld images and %lld captions; expected at least one of each", (long long)in->images, (long long)in->texts);
    for (int64_t i = 0; i < in->texts; i++)
        FAIL_IF(err, in->owner[i] < 0 || in->owner[i] >= in->images, GLOFND_E_ARGUMENT,
                "caption %lld belongs to image %lld; there are %lld images", (long long)i, (long long)in->owner[i],
                (long long)in->images);
    const int64_t rows = GF_MAX(in->images, in->texts);
    int64_t *best = malloc((size_t)rows * K_MAX * sizeof *best), *captions = calloc((size_t)in->images, sizeof *captions);
    glofnd_status status =
        best && captions ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory to rank %lld queries", (long long)rows);
    for (int64_t i = 0; status == GLOFND_OK && i < in->texts; i++) out->queries += captions[in->owner[i]]++ == 0;
    if (status == GLOFND_OK) status = rank_queries(err, in, 1, in->texts, best, &out->ir);
    if (status == GLOFND_OK) status = rank_queries(err, in, 0, out->queries, best, &out->tr);
    if (status == GLOFND_OK) {
        for (int k = 0; k < GF_RECALLS; k++) {
            out->ir_chance.at[k] = chance(in->images, 1, gf_recall_at[k]);
            for (int64_t i = 0; i < in->images; i++) out->tr_chance.at[k] += chance(in->texts, captions[i], gf_recall_at[k]);
        }
        finish_recalls(&out->ir_chance, 1);
        finish_recalls(&out->tr_chance, out->queries);
    }
    out->mean = 0.5 * (out->ir.mean + out->tr.mean);
    free(best);
    free(captions);
    return status;
}

/* ----- associations ----- */

void gf_associations_score(const gf_winogavil *w, const float *image, const float *cue, int64_t dim, gf_associations *out) {
    double score[256];
    *out = (gf_associations){.instances = w->cue.n, .images = w->image.n, .unreadable = out->unreadable};
    for (int64_t k = 0; k < w->cue.n; k++) {
        const int64_t first = w->first[k], n = w->first[k + 1] - first < 256 ? w->first[k + 1] - first : 256;
        for (int64_t i = 0; i < n; i++) {
            const float *a = image + (int64_t)w->candidate[first + i] * dim;
            const float *b = cue + k * dim;
            double sum = 0.0;
            for (int64_t j = 0; j < dim; j++) sum += (double)a[j] * (double)b[j];
            score[i] = sum;
        }
        /* Jaccard index of the associated candidates and as many of the most similar. */
        const uint8_t *associated = w->associated + first;
        int64_t count = 0, both = 0;
        for (int64_t i = 0; i < n; i++) count += associated[i];
        for (int64_t i = 0; i < n; i++) {
            int64_t rank = 0; /* candidates that come before it */
            for (int64_t j = 0; j < n; j++) rank += score[j] > score[i] || (score[j] == score[i] && j < i);
            both += associated[i] && rank < count;
        }
        const double x = (double)both / (double)(2 * count - both);
        out->all += x;
        if (n <= 6) out->few += x, out->few_n++;
        if (n >= 10) out->many += x, out->many_n++;
    }
    out->all /= (double)out->instances;
    out->few = out->few_n ? out->few / (double)out->few_n : NAN;
    out->many = out->many_n ? out->many / (double)out->many_n : NAN;
}

void gf_association_prompt(const char *cue, char *out, size_t bytes) {
    const int n = snprintf(out, bytes, "%s %s", strchr("aeiou", tolower((unsigned char)cue[0])) && cue[0] ? "An" : "A", cue);
    for (size_t i = 1; n > 0 && i < bytes && out[i]; i++) out[i] = (char)tolower((unsigned char)out[i]);
}

glofnd_status gf_associations_run(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const char *spec,
                                  const gf_encode_spec *report, gf_associations *out) {
    gf_dataset *data = NULL;
    gf_winogavil w = {0};
    gf_features f = {0};
    gf_prompts p = {0}; /* one for each cue */
    char prompt[1024];
    float *cues = NULL;
    int32_t *readable = NULL;
    *out = (gf_associations){0};
    glofnd_status status = gf_dataset_open(err, spec, &data);
    if (status == GLOFND_OK) status = gf_winogavil_read(err, gf_dataset_root(data), &w);
    const int64_t n = data ? gf_dataset_describe(data).n : 0;
    if (status == GLOFND_OK && n != w.image.n) status = gf_fail(err, GLOFND_E_FORMAT, "the table of WinoGAViL has changed");
    if (status == GLOFND_OK && !(readable = calloc((size_t)n + 1, sizeof *readable)))
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld images", (long long)n);
    /* Unreadable images are rows of zeros without label. */
    const gf_encode_spec aligned = {
        .labels = readable, .aligned = 1, .unreadable = report->unreadable, .progress = report->progress, .user = report->user};
    if (status == GLOFND_OK) status = gf_encode_samples(err, image, data, &aligned, &f);
    for (int64_t i = 0; i < f.n; i++) out->unreadable += f.label[i] < 0;
    gf_features_unit(&f);
    if (status == GLOFND_OK) status = gf_string_list_add(err, &p.templates, "{}", 2);
    for (int64_t i = 0; i < w.cue.n && status == GLOFND_OK; i++) {
        gf_association_prompt(gf_string_list_get(&w.cue, i), prompt, sizeof prompt);
        status = gf_string_list_add(err, &p.classes, prompt, strlen(prompt));
    }
    if (status == GLOFND_OK) status = gf_zeroshot_classifier(err, text, &p, &cues);
    if (status == GLOFND_OK) gf_associations_score(&w, f.x, cues, gf_run_encoder_dim(image), out);
    gf_prompts_free(&p);
    gf_features_free(&f);
    free(cues);
    free(readable);
    gf_winogavil_free(&w);
    gf_dataset_free(data);
    return status;
}

/* ----- DataComp: folders are those that its download makes, wds_KEY_test, with - for / in the key ----- */

#define TOP1(key, title, name, size) \
    { key, title, name, GF_SCORE_TOP1, size, -1, NULL }
#define MEAN(key, title, name, size) \
    { key, title, name, GF_SCORE_MEAN, size, -1, NULL }

static const gf_datacomp_task tasks[] = {
    TOP1("imagenet1k", "ImageNet 1k", "imagenet1k", 50000),
    TOP1("imagenet_sketch", "ImageNet Sketch", "imagenet_sketch", 50889),
    TOP1("imagenetv2", "ImageNet v2", "imagenetv2", 10000),
    TOP1("imagenet-a", "ImageNet-A", "imagenet-a", 7500),
    TOP1("imagenet-o", "ImageNet-O", "imagenet-o", 2000),
    TOP1("imagenet-r", "ImageNet-R", "imagenet-r", 30000),
    TOP1("objectnet", "ObjectNet", "objectnet", 18574),
    MEAN("vtab/caltech101", "Caltech-101", "caltech101", 6085),
    TOP1("cifar10", "CIFAR-10", "cifar10", 10000),
    TOP1("vtab/cifar100", "CIFAR-100", "cifar100", 10000),
    TOP1("vtab/clevr_count_all", "CLEVR Counts", "clevr_count_all", 15000),
    TOP1("vtab/clevr_closest_object_distance", "CLEVR Distance", "clevr_distance", 15000),
    TOP1("country211", "Country211", "country211", 21100),
    TOP1("vtab/dtd", "Describable Textures", "dtd", 1880),
    TOP1("vtab/eurosat", "EuroSAT", "eurosat", 5400),
    MEAN("fgvc_aircraft", "FGVC Aircraft", "aircraft", 3333),
    TOP1("food101", "Food-101", "food101", 25250),
    TOP1("gtsrb", "GTSRB", "gtsrb", 12630),
    TOP1("vtab/kitti_closest_vehicle_distance", "KITTI Vehicle Distance", "kitti", 711),
    TOP1("mnist", "MNIST", "mnist", 10000),
    MEAN("vtab/flowers", "Oxford Flowers-102", "flowers", 6149),
    MEAN("vtab/pets", "Oxford-IIIT Pet", "pets", 3669),
    TOP1("voc2007", "Pascal VOC 2007", "voc2007", 14976),
    TOP1("vtab/pcam", "PatchCamelyon", "pcam", 32768),
    TOP1("renderedsst2", "Rendered SST2", "renderedsst2", 1821),
    TOP1("vtab/resisc45", "RESISC45", "resisc45", 6300),
    TOP1("cars", "Stanford Cars", "cars", 8041),
    TOP1("stl10", "STL-10", "stl10", 8000),
    TOP1("sun397", "SUN397", "sun397", 108754),
    TOP1("vtab/svhn", "SVHN", "svhn", 26032),
    {"retrieval/flickr_1k_test_image_text_retrieval", "Flickr", "flickr30k", GF_SCORE_RECALL, 0, -1, "retrieval/flickr30k"},
    {"retrieval/mscoco_2014_5k_test_image_text_retrieval", "MSCOCO", "coco", GF_SCORE_RECALL, 5000, -1, NULL},
    {"misc/winogavil", "WinoGAViL", "winogavil", GF_SCORE_JACCARD, 0, -1, NULL},
    {"wilds/iwildcam", "iWildCam", "iwildcam", GF_SCORE_MACRO_F1, 42791, -1, NULL},
    TOP1("wilds/camelyon17", "Camelyon17", "camelyon17", 85054),
    {"wilds/fmow", "FMoW", "fmow", GF_SCORE_WORST_GROUP, 22108, 5, NULL}, /* 5: images of no region */
    {"dollar_street", "Dollar Street", "dollar_street", GF_SCORE_WORST_GROUP5, 3503, -1, NULL},
    {"geode", "GeoDE", "geode", GF_SCORE_WORST_GROUP, 12488, -1, NULL},
};
_Static_assert(sizeof tasks / sizeof *tasks == GF_DATACOMP_TASKS, "tasks of the benchmark");

const gf_datacomp_task *gf_datacomp_at(int i) { return i >= 0 && i < GF_DATACOMP_TASKS ? &tasks[i] : NULL; }

const gf_datacomp_task *gf_datacomp_find(const char *name) {
    for (int i = 0; i < GF_DATACOMP_TASKS; i++)
        if (strcmp(tasks[i].name, name) == 0) return &tasks[i];
    return NULL;
}

static int try_folder(const char *key, const char *root, char *out, size_t bytes) {
    const int n = snprintf(out, bytes, "%s/wds_%s_test", root, key);
    if (n < 0 || (size_t)n >= bytes) return 0;
    for (char *p = out + strlen(root) + 1; *p; p++) *p = *p == '/' ? '-' : *p;
    return gf_is_folder(out);
}

int gf_datacomp_folder(const gf_datacomp_task *t, const char *root, char *out, size_t bytes) {
    if (try_folder(t->key, root, out, bytes) || (t->other && try_folder(t->other, root, out, bytes))) return 1;
    if (t->scoring == GF_SCORE_JACCARD) { /* it is no set of shards */
        if ((size_t)snprintf(out, bytes, "%s/winogavil", root) < bytes && gf_is_folder(out)) return 1;
        snprintf(out, bytes, "winogavil");
        return 0;
    }
    snprintf(out, bytes, "wds_%s_test", t->key);
    for (char *p = out; *p; p++) *p = *p == '/' ? '-' : *p;
    return 0;
}
