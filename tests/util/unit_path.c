/* unit_path.c - paths are joined with one slash, and what does not fit is refused by name. */
#include "support/test.h"

#include "util/text.h"
#include <string.h>

TEST(a_name_is_joined_to_its_folder) {
    char path[PATH_MAX];
    assert_int_equal(gf_path_join(NULL, path, "runs/a", "log.jsonl"), GLOFND_OK);
    assert_string_equal(path, "runs/a/log.jsonl");
}

/* The longest path has PATH_MAX - 1 characters. */
TEST(what_does_not_fit_is_refused) {
    char path[PATH_MAX], folder[PATH_MAX] = "";
    gf_error err = {{0}};
    memset(folder, 'x', PATH_MAX - 3);
    assert_int_equal(gf_path_join(&err, path, folder, "y"), GLOFND_OK);
    assert_int_equal(strlen(path), PATH_MAX - 1);
    assert_int_equal(gf_path_join(&err, path, folder, "yz"), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "the path of yz in xxx"));
}
