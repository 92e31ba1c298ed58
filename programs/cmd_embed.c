/* cmd_embed.c - glofnd embed: the features of a dataset, or the embeddings of its captions, as a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "eval/encode.h"
#include "io/blockfile.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "programs/trained_run.h"
#include "run/run_folder.h"
#include "util/text.h"

enum { NAME = 1024 };

/* ----- files to write ----- */

typedef struct embed_targets { /* NULL: not wanted */
    const char *out, *labels, *samples, *names;
} embed_targets;

typedef struct embed_rows {
    const gf_features *f;
    const int64_t *sample;  /* [f->n] whose image or caption a row is */
    const gf_dataset *data; /* names of samples */
} embed_rows;

/* E_OPTION: a suffix that says no format, or one file for two things. Fails before the work if no file can be written there. */
static glofnd_status check_targets(gf_error *err, const embed_targets *t) {
    static const char *const flag[] = {"--out", "--labels", "--samples", "--names"};
    const char *const path[] = {t->out, t->labels, t->samples, t->names};
    for (size_t i = 0; i < 4; i++) TRY(gf_own_files_check(err, flag[i], path[i]));
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            FAIL_IF(err, path[i] && path[k] && gf_path_same(path[i], path[k]), GLOFND_E_OPTION,
                    "--out, --labels, --samples and --names must be different files");
    FAIL_IF(err, !gf_ends_with(t->out, ".npy") && !gf_ends_with(t->out, ".safetensors") && !gf_ends_with(t->out, ".csv"),
            GLOFND_E_OPTION, "--out: the name %.300s says no format; expected .npy, .safetensors or .csv at its end", t->out);
    for (size_t i = 1; i < 3; i++)
        FAIL_IF(err, path[i] && !gf_ends_with(path[i], ".npy"), GLOFND_E_OPTION, "%s: %.300s; expected a name that ends in .npy",
                flag[i], path[i]);
    for (size_t i = 0; i < 4; i++)
        if (path[i]) TRY(gf_writer_check(err, path[i]));
    return GLOFND_OK;
}

/* ----- writing ----- */

/* On one line, in UTF-8, whatever the file is called. */
static void name_of(const embed_rows *r, int64_t row, char out[NAME]) {
    gf_dataset_name(r->data, r->sample[row], out, NAME);
    gf_utf8_trim(out);
    gf_utf8_clean(out, ' ');
}

static void put_text(gf_writer *w, const char *text) { gf_put(w, text, strlen(text)); }

static glofnd_status write_npy(gf_error *err, const char *path, gf_npy_type type, int rank, int64_t n, int64_t dim,
                               const void *x) {
    const gf_npy a = {.type = type, .rank = rank, .shape = {n, dim}, .data = (void *)x};
    return gf_npy_write(err, path, &a);
}

static glofnd_status write_files(gf_error *err, const embed_targets *t, const embed_rows *r) {
    const gf_features *f = r->f;
    gf_writer w;
    char text[64], name[NAME];
    if (gf_ends_with(t->out, ".csv")) {
        TRY(gf_writer_open(err, &w, t->out));
        put_text(&w, "sample,name,label");
        for (int64_t k = 0; k < f->dim; k++) snprintf(text, sizeof text, ",x%lld", (long long)k), put_text(&w, text);
        put_text(&w, "\n");
        for (int64_t i = 0; i < f->n; i++) {
            snprintf(text, sizeof text, "%lld,\"", (long long)r->sample[i]), put_text(&w, text);
            name_of(r, i, name);
            for (const char *at = name; *at; at++) { /* quotes are doubled inside */
                if (*at == '"') put_text(&w, "\"");
                gf_put(&w, at, 1);
            }
            snprintf(text, sizeof text, "\",%d", (int)f->label[i]), put_text(&w, text);
            for (int64_t k = 0; k < f->dim; k++)
                snprintf(text, sizeof text, ",%.9g", (double)f->x[i * f->dim + k]), put_text(&w, text);
            put_text(&w, "\n");
        }
        TRY(gf_writer_finish(&w));
    } else if (gf_ends_with(t->out, ".safetensors")) {
        const gf_st_tensor list[] = {
            {.name = "embeddings", .type = GF_ST_F32, .rank = 2, .shape = {f->n, f->dim}, .data = f->x},
            {.name = "labels", .type = GF_ST_I32, .rank = 1, .shape = {f->n}, .data = f->label},
            {.name = "samples", .type = GF_ST_I64, .rank = 1, .shape = {f->n}, .data = r->sample},
        };
        TRY(gf_st_write(err, t->out, list, 3, NULL, 0));
    } else TRY(write_npy(err, t->out, GF_NPY_F4, 2, f->n, f->dim, f->x));
    if (t->labels) TRY(write_npy(err, t->labels, GF_NPY_I4, 1, f->n, 0, f->label));
    if (t->samples) TRY(write_npy(err, t->samples, GF_NPY_I8, 1, f->n, 0, r->sample));
    if (!t->names) return GLOFND_OK;
    TRY(gf_writer_open(err, &w, t->names));
    for (int64_t i = 0; i < f->n; i++) {
        name_of(r, i, name);
        put_text(&w, name);
        put_text(&w, "\n");
    }
    return gf_writer_finish(&w);
}

