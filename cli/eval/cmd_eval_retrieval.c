/* cmd_eval_retrieval.c - glofnd eval retrieval: the image of a caption, and a caption of an image, among all of a dataset. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/eval/eval_clip.h"
#include "discover/discover_input.h"
#include "io/npy.h"
#include "plot/table.h"

static const char usage[] =
    "glofnd eval retrieval RUN --data [NAME=]SPEC [--untrained] " DEVICE_USAGE "\n"
    "       glofnd eval retrieval --image-emb FILE.npy --text-emb FILE.npy [--owner FILE.npy] [--threads N]";

typedef struct retrieval_job {
    eval_samples samples;             /* run NULL: embeddings of files */
    char name[64];                    /* of the data */
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
            "%lld images and %lld captions: --owner must say which image each caption belongs to", (long long)images,
            (long long)texts);
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

static glofnd_status rank_files(gf_error *err, retrieval_job *j, gf_discover_data *image, gf_discover_data *text,
                                int64_t **owner) {
    TRY(gf_discover_read(err, j->image, NULL, image));
    TRY(gf_discover_read(err, j->text, NULL, text));
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
    gf_discover_data image = {0}, text = {0};
    int64_t *owner = NULL;
    const glofnd_status status = rank_files(err, j, &image, &text, &owner);
    gf_discover_data_free(&image);
    gf_discover_data_free(&text);
    free(owner);
    return status;
}

/* ----- a run ----- */

static glofnd_status measure_run(gf_error *err, retrieval_job *j) {
    eval_towers encoders;
    const gf_run_encoder_spec spec = {.run = j->samples.run, .untrained = j->samples.untrained, .placement = j->samples.where};
    glofnd_status status = eval_encoders_open(err, &spec, &encoders);
    if (status == GLOFND_OK) status = eval_retrieve(err, &encoders, j->samples.data, &j->result);
    eval_encoders_free(&encoders);
    return status;
}

/* ----- telling ----- */

static void add_row(gf_table *t, const char *what, const gf_recalls *r) {
    gf_table_add(t, "%s", what);
    for (int k = 0; k < GF_RECALLS; k++) gf_table_number(t, 100.0 * r->at[k], 2);
    gf_table_number(t, 100.0 * r->mean, 2);
}

static void print_samples(const retrieval_job *j) {
    const gf_retrieval *r = &j->result.found;
    printf("protocol  retrieval: cosine, %lld numbers%s\n", (long long)j->result.dim,
           j->samples.untrained ? ", UNTRAINED weights" : "");
    printf("data      %lld images, %lld captions of %s\n", (long long)r->images, (long long)r->texts,
           j->samples.run ? j->samples.data : j->image);
    if (j->result.repeated) printf("          %lld samples name an image of an earlier one\n", (long long)j->result.repeated);
    if (j->result.lost) printf("          %lld captions of unreadable images are left out\n", (long long)j->result.lost);
    if (r->queries < r->images)
        printf("          %lld images have no caption: they may be found, but are not asked for theirs\n",
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
    if (text.at) fputs(text.at, stdout);
    gf_text_free(&text);
    gf_table_free(&t);
}

/* ----- entry ----- */

static int check_arguments(const retrieval_job *j, int n) {
    const int files = j->image || j->text || j->owner;
    const char *wrong = NULL;
    if (!files) return eval_check_arguments("eval retrieval", usage, n, j->samples.data);
    if (n > 0 || j->samples.data) wrong = "a RUN with --data, or embeddings of files: not both";
    else if (!j->image || !j->text) wrong = "--image-emb and --text-emb belong together";
    else if (j->samples.where.device) wrong = "--device is for the encoder of a RUN; files are ranked on the CPU";
    if (wrong) fprintf(stderr, "glofnd eval retrieval: %s\nusage: %s\n", wrong, usage);
    return wrong ? CLI_USAGE : CLI_OK;
}

int eval_retrieval(int argc, char **argv) {
    const char *untrained = NULL;
    device_flags where = {0};
    retrieval_job j = {0};
    const cli_flag flags[] = {
        {"data", "SPEC", "images with captions, all of which are used: wds:, csv:, shapes: ...", &j.samples.data},
        {"image-emb", "FILE", "instead of a run: embeddings of images by any model, float32 or float16 [images][dim]", &j.image},
        {"text-emb", "FILE", "embeddings of captions [captions][dim]", &j.text},
        {"owner", "FILE", "which image a caption belongs to, int64 [captions]; default: caption i to image i", &j.owner},
        {"untrained", NULL, "with the weights the run began with: the baseline", &untrained},
        DEVICE_FLAGS(where),
    };
    int n;
    gf_error err = {{0}};
    int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if ((code = device_flags_read(argv[0], &where, &j.samples.where)) || (code = check_arguments(&j, n))) return code;
    if (n > 0) {
        j.samples.run = argv[1], j.samples.untrained = untrained != NULL;
        j.samples.data = eval_name(j.samples.data, j.name, sizeof j.name);
        snprintf(j.samples.test_name, sizeof j.samples.test_name, "%s", j.samples.data);
    }
    glofnd_status status = j.samples.run ? measure_run(&err, &j) : measure_files(&err, &j);
    if (status == GLOFND_OK) print_samples(&j);
    if (status == GLOFND_OK) print_table(&j.result.found);
    if (status == GLOFND_OK && j.samples.run) status = eval_record_retrieval(&err, &j.samples, j.name, &j.result.found);
    return status == GLOFND_OK ? CLI_OK : cli_failed("eval retrieval", status, &err);
}
