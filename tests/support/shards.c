/* shards.c - see shards.h. */
#include "support/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tar.h"

archive tar;

void fix_sum(uint8_t *block) {
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
}

uint8_t *add(const char *name, char type, const void *bytes, size_t n) {
    uint8_t *block = tar.bytes + tar.size;
    assert_true(tar.size + 1024 + n < sizeof tar.bytes);
    gf_tar_header(block, name, n);
    block[156] = (uint8_t)type;
    fix_sum(block);
    memset(block + 512, 0, (n + 511) / 512 * 512);
    if (n) memcpy(block + 512, bytes, n);
    tar.size += 512 + (n + 511) / 512 * 512;
    return block;
}

void add_text(const char *name, const char *text) { add(name, '0', text, strlen(text)); }

void add_png(const char *name, uint8_t gray) {
    gf_image m = {0};
    uint8_t *bytes;
    size_t n;
    assert_int_equal(gf_image_resize(NULL, &m, 8, 8), GLOFND_OK);
    memset(m.rgb, gray, 192);
    assert_int_equal(gf_image_encode_png(NULL, &m, &bytes, &n), GLOFND_OK);
    add(name, '0', bytes, n);
    free(bytes);
    gf_image_free(&m);
}

void finish(const char *name) {
    memset(tar.bytes + tar.size, 0, 1024);
    scratch_write(&box, name, tar.bytes, tar.size + 1024);
    tar.size = 0;
}

static const char *wds_spec(const char *pattern) {
    static char spec[1024];
    snprintf(spec, sizeof spec, "wds:%s/%s", box.folder, pattern);
    return spec;
}

gf_dataset *open_wds(const char *pattern) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    if (gf_dataset_open(&err, wds_spec(pattern), &d) != GLOFND_OK) fail_msg("%s: %s", pattern, err.text);
    return d;
}

void refused(const char *pattern, glofnd_status expected, const char *word) {
    gf_error err = {""};
    gf_dataset *d = NULL;
    const glofnd_status status = gf_dataset_open(&err, wds_spec(pattern), &d);
    if (status != expected || !strstr(err.text, word) || d) fail_msg("%s: status %d, %s", pattern, status, err.text);
}

void expect_sample(const gf_dataset *d, int64_t i, const char *key, int32_t label, int gray, const char *text) {
    char name[600];
    gf_error err = {""};
    gf_sample s = {0};
    gf_dataset_name(d, i, name, sizeof name);
    if (!strchr(name, ':') || strcmp(strrchr(name, ':') + 1, key) != 0) fail_msg("sample %d is %s, not %s", (int)i, name, key);
    if (gf_dataset_read(&err, d, i, 0, &s) != GLOFND_OK) fail_msg("%s: %s", name, err.text);
    assert_int_equal(s.label, label);
    assert_int_equal(gf_dataset_label(d, i), label);
    assert_int_equal(s.image.rgb[0], gray);
    if (text) assert_string_equal(s.text ? s.text : "(none)", text);
    else assert_null(s.text);
    gf_sample_free(&s);
}

void expect_note(const gf_dataset *d, const char *begin, const char *end) {
    const char *note = gf_dataset_note(d);
    const size_t n = strlen(note), m = strlen(end);
    const int fits = begin[0] ? strncmp(note, begin, strlen(begin)) == 0 : n == 0;
    if (!fits || n < m || strcmp(note + n - m, end) != 0) fail_msg("note '%s', not '%s...%s'", note, begin, end);
}
