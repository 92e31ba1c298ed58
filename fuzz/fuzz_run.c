/* fuzz_run.c - libFuzzer target of what reads the folder of a run for reports, comparisons and a terminal: the first byte chooses
 * one of its text files, the rest of the input is that file, beside valid others. Whatever is in it, the folder is read, or
 * refused with a text, and what was read is as long as it says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/compare.h"
#include "report/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *name, *sound;
} files[] = {
    {"config.cfg", "data = shapes:n=8\nepochs = 2\n"},
    {"log.jsonl", "{\"event\": \"step\", \"step\": 1, \"epoch\": 0, \"loss\": 1}\n"
                  "{\"event\": \"epoch\", \"step\": 2, \"epoch\": 0, \"loss\": 1}\n"},
    {"eval.jsonl", "{\"event\": \"knn\", \"protocol\": \"knn\", \"data\": \"d\", \"test\": \"t\", \"untrained\": false, "
                   "\"k\": 5, \"top1\": 0.5}\n"},
    {"memory.json", "{\"device\": \"cpu\", \"step\": 1, \"ranks\": 1, \"anchors\": 8, \"weights\": 4, \"peak\": 9}\n"},
};
enum { FILES = sizeof files / sizeof *files };

extern volatile double sink; /* keeps the reads of the numbers alive */
volatile double sink;

static char folder[64];

static void leave(void) {
    for (int i = 0; i < FILES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        unlink(path);
    }
    rmdir(folder);
}

static void put(int i, const void *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static void read_log(void) {
    gf_error err = {""};
    gf_run_log r = {0};
    if (gf_run_log_read(&err, folder, &r) != GLOFND_OK) {
        if (!err.text[0]) abort();
        return;
    }
    double sum = 0.0;
    for (int k = 0; k < GF_RUN_FIELD_COUNT; k++)
        for (int64_t i = 0; i < r.epochs; i++) sum += r.field[k][i];
    for (int k = 0; k < GF_RUN_STEP_COUNT; k++)
        for (int64_t i = 0; i < r.steps; i++) sum += r.step[k][i];
    sink = sum;
    gf_run_log_free(&r);
}

static void compare(void) {
    const char *const runs[] = {folder};
    gf_error err = {""};
    gf_comparison c = {0};
    if (gf_compare_read(&err, runs, 1, &c) != GLOFND_OK) {
        if (!err.text[0]) abort();
        return;
    }
    gf_text text = {0};
    gf_compare_select(&c, NULL, 1);
    gf_compare_json(&text, &c);
    gf_compare_latex(&text, &c);
    gf_text_free(&text);
    gf_compare_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    if (!folder[0]) {
        strcpy(folder, "/dev/shm/fuzz_run-XXXXXX");
        if (!mkdtemp(folder) || atexit(leave) != 0) abort();
    }
    for (int i = 0; i < FILES; i++) {
        if (data[0] % FILES == i) put(i, data + 1, size - 1);
        else put(i, files[i].sound, strlen(files[i].sound));
    }
    read_log();
    compare();
    return 0;
}
