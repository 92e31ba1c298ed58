/* bpe_golden.h - tokens against those of open_clip's SimpleTokenizer: tests/fixtures/bpe/, made by
 * tools/generate/make_bpe_golden.py. */
#pragma once

#include <stddef.h>

/* n digits at hex become n / 2 bytes in their place, and a zero. Returns n / 2. */
size_t bpe_golden_from_hex(char *hex, size_t n);
/* The path of a file of tests/fixtures/bpe/; stays valid until the next call. */
const char *bpe_golden_path(const char *name);
/* Fails the test at the first caption whose tokens differ; returns how many there were. */
int bpe_golden_check(const char *merges, const char *golden);
