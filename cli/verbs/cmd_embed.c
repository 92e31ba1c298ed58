/* cmd_embed.c - glofnd embed: the features of a dataset, or the embeddings of its captions, as a .npy file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device_flags.h"
#include "cli/trained_run.h"
#include "io/blockfile.h"
#include "io/folders.h"
#include "io/npy.h"
#include "run/state/own_files.h"

typedef struct targets { /* files to write; NULL: not wanted */
    const char *out, *labels, *samples;
} targets;

typedef struct result {
    eval_progress line;
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

/* Closes the gaps of samples that are left out. */
static void drop_bad_rows(result *r) {
    gf_features *f = &r->f;
    int64_t rows = 0;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->bad[i]) continue;
        memmove(f->x + rows * f->dim, f->x + i * f->dim, (size_t)f->dim * sizeof *f->x);
        f->label[rows] = f->label[i];
        r->sample[rows++] = i;
    }
    f->n = rows;
}

static glofnd_status encode_images(gf_error *err, gf_run_encoder *e, const gf_dataset *d, result *r) {
    const gf_encode_spec spec = {.aligned = 1, .unreadable = note_unreadable, .progress = draw, .user = r};
    r->bad = calloc((size_t)r->n, 1);
    r->sample = malloc((size_t)r->n * sizeof *r->sample);
    FAIL_IF(err, !r->bad || !r->sample, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)r->n);
    TRY(gf_encode_samples(err, e, d, &spec, &r->f));
    drop_bad_rows(r);
    FAIL_IF(err, r->f.n == 0, GLOFND_E_FORMAT, "none of %lld samples can be read", (long long)r->n);
    return GLOFND_OK;
}

static glofnd_status encode(gf_error *err, const gf_run_encoder_spec *spec, const char *data, result *r) {
    gf_dataset *d = NULL;
    gf_run_encoder *e = NULL;
    const gf_encode_spec spec_of_captions = {.unreadable = note_unreadable, .progress = draw, .user = r};
    glofnd_status status = gf_dataset_open(err, data, &d);
    if (status == GLOFND_OK) status = device_flags_open(err, "embed", spec, &e);
    if (status == GLOFND_OK) {
        if (*gf_dataset_note(d)) gf_print(stderr, "glofnd embed: %s\n", gf_dataset_note(d));
        r->n = gf_dataset_describe(d).n;
        eval_progress_begin(&r->line, spec->text ? "captions" : "images");
        status = spec->text ? gf_encode_captions(err, e, d, &spec_of_captions, &r->f, &r->sample) : encode_images(err, e, d, r);
        eval_progress_end(&r->line);
    }
    gf_run_encoder_free(e);
    gf_dataset_free(d);
    return status;
}

/* ----- files ----- */

/* Fails before the work if no file can be written there. */
static glofnd_status try_target(gf_error *err, const char *path) {
    gf_writer w;
    if (!path) return GLOFND_OK;
    TRY(gf_writer_open(err, &w, path));
    gf_writer_close(&w);
    return GLOFND_OK;
}

static glofnd_status try_targets(gf_error *err, const targets *t) {
    TRY(gf_own_files_check(err, "--out", t->out));
    TRY(gf_own_files_check(err, "--labels", t->labels));
    TRY(gf_own_files_check(err, "--samples", t->samples));
    TRY(try_target(err, t->out));
    TRY(try_target(err, t->labels));
    return try_target(err, t->samples);
}

static glofnd_status write_files(gf_error *err, const result *r, const targets *t) {
    const gf_features *f = &r->f;
    const gf_npy x = {.type = GF_NPY_F4, .rank = 2, .shape = {f->n, f->dim}, .data = f->x};
    const gf_npy y = {.type = GF_NPY_I4, .rank = 1, .shape = {f->n}, .data = f->label};
    const gf_npy z = {.type = GF_NPY_I8, .rank = 1, .shape = {f->n}, .data = r->sample};
    TRY(gf_npy_write(err, t->out, &x));
    if (t->labels) TRY(gf_npy_write(err, t->labels, &y));
    return t->samples ? gf_npy_write(err, t->samples, &z) : GLOFND_OK;
}

