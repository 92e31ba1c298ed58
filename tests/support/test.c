/* test.c - the list of tests that registered themselves, and the program that runs it. */
#include "support/test.h"

#include <errno.h>
#include <stdio.h>

enum { MOST_TESTS = 256 };

static struct CMUnitTest tests[MOST_TESTS];
static size_t count;
static CMFixtureFunction group_setup, group_teardown;
static const char *skip_reason;
static const char *(*need)(void);
static int (*run_command)(int argc, char **argv);

void test_add(const char *name, CMUnitTestFunction test, CMFixtureFunction setup, CMFixtureFunction teardown) {
    if (count < MOST_TESTS) tests[count] = (struct CMUnitTest){name, test, setup, teardown, NULL};
    count++;
}

void test_set_group(CMFixtureFunction setup, CMFixtureFunction teardown) { group_setup = setup, group_teardown = teardown; }
void test_set_skip(const char *reason) { skip_reason = reason; }
void test_set_need(const char *(*missing)(void)) { need = missing; }
void test_set_command(int (*command)(int argc, char **argv)) { run_command = command; }

int main(int argc, char **argv) {
    const int done = argc > 1 && run_command ? run_command(argc, argv) : -1;
    if (done >= 0) return done;
    if (argc > 1 && argv[1][0] == '-') cmocka_set_skip_filter(argv[1] + 1);
    else if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (!skip_reason && need) skip_reason = need();
    if (skip_reason) {
        printf("skipped: %s\n", skip_reason);
        return TEST_SKIPPED;
    }
    if (count == 0 || count > MOST_TESTS) {
        printf("%zu tests; expected 1 to %d\n", count, MOST_TESTS);
        return 1;
    }
    return _cmocka_run_group_tests(program_invocation_short_name, tests, count, group_setup, group_teardown);
}
