/* crc32c.h - CRC-32C (Castagnoli), the checksum of GloFND's own files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* CRC of the bytes so far (0 at the start) continued over n more: gf_crc32c(0, "123456789", 9) is 0xe3069283. */
uint32_t gf_crc32c(uint32_t crc, const void *data, size_t n);
