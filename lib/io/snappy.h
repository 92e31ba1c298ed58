/* snappy.h - decoder of Snappy's raw format: the size, then literals and copies of what is already there. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Fills out [n]. 1: done; 0: the bytes are corrupt, or hold another number than n. Reads and writes nothing outside. */
int gf_snappy_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n);
