/* page_codec.c - see page_codec.h. */
#include "io/parquet/page_codec.h"

#include <string.h>
#ifdef GF_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif
#ifdef GF_HAVE_ZSTD
#include <zstd.h>
#endif

#include "io/parquet/lz4.h"
#include "io/parquet/snappy.h"

static const char *const names[] = {"none", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4"};
/* Bytes that one packed byte can become, at most: a 3-byte copy of 64 bytes; deflate's best; a block of one repeated byte; a
 * byte that makes a copy 255 bytes longer. */
static const size_t ratio_max[] = {1, 24, 1100, 0, 0, 0, 65536, 256};

static int codec_is_there(int64_t codec) {
    int there = codec == GF_CODEC_NONE || codec == GF_CODEC_SNAPPY || codec == GF_CODEC_LZ4_RAW;
#ifdef GF_HAVE_ZLIB
    there |= codec == GF_CODEC_GZIP;
#endif
#ifdef GF_HAVE_ZSTD
    there |= codec == GF_CODEC_ZSTD;
#endif
    return there;
}

glofnd_status gf_page_codec_check(gf_error *err, const char *where, int64_t codec) {
    if (codec_is_there(codec)) return GLOFND_OK;
    FAIL_IF(err, codec < 0 || codec > GF_CODEC_LZ4_RAW, GLOFND_E_FORMAT, "%s: unknown compression %lld", where, (long long)codec);
    FAIL_IF(err, codec == GF_CODEC_GZIP || codec == GF_CODEC_ZSTD, GLOFND_E_UNSUPPORTED,
            "%s: compressed by %s, and this program was built without %s; install it and build again, or write the file with "
            "compression=\"snappy\"",
            where, names[codec], codec == GF_CODEC_GZIP ? "zlib (Debian: zlib1g-dev)" : "libzstd (Debian: libzstd-dev)");
    GF_FAIL(err, GLOFND_E_UNSUPPORTED,
            "%s: compressed by %s; none, snappy, lz4_raw, gzip and zstd are read: write it with one of these", where,
            names[codec]);
}

glofnd_status gf_page_codec_bound(gf_error *err, const char *where, int codec, size_t packed, size_t n) {
    FAIL_IF(err, codec == GF_CODEC_NONE ? n != packed : n > packed * ratio_max[codec] + 64, GLOFND_E_FORMAT,
            "%s: a page of %zu bytes cannot unpack (%s) to the %zu it states", where, packed, names[codec], n);
    return GLOFND_OK;
}

#ifdef GF_HAVE_ZLIB
/* gzip or zlib, by their header. Sizes of pages are below 2^31. */
static int unpack_gzip(const uint8_t *in, size_t packed, uint8_t *out, size_t n) {
    z_stream z;
    memset(&z, 0, sizeof z);
    if (inflateInit2(&z, 15 + 32) != Z_OK) return 0;
    z.next_in = in;
    z.avail_in = (uInt)packed, z.avail_out = (uInt)n;
    z.next_out = out;
    int state = Z_OK;
    while (state == Z_OK) {
        state = inflate(&z, Z_FINISH);
        /* pages may be several gzip members in a row */
        if (state == Z_STREAM_END && z.avail_out > 0 && z.avail_in > 0 && inflateReset(&z) == Z_OK) state = Z_OK;
    }
    inflateEnd(&z);
    return state == Z_STREAM_END && z.avail_out == 0;
}
#endif

glofnd_status gf_page_unpack(gf_error *err, const char *where, int codec, const uint8_t *in, size_t packed, uint8_t *out,
                             size_t n) {
    int done = 0;
    TRY(gf_page_codec_bound(err, where, codec, packed, n));
    if (codec == GF_CODEC_NONE) {
        if (n) memcpy(out, in, n);
        done = 1;
    }
    if (codec == GF_CODEC_LZ4_RAW) done = gf_lz4_decode(in, packed, out, n);
    if (codec == GF_CODEC_SNAPPY) done = gf_snappy_decode(in, packed, out, n);
#ifdef GF_HAVE_ZLIB
    if (codec == GF_CODEC_GZIP) done = unpack_gzip(in, packed, out, n);
#endif
#ifdef GF_HAVE_ZSTD
    if (codec == GF_CODEC_ZSTD) done = ZSTD_decompress(out, n, in, packed) == n;
#endif
    FAIL_IF(err, !done, GLOFND_E_FORMAT, "%s: a page is corrupt: %zu bytes do not unpack (%s) to %zu", where, packed,
            names[codec], n);
    return GLOFND_OK;
}

int gf_page_crc(const uint8_t *in, size_t n, uint32_t *crc) {
#ifdef GF_HAVE_ZLIB
    *crc = (uint32_t)crc32(0, in, (uInt)n);
    return 1;
#else
    (void)in, (void)n, (void)crc;
    return 0;
#endif
}
