/* unit_webp.c - WebP images: lossless ones come back exactly, in folders, too; corrupt ones are refused. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_WEBP
#include <webp/encode.h>
#endif

#include "image/image.h"
#include "support/specs.h"

enum { WIDTH = 7, HEIGHT = 5 };

static size_t encode(uint8_t rgb[HEIGHT * WIDTH * 3], uint8_t *out, size_t capacity) {
#ifdef GF_HAVE_WEBP
    uint8_t *bytes = NULL;
    for (int i = 0; i < HEIGHT * WIDTH * 3; i++) rgb[i] = (uint8_t)(i * 2);
    const size_t n = WebPEncodeLosslessRGB(rgb, WIDTH, HEIGHT, WIDTH * 3, &bytes);
    assert_true(n > 0 && n <= capacity);
    memcpy(out, bytes, n);
    WebPFree(bytes);
    return n;
#else
    (void)rgb, (void)out, (void)capacity;
    return 0;
#endif
}

TEST(lossless_images_come_back_exactly) {
    uint8_t rgb[HEIGHT * WIDTH * 3], bytes[2000];
    gf_image m = {0};
    if (!gf_image_reads_webp()) skip();
    const size_t n = encode(rgb, bytes, sizeof bytes);
    assert_int_equal(gf_image_decode(NULL, "x", bytes, n, NULL, &m), GLOFND_OK);
    assert_true(m.width == WIDTH && m.height == HEIGHT);
    assert_memory_equal(m.rgb, rgb, sizeof rgb);
    for (size_t cut = 0; cut < n; cut++) {
        gf_error err = {""};
        assert_int_equal(gf_image_decode(&err, "x", bytes, cut, NULL, &m), GLOFND_E_FORMAT);
        assert_true(err.text[0]);
    }
    gf_image_free(&m);
}

TEST(folders_have_them) {
    uint8_t rgb[HEIGHT * WIDTH * 3], bytes[2000];
    if (!gf_image_reads_webp()) skip();
    scratch_write(&box, "in/a/1.webp", bytes, encode(rgb, bytes, sizeof bytes));
    gf_dataset *d = open_spec("folder:%/in");
    gf_sample s = {0};
    assert_int_equal(gf_dataset_describe(d).n, 1);
    assert_int_equal(gf_dataset_read(NULL, d, 0, NULL, &s), GLOFND_OK);
    assert_memory_equal(s.image.rgb, rgb, sizeof rgb);
    assert_true(gf_dataset_sizes(d).width == WIDTH && gf_dataset_sizes(d).height == HEIGHT);
    gf_sample_free(&s);
    gf_dataset_free(d);
}

TEST(without_the_library_they_are_named) {
    gf_error err = {""};
    gf_image m = {0};
    if (gf_image_reads_webp()) skip();
    assert_int_equal(gf_image_decode(&err, "x", (const uint8_t *)"RIFF....WEBPVP8 ", 16, NULL, &m), GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "libwebp"));
}

TEST_GROUP(make_box, remove_box)
