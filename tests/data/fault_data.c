/* fault_data.c - opening, reading and exporting data when memory runs out: every allocation in turn fails once.
 *
 * The call fails with E_MEMORY and without a dataset. Only an index file can be done without: then the call succeeds, and every
 * sample reads as before. Under a leak checker nothing is lost.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/dataset.h"
#include "data/export.h"
#include "support/faults.h"
#include "support/shards.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ----- what is done ----- */

static char spec[1024];
static int failures;  /* calls that failed so far */
static uint64_t seen; /* digest of the last dataset that was read: labels, texts, images, class names */

static void digest(const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) seen = (seen ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static void digest_sample(const gf_dataset *d, const gf_sample *s) {
    const char *name = gf_dataset_class(d, s->label);
    digest(&s->label, sizeof s->label);
    digest(s->image.rgb, (size_t)3 * (size_t)s->image.width * (size_t)s->image.height);
    if (s->text) digest(s->text, strlen(s->text));
    if (name) digest(name, strlen(name));
}

static glofnd_status open_and_read_all(gf_error *err) {
    gf_dataset *d = (gf_dataset *)&spec;
    glofnd_status status = gf_dataset_open(err, spec, &d);
    if (status != GLOFND_OK) {
        assert_null(d);
        return status;
    }
    gf_sample s = {0};
    seen = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < gf_dataset_describe(d).n && status == GLOFND_OK; i++) {
        status = gf_dataset_read(err, d, i, 0, &s);
        if (status == GLOFND_OK) digest_sample(d, &s);
    }
    gf_sample_free(&s);
    gf_dataset_free(d);
    return status;
}

static glofnd_status export_all(gf_error *err, gf_export_form form) {
    static int turn;
    char name[32];
    gf_dataset *d;
    glofnd_status status = gf_dataset_open(err, "shapes:n=4,size=8", &d);
    if (status != GLOFND_OK) return status;
    gf_export_result r;
    snprintf(name, sizeof name, "e%d", turn++);
    status = gf_dataset_export(err, d, &(gf_export){.form = form, .folder = scratch_path(&box, name)}, &r);
    gf_dataset_free(d);
    return status;
}

static glofnd_status export(gf_error *err) { return export_all(err, GF_EXPORT_WDS); }

static glofnd_status export_folder(gf_error *err) { return export_all(err, GF_EXPORT_FOLDER); }

/* `forget`: a file removed before every try; may be NULL. `index`: some allocations are for an index, which is optional. */
static void fail_each(glofnd_status (*what)(gf_error *), const char *forget, int index) {
    int passed = 0;
    gf_error none = {""};
    failures = 0;
    if (what(&none) != GLOFND_OK) fail_msg("%s", none.text);
    const uint64_t expected = seen;
    for (int k = 0;; k++) {
        gf_error err = {""};
        if (forget) unlink(scratch_path(&box, forget));
        faults_at(k);
        const glofnd_status status = what(&err);
        if (!faults_end()) {
            if (status != GLOFND_OK) fail_msg("%s", err.text);
            assert_true(failures >= 3);
            assert_true((passed > 0) == index);
            return;
        }
        if (status == GLOFND_OK && ++passed) assert_true(seen == expected);
        else if (status != GLOFND_E_MEMORY || !err.text[0]) fail_msg("allocation %d: status %d, %s", k, status, err.text);
        else failures++;
    }
}

static void use(const char *kind, const char *name) { snprintf(spec, sizeof spec, "%s:%s", kind, scratch_path(&box, name)); }

/* ----- scenes ----- */

TEST(drawn_shapes) {
    strcpy(spec, "shapes:n=3,size=8");
    fail_each(open_and_read_all, NULL, 0);
}

TEST(folders_and_lists) {
    use("folder", "f");
    fail_each(open_and_read_all, NULL, 0);
    use("folder", "f");
    strcat(spec, "?classes=");
    strcat(spec, scratch_path(&box, "classes.txt"));
    fail_each(open_and_read_all, NULL, 0);
    scratch_text(&box, "f/classnames.txt", "one\ntwo\n");
    fail_each(open_and_read_all, NULL, 0);
    use("list", "list.txt");
    fail_each(open_and_read_all, NULL, 0);
    use("csv", "list.csv");
    fail_each(open_and_read_all, NULL, 0);
    use("cifar100", "c");
    fail_each(open_and_read_all, NULL, 0);
}

TEST(shards_scanned_and_from_the_index) {
    use("wds", "w/shard-{000000..000000}.tar");
    fail_each(open_and_read_all, "w/shard-000000.tar.gfidx", 1); /* an index is not written */
    fail_each(open_and_read_all, NULL, 1);                       /* an index is not read */
    use("wds", "parts.tar");
    fail_each(open_and_read_all, "parts.tar.gfidx", 1);
    fail_each(open_and_read_all, NULL, 1);
}

TEST(exports) {
    fail_each(export, NULL, 0);
    fail_each(export_folder, NULL, 0);
}

static int make_data(void **state) {
    (void)state;
    if (scratch_make(&box) != 0) return -1;
    scratch_png(&box, "f/a/1.png", 8, 1);
    scratch_png(&box, "f/b/2.png", 8, 2);
    scratch_text(&box, "classes.txt", "b\n");
    scratch_text(&box, "list.txt", "f/a/1.png\tx\nf/b/2.png\ty\n");
    scratch_text(&box, "list.csv", "filepath\ttitle\nf/a/1.png\tone\nf/b/2.png\ttwo\n");
    static uint8_t record[2 * 3074];
    scratch_write(&box, "c/train.bin", record, sizeof record);
    scratch_text(&box, "c/fine_label_names.txt", "few\n");
    add_png("a.png", 1);
    add_text("a.cls", "no number");
    add_text("a.json", "{\"caption\": \"a disc\", \"label\": 1}");
    add_png("b.png", 2);
    add_text("b.json", "no JSON");
    add_text("c.txt", "no image");
    finish("parts.tar");
    gf_dataset *d;
    gf_export_result r;
    if (gf_dataset_open(NULL, "shapes:n=3,size=8", &d) != GLOFND_OK) return -1;
    const glofnd_status status = gf_dataset_export(NULL, d, &(gf_export){.folder = scratch_path(&box, "w")}, &r);
    gf_dataset_free(d);
    return status == GLOFND_OK ? 0 : -1;
}

static int remove_data(void **state) {
    (void)state;
    return scratch_remove(&box);
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_data, remove_data)
