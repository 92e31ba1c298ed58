/* unit_presets.c - the files of configs/: all work with any number of epochs, and those of the paper have its values. */
#include "support/test.h"

#include "run/config.h"
#include "run/forecast.h"
#include "support/source_file.h"
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static gf_config preset(const char *name, const char *epochs) {
    gf_error err = {""};
    gf_config c;
    char path[4096];
    snprintf(path, sizeof path, "%s", *name == '/' ? name : source_file(name));
    assert_int_equal(gf_config_init(&err, &c), GLOFND_OK);
    if (gf_config_read(&err, &c, path) != GLOFND_OK) fail_msg("%s", err.text);
    if (!*c.data) assert_int_equal(gf_config_set(&err, &c, "data", "shapes:"), GLOFND_OK);
    if (epochs) assert_int_equal(gf_config_set(&err, &c, "epochs", epochs), GLOFND_OK);
    if (gf_config_resolve(&err, &c) != GLOFND_OK) fail_msg("%s with %s epochs: %s", name, epochs ? epochs : "its", err.text);
    return c;
}

/* --epochs N alone breaks no preset: nothing starts after the end. */
TEST(any_number_of_epochs) {
    static const char *const epochs[] = {NULL, "1", "2", "3", "10", "400"};
    glob_t found;
    assert_int_equal(glob(source_file("configs/*.cfg"), 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 37);
    for (size_t i = 0; i < found.gl_pathc; i++)
        for (size_t k = 0; k < sizeof epochs / sizeof *epochs; k++) {
            gf_config c = preset(found.gl_pathv[i], epochs[k]);
            gf_config_share_steps(&c, 100 * c.epochs);
            assert_true(c.method.mask_epoch < c.epochs && c.warmup_epochs < c.epochs && c.warmup_steps < 100 * c.epochs);
        }
    globfree(&found);
}

/* With their own epochs all presets with a detector can flag. */
TEST(presets_can_flag) {
    glob_t found;
    assert_int_equal(glob(source_file("configs/*.cfg"), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const gf_config c = preset(found.gl_pathv[i], NULL);
        char line[300], warning[500];
        gf_flag_forecast_text(&c, 1000, line, sizeof line, warning, sizeof warning);
        if (*warning) fail_msg("%s: %s", found.gl_pathv[i], warning);
    }
    globfree(&found);
}

TEST(imagenet100) {
    static const struct {
        const char *name;
        int batch, start, detector;
    } rows[] = {
        {"sogclr", 128, 70, GLOFND_DETECT_NONE},          {"sogclr-fnc", 128, 70, GLOFND_DETECT_FNC},
        {"sogclr-single", 128, 70, GLOFND_DETECT_SINGLE}, {"sogclr-glofnd", 128, 70, GLOFND_DETECT_GLOFND},
        {"simclr", 512, 70, GLOFND_DETECT_NONE},          {"simclr-fnc", 512, 70, GLOFND_DETECT_FNC},
        {"simclr-glofnd", 512, 70, GLOFND_DETECT_GLOFND}, {"sogclr-glofnd-sgd", 128, 20, GLOFND_DETECT_GLOFND},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[100];
        snprintf(name, sizeof name, "configs/imagenet100-%s.cfg", rows[i].name);
        const gf_config c = preset(name, NULL);
        const glofnd_options *o = &c.method;
        assert_true(c.arch == GF_ARCH_RESNET50 && c.size == 224 && c.epochs == 200 && c.batch == rows[i].batch);
        assert_true(c.optimizer == GF_OPTIMIZER_LARS && c.lr == 0.075 && c.warmup_epochs == 10 && c.weight_decay == 1e-6);
        assert_true(c.blur_p == 1.0 && c.jitter_p == 0.8 && c.gray_p == 0.2 && c.crop_min == 0.08);
        assert_true(o->tau == 0.1 && o->gamma == 0.9 && o->alpha == 0.01);
        assert_int_equal(o->detector, rows[i].detector);
        assert_int_equal(o->mask_epoch, rows[i].start);
        if (o->detector == GLOFND_DETECT_GLOFND)
            assert_true(o->lambda_init == GLOFND_INIT_ONE && o->lambda_lr == (o->learner == GLOFND_LEARN_SGD ? 5.0 : 0.05));
    }
}

TEST(cc3m) {
    static const char *const detectors[] = {"", "-fnc", "-glofnd"};
    for (int i = 0; i < 9; i++) {
        const int fast = i / 3 == 1, tuned = i / 3 == 2;
        char name[100];
        if (tuned) snprintf(name, sizeof name, "configs/clip-rn50-finetune%s.cfg", i == 8 ? "" : i == 7 ? "-fnc" : "-sogclr");
        else snprintf(name, sizeof name, "configs/cc3m-%s%s.cfg", fast ? "fastclip" : "sogclr", detectors[i % 3]);
        gf_config c = preset(name, NULL);
        const glofnd_options *o = &c.method;
        gf_config_share_steps(&c, (int64_t)(2723840 / 1024) * c.epochs);
        assert_true(c.batch == 1024 && c.epochs == (tuned ? 15 : 37) && c.arch == GF_ARCH_CLIP_RESNET50);
        assert_int_equal(c.warmup_steps, 10000);
        assert_int_equal(c.gamma_decay, tuned ? 7 : 18);
        assert_true(c.lr == 1e-3 && c.weight_decay == 0.1 && c.beta2 == 0.999 && c.gamma_min == 0.2);
        assert_true(c.mask_duplicates == 0 && c.eval_view == GF_EVAL_CLIP && c.crop_filter == GF_CROP_BICUBIC &&
                    c.crop_min == 0.9);
        assert_true(fabs(o->tau - (fast ? 0.07 : 0.03)) < 1e-12);
        if (i % 3 == 0) continue;
        assert_int_equal(o->mask_epoch, tuned ? 1 : fast ? 20 : 15);
        assert_true(o->alpha == (tuned ? 1e-4 : fast ? 1e-3 : 5e-4));
    }
}

TEST(cifar_has_the_papers_batch) {
    assert_int_equal(preset("configs/cifar100-sogclr-glofnd.cfg", NULL).batch, 128);
    assert_int_equal(preset("configs/cifar10-sogclr-single.cfg", NULL).batch, 128);
    assert_int_equal(preset("configs/cifar100-simclr-fnc.cfg", NULL).batch, 512);
}

/* 100 different folders of ImageNet, one a line. */
TEST(a_hundred_classes) {
    char line[64], before[64] = "";
    int n = 0;
    FILE *f = fopen(source_file("configs/imagenet100.txt"), "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        assert_true(line[0] == 'n' && strspn(line + 1, "0123456789") == 8 && strcmp(line + 9, "\n") == 0);
        assert_true(strcmp(before, line) < 0);
        snprintf(before, sizeof before, "%s", line);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 100);
}
