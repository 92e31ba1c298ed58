/* unit_clip_train.c - image-text training: parts of a batch equal the whole, a checkpoint continues bit for bit under every loss,
 * locked encoders stay, duplicates are masked from the first epoch, the temperature stays in its bounds, a small model learns;
 * and what goes wrong says so. Data are drawn shapes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "loop/checkpoint.h"
#include "loop/model.h"
#include "run/run_folder.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fine(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static void set(gf_config *c, const char *key, const char *value) {
    gf_error err = {""};
    fine(gf_config_set(&err, c, key, value), &err);
}

/* Small transformers on 16 pixels, six steps an epoch; then key, value pairs up to NULL. */
static gf_config config_of(const char *const *changes) {
    static const char *const keys[][2] = {
        {"task", "clip"},      {"data", "shapes:n=96,classes=6,size=16,seed=2"},
        {"arch", "vit"},       {"patch", "8"},
        {"image_width", "32"}, {"image_layers", "2"},
        {"image_heads", "2"},  {"text_width", "32"},
        {"text_layers", "2"},  {"text_heads", "2"},
        {"context", "24"},     {"embed_dim", "16"},
        {"batch", "16"},       {"epochs", "4"},
        {"start_epoch", "1"},  {"threads", "1"},
        {"workers", "2"},
    };
    gf_error err = {""};
    gf_config c;
    fine(gf_config_init(&err, &c), &err);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) set(&c, keys[i][0], keys[i][1]);
    set(&c, "vocab", scratch_path(&box, "vocab.txt"));
    for (; changes && *changes; changes += 2) set(&c, changes[0], changes[1]);
    return c;
}

static gf_trainer *make_trainer(const char *const *changes) {
    gf_error err = {""};
    gf_config c = config_of(changes);
    gf_trainer *t = NULL;
    fine(gf_config_resolve(&err, &c), &err);
    fine(gf_trainer_open(&err, &c, &t), &err);
    fine(gf_trainer_build(&err, t, NULL, NULL), &err);
    return t;
}

static void steps(gf_trainer *t, int n) {
    gf_error err = {""};
    for (int i = 0; i < n; i++) fine(gf_trainer_step(&err, t), &err);
}

/* Relative distance of all weights. */
static double distance(const gf_trainer *a, const gf_trainer *b) {
    double square = 0, size = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < a->encoders.at[k].tensor_count; i++) {
            const gf_tensor *x = &a->encoders.at[k].tensors[i], *y = &b->encoders.at[k].tensors[i];
            for (int64_t j = 0; j < x->count; j++) {
                const double d = (double)x->value[j] - (double)y->value[j];
                square += d * d;
                size += (double)x->value[j] * (double)x->value[j];
            }
        }
    return sqrt(square / size);
}

static void same_bits(const gf_trainer *a, const gf_trainer *b) {
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < a->encoders.at[k].tensor_count; i++) {
            const gf_tensor *x = &a->encoders.at[k].tensors[i], *y = &b->encoders.at[k].tensors[i];
            assert_string_equal(x->name, y->name);
            assert_memory_equal(x->value, y->value, sizeof(float) * (size_t)x->count);
        }
    assert_memory_equal(&a->scale, &b->scale, sizeof a->scale);
    assert_memory_equal(&a->stats.loss, &b->stats.loss, sizeof(double));
    for (int side = 0; side < 2; side++)
        for (int64_t id = 0; id < a->info.n; id++) {
            glofnd_anchor x, y;
            assert_int_equal(glofnd_anchors_get(gf_loss_stage_ctx(a->loss), gf_loss_stage_store(a->loss), side, &id, 1, &x),
                             GLOFND_OK);
            assert_int_equal(glofnd_anchors_get(gf_loss_stage_ctx(b->loss), gf_loss_stage_store(b->loss), side, &id, 1, &y),
                             GLOFND_OK);
            assert_memory_equal(&x, &y, sizeof x);
        }
}

/* ----- parts of a batch ----- */

