/* cmd_data.c - glofnd data: look at, index, draw and export datasets; learn from their captions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/verbs/data_verbs.h"
#include "data/dataset.h"
#include "data/export.h"
#include "data/formats/wds.h"
#include "io/blockfile.h"
#include "text/bpe/bpe_symbols.h"
#include "text/captions.h"

static const char usage[] = "glofnd data info SPEC                     samples, sizes, classes, captions, test split\n"
                            "       glofnd data index wds:PATTERN             index of WebDataset shards, kept beside them\n"
                            "       glofnd data synth SPEC --out FILE.png     a sheet of samples to look at\n"
                            "       glofnd data bpe SPEC --out FILE.gz        a vocabulary learned from its captions\n"
                            "       glofnd data export SPEC --out DIR         WebDataset shards, or with --folder PNG files\n"
                            "SPEC: shapes:n=4096,classes=20,size=32  cifar10:DIR  cifar100:DIR  folder:DIR\n"
                            "      wds:PATTERN  list:FILE  csv:FILE";

static int open_data(const char *spec, gf_dataset **d) {
    gf_error err = {{0}};
    const glofnd_status status = gf_dataset_open(&err, spec, d);
    return status == GLOFND_OK ? CLI_OK : cli_failed("data", status, &err);
}

/* What is no result goes to stderr. */
static void tell_note(const gf_dataset *d) {
    if (*gf_dataset_note(d)) fprintf(stderr, "glofnd data: %s\n", gf_dataset_note(d));
}

/* ---- info ---- */

static void print_sizes(const gf_dataset *d, int64_t n) {
    const gf_sizes s = gf_dataset_sizes(d);
    if (s.other_width) printf("size       differs: %d x %d, %d x %d ...\n", s.width, s.height, s.other_width, s.other_height);
    else if (s.read == 0) printf("size       unknown: none of the %lld images looked at can be read\n", (long long)s.probed);
    else if (s.read == n) printf("size       %d x %d\n", s.width, s.height);
    else printf("size       %d x %d, by %lld of the images\n", s.width, s.height, (long long)s.read);
    printf("view       %d pixels, unless --size says otherwise\n", gf_sizes_default_view(&s));
}

static void print_labels(const gf_dataset *d, const gf_dataset_info *info) {
    int64_t *count = calloc((size_t)info->classes, sizeof *count);
    int64_t none = 0;
    if (!count) return;
    for (int64_t i = 0; i < info->n; i++) {
        const int32_t label = gf_dataset_label(d, i);
        if (label >= 0 && label < info->classes) count[label]++;
        else none++;
    }
    int64_t least = info->n, most = 0;
    for (int32_t c = 0; c < info->classes; c++) {
        least = count[c] < least ? count[c] : least;
        most = count[c] > most ? count[c] : most;
    }
    printf("classes    %d, with %lld to %lld samples", (int)info->classes, (long long)least, (long long)most);
    if (none) printf("; %lld without label", (long long)none);
    printf("\n");
    free(count);
}

