/* fuzz_table.c - libFuzzer target of embeddings in tables: the first byte chooses .csv or .tsv and which columns are named. A
 * table is read or refused with a text; where it is read, its rows have the announced length, and there is a name and a label for
 * each row where there are some. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "embeddings/embedding_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], paths[2][96];

static void leave(void) {
    for (int i = 0; i < 2; i++) unlink(paths[i]);
    rmdir(folder);
}

static void begin(void) {
    strcpy(folder, "/dev/shm/fuzz_table-XXXXXX");
    if (!mkdtemp(folder) || atexit(leave) != 0) abort();
    snprintf(paths[0], sizeof paths[0], "%s/t.csv", folder);
    snprintf(paths[1], sizeof paths[1], "%s/t.tsv", folder);
}

static void put(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f) != 0) abort();
}

static void check(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK && status != GLOFND_E_MEMORY && !err->text[0]) abort();
}

static void check_texts(glofnd_status status, const gf_error *err, gf_string_list *list, int64_t rows) {
    check(status, err);
    if (status == GLOFND_OK && list->n != rows) abort();
    gf_string_list_free(list);
}

static void read_set(gf_embedding_set *s, int labelled) {
    gf_error err = {""};
    gf_string_list names = {0}, labels = {0};
    const int64_t rows = gf_embeddings_rows(s), dim = gf_embeddings_dim(s);
    if (rows < 0 || dim < 1 || rows > INT64_MAX / dim) abort();
    float *x = malloc(sizeof *x * (size_t)(rows * dim) + 1);
    check(x ? gf_embeddings_read(&err, s, 0, rows, x) : GLOFND_E_MEMORY, &err);
    free(x);
    if (gf_embeddings_have_names(s)) check_texts(gf_embeddings_names(&err, s, &names), &err, &names, rows);
    if (labelled) check_texts(gf_embeddings_labels(&err, s, &labels), &err, &labels, rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const titles[] = {NULL, "a", "0", "id"};
    if (size < 1) return 0;
    if (!*folder) begin();
    const char *path = paths[data[0] & 1];
    const gf_embedding_input in = {.path = &path,
                                   .paths = 1,
                                   .column = titles[data[0] >> 1 & 3],
                                   .id = titles[data[0] >> 3 & 3],
                                   .label = titles[data[0] >> 5 & 3]};
    gf_error err = {""};
    gf_embedding_set *s = NULL;
    put(path, data + 1, size - 1);
    const glofnd_status status = gf_embeddings_open(&err, &in, &s);
    check(status, &err);
    if (status == GLOFND_OK) read_set(s, in.label != NULL);
    gf_embeddings_close(s);
    return 0;
}
