/* unit_tfevents.c - event files: the bytes TensorBoard's own writer makes, cutting and continuing, damage, a full disk.
 *     unit_tfevents write FILE    writes the file that tests/sh/tensorboard.sh gives to the real reader */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/tfevents.h"
#include "support/scratch.h"

typedef struct bytes {
    unsigned char data[1 << 15];
    size_t size;
} bytes;

static bytes read_file(const char *name) {
    bytes b = {.size = 0};
    FILE *f = fopen(path_of(name), "rb");
    assert_non_null(f);
    b.size = fread(b.data, 1, sizeof b.data, f);
    fclose(f);
    return b;
}

static void write_file(const char *name, const void *data, size_t size) {
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void same_bytes(const bytes *a, const bytes *b) {
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

static void open_events(gf_events *t, const char *name, int64_t keep) {
    gf_error err = {""};
    if (gf_events_open(&err, t, path_of(name), keep, 1.5) != GLOFND_OK) fail_msg("%s", err.text);
}

static void put_event(gf_events *t, int64_t step) {
    const float values[] = {-1, 0, 0.5f, 3, 3};
    gf_events_begin(t, step, 2.5);
    gf_events_scalar(t, "train/loss", 0.25);
    gf_events_histogram(t, "h", values, 5, 2);
    assert_int_equal(gf_events_end(t), GLOFND_OK);
}

/* ----- what is written ------------------------------------------------------------------------------------------- */

/* Made with TensorBoard 2.21: RecordWriter over the version event (time 1.5) and the event of put_event at step 300. */
static const unsigned char golden[] = "\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f\x4b\x22\x09\x00\x00\x00\x00\x00\x00\xf8"
                                      "\x3f\x1a\x0d\x62\x72\x61\x69\x6e\x2e\x45\x76\x65\x6e\x74\x3a\x32\x2a\x28\x64\x6c"
                                      "\x79\x00\x00\x00\x00\x00\x00\x00\x8a\x13\x53\x7b\x09\x00\x00\x00\x00\x00\x00\x04"
                                      "\x40\x10\xac\x02\x2a\x6b\x0a\x11\x0a\x0a\x74\x72\x61\x69\x6e\x2f\x6c\x6f\x73\x73"
                                      "\x15\x00\x00\x80\x3e\x0a\x56\x0a\x01\x68\x2a\x51\x09\x00\x00\x00\x00\x00\x00\xf0"
                                      "\xbf\x11\x00\x00\x00\x00\x00\x00\x08\x40\x19\x00\x00\x00\x00\x00\x00\x14\x40\x21"
                                      "\x00\x00\x00\x00\x00\x00\x16\x40\x29\x00\x00\x00\x00\x00\x40\x33\x40\x32\x10\x00"
                                      "\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x08\x40\x3a\x10\x00\x00\x00"
                                      "\x00\x00\x00\x08\x40\x00\x00\x00\x00\x00\x00\x00\x40\xfc\x53\x8a\xa9";
enum { GOLDEN = sizeof golden - 1, VERSION_RECORD = 40, EVENT_RECORD = GOLDEN - VERSION_RECORD };

TEST(writes_what_tensorboard_writes) {
    gf_events t;
    open_events(&t, "a", 0);
    assert_int_equal(gf_events_offset(&t), VERSION_RECORD);
    put_event(&t, 300);
    assert_int_equal(gf_events_offset(&t), GOLDEN);
    assert_int_equal(gf_events_close(&t), GLOFND_OK);
    const bytes b = read_file("a");
    assert_int_equal(b.size, GOLDEN);
    assert_memory_equal(b.data, golden, GOLDEN);
    assert_int_equal(gf_events_close(&t), GLOFND_OK);
    assert_int_equal(gf_events_close(NULL), GLOFND_OK);
    unlink(path_of("a"));
}

/* Steps are written in groups of seven bits, the lowest first. */
TEST(steps_of_any_size) {
    static const struct {
        int64_t step;
        const char *bytes;
        size_t n;
    } known[] = {{0, "\x00", 1},
                 {127, "\x7f", 1},
                 {128, "\x80\x01", 2},
                 {16383, "\xff\x7f", 2},
                 {16384, "\x80\x80\x01", 3},
                 {INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9},
                 {-1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        gf_events t;
        open_events(&t, "a", 0);
        gf_events_begin(&t, known[i].step, 2.5);
        gf_events_scalar(&t, "x", 1.0);
        assert_int_equal(gf_events_end(&t), GLOFND_OK);
        gf_events_close(&t);
        const bytes b = read_file("a");
        assert_memory_equal(b.data + VERSION_RECORD + 12 + 9 + 1, known[i].bytes, known[i].n);
        assert_int_equal(b.size, VERSION_RECORD + 12 + 9 + 1 + known[i].n + 12 + 4);
    }
    unlink(path_of("a"));
}

TEST(new_file_replaces_an_old_one) {
    gf_events t;
    write_file("a",
               "something else, and longer than what is written now: it must all go, also the end of it ..................."
               ".................................................................................................",
               200);
    open_events(&t, "a", 0);
    put_event(&t, 300);
    gf_events_close(&t);
    assert_int_equal(read_file("a").size, GOLDEN);
    unlink(path_of("a"));
}

static bytes one_histogram(const float *values, int64_t n, int bins) {
    gf_events t;
    open_events(&t, "h", 0);
    gf_events_begin(&t, 1, 1.0);
    gf_events_histogram(&t, "h", values, n, bins);
    assert_int_equal(gf_events_end(&t), GLOFND_OK);
    assert_int_equal(gf_events_close(&t), GLOFND_OK);
    const bytes b = read_file("h");
    unlink(path_of("h"));
    return b;
}

TEST(histogram_leaves_out_what_is_not_finite) {
    const float clean[] = {1, 2, 4}, dirty[] = {NAN, 1, INFINITY, 2, -INFINITY, 4, NAN};
    const bytes a = one_histogram(clean, 3, 3), b = one_histogram(dirty, 7, 3);
    same_bytes(&a, &b);
}

static void has_doubles(const bytes *b, const double *x, size_t n) {
    assert_non_null(memmem(b->data, b->size, x, n * sizeof *x)); /* packed, little endian, as here */
}

/* Limits are upper ones, the last is the largest value, which lies in the last bin. */
TEST(histogram_bins_are_even) {
    const float values[] = {0, 1, 2.5f, 3, 4, 4};
    const bytes b = one_histogram(values, 6, 4);
    has_doubles(&b, (const double[]){1, 2, 3, 4}, 4);
    has_doubles(&b, (const double[]){1, 1, 1, 3}, 4);
}

/* One value only, none at all, and a silly number of bins: one bin. */
TEST(histogram_of_little_has_one_bin) {
    const float same[] = {2, 2, 2}, other[] = {1, 2, 3}, nothing[] = {NAN};
    const size_t one_bin = one_histogram(other, 3, 1).size;
    assert_int_equal(one_histogram(same, 3, 64).size, one_bin);
    assert_int_equal(one_histogram(nothing, 1, 64).size, one_bin);
    assert_int_equal(one_histogram(NULL, 0, 64).size, one_bin);
    assert_int_equal(one_histogram(other, 3, 0).size, one_bin);
    assert_int_equal(one_histogram(other, 3, -5).size, one_bin);
    assert_true(one_histogram(other, 3, 64).size > one_bin + 63 * 16);
}

TEST(event_without_values_is_not_written) {
    gf_events t;
    open_events(&t, "a", 0);
    gf_events_begin(&t, 1, 1.0);
    gf_events_scalar(&t, "dropped", 1.0);
    gf_events_begin(&t, 2, 1.0);
    assert_int_equal(gf_events_end(&t), GLOFND_OK);
    gf_events_close(&t);
    assert_int_equal(read_file("a").size, VERSION_RECORD);
    unlink(path_of("a"));
}

/* ----- continuing -------------------------------------------------------------------------------------------------- */

TEST(resumed_file_equals_the_uninterrupted_one) {
    gf_events t;
    open_events(&t, "whole", 0);
    for (int64_t i = 0; i < 6; i++) put_event(&t, i);
    gf_events_close(&t);
    open_events(&t, "a", 0);
    for (int64_t i = 0; i < 3; i++) put_event(&t, i);
    assert_int_equal(gf_events_sync(&t), GLOFND_OK);
    const int64_t checkpoint = (int64_t)gf_events_offset(&t);
    assert_int_equal(read_file("a").size, checkpoint);
    put_event(&t, 3);
    put_event(&t, 99);
    gf_events_close(&t);
    open_events(&t, "a", checkpoint);
    for (int64_t i = 3; i < 6; i++) put_event(&t, i);
    gf_events_close(&t);
    const bytes whole = read_file("whole"), a = read_file("a");
    same_bytes(&whole, &a);
    unlink(path_of("whole"));
    unlink(path_of("a"));
}

/* A file cut at any byte continues after its last whole record. */
TEST(torn_end_is_cut) {
    for (size_t size = 0; size <= GOLDEN; size++) {
        gf_events t;
        gf_error err = {""};
        write_file("a", golden, size);
        const glofnd_status status = gf_events_open(&err, &t, path_of("a"), GF_LOG_ALL, 1.5);
        if (size > 0 && size < VERSION_RECORD) {
            assert_int_equal(status, GLOFND_E_FORMAT);
            assert_int_equal(read_file("a").size, size);
            continue;
        }
        assert_int_equal(status, GLOFND_OK);
        const size_t kept = size == GOLDEN ? GOLDEN : VERSION_RECORD;
        assert_int_equal(gf_events_offset(&t), kept);
        put_event(&t, 300);
        assert_int_equal(gf_events_close(&t), GLOFND_OK);
        const bytes b = read_file("a");
        assert_int_equal(b.size, kept + EVENT_RECORD);
        assert_memory_equal(b.data, golden, kept);
        assert_memory_equal(b.data + kept, golden + VERSION_RECORD, EVENT_RECORD);
    }
    unlink(path_of("a"));
}

static void cannot_open(const char *name, int64_t keep, glofnd_status status, const char *word) {
    gf_error err = {""};
    gf_events t;
    const glofnd_status got = gf_events_open(&err, &t, path_of(name), keep, 0.0);
    if (got != status || !strstr(err.text, word)) fail_msg("status %d, '%s'; expected %d, '%s'", got, err.text, status, word);
    assert_int_equal(gf_events_close(&t), GLOFND_OK);
}

TEST(damage_is_found_and_left_alone) {
    for (size_t i = 0; i < GOLDEN; i++) {
        bytes b = {.size = GOLDEN};
        memcpy(b.data, golden, GOLDEN);
        b.data[i] ^= 0x10;
        write_file("a", b.data, b.size);
        cannot_open("a", GOLDEN, GLOFND_E_FORMAT, "cannot be continued");
        const bytes after = read_file("a");
        same_bytes(&b, &after);
    }
    unlink(path_of("a"));
}

TEST(places_that_are_no_end_are_refused) {
    write_file("a", golden, GOLDEN);
    for (int64_t keep = 1; keep < GOLDEN + 20; keep++)
        if (keep != VERSION_RECORD && keep != GOLDEN) cannot_open("a", keep, GLOFND_E_FORMAT, "cannot be continued");
    cannot_open("a", -2, GLOFND_E_ARGUMENT, "kept");
    assert_int_equal(read_file("a").size, GOLDEN);
    unlink(path_of("a"));
    cannot_open("a", VERSION_RECORD, GLOFND_E_IO, "No such file");
    assert_int_equal(access(path_of("a"), F_OK), -1);
    cannot_open("", 0, GLOFND_E_IO, "cannot be opened");
    cannot_open("no/such/folder", 0, GLOFND_E_IO, "cannot be opened");
}

TEST(pipe_does_not_hang) {
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    cannot_open("pipe", 0, GLOFND_E_IO, "regular");
    unlink(path_of("pipe"));
}

/* ----- a full disk ----------------------------------------------------------------------------------------------- */

TEST(full_disk_leaves_whole_records) {
    gf_events t;
    gf_error err = {""};
    struct rlimit old, tight;
    assert_int_equal(gf_events_open(&err, &t, path_of("a"), 0, 1.5), GLOFND_OK);
    put_event(&t, 300);
    assert_int_equal(gf_events_flush(&t), GLOFND_OK);
    put_event(&t, 301);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tight = old;
    tight.rlim_cur = GOLDEN + 10;
    setrlimit(RLIMIT_FSIZE, &tight);
    const glofnd_status flushed = gf_events_flush(&t);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(flushed, GLOFND_E_IO);
    assert_non_null(strstr(err.text, "/a' cannot be written"));
    gf_events_begin(&t, 302, 1.0);
    gf_events_scalar(&t, "x", 1.0);
    assert_int_equal(gf_events_end(&t), GLOFND_E_IO); /* it sticks */
    assert_int_equal(gf_events_close(&t), GLOFND_E_IO);
    const bytes b = read_file("a");
    assert_int_equal(b.size, GOLDEN);
    assert_memory_equal(b.data, golden, GOLDEN);
    unlink(path_of("a"));
}

/* ----- for the real reader --------------------------------------------------------------------------------------- */

/* Scalars, one with a tag longer than a one-byte length; histograms: ordinary, of one value, empty. Cut and gone on once. */
static int write_sample(const char *path) {
    char longest[301];
    float values[1000];
    gf_error err = {""};
    gf_events t;
    memset(longest, 'x', 300);
    longest[300] = 0;
    for (int i = 0; i < 1000; i++) values[i] = (float)sin(i);
    uint64_t keep = 0;
    for (int part = 0; part < 2; part++) {
        if (gf_events_open(&err, &t, path, (int64_t)keep, 1000.0) != GLOFND_OK) return fprintf(stderr, "%s\n", err.text), 1;
        for (int64_t step = part ? 50 : 0; step < (part ? 100 : 60); step++) {
            if (step == 50) keep = gf_events_offset(&t);
            gf_events_begin(&t, step * 1000000000, 1000.0 + (double)step);
            gf_events_scalar(&t, "train/loss", part || step < 50 ? 1.0 / (1.0 + (double)step) : -1.0);
            gf_events_scalar(&t, longest, (double)step);
            gf_events_scalar(&t, "train/nan", (double)NAN);
            if (step % 10 == 0) gf_events_histogram(&t, "lambda", values, 1000, 32);
            if (step % 10 == 0) gf_events_histogram(&t, "one", values + 3, 1, 32);
            if (step % 10 == 0) gf_events_histogram(&t, "none", values, 0, 32);
            gf_events_end(&t);
        }
        if (gf_events_close(&t) != GLOFND_OK) return fprintf(stderr, "%s\n", err.text), 1;
    }
    return 0;
}

TEST_GROUP(make_box, remove_empty_box)

/* For tests/sh/tensorboard.sh. */
static int write_command(int argc, char **argv) {
    return argc == 3 && strcmp(argv[1], "write") == 0 ? write_sample(argv[2]) : -1;
}

TEST_COMMAND(write_command)
