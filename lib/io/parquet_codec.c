/* parquet_codec.c - see parquet_codec.h. */
#include "io/parquet_codec.h"

#include <pthread.h>
#include <string.h>

#include "util/array.h"
#include "util/machine.h"

/* ----- Thrift's compact protocol ----- */

enum { DEPTH_MAX = 16 }; /* of structs and lists in each other, when they are skipped */

static int take_byte(gf_thrift *t) {
    if (t->failed || t->at == t->end) {
        t->failed = 1;
        return 0;
    }
    return *t->at++;
}

static uint64_t take_varint(gf_thrift *t) {
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const int byte = take_byte(t);
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return t->failed ? 0 : x;
    }
    t->failed = 1;
    return 0;
}

static int64_t take_zigzag(gf_thrift *t) {
    const uint64_t x = take_varint(t);
    return (int64_t)(x >> 1) ^ -(int64_t)(x & 1);
}

int gf_thrift_field(gf_thrift *t, gf_thrift_struct *s) {
    const int head = take_byte(t);
    if (t->failed || head == 0) return 0;
    s->type = head & 15;
    const int64_t id = head >> 4 ? s->id + (head >> 4) : take_zigzag(t);
    if (s->type == 0 || s->type > GF_THRIFT_STRUCT || id < 0 || id > INT16_MAX) t->failed = 1;
    s->id = t->failed ? 0 : (int)id;
    return !t->failed;
}

int64_t gf_thrift_integer(gf_thrift *t, const gf_thrift_struct *s) {
    switch (s->type) {
    case GF_THRIFT_TRUE: return 1;
    case GF_THRIFT_FALSE: return 0;
    case GF_THRIFT_BYTE: return (int8_t)take_byte(t);
    case GF_THRIFT_I16:
    case GF_THRIFT_I32:
    case GF_THRIFT_I64: return take_zigzag(t);
    default: t->failed = 1; return 0;
    }
}

static const uint8_t *take_bytes(gf_thrift *t, size_t *n) {
    const uint64_t size = take_varint(t);
    const uint8_t *at = t->at;
    *n = 0;
    if (t->failed || size > (uint64_t)(t->end - t->at)) {
        t->failed = 1;
        return t->end;
    }
    t->at += size;
    *n = (size_t)size;
    return at;
}

const uint8_t *gf_thrift_binary(gf_thrift *t, const gf_thrift_struct *s, size_t *n) {
    if (s->type != GF_THRIFT_BINARY) t->failed = 1;
    return take_bytes(t, n);
}

static int64_t take_list(gf_thrift *t, int *type) {
    const int head = take_byte(t);
    const uint64_t count = head >> 4 == 15 ? take_varint(t) : (uint64_t)(head >> 4);
    *type = head & 15;
    if (t->failed || count > (uint64_t)(t->end - t->at)) {
        t->failed = 1;
        return 0;
    }
    return (int64_t)count;
}

int64_t gf_thrift_list(gf_thrift *t, const gf_thrift_struct *s, int type) {
    int found = type;
    if (s->type != GF_THRIFT_LIST) t->failed = 1;
    const int64_t count = take_list(t, &found);
    if (count > 0 && found != type) t->failed = 1;
    return t->failed ? 0 : count;
}

int gf_thrift_enter(gf_thrift *t, const gf_thrift_struct *s) {
    if (s->type != GF_THRIFT_STRUCT) t->failed = 1;
    return !t->failed;
}

static void skip_value(gf_thrift *t, int type, int depth, int element);

static void skip_members(gf_thrift *t, int64_t count, int key, int value, int depth) {
    for (int64_t i = 0; i < count && !t->failed; i++) {
        if (key) skip_value(t, key, depth, 1);
        skip_value(t, value, depth, 1);
    }
}

