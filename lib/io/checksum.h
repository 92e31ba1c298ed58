/* checksum.h - a checksum of 64 bits that depends on every byte, for files that hold CRCs of their own: a CRC of data followed by
 * its CRC is a constant.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GF_CHECKSUM_START 0xcbf29ce484222325u
enum { GF_CHECKSUM_DIGITS = 16 };

/* Continues h over n bytes. n is a multiple of 8 but for the end, whose last word is filled up with zeros: the length has to be
 * compared as well. */
uint64_t gf_checksum(uint64_t h, const void *bytes, size_t n);
