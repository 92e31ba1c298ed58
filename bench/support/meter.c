/* meter.c - see meter.h. */
#include "meter.h"

#include "machine.h"

static glofnd_status meet(gf_error *err, meter *m, double *begin) {
    double nothing = 0.0;
    const double came = seconds();
    const glofnd_status status = m->inner->ops->sum(err, m->inner, &nothing, 1);
    *begin = seconds();
    m->waiting_ms += 1e3 * (*begin - came);
    m->calls++;
    return status;
}

static glofnd_status done(meter *m, double begin, glofnd_status status) {
    m->talking_ms += 1e3 * (seconds() - begin);
    return status;
}

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    meter *m = (meter *)c;
    double begin;
    TRY(meet(err, m, &begin));
    return done(m, begin, m->inner->ops->gather(err, m->inner, part, bytes, all));
}

static glofnd_status exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                              const size_t *recv_bytes) {
    meter *m = (meter *)c;
    double begin;
    TRY(meet(err, m, &begin));
    return done(m, begin, m->inner->ops->exchange(err, m->inner, send, send_bytes, recv, recv_bytes));
}

static glofnd_status sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    meter *m = (meter *)c;
    double begin;
    TRY(meet(err, m, &begin));
    return done(m, begin, m->inner->ops->sum(err, m->inner, x, n));
}

static glofnd_status sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    meter *m = (meter *)c;
    double begin;
    TRY(meet(err, m, &begin));
    return done(m, begin, m->inner->ops->sum_floats(err, m->inner, x, n));
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    gf_comm *inner = ((meter *)c)->inner;
    return inner->ops->duplicate(err, inner, out);
}

static void close_nothing(gf_comm *c) { (void)c; }

static const gf_comm_ops ops = {"meter", gather, exchange, sum, sum_floats, duplicate, close_nothing, NULL, NULL};

void meter_make(meter *m, gf_comm *inner) {
    *m = (meter){.head = *inner, .inner = inner};
    m->head.ops = &ops;
}

void meter_reset(meter *m) {
    m->calls = 0;
    m->waiting_ms = m->talking_ms = 0.0;
}
