/* unit_report_watch.c - the log of a run while it grows, braille dots, and frames for a terminal. */
#include "support/test.h"

#include "plot/terminal.h"
#include "report/page.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/unit_report_watch-XXXXXX";

static void write_file(const char *name, const char *mode, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

TEST(dots_are_where_they_belong) {
    gf_text t = {0};
    gf_braille b;
    assert_true(gf_braille_init(&b, 3, 2));
    gf_braille_line(&b, 0, 0, 5, 0);
    gf_braille_dot(&b, 0, 7);
    gf_braille_dot(&b, 99, 0);
    gf_braille_dot(&b, 0, -1);
    gf_braille_row(&t, &b, 0);
    assert_string_equal(t.at, "⠉⠉⠉");
    gf_text_free(&t);
    gf_braille_row(&t, &b, 1);
    assert_string_equal(t.at, "⡀  ");
    gf_text_free(&t);
    gf_braille_free(&b);
    assert_true(gf_braille_init(&b, 2, 2));
    gf_braille_line(&b, 0, 7, 3, 0);
    gf_braille_row(&t, &b, 0);
    assert_string_equal(t.at, " ⡜");
    gf_text_free(&t);
    gf_braille_free(&b);
    assert_false(gf_braille_init(&b, 0, 3));
}

static const char first_lines[] =
    "{\"event\": \"step\", \"step\": 2, \"epoch\": 0, \"loss\": 4, \"kept\": 1, \"images_per_s\": 100}\n"
    "{\"event\": \"step\", \"step\": 4, \"epoch\": 0, \"loss\": 3, \"kept\": 0.9, \"images_per_s\": 100}\n"
    "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"loss\": 3.5, \"precision\": 0.25}\n"
    "{\"event\": \"step\", \"step\": 6, \"ep";

/* An incomplete line is read once it is complete; a shorter file is a new one. */
TEST(tail_takes_what_is_new) {
    gf_error err = {{0}};
    gf_run_tail t;
    write_file("config.cfg", "w", "data = shapes:n=32\nbatch = 8\nepochs = 3\ndetector = glofnd\n");
    assert_int_equal(gf_run_tail_open(&err, folder, &t), GLOFND_OK);
    assert_int_equal(t.log.steps, 0);
    write_file("log.jsonl", "w", first_lines);
    assert_int_equal(gf_run_tail_more(&t), GLOFND_OK);
    assert_int_equal(t.log.steps, 2);
    assert_int_equal(t.log.epochs, 1);
    assert_int_equal(t.log.epoch_steps, 4);
    assert_int_equal(gf_run_tail_more(&t), GLOFND_OK);
    assert_int_equal(t.log.steps, 2);
    write_file("log.jsonl", "a", "och\": 1, \"loss\": 2, \"kept\": 0.8, \"images_per_s\": 100}\nbroken\n");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gf_run_tail_more(&t), GLOFND_OK);
        assert_int_equal(t.log.steps, 3);
        assert_int_equal(t.log.skipped, 1);
    }
    assert_true(gf_run_place(&t.log, 2) == 1.5);
    assert_true(fabs(gf_watch_remaining(&t.log) - 6.0 * 8.0 / 100.0) < 1e-9);
    write_file("log.jsonl", "w", "{\"event\": \"step\", \"step\": 2, \"loss\": 9}\n");
    assert_int_equal(gf_run_tail_more(&t), GLOFND_OK);
    assert_int_equal(t.log.steps, 1);
    assert_int_equal(t.log.epochs, 0);
    assert_true(t.log.step[GF_STEP_LOSS][0] == 9.0);
    gf_run_tail_close(&t);
}

static int columns_of(const char *line, size_t n) {
    int columns = 0;
    for (size_t i = 0; i < n; i++) columns += ((unsigned char)line[i] & 0xC0) != 0x80;
    return columns;
}

/* No line is wider than the terminal, no frame longer, whatever its size. */
TEST(frames_fit_the_terminal) {
    gf_error err = {{0}};
    gf_run_log r;
    write_file("log.jsonl", "w", first_lines);
    assert_int_equal(gf_run_log_read(&err, folder, &r), GLOFND_OK);
    snprintf(r.name, sizeof r.name, "evil\033[2Jname");
    for (int columns = 40; columns <= 200; columns += 40)
        for (int rows = 12; rows <= 60; rows += 12) {
            gf_text t = {0};
            int lines = 0;
            gf_watch_frame(&t, &r, &(gf_watch_size){.columns = columns, .rows = rows});
            for (const char *line = t.at; *line; line = strchr(line, '\n') + 1, lines++)
                assert_true(columns_of(line, strcspn(line, "\n")) <= columns);
            assert_true(lines <= rows);
            assert_null(strchr(t.at, '\033'));
            assert_non_null(strstr(t.at, "loss"));
            assert_null(strstr(t.at, "nan"));
            gf_text_free(&t);
        }
    gf_run_log_free(&r);
}