typedef struct result {
    eval_progress line;
    gf_dataset *data;
    gf_features f;
    int64_t *sample;  /* [f.n] whose image or caption a row is */
    uint8_t *bad;     /* images: [samples] 1: left out */
    int64_t n;        /* samples of the dataset */
    int64_t left_out; /* samples, or captions */
} result;

/* ----- encoding ----- */

static void note_unreadable(void *user, int64_t i, const char *message) {
    result *r = user;
    if (r->bad && i >= 0 && i < r->n) {
        if (r->bad[i]) return;
        r->bad[i] = 1;
    }
    if (r->left_out++ < EVAL_NAMED) gf_print(stderr, "glofnd embed: sample %lld is left out: %s\n", (long long)i, message);
}

static void draw(void *user, int64_t done, int64_t total) {
    result *r = user;
    eval_progress_draw(&r->line, done, total);
}

static glofnd_status encode_images(gf_error *err, gf_run_encoder *e, const gf_dataset *d, result *r) {
    const gf_encode_spec spec = {.aligned = 1, .unreadable = note_unreadable, .progress = draw, .user = r};
    r->bad = calloc((size_t)r->n, 1);
    r->sample = malloc((size_t)r->n * sizeof *r->sample);
    FAIL_IF(err, !r->bad || !r->sample, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)r->n);
    TRY(gf_encode_samples(err, e, d, &spec, &r->f));
    /* Closes the gaps of samples that are left out. */
    gf_features *f = &r->f;
    int64_t rows = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->bad[i]) continue;
        memmove(f->x + rows * f->dim, f->x + i * f->dim, (size_t)f->dim * sizeof *f->x);
        f->label[rows] = f->label[i];
        r->sample[rows++] = i;
    }
    f->n = rows;
    FAIL_IF(err, r->f.n == 0, GLOFND_E_FORMAT, "none of %lld samples can be read", (long long)r->n);
    return GLOFND_OK;
}

/* ----- arguments ----- */

typedef struct embed_flags {
    const char *data, *weights, *arch;
    int64_t size;
    embed_targets files;
    int32_t head, text, untrained, quick_gelu;
    device_flags device;
} embed_flags;

/* run NULL: weights of a file. */
static glofnd_status encode_dataset(gf_error *err, const embed_flags *f, const char *run, const gf_encoder_device *where,
                                    result *r) {
    gf_run_encoder *e = NULL;
    gf_config c;
    gf_run_encoder_spec spec = {.run = run, .head = f->head, .text = f->text, .untrained = f->untrained, .placement = *where};
    const gf_weights_request request = {.arch = f->arch, .size = (int)f->size, .quick_gelu = f->quick_gelu};
    /* The data that is named, or that of the run. */
    char found[PATH_MAX + 1024];
    if (f->data) TRY(gf_dataset_open(err, f->data, &r->data));
    else {
        TRY(gf_run_data_of(err, run, found, sizeof found));
        TRY(gf_run_encoder_data_hint(err, gf_dataset_open(err, found, &r->data)));
    }
    if (!run) {
        TRY(gf_weights_config(err, f->weights, &request, r->data, &c));
        spec.config = &c, spec.weights = f->weights;
    }
    TRY(device_flags_open(err, "embed", &spec, &e));
    const int text = f->text;
    const gf_encode_spec encode_spec = {.unreadable = note_unreadable, .progress = draw, .user = r};
    if (*gf_dataset_note(r->data)) gf_print(stderr, "glofnd embed: %s\n", gf_dataset_note(r->data));
    r->n = gf_dataset_describe(r->data).n;
    eval_progress_begin(&r->line, text ? "captions" : "images");
    const glofnd_status status =
        text ? gf_encode_captions(err, e, r->data, &encode_spec, &r->f, &r->sample) : encode_images(err, e, r->data, r);
    eval_progress_end(&r->line);
    gf_run_encoder_free(e);
    return status;
}

