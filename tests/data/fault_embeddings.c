/* fault_embeddings.c - memory: each allocation of opening and reading files of embeddings may fail once, with nothing worse than
 * E_MEMORY. */
#include "support/test.h"

#include "embeddings/embedding_set.h"
#include "support/faults.h"
#include "support/scratch.h"
#include "support/source_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static glofnd_status read_all(gf_error *err, const gf_embedding_input *in) {
    static float x[64 * 8];
    gf_embedding_set *s = NULL;
    gf_string_list names = {0};
    TRY(gf_embeddings_open(err, in, &s));
    glofnd_status status = gf_embeddings_read(err, s, 0, gf_embeddings_rows(s), x);
    if (status == GLOFND_OK && gf_embeddings_have_names(s)) status = gf_embeddings_names(err, s, &names);
    gf_string_list_free(&names);
    gf_embeddings_close(s);
    return status;
}

static void survives(const gf_embedding_input *in, long least) {
    long failures = 0;
    for (long k = 0;; k++) {
        gf_error err = {""};
        faults_at(k);
        const glofnd_status status = read_all(&err, in);
        const int failed = faults_end();
        if (!failed) {
            if (status != GLOFND_OK) fail_msg("%s", err.text);
            break;
        }
        if (status != GLOFND_OK && status != GLOFND_E_MEMORY && status != GLOFND_E_IO) fail_msg("%d: %s", status, err.text);
        failures += status != GLOFND_OK;
    }
    assert_true(failures >= least);
}

TEST(parquet_without_memory) {
    static const char *const names[] = {"tests/fixtures/parquet/snappy-v1-dict-f32.parquet",
                                        "tests/fixtures/parquet/snappy-v2-plain-fixed.parquet"};
    for (int i = 0; i < 2; i++) {
        char file[400];
        snprintf(file, sizeof file, "%s", source_file(names[i]));
        const char *path = file;
        survives(&(gf_embedding_input){.path = &path, .paths = 1, .column = "emb", .id = "key"}, 10);
    }
}

TEST(tables_without_memory) {
    scratch_text(&box, "t.csv", "name,x,y\na,1,2\nb,3,4\nc,\"5\",6\n");
    char file[200], braces[240];
    snprintf(file, sizeof file, "%s", path_of("t.csv"));
    snprintf(braces, sizeof braces, "%.190s/t.{csv,csv}", box.folder);
    const char *path = file, *pattern = braces;
    survives(&(gf_embedding_input){.path = &path, .paths = 1}, 5);
    survives(&(gf_embedding_input){.path = &pattern, .paths = 1}, 5);
    scratch_text(&box, "t.csv", "name,v\na,\nb,\"[3, 4]\"\nc,\"[5, 6]\"\n"); /* looks at later rows */
    survives(&(gf_embedding_input){.path = &path, .paths = 1}, 8);
}

TEST(a_column_without_memory) {
    long failures = 0;
    scratch_text(&box, "t.csv", "name,x,y\na,1,2\nb,3,4\nc,\"5\",6\n");
    for (int failed = 1; failed; failures++) {
        gf_error err = {""};
        gf_string_list names = {0};
        faults_at(failures);
        const glofnd_status status = gf_names_of_column(&err, path_of("t.csv"), "name", &names);
        failed = faults_end();
        if (status != (failed ? GLOFND_E_MEMORY : GLOFND_OK)) assert_true(failed && status == GLOFND_E_IO);
        if (!failed) assert_int_equal(names.n, 3);
        gf_string_list_free(&names);
    }
    assert_true(failures > 4);
}

TEST_GROUP(make_box, remove_box)
