/* unit_dist.c - ranks in one process: detection of launchers, and the transport of a single rank. */
#include "support/test.h"

#include "dist/dist.h"
#include <stdlib.h>
#include <string.h>

static const char *seen_name, *seen_value;

static char *get_variable(const char *name) {
    static char value[32];
    if (!seen_name || strcmp(name, seen_name) != 0) return NULL;
    strcpy(value, seen_value);
    return value;
}

static int launched(const char *name, const char *value) {
    seen_name = name;
    seen_value = value;
    return gf_dist_launched(get_variable);
}

TEST(test_launched) {
    assert_false(launched(NULL, ""));
    assert_false(launched("SLURM_NTASKS", "16"));       /* in a batch script, without srun */
    assert_true(launched("OMPI_COMM_WORLD_SIZE", "1")); /* mpirun */
    assert_true(launched("PMIX_RANK", "0"));            /* srun --mpi=pmix */
    assert_true(launched("PMI_RANK", "3"));             /* srun --mpi=pmi2 */
    assert_true(launched("SLURM_STEP_NUM_TASKS", "2")); /* srun without any: not to be taken for two single runs */
    assert_false(launched("SLURM_STEP_NUM_TASKS", "1"));
}

TEST(test_single) {
    gf_error err = {""};
    gf_comm *c = NULL;
    double x = 3.0;
    int part = 7, all = 0;
    assert_int_equal(gf_dist_open(&err, GF_RANKS_AUTO, 0, &c), GLOFND_OK);
    assert_true(c->rank == 0 && c->ranks == 1 && strcmp(c->ops->name, "single") == 0);
    assert_int_equal(c->ops->sum(&err, c, &x, 1), GLOFND_OK);
    assert_int_equal(gf_comm_gather(&err, c, &part, sizeof part, &all), GLOFND_OK);
    assert_true(x == 3.0 && all == 7);
    assert_int_equal(gf_dist_watch(&err, c, 1.0, NULL, NULL), GLOFND_OK); /* no other rank */
    gf_fail(&err, GLOFND_E_IO, "no such file");
    assert_int_equal(gf_comm_agree(&err, c, GLOFND_E_IO), GLOFND_E_IO);
    assert_string_equal(err.text, "no such file");
    gf_dist_close(c);
    gf_dist_close(NULL);
}
