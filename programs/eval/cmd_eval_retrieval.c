/* cmd_eval_retrieval.c - glofnd eval retrieval: the image of a caption, and a caption of an image, among all of a dataset. */
#include <stdio.h>
#include <stdlib.h>

#include "programs/eval/eval_clip.h"
#include "embeddings/row_labels.h"
#include "io/npy.h"
#include "plot/table.h"

typedef struct retrieval_job {
    eval_samples samples; /* run NULL: embeddings of files */
    eval_dataset data;
    const char *image, *text, *owner; /* files */
    eval_retrieved result;
} retrieval_job;

/* ----- embeddings of files ----- */

/* owner [texts], to be freed: of the file, or caption i of image i. */
static glofnd_status read_owners(gf_error *err, const char *path, int64_t images, int64_t texts, int64_t **out) {
    gf_npy a = {0};
    *out = malloc((size_t)texts * sizeof **out);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld captions", (long long)texts);
    FAIL_IF(err, !path && images != texts, GLOFND_E_ARGUMENT,
            "%lld images and %lld captions: --owner must give the image of each caption", (long long)images, (long long)texts);
    for (int64_t i = 0; !path && i < texts; i++) (*out)[i] = i;
    if (!path) return GLOFND_OK;
    TRY(gf_npy_read(err, path, &a));
    const int whole = a.type == GF_NPY_I8 || a.type == GF_NPY_I4 || a.type == GF_NPY_U1, fits = a.rank == 1 && a.count == texts;
    for (int64_t i = 0; whole && fits && i < texts; i++) (*out)[i] = gf_npy_i64(&a, i);
    gf_npy_free(&a);
    FAIL_IF(err, !whole || !fits, GLOFND_E_FORMAT, "%.300s must be int64, int32 or uint8 [%lld]: the image of each caption", path,
            (long long)texts);
    return GLOFND_OK;
}

static glofnd_status rank_files(gf_error *err, retrieval_job *j, gf_features *image, gf_features *text,
                                int64_t **owner) {
    TRY(gf_embeddings_load(err, j->image, NULL, &image->n, &image->dim, &image->x));
    TRY(gf_embeddings_load(err, j->text, NULL, &text->n, &text->dim, &text->x));
    FAIL_IF(err, image->dim != text->dim, GLOFND_E_ARGUMENT,
            "%.200s has %lld numbers per row, %.200s has %lld: they must be of one model", j->image, (long long)image->dim,
            j->text, (long long)text->dim);
    TRY(read_owners(err, j->owner, image->n, text->n, owner));
    gf_retrieval_input in = {.image = image->x,
                             .text = text->x,
                             .images = image->n,
                             .texts = text->n,
                             .dim = image->dim,
                             .owner = *owner,
                             .job.threads = j->samples.where.threads};
    j->result.dim = image->dim;
    return eval_rank(err, &in, &j->result.found);
}

static glofnd_status measure_files(gf_error *err, retrieval_job *j) {
    gf_features image = {0}, text = {0};
    int64_t *owner = NULL;
    const glofnd_status status = rank_files(err, j, &image, &text, &owner);
    gf_features_free(&image);
    gf_features_free(&text);
    free(owner);
    return status;
}

/* ----- a run ----- */

static glofnd_status measure_run(gf_error *err, retrieval_job *j) {
    eval_encoders encoders;
    const gf_run_encoder_spec spec = {.run = j->samples.run, .untrained = j->samples.untrained, .placement = j->samples.where};
    glofnd_status status = eval_encoders_open(err, &spec, &encoders);
    if (status == GLOFND_OK) status = eval_retrieve(err, &encoders, j->samples.data, &j->result);
    eval_encoders_free(&encoders);
    return status;
}

/* ----- results ----- */

static void add_row(gf_table *t, const char *what, const gf_recalls *r) {
    gf_table_add(t, "%s", what);
    for (int k = 0; k < GF_RECALLS; k++) gf_table_number(t, 100.0 * r->at[k], 2);
    gf_table_number(t, 100.0 * r->mean, 2);
}