static void skip_map(gf_thrift *t, int depth) {
    const uint64_t count = take_varint(t);
    const int types = count ? take_byte(t) : 0;
    if (count > (uint64_t)(t->end - t->at)) t->failed = 1;
    if (!t->failed && count) skip_members(t, (int64_t)count, types >> 4, types & 15, depth);
}

/* `element`: of a list or map, where a boolean takes a byte; as a field its type is its value. */
static void skip_value(gf_thrift *t, int type, int depth, int element) {
    size_t n;
    int inner;
    if (depth > DEPTH_MAX) t->failed = 1;
    if (t->failed) return;
    switch (type) {
    case GF_THRIFT_TRUE:
    case GF_THRIFT_FALSE:
        if (element) take_byte(t);
        break;
    case GF_THRIFT_BYTE: take_byte(t); break;
    case GF_THRIFT_I16:
    case GF_THRIFT_I32:
    case GF_THRIFT_I64: take_varint(t); break;
    case GF_THRIFT_DOUBLE:
        if (t->end - t->at < 8) t->failed = 1;
        else t->at += 8;
        break;
    case GF_THRIFT_BINARY: take_bytes(t, &n); break;
    case GF_THRIFT_LIST:
    case GF_THRIFT_SET:
        n = (size_t)take_list(t, &inner);
        skip_members(t, (int64_t)n, 0, inner, depth + 1);
        break;
    case GF_THRIFT_MAP: skip_map(t, depth + 1); break;
    case GF_THRIFT_STRUCT:
        for (gf_thrift_struct s = gf_thrift_begin(t); gf_thrift_field(t, &s);) skip_value(t, s.type, depth + 1, 0);
        break;
    default: t->failed = 1;
    }
}

void gf_thrift_skip(gf_thrift *t, const gf_thrift_struct *s) { skip_value(t, s->type, 0, 0); }

