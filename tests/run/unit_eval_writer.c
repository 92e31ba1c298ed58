/* unit_eval_writer.c - eval.jsonl is written by several processes at a time. */
#include "support/test.h"

#include "run/run_eval.h"
#include "run/run_folder.h"
#include "support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gf_error err;

static void put_line(gf_eval_writer *w, int k) {
    gf_eval_writer_begin(w, "knn");
    gf_eval_put_integer(w, "k", k);
    gf_eval_put_number(w, "top1", 0.5);
    assert_int_equal(gf_eval_writer_end(w), GLOFND_OK);
}

/* Both were opened before the first wrote. */
TEST(two_writers_keep_each_others_lines) {
    gf_eval_writer a = {0}, b = {0};
    gf_run_eval all = {0};
    assert_int_equal(gf_eval_writer_open(&err, &a, box.folder), GLOFND_OK);
    assert_int_equal(gf_eval_writer_open(&err, &b, box.folder), GLOFND_OK);
    put_line(&a, 3);
    put_line(&b, 5);
    put_line(&a, 7);
    assert_int_equal(gf_eval_writer_close(&a), GLOFND_OK);
    assert_int_equal(gf_eval_writer_close(&b), GLOFND_OK);
    assert_int_equal(gf_run_eval_read(&err, box.folder, &all), GLOFND_OK);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.skipped, 0);
    gf_run_eval_free(&all);
}

/* A killed writer has left half a line, after the other one had opened the file. */
TEST(half_a_line_of_a_killed_writer_goes) {
    gf_eval_writer a = {0};
    gf_run_eval all = {0};
    unlink(scratch_path(&box, GF_EVAL_FILE));
    assert_int_equal(gf_eval_writer_open(&err, &a, box.folder), GLOFND_OK);
    FILE *f = fopen(scratch_path(&box, GF_EVAL_FILE), "a");
    assert_non_null(f);
    fputs("{\"event\": \"knn\", \"k\"", f);
    fclose(f);
    put_line(&a, 9);
    assert_int_equal(gf_eval_writer_close(&a), GLOFND_OK);
    assert_int_equal(gf_run_eval_read(&err, box.folder, &all), GLOFND_OK);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.skipped, 0);
    gf_run_eval_free(&all);
}

TEST_GROUP(make_box, remove_box)
