/* cuda_train.c - training runs on CUDA: the curve of 20 steps against the CPU's, checkpoints that go on bit for bit,
 * checkpoints that move between CPU and GPU, and numbers that are not finite. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/loss/cuda_device.h"
#include "train/checkpoint.h"

static char folder[] = "/tmp/cuda_train-XXXXXX";

static int enter_folder(void **state) {
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") == 0 ? system(command) : -1;
}

static void fine(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("status %d: %s", (int)status, err->text);
}

typedef struct setting {
    const char *key, *value;
} setting;

/* `more` ends with a NULL key. */
static gf_trainer *make_trainer(const char *device, const setting *more) {
    static const setting settings[] = {
        {"data", "shapes:n=192,classes=3,size=16"}, {"arch", "resnet18"}, {"stem", "1"}, {"head_hidden", "32"}, {"head_out",
                "16"},
        {"batch", "32"}, {"epochs", "5"}, {"start_epoch", "1"}, {"threads", "2"}, {"tf32", "0"}, {"math", "exact"}, {"alpha",
                "0.1"},
        {"lr", "0.002"}, {"lr_scaling", "none"}, {"optimizer", "sgd"}, {"warmup_epochs", "1"},
    };
    gf_error err = {""};
    gf_config c;
    gf_trainer *t = NULL;
    fine(gf_config_init(&err, &c), &err);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        fine(gf_config_set(&err, &c, settings[i].key, settings[i].value), &err);
    for (; more && more->key; more++) fine(gf_config_set(&err, &c, more->key, more->value), &err);
    fine(gf_config_set(&err, &c, "device", device), &err);
    fine(gf_config_resolve(&err, &c), &err);
    fine(gf_trainer_open(&err, &c, &t), &err);
    t->plans_path = "plans.txt";
    fine(gf_trainer_build(&err, t, NULL, NULL), &err);
    return t;
}

static void steps(gf_trainer *t, int n) {
    gf_error err = {""};
    for (int i = 0; i < n; i++) fine(gf_trainer_step(&err, t), &err);
}

/* All tensors and the optimizer's state on the host. */
static float *snapshot(gf_trainer *t, int64_t *numbers) {
    gf_error err = {""};
    *numbers = t->state_count;
    for (int i = 0; i < t->tensor_count; i++) *numbers += t->tensors[i].count;
    float *all = malloc(sizeof *all * (size_t)*numbers), *at = all;
    for (int i = 0; i < t->tensor_count; at += t->tensors[i++].count)
        fine(gf_net_get(&err, t->net, &t->tensors[i], t->tensors[i].value, at), &err);
    fine(gf_trainer_get_state(&err, t, t->state1, at), &err);
    return all;
}

static double distance(gf_trainer *a, gf_trainer *b) {
    int64_t n;
    float *x = snapshot(a, &n), *y = snapshot(b, &n);
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    free(x);
    free(y);
    return sqrt(error / size);
}

static void twenty_steps_follow_the_cpu(void **state) {
    (void)state;
    static const setting bf16[] = {{"precision", "bf16"}, {"math", "auto"}, {"tf32", "1"}, {NULL, NULL}};
    gf_trainer *host = make_trainer("cpu", NULL), *gpu = make_trainer("cuda", NULL), *rough = make_trainer("cuda", bf16);
    double worst = 0, worst_rough = 0, first = 0;
    for (int i = 0; i < 20; i++) {
        steps(host, 1), steps(gpu, 1), steps(rough, 1);
        worst = fmax(worst, fabs(gpu->stats.loss - host->stats.loss));
        worst_rough = fmax(worst_rough, fabs(rough->stats.loss - host->stats.loss));
        assert_int_equal(gpu->stats.pairs, host->stats.pairs);
        if (i == 1) assert_true(worst < 2e-5);          /* before steps have amplified rounding */
        if (i == 0) first = host->stats.loss;
    }
    print_message("20 steps: the loss differs by at most %.1e (float32), %.1e (bf16); weights and momentum by %.1e\n", worst,
                  worst_rough, distance(gpu, host));
    assert_true(worst < 1e-2);
    assert_true(worst_rough < 1e-1);
    assert_true(fabs(host->stats.loss - first) > 2e-2);         /* it moved by more than that */
    assert_true(fabs(gpu->grad_norm / host->grad_norm - 1) < 2e-2);
    gf_trainer_free(host), gf_trainer_free(gpu), gf_trainer_free(rough);
}

