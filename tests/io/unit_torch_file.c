/* unit_torch_file.c - files of torch.save: what is read of them, and what is refused. */
#include "torch/torch_file.h"
#include "support/safetensors_fixture.h"
#include "support/torch_writer.h"

static const float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static archive *built; /* large: not on the stack */

static archive *fresh(void) {
    free(built);
    built = calloc(1, sizeof *built);
    assert_non_null(built);
    return built;
}

/* A file of this pickle, with 12 floats as storage 0. */
static void write_torch(const tape *p) {
    archive *a = fresh();
    store(a, "x/data.pkl", p->bytes, p->n);
    store(a, "x/byteorder", "little", 6);
    store(a, "x/data/0", numbers, sizeof numbers);
    finish(a);
    write_bytes(a->file.bytes, a->file.n);
}

static gf_st_file open_weights(void) {
    gf_st_file f = {0};
    gf_error err = {""};
    if (gf_weights_open(&err, path_of("a"), &f) != GLOFND_OK) fail_msg("%s", err.text);
    return f;
}

static void refused(const char *word) {
    gf_st_file f = {0};
    gf_error err = {""};
    const glofnd_status status = gf_weights_open(&err, path_of("a"), &f);
    if (status != GLOFND_E_FORMAT || !strstr(err.text, word) || !strstr(err.text, path_of("a")))
        fail_msg("status %d, '%s' without '%s'", status, err.text, word);
    assert_null(f.path);
}

static void holds(const gf_st_file *f, const char *name, int rank, int64_t count, const float *want) {
    float x[64] = {0}, raw[64] = {0};
    gf_error err = {""};
    const gf_st_tensor *t = gf_st_find(f, name);
    if (!t) fail_msg("no tensor %s", name);
    assert_int_equal(t->rank, rank);
    assert_int_equal(t->count, count);
    assert_int_equal(gf_st_read_f32(&err, f, t, x, count), GLOFND_OK);
    assert_memory_equal(x, want, sizeof *x * (size_t)count);
    if (t->type != GF_ST_F32) return;
    assert_int_equal(gf_st_read(&err, f, t, raw, sizeof *raw * (size_t)count), GLOFND_OK);
    assert_memory_equal(raw, want, sizeof *x * (size_t)count);
}

/* ----- what is read ----- */

static void plain(tape *p) {
    begin_pickle(p);
    begin_dict(p);
    key(p, "w"), tensor(p, "FloatStorage", "0", 12, 0, "3 4", "4 1");
    key(p, "b"), tensor(p, "FloatStorage", "0", 12, 10, "2", "1");
    end_dict(p);
    stop(p);
}

static void tensors_are_read(void **state) {
    (void)state;
    tape p = {.n = 0};
    plain(&p);
    write_torch(&p);
    gf_st_file f = open_weights();
    assert_int_equal(f.count, 2);
    assert_string_equal(f.tensors[0].name, "w");
    assert_int_equal(f.tensors[0].shape[1], 4);
    holds(&f, "w", 2, 12, numbers);
    holds(&f, "b", 1, 2, numbers + 10);
    int has = 1;
    gf_error err = {""};
    assert_int_equal(gf_st_check(&err, &f, &has), GLOFND_OK);
    assert_int_equal(has, 0);
    gf_st_close(&f);
    write_bytes(golden, GOLDEN); /* safetensors, by its content */
    f = open_weights();
    assert_int_equal(f.count, 2);
    gf_st_close(&f);
    unlink(path_of("a"));
}

