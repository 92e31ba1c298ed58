/* unit_reducer.c - gradients that become final from their end: each summed once, in order, by a thread or in a queue of a device;
 * and sums that fail. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "dist/dist.h"
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1000, BUCKET = 64 };

typedef struct line { /* a transport that records its calls: f fork, s sum, j join, c close */
    gf_comm head;
    char calls[200];
    int count, fails_at; /* sum number; 0: none */
    int sums;
    float *end; /* the next sum must end here */
} line;

static void note(line *l, char what) {
    assert_true((size_t)l->count < sizeof l->calls - 1);
    l->calls[l->count++] = what;
}

static glofnd_status sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    line *l = (line *)c;
    note(l, 's');
    FAIL_IF(err, ++l->sums == l->fails_at, GLOFND_E_DEVICE, "sum %d failed", l->sums);
    if (x + n != l->end) l->fails_at = -1;
    l->end = x;
    for (int64_t i = 0; i < n; i++) x[i] *= 2;
    return GLOFND_OK;
}

static glofnd_status fork_off(gf_error *err, gf_comm *c) {
    (void)err;
    note((line *)c, 'f');
    return GLOFND_OK;
}

static glofnd_status join_again(gf_error *err, gf_comm *c) {
    (void)err;
    note((line *)c, 'j');
    return GLOFND_OK;
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    (void)err;
    *out = c;
    return GLOFND_OK;
}

static void close_line(gf_comm *c) { note((line *)c, 'c'); }

static const gf_comm_ops by_thread = {.name = "test", .sum_floats = sum_floats, .duplicate = duplicate, .close = close_line};
static const gf_comm_ops by_queue = {
    .name = "test", .sum_floats = sum_floats, .duplicate = duplicate, .close = close_line, .fork = fork_off, .join = join_again};

typedef struct scene {
    line line;
    gf_reducer *r;
    float x[SIZE];
} scene;

static void begin(scene *s, const gf_comm_ops *ops) {
    gf_error err = {""};
    memset(s, 0, sizeof *s);
    s->line.head = (gf_comm){.ops = ops, .ranks = 2};
    assert_int_equal(gf_reducer_create(&err, &s->line.head, BUCKET, &s->r), GLOFND_OK);
}

/* One backward pass, in steps of `stride`. A number is written when it is final: one that was summed before is written over. */
static glofnd_status pass(scene *s, gf_error *err, int stride) {
    s->line.end = s->x + SIZE;
    gf_reducer_begin(s->r, s->x, SIZE);
    for (int last = SIZE, first; last > 0; last = first) {
        first = last > stride ? last - stride : 0;
        for (int i = first; i < last; i++) s->x[i] = (float)i;
        gf_reducer_ready(s->r, first);
    }
    return gf_reducer_wait(err, s->r);
}

TEST(every_number_is_summed_once) {
    const gf_comm_ops *const transports[] = {&by_thread, &by_queue};
    static const int strides[] = {1, 37, 64, 65, 500, SIZE};
    scene s;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
            gf_error err = {""};
            begin(&s, transports[k]);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(pass(&s, &err, strides[i]), GLOFND_OK);
                for (int j = 0; j < SIZE; j++) assert_true(s.x[j] == (float)(2 * j));
                assert_true(s.line.end == s.x && s.line.fails_at == 0);
            }
            assert_int_equal(s.line.sums, 2 * ((SIZE + BUCKET - 1) / BUCKET));
            gf_reducer_free(s.r);
        }
}

/* A queue: gradients are final before their sum, sums are done before later work; without sums there is no join. */
TEST(a_queue_forks_before_every_sum_and_joins_once) {
    gf_error err = {""};
    scene s;
    begin(&s, &by_queue);
    assert_int_equal(pass(&s, &err, 300), GLOFND_OK);
    assert_int_equal(gf_reducer_wait(&err, s.r), GLOFND_OK);
    gf_reducer_start(s.r, s.x, 0);
    assert_int_equal(gf_reducer_wait(&err, s.r), GLOFND_OK);
    gf_reducer_free(s.r);
    assert_string_equal(s.line.calls, "fsfsfsfsfsfsfsfsfsfsfsfsfsfsfsfsjc");
}

/* A backward pass that failed midway does not affect the next one. */
TEST(an_interrupted_pass_is_dropped) {
    gf_error err = {""};
    scene s;
    begin(&s, &by_queue);
    s.line.end = s.x + SIZE;
    gf_reducer_begin(s.r, s.x, SIZE);
    gf_reducer_ready(s.r, 500);
    assert_int_equal(pass(&s, &err, 100), GLOFND_OK);
    for (int j = 0; j < SIZE; j++) assert_true(s.x[j] == (float)(2 * j));
    gf_reducer_free(s.r);
}

TEST(a_failed_sum_is_reported) {
    const gf_comm_ops *const transports[] = {&by_thread, &by_queue};
    for (size_t k = 0; k < 2; k++) {
        gf_error err = {""};
        scene s;
        begin(&s, transports[k]);
        s.line.fails_at = 3;
        assert_int_equal(pass(&s, &err, 100), GLOFND_E_DEVICE);
        assert_string_equal(err.text, "sum 3 failed");
        s.line.fails_at = 0;
        assert_int_equal(pass(&s, &err, 100), GLOFND_OK);
        gf_reducer_free(s.r);
    }
}
