/* unit_checkpoint.c - checkpoints: what is loaded continues as what was saved, torn ones do not count, damaged ones are named,
 * and a failed save leaves the one before; with other data anchors follow their samples. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "io/blockfile.h"
#include "support/trial.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Settings of its own: one. */
static gf_trainer *make_trainer_on(const char *key, const char *value, const char *store_path) {
    static const trial_setting settings[] = {
        {"data", "shapes:n=24,classes=3,size=16"},
        {"arch", "resnet8"},
        {"head_hidden", "8"},
        {"head_out", "4"},
        {"batch", "4"},
        {"epochs", "3"},
        {"start_epoch", "0"},
        {"threads", "1"},
        {NULL, NULL},
    };
    const trial_setting own[] = {{key, value}, {NULL, NULL}};
    return trial_make(settings, own, (trial_place){.store = store_path});
}

static gf_trainer *make_trainer(const char *key, const char *value) { return make_trainer_on(key, value, NULL); }

static void same_weights(const gf_trainer *a, const gf_trainer *b) {
    assert_int_equal(a->encoders.at[0].tensor_count, b->encoders.at[0].tensor_count);
    for (int i = 0; i < a->encoders.at[0].tensor_count; i++)
        assert_memory_equal(a->encoders.at[0].tensors[i].value, b->encoders.at[0].tensors[i].value,
                            sizeof(float) * (size_t)a->encoders.at[0].tensors[i].count);
}

static void save(gf_trainer *t, const char *run) { trial_save(t, run, (gf_log_marks){7, 99}); }

static void latest_is(const char *run, const char *expected) {
    gf_error err = {""};
    char path[PATH_MAX];
    trial_fine(gf_checkpoint_latest(&err, run, path), &err);
    assert_string_equal(path, expected);
}

static void goes_on(const char *run, const char *key, const char *value) {
    gf_trainer *a = make_trainer(key, value), *b = make_trainer(key, value);
    trial_steps(a, 8); /* in the middle of the second epoch */
    save(a, run);
    const gf_log_marks marks = trial_load(b, run);
    assert_true(marks.log_lines == 7 && marks.event_bytes == 99);
    assert_int_equal(b->step, 8);
    assert_memory_equal(&a->sums, &b->sums, sizeof a->sums);
    same_weights(a, b);
    trial_steps(a, 7);
    trial_steps(b, 7);
    assert_memory_equal(&a->sums, &b->sums, sizeof a->sums);
    assert_memory_equal(&a->stats.loss, &b->stats.loss, sizeof(double));
    same_weights(a, b);
    assert_memory_equal(a->encoders.at[0].state1, b->encoders.at[0].state1, sizeof(float) * (size_t)a->state_count);
    gf_trainer_free(a);
    gf_trainer_free(b);
}

TEST(test_lars_goes_on) { goes_on("lars", NULL, NULL); }

TEST(test_adamw_goes_on) { goes_on("adamw", "optimizer", "adamw"); }

TEST(test_ring_goes_on) { goes_on("ring", "learner", "ring"); }

TEST(test_shrinking_steps_go_on) { goes_on("shrinking", "lambda_decay", "0.5"); }

TEST(test_newest_complete) {
    gf_trainer *t = make_trainer(NULL, NULL);
    latest_is("nowhere", "");
    trial_steps(t, 2);
    save(t, "run");
    latest_is("run", "run/checkpoints/step-2");
    mkdir("run/checkpoints/step-9", 0777); /* no DONE */
    mkdir("run/checkpoints/step-x", 0777);
    mkdir("run/checkpoints/tmp-3", 0777);
    latest_is("run", "run/checkpoints/step-2");
    trial_steps(t, 1);
    save(t, "run");
    latest_is("run", "run/checkpoints/step-3");
    assert_int_not_equal(access("run/checkpoints/step-2", F_OK), 0);
    assert_int_not_equal(access("run/checkpoints/step-9", F_OK), 0);
    assert_int_not_equal(access("run/checkpoints/tmp-3", F_OK), 0);
    assert_int_equal(access("run/checkpoints/step-x", F_OK), 0); /* not ours */
    gf_trainer_free(t);
}

static void flip(const char *path, long from_end) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    const int c = getc(f);
    assert_int_equal(fseek(f, -from_end, SEEK_END), 0);
    putc(c ^ 1, f);
    fclose(f);
}