static int report(const result *r, const char *what, const targets *t, int text) {
    gf_print(stdout, "%lld x %lld %s written to %s\n", (long long)r->f.n, (long long)r->f.dim, what, t->out);
    if (r->left_out && text) gf_print(stderr, "glofnd embed: %lld samples or captions are left out\n", (long long)r->left_out);
    else if (r->left_out)
        gf_print(stderr, "glofnd embed: %lld of %lld samples are left out, and rows move up: %s\n", (long long)r->left_out,
                 (long long)r->n,
                 t->samples ? "--samples has the sample of each row" : "--samples FILE.npy lists those that remain");
    return CLI_OK;
}

/* ----- arguments ----- */

static int is_same_file(const char *a, const char *b) { return a && b && gf_path_same(a, b); }

static int targets_differ(const targets *t) {
    return !is_same_file(t->out, t->labels) && !is_same_file(t->out, t->samples) && !is_same_file(t->labels, t->samples);
}

static int embed(const gf_run_encoder_spec *spec, const char *data, const targets *t) {
    gf_error err = {{0}};
    result r = {.n = 0};
    glofnd_status status = try_targets(&err, t);
    if (status == GLOFND_OK) status = encode(&err, spec, data, &r);
    if (status == GLOFND_OK) status = write_files(&err, &r, t);
    const char *what = spec->text ? "embeddings of captions" : spec->head ? "projections" : "features";
    const int code = status == GLOFND_OK ? report(&r, what, t, spec->text) : cli_failed("embed", status, &err);
    gf_features_free(&r.f);
    free(r.sample);
    free(r.bad);
    return code;
}

typedef struct embed_flags {
    const char *data;
    targets files;
    int32_t head, text, untrained;
    device_flags device;
} embed_flags;

static const gf_option rows[] = {
    CLI_STRING(embed_flags, data, "data", "SPEC", "images to encode, as of `glofnd pretrain`"),
    CLI_STRING(embed_flags, files.out, "out", "FILE.npy",
               "float32 [rows][features]: a row per sample that can be read, in their order"),
    CLI_SWITCH(embed_flags, head, "head",
               "projections of the head instead of features of the backbone (task clip: embeddings, always)"),
    CLI_SWITCH(embed_flags, text, "text", "task clip: every caption of every sample instead of the images, a row each"),
    CLI_STRING(embed_flags, files.labels, "labels", "FILE.npy", "also write the labels, int32 [rows], -1 where there is none"),
    CLI_STRING(embed_flags, files.samples, "samples", "FILE.npy", "also write which sample a row belongs to, int64 [rows]"),
    CLI_SWITCH(embed_flags, untrained, "untrained", "with the weights the run began with"),
    DEVICE_FLAGS(embed_flags, device),
};

static int run(const cli_call *call, const void *flags) {
    const embed_flags *f = flags;
    gf_run_encoder_spec spec = {.run = call->word[0], .head = f->head, .text = f->text, .untrained = f->untrained};
    if (!f->data) return cli_misused(call, "--data is missing: the SPEC of the samples");
    if (!f->files.out) return cli_misused(call, "--out is missing: the file to write");
    if (!targets_differ(&f->files)) return cli_misused(call, "--out, --labels and --samples must be different files");
    if (f->head && f->text) return cli_misused(call, "--head and --text exclude each other: embeddings of captions have no head");
    const int code = device_flags_read(call, &f->device, &spec.placement);
    return code == CLI_OK ? embed(&spec, f->data, &f->files) : code;
}

const cli_verb cmd_embed = {
    .name = "embed",
    .summary = "features of a dataset by the encoder of a run, as .npy",
    .usage = "glofnd embed RUN --data SPEC --out FILE.npy [--head | --text] [--labels FILE.npy]\n"
             "             [--samples FILE.npy] [--untrained] " DEVICE_USAGE,
    CLI_FLAGS(rows, embed_flags),
    .word = "RUN",
    .word_help = "the folder of a run",
    .min_words = 1,
    .max_words = 1,
    .shows_progress = 1,
    .run = run,
};
