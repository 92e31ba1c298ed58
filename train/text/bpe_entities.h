/* bpe_entities.h - HTML's names and numbers of characters: "&eacute;", "&#233;". */
#pragma once

#include <stdint.h>

/* Puts characters in the place of their names, in one pass. strict, as ftfy: only with a semicolon, but also a name in capitals
 * that is known in small letters only; else as Python's html.unescape. Returns the new count; equal to n: nothing was there, for
 * an entity is longer than what it stands for. */
int64_t gf_entities_replace(uint32_t *s, int64_t n, int strict);
