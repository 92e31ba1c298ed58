/* main.c - glofnd: finds the verb and runs it. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const cli_verb verbs[] = {
    {"data", cmd_data, "look at, index, draw and export datasets"},
    {"pretrain", cmd_pretrain, "train an image encoder, false negatives found on the fly"},
    {"embed", cmd_embed, "features of a dataset by the encoder of a run, as .npy"},
    {"eval", cmd_eval, "how good the encoder of a run is"},
    {"sweep", cmd_sweep, "pretrain a grid of values and seeds, evaluate and compare"},
    {"compare", cmd_compare, "runs side by side: mean (std) over seeds, p-values"},
    {"report", cmd_report, "tables and curves of runs as one HTML page"},
    {"info", cmd_info, "version, backends, what this machine can do"},
};

static int help(void) {
    printf("GloFND %d.%d.%d: global false-negative discovery for contrastive learning\n\nusage: glofnd VERB ...\n",
            GLOFND_VERSION_MAJOR,
           GLOFND_VERSION_MINOR, GLOFND_VERSION_PATCH);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("\n`glofnd VERB --help` explains one of them.\n");
    return CLI_OK;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        help();
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) return help();
    if (strcmp(argv[1], "--version") == 0) {
        puts(glofnd_build_info());
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(argv[1], verbs[i].name) == 0) return verbs[i].run(argc - 1, argv + 1);
    fprintf(stderr, "glofnd: unknown verb \"%s\"; glofnd --help lists them\n", argv[1]);
    return CLI_USAGE;
}
