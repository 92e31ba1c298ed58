/* trial.c - see trial.h. */
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"

int trial_enter(void **state) {
    (void)state;
    return scratch_make(&box) == 0 ? chdir(box.folder) : -1;
}

int trial_leave(void **state) {
    (void)state;
    return chdir("/") == 0 ? scratch_remove(&box) : -1;
}

int trial_vocabulary(const char *name) {
    FILE *f = fopen(name, "w");
    if (!f) return 1;
    fputs("first line\na t\n", f);
    return fclose(f);
}

void trial_fine(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("status %d: %s", (int)status, err->text);
}

gf_trainer *trial_open(const trial_setting *base, const trial_setting *more) {
    gf_error err = {""};
    gf_config c;
    gf_trainer *t = NULL;
    trial_fine(gf_config_init(&err, &c), &err);
    for (; base->key; base++) trial_fine(gf_config_set(&err, &c, base->key, base->value), &err);
    for (; more && more->key; more++) trial_fine(gf_config_set(&err, &c, more->key, more->value), &err);
    trial_fine(gf_config_resolve(&err, &c), &err);
    trial_fine(gf_trainer_open(&err, &c, &t), &err);
    return t;
}

gf_trainer *trial_make(const trial_setting *base, const trial_setting *more, trial_place place) {
    gf_error err = {""};
    gf_trainer *t = trial_open(base, more);
    t->store_path = place.store;
    t->plans_path = place.plans;
    t->comm = place.comm;
    const glofnd_status status = gf_trainer_build(&err, t, NULL, NULL);
    if (status == GLOFND_E_UNSUPPORTED) {
        gf_trainer_free(t);
        skip();
    }
    trial_fine(status, &err);
    return t;
}

void trial_steps(gf_trainer *t, int n) {
    gf_error err = {""};
    for (int i = 0; i < n; i++) trial_fine(gf_trainer_step(&err, t), &err);
}

void trial_save(gf_trainer *t, const char *run, gf_log_marks marks) {
    gf_error err = {""};
    mkdir(run, 0777);
    trial_fine(gf_checkpoint_save(&err, t, run, marks), &err);
}

gf_log_marks trial_load(gf_trainer *t, const char *run) {
    gf_error err = {""};
    gf_log_marks marks;
    gf_remap found;
    char path[PATH_MAX];
    trial_fine(gf_checkpoint_latest(&err, run, path), &err);
    trial_fine(gf_checkpoint_load(&err, t, path, 0, &found, &marks), &err);
    return marks;
}
