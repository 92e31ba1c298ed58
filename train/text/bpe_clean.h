/* bpe_clean.h - a caption cleaned as CLIP does. See bpe_words.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Cleans n bytes of text to code points: code [n], scratch [3 n / 2]. Words are parted by one space;
 * none at the ends. Returns how many.
 *
 * No step makes more characters than there were bytes: a text that becomes several characters was written with at least as many
 * bytes. */
int64_t gf_clean_text(const uint8_t *text, size_t n, uint32_t *code, uint8_t *scratch);
