/* cmd_eval_zeroshot.c - glofnd eval zeroshot: images classified by sentences about the classes, on one dataset or many. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "programs/eval/eval_zeroshot.h"
#include "programs/trained_run.h"
#include "eval/protocol.h"

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
    else if (!retrieval && (s->scoring == GF_SCORE_RECALL || s->scoring == GF_SCORE_JACCARD || s->scoring == GF_SCORE_MAP11))
        s->scoring = GF_SCORE_TOP1;
    s->samples = (eval_samples){.run = j->run, .data = s->data.spec, .untrained = j->untrained};
    memcpy(s->samples.test_name, s->data.spec, sizeof s->samples.test_name);
    return GLOFND_OK;
}

/* E_OPTION: a dataset that is named twice, which would count twice in the mean. */
static glofnd_status check_differ(gf_error *err, const zeroshot_job *j) {
    for (int i = 0; i < j->sets; i++)
        for (int k = 0; k < i; k++) {
            const zeroshot_set *a = &j->set[k], *b = &j->set[i];
            FAIL_IF(err,
                    a->retrieval == b->retrieval && strcmp(a->data.name, b->data.name) == 0 &&
                        strcmp(a->samples.data, b->samples.data) == 0,
                    GLOFND_E_OPTION, "%s=%.200s is given twice; it would count twice in the average", b->data.name,
                    b->samples.data);
        }
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

/* The tasks of the benchmark that are on this disk; each that is missing is named. */
static glofnd_status read_benchmark(gf_error *err, zeroshot_job *j) {
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
    return GLOFND_OK;
}

/* Datasets follow --data, --retrieval, or behind RUN. */
static glofnd_status read_sets(gf_error *err, zeroshot_job *j, char **behind, int count) {
    j->set = calloc((size_t)(j->data.count + count + j->retrieval.count) + GF_DATACOMP_TASKS, sizeof *j->set);
    FAIL_IF(err, !j->set, GLOFND_E_MEMORY, "no memory for the datasets");
    for (int i = 0; i < j->data.count; i++) TRY(read_set(err, j, &j->set[j->sets++], j->data.at[i], 0));
    for (int i = 0; i < count; i++) TRY(read_set(err, j, &j->set[j->sets++], behind[i], 0));
    for (int i = 0; i < j->retrieval.count; i++) TRY(read_set(err, j, &j->set[j->sets++], j->retrieval.at[i], 1));
    if (j->datacomp) TRY(read_benchmark(err, j));
    for (int i = 0; i < j->sets; i++) {
        j->set[i].classes = choose_file(j, &j->classes, j->set[i].data.name);
        j->set[i].templates = choose_file(j, &j->templates, j->set[i].data.name);
    }
    TRY(check_differ(err, j));
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

static glofnd_status record_associations(gf_error *err, const zeroshot_set *s) {
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, s->samples.run));
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

static glofnd_status record(gf_error *err, const zeroshot_set *s) {
    gf_eval_writer log = {0};
    if (s->scoring == GF_SCORE_JACCARD) return record_associations(err, s);
    if (s->retrieval) return eval_record_retrieval(err, &s->samples, s->data.name, &s->retrieved.found);
    TRY(gf_eval_writer_open(err, &log, s->samples.run));
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

/* The columns of the paper's table: all datasets, those of retrieval, ImageNet and its variants. */
enum { ALL_SETS, RETRIEVAL_SETS, IMAGENET_SETS, GROUPS };
static const char *const group_keys[GROUPS] = {"score", "retrieval", "imagenet"};
static const char *const group_titles[GROUPS] = {"average", "of retrieval", "of ImageNets"};

static int in_group(const zeroshot_set *s, int group) {
    if (group == ALL_SETS) return 1;
    if (group == RETRIEVAL_SETS || s->retrieval) return group == RETRIEVAL_SETS && s->retrieval;
    return strncasecmp(s->data.name, "imagenet", 8) == 0 || strcasecmp(s->data.name, "objectnet") == 0;
}

/* Over a group of several that are not all there are; 0: there is no such mean. */
static int mean_score(const zeroshot_job *j, int group, double *mean) {
    double sum = 0.0;
    int n = 0;
    for (int i = 0; i < j->sets; i++)
        if (in_group(&j->set[i], group)) sum += score_of(&j->set[i]), n++;
    *mean = sum / n;
    return n > 1 && (group == ALL_SETS || n < j->sets);
}

/* The benchmark's own average is that of all its tasks. */
static void print_benchmark(const zeroshot_job *j) {
    double sum = 0.0;
    int n = 0;
    for (int i = 0; i < j->sets; i++)
        if (j->set[i].of_benchmark) sum += score_of(&j->set[i]), n++;
    if (n == GF_DATACOMP_TASKS) gf_print(stdout, "DataComp average over its %d tasks: %.2f\n", n, 100.0 * sum / n);
    else
        gf_print(stdout, "no DataComp average: %d of its %d tasks are here; the average above is over what was given\n", n,
                 GF_DATACOMP_TASKS);
}

static void print_means(const zeroshot_job *j) {
    double mean;
    for (int g = 0; g < GROUPS; g++)
        if (mean_score(j, g, &mean))
            gf_print(stdout, "%-16s %8s %8s %8s  %-14s %7.2f\n", group_titles[g], "", "", "", "", 100.0 * mean);
}

/* The protocol of all that are classified, or "several". */
static const char *common_protocol(const zeroshot_job *j) {
    const char *found = NULL;
    for (int i = 0; i < j->sets; i++) {
        const char *own = j->set[i].retrieval ? NULL : protocol_of(&j->set[i]);
        if (own && found && strcmp(own, found) != 0) return "several";
        if (own) found = own;
    }
    return found ? found : "retrieval";
}

/* The datasets of the mean, how each is scored, and by which words. */
static void put_sets(gf_eval_writer *log, const zeroshot_job *j) {
    static char what[EVAL_DATASETS_MAX][PATH_MAX + 700];
    const char *name[EVAL_DATASETS_MAX], *set[EVAL_DATASETS_MAX];
    for (int i = 0; i < j->sets; i++) {
        const zeroshot_set *s = &j->set[i];
        char sums[64] = "";
        if (!s->retrieval)
            snprintf(sums, sizeof sums, " classes %08x templates %08x", (unsigned)s->classes_sum, (unsigned)s->templates_sum);
        snprintf(what[i], sizeof what[i], "%s=%s %s%s", s->data.name, s->samples.data, metric_of(s), sums);
        name[i] = s->data.name, set[i] = what[i];
    }
    gf_eval_put_texts(log, "names", name, j->sets);
    gf_eval_put_texts(log, "sets", set, j->sets);
}

static glofnd_status record_mean(gf_error *err, const zeroshot_job *j) {
    const eval_samples samples = {.run = j->run, .data = "several", .test_name = "several", .untrained = j->untrained};
    gf_eval_writer log = {0};
    double mean;
    if (j->sets < 2) return GLOFND_OK;
    TRY(gf_eval_writer_open(err, &log, j->run));
    eval_log_begin(&log, "zeroshot_mean", common_protocol(j), &samples);
    gf_eval_put_integer(&log, "datasets", j->sets);
    put_sets(&log, j);
    for (int g = 0; g < GROUPS; g++)
        if (mean_score(j, g, &mean)) gf_eval_put_number(&log, group_keys[g], mean);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

static void print_set(const zeroshot_set *s) {
    const gf_retrieval *r = &s->retrieved.found;
    if (s->of_benchmark && s->task->size && s->task->size != (s->retrieval ? r->images : s->found.n))
        gf_print(stderr, "glofnd eval zeroshot: WARNING: %s has %lld images here, %lld in DataComp\n", s->data.name,
                 (long long)(s->retrieval ? r->images : s->found.n), (long long)s->task->size);
    if (s->scoring == GF_SCORE_JACCARD) {
        gf_print(stdout, "%-16s %8lld %8s %8lld  %-14s %7.2f %7s %7s %10s %7s %7s\n", s->data.name,
                 (long long)s->associated.images, "-", (long long)s->associated.instances, metric_of(s), 100.0 * score_of(s), "-",
                 "-", "-", "-", "-");
        return;
    }
    if (s->retrieval)
        gf_print(stdout, "%-16s %8lld %8s %8lld  %-14s %7.2f %7s %7s %10s %7.2f %7.2f\n", s->data.name, (long long)r->images, "-",
                 (long long)r->texts, metric_of(s), 100.0 * score_of(s), "-", "-", "-", 100.0 * r->ir.mean, 100.0 * r->tr.mean);
    else
        gf_print(stdout, "%-16s %8lld %8lld %8s  %-14s %7.2f %7.2f %7.2f %10.2f %7s %7s\n", s->data.name, (long long)s->found.n,
                 (long long)s->found.classes, "-", metric_of(s), 100.0 * score_of(s), 100.0 * s->found.top1,
                 100.0 * s->found.top5, 100.0 * s->found.per_class, "-", "-");
    if (!s->retrieval && s->found.seen < s->found.classes)
        gf_print(stderr, "glofnd eval zeroshot: %s: %lld of %lld classes have no image; the mean per class is over the others\n",
                 s->data.name, (long long)(s->found.classes - s->found.seen), (long long)s->found.classes);
    fflush(stdout);
}

static void print_heading(const zeroshot_job *j) {
    gf_print(stdout, "protocol  zeroshot: the class whose mean sentence is nearest%s\n",
             j->untrained ? ", UNTRAINED weights" : "");
    for (int i = 0; i < j->sets; i++) gf_print(stdout, "test on   %s: %s\n", j->set[i].data.name, j->set[i].data.spec);
    for (int i = 0; i < j->sets; i++)
        if (j->set[i].templates && !j->set[i].retrieval)
            gf_print(stdout, "templates %s of %s\n", j->set[i].templates, j->set[i].data.name);
    gf_print(stdout, "%-16s %8s %8s %8s  %-14s %7s %7s %7s %10s %7s %7s\n", "dataset", "images", "classes", "captions", "metric",
             "score %", "top-1", "top-5", "per class", "IR", "TR");
}

static glofnd_status evaluate(gf_error *err, zeroshot_job *j) {
    for (int i = 0; i < j->sets; i++) TRY(zeroshot_check(err, &j->set[i]));
    const gf_run_encoder_spec spec = {.run = j->run, .untrained = j->untrained, .placement = j->where};
    TRY(eval_encoders_open(err, &spec, &j->encoders));
    glofnd_status stored = GLOFND_OK;
    print_heading(j);
    for (int i = 0; i < j->sets; i++) {
        TRY(zeroshot_run(err, j, &j->set[i]));
        print_set(&j->set[i]);
        if (stored == GLOFND_OK) stored = eval_stored(err, record(err, &j->set[i]));
    }
    print_means(j);
    if (j->datacomp) print_benchmark(j);
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

static const gf_option rows[] = {
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

static int run(const cli_call *call, const void *flags) {
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
    if (status == GLOFND_OK) status = evaluate(&err, &j);
    eval_encoders_free(&j.encoders);
    free(j.set);
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_zeroshot = {
    .name = "zeroshot",
    .summary = "task clip: images classified by sentences about the classes",
    .usage =
        "glofnd eval zeroshot RUN [--data [NAME=]SPEC ...] [--retrieval [NAME=]SPEC ...] [--datacomp DIR]\n"
        "           [--classes [NAME=]FILE ...] [--templates [NAME=]FILE ...] [--metric top1|mean] [--untrained] " DEVICE_USAGE,
    CLI_FLAGS(rows, zeroshot_flags),
    .word = "RUN",
    .word_help = "the folder of a run of task clip",
    .min_words = 1,
    .max_words = -1,
    .shows_progress = 1,
    .run = run,
};
