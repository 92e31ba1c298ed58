/* cmd_eval_clip.c - glofnd eval zeroshot and eval retrieval: what the encoders of an image-text run know without training. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "data/captions.h"
#include "embeddings/embedding_set.h"
#include "eval/encode.h"
#include "eval/split.h"
#include "io/blockfile.h"
#include "io/npy.h"
#include "plot/terminal.h"
#include "programs/eval/eval.h"
#include "programs/trained_run.h"

/* ----- both encoders of a run ----- */

typedef struct encoders { /* all zero: none */
    gf_run_encoder *image, *text;
} encoders;

/* `spec`: of the images. After a failure, too, to be freed. E_ARGUMENT: a run without encoder of captions. */
static glofnd_status encoders_open(gf_error *err, const gf_run_encoder_spec *spec, encoders *out) {
    gf_run_encoder_spec text = *spec;
    text.text = 1;
    *out = (encoders){0};
    TRY(gf_run_encoder_create(err, &text, &out->text));
    return device_flags_open(err, "eval", spec, &out->image);
}

static void encoders_free(encoders *both) {
    gf_run_encoder_free(both->image);
    gf_run_encoder_free(both->text);
    *both = (encoders){0};
}

/* ----- ranking images and captions ----- */

typedef struct retrieved {
    gf_retrieval found;
    int64_t dim, repeated, lost; /* as gf_text_pairs */
} retrieved;

/* Ranks what is there, on in->job.threads threads (0: all). */
static glofnd_status rank_pairs(gf_error *err, gf_retrieval_input *in, gf_retrieval *out) {
    eval_progress line;
    in->job.watch = (gf_job_progress){.progress = eval_progress_pairs, .user = &line};
    eval_progress_begin(&line, "");
    const glofnd_status status = gf_retrieval_measure(err, in, out);
    eval_progress_end(&line);
    return status;
}

/* Another stage on the line of the images, with a time of its own. */
static void draw_captions(void *user, int64_t done, int64_t total) {
    static const char what[] = "samples with captions";
    eval_progress *line = user;
    if (line->what != what) eval_progress_begin(line, what);
    eval_progress_draw(line, done, total);
}

/* Encodes images and captions, with a line about it, and ranks. */
static glofnd_status rank_dataset(gf_error *err, const encoders *both, const char *spec, retrieved *out) {
    gf_dataset *data = NULL;
    gf_text_pairs pairs = {0};
    eval_progress line;
    const gf_encode_spec watch[2] = {
        {.unreadable = eval_warn, .progress = eval_progress_draw, .user = &line},
        {.unreadable = eval_warn_caption, .progress = draw_captions, .user = &line},
    };
    glofnd_status status = gf_dataset_open(err, spec, &data);
    eval_note(data);
    eval_progress_begin(&line, "images");
    if (status == GLOFND_OK) status = gf_encode_pairs(err, both->image, both->text, data, watch, &pairs);
    eval_progress_end(&line);
    if (status == GLOFND_OK) {
        gf_retrieval_input in = {.image = pairs.image.x,
                                 .text = pairs.text.x,
                                 .images = pairs.image.n,
                                 .texts = pairs.text.n,
                                 .dim = pairs.image.dim,
                                 .owner = pairs.owner,
                                 .job.threads = gf_run_encoder_threads(both->image)};
        out->dim = pairs.image.dim, out->repeated = pairs.repeated, out->lost = pairs.lost;
        status = rank_pairs(err, &in, &out->found);
    }
    gf_text_pairs_free(&pairs);
    gf_dataset_free(data);
    return status;
}

static void put_recalls(gf_eval_writer *log, const char *side, const gf_recalls *r) {
    char key[32];
    for (int k = 0; k < GF_RECALLS; k++) {
        snprintf(key, sizeof key, "%s%d", side, gf_recall_at[k]);
        gf_eval_put_number(log, key, r->at[k]);
    }
    snprintf(key, sizeof key, "%s_mean", side);
    gf_eval_put_number(log, key, r->mean);
}

/* `name`: of the dataset, short. */
static glofnd_status record_retrieval(gf_error *err, const eval_samples *s, const char *name, const gf_retrieval *r) {
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, s->run));
    eval_log_begin(&log, "retrieval", "retrieval", s);
    gf_eval_put_text(&log, "dataset", name);
    gf_eval_put_integer(&log, "images", r->images);
    gf_eval_put_integer(&log, "captions", r->texts);
    put_recalls(&log, "ir", &r->ir);
    put_recalls(&log, "tr", &r->tr);
    gf_eval_put_number(&log, "mean", r->mean);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

/* ---------- eval zeroshot: images classified by sentences about the classes, on one dataset or many ---------- */

