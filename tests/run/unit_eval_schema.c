/* unit_eval_schema.c - the table of eval.jsonl's keys: it holds together, the writer keeps to it, and the reader gives every key
 * a role, also those of a newer version. */
#include "support/test.h"

#include "run/run_eval.h"
#include "run/run_folder.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static gf_error err;

static const char *const events[] = {"linear",   "linear_mean",   "knn",         "transfer", "transfer_mean", "retrieval",
                                     "zeroshot", "zeroshot_mean", GF_EVAL_EPOCH, "fn",       "threshold",     GF_EVAL_TRAINED};

static int remove_file(void **state) {
    (void)state;
    return unlink(path_of(GF_EVAL_FILE));
}

static void write_file(const char *text) { scratch_text(&box, GF_EVAL_FILE, text); }

TEST(rows_hold_together) {
    for (size_t e = 0; e < sizeof events / sizeof *events; e++) {
        int rows;
        const gf_eval_key *row = gf_eval_keys(events[e], &rows);
        assert_in_range(rows, 1, GF_EVAL_KEYS_MAX);
        for (int i = 0; i < rows; i++) {
            const int shown = row[i].title != NULL;
            assert_ptr_equal(gf_eval_key_find(events[e], row[i].key), &row[i]); /* no key twice */
            if (shown) assert_int_equal(row[i].role, GF_EVAL_FIGURE);
            if (row[i].unless) assert_int_equal(row[i].role, GF_EVAL_SETTING);
            if (!shown) assert_true(row[i].better == 0 && row[i].factor == 1.0);
            if (row[i].factor == 100.0) assert_non_null(strchr(row[i].title, '%'));
            assert_int_equal(row[i].role == GF_EVAL_TIME, strncmp(row[i].key, "time_", 5) == 0);
            for (int k = 0; shown && k < i; k++) assert_true(!row[k].title || strcmp(row[k].title, row[i].title) != 0);
        }
    }
}

TEST_WITH(records_are_read_as_written, NULL, remove_file) {
    gf_eval_writer w = {0};
    gf_run_eval all;
    assert_int_equal(gf_eval_writer_open(&err, &w, box.folder), GLOFND_OK);
    gf_eval_writer_begin(&w, "knn");
    gf_eval_put_text(&w, "protocol", "knn");
    gf_eval_put_integer(&w, "k", 20);
    gf_eval_put_number(&w, "top1", 0.25);
    assert_int_equal(gf_eval_writer_end(&w), GLOFND_OK);
    assert_int_equal(gf_eval_writer_close(&w), GLOFND_OK);
    assert_int_equal(gf_run_eval_read(&err, box.folder, &all), GLOFND_OK);
    assert_int_equal(all.count, 1);
    assert_string_equal(all.unknown, "");
    assert_string_equal(all.line[0].event, "knn");
    assert_true(all.line[0].k == 20.0 && isnan(all.line[0].fraction));
    assert_true(gf_eval_figure(&all.line[0], "top1") == 25.0); /* in percent */
    assert_true(isnan(gf_eval_figure(&all.line[0], "mae")));
    gf_run_eval_free(&all);
}

/* A figure that is missing from the table would be taken for a setting: it must not reach the file. */
TEST_WITH(keys_that_are_not_in_the_table_are_refused, NULL, remove_file) {
    static const char *const wrong[][2] = {{"knn", "mae"}, {"knn", "new_figure"}, {"knnn", "event"}};
    const char before[] = "{\"event\": \"knn\", \"top1\": 0.5}\n";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gf_eval_writer w = {0};
        char text[200] = "";
        write_file(before);
        assert_int_equal(gf_eval_writer_open(&err, &w, box.folder), GLOFND_OK);
        gf_eval_writer_begin(&w, wrong[i][0]);
        gf_eval_put_number(&w, wrong[i][1], 1.0);
        assert_int_equal(gf_eval_writer_end(&w), GLOFND_E_ARGUMENT);
        assert_int_equal(gf_eval_writer_close(&w), GLOFND_E_ARGUMENT);
        assert_non_null(strstr(err.text, wrong[i][1]));
        FILE *f = fopen(path_of(GF_EVAL_FILE), "r");
        assert_non_null(f);
        assert_int_equal(fread(text, 1, sizeof text - 1, f), strlen(before));
        fclose(f);
        assert_string_equal(text, before);
    }
}

