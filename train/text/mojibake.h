/* mojibake.h - repair of text whose UTF-8 was decoded with a wrong character set: "cafÃ©" becomes "café".
 *
 * As ftfy does by default (fix_encoding): text that looks so is turned back into bytes by Latin-1, Windows-1252, 1251, 1250,
 * 1253, 1254, 1257, ISO 8859-2, MacRoman or code page 437, whichever comes first and makes the bytes UTF-8; where none does so
 * for the whole text, parts that look like single characters of UTF-8 are repaired by themselves. Again, while it still looks
 * wrong.
 */
#pragma once

#include <stdint.h>

/* bytes [3 n / 2]: scratch. Returns the new count, which is never larger. *changed is set where anything was repaired. */
int64_t gf_mojibake_repair(uint32_t *s, int64_t n, uint8_t *bytes, int *changed);
