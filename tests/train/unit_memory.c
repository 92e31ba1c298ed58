/* unit_memory.c - what a run holds on the CPU, by kind (train/memory.h). */
#include "support/test.h"

#include "loop/trainer.h"
#include "support/trial.h"

static const trial_setting small[] = {{"data", "shapes:n=64,classes=3,size=16"},
                                      {"arch", "resnet8"},
                                      {"stem", "1"},
                                      {"head_hidden", "32"},
                                      {"head_out", "16"},
                                      {"batch", "16"},
                                      {"epochs", "2"},
                                      {"threads", "1"},
                                      {"prefetch", "2"},
                                      {"optimizer", "adamw"},
                                      {"device", "cpu"},
                                      {NULL, NULL}};

static gf_memory_split split_of(const trial_setting *more) {
    gf_memory_split m;
    gf_trainer *t = trial_make(small, more, (trial_place){0});
    trial_steps(t, 2);
    gf_trainer_memory(t, &m);
    gf_trainer_free(t);
    return m;
}

TEST(every_kind_is_counted) {
    gf_trainer *t = trial_make(small, NULL, (trial_place){0});
    gf_memory_split m;
    int64_t numbers, params = 0;
    gf_net_gradients(t->encoders.at[0].net, &numbers);
    for (int i = 0; i < t->param_count; i++) params += (int64_t)t->params[i].n;
    gf_trainer_memory(t, &m);
    assert_true(numbers >= params && numbers < params + 16 * t->param_count); /* whole cache lines */
    assert_int_equal(m.optimizer, 2 * 4 * numbers);
    assert_true(m.weights >= 2 * 4 * numbers && m.weights < 8 * 4 * numbers); /* gradients, copies for the kernels */
    assert_true(m.activations > 32 * 16 * 16 * 16 * 4);                       /* of one layer at least: 32 views, 16 channels */
    assert_true(m.workspace > 0);
    assert_true(m.loss > 2 * 32 * 16 * 4 && m.loss < 1 << 24);
    assert_int_equal(m.data, 3 * (2 * 16 * 16 * 16 * 3 * 4 + 16 * 12)); /* three batches of two views, id and label */
    assert_true(m.peak > m.weights + m.optimizer);
    gf_trainer_free(t);
}

TEST(kinds_grow_with_what_they_hold) {
    static const trial_setting twice[] = {{"batch", "32"}, {NULL, NULL}}, sgd[] = {{"optimizer", "sgd"}, {NULL, NULL}};
    const gf_memory_split one = split_of(NULL), two = split_of(twice), plain = split_of(sgd);
    assert_int_equal(one.optimizer, two.optimizer);
    assert_int_equal(one.optimizer, 2 * plain.optimizer);
    assert_true(two.activations > 19 * one.activations / 10 && two.activations < 21 * one.activations / 10);
    assert_true(two.loss > one.loss && two.data == 2 * one.data);
}

TEST_GROUP(trial_enter, trial_leave)
