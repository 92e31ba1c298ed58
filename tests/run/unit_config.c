/* unit_config.c - configurations: keys of both tables, files with line numbers, resolving, writing and reading back. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "run/config.h"
#include "support/config_checks.h"
#include "support/defaults.h"
#include "support/losses.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* ----- keys ----- */

TEST(test_keys_of_both_tables) {
    gf_config c = fresh();
    set(&c, "batch", "64");
    set(&c, "alpha", "0.05");
    set(&c, "head-hidden", "128");
    set(&c, "lambda-lr", "0.5");
    set(&c, "decode", "fast");
    set(&c, "data", "shapes:n=10");
    assert_int_equal(c.batch, 64);
    assert_true(c.method.alpha == 0.05 && c.method.lambda_lr == 0.5);
    assert_int_equal(c.head_hidden, 128);
    assert_int_equal(c.decode, GF_DECODE_FAST);
    assert_string_equal(c.data, "shapes:n=10");
    char text[64];
    gf_config_text(&c, "lambda-lr", text, sizeof text);
    assert_string_equal(text, "0.5");
    gf_config_text(&c, "nothing", text, sizeof text);
    assert_string_equal(text, "");
}

TEST(test_refused_keys) {
    gf_config c = fresh();
    refused(&c, "bacth", "64", "batch");
    refused(&c, "alfa", "64", "alpha");
    refused(&c, "lamda_lr", "64", "lambda_lr");
    refused(&c, "learning-rate", "1", "here its name is lr (a number in (0, 1000])"); /* what others call it */
    refused(&c, "temperature", "1", "here its name is tau (");
    refused(&c, "batch_size", "1", "here its name is batch (");
    refused(&c, "butterfly", "1", "no known one is like it");
    refused(&c, "", "1", "unknown");
    refused(&c, "batch", "many", "batch");
    refused(&c, "batch", "", "batch");
    refused(&c, "batch", "1", "[2, 1048576]");
    refused(&c, "batch", "99999999999999999999", "batch");
    refused(&c, "arch", "resnet19", "resnet18");
    refused(&c, "decode", "quick", "exact|fast");
    refused(&c, "alpha", "nan", "alpha");
    refused(&c, "strict", "maybe", "0 or 1");
    char *long_text = malloc(5000);
    memset(long_text, 'x', 4999);
    long_text[4999] = 0;
    refused(&c, "data", long_text, "data");
    refused(&c, long_text, "1", "unknown");
    free(long_text);
}

/* Keys must be unique over both tables, else one of them could never be set. */
TEST(test_removed_keys) {
    gf_config c;
    gf_error err;
    assert_int_equal(gf_config_init(&err, &c), GLOFND_OK);
    const gf_config before = c;
    assert_int_equal(gf_config_set(&err, &c, "hard-beta", "0"), GLOFND_OK); /* as runs of 0.2 have it */
    assert_int_equal(gf_config_set(&err, &c, "flag_probability", "1"), GLOFND_OK);
    assert_int_equal(gf_config_set(&err, &c, "flag_seed", "7"), GLOFND_OK);
    assert_memory_equal(&c, &before, sizeof c);
    assert_int_equal(gf_config_set(&err, &c, "hard_beta", "0.5"), GLOFND_E_OPTION);
    assert_non_null(strstr(err.text, "removed in 1.0"));
    assert_int_equal(gf_config_set(&err, &c, "flag_probability", "0.5"), GLOFND_E_OPTION);
    assert_int_equal(gf_config_set(&err, &c, "require_label", "yes"), GLOFND_E_OPTION);
}

TEST(test_keys_differ) {
    int in_method, found_in;
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        if (!o) break;
        assert_ptr_equal(gf_config_find(o->key, &found_in), o);
        assert_int_equal(found_in, in_method);
        assert_true(*o->help && *o->group);
    }
    assert_null(gf_config_option(-1, &in_method));
    assert_null(gf_config_find("nothing", &in_method));
}

