/* fault_torch_file.c - memory: each allocation of opening and reading a file of torch.save may fail once, with nothing worse than
 * E_MEMORY and nothing left behind. */
#include "torch/torch_file.h"
#include "support/faults.h"
#include "support/safetensors_fixture.h"
#include "support/torch_writer.h"

static archive a;

static void write_file(void) {
    static const float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static tape p;
    begin_pickle(&p);
    ordered_dict(&p);
    op(&p, "(");
    key(&p, "module.w"), tensor(&p, "FloatStorage", "0", 12, 0, "4 3", "1 4");
    key(&p, "module.b"), tensor(&p, "FloatStorage", "0", 12, 3, "2", "1");
    op(&p, "u.");
    store(&a, "x/data.pkl", p.bytes, p.n);
    store(&a, "x/data/0", numbers, sizeof numbers);
    finish(&a);
    write_bytes(a.file.bytes, a.file.n);
}

static glofnd_status read_all(gf_error *err) {
    gf_st_file f = {0};
    float x[12];
    TRY(gf_weights_open(err, path_of("a"), &f));
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < f.count && status == GLOFND_OK; i++)
        status = gf_st_read_f32(err, &f, &f.tensors[i], x, f.tensors[i].count);
    gf_st_close(&f);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    long failures = 0;
    write_file();
    for (long k = 0;; k++) {
        gf_error err = {""};
        faults_at(k);
        const glofnd_status status = read_all(&err);
        if (!faults_end()) {
            if (status != GLOFND_OK) fail_msg("%s", err.text);
            break;
        }
        if (status != GLOFND_E_MEMORY) fail_msg("allocation %ld: %d, %s", k, status, err.text);
        failures++;
    }
    assert_true(failures >= 10);
    unlink(path_of("a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests_name("fault_torch_file", tests, make_box, remove_empty_box);
}
