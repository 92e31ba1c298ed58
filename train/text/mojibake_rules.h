/* mojibake_rules.h - detects text whose UTF-8 was decoded with a wrong character set. */
#pragma once

#include <stdint.h>

/* Is there a sequence that hardly anyone writes, but that wrong decoding makes? */
int gf_mojibake_suspected(const uint32_t *s, int64_t n);
