/* page_codec.c - see page_codec.h.
 *
 * zlib and libzstd are opened when a page needs them, so that libglofnd needs neither of them, nor their headers: what is called
 * has not changed since zlib 1.2.0 and libzstd 1.0. Only the static program has them inside (GF_LINKED_ZLIB, GF_LINKED_ZSTD).
 */
#include "io/page_codec.h"

#include <pthread.h>
#include <string.h>

#include "io/lz4.h"
#include "io/snappy.h"
#include "util/machine.h"

/* z_stream */
typedef struct zlib_stream {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *opaque, unsigned items, unsigned size);
    void (*zfree)(void *opaque, void *address);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} zlib_stream;

enum { ZLIB_OK = 0, ZLIB_END = 1, ZLIB_FINISH = 4 };

static struct {
    int (*init)(zlib_stream *z, int window_bits, const char *version, int bytes); /* inflateInit2_ */
    int (*inflate)(zlib_stream *z, int flush);
    int (*reset)(zlib_stream *z);
    int (*end)(zlib_stream *z);
    size_t (*zstd)(void *out, size_t n, const void *in, size_t packed); /* ZSTD_decompress */
} call;

#ifdef GF_LINKED_ZLIB
int inflateInit2_(zlib_stream *z, int window_bits, const char *version, int bytes);
int inflate(zlib_stream *z, int flush);
int inflateReset(zlib_stream *z);
int inflateEnd(zlib_stream *z);

static void open_zlib(void) {
    call.init = inflateInit2_, call.inflate = inflate, call.reset = inflateReset, call.end = inflateEnd;
}
#else
static void open_zlib(void) {
    static const char *const names[] = {"libz.so.1", "libz.so", NULL};
    void *lib = gf_shared_lib_open(names, 0);
    if (!lib || !gf_shared_lib_find(lib, "inflate", &call.inflate) || !gf_shared_lib_find(lib, "inflateReset", &call.reset) ||
        !gf_shared_lib_find(lib, "inflateEnd", &call.end) || !gf_shared_lib_find(lib, "inflateInit2_", &call.init))
        call.init = NULL;
}
#endif

#ifdef GF_LINKED_ZSTD
size_t ZSTD_decompress(void *out, size_t n, const void *in, size_t packed);

static void open_zstd(void) { call.zstd = ZSTD_decompress; }
#else
static void open_zstd(void) {
    static const char *const names[] = {"libzstd.so.1", "libzstd.so", NULL};
    void *lib = gf_shared_lib_open(names, 0);
    if (!lib || !gf_shared_lib_find(lib, "ZSTD_decompress", &call.zstd)) call.zstd = NULL;
}
#endif

static int zlib_is_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_zlib);
    return call.init != NULL;
}

static int zstd_is_there(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_zstd);
    return call.zstd != NULL;
}

static const char *const names[] = {"none", "Snappy", "gzip", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4"};
/* Bytes that one packed byte can become, at most: a 3-byte copy of 64 bytes; deflate's best; a block of one repeated byte; a
 * byte that makes a copy 255 bytes longer. */
static const size_t ratio_max[] = {1, 24, 1100, 0, 0, 0, 65536, 256};

static int codec_is_there(int64_t codec) {
    if (codec == GF_CODEC_GZIP) return zlib_is_there();
    if (codec == GF_CODEC_ZSTD) return zstd_is_there();
    return codec == GF_CODEC_NONE || codec == GF_CODEC_SNAPPY || codec == GF_CODEC_LZ4_RAW;
}

glofnd_status gf_page_codec_check(gf_error *err, const char *where, int64_t codec) {
    if (codec_is_there(codec)) return GLOFND_OK;
    FAIL_IF(err, codec < 0 || codec > GF_CODEC_LZ4_RAW, GLOFND_E_FORMAT, "%s: unknown compression %lld", where, (long long)codec);
    FAIL_IF(err, codec == GF_CODEC_GZIP || codec == GF_CODEC_ZSTD, GLOFND_E_UNSUPPORTED,
            "%s: compressed by %s, and %s is not on this machine; install it (Debian: %s), or write the file with "
            "compression=\"snappy\"",
            where, names[codec], codec == GF_CODEC_GZIP ? "libz.so.1" : "libzstd.so.1",
            codec == GF_CODEC_GZIP ? "zlib1g" : "libzstd1");
    GF_FAIL(err, GLOFND_E_UNSUPPORTED,
            "%s: compressed by %s; none, snappy, lz4_raw, gzip and zstd are read: write it with one of these", where,
            names[codec]);
}

glofnd_status gf_page_codec_bound(gf_error *err, const char *where, int codec, size_t packed, size_t n) {
    FAIL_IF(err, codec == GF_CODEC_NONE ? n != packed : n > packed * ratio_max[codec] + 64, GLOFND_E_FORMAT,
            "%s: a page of %zu bytes cannot unpack (%s) to the %zu it states", where, packed, names[codec], n);
    return GLOFND_OK;
}

/* gzip or zlib, by their header. Sizes of pages are below 2^31. */
static int unpack_gzip(const uint8_t *in, size_t packed, uint8_t *out, size_t n) {
    zlib_stream z = {.next_in = in, .avail_in = (unsigned)packed, .next_out = out, .avail_out = (unsigned)n};
    if (call.init(&z, 15 + 32, "1.2.0", (int)sizeof z) != ZLIB_OK) return 0;
    int state = ZLIB_OK;
    while (state == ZLIB_OK) {
        state = call.inflate(&z, ZLIB_FINISH);
        /* pages may be several gzip members in a row */
        if (state == ZLIB_END && z.avail_out > 0 && z.avail_in > 0 && call.reset(&z) == ZLIB_OK) state = ZLIB_OK;
    }
    call.end(&z);
    return state == ZLIB_END && z.avail_out == 0;
}

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
    if (codec == GF_CODEC_GZIP && zlib_is_there()) done = unpack_gzip(in, packed, out, n);
    if (codec == GF_CODEC_ZSTD && zstd_is_there()) done = call.zstd(out, n, in, packed) == n;
    FAIL_IF(err, !done, GLOFND_E_FORMAT, "%s: a page is corrupt: %zu bytes do not unpack (%s) to %zu", where, packed,
            names[codec], n);
    return GLOFND_OK;
}

uint32_t gf_page_crc(const uint8_t *in, size_t n) {
    static const uint32_t half[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                      0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= in[i];
        crc = crc >> 4 ^ half[crc & 15];
        crc = crc >> 4 ^ half[crc & 15];
    }
    return ~crc;
}
