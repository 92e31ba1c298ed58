/* golden_bpe.c - tokens with a vocabulary learned here from drawn pictures' captions, against the reference's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/bpe_golden.h"

static void tokens_are_the_references(void **state) {
    (void)state;
    char merges[4096];
    snprintf(merges, sizeof merges, "%s", bpe_golden_path("shapes.bpe.txt"));
    assert_true(bpe_golden_check(merges, bpe_golden_path("shapes.tsv")) >= 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_are_the_references)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