TEST(test_damage_is_named) {
    static const char *const names[] = {"model.safetensors", "optim.safetensors", "anchors.glofnd",
                                        "keys.glofnd",       "state.json",        "config.cfg"};
    gf_trainer *t = make_trainer(NULL, NULL);
    gf_log_marks marks;
    gf_remap found;
    char path[PATH_MAX];
    trial_steps(t, 1);
    save(t, "harmed");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gf_error err = {""};
        snprintf(path, sizeof path, "harmed/checkpoints/step-1/%s", names[i]);
        flip(path, 5);
        assert_int_equal(gf_checkpoint_load(&err, t, "harmed/checkpoints/step-1", 0, &found, &marks), GLOFND_E_FORMAT);
        assert_non_null(strstr(err.text, names[i]));
        flip(path, 5);
        trial_fine(gf_checkpoint_load(&err, t, "harmed/checkpoints/step-1", 0, &found, &marks), &err);
    }
    gf_error err = {""};
    assert_int_equal(unlink("harmed/checkpoints/step-1/anchors.glofnd"), 0);
    assert_int_equal(gf_checkpoint_load(&err, t, "harmed/checkpoints/step-1", 0, &found, &marks), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "anchors.glofnd"));
    gf_trainer_free(t);
}

/* Runs of other data: all their files have the same lengths, and none may take the place of another's. */
TEST(test_files_of_another_run) {
    static const char *const names[] = {"model.safetensors", "optim.safetensors", "anchors.glofnd", "keys.glofnd"};
    gf_trainer *mine = make_trainer(NULL, NULL), *other = make_trainer("data", "shapes:n=24,classes=3,size=16,seed=9");
    gf_log_marks marks;
    gf_remap found;
    char command[500];
    trial_steps(mine, 3);
    trial_steps(other, 3);
    save(mine, "mine");
    save(other, "other");
    for (int i = 0; i < 4; i++) {
        gf_error err = {""};
        snprintf(command, sizeof command,
                 "cd mine/checkpoints/step-3 && mv %s aside && cp ../../../other/checkpoints/step-3/%s . && "
                 "test $(wc -c < %s) = $(wc -c < aside)",
                 names[i], names[i], names[i]);
        assert_int_equal(system(command), 0);
        assert_int_equal(gf_checkpoint_load(&err, mine, "mine/checkpoints/step-3", 0, &found, &marks), GLOFND_E_FORMAT);
        assert_non_null(strstr(err.text, names[i]));
        assert_non_null(strstr(err.text, "of a different checkpoint"));
        snprintf(command, sizeof command, "cd mine/checkpoints/step-3 && mv aside %s", names[i]);
        assert_int_equal(system(command), 0);
        trial_fine(gf_checkpoint_load(&err, mine, "mine/checkpoints/step-3", 0, &found, &marks), &err);
    }
    gf_trainer_free(mine);
    gf_trainer_free(other);
}

static uint32_t crc_of(const char *path) {
    unsigned char part[4096];
    uint32_t crc = 0;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) crc = gf_crc32c(crc, part, n);
    fclose(f);
    return crc;
}

/* Older checkpoints have CRCs in DONE, and no configuration. `wrong`: to be added to the first of them. */
static void write_old_done(const char *folder, uint32_t wrong) {
    static const char *const names[] = {"model.safetensors", "optim.safetensors", "anchors.glofnd", "keys.glofnd", "state.json"};
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/DONE", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(stat(path, &st), 0);
        fprintf(f, "%08x %lld %s\n", (unsigned)(crc_of(path) + (i == 0 ? wrong : 0)), (long long)st.st_size, names[i]);
    }
    fclose(f);
}

/* The configuration comes back as it was; corrupt files are reported; a checkpoint of an earlier version has none. */
TEST(test_configuration) {
    static const char path[] = "settings/checkpoints/step-0";
    gf_error err = {""};
    gf_config back;
    int has = 0;
    gf_trainer *t = make_trainer("lr", "0.25");
    save(t, "settings");
    trial_fine(gf_checkpoint_config(&err, path, &back, &has), &err);
    assert_true(has && back.lr == 0.25 && back.batch == 4 && back.stem == t->config.stem && gf_config_covers(&back, &t->config));
    flip("settings/checkpoints/step-0/config.cfg", 9);
    assert_int_equal(gf_checkpoint_config(&err, path, &back, &has), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "config.cfg is corrupt"));
    unlink("settings/checkpoints/step-0/config.cfg");
    assert_int_equal(gf_checkpoint_config(&err, path, &back, &has), GLOFND_E_IO);
    write_old_done(path, 0);
    trial_fine(gf_checkpoint_config(&err, path, &back, &has), &err);
    assert_false(has);
    gf_trainer_free(t);
}

TEST(test_done_of_earlier_versions) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *t = make_trainer(NULL, NULL);
    trial_steps(t, 2);
    save(t, "old");
    write_old_done("old/checkpoints/step-2", 0);
    trial_fine(gf_checkpoint_load(&err, t, "old/checkpoints/step-2", 0, &found, &marks), &err);
    assert_int_equal(t->step, 2);
    write_old_done("old/checkpoints/step-2", 1);
    assert_int_equal(gf_checkpoint_load(&err, t, "old/checkpoints/step-2", 0, &found, &marks), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "model.safetensors"));
    gf_trainer_free(t);
}

