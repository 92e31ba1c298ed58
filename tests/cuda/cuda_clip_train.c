/* cuda_clip_train.c - image-text training on CUDA: the first steps of every loss follow the CPU's, with complete batches and in
 * parts. */
#include "support/test.h"

#include "support/cuda_main.h"

#include "cuda/cuda_device.h"
#include "support/trial.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Heads of 32 numbers; no ReLU, and plain steps, so that roundings stay roundings. */
static const trial_setting common[] = {
    {"task", "clip"},
    {"data", "shapes:n=96,classes=6,size=16,seed=2"},
    {"vocab", "cuda_clip.vocab"},
    {"arch", "vit"},
    {"patch", "8"},
    {"image_width", "64"},
    {"image_layers", "2"},
    {"image_heads", "2"},
    {"text_width", "64"},
    {"text_layers", "2"},
    {"text_heads", "2"},
    {"context", "24"},
    {"embed_dim", "32"},
    {"batch", "16"},
    {"epochs", "4"},
    {"start_epoch", "1"},
    {"optimizer", "sgd"},
    {"lr", "0.01"},
    {"threads", "1"},
    {"tf32", "0"},
    {"math", "exact"},
    {NULL, NULL},
};

static gf_trainer *make(const char *loss, const char *device, const char *part) {
    const trial_setting more[] = {{"loss", loss}, {"device", device}, {"micro_batch", part}, {NULL, NULL}};
    return trial_make(common, more, (trial_place){0});
}

TEST(every_loss_follows_the_cpu) {
    static const char *const losses[] = {"clip", "sogclr2", "fastclip", "isogclr"};
    for (int l = 0; l < 4; l++) {
        gf_trainer *host = make(losses[l], "cpu", "0"), *whole = make(losses[l], "cuda", "0");
        gf_trainer *parts = make(losses[l], "cuda", "4");
        double worst = 0.0;
        for (int step = 0; step < 12; step++) { /* two epochs: duplicates alone, then the detector; captured steps */
            trial_steps(host, 1), trial_steps(whole, 1), trial_steps(parts, 1);
            worst = fmax(worst, fabs(whole->stats.loss - host->stats.loss) / (1.0 + fabs(host->stats.loss)));
            worst = fmax(worst, fabs(parts->stats.loss - host->stats.loss) / (1.0 + fabs(host->stats.loss)));
        }
        print_message("%s: losses of 12 steps differ by %.1e\n", losses[l], worst);
        assert_true(worst <= 5e-6);
        assert_true(fabs((double)whole->scale.log_scale - (double)host->scale.log_scale) <= 5e-6);
        gf_trainer_free(host), gf_trainer_free(whole), gf_trainer_free(parts);
    }
}

static int enter(void **state) { return trial_enter(state) != 0 || trial_vocabulary("cuda_clip.vocab") != 0; }

TEST_NEEDS(no_cuda_device)
TEST_GROUP(enter, trial_leave)