/* ----- resolving ----- */

TEST(test_kept_epochs) {
    gf_error err = {""};
    gf_config c = fresh();
    int32_t epoch[GF_KEPT_EPOCHS];
    int count = -1;
    set(&c, "data", "shapes:");
    assert_int_equal(gf_config_kept_epochs(&err, &c, epoch, &count), GLOFND_OK);
    assert_int_equal(count, 0);
    set(&c, "checkpoint_epochs", "14,22,1000000");
    resolve(&c);
    assert_int_equal(gf_config_kept_epochs(&err, &c, epoch, &count), GLOFND_OK);
    assert_int_equal(count, 3);
    assert_true(epoch[0] == 14 && epoch[1] == 22 && epoch[2] == 1000000);
    static const char *const wrong[] = {"0", "14,", ",14", "14;22", "1.5", "1000001", "-3", "14, x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        set(&c, "checkpoint_epochs", wrong[i]);
        unresolved(c, "checkpoint_epochs: \"");
    }
    char many[2 * (GF_KEPT_EPOCHS + 1)] = "1";
    for (int i = 1; i <= GF_KEPT_EPOCHS; i++) strcat(many, ",1");
    set(&c, "checkpoint_epochs", many);
    unresolved(c, "at most 128 numbers");
    many[strlen(many) - 2] = 0;
    set(&c, "checkpoint_epochs", many);
    resolve(&c);
}

static gf_eval_view eval_view_of(const char *task, const char *init, const char *given) {
    gf_config c = fresh();
    set(&c, "data", "shapes:");
    set(&c, "task", task);
    set(&c, "init", init);
    if (given) set(&c, "eval_view", given);
    resolve(&c);
    return c.eval_view;
}

/* Weights that others have trained are evaluated as they were, the rest as before. */
TEST(test_eval_view) {
    assert_int_equal(eval_view_of("clip", "RN50.safetensors", NULL), GF_EVAL_CLIP);
    assert_int_equal(eval_view_of("clip", "", NULL), GF_EVAL_CLIP); /* as DataComp and open_clip evaluate */
    assert_int_equal(eval_view_of("clip", "", "auto"), GF_EVAL_CENTER);
    assert_int_equal(eval_view_of("views", "resnet50.safetensors", NULL), GF_EVAL_CENTER);
    assert_int_equal(eval_view_of("clip", "RN50.safetensors", "center"), GF_EVAL_CENTER);
    assert_int_equal(eval_view_of("views", "", "clip"), GF_EVAL_CLIP);
}

TEST(test_start_epochs) {
    gf_config c = fresh();
    set(&c, "data", "shapes:");
    resolve(&c);
    assert_int_equal(c.start_epoch, 70);
    assert_int_equal(c.warmup_epochs, 10);
    assert_int_equal(c.method.update_epoch, 70);
    assert_int_equal(c.method.mask_epoch, 70);

    c = fresh();
    set(&c, "data", "shapes:");
    set(&c, "epochs", "1");
    resolve(&c);
    assert_int_equal(c.start_epoch, 0);
    assert_int_equal(c.warmup_epochs, 0);

    c = fresh();
    set(&c, "data", "shapes:");
    set(&c, "start_epoch", "5");
    set(&c, "mask_epoch", "9");
    resolve(&c);
    assert_int_equal(c.method.update_epoch, 5);
    assert_int_equal(c.method.mask_epoch, 9);

    set(&c, "start_epoch", "6"); /* the last one given wins */
    resolve(&c);
    assert_int_equal(c.method.update_epoch, 6);
    assert_int_equal(c.method.mask_epoch, 6);

    set(&c, "update_epoch", "8"); /* the loss sees nothing before it */
    resolve(&c);
    assert_int_equal(c.method.mask_epoch, 8);
}

