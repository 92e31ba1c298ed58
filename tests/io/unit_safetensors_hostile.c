/* unit_safetensors_hostile.c - safetensors files made to do harm: refused with a message that names the file, and *out left
 * alone; and unusual ones that are fine. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "support/safetensors_fixture.h"

static void refused(glofnd_status status, const char *word) {
    gf_error err = {""};
    gf_st_file f = {.count = 77};
    const glofnd_status got = gf_st_open(&err, path_of("a"), &f);
    if (got != status || !strstr(err.text, word) || !strstr(err.text, "/a: "))
        fail_msg("status %d, '%s'; expected %d, '%s'", got, err.text, status, word);
    assert_int_equal(f.count, 77);
}

static void accepted_header(const char *header, size_t data_bytes) {
    write_image(header, strlen(header), data_bytes);
    gf_st_file f = open_file();
    gf_st_close(&f);
}

#define T(name, dtype, shape, range) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" range "}"
#define ONE(dtype, shape, range) "{" T("t", dtype, shape, range) "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *word;
} hostile[] = {
    {"", 0, "braces"},
    {" {}", 0, "braces"},
    {"[]", 0, "braces"},
    {"{", 0, "braces"},
    {"{} x", 0, "JSON"},
    {"{\"t\":1", 0, "JSON"},
    {"{" T("t", "U8", "[0]", "[0,0]") "," T("t", "U8", "[1]", "[0,1]") "}", 1, "duplicate"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate"},
    {"{\"__metadata__\":[]}", 0, "not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "'k' in __metadata__ is not a text"},
    {"{\"__metadata__\":{\"k\":{\"l\":{}}}}", 0, "deep"},
    {"{\"t\":1}", 0, "not described"},
    {"{\"t\":{}}", 0, "not described"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "not described"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":0}}", 1, "not described"},
    {"{\"t\":{\"dtyp\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype"},
    {"{\"t\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype"},
    {ONE("f32", "[1]", "[0,4]"), 4, "dtype 'f32'"},
    {ONE("F32 ", "[1]", "[0,4]"), 4, "dtype 'F32 '"},
    {ONE("F8_E4M3", "[1]", "[0,1]"), 1, "known are"},
    {ONE("U8", "{}", "[0,1]"), 1, "no shape"},
    {ONE("U8", "[1.0]", "[0,1]"), 1, "integers"},
    {ONE("U8", "[\"1\"]", "[0,1]"), 1, "integers"},
    {ONE("U8", "[-1]", "[0,1]"), 1, "integers"},
    {ONE("U8", "[-1,-1]", "[0,1]"), 1, "integers"},
    {ONE("U8", "[99999999999999999999]", "[0,1]"), 1, "JSON"},
    {ONE("F64", "[2305843009213693952]", "[0,0]"), 0, "too large"},
    {ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, "too large"},
    {ONE("F32", "[0,4294967296,4294967296]", "[0,0]"), 0, "too large"},
    {ONE("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "9 axes"},
    {ONE("U8", "[1]", "[0]"), 1, "no data_offsets"},
    {ONE("U8", "[1]", "[0,1,1]"), 1, "no data_offsets"},
    {ONE("U8", "[1]", "{}"), 1, "no data_offsets"},
    {ONE("U8", "[1]", "[0.0,1]"), 1, "no data_offsets"},
    {ONE("U8", "[1]", "[0,\"1\"]"), 1, "no data_offsets"},
    {ONE("U8", "[1]", "[-1,0]"), 1, "lies at bytes -1 to 0 of 1"},
    {ONE("U8", "[1]", "[1,0]"), 1, "lies at"},
    {ONE("U8", "[2]", "[0,2]"), 1, "lies at bytes 0 to 2 of 1"},
    {ONE("U8", "[1]", "[9223372036854775806,9223372036854775807]"), 1, "lies at"},
    {ONE("F32", "[2]", "[0,4]"), 4, "has 4 bytes; its type and shape need 8"},
    {ONE("U8", "[1]", "[0,1]"), 2, "1 bytes after the last tensor"},
    {ONE("U8", "[1]", "[1,2]"), 2, "a hole before tensor 't': byte 1 instead of 0"},
    {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[1,3]") "}", 3, "an overlap before tensor 'b'"},
    {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[0,2]") "}", 2, "an overlap"},
    {"{" T("b", "U8", "[1]", "[2,3]") "," T("a", "U8", "[1]", "[0,1]") "}", 3, "a hole before tensor 'b'"},
    {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[0]", "[1,1]") "}", 2, "an overlap"},
    {"{}", 1, "1 bytes after"},
    {ONE("U\\u001b[2J", "[1]", "[0,1]"), 1, "dtype 'U?[2J'"},
    {"{\"\\u001b\":1}", 0, "tensor '?'"},
};

TEST(hostile_headers_are_refused) {
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        write_image(hostile[i].header, strlen(hostile[i].header), hostile[i].data_bytes);
        refused(GLOFND_E_FORMAT, hostile[i].word);
    }
    write_image("{\0}     ", 8, 0);
    refused(GLOFND_E_FORMAT, "zero bytes");
    unlink(path_of("a"));
}

/* Order in the header is free, blanks may follow, its length need not be a multiple of 8, strings may look like nesting. */
TEST(unusual_headers_are_taken) {
    accepted_header("{}", 0);
    accepted_header("{}\n  \t ", 0);
    accepted_header("{\"__metadata__\":{}}", 0);
    accepted_header("{\"__metadata__\":{\"[[[[{{{{\":\"\\\"[[[[\\\\\"}}", 0);
    accepted_header("{" T("b", "F32", "[2]", "[1,9]") "," T("a", "U8", "[1]", "[0,1]") "," T("c", "U8", "[0]", "[1,1]") "}", 9);
    float x[2];
    gf_error err = {""};
    gf_st_file f = open_file();
    assert_string_equal(f.tensors[0].name, "a");
    assert_string_equal(f.tensors[1].name, "c");
    assert_string_equal(f.tensors[2].name, "b");
    assert_int_equal(gf_st_read_f32(&err, &f, &f.tensors[2], x, 2), GLOFND_OK);
    const unsigned char raw[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_memory_equal(x, raw, 8);
    gf_st_close(&f);
    unlink(path_of("a"));
}

/* Files that people have instead: their first bytes, and what the message says of them. */
TEST(files_of_torch_are_named) {
    static const struct {
        const char *bytes, *word;
    } known[] = {
        {"PK\3\4\0\0\10\10\0\0\0\0", "zip"},
        {"\x80\2\x8a\x0al\xfc\x9c"
         "F\xf9 ",
         "pickle"},
        {"\x80\1........", ": a header"},
        {"PK\1\2........", ": a header"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        write_bytes(known[i].bytes, 10);
        refused(GLOFND_E_FORMAT, known[i].word);
        if (i < 2) refused(GLOFND_E_FORMAT, "python -m glofnd convert");
    }
    unlink(path_of("a"));
}

TEST(hostile_lengths_are_refused) {
    const uint64_t lengths[] = {3, GF_ST_MAX_HEADER + 1, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    unsigned char image[10] = "........{}";
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        gf_le64_put(image, lengths[i]);
        write_bytes(image, sizeof image);
        refused(GLOFND_E_FORMAT, i == 0 ? "cut" : "not a safetensors file: a header");
    }
    for (size_t size = 0; size < GOLDEN; size++) {
        write_bytes(golden, size);
        refused(GLOFND_E_FORMAT, "");
    }
    unlink(path_of("a"));
    refused(GLOFND_E_IO, "No such file");
    assert_int_equal(mkfifo(path_of("a"), 0600), 0);
    refused(GLOFND_E_IO, "regular");
    unlink(path_of("a"));
}

TEST(deep_nesting_is_refused) {
    const size_t n = 1 << 20;
    char *header = malloc(n);
    assert_non_null(header);
    memset(header, '[', n);
    memcpy(header, "{\"t\":", 5);
    write_image(header, n, 0);
    refused(GLOFND_E_FORMAT, "deep");
    free(header);
    unlink(path_of("a"));
}

/* Whatever byte is changed: refused, or a file that holds what it promises. */
TEST(changed_bytes_do_no_harm) {
    static const unsigned char to[] = {0, '0', '9', '-', '"', ',', '{', ']', '\\', 0xff};
    for (size_t i = 0; i < GOLDEN; i++) {
        for (size_t k = 0; k < sizeof to; k++) {
            char image[GOLDEN];
            gf_error err = {""};
            gf_st_file f = {0};
            float x[64];
            memcpy(image, golden, GOLDEN);
            image[i] = (char)to[k];
            write_bytes(image, GOLDEN);
            if (gf_st_open(&err, path_of("a"), &f) != GLOFND_OK) continue;
            for (int64_t t = 0; t < f.count; t++) {
                assert_true(f.tensors[t].count <= 28);
                assert_int_equal(gf_st_read_f32(&err, &f, &f.tensors[t], x, f.tensors[t].count), GLOFND_OK);
            }
            gf_st_close(&f);
        }
    }
    unlink(path_of("a"));
}

TEST_GROUP(make_box, remove_empty_box)
