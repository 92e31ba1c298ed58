/* unit_associations.c - WinoGAViL: its table is read, the Jaccard index is that worked out by hand, bad tables are refused. */
#include "support/test.h"

#include "eval/zeroshot.h"
#include "support/specs.h"
#include <math.h>
#include <string.h>

static void write_table(void) {
    scratch_text(&box, "w/winogavil_dataset.csv",
                 "ID,cue,associations,candidates\n"
                 "0,horn,\"[\"\"bull\"\", \"\"car\"\"]\",\"[\"\"car\"\", \"\"cat\"\", \"\"bull\"\"]\"\n"
                 "1,Ice,\"[\"\"snow\"\"]\",\"[\"\"snow\"\", \"\"cat\"\"]\"\n");
}

TEST(the_table_is_read) {
    gf_winogavil w;
    write_table();
    assert_int_equal(gf_winogavil_read(NULL, path_of("w"), &w), GLOFND_OK);
    assert_int_equal(w.cue.n, 2);
    assert_int_equal(w.image.n, 4); /* bull, car, cat, snow */
    static const int32_t candidate[] = {1, 2, 0, 3, 2};
    static const uint8_t associated[] = {1, 0, 1, 1, 0};
    assert_true(w.first[0] == 0 && w.first[1] == 3 && w.first[2] == 5);
    assert_memory_equal(w.candidate, candidate, sizeof candidate);
    assert_memory_equal(w.associated, associated, sizeof associated);
    gf_winogavil_free(&w);
}

TEST(images_are_a_dataset) {
    static const char *const names[] = {"bull", "car", "cat", "snow"};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "w/winogavil_images/%s.jpg", names[i]);
        scratch_png(&box, name, 4, (uint8_t)i);
    }
    gf_dataset *d = open_spec("winogavil:%/w");
    assert_int_equal(gf_dataset_describe(d).n, 4);
    assert_string_equal(gf_dataset_root(d), path_of("w"));
    gf_dataset_free(d);
}

/* Instance 0 takes car and cat of car and bull: 1 of 3. Instance 1 is right. */
TEST(the_index_is_that_worked_out_by_hand) {
    const float image[] = {0.1f, 0, 1, 0, 0.9f, 0, 0, 1}, cue[] = {1, 0, 0, 1};
    gf_winogavil w;
    gf_associations found = {0};
    assert_int_equal(gf_winogavil_read(NULL, path_of("w"), &w), GLOFND_OK);
    gf_associations_score(&w, image, cue, 2, &found);
    assert_true(fabs(found.all - (1.0 / 3.0 + 1.0) / 2.0) < 1e-12);
    assert_true(found.few_n == 2 && found.many_n == 0 && isnan(found.many));
    gf_winogavil_free(&w);
}

TEST(prompts_have_their_article) {
    char text[64];
    gf_association_prompt("Ice Cream", text, sizeof text);
    assert_string_equal(text, "An ice cream");
    gf_association_prompt("horn", text, sizeof text);
    assert_string_equal(text, "A horn");
}

TEST(bad_tables_are_refused) {
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"cue,candidates\n", "lacks one of the columns"},
        {"cue,candidates,associations\n", "no instance"},
        {"cue,candidates,associations\na,[1],[1]\n", "no name of an image"},
        {"cue,candidates,associations\na,no,no\n", "JSON lists"},
        {"cue,candidates,associations\na,\"[\"\"x\"\"]\",\"[\"\"y\"\"]\"\n", "no association"},
        {"cue,candidates,associations\na,\"[\"\"../x\"\"]\",\"[\"\"../x\"\"]\"\n", "no name of an image"},
        {"cue,candidates,associations\na\n", "too few fields"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gf_winogavil w;
        gf_error err = {""};
        scratch_text(&box, "bad/winogavil_dataset.csv", cases[i].text);
        assert_int_equal(gf_winogavil_read(&err, path_of("bad"), &w), GLOFND_E_FORMAT);
        if (!strstr(err.text, cases[i].word)) fail_msg("%s", err.text);
    }
}

#if !defined(GF_HAVE_PNG)
TEST_SKIP("built without libpng")
#endif
TEST_GROUP(make_box, remove_box)