TEST(test_combinations) {
    gf_config c = fresh();
    unresolved(c, "data");
    set(&c, "data", "shapes:");
    gf_config d = c;
    set(&d, "loss", "clip");
    unresolved(d, "loss");
    refused(&c, "lr", "0", "expected a number in (0, 1000]");
    d = c;
    set(&d, "store", "file");
    resolve(&d);
    set(&d, "device", "cuda");
    unresolved(d, "store");
    d = c;
    set(&d, "size", "7");
    unresolved(d, "size");
    set(&d, "size", "8");
    resolve(&d);
    d = c;
    set(&d, "grad_clip", "1");
    unresolved(d, "grad_clip"); /* lars is the default */
    set(&d, "optimizer", "sgd");
    resolve(&d);
    d = c;
    set(&d, "warmup_epochs", "200");
    unresolved(d, "warmup_epochs");
    d = c;
    set(&d, "update_epoch", "20");
    set(&d, "mask_epoch", "10");
    unresolved(d, "mask_epoch");
}

TEST(test_learning_rate) {
    gf_config c = fresh();
    set(&c, "batch", "1024");
    assert_true(gf_config_lr(&c) == 0.075 * 32);
    set(&c, "lr_scaling", "linear");
    assert_true(gf_config_lr(&c) == 0.075 * 4);
    set(&c, "lr_scaling", "none");
    assert_true(gf_config_lr(&c) == 0.075);
}

TEST(test_same_run) {
    gf_error err = {""};
    gf_config a = fresh(), b = fresh();
    set(&b, "epochs", "300");
    set(&b, "lr", "0.01");
    set(&b, "workers", "3");
    set(&b, "learner", "sgd"); /* run/resume.h knows when it may differ */
    assert_int_equal(gf_config_same_run(&err, &a, &b), GLOFND_OK);
    static const char *const fixed[][2] = {
        {"seed", "2"},          {"task", "clip"},      {"arch", "resnet50"},  {"size", "33"},
        {"stem", "0"},          {"head_hidden", "7"},  {"head_out", "7"},     {"batch", "34"},
        {"optimizer", "sgd"},   {"image_width", "70"}, {"image_layers", "3"}, {"image_heads", "7"},
        {"patch", "8"},         {"embed_dim", "24"},   {"text_width", "24"},  {"text_layers", "3"},
        {"text_heads", "3"},    {"context", "24"},     {"quick_gelu", "1"},   {"vocab", "words.gz"},
        {"vocab_merges", "24"}, {"lock", "text"},      {"loss", "simclr"},    {"init", "weights.safetensors"},
        {"zero_init", "0"},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        gf_config other = b;
        set(&other, fixed[i][0], fixed[i][1]);
        assert_int_equal(gf_config_same_run(&err, &a, &other), GLOFND_E_OPTION);
        if (strncmp(err.text, fixed[i][0], strlen(fixed[i][0])) != 0) fail_msg("%s: %s", fixed[i][0], err.text);
    }
}

/* ----- files ----- */

static void bad_file(const char *text, const char *part) {
    gf_error err = {""};
    gf_config c = fresh();
    write_file("bad.cfg", text);
    assert_int_not_equal(gf_config_read(&err, &c, "bad.cfg"), GLOFND_OK);
    if (!strstr(err.text, part)) fail_msg("\"%s\" is not in: %s", part, err.text);
    unlink("bad.cfg");
}

TEST(test_files) {
    gf_error err = {""};
    gf_config c = fresh();
    write_file("good.cfg", "\xef\xbb\xbf# comment\n; comment\n\n  batch=64\t\r\nalpha = 0.5\ndata = list:a b=c.txt\nepochs = 7");
    if (gf_config_read(&err, &c, "good.cfg") != GLOFND_OK) fail_msg("%s", err.text);
    unlink("good.cfg");
    assert_int_equal(c.batch, 64);
    assert_true(c.method.alpha == 0.5);
    assert_string_equal(c.data, "list:a b=c.txt");
    assert_int_equal(c.epochs, 7);
    bad_file("batch = 64\nbacth = 3\n", "bad.cfg:2");
    bad_file("batch = 64\n\n\nbatch\n", "bad.cfg:4");
    bad_file("lr = 0.1 # note\n", "comments need a line of their own");
    bad_file("lr = 0.1 ; note\n", "comments need a line of their own");
    bad_file("= 3\n", "bad.cfg:1");
    bad_file("batch =\n", "bad.cfg:1");
    char *line = malloc(4002);
    memset(line, '#', 4000);
    strcpy(line + 4000, "\n");
    bad_file(line, "bad.cfg:1");
    free(line);
    assert_int_equal(gf_config_read(&err, &c, "missing.cfg"), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "missing.cfg"));
    assert_int_equal(gf_config_read(&err, &c, "."), GLOFND_E_IO);
}