typedef struct zeroshot_set { /* a row of the table */
    eval_dataset data;
    int retrieval; /* by captions, not by classes */
    gf_scoring scoring;
    const gf_datacomp_task *task;    /* of the benchmark that has this name; NULL: none */
    int of_benchmark;                /* found in the folder of the benchmark */
    const char *classes, *templates; /* files; NULL: the data's names, our own sentences */
    char own_templates[PATH_MAX];    /* the file that came with the data */
    eval_samples samples;
    uint32_t classes_sum, templates_sum; /* found: checksums of the names and sentences */
    gf_zeroshot found;
    retrieved retrieved;
    gf_associations associated;
} zeroshot_set;

typedef struct zeroshot_job {
    const char *run;
    gf_encoder_device where;
    int untrained, metric; /* metric: 0 the dataset's own, 1 top-1, 2 mean per class */
    gf_option_strings data, retrieval, classes, templates;
    const char *datacomp; /* the folder with the benchmark's evaluation sets; NULL: none */
    zeroshot_set *set;    /* [sets] */
    int sets;
    encoders encoders;
} zeroshot_job;

/* ----- one dataset ----- */

/* Sentences: those of a file, of the data, or our own. */
static glofnd_status read_prompts(gf_error *err, zeroshot_set *s, const gf_dataset *data, gf_prompts *out) {
    if (!s->templates && gf_dataset_templates(data, s->own_templates, sizeof s->own_templates)) s->templates = s->own_templates;
    TRY(gf_prompts_templates(err, s->templates, &out->templates));
    return gf_prompts_classes(err, data, s->classes, &out->classes);
}

/* Checksum of strings in their order. */
static uint32_t sum_of(const gf_string_list *s) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum = gf_crc32c(sum, gf_string_list_get(s, i), strlen(gf_string_list_get(s, i)) + 1);
    return sum;
}

