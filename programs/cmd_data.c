/* cmd_data.c - glofnd data: inspect, index, draw and export datasets; learn a vocabulary from their captions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/captions.h"
#include "data/dataset.h"
#include "data/export.h"
#include "data/formats/wds.h"
#include "io/blockfile.h"
#include "programs/cli.h"
#include "text/bpe.h"

#define SPECS                                                                                                               \
    "SPEC:   shapes:n=4096,classes=20,size=32 cifar10:DIR cifar100:DIR mnist:DIR fashion_mnist:DIR folder:DIR wds:PATTERN " \
    "list:FILE csv:FILE; published "                                                                                        \
    "datasets as they are unpacked: pets:DIR flowers:DIR cars:DIR food101:DIR dtd:DIR caltech101:DIR "                      \
    "tinyimagenet:DIR imagenet:DIR; docs/data.md"
#define TAKES_SPEC .word = "SPEC", .word_help = "what data", .min_words = 1, .max_words = 1

static int open_data(const char *spec, gf_dataset **d) {
    gf_error err = {{0}};
    const glofnd_status status = gf_dataset_open(&err, spec, d);
    return status == GLOFND_OK ? CLI_OK : cli_failed("data", status, &err);
}

/* A note is no result: it goes to stderr. */
static void report_note(const gf_dataset *d) {
    if (*gf_dataset_note(d)) gf_print(stderr, "glofnd data: %s\n", gf_dataset_note(d));
}

/* ---- info ---- */

static int run_info(const cli_call *call, const void *flags) {
    gf_dataset *d = NULL;
    (void)flags;
    const int code = open_data(call->word[0], &d);
    if (code != CLI_OK) return code;
    const gf_dataset_info x = gf_dataset_describe(d);
    char test[4300], name[512];
    gf_print(stdout, "format     %s\nsamples    %lld\n", x.format, (long long)x.n);
    /* The dataset that the SPEC names, and the images that each of its splits has here. */
    const gf_known_dataset *k = gf_dataset_known(d);
    char spec[4300];
    if (k) {
        gf_print(stdout, "dataset    %s, scored by %s\n", k->full, gf_scoring_title(k->scoring));
        for (const gf_known_split *s = k->split; s->name; s++) {
            gf_dataset *split = NULL;
            gf_error err = {{0}};
            if (!gf_dataset_split_spec(d, s->name, spec, sizeof spec)) continue;
            if (gf_dataset_open(&err, spec, &split) == GLOFND_OK)
                gf_print(stdout, "split      %-9s %lld images of %d classes%s\n", s->name,
                         (long long)gf_dataset_describe(split).n, (int)gf_dataset_describe(split).classes,
                         gf_dataset_as_known(split) ? "" : ", NOT as published");
            else gf_print(stdout, "split      %-9s not there: %s\n", s->name, err.text);
            gf_dataset_free(split);
        }
    }
    const gf_sizes s = gf_dataset_sizes(d);
    if (s.other_width)
        gf_print(stdout, "size       differs: %d x %d, %d x %d ...\n", s.width, s.height, s.other_width, s.other_height);
    else if (s.read == 0)
        gf_print(stdout, "size       unknown: none of the %lld images that were tried can be read\n", (long long)s.probed);
    else if (s.read == x.n) gf_print(stdout, "size       %d x %d\n", s.width, s.height);
    else gf_print(stdout, "size       %d x %d, by %lld of the images\n", s.width, s.height, (long long)s.read);
    gf_print(stdout, "view       %d pixels, unless --size says otherwise\n", gf_sizes_default_view(&s));
    if (x.classes > 0) {
        int64_t *count = calloc((size_t)x.classes, sizeof *count);
        int64_t none = 0;
        if (count) {
            for (int64_t i = 0; i < x.n; i++) {
                const int32_t label = gf_dataset_label(d, i);
                if (label >= 0 && label < x.classes) count[label]++;
                else none++;
            }
            int64_t smallest = x.n, largest = 0;
            for (int32_t c = 0; c < x.classes; c++) {
                smallest = count[c] < smallest ? count[c] : smallest;
                largest = count[c] > largest ? count[c] : largest;
            }
            gf_print(stdout, "classes    %d, with %lld to %lld samples", (int)x.classes, (long long)smallest, (long long)largest);
            if (none) gf_print(stdout, "; %lld without label", (long long)none);
            gf_print(stdout, "\n");
            free(count);
        }
    } else gf_print(stdout, "classes    none\n");
    /* The number of captions of the first sample, and the first of them. */
    gf_sample sample = {0};
    if (!x.has_text || gf_dataset_text(NULL, d, 0, &sample) != GLOFND_OK) {
        gf_print(stdout, "captions   %s\n", x.has_text ? "yes" : "no");
    } else if (!gf_captions_count(sample.text)) {
        gf_print(stdout, "captions   yes; the first sample has none\n");
    } else {
        const gf_caption c = gf_caption_at(sample.text, 0);
        gf_print(stdout, "captions   yes; the first sample has %lld: %.*s\n", (long long)gf_captions_count(sample.text),
                 (int)(c.n < 200 ? c.n : 200), c.text);
    }
    gf_sample_free(&sample);
    gf_print(stdout, "test split %s\n", gf_dataset_test_spec(d, test, sizeof test) ? test : "none of its own");
    if (x.n > 0) {
        gf_dataset_name(d, 0, name, sizeof name);
        gf_print(stdout, "first      %s\n", name);
    }
    if (*gf_dataset_note(d)) gf_print(stdout, "note       %s\n", gf_dataset_note(d));
    gf_dataset_free(d);
    return CLI_OK;
}

