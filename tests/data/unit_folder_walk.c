/* unit_folder_walk.c - folders whose depth or links would exhaust the stack or the time of a recursive walk. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/specs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `depth` folders d/d/d/... inside the folder `name`, made (or removed) from within: the path may be longer than a call
 * accepts. */
static void nest(const char *name, int depth, int make) {
    char *home = getcwd(NULL, 0);
    assert_non_null(home);
    assert_int_equal(chdir(scratch_path(&box, name)), 0);
    for (int i = 0; i < depth; i++) {
        if (make) assert_int_equal(mkdir("d", 0777), 0);
        assert_int_equal(chdir("d"), 0);
    }
    for (int i = 0; i < depth && !make; i++) {
        assert_int_equal(chdir(".."), 0);
        assert_int_equal(rmdir("d"), 0);
    }
    assert_int_equal(chdir(home), 0);
    free(home);
}

TEST(depth_takes_no_stack) {
    scratch_png(&box, "deep/c/1.png", 8, 1);
    nest("deep/c", 1500, 1);
    gf_dataset *d = open_spec("folder:%/deep");
    assert_int_equal(gf_dataset_describe(d).n, 1);
    gf_dataset_free(d);
    nest("deep/c", 1500, 0);
}

TEST(paths_beyond_the_limit_are_refused) {
    scratch_png(&box, "deeper/c/1.png", 8, 1);
    nest("deeper/c", 2500, 1);
    refused("folder:%/deeper", GLOFND_E_IO, "too long");
    nest("deeper/c", 2500, 0);
}

/* All simple paths along these links would be 10^8. */
TEST(folders_linked_to_each_other_are_read_once) {
    enum { FOLDERS = 12 };
    char name[64], target[64];
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(name, sizeof name, "net/c%02d/1.png", i);
        scratch_png(&box, name, 8, 1);
    }
    for (int i = 0; i < FOLDERS * FOLDERS; i++) {
        snprintf(target, sizeof target, "../c%02d", i % FOLDERS);
        snprintf(name, sizeof name, "net/c%02d/to%02d", i / FOLDERS, i % FOLDERS);
        assert_int_equal(symlink(target, scratch_path(&box, name)), 0);
    }
    gf_dataset *d = open_spec("folder:%/net");
    assert_int_equal(gf_dataset_describe(d).n, FOLDERS * FOLDERS); /* every class reaches all of them */
    gf_dataset_free(d);
}

TEST(a_link_does_not_rename_images) {
    char path[600];
    scratch_png(&box, "twice/c/real/1.png", 8, 1);
    assert_int_equal(symlink("real", scratch_path(&box, "twice/c/alias")), 0);
    gf_dataset *d = open_spec("folder:%/twice");
    assert_int_equal(gf_dataset_describe(d).n, 1);
    gf_dataset_name(d, 0, path, sizeof path);
    assert_non_null(strstr(path, "twice/c/real/1.png"));
    gf_dataset_free(d);
}

/* Else every class would hold the images of all others, under its own label. */
TEST(a_link_to_the_folder_of_the_classes_is_not_followed) {
    scratch_png(&box, "up/a/1.png", 8, 1);
    scratch_png(&box, "up/b/2.png", 8, 1);
    assert_int_equal(symlink("..", scratch_path(&box, "up/a/above")), 0);
    assert_int_equal(symlink(".", scratch_path(&box, "up/self")), 0);
    assert_int_equal(symlink("..", scratch_path(&box, "up/above")), 0);
    assert_int_equal(symlink("/", scratch_path(&box, "up/all")), 0);
    scratch_png(&box, "upper/3.png", 8, 1); /* "up" is no folder above */
    assert_int_equal(symlink("../upper", scratch_path(&box, "up/c")), 0);
    gf_dataset *d = open_spec("folder:%/up");
    assert_int_equal(gf_dataset_describe(d).n, 3);
    assert_int_equal(gf_dataset_describe(d).classes, 3);
    assert_int_equal(gf_dataset_label(d, 0), 0);
    assert_int_equal(gf_dataset_label(d, 1), 1);
    assert_int_equal(gf_dataset_label(d, 2), 2);
    gf_dataset_free(d);
}

TEST_GROUP(make_box, remove_box)
