/* golden_bpe_clip.c - tokens with CLIP's own vocabulary, where GLOFND_CLIP_BPE names its file (bpe_simple_vocab_16e6.txt.gz). */
#include "support/test.h"

#include <stdlib.h>

#include "support/bpe_golden.h"

TEST(tokens_are_the_references) { assert_true(bpe_golden_check(getenv("GLOFND_CLIP_BPE"), bpe_golden_path("clip.tsv")) >= 300); }

static const char *no_vocabulary(void) {
    return getenv("GLOFND_CLIP_BPE") ? NULL : "GLOFND_CLIP_BPE does not name CLIP's merges file (bpe_simple_vocab_16e6.txt.gz)";
}

TEST_NEEDS(no_vocabulary)