/* A written configuration reads back to the same one, all keys changed. */
TEST(test_written_reads_back) {
    gf_error err = {""};
    gf_config a = fresh(), b = fresh();
    static const char *const changes[][2] = {
        {"data", "folder:/a b?classes=c"},
        {"seed", "9000000000000000"},
        {"arch", "resnet50"},
        {"lr", "0.1234567890123456"},
        {"optimizer", "adamw"},
        {"decode", "fast"},
        {"strict", "1"},
        {"update_epoch", "3"},
        {"mask_epoch", "4"},
        {"learner", "ring"},
        {"alpha", "0.3333333333333333"},
        {"precision", "bf16"},
        {"warmup_epochs", "0"},
        {"detector", "fnc"},
        {"threads", "2"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) set(&a, changes[i][0], changes[i][1]);
    resolve(&a);
    assert_int_equal(gf_config_write(&err, &a, "written.cfg"), GLOFND_OK);
    if (gf_config_read(&err, &b, "written.cfg") != GLOFND_OK) fail_msg("%s", err.text);
    unlink("written.cfg");
    resolve(&b);
    a.update_set = b.update_set, a.mask_set = b.mask_set;
    memcpy(a.given, b.given, sizeof a.given); /* a file gives every key */
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(gf_config_write(&err, &a, "no/such/folder"), GLOFND_E_IO);
}

/* ----- image and text ----- */

TEST(test_task_clip_has_its_defaults) {
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "lr", "0.5");
    set(&c, "task", "clip"); /* the order of keys does not matter */
    set(&c, "crop_min", "0.3");
    resolve(&c);
    assert_int_equal(losses_of(&c.method), LOSS_SOGCLR2);
    assert_int_equal(c.optimizer, GF_OPTIMIZER_ADAMW);
    assert_int_equal(c.gamma_schedule, GF_GAMMA_COSINE);
    assert_int_equal(c.epochs, 37);
    assert_int_equal(c.gamma_decay, 18);
    assert_int_equal(c.pixels, GF_PIXELS_CLIP);
    assert_true(c.lr == 0.5 && c.crop_min == 0.3 && c.jitter_p == 0.0 && c.weight_decay == 0.1 && c.method.tau == 0.07);
    assert_int_equal(gf_config_dim(&c), c.embed_dim);
    int in_method;
    const gf_option *epochs = gf_config_find("epochs", &in_method);
    assert_string_equal(gf_config_preset(epochs, GF_TASK_CLIP), "37"); /* what --help shows beside the other one */
    assert_string_equal(gf_config_preset(epochs, GF_TASK_VIEWS), "200");
    gf_config plain = fresh();
    set(&plain, "data", "shapes:n=64");
    resolve(&plain);
    assert_int_equal(plain.method.loss, LOSS_SOGCLR);
    assert_true(plain.crop_min == 0.08 && plain.jitter_p == 0.8 && plain.lr == 0.075);
    assert_int_equal(gf_config_dim(&plain), plain.head_out);
}

