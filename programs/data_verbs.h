/* data_verbs.h - parts of `glofnd data` that have a file of their own. */
#pragma once

#include <stdint.h>

/* glofnd data bpe SPEC --out FILE --merges N: an exit code. */
int cli_data_bpe(const char *spec, const char *out, int64_t merges);
