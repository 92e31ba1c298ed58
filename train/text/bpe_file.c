/* bpe_file.c - see bpe_file.h. */
#include "text/bpe_file.h"

#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_ZLIB
#include <zlib.h>
#endif

#include "io/blockfile.h"
#include "io/file.h"

#ifdef GF_HAVE_ZLIB

#define GZIP_WINDOW (15 + 16) /* the largest window, with gzip's frame */
#define FIRST_CAPACITY ((size_t)1 << 20)

/* Makes sure that something fits after `used`. */
static glofnd_status grow(gf_error *err, const char *name, char **text, size_t used, size_t *capacity) {
    if (used < *capacity) return GLOFND_OK;
    FAIL_IF(err, *capacity >= GF_BPE_FILE_MAX, GLOFND_E_FORMAT, "'%.400s' unpacks to more than %llu bytes", name,
            (unsigned long long)GF_BPE_FILE_MAX);
    const size_t bigger = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    char *grown = realloc(*text, bigger);
    FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory to unpack '%.400s'", name);
    *text = grown;
    *capacity = bigger;
    return GLOFND_OK;
}

static glofnd_status inflate_all(gf_error *err, const char *name, z_stream *z, char **text, size_t *size) {
    size_t capacity = 0;
    for (;;) {
        TRY(grow(err, name, text, *size, &capacity));
        z->next_out = (Bytef *)*text + *size;
        z->avail_out = (uInt)(capacity - *size);
        const int code = inflate(z, Z_NO_FLUSH);
        *size = capacity - z->avail_out;
        if (code == Z_STREAM_END && z->avail_in == 0) return GLOFND_OK;
        /* Another member may follow the end of one. */
        const int next = code == Z_STREAM_END ? inflateReset(z) : code;
        FAIL_IF(err, next == Z_MEM_ERROR, GLOFND_E_MEMORY, "no memory to unpack '%.400s'", name);
        FAIL_IF(err, next != Z_OK, GLOFND_E_FORMAT, "'%.400s': corrupt gzip%s%.60s", name, z->msg ? ": " : ", or cut short",
                z->msg ? z->msg : "");
    }
}

glofnd_status gf_gunzip(gf_error *err, const char *name, const uint8_t *bytes, size_t n, char **text, size_t *size) {
    z_stream z = {0};
    *text = NULL;
    *size = 0;
    FAIL_IF(err, n > GF_BPE_FILE_MAX, GLOFND_E_FORMAT, "'%.400s' has more than %llu bytes", name,
            (unsigned long long)GF_BPE_FILE_MAX);
    FAIL_IF(err, inflateInit2(&z, GZIP_WINDOW) != Z_OK, GLOFND_E_MEMORY, "no memory to unpack '%.400s'", name);
    z.next_in = (Bytef *)(uintptr_t)bytes; /* not written to */
    z.avail_in = (uInt)n;
    const glofnd_status status = inflate_all(err, name, &z, text, size);
    inflateEnd(&z);
    if (status != GLOFND_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

/* No name and no time go into the file: equal text, equal bytes. */
static glofnd_status write_packed(gf_error *err, gf_writer *w, const char *path, const char *text, size_t n) {
    z_stream z = {0};
    FAIL_IF(err, n > GF_BPE_FILE_MAX || deflateInit2(&z, 9, Z_DEFLATED, GZIP_WINDOW, 9, Z_DEFAULT_STRATEGY) != Z_OK,
            GLOFND_E_MEMORY, "no memory to pack '%.400s'", path);
    const uLong capacity = deflateBound(&z, (uLong)n);
    Bytef *packed = malloc(capacity);
    int code = Z_MEM_ERROR;
    if (packed) {
        z.next_in = (Bytef *)(uintptr_t)text;
        z.avail_in = (uInt)n;
        z.next_out = packed;
        z.avail_out = (uInt)capacity;
        code = deflate(&z, Z_FINISH);
        if (code == Z_STREAM_END) gf_put(w, packed, capacity - z.avail_out);
    }
    free(packed);
    deflateEnd(&z);
    FAIL_IF(err, code != Z_STREAM_END, GLOFND_E_MEMORY, "no memory to pack '%.400s'", path);
    return GLOFND_OK;
}

#else

glofnd_status gf_gunzip(gf_error *err, const char *name, const uint8_t *bytes, size_t n, char **text, size_t *size) {
    (void)bytes, (void)n, (void)text, (void)size;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is gzip, and this build is without zlib; unpack it first (gunzip)", name);
}

static glofnd_status write_packed(gf_error *err, gf_writer *w, const char *path, const char *text, size_t n) {
    (void)w, (void)text, (void)n;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' cannot be packed: this build is without zlib; choose a name without .gz", path);
}

#endif

glofnd_status gf_bpe_file_read(gf_error *err, const char *path, char **text, size_t *n) {
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    *text = NULL;
    glofnd_status status = gf_file_read(err, path, GF_BPE_FILE_MAX, &bytes, &capacity, n);
    if (status == GLOFND_OK && (*n < 2 || bytes[0] != 0x1f || bytes[1] != 0x8b)) {
        *text = (char *)bytes;
        return GLOFND_OK;
    }
    const size_t packed = *n;
    if (status == GLOFND_OK) status = gf_gunzip(err, path, bytes, packed, text, n);
    free(bytes);
    return status;
}

glofnd_status gf_bpe_file_write(gf_error *err, const char *path, const char *text, size_t n) {
    const size_t length = strlen(path);
    const int pack = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    glofnd_status status = GLOFND_OK;
    if (pack) status = write_packed(err, &w, path, text, n);
    else gf_put(&w, text, n);
    if (status == GLOFND_OK) status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}