/* Lines are missing, though all that are left are right. */
TEST(test_done_is_cut) {
    static const char *const cuts[] = {"$d", "/keys/d", "/^end/d; /keys/d", "$p"};
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *t = make_trainer(NULL, NULL);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        gf_error err = {""};
        char command[120];
        save(t, "cut");
        snprintf(command, sizeof command, "sed -i '%s' cut/checkpoints/step-0/DONE", cuts[i]);
        trial_fine(gf_checkpoint_load(&err, t, "cut/checkpoints/step-0", 0, &found, &marks), &err);
        assert_int_equal(system(command), 0);
        assert_int_equal(gf_checkpoint_load(&err, t, "cut/checkpoints/step-0", 0, &found, &marks), GLOFND_E_FORMAT);
        assert_non_null(strstr(err.text, "cut/checkpoints/step-0/DONE"));
        assert_int_equal(system("rm -r cut"), 0);
    }
    gf_trainer_free(t);
}

static void done_is(const char *text) {
    FILE *f = fopen("torn/checkpoints/step-0/DONE", "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

TEST(test_hostile_done) {
#define ALL "model.safetensors optim.safetensors anchors.glofnd state.json"
    static const char *const texts[] = {
        "",
        "\n",
        "x",
        ALL,
        ALL "\n",
        "0 0 " ALL "\n",
        ALL " ../../../etc/passwd\n",
        ALL " \n",
        "00000000 1 " ALL "\n",
        "model.safetensors\noptim.safetensors\nanchors.glofnd\nstate.json\n",
    };
#undef ALL
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *t = make_trainer(NULL, NULL);
    save(t, "torn");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gf_error err = {""};
        done_is(texts[i]);
        assert_int_not_equal(gf_checkpoint_load(&err, t, "torn/checkpoints/step-0", 0, &found, &marks), GLOFND_OK);
        assert_non_null(strstr(err.text, "torn/checkpoints/step-0"));
    }
    gf_trainer_free(t);
}

/* The new one cannot be written: a file stands where its folder should be made. */
TEST(test_failed_save) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *t = make_trainer(NULL, NULL);
    trial_steps(t, 1);
    save(t, "kept");
    trial_steps(t, 1);
    close(open("kept/checkpoints/tmp-2", O_CREAT | O_WRONLY, 0666));
    assert_int_equal(gf_checkpoint_save(&err, t, "kept", (gf_log_marks){0, 0}), GLOFND_E_IO);
    latest_is("kept", "kept/checkpoints/step-1");
    trial_fine(gf_checkpoint_load(&err, t, "kept/checkpoints/step-1", 0, &found, &marks), &err);
    gf_trainer_free(t);
}

TEST(test_other_networks) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *a = make_trainer(NULL, NULL), *wide = make_trainer("head_hidden", "9");
    gf_trainer *adam = make_trainer("optimizer", "adamw");
    gf_trainer *more = make_trainer("data", "shapes:n=28,classes=3,size=16");
    save(a, "a");
    assert_int_equal(gf_checkpoint_load(&err, wide, "a/checkpoints/step-0", 0, &found, &marks), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "head."));
    assert_int_equal(gf_checkpoint_load(&err, adam, "a/checkpoints/step-0", 0, &found, &marks), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "state2"));
    assert_int_equal(gf_checkpoint_load(&err, more, "a/checkpoints/step-0", 0, &found, &marks), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "of its 24 samples 24 are found and 0 are missing, and 4 are new"));
    gf_trainer_free(a);
    gf_trainer_free(wide);
    gf_trainer_free(adam);
    gf_trainer_free(more);
}

/* State of anchor i; of a store in whatever place. */
static glofnd_anchor anchor(const gf_trainer *t, int64_t i) {
    glofnd_anchor row;
    assert_int_equal(glofnd_anchors_get(gf_loss_stage_ctx(t->loss), gf_loss_stage_store(t->loss), 0, &i, 1, &row), GLOFND_OK);
    return row;
}

/* Samples 0..23 were trained; now there are `n` of the same stream. */
static void re_maps(const char *data, int64_t n, const char *store_path) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    const int64_t kept = n < 24 ? n : 24;
    gf_trainer *a = make_trainer(NULL, NULL), *b = make_trainer_on("data", data, store_path);
    trial_steps(a, 8); /* 6 steps an epoch: in the middle of the second */
    save(a, "grown");
    assert_int_equal(gf_checkpoint_load(&err, b, "grown/checkpoints/step-8", 1, &found, &marks), GLOFND_OK);
    assert_true(found.changed && found.rows == 24 && found.kept == kept && found.fresh == n - kept && found.lost == 24 - kept);
    assert_int_equal(b->step, b->epoch_steps); /* the second epoch begins again */
    same_weights(a, b);
    for (int64_t i = 0; i < n; i++) {
        const glofnd_anchor never = {.lambda = 1.0f, .log_u = -INFINITY}, have = anchor(b, i),
                            want = i < 24 ? anchor(a, i) : never;
        assert_memory_equal(&have, &want, sizeof have);
    }
    assert_int_not_equal(access("grown/anchors.remapped", F_OK), 0);
    trial_steps(b, 3);
    gf_trainer_free(a);
    gf_trainer_free(b);
}