static void strides_and_offsets_are_followed(void **state) {
    (void)state;
    tape p = {.n = 0};
    begin_pickle(&p);
    begin_dict(&p);
    key(&p, "transposed"), tensor(&p, "FloatStorage", "0", 12, 0, "4 3", "1 4");
    key(&p, "part"), tensor(&p, "FloatStorage", "0", 12, 5, "2 2", "4 1");
    key(&p, "expanded"), tensor(&p, "FloatStorage", "0", 12, 7, "2 3", "0 0");
    key(&p, "channels last"), tensor(&p, "FloatStorage", "0", 12, 0, "1 3 2 2", "12 1 6 3");
    key(&p, "one"), tensor(&p, "FloatStorage", "0", 12, 11, "", "");
    key(&p, "axes of one"), tensor(&p, "FloatStorage", "0", 12, 0, "1 12 1", "7 1 99");
    key(&p, "none"), tensor(&p, "FloatStorage", "0", 12, 12, "3 0 2", "0 2 1");
    key(&p, "sixth"), tensor(&p, "FloatStorage", "0", 12, 0, "2", "6");
    end_dict(&p);
    stop(&p);
    write_torch(&p);
    gf_st_file f = open_weights();
    holds(&f, "transposed", 2, 12, (const float[]){0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
    holds(&f, "part", 2, 4, (const float[]){5, 6, 9, 10});
    holds(&f, "expanded", 2, 6, (const float[]){7, 7, 7, 7, 7, 7});
    holds(&f, "channels last", 4, 12, (const float[]){0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
    holds(&f, "one", 0, 1, (const float[]){11});
    holds(&f, "axes of one", 3, 12, numbers);
    assert_int_equal(gf_st_find(&f, "axes of one")->strided, 0);
    holds(&f, "none", 3, 0, numbers);
    holds(&f, "sixth", 1, 2, (const float[]){0, 6});
    gf_st_close(&f);
    unlink(path_of("a"));
}

/* What training programs save: a state_dict among other things, of a wrapped model, with _metadata; parameters. */
static void checkpoints_are_understood(void **state) {
    (void)state;
    tape p = {.n = 0};
    begin_pickle(&p);
    begin_dict(&p);
    key(&p, "epoch"), integer(&p, 70000);
    key(&p, "lr"), op(&p, "G"), put(&p, "?\xb9\x99\x99\x99\x99\x99\x9a", 8);
    key(&p, "nothing"), op(&p, "N");
    key(&p, "optimizer"), begin_dict(&p), integer(&p, 0), tensor(&p, "FloatStorage", "0", 12, 0, "12", "1"), end_dict(&p);
    key(&p, "state_dict");
    ordered_dict(&p);
    op(&p, "q\1(");
    key(&p, "module._orig_mod.w"), tensor(&p, "FloatStorage", "0", 12, 0, "12", "1");
    key(&p, "module._orig_mod.scale"), global(&p, "torch._utils", "_rebuild_parameter"), op(&p, "(");
    tensor(&p, "FloatStorage", "0", 12, 3, "", ""), op(&p, "\x88"), ordered_dict(&p), op(&p, "tR");
    key(&p, "module._orig_mod.version"), integer(&p, 2);
    op(&p, "u"), begin_dict(&p), key(&p, "_metadata"), ordered_dict(&p), op(&p, "ub");
    end_dict(&p);
    stop(&p);
    write_torch(&p);
    gf_st_file f = open_weights();
    assert_int_equal(f.count, 2);
    holds(&f, "w", 1, 12, numbers);
    holds(&f, "scale", 0, 1, numbers + 3);
    gf_st_close(&f);
    unlink(path_of("a"));
}

static void types_are_converted(void **state) {
    (void)state;
    const struct {
        const char *storage;
        const void *bytes;
        size_t n;
        gf_st_type type;
    } kinds[] = {{"HalfStorage", "\0\x3c\0\xc0", 4, GF_ST_F16},
                 {"BFloat16Storage", "\x80\x3f\0\xc0", 4, GF_ST_BF16},
                 {"DoubleStorage", (const double[]){1, -2}, 16, GF_ST_F64},
                 {"LongStorage", (const int64_t[]){1, -2}, 16, GF_ST_I64},
                 {"IntStorage", (const int32_t[]){1, -2}, 8, GF_ST_I32},
                 {"CharStorage", "\1\xfe", 2, GF_ST_I8}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tape p = {.n = 0};
        begin_pickle(&p);
        begin_dict(&p);
        key(&p, "x"), tensor(&p, kinds[k].storage, "key", 2, 0, "2", "1");
        key(&p, "swapped"), tensor(&p, kinds[k].storage, "key", 2, 0, "1 2", "1 1");
        end_dict(&p);
        stop(&p);
        archive *a = fresh();
        a->zip64 = k % 2;
        store(a, "some name/data/key", kinds[k].bytes, kinds[k].n);
        store(a, "some name/data.pkl", p.bytes, p.n);
        finish(a);
        write_bytes(a->file.bytes, a->file.n);
        gf_st_file f = open_weights();
        assert_int_equal(f.tensors[0].type, kinds[k].type);
        holds(&f, "x", 1, 2, (const float[]){1, -2});
        holds(&f, "swapped", 2, 2, (const float[]){1, -2});
        gf_st_close(&f);
    }
    unlink(path_of("a"));
}

/* ----- what is refused ----- */

static void tensor_refused(const char *storage, const char *name, int64_t claimed, int64_t offset, const char *shape,
                           const char *stride, const char *word) {
    tape p = {.n = 0};
    begin_pickle(&p);
    begin_dict(&p);
    key(&p, "w"), tensor(&p, storage, name, claimed, offset, shape, stride);
    end_dict(&p);
    stop(&p);
    write_torch(&p);
    refused(word);
}

static void impossible_tensors_are_refused(void **state) {
    (void)state;
    tensor_refused("FloatStorage", "1", 12, 0, "3 4", "4 1", "'w' has a storage that is missing");
    tensor_refused("FloatStorage", "../0", 12, 0, "3 4", "4 1", "missing");
    tensor_refused("FloatStorage", "0", 13, 0, "3 4", "4 1", "shorter than it should be");
    tensor_refused("FloatStorage", "0", -1, 0, "3 4", "4 1", "no storage");
    tensor_refused("DoubleStorage", "0", 12, 0, "3 4", "4 1", "shorter than it should be");
    tensor_refused("FloatStorage", "0", 12, 1, "3 4", "4 1", "reaches beyond its storage");
    tensor_refused("FloatStorage", "0", 12, 13, "0", "1", "reaches beyond its storage");
    tensor_refused("FloatStorage", "0", 12, -1, "3", "1", "not described");
    tensor_refused("FloatStorage", "0", 12, 0, "3 4", "5 1", "reaches beyond its storage");
    tensor_refused("FloatStorage", "0", 12, 0, "-3 4", "4 1", "not described");
    tensor_refused("FloatStorage", "0", 12, 0, "3 4", "4 -1", "not described");
    tensor_refused("FloatStorage", "0", 12, 0, "3 4", "4", "not described");
    tensor_refused("FloatStorage", "0", 12, 0, "1 1 1 1 1 1 1 1 1", "1 1 1 1 1 1 1 1 1", "more than 8 axes");
    tensor_refused("FloatStorage", "0", 12, 0, "4294967296 4294967296", "0 0", "too large");
    tensor_refused("FloatStorage", "0", 12, 0, "2 2", "9223372036854775807 9223372036854775807", "too large");
    tensor_refused("FloatStorage", "0", 12, INT64_MAX, "2", "1", "reaches beyond");
    tensor_refused("ComplexFloatStorage", "0", 12, 0, "1", "1", "would call torch.ComplexFloatStorage: only tensors are read");
    unlink(path_of("a"));
}

static void pickle_refused(const char *bytes, size_t n, const char *word) {
    tape p = {.n = 0};
    put(&p, bytes, n);
    write_torch(&p);
    refused(word);
}
#define PICKLE_REFUSED(bytes, word) pickle_refused(bytes, sizeof bytes - 1, word)

static void other_pickles_are_refused(void **state) {
    (void)state;
    PICKLE_REFUSED("\x80\2cos\nsystem\n(X\2\0\0\0lstR.", "would call os.system: only tensors");
    PICKLE_REFUSED("\x80\2ctorchvision.models.resnet\nResNet\n)\x81.", "would call torchvision.models.resnet.ResNet");
    PICKLE_REFUSED("\x80\2}.", "no dict of tensors");
    PICKLE_REFUSED("\x80\2K\1.", "no dict of tensors");
    PICKLE_REFUSED("\x80\2}(X\1\0\0\0aK\1u.", "no dict of tensors");
    PICKLE_REFUSED("\x80\2ccollections\nOrderedDict\n]a.", "items for something that is no list");
    PICKLE_REFUSED("\x80\2}X\1\0\0\0aQ", "the end of the file");
    tape p = {.n = 0};
    begin_pickle(&p), begin_dict(&p);
    for (int k = 0; k < 2; k++) key(&p, "w"), tensor(&p, "FloatStorage", "0", 12, 0, "12", "1");
    end_dict(&p), stop(&p);
    write_torch(&p);
    refused("two tensors 'w'");
    write_bytes("\x80\2\x8a\nl\xfc\x9c"
                "F\xf9 j\xa8P\x19.\x80\2M\xe9\3.",
                20);
    refused("before PyTorch 1.6; in PyTorch: torch.save(torch.load(");
    unlink(path_of("a"));
}

static void other_archives_are_refused(void **state) {
    (void)state;
    tape p = {.n = 0};
    plain(&p);
    for (int k = 0; k < 6; k++) {
        static const char *const words[] = {"without data.pkl", "compressed or encrypted", "big-endian",
                                            "impossible size",  "reaches beyond its end",  "two entries of one name"};
        archive *a = fresh();
        a->method = k == 1 ? 8 : 0;
        store_as(a, k == 0 ? "x/y/data.pkl" : "x/data.pkl", p.bytes, p.n, k == 4 ? 1 << 20 : p.n);
        store(a, "x/byteorder", k == 2 ? "big" : "little", k == 2 ? 3 : 6);
        store(a, "x/data/0", numbers, sizeof numbers);
        if (k == 5) store(a, "x/data/0", numbers, sizeof numbers);
        a->wrong_end = k == 3;
        finish(a);
        write_bytes(a->file.bytes, a->file.n);
        refused(words[k]);
    }
    write_bytes("PK\3\4........................", 28);
    refused("no table of entries");
    unlink(path_of("a"));
}

/* What opens lies in the file, whatever bits are flipped and wherever it ends. A new file each time: some file systems
 * write an old one that was cut to the disk at once. */
static void read_all(const uint8_t *bytes, size_t n) {
    gf_st_file f = {0};
    gf_error err = {""};
    unlink(path_of("a"));
    write_bytes(bytes, n);
    if (gf_weights_open(&err, path_of("a"), &f) != GLOFND_OK) {
        assert_non_null(strstr(err.text, path_of("a")));
        return;
    }
    for (int64_t i = 0; i < f.count; i++) {
        float x[256];
        if (f.tensors[i].count <= 256)
            assert_int_equal(gf_st_read_f32(&err, &f, &f.tensors[i], x, f.tensors[i].count), GLOFND_OK);
    }
    gf_st_close(&f);
}

static void corrupt_files_are_survived(void **state) {
    (void)state;
    tape p = {.n = 0};
    plain(&p);
    for (int zip64 = 0; zip64 < 2; zip64++) {
        archive *a = fresh();
        a->zip64 = zip64;
        store(a, "x/data.pkl", p.bytes, p.n);
        store(a, "x/data/0", numbers, sizeof numbers);
        finish(a);
        for (size_t n = 4; n < a->file.n; n += 3) read_all(a->file.bytes, n);
        for (size_t k = 0; k < a->file.n; k++)
            for (int with = 0; with < 3; with++) {
                const uint8_t was = a->file.bytes[k];
                a->file.bytes[k] = with == 0 ? (uint8_t)(was ^ 1u << k % 8) : with == 1 ? 0xff : 0;
                read_all(a->file.bytes, a->file.n);
                a->file.bytes[k] = was;
            }
    }
    unlink(path_of("a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_read),
        cmocka_unit_test(strides_and_offsets_are_followed),
        cmocka_unit_test(checkpoints_are_understood),
        cmocka_unit_test(types_are_converted),
        cmocka_unit_test(impossible_tensors_are_refused),
        cmocka_unit_test(other_pickles_are_refused),
        cmocka_unit_test(other_archives_are_refused),
        cmocka_unit_test(corrupt_files_are_survived),
    };
    const int failed = cmocka_run_group_tests_name("unit_torch_file", tests, make_box, remove_box);
    free(built);
    return failed;
}
