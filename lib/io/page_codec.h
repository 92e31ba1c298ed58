/* page_codec.h - unpacking of Parquet pages: none, Snappy, LZ4, gzip, Zstandard. */
#pragma once

#include "util/status.h"

enum {
    GF_CODEC_NONE,
    GF_CODEC_SNAPPY,
    GF_CODEC_GZIP,
    GF_CODEC_LZO,
    GF_CODEC_BROTLI,
    GF_CODEC_LZ4,
    GF_CODEC_ZSTD,
    GF_CODEC_LZ4_RAW
};

/* E_UNSUPPORTED: this build, or this reader, cannot unpack the codec; the text says what to do. `where` names file and column. */
glofnd_status gf_page_codec_check(gf_error *err, const char *where, int64_t codec);
/* E_FORMAT if `packed` bytes cannot become n: before memory is taken for them. */
glofnd_status gf_page_codec_bound(gf_error *err, const char *where, int codec, size_t packed, size_t n);
/* Fills out [n] from in [packed]: E_FORMAT if they do not unpack to exactly n bytes. */
glofnd_status gf_page_unpack(gf_error *err, const char *where, int codec, const uint8_t *in, size_t packed, uint8_t *out,
                             size_t n);
/* The CRC-32 that a page may state. */
uint32_t gf_page_crc(const uint8_t *in, size_t n);