/* Somebody else's text: what a terminal would obey is shown as '?'. */
static void print_harmless(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) putchar((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
}

/* How many the first sample has, and the first of them. */
static void print_captions(const gf_dataset *d, const gf_dataset_info *x) {
    gf_sample s = {0};
    if (!x->has_text || gf_dataset_text(NULL, d, 0, &s) != GLOFND_OK) {
        printf("captions   %s\n", x->has_text ? "yes" : "no");
    } else if (!gf_captions_count(s.text)) {
        printf("captions   yes; the first sample has none\n");
    } else {
        const gf_caption c = gf_caption_at(s.text, 0);
        printf("captions   yes; the first sample has %lld: ", (long long)gf_captions_count(s.text));
        print_harmless(c.text, c.n < 200 ? c.n : 200);
        printf("\n");
    }
    gf_sample_free(&s);
}

static int info(const char *spec) {
    gf_dataset *d = NULL;
    const int code = open_data(spec, &d);
    if (code != CLI_OK) return code;
    const gf_dataset_info x = gf_dataset_describe(d);
    char test[4300], name[512];
    printf("kind       %s\nsamples    %lld\n", x.format, (long long)x.n);
    print_sizes(d, x.n);
    if (x.classes > 0) print_labels(d, &x);
    else printf("classes    none\n");
    print_captions(d, &x);
    printf("test split %s\n", gf_dataset_test_spec(d, test, sizeof test) ? test : "none of its own");
    if (x.n > 0) {
        gf_dataset_name(d, 0, name, sizeof name);
        printf("first      %s\n", name);
    }
    if (*gf_dataset_note(d)) printf("note       %s\n", gf_dataset_note(d));
    gf_dataset_free(d);
    return CLI_OK;
}

/* ---- index ---- */

static int index_shards(const char *spec) {
    gf_error err = {{0}};
    int64_t shards = 0, samples = 0;
    if (strncmp(spec, "wds:", 4) != 0) {
        fprintf(stderr, "glofnd data: index is for wds: datasets; \"%s\" is something else\n", spec);
        return CLI_USAGE;
    }
    const glofnd_status status = gf_wds_index_all(&err, spec + 4, &shards, &samples);
    if (status != GLOFND_OK) return cli_failed("data", status, &err);
    printf("%lld samples in %lld shards indexed\n", (long long)samples, (long long)shards);
    gf_dataset *d = NULL; /* from the indexes */
    if (gf_dataset_open(NULL, spec, &d) == GLOFND_OK) tell_note(d);
    gf_dataset_free(d);
    return CLI_OK;
}

/* ---- synth: a contact sheet ---- */

static glofnd_status write_sheet(gf_error *err, const gf_dataset *d, int rows, int columns, int cell, const char *path) {
    gf_image sheet = {0};
    uint8_t *png = NULL;
    size_t bytes = 0;
    glofnd_status status = gf_dataset_sheet(err, d, 0, rows, columns, cell, &sheet);
    if (status == GLOFND_OK) status = gf_image_encode_png(err, &sheet, &png, &bytes);
    if (status == GLOFND_OK) status = gf_file_write(err, path, png, bytes);
    free(png);
    gf_image_free(&sheet);
    return status;
}

static int synth(const char *spec, const char *out, int rows, int columns, int cell) {
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    const int code = open_data(spec, &d);
    if (code != CLI_OK) return code;
    const glofnd_status status = write_sheet(&err, d, rows, columns, cell, out);
    gf_dataset_free(d);
    if (status != GLOFND_OK) return cli_failed("data", status, &err);
    printf("%d x %d samples drawn to %s\n", rows, columns, out);
    return CLI_OK;
}

/* ---- export ---- */

static int show_progress(void *user, int64_t done, int64_t total) {
    (void)user;
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%lld of %lld samples", (long long)done, (long long)total);
    return atomic_load(&cli_interrupted) && done < total;
}

static int report_export(const gf_export *e, const gf_export_result *r, int64_t n, int captions) {
    const int whole = r->written + r->unreadable == n;
    if (!whole)
        fprintf(stderr, "glofnd data: stopped after %lld of %lld samples; delete %s before another try\n",
                (long long)(r->written + r->unreadable), (long long)n, e->folder);
    printf("%lld samples written, %lld damaged ones left out; open them as %s", (long long)r->written, (long long)r->unreadable,
           r->spec);
    if (captions) printf(", with captions as csv:%s/captions.csv", e->folder);
    printf("\n");
    return whole ? CLI_OK : CLI_FAILED;
}

static int export(const char *spec, const char *out, int folder, int strict, int64_t per_shard) {
    gf_error err = {{0}};
    gf_dataset *d = NULL;
    const int code = open_data(spec, &d);
    if (code != CLI_OK) return code;
    const gf_export e = {
        .form = folder ? GF_EXPORT_FOLDER : GF_EXPORT_WDS,
        .folder = out,
        .per_shard = per_shard,
        .strict = strict,
        .progress = show_progress,
    };
    gf_export_result result = {0};
    tell_note(d);
    cli_catch_interrupts(NULL);
    const glofnd_status status = gf_dataset_export(&err, d, &e, &result);
    const gf_dataset_info x = gf_dataset_describe(d);
    gf_dataset_free(d);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
    if (status != GLOFND_OK) return cli_failed("data", status, &err);
    return report_export(&e, &result, x.n, folder && x.has_text);
}

/* ---- entry ---- */

static const char verbs[] = "info, index, synth, export, bpe";

static int is_verb(const char *word) {
    static const char *const all[] = {"info", "index", "synth", "export", "bpe"};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        if (strcmp(word, all[k]) == 0) return 1;
    }
    return 0;
}

