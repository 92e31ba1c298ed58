/* golden_resnet.c - whole nets on the CPU against PyTorch in float64: see support/golden_net.h. */

#include "support/test.h"

#include "support/golden_net.h"

#define X(name) \
    TEST(name) { golden_net_check(#name, GLOFND_DEVICE_CPU, GF_FP32, 1e-4); }
GOLDEN_NETS(X)
#undef X

#ifndef GF_HAVE_DNNL
TEST_SKIP("built without oneDNN")
#endif