static int embed_and_write(const embed_flags *f, const char *run, const gf_encoder_device *where) {
    gf_error err = {{0}};
    result r = {.n = 0};
    glofnd_status status = check_targets(&err, &f->files);
    if (status == GLOFND_OK) status = encode_dataset(&err, f, run, where, &r);
    if (status == GLOFND_OK) status = write_files(&err, &f->files, &(embed_rows){&r.f, r.sample, r.data});
    if (status == GLOFND_OK) {
        const char *what = f->text ? "embeddings of captions" : f->head ? "projections" : "features";
        gf_print(stdout, "%lld x %lld %s written to %s\n", (long long)r.f.n, (long long)r.f.dim, what, f->files.out);
        if (r.left_out && f->text)
            gf_print(stderr, "glofnd embed: %lld samples or captions are left out\n", (long long)r.left_out);
        else if (r.left_out)
            gf_print(stderr, "glofnd embed: %lld of %lld samples are left out, and rows move up: %s\n", (long long)r.left_out,
                     (long long)r.n,
                     f->files.samples ? "--samples has the sample of each row" : "--samples FILE.npy lists those that remain");
    }
    const int code = status == GLOFND_OK ? CLI_OK : cli_failed("embed", status, &err);
    gf_features_free(&r.f);
    gf_dataset_free(r.data);
    free(r.sample);
    free(r.bad);
    return code;
}

static const gf_option rows[] = {
    CLI_STRING(embed_flags, data, "data", "SPEC", "images to encode, as in `glofnd pretrain`; default: the run's"),
    CLI_STRING(embed_flags, files.out, "out", "FILE",
               "output file: float32 [rows][features], one row per readable sample, in order; .npy, .safetensors or .csv"),
    CLI_SWITCH(embed_flags, head, "head",
               "output of the projection head instead of backbone features (task clip: always the embeddings)"),
    CLI_SWITCH(embed_flags, text, "text", "task clip: encode captions instead of images, one row per caption"),
    CLI_STRING(embed_flags, files.labels, "labels", "FILE.npy", "also write the labels: int32 [rows], -1 for none"),
    CLI_STRING(embed_flags, files.samples, "samples", "FILE.npy", "also write the sample number of each row: int64 [rows]"),
    CLI_STRING(embed_flags, files.names, "names", "FILE", "also write the sample names, one line per row"),
    CLI_SWITCH(embed_flags, untrained, "untrained", "with the weights the run began with"),
    CLI_STRING(embed_flags, weights, "weights", "FILE", "instead of a run: .safetensors of torchvision or open_clip"),
    CLI_STRING(embed_flags, arch, "arch", "NAME", "architecture of --weights; default: inferred from the tensor shapes"),
    CLI_INTEGER(embed_flags, size, "size", "PX", NULL, 8, 1024,
                "image size in pixels for --weights; default: as stated in the file, else 224"),
    CLI_SWITCH(embed_flags, quick_gelu, "quick-gelu", "--weights are those of an OpenAI ViT"),
    DEVICE_FLAGS(embed_flags, device),
};

static int run_embed(const cli_call *call, const void *flags) {
    const embed_flags *f = flags;
    const int run = call->words > 0;
    gf_encoder_device where;
    if (!run && !f->weights) return cli_misused(call, "RUN is missing: the folder of a run; or --weights FILE");
    if (run && f->weights) return cli_misused(call, "a RUN or --weights: not both");
    if (run && (f->arch || f->size || f->quick_gelu))
        return cli_misused(call, "--arch, --size and --quick-gelu go with --weights");
    if (!run && (f->head || f->text || f->untrained)) return cli_misused(call, "--head, --text and --untrained go with a RUN");
    if (!run && !f->data) return cli_misused(call, "--data is missing: the SPEC of the samples");
    if (!f->files.out) return cli_misused(call, "--out is missing: the file to write");
    if (f->head && f->text) return cli_misused(call, "--head and --text exclude each other: embeddings of captions have no head");
    const int code = device_flags_read(call, &f->device, &where);
    return code == CLI_OK ? embed_and_write(f, run ? call->word[0] : NULL, &where) : code;
}

const cli_verb cmd_embed = {
    .name = "embed",
    .summary = "encode a dataset with a trained run: .npy, .safetensors or .csv",
    .usage = "glofnd embed RUN [--data SPEC] --out FILE [--head | --text] [--labels FILE.npy] [--samples FILE.npy]\n"
             "             [--names FILE] [--untrained] " DEVICE_USAGE "\n"
             "       glofnd embed --weights FILE [--arch NAME] [--size PX] --data SPEC --out FILE ...",
    CLI_FLAGS(rows, embed_flags),
    .word = "RUN",
    .word_help = "the folder of a run",
    .max_words = 1,
    .shows_progress = 1,
    .run = run_embed,
};