static void print_samples(const retrieval_job *j) {
    const gf_retrieval *r = &j->result.found;
    gf_print(stdout, "protocol  retrieval: cosine, %lld numbers%s\n", (long long)j->result.dim,
             j->samples.untrained ? ", UNTRAINED weights" : "");
    gf_print(stdout, "data      %lld images, %lld captions of %s\n", (long long)r->images, (long long)r->texts,
             j->samples.run ? j->samples.data : j->image);
    if (j->result.repeated)
        gf_print(stdout, "          %lld samples name an image of an earlier one\n", (long long)j->result.repeated);
    if (j->result.lost)
        gf_print(stdout, "          %lld captions of unreadable images are left out\n", (long long)j->result.lost);
    if (r->queries < r->images)
        gf_print(stdout, "          %lld images have no caption: they may be found, but are not used as queries\n",
                 (long long)(r->images - r->queries));
}

static void print_table(const gf_retrieval *r) {
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

/* ----- entry ----- */

typedef struct retrieval_flags {
    const char *data, *image, *text, *owner;
    int32_t untrained;
    device_flags device;
} retrieval_flags;

static const gf_option rows[] = {
    CLI_STRING(retrieval_flags, data, "data", "SPEC", "images with captions, all of which are used: wds:, csv:, shapes: ..."),
    CLI_STRING(retrieval_flags, image, "image-emb", "FILE",
               "instead of a run: embeddings of images by any model, float32 or float16 [images][dim]"),
    CLI_STRING(retrieval_flags, text, "text-emb", "FILE", "embeddings of captions [captions][dim]"),
    CLI_STRING(retrieval_flags, owner, "owner", "FILE",
               "which image a caption belongs to, int64 [captions]; default: caption i to image i"),
    EVAL_UNTRAINED(retrieval_flags, untrained),
    DEVICE_FLAGS(retrieval_flags, device),
};

static int check_arguments(const cli_call *call, const retrieval_flags *f) {
    const int files = f->image || f->text || f->owner;
    if (!files && call->words < 1) return cli_misused(call, "RUN is missing: the folder of a run");
    if (!files) return f->data ? CLI_OK : cli_misused(call, "--data is missing: the SPEC of the samples");
    if (call->words > 0 || f->data) return cli_misused(call, "a RUN with --data, or embeddings of files: not both");
    if (!f->image || !f->text) return cli_misused(call, "--image-emb and --text-emb belong together");
    return f->device.device ? cli_misused(call, "--device is for the encoder of a RUN; files are ranked on the CPU") : CLI_OK;
}

static int run(const cli_call *call, const void *flags) {
    const retrieval_flags *f = flags;
    gf_error err = {{0}};
    retrieval_job j = {.image = f->image, .text = f->text, .owner = f->owner};
    glofnd_status status = GLOFND_OK;
    int code;
    if (call->words > 0) status = gf_run_check_text(&err, call->word[0]);
    if (status != GLOFND_OK) return cli_failed(call->title, status, &err);
    if ((code = device_flags_read(call, &f->device, &j.samples.where)) || (code = check_arguments(call, f))) return code;
    if (call->words > 0) {
        j.samples.run = call->word[0], j.samples.untrained = f->untrained;
        status = eval_dataset_read_test(&err, f->data, &j.data);
        j.samples.data = j.data.spec;
        snprintf(j.samples.test_name, sizeof j.samples.test_name, "%s", j.samples.data);
    }
    if (status == GLOFND_OK) status = j.samples.run ? measure_run(&err, &j) : measure_files(&err, &j);
    if (status == GLOFND_OK) print_samples(&j);
    if (status == GLOFND_OK) print_table(&j.result.found);
    if (status == GLOFND_OK && j.samples.run)
        status = eval_stored(&err, eval_record_retrieval(&err, &j.samples, j.data.name, &j.result.found));
    return status == GLOFND_OK ? CLI_OK : cli_failed(call->title, status, &err);
}

const cli_verb eval_retrieval = {
    .name = "retrieval",
    .summary = "task clip: images found by their captions, captions by their images",
    .usage = "glofnd eval retrieval RUN --data [NAME=]SPEC [--untrained] " DEVICE_USAGE "\n"
             "       glofnd eval retrieval --image-emb FILE.npy --text-emb FILE.npy [--owner FILE.npy] [--threads N]",
    CLI_FLAGS(rows, retrieval_flags),
    .word = "RUN",
    .max_words = 1,
    .once = "expected one; eval zeroshot takes several, each after --retrieval",
    .shows_progress = 1,
    .run = run,
};
