/* main.c - glofnd: finds the verb and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/omp_wait.h"
#include "util/strings/suggest.h"

static const cli_verb verbs[] = {
    {"data", cmd_data, "look at, index, draw and export datasets"},
    {"pretrain", cmd_pretrain, "train an image encoder, false negatives found on the fly"},
    {"embed", cmd_embed, "features of a dataset by the encoder of a run, as .npy"},
    {"discover", cmd_discover, "false negatives and duplicates in any embeddings"},
    {"eval", cmd_eval, "how good the encoder of a run is"},
    {"sweep", cmd_sweep, "pretrain a grid of values and seeds, evaluate and compare"},
    {"compare", cmd_compare, "runs side by side: mean (std) over seeds, p-values"},
    {"report", cmd_report, "one HTML page about runs: what was found, figures, curves, maps"},
    {"watch", cmd_watch, "live curves of a run in the terminal"},
    {"info", cmd_info, "version, backends, what this machine can do"},
};

static int help(void) {
    printf("GloFND %d.%d.%d: global false-negative discovery for contrastive learning\n\nusage: glofnd VERB ...\n",
           GLOFND_VERSION_MAJOR, GLOFND_VERSION_MINOR, GLOFND_VERSION_PATCH);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("\n`glofnd VERB --help` explains one of them.\n");
    return CLI_OK;
}

/* A caller may have closed the standard streams; the next files opened would get their numbers, and messages would go into a log
 * or a checkpoint. So the numbers are taken by something that refuses what the stream is for. */
static void fill_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0) return;
}

/* What was printed is the result: if it could not be written (a full disk, a closed stream), the command has failed. */
static int finished(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "glofnd: the output cannot be written: %s\n", strerror(errno));
    return code == CLI_OK ? CLI_FAILED : code;
}

static const cli_verb *find(const char *name) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
    return NULL;
}

static int refuse(const char *name) {
    const cli_verb *best = verbs;
    for (size_t i = 1; i < sizeof verbs / sizeof *verbs; i++)
        if (gf_edit_distance(name, verbs[i].name) < gf_edit_distance(name, best->name)) best = &verbs[i];
    const int near = gf_is_near(name, best->name);
    fprintf(stderr, "glofnd: unknown verb \"%s\"; %s%s%sglofnd --help lists them\n", name, near ? "did you mean " : "",
            near ? best->name : "", near ? "? " : "");
    return CLI_USAGE;
}

/* "help VERB" is "VERB --help". */
static int help_with(const char *name) {
    char verb[32], flag[] = "--help";
    char *words[] = {verb, flag, NULL};
    const cli_verb *v = find(name);
    if (!v) return refuse(name);
    snprintf(verb, sizeof verb, "%s", v->name);
    return v->run(2, words);
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        help();
        return CLI_USAGE;
    }
    const int asks = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0;
    if (asks) return argc > 2 ? help_with(argv[2]) : help();
    if (strcmp(argv[1], "--version") == 0) {
        puts(glofnd_build_info());
        return CLI_OK;
    }
    const cli_verb *v = find(argv[1]);
    return v ? v->run(argc - 1, argv + 1) : refuse(argv[1]);
}

int main(int argc, char **argv) {
    fill_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file above the limit: an error like a full disk, not the end */
    cli_wait_passively(argv);
    return finished(run(argc, argv));
}