/* ---- index ---- */

static int index_shards(const cli_call *call, const void *flags) {
    const char *spec = call->word[0];
    gf_error err = {{0}};
    (void)flags;
    int64_t shards = 0, samples = 0;
    if (strncmp(spec, "wds:", 4) != 0) {
        gf_print(stderr, "glofnd data: index is for wds: datasets; \"%s\" is something else\n", spec);
        return CLI_USAGE;
    }
    const glofnd_status status = gf_wds_index_all(&err, spec + 4, &shards, &samples);
    if (status != GLOFND_OK) return cli_failed("data", status, &err);
    gf_print(stdout, "%lld samples in %lld shards indexed\n", (long long)samples, (long long)shards);
    gf_dataset *d = NULL; /* from the indexes */
    if (gf_dataset_open(NULL, spec, &d) == GLOFND_OK) report_note(d);
    gf_dataset_free(d);
    return CLI_OK;
}

/* ---- synth: a contact sheet ---- */

typedef struct synth_flags {
    const char *out;
    int64_t rows, columns, cell;
} synth_flags;

static const gf_option synth_rows[] = {
    CLI_STRING(synth_flags, out, "out", "FILE.png", "the picture to write"),
    CLI_INTEGER(synth_flags, rows, "rows", "N", "8", 1, 200, "rows of the contact sheet"),
    CLI_INTEGER(synth_flags, columns, "columns", "N", "16", 1, 200, "columns of the contact sheet"),
    CLI_INTEGER(synth_flags, cell, "cell", "N", "64", 8, 1024, "pixels per sample"),
};

static int synth(const cli_call *call, const void *flags) {
    const synth_flags *f = flags;
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    if (!f->out) return cli_misused(call, "--out is needed");
    const int code = open_data(call->word[0], &d);
    if (code != CLI_OK) return code;
    const char *path = f->out;
    gf_image sheet = {0};
    uint8_t *png = NULL;
    size_t bytes = 0;
    glofnd_status status = gf_dataset_sheet(&err, d, 0, (int)f->rows, (int)f->columns, (int)f->cell, &sheet);
    if (status == GLOFND_OK) status = gf_image_encode_png(&err, &sheet, &png, &bytes);
    if (status == GLOFND_OK) status = gf_file_write(&err, path, png, bytes);
    free(png);
    gf_image_free(&sheet);
    gf_dataset_free(d);
    if (status != GLOFND_OK) return cli_failed("data", status, &err);
    gf_print(stdout, "%d x %d samples drawn to %s\n", (int)f->rows, (int)f->columns, f->out);
    return CLI_OK;
}

/* ---- export ---- */

static int show_progress(void *user, int64_t done, int64_t total) {
    (void)user;
    if (isatty(STDERR_FILENO)) gf_print(stderr, "\r%lld of %lld samples", (long long)done, (long long)total);
    return atomic_load(&cli_interrupted) && done < total;
}

typedef struct export_flags {
    const char *out;
    int32_t folder, strict;
    int64_t per_shard;
} export_flags;

static const gf_option export_rows[] = {
    CLI_STRING(export_flags, out, "out", "DIR", "the folder to write"),
    CLI_SWITCH(export_flags, folder, "folder", "class folders of PNG files instead of WebDataset shards"),
    CLI_INTEGER(export_flags, per_shard, "per-shard", "N", "10000", 1, 0x1p40, "samples per shard"),
    CLI_SWITCH(export_flags, strict, "strict", "fail on unreadable samples, truncated shards and ambiguous labels or captions"),
};

