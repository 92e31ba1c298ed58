/* data_verbs.h - parts of `glofnd data` that have a file of their own. */
#ifndef GF_CLI_VERBS_DATA_VERBS_H
#define GF_CLI_VERBS_DATA_VERBS_H

#include <stdint.h>

/* glofnd data bpe SPEC --out FILE --merges N: an exit code. */
int cli_data_bpe(const char *spec, const char *out, int64_t merges);

#endif