TEST(parts_equal_the_whole) {
    static const char *const losses[] = {"clip", "sogclr2", "fastclip", "isogclr"};
    for (int l = 0; l < 4; l++) {
        /* AdamW turns rounding errors of gradients that are nearly 0 into steps: plain steps compare the gradients */
        const char *const whole[] = {"loss", losses[l], "optimizer", "sgd", "lr", "0.01", "grad_clip", "1", NULL};
        const char *const parts[] = {"loss",      losses[l], "optimizer",   "sgd", "lr", "0.01",
                                     "grad_clip", "1",       "micro_batch", "4",   NULL};
        gf_trainer *a = make_trainer(whole), *b = make_trainer(parts);
        steps(a, 7);
        steps(b, 7);
        assert_true(fabs(a->stats.loss - b->stats.loss) <= 1e-5 * (1.0 + fabs(a->stats.loss)));
        assert_true(distance(a, b) <= 1e-5);
        assert_true(fabs((double)a->scale.log_scale - (double)b->scale.log_scale) <= 1e-5);
        gf_trainer_free(a);
        gf_trainer_free(b);
    }
}

/* ----- checkpoints ----- */

static void goes_on(const char *const *changes, const char *run) {
    gf_error err = {""};
    char path[PATH_MAX];
    gf_remap found;
    gf_log_marks marks = {0, 0};
    gf_trainer *a = make_trainer(changes), *b = make_trainer(changes);
    steps(a, 9); /* in the middle of the second epoch, the detector at work */
    fine(gf_checkpoint_save(&err, a, scratch_path(&box, run), marks), &err);
    fine(gf_checkpoint_latest(&err, scratch_path(&box, run), path), &err);
    fine(gf_checkpoint_load(&err, b, path, 0, &found, &marks), &err);
    steps(a, 8);
    steps(b, 8);
    same_bits(a, b);
    gf_trainer_free(a);
    gf_trainer_free(b);
}

TEST(every_loss_goes_on_from_a_checkpoint) {
    static const char *const losses[] = {"clip", "sogclr2", "fastclip", "isogclr"};
    for (int l = 0; l < 4; l++) {
        const char *const changes[] = {"loss", losses[l], NULL};
        assert_int_equal(mkdir(scratch_path(&box, losses[l]), 0777), 0);
        goes_on(changes, losses[l]);
    }
}

TEST(parts_and_resnets_go_on_too) {
    static const char *const changes[] = {"arch", "resnet8", "micro_batch", "8", "loss", "fastclip", NULL};
    assert_int_equal(mkdir(scratch_path(&box, "parts"), 0777), 0);
    goes_on(changes, "parts");
}

TEST(another_vocabulary_is_refused) {
    gf_error err = {""};
    char path[PATH_MAX];
    gf_remap found;
    gf_log_marks marks = {0, 0};
    gf_trainer *a = make_trainer(NULL);
    assert_int_equal(mkdir(scratch_path(&box, "words"), 0777), 0);
    fine(gf_checkpoint_save(&err, a, scratch_path(&box, "words"), marks), &err);
    fine(gf_checkpoint_latest(&err, scratch_path(&box, "words"), path), &err);
    scratch_text(&box, "same-size.txt", "other\nb a\n"); /* as many tokens, other ones */
    scratch_text(&box, "larger.txt", "other\na t\nc a\n");
    const char *const same_size[] = {"vocab", scratch_path(&box, "same-size.txt"), NULL};
    gf_trainer *b = make_trainer(same_size);
    assert_int_equal(gf_checkpoint_load(&err, b, path, 0, &found, &marks), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "vocab"));
    const char *const larger[] = {"vocab", scratch_path(&box, "larger.txt"), NULL};
    gf_trainer *c = make_trainer(larger);
    assert_int_equal(gf_checkpoint_load(&err, c, path, 0, &found, &marks), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "token_embedding"));
    gf_trainer_free(a);
    gf_trainer_free(b);
    gf_trainer_free(c);
}

/* ----- starting from weights ----- */

