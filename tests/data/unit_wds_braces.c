/* unit_wds_braces.c - {a,b} and {00..11} in patterns of shards. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "data/formats/wds.h"
#include "util/string_list.h"
#include <string.h>

static void expect_names(const char *pattern, const char *expected) {
    gf_string_list s = {0};
    gf_error err = {""};
    char all[512] = "";
    if (gf_braces_expand(&err, pattern, &s) != GLOFND_OK) fail_msg("%s: %s", pattern, err.text);
    for (int64_t i = 0; i < s.n; i++) strcat(strcat(all, i ? " " : ""), gf_string_list_get(&s, i));
    assert_string_equal(all, expected);
    gf_string_list_free(&s);
}

TEST(braces_expand_as_in_a_shell) {
    expect_names("a-{08..11}.tar", "a-08.tar a-09.tar a-10.tar a-11.tar");
    expect_names("{8..11}", "8 9 10 11");
    expect_names("{3..1}", "3 2 1");
    expect_names("{a,b}{1..2}x", "a1x a2x b1x b2x");
    expect_names("{train,}", "train ");
    expect_names("plain", "plain");
    static const char *const wrong[] = {"{1..2",
                                        "1..2}",
                                        "{1}",
                                        "{a,{b,c}}",
                                        "{0..9999999}",
                                        "{0..999}{0..999}{0..9}",
                                        "{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        gf_string_list s = {0};
        gf_error err = {""};
        if (gf_braces_expand(&err, wrong[k], &s) != GLOFND_E_ARGUMENT || !err.text[0]) fail_msg("accepted: %s", wrong[k]);
        gf_string_list_free(&s);
    }
}
