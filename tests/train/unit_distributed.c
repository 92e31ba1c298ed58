/* unit_distributed.c - configurations that several ranks refuse; those that need no GPU to be reached are in ranks_refused.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/distributed.h"

static void averages_are_for_cpus(void **state) {
    (void)state;
    gf_error err = {""};
    gf_config c;
    assert_int_equal(gf_config_init(&err, &c), GLOFND_OK);
    c.batch = 16;
    for (int bank = 0; bank < 2; bank++)
        for (int gpu = 0; gpu < 2; gpu++) {
            c.method.similarity = bank ? GLOFND_SIMILARITY_BANK : GLOFND_SIMILARITY_EMBEDDING;
            c.method.device = gpu ? GLOFND_DEVICE_CUDA : GLOFND_DEVICE_CPU;
            assert_int_equal(gf_distributed_check(&err, &c, 2), bank && gpu ? GLOFND_E_UNSUPPORTED : GLOFND_OK);
        }
    assert_non_null(strstr(err.text, "similarity: several ranks"));
    assert_non_null(strstr(err.text, "device = cpu"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(averages_are_for_cpus)};
    return cmocka_run_group_tests_name("unit_distributed", tests, NULL, NULL);
}