static int export(const cli_call *call, const void *flags) {
    const export_flags *f = flags;
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    if (!f->out) return cli_misused(call, "--out is needed");
    const int code = open_data(call->word[0], &d);
    if (code != CLI_OK) return code;
    const gf_export e = {
        .form = f->folder ? GF_EXPORT_FOLDER : GF_EXPORT_WDS,
        .folder = f->out,
        .per_shard = f->per_shard,
        .strict = f->strict,
        .progress = show_progress,
    };
    gf_export_result result = {0};
    report_note(d);
    cli_catch_interrupts(NULL);
    const glofnd_status status = gf_dataset_export(&err, d, &e, &result);
    const gf_dataset_info x = gf_dataset_describe(d);
    gf_dataset_free(d);
    if (isatty(STDERR_FILENO)) gf_print(stderr, "\r\033[K");
    if (status != GLOFND_OK) return cli_failed("data", status, &err);
    const int captions = f->folder && x.has_text;
    const int whole = result.written + result.unreadable == x.n;
    if (!whole)
        gf_print(stderr, "glofnd data: stopped after %lld of %lld samples; delete %s before the next attempt\n",
                 (long long)(result.written + result.unreadable), (long long)x.n, e.folder);
    gf_print(stdout, "%lld samples written, %lld unreadable ones left out; open them as %s", (long long)result.written,
             (long long)result.unreadable, result.spec);
    if (captions) gf_print(stdout, ", with captions as csv:%s/captions.csv", e.folder);
    gf_print(stdout, "\n");
    return whole ? CLI_OK : CLI_FAILED;
}

/* ---- bpe ---- */

static void show_count(int64_t done, int64_t total) {
    gf_print(stderr, "\r%lld of %lld samples", (long long)done, (long long)total);
}

typedef struct bpe_flags {
    const char *out;
    int64_t merges;
} bpe_flags;

_Static_assert(GF_BPE_MERGES_MAX == 48894, "the default below");
static const gf_option bpe_rows[] = {
    CLI_STRING(bpe_flags, out, "out", "FILE", "the merges to write, gzip if it ends in .gz"),
    CLI_INTEGER(bpe_flags, merges, "merges", "N", "48894", 0, GF_BPE_MERGES_MAX, "merges to learn at most, as CLIP has"),
};

static int bpe(const cli_call *call, const void *flags) {
    const bpe_flags *f = flags;
    if (!f->out) return cli_misused(call, "--out is needed");
    const char *spec = call->word[0];
    const char *out = f->out;
    const int64_t merges = f->merges;
    const int terminal = isatty(STDERR_FILENO);
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    gf_captions_read met = {0};
    gf_bpe_learned learned = {0};
    glofnd_status status = gf_dataset_open(&err, spec, &d);
    if (status == GLOFND_OK) status = gf_captions_learn(&err, d, (int)merges, out, terminal ? show_count : NULL, &met, &learned);
    if (terminal) gf_print(stderr, "\r\033[K");
    if (status == GLOFND_OK) {
        gf_print(stdout, "captions   %lld, %lld words, %lld different\n", (long long)met.captions, (long long)met.words,
                 (long long)met.different);
        if (met.without) gf_print(stdout, "without    %lld samples have no caption\n", (long long)met.without);
        if (met.unreadable)
            gf_print(stdout, "unreadable %lld samples left out, the first: %s\n", (long long)met.unreadable, met.first.text);
        gf_print(stdout, "vocabulary %d tokens, %d merges, written to %s\n", (int)learned.vocab, learned.merges, out);
    }
    gf_dataset_free(d);
    return status == GLOFND_OK ? CLI_OK : cli_failed("data", status, &err);
}

/* ---- entry ---- */

#define INFO_USAGE "glofnd data info SPEC                     samples, sizes, classes, captions, test split"
#define INDEX_USAGE "glofnd data index wds:PATTERN             index of WebDataset shards, stored next to them"
#define SYNTH_USAGE "glofnd data synth SPEC --out FILE.png     a sheet of samples to look at"
#define BPE_USAGE "glofnd data bpe SPEC --out FILE.gz        a vocabulary learned from its captions"
#define EXPORT_USAGE "glofnd data export SPEC --out DIR         WebDataset shards, or with --folder PNG files"

static const cli_verb *const verbs[] = {
    &(const cli_verb){.name = "info", .usage = INFO_USAGE "\n" SPECS, .run = run_info, TAKES_SPEC},
    &(const cli_verb){.name = "index", .usage = INDEX_USAGE, .run = index_shards, TAKES_SPEC},
    &(const cli_verb){
        .name = "synth", .usage = SYNTH_USAGE "\n" SPECS, CLI_FLAGS(synth_rows, synth_flags), .run = synth, TAKES_SPEC},
    &(const cli_verb){
        .name = "export", .usage = EXPORT_USAGE "\n" SPECS, CLI_FLAGS(export_rows, export_flags), .run = export, TAKES_SPEC},
    &(const cli_verb){.name = "bpe", .usage = BPE_USAGE "\n" SPECS, CLI_FLAGS(bpe_rows, bpe_flags), .run = bpe, TAKES_SPEC},
    NULL,
};

const cli_verb cmd_data = {
    .name = "data",
    .summary = "inspect, index, draw and export datasets",
    .verbs = verbs,
    .verbs_usage =
        INFO_USAGE "\n       " INDEX_USAGE "\n       " SYNTH_USAGE "\n       " BPE_USAGE "\n       " EXPORT_USAGE "\n" SPECS,
};
