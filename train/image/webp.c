/* webp.c - WebP images, lossy and lossless, as DataComp's evaluation sets have them. See image.h. */
#include "image/image.h"
#ifdef GF_HAVE_WEBP
#include <webp/decode.h>
#endif

#ifdef GF_HAVE_WEBP
int gf_image_reads_webp(void) { return 1; }

/* Alpha is dropped, as PIL's convert("RGB") does. */
glofnd_status gf_webp_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out) {
    WebPBitstreamFeatures f;
    FAIL_IF(err, WebPGetFeatures(bytes, size, &f) != VP8_STATUS_OK, GLOFND_E_FORMAT, "'%.380s' is a corrupt WebP", name);
    FAIL_IF(err, f.has_animation, GLOFND_E_FORMAT, "'%.380s' is an animated WebP; expected one image", name);
    gf_error why = {""};
    glofnd_status status = gf_image_take(&why, hint, f.width, f.height, (int64_t)f.width * f.height);
    if (status == GLOFND_OK) status = gf_image_resize(&why, out, f.width, f.height);
    FAIL_IF(err, status != GLOFND_OK, status, "'%.300s': %.200s", name, why.text);
    const size_t room = (size_t)f.width * (size_t)f.height * 3;
    FAIL_IF(err, !WebPDecodeRGBInto(bytes, size, out->rgb, room, f.width * 3), GLOFND_E_FORMAT,
            "'%.380s' is a corrupt WebP, or ends too early", name);
    return GLOFND_OK;
}
#else
int gf_image_reads_webp(void) { return 0; }

glofnd_status gf_webp_decode(gf_error *err, const char *name, const uint8_t *bytes, size_t size, const gf_decode_hint *hint,
                             gf_image *out) {
    (void)bytes, (void)size, (void)hint, (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "'%.300s' is a WebP, and this build is without libwebp (Debian: libwebp-dev)", name);
}
#endif
