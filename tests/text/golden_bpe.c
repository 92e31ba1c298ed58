/* golden_bpe.c - tokens with a vocabulary learned here from drawn pictures' captions, against the reference's. */
#include "support/test.h"

#include "support/bpe_golden.h"
#include <stdio.h>
#include <string.h>

TEST(tokens_are_the_references) {
    char merges[4096];
    snprintf(merges, sizeof merges, "%s", bpe_golden_path("shapes.bpe.txt"));
    assert_true(bpe_golden_check(merges, bpe_golden_path("shapes.tsv")) >= 300);
}
