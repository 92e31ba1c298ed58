/* paper_tables.c - see paper_tables.h. Numbers: "Discovering Global False Negatives On the Fly for Self-supervised Contrastive
 * Learning" (ICML 2025); mean, standard deviation and p-value as printed there. */
#include "programs/sweep/paper_tables.h"

#include <string.h>

#define IMAGENET100 "imagenet:ROOT/imagenet?classes=CLASSES"
#define LINEAR "linear --augment epoch"
#define SHARES                                                                                     \
    {"100 %", "linear", " 100 % top-1"}, {"10 %", "linear", " 10 % top-1"},                        \
        {"1 %", "linear", " 1 % top-1"}, {"0.1 %", "linear", " 0.1 % top-1"}, {"average", "linear", " mean top-1"}
#define FLAGS                                                                                       \
    {"FN precision", "last epoch", "precision per anchor"}, {"recall", "last epoch", "recall per anchor"}, \
        {"F1", "last epoch", "F1 per anchor"}
#define CC3M "vocab=ROOT/bpe_simple_vocab_16e6.txt.gz"

/* clang-format off */
static const paper_table tables[] = {
    {.name = "linear", .summary = "table 1: linear evaluation on ImageNet-100, and the flags of the last epoch",
     .data = IMAGENET100, .eval = {LINEAR}, .needs = "imagenet: ImageNet as it is unpacked, or train and val with folders of classes",
     .column = {SHARES, FLAGS},
     .row = {{"SogCLR", "imagenet100-sogclr", {76.55, 72.24, 62.92, 34.94, 61.66}, {0.09, 0.14, 0.34, 0.60}, {0}},
             {"+ FNC", "imagenet100-sogclr-fnc", {77.12, 72.89, 64.29, 36.11, 62.60, 27.57, 53.67, 36.42},
              {0.14, 0.25, 0.34, 0.70, 0, 0.03, 0.27, 0.07}, {0.011, 0.035, 0.014, 0.024}},
             {"+ GloFND", "imagenet100-sogclr-glofnd", {77.59, 73.36, 65.09, 37.38, 63.36, 48.40, 58.81, 53.10},
              {0.03, 0.15, 0.49, 0.97, 0, 0.65, 0.60, 0.31}, {0.002, 0.011, 0.0009, 0.018}}}}, /* printed: below 0.001 */
    {.name = "transfer", .summary = "table 2: logistic regression on eight datasets",
     .data = IMAGENET100,
     .eval = {"transfer cifar10=ROOT/cifar10 cifar100=ROOT/cifar100 food101=ROOT/food-101 caltech101=ROOT/caltech-101 cars=ROOT/cars "
              "dtd=ROOT/dtd pets=ROOT/pets flowers=ROOT/flowers"},
     .needs = "imagenet, and the unpacked downloads in cifar10, cifar100, food-101, caltech-101, cars, dtd, pets, flowers",
     .column = {{"CIFAR10", "transfer", " CIFAR10 "}, {"CIFAR100", "transfer", " CIFAR100 "}, {"Food101", "transfer", " Food101 "},
                {"Caltech101", "transfer", " Caltech101 "}, {"Cars", "transfer", " Cars "}, {"DTD", "transfer", " DTD "},
                {"Pets", "transfer", " Pets "}, {"Flowers", "transfer", " Flowers "}, {"average", "transfer", "paper mean"}},
     .row = {{"SogCLR", "imagenet100-sogclr", {82.46, 60.2, 59.66, 77.73, 25.99, 57.80, 60.63, 76.91, 62.67},
              {0.36, 0.22, 0.2, 0.17, 0.64, 0.30, 0.34, 0.33}, {0}},
             {"+ FNC", "imagenet100-sogclr-fnc", {82.77, 60.96, 59.82, 78.34, 26.28, 58.60, 61.67, 78.77, 63.40},
              {0.36, 0.31, 0.14, 0.92, 0.50, 0.29, 0.66, 0.51}, {0.158, 0.056, 0.219, 0.249, 0.235, 0.080, 0.032, 0.036}},
             {"+ GloFND", "imagenet100-sogclr-glofnd", {82.81, 61.94, 59.87, 79.18, 27.88, 58.97, 63.91, 79.89, 64.31},
              {0.23, 0.24, 0.16, 0.52, 0.44, 0.96, 0.22, 0.09}, {0.143, 0.005, 0.021, 0.024, 0.006, 0.123, 0.002, 0.005}}}},
    {.name = "bimodal", .summary = "table 3: zero-shot tasks after training on CC3M",
     .data = "wds:ROOT/cc3m/*.tar", .set = {CC3M}, .eval = {"zeroshot TASKS"},
     .needs = "cc3m/*.tar, bpe_simple_vocab_16e6.txt.gz, and datacomp/, or a folder per task in zeroshot/ and retrieval/",
     .column = {{"Datacomp", "zeroshot", " mean %"}, {"Retrieval", "zeroshot", " mean of retrieval %"},
                {"IN & Variants", "zeroshot", " mean of ImageNet"}},
     .row = {{"SogCLR", "cc3m-sogclr", {24.87, 29.28, 18.86}, {0.13, 0.30, 0.09}, {0}},
             {"+ FNC", "cc3m-sogclr-fnc", {24.55, 29.69, 18.69}, {0.20, 0.19, 0.62}, {0}},
             {"+ GloFND", "cc3m-sogclr-glofnd", {25.37, 29.92, 19.44}, {0.16, 0.35, 0.16}, {0}},
             {"FastCLIP", "cc3m-fastclip", {24.76, 30.36, 19.08}, {0.26, 0.18, 0.16}, {0}},
             {"+ FNC", "cc3m-fastclip-fnc", {24.63, 28.87, 18.51}, {0.72, 0.93, 0.19}, {0}},
             {"+ GloFND", "cc3m-fastclip-glofnd", {25.37, 30.22, 19.38}, {0.13, 0.32, 0.15}, {0}}},
     .base = {0, 0, 0, 3, 3, 3}},
    {.name = "simclr", .summary = "appendix: linear evaluation of SimCLR on ImageNet-100, batch 512",
     .data = IMAGENET100, .eval = {LINEAR}, .needs = "imagenet: ImageNet as it is unpacked, or train and val with folders of classes", .column = {SHARES},
     .row = {{"SimCLR", "imagenet100-simclr", {76.88, 73.38, 66.40, 33.56, 62.56}, {0}, {0}},
             {"+ FNC", "imagenet100-simclr-fnc", {76.90, 73.10, 64.88, 34.20, 62.27}, {0}, {0}},
             {"+ GloFND", "imagenet100-simclr-glofnd", {77.14, 73.66, 66.50, 35.58, 63.22}, {0}, {0}}}},
    {.name = "finetune", .summary = "appendix: OpenAI's ResNet-50 fine-tuned on CC3M, retrieval on its validation set",
     .data = "wds:ROOT/cc3m/*.tar", .set = {CC3M, "init=ROOT/RN50.safetensors"},
     .eval = {"retrieval --data wds:ROOT/cc3m-val/*.tar"},
     .needs = "cc3m/*.tar, cc3m-val/*.tar, bpe_simple_vocab_16e6.txt.gz, RN50.safetensors",
     .column = {{"IR@1", "retrieval", "IR@1 %"}, {"IR@5", "retrieval", "IR@5 %"}, {"IR@10", "retrieval", "IR@10 %"},
                {"IR average", "retrieval", "IR average"}, {"TR@1", "retrieval", "TR@1 %"}, {"TR@5", "retrieval", "TR@5 %"},
                {"TR@10", "retrieval", "TR@10 %"}, {"TR average", "retrieval", "TR average"}},
     .row = {{"SogCLR", "clip-rn50-finetune-sogclr", {36.07, 58.94, 67.22, 54.08, 35.76, 59.19, 67.44, 54.13}, {0}, {0}},
             {"+ FNC", "clip-rn50-finetune-fnc", {33.69, 58.01, 67.51, 53.07, 33.61, 57.95, 67.53, 53.03}, {0}, {0}},
             {"+ GloFND", "clip-rn50-finetune", {36.52, 59.44, 68.02, 54.66, 35.71, 59.27, 67.97, 54.32}, {0}, {0}}}},
    {.name = "single", .summary = "figure: no detector, FNC, a single threshold, GloFND on ImageNet-100",
     .data = IMAGENET100, .eval = {LINEAR}, .needs = "imagenet: ImageNet as it is unpacked, or train and val with folders of classes", .column = {SHARES, FLAGS},
     .row = {{"SogCLR", "imagenet100-sogclr", {76.55, 72.24, 62.92, 34.94, 61.66}, {0.09, 0.14, 0.34, 0.60}, {0}},
             {"+ FNC", "imagenet100-sogclr-fnc", {77.12, 72.89, 64.29, 36.11, 62.60}, {0.14, 0.25, 0.34, 0.70}, {0}},
             {"+ single", "imagenet100-sogclr-single", {0}, {0}, {0}},
             {"+ GloFND", "imagenet100-sogclr-glofnd", {77.59, 73.36, 65.09, 37.38, 63.36}, {0.03, 0.15, 0.49, 0.97}, {0}}}},
    {.name = "cifar100", .summary = "not in the paper: its recipe on CIFAR-100 with ResNet-18",
     .data = "cifar100:ROOT/cifar100", .eval = {LINEAR, "knn"}, .needs = "cifar100: the unpacked download",
     .column = {SHARES, {"kNN", "knn", "top-1"}, FLAGS},
     .row = {{"SogCLR", "cifar100-sogclr", {0}, {0}, {0}}, {"+ FNC", "cifar100-sogclr-fnc", {0}, {0}, {0}},
             {"+ single", "cifar100-sogclr-single", {0}, {0}, {0}}, {"+ GloFND", "cifar100-sogclr-glofnd", {0}, {0}, {0}}}},
    {.name = "cifar10", .summary = "not in the paper: its recipe on CIFAR-10 with ResNet-18",
     .data = "cifar10:ROOT/cifar10", .eval = {LINEAR, "knn"}, .needs = "cifar10: the unpacked download",
     .column = {SHARES, {"kNN", "knn", "top-1"}, FLAGS},
     .row = {{"SogCLR", "cifar10-sogclr", {0}, {0}, {0}}, {"+ FNC", "cifar10-sogclr-fnc", {0}, {0}, {0}},
             {"+ single", "cifar10-sogclr-single", {0}, {0}, {0}}, {"+ GloFND", "cifar10-sogclr-glofnd", {0}, {0}, {0}}}},
};
/* clang-format on */

const paper_table *paper_table_at(int i) { return i >= 0 && i < (int)(sizeof tables / sizeof *tables) ? &tables[i] : NULL; }

const paper_table *paper_table_find(const char *name) {
    for (int i = 0; paper_table_at(i); i++)
        if (strcmp(tables[i].name, name) == 0) return &tables[i];
    return NULL;
}
