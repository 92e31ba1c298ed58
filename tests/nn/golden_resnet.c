/* golden_resnet.c - whole nets on the CPU against PyTorch in float64: see support/golden_net.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/golden_net.h"

#define X(name)                                                    \
    static void name(void **state) {                               \
        (void)state;                                               \
        golden_net_check(#name, GLOFND_DEVICE_CPU, GF_FP32, 1e-4); \
    }
GOLDEN_NETS(X)
#undef X

int main(void) {
#ifndef GF_HAVE_DNNL
    return 77;
#endif
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test(name),
        GOLDEN_NETS(X)
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