static void save_and_load(gf_trainer *from, const char *run, gf_trainer *to) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    char path[500];
    mkdir(run, 0777);
    fine(gf_checkpoint_save(&err, from, run, (gf_log_marks){0, 0}), &err);
    fine(gf_checkpoint_latest(&err, run, path, sizeof path), &err);
    fine(gf_checkpoint_load(&err, to, path, 0, &found, &marks), &err);
}

static void goes_on(const char *run, const setting *more) {
    gf_trainer *a = make_trainer("cuda", more), *b = make_trainer("cuda", more);
    steps(a, 8);                                /* in the middle of the second epoch; recorded by now */
    save_and_load(a, run, b);
    assert_true(distance(a, b) == 0);
    steps(a, 7), steps(b, 7);
    assert_memory_equal(&a->sums, &b->sums, sizeof a->sums);
    assert_true(a->stats.loss == b->stats.loss && a->grad_norm == b->grad_norm);
    assert_true(distance(a, b) == 0);
    gf_trainer_free(a), gf_trainer_free(b);
}

static void resumed_runs_have_the_same_bits(void **state) {
    (void)state;
    static const setting lars[] = {{"optimizer", "lars"}, {"precision", "bf16"}, {"math", "auto"}, {NULL, NULL}};
    static const setting adamw[] = {{"optimizer", "adamw"}, {"lr", "0.001"}, {NULL, NULL}};
    static const setting ring[] = {{"learner", "ring"}, {"ring_rows", "64"}, {"precision", "bf16"}, {NULL, NULL}};
    goes_on("sgd", NULL);
    goes_on("lars", lars);
    goes_on("adamw", adamw);
    goes_on("ring", ring);
}

static void runs_move_between_devices(void **state) {
    (void)state;
    gf_trainer *host = make_trainer("cpu", NULL), *gpu = make_trainer("cuda", NULL), *back = make_trainer("cpu", NULL);
    steps(host, 9);
    save_and_load(host, "there", gpu);
    assert_true(distance(host, gpu) == 0);
    save_and_load(gpu, "back", back);
    assert_true(distance(host, back) == 0);
    steps(host, 3), steps(gpu, 3);
    assert_true(fabs(gpu->stats.loss / host->stats.loss - 1) < 1e-3);
    assert_true(distance(gpu, host) < 1e-3);
    gf_trainer_free(host), gf_trainer_free(gpu), gf_trainer_free(back);
}

static void numbers_that_are_not_finite_stop_the_run(void **state) {
    (void)state;
    gf_error err = {""};
    gf_trainer *t = make_trainer("cuda", NULL);
    steps(t, 3);
    float *w = malloc(sizeof *w * (size_t)t->tensors[0].count);
    fine(gf_net_get(&err, t->net, &t->tensors[0], t->tensors[0].value, w), &err);
    w[0] = (float)NAN;
    fine(gf_net_put(&err, t->net, &t->tensors[0], t->tensors[0].value, w), &err);
    gf_net_touch(t->net);
    assert_int_equal(gf_trainer_step(&err, t), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "step 3"));
    assert_non_null(strstr(err.text, "sample"));
    assert_int_equal(t->step, 3);
    free(w);
    gf_trainer_free(t);
}

int main(void) {
    char why[160];
    if (gf_cuda_devices(why, sizeof why) == 0) {
        printf("skipped: no CUDA device (%s)\n", why);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twenty_steps_follow_the_cpu), cmocka_unit_test(resumed_runs_have_the_same_bits),
        cmocka_unit_test(runs_move_between_devices), cmocka_unit_test(numbers_that_are_not_finite_stop_the_run),
    };
    return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
