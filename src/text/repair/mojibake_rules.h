/* mojibake_rules.h - does text look as if UTF-8 had been decoded with another character set? */
#ifndef GF_TEXT_REPAIR_MOJIBAKE_RULES_H
#define GF_TEXT_REPAIR_MOJIBAKE_RULES_H

#include <stdint.h>

/* Is there a sequence that hardly anyone writes, but that wrong decoding makes? */
int gf_mojibake_suspected(const uint32_t *s, int64_t n);

#endif
