/* unit_folders.c - folders are made with all that is above them, however many; only those are counted and unmade. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "io/file.h"
#include "support/scratch.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(parents_are_made_and_counted) {
    gf_error err = {""};
    int made = -1;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/a//b/c/", box.folder);
    assert_int_equal(gf_folder_make(&err, path, &made), GLOFND_OK);
    assert_int_equal(made, 3);
    assert_true(gf_is_folder(path));
    assert_int_equal(gf_folder_make(&err, path, &made), GLOFND_OK);
    assert_int_equal(made, 0);
    snprintf(path, sizeof path, "%s/a/b/d/e", box.folder);
    assert_int_equal(gf_folder_make(&err, path, &made), GLOFND_OK);
    assert_int_equal(made, 2);
    gf_folder_unmake(path, made);
    assert_int_not_equal(access(path_of("a/b/d"), F_OK), 0);
    assert_int_equal(access(path_of("a/b/c"), F_OK), 0);
    scratch_text(&box, "file", "x");
    snprintf(path, sizeof path, "%s/file/below/it", box.folder);
    assert_int_equal(gf_folder_make(&err, path, &made), GLOFND_E_IO);
    assert_non_null(strstr(err.text, "Not a directory"));
}

/* On a small stack: the depth of a path takes none. */
static void *make_deep(void *arg) {
    gf_error err = {""};
    int made = 0;
    return gf_folder_make(&err, arg, &made) == GLOFND_OK && made == 1900 ? arg : NULL;
}

TEST(depth_takes_no_stack) {
    static char path[PATH_MAX];
    size_t n = (size_t)snprintf(path, sizeof path, "%s", box.folder);
    for (int i = 0; i < 1900; i++) n += (size_t)snprintf(path + n, sizeof path - n, "/d");
    pthread_attr_t small;
    pthread_t thread;
    void *done = NULL;
    pthread_attr_init(&small);
    assert_int_equal(pthread_attr_setstacksize(&small, 256 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small, make_deep, path), 0);
    pthread_join(thread, &done);
    pthread_attr_destroy(&small);
    assert_non_null(done);
    gf_folder_unmake(path, 1900);
    assert_int_not_equal(access(path_of("d"), F_OK), 0);
}

TEST(a_locked_folder_is_in_use) {
    gf_error err = {""};
    int lock;
    assert_int_equal(gf_folder_make(&err, path_of("run"), NULL), GLOFND_OK);
    assert_false(gf_folder_in_use(path_of("run")));
    assert_false(gf_folder_in_use(path_of("absent")));
    assert_int_equal(gf_folder_lock(&err, path_of("run"), &lock), GLOFND_OK);
    assert_true(gf_folder_in_use(path_of("run")));
    close(lock);
    assert_false(gf_folder_in_use(path_of("run")));
}

TEST_GROUP(make_box, remove_box)