/* Are the n words after `data` one of its verbs and a SPEC? */
static int check_words(int n, char **words) {
    if (n == 2 && is_verb(words[0])) return CLI_OK;
    if (n == 0) fprintf(stderr, "glofnd data: what to do is missing: one of %s\n", verbs);
    else if (!is_verb(words[0])) fprintf(stderr, "glofnd data: \"%s\" is none of %s\n", words[0], verbs);
    else if (n == 1) fprintf(stderr, "glofnd data %s: SPEC is missing: what data\n", words[0]);
    else fprintf(stderr, "glofnd data %s: it takes one SPEC; \"%s\" is too much\n", words[0], words[2]);
    fprintf(stderr, "usage: %s\n", usage);
    return CLI_USAGE;
}

int cmd_data(int argc, char **argv) {
    const char *out = NULL, *folder = NULL, *strict = NULL, *rows = "8", *columns = "16", *cell = "64", *per_shard = "10000",
               *merges = NULL;
    const cli_flag flags[] = {
        {"out", "PATH", "to write; synth: a PNG file; export: a folder; bpe: a file of merges, gzip if it ends in .gz", &out},
        {"merges", "N", "bpe: most merges to learn (48894, as CLIP has)", &merges},
        {"folder", NULL, "export: class folders of PNG files instead of WebDataset shards", &folder},
        {"per-shard", "N", "export: samples per shard (10000)", &per_shard},
        {"strict", NULL, "export: a damaged sample is an error, and a shard, label or caption in doubt", &strict},
        {"rows", "N", "synth: rows of the contact sheet (8)", &rows},
        {"columns", "N", "synth: columns of the contact sheet (16)", &columns},
        {"cell", "N", "synth: pixels per sample (64)", &cell},
    };
    int n;
    int64_t r, c, px, shard, most = GF_BPE_MERGES_MAX;
    int code = cli_parse(usage, flags, (int)(sizeof flags / sizeof *flags), argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if ((code = check_words(n, argv + 1))) return code;
    const char *what = argv[1], *spec = argv[2];
    if ((code = cli_integer("rows", rows, 1, 200, &r)) || (code = cli_integer("columns", columns, 1, 200, &c)) ||
        (code = cli_integer("cell", cell, 8, 1024, &px)) ||
        (code = cli_integer("per-shard", per_shard, 1, INT64_C(1) << 40, &shard)) ||
        (merges && (code = cli_integer("merges", merges, 0, GF_BPE_MERGES_MAX, &most))))
        return code;
    if (strcmp(what, "info") == 0) return info(spec);
    if (strcmp(what, "index") == 0) return index_shards(spec);
    const int draws = strcmp(what, "synth") == 0, exports = strcmp(what, "export") == 0, learns = strcmp(what, "bpe") == 0;
    if ((draws || exports || learns) && !out) {
        fprintf(stderr, "glofnd data %s: --out is needed\n", what);
        return CLI_USAGE;
    }
    if (draws) return synth(spec, out, (int)r, (int)c, (int)px);
    if (exports) return export(spec, out, folder != NULL, strict != NULL, shard);
    return cli_data_bpe(spec, out, most);
}
