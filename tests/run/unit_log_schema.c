/* unit_log_schema.c - every key of log.jsonl comes back under the field it was written from, times its factor. */
#include "support/test.h"

#include "run/run_folder.h"
#include "run/run_log.h"
#include "support/scratch.h"
#include <math.h>

static gf_error err;

static int make_run(void **state) {
    if (make_box(state) != 0) return -1;
    scratch_text(&box, GF_CONFIG_FILE, "data = shapes:n=8\nepochs = 2\n");
    return 0;
}

/* One line of each event, with a different integer for every key. */
static void write_log(int clip) {
    double value[32] = {0};
    gf_jsonl j = {0};
    const gf_log_event *const events[] = {&gf_log_step, &gf_log_epoch};
    assert_int_equal(gf_jsonl_open(&err, &j, path_of(GF_LOG_FILE), 0), GLOFND_OK);
    for (int e = 0; e < 2; e++) {
        for (int i = 0; i < events[e]->count; i++) value[i] = 100.0 * e + i;
        if (e) value[GF_RUN_EPOCH] = 1.0;
        gf_log_write(&j, events[e], value, clip);
        assert_int_equal(gf_jsonl_end(&j), GLOFND_OK);
    }
    assert_int_equal(gf_jsonl_close(&j), GLOFND_OK);
}

static void check_field(const gf_log_key *key, double found, double written, int clip) {
    if (key->kind == GF_LOG_BOTTLENECK || (key->kind == GF_LOG_CLIP && !clip)) assert_true(isnan(found));
    else assert_true(found == key->factor * written);
}

TEST(what_is_written_is_read) {
    for (int clip = 0; clip < 2; clip++) {
        gf_run_log log;
        write_log(clip);
        assert_int_equal(gf_run_log_read(&err, box.folder, &log), GLOFND_OK);
        assert_true(log.steps == 1 && log.epochs == 2); /* the line of the first epoch is missing */
        for (int i = 0; i < gf_log_step.count; i++) check_field(&gf_log_step.key[i], log.step[i][0], i, clip);
        for (int i = 0; i < gf_log_epoch.count; i++) {
            assert_true(isnan(log.field[i][0]));
            check_field(&gf_log_epoch.key[i], log.field[i][1], i == GF_RUN_EPOCH ? 1.0 : 100.0 + i, clip);
        }
        assert_true(gf_run_last_of(&log, "f1") == log.field[GF_RUN_F1][1] && isnan(gf_run_last_of(&log, "none")));
        gf_run_log_free(&log);
    }
}

TEST(the_slowest_stage_is_named) {
    gf_jsonl_reader r = {0};
    write_log(0);
    assert_int_equal(gf_jsonl_read_open(&err, &r, path_of(GF_LOG_FILE)), GLOFND_OK);
    assert_true(gf_jsonl_next(&r));
    assert_string_equal(gf_jsonl_get_text(&r, "event"), "step");
    assert_string_equal(gf_jsonl_get_text(&r, "time_bottleneck"), "optimizer");
    gf_jsonl_read_close(&r);
}

TEST_GROUP(make_run, remove_box)
