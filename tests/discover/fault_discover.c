/* fault_discover.c - memory: each allocation of glofnd_discover and of saving its result may fail once, with nothing worse than
 * E_MEMORY, no result, and no folder. */
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

#include "glofnd.h"
#include "support/faults.h"
#include "support/random.h"

enum { N = 40, DIM = 6 };

static float x[N][DIM];
static int32_t label[N];

static glofnd_discover_spec spec_make(void) {
    rng g = {7};
    for (int i = 0; i < N; i++) {
        label[i] = i % 4;
        for (int d = 0; d < DIM; d++) x[i][d] = (float)rng_normal(&g);
    }
    memcpy(x[9], x[3], sizeof x[9]);
    return (glofnd_discover_spec){
        .size = sizeof(glofnd_discover_spec), .n = N, .dim = DIM, .x = x, .label = label, .k = 3, .max_pairs = 20, .threads = 2};
}

static void a_search_without_memory(void **state) {
    (void)state;
    const glofnd_discover_spec s = spec_make();
    long failures = 0;
    for (long k = 0;; k++) {
        glofnd_discovery *r = NULL;
        faults_at(k);
        const glofnd_status status = glofnd_discover(&s, &r, NULL, 0);
        const int failed = faults_end();
        if (failed && status != GLOFND_OK) { /* threads may be fewer: the search then goes on */
            assert_int_equal(status, GLOFND_E_MEMORY);
            assert_null(r);
            failures++;
        } else assert_int_equal(status, GLOFND_OK);
        glofnd_discovery_free(r);
        if (!failed) break;
    }
    assert_true(failures > 5);
}

static void a_folder_without_memory(void **state) {
    (void)state;
    const glofnd_discover_spec s = spec_make();
    char folder[] = "fault_discover_XXXXXX", out[40], command[64];
    const char *names[N];
    glofnd_discovery *r = NULL;
    long failures = 0;
    for (int i = 0; i < N; i++) names[i] = "name";
    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof out, "%s/out", folder);
    assert_int_equal(glofnd_discover(&s, &r, NULL, 0), GLOFND_OK);
    for (long k = 0;; k++) {
        faults_at(k);
        const glofnd_status status = glofnd_discovery_save(r, out, "memory", names, 0, NULL, 0);
        const int failed = faults_end();
        struct stat st;
        if (status != GLOFND_OK) {
            assert_true(failed);
            assert_int_not_equal(stat(out, &st), 0); /* all or nothing */
            failures++;
        } else break;
    }
    assert_true(failures > 2);
    glofnd_discovery_free(r);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_search_without_memory), cmocka_unit_test(a_folder_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
