/* golden_clip.c - encoders for images and texts on the CPU against open_clip in float64: see support/golden_net.h. */

#include "support/test.h"

#include "support/golden_net.h"

#define X(name) \
    TEST(name) { golden_tower_check(#name, GLOFND_DEVICE_CPU, GF_FP32, 5e-5); }
GOLDEN_TOWERS(X)
#undef X

/* Activations rounded to 8 bits, some dozen times on the way there and back. Batch norms over few images magnify that without
 * bound, so the resnet is left to tests/nn/unit_encoders.c. */
TEST(bf16_stays_near) {
    gf_error err = {""};
    gf_net *n = NULL;
    const gf_net_spec probe = {.arch = GF_ARCH_TEXT,
                               .batch = 1,
                               .embed_dim = 8,
                               .width = 16,
                               .layers = 1,
                               .heads = 1,
                               .context = 4,
                               .vocab = 8,
                               .precision = GF_BF16};
    if (gf_net_create(&err, &probe, &n) == GLOFND_E_UNSUPPORTED) skip();
    gf_net_free(n);
    golden_tower_check("text_gelu", GLOFND_DEVICE_CPU, GF_BF16, 3e-2);
    golden_tower_check("text_quick", GLOFND_DEVICE_CPU, GF_BF16, 3e-2);
    golden_tower_check("vit_gelu", GLOFND_DEVICE_CPU, GF_BF16, 3e-2);
    golden_tower_check("vit_quick", GLOFND_DEVICE_CPU, GF_BF16, 3e-2);
}

#ifndef GF_HAVE_DNNL
TEST_SKIP("built without oneDNN")
#endif
