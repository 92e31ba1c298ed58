/* cmd_embed.c - glofnd embed: the features of a dataset, as a .npy file. */
#include <stdio.h>

#include "cli.h"
#include "eval/encode.h"
#include "io/npy.h"

static const char usage[] = "glofnd embed RUN --data SPEC --out FILE.npy [--head] [--labels FILE.npy] [--untrained]";

static void warn_damaged(void *user, int64_t i, const char *message) {
    int64_t *count = user;
    ++*count;
    fprintf(stderr, "glofnd embed: sample %lld is left out: %s\n", (long long)i, message);
}

static glofnd_status encode(gf_error *err, const gf_encoder_spec *spec, const char *data, gf_features *f, int64_t *damaged) {
    gf_dataset *d = NULL;
    gf_encoder *e = NULL;
    glofnd_status status = gf_dataset_open(err, data, &d);
    if (status == GLOFND_OK) status = gf_encoder_open(err, spec, &e);
    if (status == GLOFND_OK) status = gf_encode(err, e, d, warn_damaged, damaged, f);
    gf_encoder_free(e);
    gf_dataset_free(d);
    return status;
}

static glofnd_status write_files(gf_error *err, const gf_features *f, const char *out, const char *labels) {
    const gf_npy x = {.type = GF_NPY_F4, .rank = 2, .shape = {f->n, f->dim}, .data = f->x};
    const gf_npy y = {.type = GF_NPY_I4, .rank = 1, .shape = {f->n}, .data = f->label};
    TRY(gf_npy_write(err, out, &x));
    return labels ? gf_npy_write(err, labels, &y) : GLOFND_OK;
}

int cmd_embed(int argc, char **argv) {
    const char *data = NULL, *out = NULL, *head = NULL, *labels = NULL, *untrained = NULL;
    const cli_flag flags[] = {
        {"data", "SPEC", "images to encode, as of `glofnd pretrain`", &data},
        {"out", "FILE.npy", "float32 [samples][features]", &out},
        {"head", NULL, "projections of the head instead of features of the backbone", &head},
        {"labels", "FILE.npy", "also write the labels, int32 [samples], -1 where there is none", &labels},
        {"untrained", NULL, "with the weights the run began with", &untrained},
    };
    int n;
    const int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if (n != 1 || !data || !out) {
        fprintf(stderr, "usage: %s\n", usage);
        return CLI_USAGE;
    }
    gf_error err = {{0}};
    gf_features f = {0};
    int64_t damaged = 0;
    const gf_encoder_spec spec = {.run = argv[1], .head = head != NULL, .untrained = untrained != NULL};
    glofnd_status status = encode(&err, &spec, data, &f, &damaged);
    if (status == GLOFND_OK) status = write_files(&err, &f, out, labels);
    if (status == GLOFND_OK)
        printf("%lld x %lld %s written to %s\n", (long long)f.n, (long long)f.dim, head ? "projections" : "features", out);
    if (damaged) fprintf(stderr, "glofnd embed: %lld damaged samples left out; rows follow the readable ones\n",
            (long long)damaged);
    gf_features_free(&f);
    return status == GLOFND_OK ? CLI_OK : cli_failed("embed", status, &err);
}