int gf_varint_take(const uint8_t **at, const uint8_t *end, int bits, uint64_t *x) {
    *x = 0;
    for (int shift = 0; shift < bits && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

/* ----- what the decoders of Snappy and LZ4 share ----- */

typedef struct byte_stream {
    const uint8_t *at, *end; /* input that is left */
    uint8_t *out;
    size_t done, n; /* bytes written, of n */
} byte_stream;

/* `length` bytes from `back` before the end of the output, which may reach into themselves. 0: outside of it. */
static int copy_back(byte_stream *s, size_t back, size_t length) {
    if (back == 0 || back > s->done || length > s->n - s->done) return 0;
    uint8_t *to = s->out + s->done;
    const uint8_t *from = to - back;
    s->done += length;
    if (back >= length) memcpy(to, from, length);
    else
        for (size_t i = 0; i < length; i++) to[i] = from[i]; /* the copy repeats what it has just written */
    return 1;
}

/* ----- Snappy -----
 *
 * An element begins with a tag. Its lower two bits are the kind. 0: a literal of (tag >> 2) + 1 bytes; above 60 the length, less
 * one, is in the next 1 to 4 bytes. 1, 2, 3: a copy from an offset of 11, 16 or 32 bits back, which may reach into its output. */

static int take_little(byte_stream *s, int bytes, size_t *x) {
    if (s->end - s->at < bytes) return 0;
    *x = 0;
    for (int i = 0; i < bytes; i++) *x |= (size_t)s->at[i] << 8 * i;
    s->at += bytes;
    return 1;
}

static int snappy_literal(byte_stream *s, int tag) {
    size_t length = (size_t)(tag >> 2);
    if (length >= 60 && !take_little(s, (int)length - 59, &length)) return 0;
    length++;
    if (length > (size_t)(s->end - s->at) || length > s->n - s->done) return 0;
    memcpy(s->out + s->done, s->at, length);
    s->at += length;
    s->done += length;
    return 1;
}

static int snappy_copy(byte_stream *s, int tag) {
    const int kind = tag & 3;
    size_t length = (size_t)(tag >> 2) + 1, back;
    if (!take_little(s, kind == 1 ? 1 : kind == 2 ? 2 : 4, &back)) return 0;
    if (kind == 1) length = (size_t)(tag >> 2 & 7) + 4, back |= (size_t)(tag >> 5) << 8;
    return copy_back(s, back, length);
}

int gf_snappy_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n) {
    byte_stream s = {.at = in, .end = in + bytes, .out = out, .n = n};
    uint64_t stated;
    if (!gf_varint_take(&s.at, s.end, 35, &stated) || stated != n) return 0;
    while (s.at < s.end) {
        const int tag = *s.at++;
        if (!(tag & 3 ? snappy_copy(&s, tag) : snappy_literal(&s, tag))) return 0;
    }
    return s.done == n;
}

/* ----- LZ4 -----
 *
 * A sequence is a token, literals, then a copy: the offset in 2 bytes, at least 4 bytes long. The upper half of the token is the
 * number of literals, the lower half the length of the copy less 4; 15 means that bytes follow which are added, as long as they
 * are 255. The last sequence has no copy. */

enum { SHORTEST = 4 };

/* nibble: of the token. */
static int take_length(byte_stream *s, size_t nibble, size_t *length) {
    *length = nibble;
    for (int more = nibble == 15; more;) {
        if (s->at == s->end) return 0;
        more = *s->at == 255;
        *length += *s->at++;
        if (*length > s->n) return 0;
    }
    return 1;
}

static int lz4_copy(byte_stream *s, size_t nibble) {
    size_t length;
    if (s->end - s->at < 2) return 0;
    const size_t back = (size_t)s->at[0] | (size_t)s->at[1] << 8;
    s->at += 2;
    if (!take_length(s, nibble, &length)) return 0;
    length += SHORTEST;
    return copy_back(s, back, length);
}

int gf_lz4_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n) {
    byte_stream s = {.at = in, .end = in + bytes, .out = out, .n = n};
    while (s.at < s.end) {
        const size_t token = *s.at++;
        size_t literals;
        if (!take_length(&s, token >> 4, &literals)) return 0;
        if (literals > (size_t)(s.end - s.at) || literals > s.n - s.done) return 0;
        if (literals) memcpy(s.out + s.done, s.at, literals);
        s.at += literals;
        s.done += literals;
        if (s.at == s.end) return s.done == n; /* the last sequence */
        if (!lz4_copy(&s, token & 15)) return 0;
    }
    return 0; /* a copy is never the end */
}

/* ----- delta encodings -----
 *
 * Head: integers of a block, miniblocks of it, number of all integers (varints) and the first one (with its sign in the lowest
 * bit). A block: its smallest difference, a byte per miniblock with its width in bits, then the miniblocks. A difference is the
 * smallest one plus the packed bits; all sums are modulo 2^64. The last block has only the miniblocks that are needed. */

enum { WIDTH_MAX = 64 };
#define BLOCK_MAX ((uint64_t)1 << 31)

static int take_signed(const uint8_t **at, const uint8_t *end, uint64_t *x) {
    if (!gf_varint_take(at, end, 64, x)) return 0;
    *x = (*x >> 1) ^ (UINT64_MAX * (*x & 1));
    return 1;
}

int gf_delta_begin(gf_delta *d, const uint8_t *bytes, size_t n) {
    uint64_t block;
    *d = (gf_delta){.at = bytes, .end = bytes + n, .first = 1};
    if (!gf_varint_take(&d->at, d->end, 64, &block) || !gf_varint_take(&d->at, d->end, 64, &d->minis)) return 0;
    if (!gf_varint_take(&d->at, d->end, 64, &d->left) || !take_signed(&d->at, d->end, &d->value)) return 0;
    if (block == 0 || block > BLOCK_MAX || d->minis == 0 || d->minis > block || block % d->minis || d->left > INT32_MAX) return 0;
    d->mini = block / d->minis;
    d->next_mini = d->minis;
    return d->mini % 32 == 0; /* so that miniblocks are whole bytes */
}

