/* safetensors_fixture.h - what the tests of safetensors files share: a scratch folder with one file "a" in it, and a small file
 * as Python's package writes it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/blockfile.h"
#include "io/safetensors.h"
#include "support/scratch.h"

static inline void write_bytes(const void *data, size_t n) {
    FILE *f = fopen(path_of("a"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static inline size_t read_bytes(unsigned char *data, size_t room) {
    FILE *f = fopen(path_of("a"), "rb");
    assert_non_null(f);
    const size_t n = fread(data, 1, room, f);
    fclose(f);
    return n;
}

/* A file of this header and `data_bytes` bytes 0, 1, 2 ... */
static inline void write_image(const char *header, size_t header_bytes, size_t data_bytes) {
    unsigned char *image = malloc(8 + header_bytes + data_bytes);
    assert_non_null(image);
    gf_le64_put(image, header_bytes);
    memcpy(image + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++) image[8 + header_bytes + i] = (unsigned char)i;
    write_bytes(image, 8 + header_bytes + data_bytes);
    free(image);
}

static inline gf_st_file open_file(void) {
    gf_st_file f = {0};
    gf_error err = {""};
    if (gf_st_open(&err, path_of("a"), &f) != GLOFND_OK) fail_msg("%s", err.text);
    return f;
}

/* safetensors 0.8: save({'a': float32 [1 2 3], 'b': int64 [[7] [-1]]}, metadata={'format': 'pt'}) */
static const char golden[] =
    "\x90\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"I64\",\"shape\":[2,1],\"data_offsets\":[0,16]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[16,28]}} "
    "\7\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377\0\0\200?\0\0\0@\0\0@@";
enum { GOLDEN = sizeof golden - 1 };
