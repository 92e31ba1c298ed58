/* eval_zeroshot.c - see eval_zeroshot.h. */
#include "programs/eval/eval_zeroshot.h"

#include <stdlib.h>
#include <string.h>

#include "programs/trained_run.h"
#include "data/captions.h"
#include "io/crc32c.h"

/* Sentences: those of a file, of the data, or our own. */
static glofnd_status read_prompts(gf_error *err, zeroshot_set *s, const gf_dataset *data, gf_prompts *out) {
    if (!s->templates && gf_dataset_templates(data, s->own_templates, sizeof s->own_templates)) s->templates = s->own_templates;
    TRY(gf_prompts_templates(err, s->templates, &out->templates));
    return gf_prompts_classes(err, data, s->classes, &out->classes);
}

glofnd_status zeroshot_check(gf_error *err, zeroshot_set *s) {
    gf_error why = {{0}};
    gf_dataset *data = NULL;
    gf_prompts prompts = {0};
    glofnd_status status = gf_dataset_open(&why, s->samples.data, &data);
    if (status == GLOFND_OK && !s->retrieval && s->scoring != GF_SCORE_JACCARD) status = read_prompts(&why, s, data, &prompts);
    if (status == GLOFND_OK && s->retrieval) status = gf_captions_require(&why, data);
    gf_prompts_free(&prompts);
    gf_dataset_free(data);
    return status == GLOFND_OK ? status : gf_fail(err, status, "%s: %s", s->data.name, why.text);
}

/* Checksum of strings in their order. */
static uint32_t sum_of(const gf_string_list *s) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum = gf_crc32c(sum, gf_string_list_get(s, i), strlen(gf_string_list_get(s, i)) + 1);
    return sum;
}

/* Embeddings with the positions of their images for labels: those that cannot be read are left out. */
static glofnd_status encode(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const char *name, gf_features *out) {
    const int64_t n = gf_dataset_describe(data).n;
    int64_t *id = malloc((size_t)n * sizeof *id);
    int32_t *position = malloc((size_t)n * sizeof *position);
    eval_progress line;
    const gf_encode_spec spec = {
        .ids = id, .id_count = n, .labels = position, .unreadable = eval_warn, .progress = eval_progress_draw, .user = &line};
    glofnd_status status = id && position ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld images", (long long)n);
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) id[i] = i, position[i] = (int32_t)i;
    eval_progress_begin(&line, name);
    if (status == GLOFND_OK) status = gf_encode_samples(err, e, data, &spec, out);
    eval_progress_end(&line);
    free(id);
    free(position);
    return status;
}

/* Gives the rows their labels; group [rows]. */
static void label_rows(const gf_dataset *data, gf_features *f, int32_t *group) {
    for (int64_t i = 0; i < f->n; i++) {
        group[i] = gf_dataset_group(data, f->label[i]);
        f->label[i] = gf_dataset_label(data, f->label[i]);
    }
}

static glofnd_status score_rows(gf_error *err, const zeroshot_job *j, zeroshot_set *s, const gf_dataset *data,
                                gf_features *images, const float *classes, int64_t count) {
    const gf_sweep_job job = {.threads = gf_run_encoder_threads(j->encoders.image)};
    int32_t *group = malloc((size_t)images->n * sizeof *group);
    FAIL_IF(err, !group, GLOFND_E_MEMORY, "no memory for %lld images", (long long)images->n);
    label_rows(data, images, group);
    const gf_zeroshot_groups groups = {.group = group, .left_out = s->task ? s->task->left_out : -1};
    const glofnd_status status = gf_zeroshot_score_groups(err, images, &groups, classes, count, &job, &s->found);
    free(group);
    const int by_group = s->scoring == GF_SCORE_WORST_GROUP || s->scoring == GF_SCORE_WORST_GROUP5;
    FAIL_IF(err, status == GLOFND_OK && by_group && s->found.groups == 0, GLOFND_E_ARGUMENT,
            "%s is scored by its worst group, and its samples have no .npy that says their group; --metric top1 scores all",
            s->data.name);
    return status;
}

static glofnd_status classify(gf_error *err, const zeroshot_job *j, zeroshot_set *s, const gf_dataset *data,
                              const gf_prompts *prompts) {
    float *classes = NULL;
    gf_features images = {0};
    glofnd_status status = gf_zeroshot_classifier(err, j->encoders.text, prompts, &classes);
    if (status == GLOFND_OK) status = encode(err, j->encoders.image, data, s->data.name, &images);
    if (status == GLOFND_OK) status = score_rows(err, j, s, data, &images, classes, prompts->classes.n);
    gf_features_free(&images);
    free(classes);
    return status;
}

static glofnd_status associate(gf_error *err, const zeroshot_job *j, zeroshot_set *s) {
    eval_progress line;
    const gf_encode_spec report = {.unreadable = eval_warn, .progress = eval_progress_draw, .user = &line};
    eval_progress_begin(&line, s->data.name);
    const glofnd_status status =
        gf_associations_run(err, j->encoders.image, j->encoders.text, s->data.spec, &report, &s->associated);
    eval_progress_end(&line);
    return status;
}

glofnd_status zeroshot_run(gf_error *err, const zeroshot_job *j, zeroshot_set *s) {
    gf_dataset *data = NULL;
    gf_prompts prompts = {0};
    if (s->scoring == GF_SCORE_JACCARD) return associate(err, j, s);
    if (s->retrieval) return eval_retrieve(err, &j->encoders, s->samples.data, &s->retrieved);
    glofnd_status status = gf_dataset_open(err, s->samples.data, &data);
    eval_note(data);
    if (status == GLOFND_OK) status = read_prompts(err, s, data, &prompts);
    s->classes_sum = sum_of(&prompts.classes), s->templates_sum = sum_of(&prompts.templates);
    if (status == GLOFND_OK) status = classify(err, j, s, data, &prompts);
    gf_prompts_free(&prompts);
    gf_dataset_free(data);
    return status;
}