static int comparable(const char *a, const char *b, char unknown[GF_SETTINGS_KEY_MAX]) {
    char text[2000];
    gf_run_eval all;
    snprintf(text, sizeof text, "{\"event\": \"knn\", \"top1\": 0.5%s}\n{\"event\": \"knn\", \"top1\": 0.6%s}\n", a, b);
    write_file(text);
    assert_int_equal(gf_run_eval_read(&err, box.folder, &all), GLOFND_OK);
    const int one = all.count == 1; /* of one kind: the second replaces the first */
    assert_true(gf_eval_figure(&all.line[all.count - 1], "top1") == 60.0);
    snprintf(unknown, GF_SETTINGS_KEY_MAX, "%s", all.unknown);
    gf_run_eval_free(&all);
    return one;
}

/* As a newer version may write them. */
TEST_WITH(unknown_keys_have_a_role, NULL, remove_file) {
    char unknown[GF_SETTINGS_KEY_MAX];
    assert_true(comparable("", "", unknown));
    assert_false(comparable(", \"newer\": 1", ", \"newer\": 2", unknown)); /* a setting, and it is reported */
    assert_string_equal(unknown, "newer");
    assert_false(comparable("", ", \"newer\": 1", unknown));
    assert_true(comparable(", \"newer\": 1", ", \"newer\": 1", unknown));
    assert_true(comparable(", \"top5\": 0.7", ", \"top5\": 0.8", unknown)); /* a figure of other events is one here */
    assert_string_equal(unknown, "");
    assert_true(comparable(", \"time_newer\": 1", ", \"time_newer\": 2", unknown));
    assert_string_equal(unknown, "");
}

TEST_WITH(settings_may_be_implied, NULL, remove_file) {
    char unknown[GF_SETTINGS_KEY_MAX];
    assert_false(comparable(", \"temperature\": 0.07", ", \"temperature\": 0.1", unknown));
    assert_true(comparable(", \"protocol\": \"knn-unweighted\"", ", \"protocol\": \"knn\", \"temperature\": 0.0", unknown));
    assert_false(comparable(", \"anchors\": 5", ", \"anchors\": 6", unknown)); /* as in records of fn */
    assert_true(comparable(", \"anchors\": 5, \"samples\": 9", ", \"anchors\": 6, \"samples\": 9", unknown));
    assert_false(comparable(", \"alpha\": 5", ", \"alpha\": 6", unknown));
    assert_true(comparable(", \"alpha\": 5, \"detector\": \"glofnd\"", ", \"alpha\": 6, \"detector\": \"glofnd\"", unknown));
    assert_false(comparable(", \"alpha\": 5, \"detector\": \"fnc\"", ", \"alpha\": 6, \"detector\": \"fnc\"", unknown));
}

/* Records of an unknown event are kept, and have no figures. */
TEST_WITH(unknown_events_are_kept, NULL, remove_file) {
    gf_run_eval all;
    write_file("{\"event\": \"newer\", \"protocol\": \"p\", \"top1\": 0.5, \"what\": 1}\n");
    assert_int_equal(gf_run_eval_read(&err, box.folder, &all), GLOFND_OK);
    assert_int_equal(all.count, 1);
    assert_string_equal(all.line[0].settings, "what=1\n");
    assert_true(isnan(gf_eval_figure(&all.line[0], "top1")));
    gf_run_eval_free(&all);
}

TEST(words_of_names_are_known) {
    static const char *const known[] = {"kNN", "top-1", "MAE", "alpha", "linear", "mean", "GloFND", "epoch", "IR@10"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) assert_true(gf_eval_has_word(known[i]));
    assert_false(gf_eval_has_word("nothing"));
}

TEST_GROUP(make_box, remove_empty_box)
