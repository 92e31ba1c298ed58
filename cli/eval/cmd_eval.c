/* cmd_eval.c - glofnd eval: how good the encoder of a run is. What is found is printed and added to RUN/eval.jsonl, from where
 * reports take it. One line here per way of looking. */
#include <stdio.h>
#include <string.h>

#include "cli/eval/eval.h"

static const struct eval_verb {
    const char *name, *title; /* title: what messages begin with */
    int (*run)(int argc, char **argv);
    const char *summary;
    const char *several; /* how more than one dataset is given: not by a second --data; NULL: it is */
} verbs[] = {
    {"linear", "eval linear", eval_linear, "train a linear classifier on it, from all labels and from few", "it takes one"},
    {"transfer", "eval transfer", eval_transfer, "logistic regression on other datasets: the transfer table",
     "several datasets stand behind the run: RUN SPEC SPEC..."},
    {"knn", "eval knn", eval_knn, "classify by the nearest training images", "it takes one"},
    {"fn", "eval fn", eval_fn, "how many flagged pairs are false negatives, by labels", "it takes one"},
    {"threshold", "eval threshold", eval_threshold, "how far learned thresholds are from the optimum", "it takes one"},
    {"retrieval", "eval retrieval", eval_retrieval, "task clip: images found by their captions, captions by their images",
     "it takes one; eval zeroshot takes several, each behind --retrieval"},
    {"zeroshot", "eval zeroshot", eval_zeroshot, "task clip: images classified by sentences about the classes", NULL},
};

#define VERBS (sizeof verbs / sizeof *verbs)

static void help(FILE *out) {
    fprintf(out, "usage: glofnd eval WHAT RUN ...\n");
    for (size_t i = 0; i < VERBS; i++) fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(out, "\n`glofnd eval WHAT --help` explains one of them.\n");
}

int cmd_eval(int argc, char **argv) {
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help(stdout);
        return CLI_OK;
    }
    for (size_t i = 0; argc > 1 && i < VERBS; i++) {
        if (strcmp(argv[1], verbs[i].name) != 0) continue;
        argv[1] = (char *)verbs[i].title;
        if (verbs[i].several && eval_repeated(argc - 1, argv + 1, "data", verbs[i].several)) return CLI_USAGE;
        return verbs[i].run(argc - 1, argv + 1);
    }
    if (argc > 1) fprintf(stderr, "glofnd eval: cannot evaluate \"%s\"\n", argv[1]);
    help(stderr);
    return CLI_USAGE;
}
