/* fuzz_image.c - libFuzzer target of the image decoders. The first byte chooses exact or fast, all or a part; what is accepted
 * must have the size it says, all of it written, and survive a trip through our own encoder. */
#include <stdlib.h>
#include <string.h>

#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const gf_image *m) {
    uint8_t *bytes;
    size_t n;
    gf_image back = {0};
    if (gf_image_encode_png(NULL, m, &bytes, &n) != GLOFND_OK) abort();
    if (gf_image_decode(NULL, "again", bytes, n, 0, &back) != GLOFND_OK) abort();
    if (back.width != m->width || back.height != m->height) abort();
    if (memcmp(back.rgb, m->rgb, (size_t)3 * (size_t)m->width * (size_t)m->height) != 0) abort();
    free(bytes);
    gf_image_free(&back);
}

/* Some region that depends on the input. */
static gf_region choose(void *user, int width, int height, int *by) {
    const uint8_t seed = *(const uint8_t *)user;
    const int left = (seed >> 2) * 7 % width, top = (seed >> 4) * 11 % height;
    *by = 1 << (seed >> 6);
    return (gf_region){left, top, 1 + (seed * 5) % (width - left), 1 + (seed * 3) % (height - top)};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gf_error err = {""};
    gf_image m = {0};
    if (size < 1) return 0;
    gf_decode_hint hint = {.fast = data[0] & 1,
                           .shrink_to = data[0] >> 2,
                           .choose = data[0] & 2 ? choose : NULL,
                           .user = (void *)data};
    const glofnd_status status = gf_image_decode(&err, "fuzz", data + 1, size - 1, &hint, &m);
    if (status == GLOFND_OK) {
        if (m.width < 1 || m.height < 1 || m.width > GF_IMAGE_SIDE_MAX || m.height > GF_IMAGE_SIDE_MAX) abort();
        if ((int64_t)m.width * m.height <= 1 << 16) round_trip(&m);
    } else if (status == GLOFND_E_FORMAT && !strstr(err.text, "fuzz")) {
        abort(); /* every refusal names the file */
    }
    gf_image_free(&m);
    return 0;
}