TEST(a_run_without_steps_has_a_frame) {
    gf_error err = {{0}};
    gf_run_log r;
    gf_text t = {0};
    write_file("log.jsonl", "w", "");
    assert_int_equal(gf_run_log_read(&err, folder, &r), GLOFND_OK);
    gf_watch_frame(&t, &r, &(gf_watch_size){.columns = 80, .rows = 24, .colour = 1});
    assert_non_null(strstr(t.at, "no logged step yet"));
    gf_text_free(&t);
    gf_run_log_free(&r);
}

/* A run shorter than log_steps has epochs. */
TEST(epochs_make_a_curve_where_steps_do_not) {
    gf_error err = {{0}};
    gf_run_log r;
    gf_text t = {0};
    write_file("log.jsonl", "w",
               "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"loss\": 3.5}\n"
               "{\"event\": \"epoch\", \"step\": 8, \"epoch\": 1, \"loss\": 1.25}\n");
    assert_int_equal(gf_run_log_read(&err, folder, &r), GLOFND_OK);
    gf_watch_frame(&t, &r, &(gf_watch_size){.columns = 80, .rows = 24});
    assert_non_null(strstr(t.at, "loss 1.2500"));
    assert_non_null(strstr(t.at, "loss  now 1.2500"));
    assert_non_null(strstr(t.at, "3.5000 ┤"));
    gf_text_free(&t);
    gf_run_log_free(&r);
}

/* A run without a process has no remaining time; a finished run is marked. */
TEST(a_run_that_stopped_says_so) {
    gf_error err = {{0}};
    gf_run_log r;
    write_file("log.jsonl", "w", "{\"event\": \"epoch\", \"step\": 4, \"epoch\": 0, \"loss\": 3.5}\n");
    assert_int_equal(gf_run_log_read(&err, folder, &r), GLOFND_OK);
    for (int idle = 0; idle < 2; idle++)
        for (int finished = 0; finished < 2; finished++) {
            gf_text t = {0};
            r.config.epochs = finished ? 1 : 3;
            gf_watch_frame(&t, &r, &(gf_watch_size){.columns = 80, .rows = 24, .idle = idle});
            assert_true(!strstr(t.at, "eta") == (idle || finished));
            assert_true(!strstr(t.at, "not running") == (!idle || finished));
            assert_true(!strstr(t.at, "finished") == !finished);
            gf_text_free(&t);
        }
    gf_run_log_free(&r);
}

/* The first part of the log was lost: steps give the position. */
TEST(a_log_that_begins_late_is_placed) {
    gf_error err = {{0}};
    gf_run_log r;
    gf_text t = {0};
    write_file("log.jsonl", "w",
               "{\"event\": \"step\", \"step\": 12, \"epoch\": 2, \"loss\": 3.5}\n"
               "{\"event\": \"epoch\", \"step\": 12, \"epoch\": 2, \"loss\": 3.5}\n");
    assert_int_equal(gf_run_log_read(&err, folder, &r), GLOFND_OK);
    r.config.epochs = 5;
    gf_watch_frame(&t, &r, &(gf_watch_size){.columns = 80, .rows = 24});
    assert_non_null(strstr(t.at, "epoch 4/5"));
    gf_text_free(&t);
    gf_run_log_free(&r);
}

/* Unusable numbers of a log are neither drawn nor counted. */
TEST(wild_numbers_are_left_out) {
    gf_error err = {{0}};
    gf_run_log r;
    gf_text t = {0};
    write_file("log.jsonl", "w",
               "{\"event\": \"step\", \"step\": 1, \"epoch\": 0, \"loss\": 1}\n"
               "{\"event\": \"step\", \"step\": -7e300, \"epoch\": 0, \"loss\": 1e308}\n"
               "{\"event\": \"step\", \"step\": null, \"loss\": -1e308}\n"
               "{\"event\": \"epoch\", \"step\": 1e300, \"epoch\": 0, \"loss\": 2, \"damaged\": 1e300}\n"
               "{\"event\": \"step\", \"step\": 1e300, \"epoch\": 1, \"loss\": 3}\n");
    write_file("eval.jsonl", "w", "{\"event\": \"knn\", \"protocol\": \"knn\", \"untrained\": false, \"top1\": 0.5}\n");
    assert_int_equal(gf_run_log_read(&err, folder, &r), GLOFND_OK);
    assert_true(r.eval.count == 1 && gf_eval_figure(&r.eval.line[0], "top1") == 50.0 && isnan(r.eval.line[0].k));
    assert_int_equal(r.damaged, 0);
    assert_int_equal(r.epoch_steps, 0);
    gf_watch_frame(&t, &r, &(gf_watch_size){.columns = 80, .rows = 24});
    assert_non_null(strstr(t.at, "step 0"));
    gf_text_free(&t);
    gf_run_log_free(&r);
    char path[256];
    snprintf(path, sizeof path, "%s/eval.jsonl", folder);
    unlink(path);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    static const char *const names[] = {"config.cfg", "log.jsonl"};
    char path[200];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

TEST_GROUP(make_folder, remove_folder)
