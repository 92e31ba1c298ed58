/* unit_schedule.c - epochs as shares of the schedule, defaults of new runs, and the forecast of what will be flagged. */
#include "support/test.h"

#include "run/config.h"
#include "run/forecast.h"
#include "support/config_checks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----- shares of the schedule, defaults of a new run ----- */

TEST(test_shares) {
    static const struct {
        const char *share;
        int epochs, start;
    } cases[] = {{"35%", 200, 70}, {"35%", 3, 1}, {"35%", 1, 0}, {"41%", 37, 15},
                 {"55%", 37, 20},  {"7%", 15, 1}, {"0%", 9, 0},  {"100%", 9, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_config c = fresh();
        char epochs[16], text[32];
        snprintf(epochs, sizeof epochs, "%d", cases[i].epochs);
        set(&c, "data", "shapes:n=64");
        set(&c, "start_epoch", cases[i].share); /* before the epochs are known */
        gf_config_text(&c, "start_epoch", text, sizeof text);
        assert_string_equal(text, i == 6 ? "0" : cases[i].share);
        set(&c, "epochs", epochs);
        set(&c, "warmup_epochs", "0%");
        set(&c, "gamma_decay", "50%");
        resolve(&c);
        assert_int_equal(c.start_epoch, cases[i].start);
        assert_int_equal(c.method.update_epoch, cases[i].start);
        assert_int_equal(c.method.mask_epoch, cases[i].start);
        assert_int_equal(c.gamma_decay, cases[i].epochs / 2);
        gf_config_text(&c, "start_epoch", text, sizeof text); /* what config.cfg gets */
        assert_int_equal(atoi(text), cases[i].start);
        assert_null(strchr(text, '%'));
    }
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "update_epoch", "10%");
    set(&c, "mask_epoch", "20%");
    set(&c, "lambda_warmup", "5%");
    set(&c, "warmup_steps", "10%");
    resolve(&c);
    assert_true(c.method.update_epoch == 20 && c.method.mask_epoch == 40 && c.method.lambda_warmup == 10);
    assert_int_equal(c.warmup_steps, 0); /* not known yet */
    gf_config_share_steps(&c, 98400);
    assert_int_equal(c.warmup_steps, 9840);
    c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "start_epoch", "35%");
    set(&c, "start_epoch", "9"); /* the last one wins, in either form */
    resolve(&c);
    assert_int_equal(c.start_epoch, 9);
    refused(&c, "start_epoch", "101%", "share");
    refused(&c, "start_epoch", "-1%", "share");
    refused(&c, "start_epoch", "%", "share");
    refused(&c, "start_epoch", "3 5%", "share");
    refused(&c, "batch", "35%", "integer"); /* no epochs */
}

/* A new run may begin with other defaults; the configuration of a run that lacks a key keeps its old meaning. */
TEST(test_new_run) {
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    resolve(&c);
    assert_true(gf_starts_at_quantile(&c.method));
    c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "lambda_init", "one");
    resolve(&c);
    assert_int_equal(c.method.lambda_init, GLOFND_INIT_ONE);
    c = fresh(); /* the authors' code */
    set(&c, "data", "shapes:n=64");
    set(&c, "compat", "official");
    resolve(&c);
    assert_false(gf_starts_at_quantile(&c.method));
    c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "task", "clip");
    set(&c, "loss", "sogclr2");
    gf_config_complete(&c);
    resolve(&c);
    assert_int_equal(c.method.lambda_init, GLOFND_INIT_ONE);
    assert_int_equal(c.epochs, 200);
}

/* ----- forecast ----- */

static gf_flag_forecast forecast(const char *init, const char *learner, const char *lr, const char *start, const char *epochs) {
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "lambda_init", init);
    set(&c, "learner", learner);
    set(&c, "lambda_lr", lr);
    set(&c, "start_epoch", start);
    set(&c, "epochs", epochs);
    resolve(&c);
    return gf_flag_forecast_of(&c, 100);
}

TEST(test_forecast) {
    gf_flag_forecast x = forecast("one", "adam", "0.05", "70", "200"); /* 1 - 10 * 0.05 = 0.5 */
    assert_true(x.fall == 0.05 && x.from == 79 && !x.never);
    x = forecast("quantile", "adam", "0.05", "35%", "3");
    assert_true(x.fall == 0.0 && x.from == 1 && !x.never);
    x = forecast("one", "adam", "0.05", "35%", "3");
    assert_true(x.never && fabs(x.reached - 0.9) < 1e-9);
    x = forecast("one", "sgd", "0.05", "20", "200"); /* alpha 0.01 times 0.05 a visit */
    assert_true(x.never && fabs(x.fall - 0.0005) < 1e-12 && fabs(x.reached - 0.91) < 1e-9);
    x = forecast("one", "sgd", "5", "20", "200");
    assert_true(x.from == 29 && !x.never);
    x = forecast("one", "ring", "0.05", "20", "200");
    assert_true(x.from == 20 && !x.never);
    gf_config c = fresh();
    char line[300], warning[500];
    set(&c, "data", "shapes:n=64");
    set(&c, "lambda_init", "one");
    set(&c, "start_epoch", "70");
    set(&c, "epochs", "74");
    set(&c, "lambda_decay", "2"); /* 0.05, 0.05, 0.1 / 3, 0.1 / 4 */
    resolve(&c);
    x = gf_flag_forecast_of(&c, 100);
    assert_true(x.never && x.fall == 0.05 && fabs(x.reached - (1.0 - 0.1 - 0.1 / 3 - 0.025)) < 1e-9);
    c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "detector", "single"); /* moves in every step */
    set(&c, "lambda_init", "one");
    set(&c, "epochs", "3");
    resolve(&c);
    x = gf_flag_forecast_of(&c, 100);
    assert_true(x.from == 1 && !x.never);
    gf_flag_forecast_text(&c, 100, line, sizeof line, warning, sizeof warning);
    assert_string_equal(line, "flags: expected from epoch 2 of 3 on");
    assert_string_equal(warning, "");
    set(&c, "detector", "none");
    gf_flag_forecast_text(&c, 100, line, sizeof line, warning, sizeof warning);
    assert_true(!*line && !*warning);
    set(&c, "detector", "glofnd");
    gf_flag_forecast_text(&c, 100, line, sizeof line, warning, sizeof warning);
    assert_true(!*line && strstr(warning, "0.90 at best"));
}
