/* 06_discover.c - duplicates, neighbours and outliers among finished embeddings: `glofnd discover` inside a program.
 *
 * Without arguments it makes 3,000 embeddings with 20 planted copies. With arguments it reads files of embeddings (.npy, .safetensors,
 * Parquet, .csv), compares all rows, prints what it found, and writes the folder of tables that the program writes.
 *     cc 06_discover.c $(pkg-config --cflags --libs glofnd) -lm && ./a.out [FOLDER FILE...]
 */
#include <glofnd_discover.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3000, CLASSES = 30, DIM = 48, COPIES = 20, NEAREST = 5 };

static char why[1024];

static void check(glofnd_status status) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "06_discover: %s: %s\n", glofnd_status_text(status), why);
    exit(1);
}

static float noise(void) { return 3.46f * ((float)rand() / (float)RAND_MAX - 0.5f); }

static void make_embeddings(float x[ROWS][DIM]) {
    static float centre[CLASSES][DIM];
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < DIM; k++) {
            if (i < CLASSES) centre[i][k] = noise();
            x[i][k] = centre[i % CLASSES][k] + 0.8f * noise();
        }
    for (int i = 0; i < COPIES; i++) { /* the last rows: half of them equal to an earlier one, half nearly */
        memcpy(x[ROWS - COPIES + i], x[100 * i], sizeof x[0]);
        if (i % 2) x[ROWS - COPIES + i][0] += 0.1f;
    }
}

int main(int argc, char **argv) {
    static float x[ROWS][DIM];
    glofnd_discover_spec spec = {.size = sizeof spec, .k = NEAREST, .top = NEAREST};
    glofnd_embeddings *files = NULL;
    if (argc > 2) {
        const glofnd_embedding_files listed = {.size = sizeof listed,
                                               .path = (const char *const *)argv + 2,
                                               .paths = (int64_t)argc - 2};
        check(glofnd_embeddings_open(&listed, &files, why, sizeof why));
        spec.files = files;
    } else {
        make_embeddings(x);
        spec.n = ROWS, spec.dim = DIM, spec.x = x;
    }

    glofnd_discovery *found = NULL;
    glofnd_discovery_arrays all = {.size = sizeof all};
    check(glofnd_discover(&spec, &found, why, sizeof why));
    check(glofnd_discovery_view(found, &all));
    printf("%lld rows, %lld of them usable; duplicates have a similarity of %.3f or more\n", (long long)all.n,
           (long long)all.usable, all.dup);
    for (int64_t g = 0; g < all.groups && g < 3; g++) {
        printf("group %lld:", (long long)g);
        for (int64_t i = 0; i < all.n; i++)
            if (all.group[i] == g) printf(" %lld", (long long)i);
        printf("\n");
    }
    printf("%lld groups, %lld pairs\n", (long long)all.groups, (long long)all.duplicate_pairs);
    printf("the rows most similar to row 0:");
    for (int64_t j = 0; j < all.top && all.neighbour[j] >= 0; j++) printf(" %d (%.3f)", all.neighbour[j], all.similarity[j]);
    printf("\n");

    /* Which rows to keep. `keep` says which one of a group stays; here the one most like the others. */
    const glofnd_decide_spec rule = {.size = sizeof rule, .keep = GLOFND_KEEP_CENTRAL, .outliers = 3};
    glofnd_decisions decided = {.size = sizeof decided};
    check(glofnd_discovery_decide(found, &rule, &decided, why, sizeof why));
    printf("keep %lld of %lld rows\n", (long long)decided.keep, (long long)decided.n);
    for (int64_t i = 0; i < decided.outliers; i++)
        printf("unlike all others: row %d, mean similarity to its nearest %.3f\n", decided.outlier[i], decided.outlier_score[i]);

    if (argc > 1) {
        const glofnd_discovery_files how = {.size = sizeof how, .replace = 1};
        check(glofnd_discovery_save(found, argv[1], &how, why, sizeof why));
        printf("tables are in %s: keep.txt, duplicates.tsv, outliers.tsv ...\n", argv[1]);
    }
    glofnd_discovery_free(found);
    glofnd_embeddings_close(files);
    return 0;
}