TEST(starts_from_weights_and_says_what_is_missing) {
    gf_error err = {""};
    char line[1500];
    static const char *const deeper[] = {"text_layers", "3", "loss", "fastclip", "seed", "9", NULL};
    gf_trainer *a = make_trainer(NULL), *b = make_trainer(deeper);
    steps(a, 2);
    a->scale.log_scale = 3.0f;
    fine(gf_model_save(&err, a, scratch_path(&box, "start.safetensors")), &err);
    fine(gf_model_init(&err, b, scratch_path(&box, "start.safetensors"), line, sizeof line), &err);
    if (!strstr(line, "transformer.resblocks.2.")) fail_msg("%s", line);
    assert_true(b->scale.log_scale == 3.0f);
    const gf_tensor *x = &a->encoders.at[0].tensors[0], *y = &b->encoders.at[0].tensors[0];
    assert_memory_equal(x->value, y->value, sizeof(float) * (size_t)x->count);
    scratch_text(&box, "bad.safetensors", "no weights");
    assert_true(gf_model_init(&err, b, scratch_path(&box, "bad.safetensors"), line, sizeof line) != GLOFND_OK);
    gf_trainer_free(a);
    gf_trainer_free(b);
}

/* ----- encoders that stay, pairs that are none, the temperature ----- */

TEST(a_locked_encoder_stays) {
    for (int k = 0; k < 2; k++) {
        const char *const changes[] = {"lock", k == 0 ? "image" : "text", NULL};
        gf_trainer *t = make_trainer(changes), *fresh = make_trainer(changes);
        steps(t, 3);
        for (int w = 0; w < 2; w++) {
            const gf_tensor *x = &t->encoders.at[w].tensors[0], *y = &fresh->encoders.at[w].tensors[0];
            assert_int_equal(memcmp(x->value, y->value, sizeof(float) * (size_t)x->count) == 0, w == k);
        }
        gf_trainer_free(t);
        gf_trainer_free(fresh);
    }
}

/* A list that names every picture three times: most batches of 16 out of 24 hold some of them twice. */
static void write_duplicates(void) {
    char text[4000];
    int n = snprintf(text, sizeof text, "filepath\ttitle\n");
    for (int i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.png", i);
        scratch_png(&box, name, 16, i);
        for (int k = 0; k < 3; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s\tpicture %c, take %c\n", name, 'a' + i, 'a' + k);
    }
    scratch_text(&box, "twice.csv", text);
}

TEST(duplicates_are_no_negatives_from_the_first_epoch_on) {
    char data[600];
    write_duplicates();
    snprintf(data, sizeof data, "csv:%s", scratch_path(&box, "twice.csv"));
    for (int mask = 0; mask < 2; mask++) {
        const char *const changes[] = {"data", data,          "size", "16", "mask_duplicates", mask ? "1" : "0", "epochs",
                                       "6",    "start_epoch", "3",    NULL};
        gf_trainer *t = make_trainer(changes);
        for (int step = 0; step < 5; step++) {
            steps(t, 1);
            int64_t pairs = 0;
            for (int i = 0; i < 16; i++)
                for (int j = 0; j < 16; j++) pairs += i != j && t->batch.id[i] / 3 == t->batch.id[j] / 3;
            assert_true(pairs > 0);
            if (step < 3 || mask) assert_true(t->stats.flagged >= (mask ? 2 * pairs : 0));
            if (step < 3) assert_int_equal(t->stats.flagged, mask ? 2 * pairs : 0); /* both sides; no detector yet */
        }
        gf_trainer_free(t);
    }
}

TEST(the_temperature_stays_in_bounds) {
    static const char *const changes[] = {"loss", "fastclip", "scale_lr", "1", "tau", "0.05", NULL};
    gf_trainer *t = make_trainer(changes);
    for (int i = 0; i < 8; i++) {
        steps(t, 1);
        const double tau = gf_learned_tau_value(&t->scale);
        assert_true(tau >= 0.00999 && tau <= 1.0 && tau != 0.05);
    }
    assert_true(fabs(gf_learned_tau_value(&t->scale) - 0.01) < 1e-4); /* where it would go further */
    gf_trainer_free(t);
}

/* ----- learning ----- */

/* Share of the images of the last batch whose own caption is the most similar one. */
static double right(const gf_trainer *t) {
    const int64_t n = t->encoders.batch, dim = t->encoders.dim;
    int64_t hits = 0;
    for (int64_t i = 0; i < n; i++) {
        double best = -INFINITY;
        int64_t at = -1;
        for (int64_t j = 0; j < n; j++) {
            const float *x = t->encoders.at[0].out + i * dim, *y = t->encoders.at[1].out + j * dim;
            double dot = 0, size = 0;
            for (int64_t k = 0; k < dim; k++) dot += (double)x[k] * (double)y[k], size += (double)y[k] * (double)y[k];
            if (dot / sqrt(size) > best) best = dot / sqrt(size), at = j;
        }
        hits += at == i;
    }
    return (double)hits / (double)n;
}

/* Words of its own: in single bytes captions would be cut before they say much. */
static void learn_words(const char *data) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    char line[200];
    const char *const none[] = {"vocab", "", "vocab_merges", "300", NULL};
    const gf_config c = config_of(none);
    fine(gf_dataset_open(&err, data, &d), &err);
    fine(gf_vocabulary_write(&err, &c, d, scratch_path(&box, "words.txt"), line, sizeof line), &err);
    assert_non_null(strstr(line, "learned"));
    gf_dataset_free(d);
}

