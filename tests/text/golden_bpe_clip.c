/* golden_bpe_clip.c - tokens with CLIP's own vocabulary, where GLOFND_CLIP_BPE names its file (bpe_simple_vocab_16e6.txt.gz). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/bpe_golden.h"

static void tokens_are_the_references(void **state) {
    (void)state;
    assert_true(bpe_golden_check(getenv("GLOFND_CLIP_BPE"), bpe_golden_path("clip.tsv")) >= 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_are_the_references)};
    if (!getenv("GLOFND_CLIP_BPE")) {
        puts("skipped: GLOFND_CLIP_BPE does not name CLIP's merges file (bpe_simple_vocab_16e6.txt.gz)");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
