/* test.h - tests that register themselves. A test program is a file of tests; support/test.c has main().
 *
 *     TEST(bad_text_changes_nothing) { ... }              a test; its name says what holds
 *     TEST_WITH(name, setup, teardown) { ... *state ... } the same, with functions before and after it (NULL: none)
 *     TEST_GROUP(make_box, remove_box)                    functions before the first test and after the last
 *     TEST_SKIP("built without libpng")                   all tests of the program are skipped, with this reason
 *     TEST_NEEDS(gpu)                                     the same if the function returns a reason, NULL if it has none
 *     TEST_COMMAND(write_samples)                         int f(int argc, char **argv) instead of tests; -1: run the tests
 *
 * Tests run in the order of the file. `build/tests/unit_x 'name*'` runs those whose name fits the pattern, `-name*` all others. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the four above */
#include <cmocka.h>

#define TEST_SKIPPED 77 /* exit status, as in CTest's SKIP_RETURN_CODE */

void test_add(const char *name, CMUnitTestFunction test, CMFixtureFunction setup, CMFixtureFunction teardown);
void test_set_group(CMFixtureFunction setup, CMFixtureFunction teardown);
void test_set_skip(const char *reason);
void test_set_need(const char *(*missing)(void));
void test_set_command(int (*command)(int argc, char **argv));

#define TEST_AT_START(name) static void __attribute__((constructor)) name(void)
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, setup, teardown)                                  \
    static void name(void **state);                                       \
    TEST_AT_START(add_##name) { test_add(#name, name, setup, teardown); } \
    static void name(void **state __attribute__((unused)))
#define TEST_GROUP(setup, teardown) \
    TEST_AT_START(set_group) { test_set_group(setup, teardown); }
#define TEST_SKIP(reason) \
    TEST_AT_START(set_skip) { test_set_skip(reason); }
#define TEST_NEEDS(missing) \
    TEST_AT_START(set_need) { test_set_need(missing); }
#define TEST_COMMAND(command) \
    TEST_AT_START(set_command) { test_set_command(command); }