TEST(a_small_model_learns) {
    static const char data[] = "shapes:n=256,classes=12,size=16";
    learn_words(data);
    char words[200];
    snprintf(words, sizeof words, "%s", scratch_path(&box, "words.txt"));
    const char *const changes[] = {"arch", "resnet8",     "data", data, "vocab", words,     "batch", "32", "epochs",
                                   "12",   "start_epoch", "8",    "lr", "0.003", "threads", "2",     NULL};
    gf_trainer *t = make_trainer(changes);
    steps(t, (int)gf_trainer_steps(t));
    print_message("own caption first: %.2f of 32\n", right(t));
    assert_true(right(t) > 0.12); /* one of 32 is 0.03 */
    gf_trainer_free(t);
}

/* ----- what goes wrong ----- */

static void wrong(const char *const *changes, const char *part) {
    gf_error err = {""};
    gf_config c = config_of(changes);
    gf_trainer *t = NULL;
    glofnd_status status = gf_config_resolve(&err, &c);
    if (status == GLOFND_OK) status = gf_trainer_open(&err, &c, &t);
    if (status == GLOFND_OK) status = gf_trainer_build(&err, t, NULL, NULL);
    gf_trainer_free(t);
    assert_true(status != GLOFND_OK);
    if (!strstr(err.text, part)) fail_msg("\"%s\" is not in: %s", part, err.text);
}

TEST(mistakes_are_told) {
    char flat[600], pairs[600];
    scratch_png(&box, "plain/1.png", 16, 1);
    scratch_png(&box, "plain/2.png", 16, 2);
    snprintf(flat, sizeof flat, "folder:%s", scratch_path(&box, "plain"));
    scratch_text(&box, "pairs.csv", "filepath\ttitle\nplain/1.png\tone\nplain/2.png\ttwo\n");
    snprintf(pairs, sizeof pairs, "csv:%s", scratch_path(&box, "pairs.csv"));
    const char *const no_captions[] = {"data", flat, "batch", "2", NULL};
    wrong(no_captions, "1.png");
    const char *const no_vocabulary[] = {"vocab", "", NULL};
    wrong(no_vocabulary, "vocab");
    const char *const no_file[] = {"vocab", "/no/such/file", NULL};
    wrong(no_file, "/no/such/file");
    const char *const oracle[] = {"data", pairs, "batch", "2", "size", "16", "detector", "oracle", NULL};
    wrong(oracle, "detector: oracle");
    const char *const long_warmup[] = {"warmup_steps", "24", NULL};
    wrong(long_warmup, "warmup_steps");
    const char *const odd_patch[] = {"patch", "7", NULL};
    wrong(odd_patch, "patch");
}

static int open_box(void **state) {
    (void)state;
    scratch_make(&box);
    scratch_text(&box, "vocab.txt", "first line\na t\n");
    return 0;
}

static int close_box(void **state) {
    (void)state;
    scratch_remove(&box);
    return 0;
}

#if !defined GF_HAVE_DNNL || !defined GF_HAVE_PNG
TEST_SKIP("built without a library that it needs")
#endif
TEST_GROUP(open_box, close_box)