/* The head of the next block. */
static int next_block(gf_delta *d) {
    if (!take_signed(&d->at, d->end, &d->min_delta) || (uint64_t)(d->end - d->at) < d->minis) return 0;
    d->width = d->at;
    d->at += d->minis;
    d->next_mini = 0;
    return 1;
}

/* The next miniblock: d->at goes past it. */
static int next_mini(gf_delta *d) {
    if (d->next_mini == d->minis && !next_block(d)) return 0;
    const uint64_t width = d->width[d->next_mini++], bytes = d->mini / 8 * width;
    if (width > WIDTH_MAX || bytes > (uint64_t)(d->end - d->at)) return 0;
    d->bits = d->at;
    d->at += bytes;
    d->in_mini = d->mini, d->bit = 0;
    return 1;
}

int gf_delta_next(gf_delta *d, int64_t *out) {
    if (d->left == 0) return 0;
    if (!d->first) {
        if (d->in_mini == 0 && !next_mini(d)) return 0;
        const int width = d->width[d->next_mini - 1];
        uint64_t x = 0;
        for (int have = 0; have < width;) {
            const int shift = (int)(d->bit & 7), some = GF_MIN(8 - shift, width - have);
            const uint64_t part = (uint64_t)(d->bits[d->bit / 8] >> shift) & (((uint64_t)1 << some) - 1);
            x |= part << have;
            d->bit += (uint64_t)some;
            have += some;
        }
        d->in_mini--;
        d->value += d->min_delta + x;
    }
    d->first = 0;
    d->left--;
    *out = (int64_t)d->value;
    return 1;
}

/* Continues by miniblocks, whose bytes are known without unpacking them. */
const uint8_t *gf_delta_end(const gf_delta *d) {
    gf_delta e = *d;
    uint64_t left = e.left > (uint64_t)e.first ? e.left - (uint64_t)e.first : 0;
    for (left -= GF_MIN(left, e.in_mini); left > 0; left -= GF_MIN(left, e.mini))
        if (!next_mini(&e)) return NULL;
    return e.at;
}

/* ----- delta encodings: texts ----- */

int gf_delta_texts_begin(gf_delta_texts *t, const uint8_t *bytes, size_t n, int with_prefix, size_t *last_bytes) {
    const uint8_t *end = bytes + n;
    *t = (gf_delta_texts){.with_prefix = with_prefix, .end = end};
    if (with_prefix) {
        if (!gf_delta_begin(&t->prefix, bytes, n) || !(bytes = gf_delta_end(&t->prefix))) return 0;
    }
    if (!gf_delta_begin(&t->length, bytes, (size_t)(end - bytes)) || !(t->at = gf_delta_end(&t->length))) return 0;
    *last_bytes = (size_t)(end - t->at); /* no text is longer than all bytes together */
    return !with_prefix || t->prefix.left == t->length.left;
}

int gf_delta_texts_next(gf_delta_texts *t, const uint8_t **text, size_t *n) {
    int64_t length, prefix = 0;
    if (!gf_delta_next(&t->length, &length) || (t->with_prefix && !gf_delta_next(&t->prefix, &prefix))) return 0;
    if (length < 0 || length > t->end - t->at || prefix < 0 || (uint64_t)prefix > t->last_n) return 0;
    *text = t->at, *n = (size_t)length;
    t->at += length;
    if (!t->with_prefix) return 1;
    if (length) memcpy(t->last + prefix, *text, *n);
    t->last_n = *n += (size_t)prefix;
    *text = t->last;
    return 1;
}

/* ----- pages -----
 *
 * zlib and libzstd are opened when a page needs them, so that libglofnd needs neither of them, nor their headers: what is called
 * has not changed since zlib 1.2.0 and libzstd 1.0. Only the static program has them inside (GF_LINKED_ZLIB, GF_LINKED_ZSTD). */

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