/* Embeddings with the positions of their images for labels: those that cannot be read are left out. */
static glofnd_status encode_images(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const char *name, gf_features *out) {
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

/* Gives the images their labels and groups, and compares them with the sentences of the classes. */
static glofnd_status score_images(gf_error *err, const zeroshot_job *j, zeroshot_set *s, const gf_dataset *data,
                                  gf_features *images, const float *classes, int64_t count) {
    const gf_sweep_job job = {.threads = gf_run_encoder_threads(j->encoders.image)};
    int32_t *group = malloc((size_t)images->n * sizeof *group);
    FAIL_IF(err, !group, GLOFND_E_MEMORY, "no memory for %lld images", (long long)images->n);
    for (int64_t i = 0; i < images->n; i++) {
        group[i] = gf_dataset_group(data, images->label[i]);
        images->label[i] = gf_dataset_label(data, images->label[i]);
    }
    const gf_zeroshot_groups groups = {.group = group, .left_out = s->task ? s->task->left_out : -1};
    const glofnd_status status = gf_zeroshot_score(err, images, &groups, classes, count, &job, &s->found);
    free(group);
    const int by_group = s->scoring == GF_SCORE_WORST_GROUP || s->scoring == GF_SCORE_WORST_GROUP5;
    FAIL_IF(err, status == GLOFND_OK && by_group && s->found.groups == 0, GLOFND_E_ARGUMENT,
            "%s is scored by its worst group, and its samples have no .npy that says their group; --metric top1 scores all",
            s->data.name);
    return status;
}

/* Fills found, retrieved or associated, by the score of the set. */
static glofnd_status run_set(gf_error *err, const zeroshot_job *j, zeroshot_set *s) {
    gf_dataset *data = NULL;
    gf_prompts prompts = {0};
    float *classes = NULL;
    gf_features images = {0};
    if (s->scoring == GF_SCORE_JACCARD) {
        eval_progress line;
        const gf_encode_spec report = {.unreadable = eval_warn, .progress = eval_progress_draw, .user = &line};
        eval_progress_begin(&line, s->data.name);
        const glofnd_status status =
            gf_associations_run(err, j->encoders.image, j->encoders.text, s->data.spec, &report, &s->associated);
        eval_progress_end(&line);
        return status;
    }
    if (s->retrieval) return rank_dataset(err, &j->encoders, s->samples.data, &s->retrieved);
    glofnd_status status = gf_dataset_open(err, s->samples.data, &data);
    eval_note(data);
    if (status == GLOFND_OK) status = read_prompts(err, s, data, &prompts);
    s->classes_sum = sum_of(&prompts.classes), s->templates_sum = sum_of(&prompts.templates);
    if (status == GLOFND_OK) status = gf_zeroshot_classifier(err, j->encoders.text, &prompts, &classes);
    if (status == GLOFND_OK) status = encode_images(err, j->encoders.image, data, s->data.name, &images);
    if (status == GLOFND_OK) status = score_images(err, j, s, data, &images, classes, prompts.classes.n);
    gf_features_free(&images);
    free(classes);
    gf_prompts_free(&prompts);
    gf_dataset_free(data);
    return status;
}

/* The benchmark counts a retrieval dataset by the mean of its two recalls at 1. */
static double score_of(const zeroshot_set *s) {
    switch (s->scoring) {
    case GF_SCORE_RECALL: return 0.5 * (s->retrieved.found.ir.at[0] + s->retrieved.found.tr.at[0]);
    case GF_SCORE_MEAN: return s->found.per_class;
    case GF_SCORE_JACCARD: return s->associated.many_n ? s->associated.many : s->associated.all;
    case GF_SCORE_MACRO_F1: return s->found.macro_f1;
    case GF_SCORE_WORST_GROUP: return s->found.worst_group;
    case GF_SCORE_WORST_GROUP5: return s->found.worst_group5;
    default: return s->found.top1;
    }
}

static const char *metric_of(const zeroshot_set *s) { return gf_scoring_key(s->scoring); }

/* ----- arguments ----- */

/* FILE if `word` is "NAME=FILE" with this name; NULL: it is not. */
static const char *file_for(const char *word, const char *name) {
    const size_t n = strlen(name);
    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static int names_a_set(const zeroshot_job *j, const char *word) {
    for (int i = 0; i < j->sets; i++)
        if (file_for(word, j->set[i].data.name)) return 1;
    return 0;
}

/* The last that names the set, else the last that names none; NULL: no file. */
static const char *choose_file(const zeroshot_job *j, const gf_option_strings *w, const char *name) {
    const char *all = NULL, *own = NULL;
    for (int i = 0; i < w->count; i++) {
        const char *file = file_for(w->at[i], name);
        if (file) own = file;
        else if (!names_a_set(j, w->at[i])) all = w->at[i];
    }
    return own ? own : all;
}

static glofnd_status read_set(gf_error *err, const zeroshot_job *j, zeroshot_set *s, const char *text, int retrieval) {
    TRY(eval_dataset_read_test(err, text, &s->data));
    const gf_known_dataset *known = s->data.known;
    s->task = gf_datacomp_find(s->data.name);
    s->retrieval = retrieval;
    s->scoring = retrieval                 ? GF_SCORE_RECALL
                 : j->metric               ? (j->metric == 2 ? GF_SCORE_MEAN : GF_SCORE_TOP1)
                 : s->task                 ? s->task->scoring
                 : known && known->classes ? known->scoring
                                           : GF_SCORE_TOP1;
    if (strncmp(s->data.spec, "winogavil:", 10) == 0) s->scoring = GF_SCORE_JACCARD;
    else if (!retrieval && (s->scoring == GF_SCORE_RECALL || s->scoring == GF_SCORE_JACCARD)) s->scoring = GF_SCORE_TOP1;
    s->samples = (eval_samples){.run = j->run, .data = s->data.spec, .untrained = j->untrained};
    memcpy(s->samples.test_name, s->data.spec, sizeof s->samples.test_name);
    return GLOFND_OK;
}

/* E_OPTION: "NAME=FILE" for a dataset that is not there. A file may have a = in its name. */
static glofnd_status check_names(gf_error *err, const zeroshot_job *j, const gf_option_strings *w, const char *flag) {
    for (int i = 0; i < w->count; i++) {
        const size_t n = strcspn(w->at[i], "=/");
        FAIL_IF(err, w->at[i][n] == '=' && !names_a_set(j, w->at[i]) && access(w->at[i], F_OK) != 0, GLOFND_E_OPTION,
                "--%s %.200s: no dataset is called \"%.*s\"; --data %.*s=SPEC calls one so", flag, w->at[i], (int)n, w->at[i],
                (int)n, w->at[i]);
    }
    return GLOFND_OK;
}

/* Datasets follow --data, --retrieval, or behind RUN. */
static glofnd_status read_sets(gf_error *err, zeroshot_job *j, char **behind, int count) {
    j->set = calloc((size_t)(j->data.count + count + j->retrieval.count) + GF_DATACOMP_TASKS, sizeof *j->set);
    FAIL_IF(err, !j->set, GLOFND_E_MEMORY, "no memory for the datasets");
    for (int i = 0; i < j->data.count; i++) TRY(read_set(err, j, &j->set[j->sets++], j->data.at[i], 0));
    for (int i = 0; i < count; i++) TRY(read_set(err, j, &j->set[j->sets++], behind[i], 0));
    for (int i = 0; i < j->retrieval.count; i++) TRY(read_set(err, j, &j->set[j->sets++], j->retrieval.at[i], 1));
    if (j->datacomp) {
        /* The tasks of the benchmark that are on this disk; each that is missing is named. */
        char folder[PATH_MAX], text[PATH_MAX + 80];
        const int before = j->sets;
        for (int i = 0; gf_datacomp_at(i); i++) {
            const gf_datacomp_task *t = gf_datacomp_at(i);
            const int there = gf_datacomp_folder(t, j->datacomp, folder, sizeof folder);
            if (!there) {
                gf_print(stderr, "glofnd eval zeroshot: DataComp task %s is missing: no folder %s in %s\n", t->title, folder,
                         j->datacomp);
                continue;
            }
            snprintf(text, sizeof text, "%s=%s:%s", t->name, t->scoring == GF_SCORE_JACCARD ? "winogavil" : "wds", folder);
            TRY(read_set(err, j, &j->set[j->sets], text, t->scoring == GF_SCORE_RECALL));
            j->set[j->sets++].of_benchmark = 1;
        }
        FAIL_IF(err, j->sets == before, GLOFND_E_IO, "'%.300s' has no evaluation set of DataComp", j->datacomp);
    }
    for (int i = 0; i < j->sets; i++) {
        j->set[i].classes = choose_file(j, &j->classes, j->set[i].data.name);
        j->set[i].templates = choose_file(j, &j->templates, j->set[i].data.name);
    }
    /* E_OPTION: a dataset that is named twice, which would count twice in the mean. */
    for (int i = 0; i < j->sets; i++)
        for (int k = 0; k < i; k++) {
            const zeroshot_set *a = &j->set[k], *b = &j->set[i];
            FAIL_IF(err,
                    a->retrieval == b->retrieval && strcmp(a->data.name, b->data.name) == 0 &&
                        strcmp(a->samples.data, b->samples.data) == 0,
                    GLOFND_E_OPTION, "%s=%.200s is given twice; it would count twice in the average", b->data.name,
                    b->samples.data);
        }
    TRY(check_names(err, j, &j->classes, "classes"));
    return check_names(err, j, &j->templates, "templates");
}

/* ----- results ----- */

/* The sentences, as the name of their file without folder. */
static const char *protocol_of(const zeroshot_set *s) {
    const char *slash = s->templates ? strrchr(s->templates, '/') : NULL;
    return !s->templates ? "own-templates" : slash ? slash + 1 : s->templates;
}

static void put_sum(gf_eval_writer *log, const char *key, uint32_t sum) {
    char text[16];
    snprintf(text, sizeof text, "%08x", (unsigned)sum);
    gf_eval_put_text(log, key, text);
}

static glofnd_status record_set(gf_error *err, const zeroshot_set *s) {
    gf_eval_writer log = {0};
    if (s->retrieval) return record_retrieval(err, &s->samples, s->data.name, &s->retrieved.found);
    TRY(gf_eval_writer_open(err, &log, s->samples.run));
    if (s->scoring == GF_SCORE_JACCARD) {
        eval_log_begin(&log, "associations", "jaccard", &s->samples);
        gf_eval_put_text(&log, "dataset", s->data.name);
        gf_eval_put_integer(&log, "instances", s->associated.instances);
        gf_eval_put_integer(&log, "images", s->associated.images);
        gf_eval_put_number(&log, "jaccard", s->associated.many);
        gf_eval_put_number(&log, "jaccard_few", s->associated.few);
        gf_eval_put_number(&log, "jaccard_all", s->associated.all);
        gf_eval_writer_end(&log);
        return gf_eval_writer_close(&log);
    }
    eval_log_begin(&log, "zeroshot", protocol_of(s), &s->samples);
    gf_eval_put_text(&log, "dataset", s->data.name);
    gf_eval_put_text(&log, "metric", metric_of(s));
    gf_eval_put_integer(&log, "samples", s->found.n);
    gf_eval_put_integer(&log, "classes", s->found.classes);
    put_sum(&log, "classes_sum", s->classes_sum);
    put_sum(&log, "templates_sum", s->templates_sum);
    gf_eval_put_number(&log, "score", score_of(s));
    gf_eval_put_number(&log, "top1", s->found.top1);
    gf_eval_put_number(&log, "top5", s->found.top5);
    gf_eval_put_number(&log, "mean_per_class", s->found.per_class);
    if (s->scoring == GF_SCORE_MACRO_F1) gf_eval_put_number(&log, "macro_f1", s->found.macro_f1);
    if (s->scoring == GF_SCORE_WORST_GROUP) gf_eval_put_number(&log, "worst_group", s->found.worst_group);
    if (s->scoring == GF_SCORE_WORST_GROUP5) gf_eval_put_number(&log, "worst_group5", s->found.worst_group5);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

/* The columns of the paper's table: all datasets; retrieval, which DataComp counts WinoGAViL to; ImageNet and its variants. */
enum { ALL_SETS, RETRIEVAL_SETS, IMAGENET_SETS, GROUPS };
static const char *const group_keys[GROUPS] = {"score", "retrieval", "imagenet"};
static const char *const group_titles[GROUPS] = {"average", "of retrieval", "of ImageNets"};

/* Over a group of several that are not all there are; 0: there is no such mean. */
static int mean_score(const zeroshot_job *j, int group, double *mean) {
    double sum = 0.0;
    int n = 0;
    for (int i = 0; i < j->sets; i++) {
        const zeroshot_set *s = &j->set[i];
        const int imagenet = strncasecmp(s->data.name, "imagenet", 8) == 0 || strcasecmp(s->data.name, "objectnet") == 0,
                  retrieval = s->retrieval || s->scoring == GF_SCORE_JACCARD;
        if (group == ALL_SETS || (group == RETRIEVAL_SETS ? retrieval : imagenet && !retrieval)) sum += score_of(s), n++;
    }
    *mean = sum / n;
    return n > 1 && (group == ALL_SETS || n < j->sets);
}

static glofnd_status record_mean(gf_error *err, const zeroshot_job *j) {
    const eval_samples samples = {.run = j->run, .data = "several", .test_name = "several", .untrained = j->untrained};
    static char what[EVAL_DATASETS_MAX][PATH_MAX + 700];
    const char *name[EVAL_DATASETS_MAX], *set[EVAL_DATASETS_MAX], *protocol = NULL;
    gf_eval_writer log = {0};
    double mean;
    if (j->sets < 2) return GLOFND_OK;
    TRY(gf_eval_writer_open(err, &log, j->run));
    /* The datasets of the mean, how each is scored, and by which words. */
    for (int i = 0; i < j->sets; i++) {
        const zeroshot_set *s = &j->set[i];
        char sums[64] = "";
        if (!s->retrieval) {
            snprintf(sums, sizeof sums, " classes %08x templates %08x", (unsigned)s->classes_sum, (unsigned)s->templates_sum);
            protocol = !protocol || strcmp(protocol, protocol_of(s)) == 0 ? protocol_of(s) : "several";
        }
        snprintf(what[i], sizeof what[i], "%s=%s %s%s", s->data.name, s->samples.data, metric_of(s), sums);
        name[i] = s->data.name, set[i] = what[i];
    }
    eval_log_begin(&log, "zeroshot_mean", protocol ? protocol : "retrieval", &samples);
    gf_eval_put_integer(&log, "datasets", j->sets);
    gf_eval_put_texts(&log, "names", name, j->sets);
    gf_eval_put_texts(&log, "sets", set, j->sets);
    for (int g = 0; g < GROUPS; g++)
        if (mean_score(j, g, &mean)) gf_eval_put_number(&log, group_keys[g], mean);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

static glofnd_status evaluate_zeroshot(gf_error *err, zeroshot_job *j) {
    for (int i = 0; i < j->sets; i++) {
        /* Opens the data and reads class names and templates: an error in the last dataset is reported before the first one runs. */
        zeroshot_set *s = &j->set[i];
        gf_error why = {{0}};
        gf_dataset *data = NULL;
        gf_prompts prompts = {0};
        glofnd_status status = gf_dataset_open(&why, s->samples.data, &data);
        if (status == GLOFND_OK && !s->retrieval && s->scoring != GF_SCORE_JACCARD)
            status = read_prompts(&why, s, data, &prompts);
        if (status == GLOFND_OK && s->retrieval) status = gf_captions_require(&why, data);
        gf_prompts_free(&prompts);
        gf_dataset_free(data);
        TRY(status == GLOFND_OK ? status : gf_fail(err, status, "%s: %s", s->data.name, why.text));
    }
    const gf_run_encoder_spec spec = {.run = j->run, .untrained = j->untrained, .placement = j->where};
    TRY(encoders_open(err, &spec, &j->encoders));
    glofnd_status stored = GLOFND_OK;
    gf_print(stdout, "protocol  zeroshot: the class whose mean sentence is nearest%s\n",
             j->untrained ? ", UNTRAINED weights" : "");
    for (int i = 0; i < j->sets; i++) gf_print(stdout, "test on   %s: %s\n", j->set[i].data.name, j->set[i].data.spec);
    for (int i = 0; i < j->sets; i++)
        if (j->set[i].templates && !j->set[i].retrieval)
            gf_print(stdout, "templates %s of %s\n", j->set[i].templates, j->set[i].data.name);
    gf_print(stdout, "%-16s %8s %8s %8s  %-14s %7s %7s %7s %10s %7s %7s\n", "dataset", "images", "classes", "captions", "metric",
             "score %", "top-1", "top-5", "per class", "IR", "TR");
    for (int i = 0; i < j->sets; i++) {
        TRY(run_set(err, j, &j->set[i]));
        const zeroshot_set *s = &j->set[i];
        const gf_retrieval *r = &s->retrieved.found;
        if (s->of_benchmark && s->task->size && s->task->size != (s->retrieval ? r->images : s->found.n))
            gf_print(stderr, "glofnd eval zeroshot: WARNING: %s has %lld images here, %lld in DataComp\n", s->data.name,
                     (long long)(s->retrieval ? r->images : s->found.n), (long long)s->task->size);
        if (s->scoring == GF_SCORE_JACCARD) {
            gf_print(stdout, "%-16s %8lld %8s %8lld  %-14s %7.2f %7s %7s %10s %7s %7s\n", s->data.name,
                     (long long)s->associated.images, "-", (long long)s->associated.instances, metric_of(s), 100.0 * score_of(s),
                     "-", "-", "-", "-", "-");
        } else {
            if (s->retrieval)
                gf_print(stdout, "%-16s %8lld %8s %8lld  %-14s %7.2f %7s %7s %10s %7.2f %7.2f\n", s->data.name,
                         (long long)r->images, "-", (long long)r->texts, metric_of(s), 100.0 * score_of(s), "-", "-", "-",
                         100.0 * r->ir.mean, 100.0 * r->tr.mean);
            else
                gf_print(stdout, "%-16s %8lld %8lld %8s  %-14s %7.2f %7.2f %7.2f %10.2f %7s %7s\n", s->data.name,
                         (long long)s->found.n, (long long)s->found.classes, "-", metric_of(s), 100.0 * score_of(s),
                         100.0 * s->found.top1, 100.0 * s->found.top5, 100.0 * s->found.per_class, "-", "-");
            if (!s->retrieval && s->found.seen < s->found.classes)
                gf_print(stderr,
                         "glofnd eval zeroshot: %s: %lld of %lld classes have no image; the mean per class is over the others\n",
                         s->data.name, (long long)(s->found.classes - s->found.seen), (long long)s->found.classes);
            fflush(stdout);
        }
        if (stored == GLOFND_OK) stored = eval_stored(err, record_set(err, &j->set[i]));
    }
    double mean;
    for (int g = 0; g < GROUPS; g++)
        if (mean_score(j, g, &mean))
            gf_print(stdout, "%-16s %8s %8s %8s  %-14s %7.2f\n", group_titles[g], "", "", "", "", 100.0 * mean);
    if (j->datacomp) {
        /* The benchmark's own average is that of all its tasks. */
        double sum = 0.0;
        int n = 0;
        for (int i = 0; i < j->sets; i++)
            if (j->set[i].of_benchmark) sum += score_of(&j->set[i]), n++;
        if (n == GF_DATACOMP_TASKS) gf_print(stdout, "DataComp average over its %d tasks: %.2f\n", n, 100.0 * sum / n);
        else
            gf_print(stdout, "no DataComp average: %d of its %d tasks are here; the average above is over what was given\n", n,
                     GF_DATACOMP_TASKS);
    }
    return stored == GLOFND_OK ? eval_stored(err, record_mean(err, j)) : stored;
}

/* ----- entry ----- */

typedef struct zeroshot_flags {
    gf_option_strings data, retrieval, classes, templates;
    const char *datacomp;
    int metric; /* of eval_metrics, if given */
    int32_t untrained;
    device_flags device;
} zeroshot_flags;

static const gf_option zeroshot_rows[] = {
    CLI_STRINGS(zeroshot_flags, data, "data", "[NAME=]SPEC", "images with labels, all of which are used; may be repeated"),
    CLI_STRINGS(zeroshot_flags, retrieval, "retrieval", "[NAME=]SPEC",
                "images with captions, scored by the mean of IR@1 and TR@1; may be repeated"),
    CLI_STRING(zeroshot_flags, datacomp, "datacomp", "DIR",
               "the 38 tasks of DataComp, as its download puts them into DIR: wds_imagenet1k_test ..."),
    CLI_STRINGS(zeroshot_flags, classes, "classes", "[NAME=]FILE",
                "class names, one per line in the order of the labels; default: the data's own"),
    CLI_STRINGS(zeroshot_flags, templates, "templates", "[NAME=]FILE",
                "sentences with {} or {c} for the class name, one per line; default: those of the data, else seven of our own"),
    EVAL_METRIC(zeroshot_flags, metric, "score: accuracy, or its mean over classes; default: what is usual for NAME, else top1"),
    EVAL_UNTRAINED(zeroshot_flags, untrained),
    DEVICE_FLAGS(zeroshot_flags, device),
};

static int run_zeroshot(const cli_call *call, const void *flags) {
    const zeroshot_flags *f = flags;
    const int behind = call->words - 1, sets = behind + f->data.count + f->retrieval.count;
    gf_error err = {{0}};
    zeroshot_job j = {.run = call->word[0],
                      .untrained = f->untrained,
                      .metric = cli_given(call, "metric") ? 1 + f->metric : 0,
                      .data = f->data,
                      .retrieval = f->retrieval,
                      .datacomp = f->datacomp,
                      .classes = f->classes,
                      .templates = f->templates};
    glofnd_status status = gf_run_check_text(&err, j.run);
    if (status != GLOFND_OK) return cli_failed(call->title, status, &err);
    if (sets < 1 && !f->datacomp)
        return cli_misused(call, "--data is missing: the SPEC of images with labels (or --retrieval: with captions)");
    if (sets + (f->datacomp ? GF_DATACOMP_TASKS : 0) > EVAL_DATASETS_MAX)
        return cli_misused(call, "%d datasets are given; expected at most %d", sets, EVAL_DATASETS_MAX);
    const int code = device_flags_read(call, &f->device, &j.where);
    if (code != CLI_OK) return code;
    status = read_sets(&err, &j, call->word + 1, behind);
    if (status == GLOFND_OK) status = evaluate_zeroshot(&err, &j);
    encoders_free(&j.encoders);
    free(j.set);
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_zeroshot = {
    .name = "zeroshot",
    .summary = "task clip: images classified by sentences about the classes",
    .usage =
        "glofnd eval zeroshot RUN [--data [NAME=]SPEC ...] [--retrieval [NAME=]SPEC ...] [--datacomp DIR]\n"
        "           [--classes [NAME=]FILE ...] [--templates [NAME=]FILE ...] [--metric top1|mean] [--untrained] " DEVICE_USAGE,
    CLI_FLAGS(zeroshot_rows, zeroshot_flags),
    .word = "RUN",
    .word_help = "the folder of a run of task clip",
    .min_words = 1,
    .max_words = -1,
    .shows_progress = 1,
    .run = run_zeroshot,
};

/* ---------- eval retrieval: the image of a caption, and a caption of an image, among all of a dataset ---------- */

typedef struct retrieval_job {
    eval_samples samples; /* run NULL: embeddings of files */
    eval_dataset data;
    const char *image, *text, *owner; /* files */
    retrieved result;
} retrieval_job;

/* Embeddings of files. owner [texts], to be freed: of the file, or caption i of image i. */
static glofnd_status rank_files(gf_error *err, retrieval_job *j, gf_features *image, gf_features *text, int64_t **owner) {
    TRY(gf_embeddings_load(err, j->image, NULL, &image->n, &image->dim, &image->x));
    TRY(gf_embeddings_load(err, j->text, NULL, &text->n, &text->dim, &text->x));
    FAIL_IF(err, image->dim != text->dim, GLOFND_E_ARGUMENT,
            "%.200s has %lld numbers per row, %.200s has %lld: they must be of one model", j->image, (long long)image->dim,
            j->text, (long long)text->dim);
    const char *path = j->owner;
    const int64_t images = image->n;
    const int64_t texts = text->n;
    gf_npy a = {0};
    *owner = malloc((size_t)texts * sizeof **owner);
    FAIL_IF(err, !*owner, GLOFND_E_MEMORY, "no memory for %lld captions", (long long)texts);
    FAIL_IF(err, !path && images != texts, GLOFND_E_ARGUMENT,
            "%lld images and %lld captions: --owner must give the image of each caption", (long long)images, (long long)texts);
    for (int64_t i = 0; !path && i < texts; i++) (*owner)[i] = i;
    if (path) {
        TRY(gf_npy_read(err, path, &a));
        const int whole = a.type == GF_NPY_I8 || a.type == GF_NPY_I4 || a.type == GF_NPY_U1,
                  fits = a.rank == 1 && a.count == texts;
        for (int64_t i = 0; whole && fits && i < texts; i++) (*owner)[i] = gf_npy_i64(&a, i);
        gf_npy_free(&a);
        FAIL_IF(err, !whole || !fits, GLOFND_E_FORMAT, "%.300s must be int64, int32 or uint8 [%lld]: the image of each caption",
                path, (long long)texts);
    }
    gf_retrieval_input in = {.image = image->x,
                             .text = text->x,
                             .images = image->n,
                             .texts = text->n,
                             .dim = image->dim,
                             .owner = *owner,
                             .job.threads = j->samples.where.threads};
    j->result.dim = image->dim;
    return rank_pairs(err, &in, &j->result.found);
}

static glofnd_status evaluate_retrieval(gf_error *err, retrieval_job *j) {
    const gf_run_encoder_spec spec = {.run = j->samples.run, .untrained = j->samples.untrained, .placement = j->samples.where};
    glofnd_status status;
    if (j->samples.run) {
        encoders both;
        status = encoders_open(err, &spec, &both);
        if (status == GLOFND_OK) status = rank_dataset(err, &both, j->samples.data, &j->result);
        encoders_free(&both);
    } else {
        gf_features image = {0}, text = {0};
        int64_t *owner = NULL;
        status = rank_files(err, j, &image, &text, &owner);
        gf_features_free(&image);
        gf_features_free(&text);
        free(owner);
    }
    return status;
}

static void add_row(gf_table *t, const char *what, const gf_recalls *r) {
    gf_table_add(t, "%s", what);
    for (int k = 0; k < GF_RECALLS; k++) gf_table_number(t, 100.0 * r->at[k], 2);
    gf_table_number(t, 100.0 * r->mean, 2);
}

/* ----- entry ----- */

typedef struct retrieval_flags {
    const char *data, *image, *text, *owner;
    int32_t untrained;
    device_flags device;
} retrieval_flags;

static const gf_option retrieval_rows[] = {
    CLI_STRING(retrieval_flags, data, "data", "SPEC", "images with captions, all of which are used: wds:, csv:, shapes: ..."),
    CLI_STRING(retrieval_flags, image, "image-emb", "FILE",
               "image embeddings of any model instead of a run: float32 or float16 [images][dim]"),
    CLI_STRING(retrieval_flags, text, "text-emb", "FILE", "embeddings of captions [captions][dim]"),
    CLI_STRING(retrieval_flags, owner, "owner", "FILE",
               "image of each caption, int64 [captions]; default: caption i belongs to image i"),
    EVAL_UNTRAINED(retrieval_flags, untrained),
    DEVICE_FLAGS(retrieval_flags, device),
};

static int run_retrieval(const cli_call *call, const void *flags) {
    const retrieval_flags *f = flags;
    gf_error err = {{0}};
    retrieval_job j = {.image = f->image, .text = f->text, .owner = f->owner};
    glofnd_status status = GLOFND_OK;
    if (call->words > 0) status = gf_run_check_text(&err, call->word[0]);
    if (status != GLOFND_OK) return cli_failed(call->title, status, &err);
    const int code = device_flags_read(call, &f->device, &j.samples.where);
    if (code != CLI_OK) return code;
    if (!f->image && !f->text && !f->owner) {
        if (call->words < 1) return cli_misused(call, "RUN is missing: the folder of a run");
        if (!f->data) return cli_misused(call, "--data is missing: the SPEC of the samples");
    } else {
        if (call->words > 0 || f->data) return cli_misused(call, "a RUN with --data, or embeddings of files: not both");
        if (!f->image || !f->text) return cli_misused(call, "--image-emb and --text-emb belong together");
        if (f->device.device) return cli_misused(call, "--device is for the encoder of a RUN; files are ranked on the CPU");
    }
    if (call->words > 0) {
        j.samples.run = call->word[0], j.samples.untrained = f->untrained;
        status = eval_dataset_read_test(&err, f->data, &j.data);
        j.samples.data = j.data.spec;
        snprintf(j.samples.test_name, sizeof j.samples.test_name, "%s", j.samples.data);
    }
    if (status == GLOFND_OK) status = evaluate_retrieval(&err, &j);
    if (status == GLOFND_OK) {
        const gf_retrieval *r = &j.result.found;
        gf_print(stdout, "protocol  retrieval: cosine, %lld numbers%s\n", (long long)j.result.dim,
                 j.samples.untrained ? ", UNTRAINED weights" : "");
        gf_print(stdout, "data      %lld images, %lld captions of %s\n", (long long)r->images, (long long)r->texts,
                 j.samples.run ? j.samples.data : j.image);
        if (j.result.repeated)
            gf_print(stdout, "          %lld samples name an image of an earlier one\n", (long long)j.result.repeated);
        if (j.result.lost)
            gf_print(stdout, "          %lld captions of unreadable images are left out\n", (long long)j.result.lost);
        if (r->queries < r->images)
            gf_print(stdout, "          %lld images have no caption: they may be found, but are not used as queries\n",
                     (long long)(r->images - r->queries));
        gf_table t = {.columns = 2 + GF_RECALLS};
        gf_text text = {0};
        gf_recalls both = {.mean = r->mean};
        for (int k = 0; k < GF_RECALLS; k++) both.at[k] = 0.5 * (r->ir.at[k] + r->tr.at[k]);
        gf_table_add(&t, "recall %%");
        for (int k = 0; k < GF_RECALLS; k++) gf_table_add(&t, "@%d", gf_recall_at[k]);
        gf_table_add(&t, "average");
        add_row(&t, "IR, text to image", &r->ir);
        add_row(&t, "TR, image to text", &r->tr);
        add_row(&t, "average", &both);
        add_row(&t, "chance, text to image", &r->ir_chance);
        add_row(&t, "chance, image to text", &r->tr_chance);
        gf_table_text(&text, &t, 1);
        if (text.at) gf_print_lines(stdout, text.at);
        gf_text_free(&text);
        gf_table_free(&t);
    }
    if (status == GLOFND_OK && j.samples.run)
        status = eval_stored(&err, record_retrieval(&err, &j.samples, j.data.name, &j.result.found));
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_retrieval = {
    .name = "retrieval",
    .summary = "task clip: images found by their captions, captions by their images",
    .usage = "glofnd eval retrieval RUN --data [NAME=]SPEC [--untrained] " DEVICE_USAGE "\n"
             "       glofnd eval retrieval --image-emb FILE.npy --text-emb FILE.npy [--owner FILE.npy] [--threads N]",
    CLI_FLAGS(retrieval_rows, retrieval_flags),
    .word = "RUN",
    .max_words = 1,
    .once = "expected one; eval zeroshot takes several, each after --retrieval",
    .shows_progress = 1,
    .run = run_retrieval,
};