TEST(test_other_data) {
    re_maps("shapes:n=32,classes=3,size=16", 32, NULL);
    re_maps("shapes:n=17,classes=3,size=16", 17, NULL);
    re_maps("shapes:n=32,classes=3,size=16", 32, "anchors.work");
}

/* The same data asked for with remap: nothing happens. Keys of an earlier version are missing: the numbers decide. */
TEST(test_equal_data) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *a = make_trainer(NULL, NULL), *b = make_trainer(NULL, NULL);
    trial_steps(a, 8);
    save(a, "equal");
    trial_fine(gf_checkpoint_load(&err, b, "equal/checkpoints/step-8", 1, &found, &marks), &err);
    assert_true(!found.changed && found.kept == 24 && found.fresh == 0 && found.lost == 0 && b->step == 8);
    assert_int_equal(system("cd equal/checkpoints/step-8 && rm keys.glofnd && sed -i '/keys/d; s/^end 6/end 5/' DONE"), 0);
    trial_fine(gf_checkpoint_load(&err, b, "equal/checkpoints/step-8", 0, &found, &marks), &err);
    assert_int_equal(b->step, 8);
    gf_trainer_free(a);
    gf_trainer_free(b);
}

/* A store that is mapped from a file saves the bytes of one in memory, and continues from them. */
TEST(test_mapped_store) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    gf_trainer *a = make_trainer(NULL, NULL), *b = make_trainer_on(NULL, NULL, "mapped.work");
    trial_steps(a, 5);
    trial_steps(b, 5);
    save(a, "in-memory");
    save(b, "in-file");
    assert_int_equal(system("diff -r in-memory in-file"), 0);
    trial_steps(b, 1); /* beyond the checkpoint: to be forgotten */
    trial_fine(gf_checkpoint_load(&err, b, "in-file/checkpoints/step-5", 0, &found, &marks), &err);
    trial_steps(a, 4);
    trial_steps(b, 4);
    save(a, "in-memory");
    save(b, "in-file");
    assert_int_equal(system("diff -r in-memory in-file"), 0);
    gf_trainer_free(a);
    gf_trainer_free(b);
}

TEST(test_numeric_guard) {
    gf_error err = {""};
    gf_trainer *t = make_trainer(NULL, NULL);
    t->encoders.at[0].tensors[0].value[0] = (float)NAN;
    gf_encoders_touch(&t->encoders);
    assert_int_equal(gf_trainer_step(&err, t), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "step 0"));
    assert_non_null(strstr(err.text, "sample"));
    assert_int_equal(t->step, 0);
    gf_trainer_free(t);
}

TEST(test_estimate) {
    gf_error err = {""};
    size_t bytes = 0, ring = 0;
    gf_trainer *t = make_trainer(NULL, NULL), *r = make_trainer("learner", "ring");
    trial_fine(gf_trainer_estimate(&err, t, &bytes), &err);
    trial_fine(gf_trainer_estimate(&err, r, &ring), &err);
    const size_t held = gf_net_bytes(t->encoders.at[0].net) + sizeof(float) * (size_t)t->state_count;
    assert_true(bytes > held && bytes < 2 * held);
    assert_true(ring >= bytes + 16384 * (4 * sizeof(float) + sizeof(int64_t)));
    gf_trainer_free(t);
    gf_trainer_free(r);
}

/* Averages are on every rank, all of them; other state is divided. */
TEST(test_estimate_of_averages) {
    gf_error err = {""};
    gf_comm four = {.ranks = 4};
    gf_trainer *t = make_trainer(NULL, NULL), *b = make_trainer("similarity", "bank");
    const size_t n = (size_t)t->info.n, average = 2 * (size_t)gf_config_dim(&t->config);
    for (int ranks = 1; ranks <= 4; ranks += 3) {
        size_t plain = 0, bank = 0;
        t->comm = b->comm = ranks == 1 ? NULL : &four;
        trial_fine(gf_trainer_estimate(&err, t, &plain), &err);
        trial_fine(gf_trainer_estimate(&err, b, &bank), &err);
        assert_int_equal(bank - plain, n * (average + (ranks > 1 ? 20 : 0)));
    }
    t->comm = b->comm = NULL;
    gf_trainer_free(t);
    gf_trainer_free(b);
}

TEST_GROUP(trial_enter, trial_leave)
