/* cmd_embed.c - glofnd embed: the features of a dataset, or the embeddings of its captions, as a .npy file. */
#include <stdio.h>
#include <stdlib.h>

#include "io/npy.h"
#include "where.h"

static const char usage[] = "glofnd embed RUN --data SPEC --out FILE.npy [--head | --text] [--labels FILE.npy]\n"
                            "             [--samples FILE.npy] [--untrained] " WHERE_USAGE;

typedef struct result {
    gf_features f;
    int64_t *sample;            /* --text: [f.n] whose caption a row is; else NULL */
    int64_t damaged;
} result;

static void warn_damaged(void *user, int64_t i, const char *message) {
    int64_t *count = user;
    ++*count;
    fprintf(stderr, "glofnd embed: sample %lld is left out: %s\n", (long long)i, message);
}

static glofnd_status encode(gf_error *err, const gf_encoder_spec *spec, const char *data, result *r) {
    gf_dataset *d = NULL;
    gf_encoder *e = NULL;
    const gf_encode_spec tell = {.damaged = warn_damaged, .user = &r->damaged};
    glofnd_status status = gf_dataset_open(err, data, &d);
    if (status == GLOFND_OK) status = where_open(err, "embed", spec, &e);
    if (status == GLOFND_OK)
        status = spec->text ? gf_encode_captions(err, e, d, &tell, &r->f, &r->sample)
                            : gf_encode_samples(err, e, d, &tell, &r->f);
    gf_encoder_free(e);
    gf_dataset_free(d);
    return status;
}

static glofnd_status write_files(gf_error *err, const result *r, const char *out, const char *labels, const char *samples) {
    const gf_features *f = &r->f;
    const gf_npy x = {.type = GF_NPY_F4, .rank = 2, .shape = {f->n, f->dim}, .data = f->x};
    const gf_npy y = {.type = GF_NPY_I4, .rank = 1, .shape = {f->n}, .data = f->label};
    const gf_npy z = {.type = GF_NPY_I8, .rank = 1, .shape = {f->n}, .data = r->sample};
    TRY(gf_npy_write(err, out, &x));
    if (labels) TRY(gf_npy_write(err, labels, &y));
    return samples ? gf_npy_write(err, samples, &z) : GLOFND_OK;
}

static int report(const result *r, const char *what, const char *out) {
    printf("%lld x %lld %s written to %s\n", (long long)r->f.n, (long long)r->f.dim, what, out);
    if (r->damaged)
        fprintf(stderr, "glofnd embed: %lld damaged samples left out; rows follow the readable ones\n", (long long)r->damaged);
    return CLI_OK;
}

static int wrong(const char *why) {
    fprintf(stderr, "glofnd embed: %s\nusage: %s\n", why, usage);
    return CLI_USAGE;
}

int cmd_embed(int argc, char **argv) {
    const char *data = NULL, *out = NULL, *head = NULL, *text = NULL, *labels = NULL, *samples = NULL, *untrained = NULL;
    where_flags where = {0};
    const cli_flag flags[] = {
        {"data", "SPEC", "images to encode, as of `glofnd pretrain`", &data},
        {"out", "FILE.npy", "float32 [samples][features]", &out},
        {"head", NULL, "projections of the head instead of features of the backbone (task clip: embeddings, always)", &head},
        {"text", NULL, "task clip: every caption of every sample instead of the images, a row each", &text},
        {"labels", "FILE.npy", "also write the labels, int32 [rows], -1 where there is none", &labels},
        {"samples", "FILE.npy", "with --text: also write which sample a row belongs to, int64 [rows]", &samples},
        {"untrained", NULL, "with the weights the run began with", &untrained},
        WHERE_FLAGS(where),
    };
    int n;
    int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if (n != 1) return wrong(n < 1 ? "RUN is missing: the folder of a run" : "several runs are given; it takes one");
    if (!data || !out) return wrong(data ? "--out is missing: the file to write" : "--data is missing: the SPEC of the samples");
    if (samples && !text) return wrong("--samples belongs to --text: without it row i is sample i of those that can be read");
    if (head && text) return wrong("--head and --text exclude each other: embeddings of captions have no head");
    gf_error err = {{0}};
    result r = {.damaged = 0};
    gf_encoder_spec spec = {.run = argv[1], .head = head != NULL, .text = text != NULL, .untrained = untrained != NULL};
    if ((code = where_read(argv[0], &where, &spec.where))) return code;
    glofnd_status status = encode(&err, &spec, data, &r);
    if (status == GLOFND_OK) status = write_files(&err, &r, out, labels, samples);
    const int done = status == GLOFND_OK ? report(&r, text ? "embeddings of captions" : head ? "projections" : "features", out)
                                         : cli_failed("embed", status, &err);
    gf_features_free(&r.f);
    free(r.sample);
    return done;
}