TEST(test_vit_is_vit_b_32_where_nothing_is_said) {
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "task", "clip");
    set(&c, "arch", "vit");
    gf_config d = c;
    resolve(&d);
    assert_int_equal(d.image_width, 768);
    assert_int_equal(d.image_layers, 12);
    assert_int_equal(d.image_heads, 12);
    assert_int_equal(d.patch, 32);
    set(&c, "image_heads", "7");
    unresolved(c, "image_heads");
    set(&c, "image_width", "70");
    set(&c, "image_layers", "3");
    set(&c, "patch", "8");
    resolve(&c);
    assert_true(c.image_width == 70 && c.image_layers == 3 && c.image_heads == 7 && c.patch == 8);
}

TEST(test_temperature_is_learned_by_the_losses_that_do) {
    static const struct {
        const char *loss;
        int learns;
        double rate;
    } cases[] = {{"clip", 1, -1.0}, {"sogclr2", 0, -1.0}, {"fastclip", 1, 2e-4}, {"isogclr", 0, -1.0}, {"sigmoid", 1, -1.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_config c = fresh();
        set(&c, "data", "shapes:n=64");
        set(&c, "task", "clip");
        set(&c, "loss", cases[i].loss);
        resolve(&c);
        assert_int_equal(gf_config_learns_tau(&c), cases[i].learns);
        assert_true(c.scale_lr == cases[i].rate);
        set(&c, "scale_lr", "0");
        assert_int_equal(gf_config_learns_tau(&c), 0);
    }
}

TEST(test_what_does_not_go_together) {
    static const struct {
        const char *task, *key, *value, *part;
    } cases[] = {
        {"views", "loss", "clip", "task = clip"},        {"views", "arch", "vit", "task clip"},
        {"views", "micro_batch", "32", "task clip"},     {"views", "lock", "text", "task clip"},
        {"clip", "loss", "isogclr-views", "two views"},  {"clip", "micro_batch", "100", "divide"},
        {"clip", "text_heads", "7", "text_heads"},       {"views", "detector", "groups", "mask_duplicates"},
        {"views", "detector", "fixed", "set guide to"},  {"clip", "detector", "fixed-mutual", "set guide to"},
        {"views", "guide", "a.npy", "detector = fixed"}, {"clip", "guide_thresholds", "a.npy", "detector = fixed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_config c = fresh();
        set(&c, "data", "shapes:n=64");
        set(&c, "task", cases[i].task);
        set(&c, cases[i].key, cases[i].value);
        unresolved(c, cases[i].part);
    }
    gf_config c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "detector", "fixed");
    set(&c, "guide", "a.npy");
    unresolved(c, "guide_thresholds to one of thresholds");
    set(&c, "guide_thresholds", "b.npy");
    resolve(&c);
    c = fresh();
    set(&c, "data", "shapes:n=64");
    set(&c, "task", "clip");
    set(&c, "detector", "groups");
    resolve(&c);
    set(&c, "mask_duplicates", "0");
    unresolved(c, "detector: groups");
    set(&c, "detector", "glofnd");
    set(&c, "loss", "fastclip");
    set(&c, "tau", "0.005");
    unresolved(c, "scale_max");
    set(&c, "tau", "1.5");
    unresolved(c, "tau");
    set(&c, "tau", "0.01"); /* 1/0.01 is a little more than 100 in floating point */
    resolve(&c);
}

/* Options of the method have the library's defaults. A new run has others only where its task or its schedule says so. */
TEST(test_defaults_are_those_of_the_table) {
    option_default rows[MOST_DEFAULTS];
    const int count = read_defaults(rows);
    for (int clip = 0; clip < 2; clip++) {
        gf_config c = fresh();
        set(&c, "data", "shapes:n=64");
        if (clip) set(&c, "task", "clip");
        resolve(&c);
        for (int i = 0; i < count; i++) {
            char value[64];
            const char *want = rows[i].value[1 + clip];
            assert_int_equal(glofnd_options_get(&c.method, rows[i].key, value, sizeof value, NULL, 0), GLOFND_OK);
            if (strcmp(value, want) != 0) fail_msg("%s: %s in a new run; the table says %s", rows[i].key, value, want);
        }
    }
}
