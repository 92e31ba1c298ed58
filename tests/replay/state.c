/* state.c - see state.h. */
#include "state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shared_id = GLOFND_SHARED;

int library(const replica *r, glofnd_status status, const char *what, message *m) {
    SAY_IF(m, status != GLOFND_OK, REPLAY_MISMATCH, "%s: %s: %s", what, glofnd_status_text(status),
           r->ctx ? glofnd_ctx_error(r->ctx) : "no context");
    return REPLAY_OK;
}

int replica_create(replica *r, const settings *s, message *m) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = s->n, .dim = s->dim};
    *r = (replica){NULL, NULL};
    PASS(library(r, glofnd_ctx_create(&s->o, &r->ctx, NULL, 0), "glofnd_ctx_create", m));
    return library(r, glofnd_store_create(r->ctx, &spec, &r->store), "glofnd_store_create", m);
}

void replica_free(replica *r) {
    glofnd_store_free(r->store);
    glofnd_ctx_free(r->ctx);
}

static int64_t *all_ids(int64_t n) {
    int64_t *id = grab((size_t)n, sizeof *id);
    for (int64_t i = 0; i < n; i++) id[i] = i;
    return id;
}

static int get_all(const replica *r, const settings *s, int side, glofnd_anchor *rows, message *m) {
    int64_t *id = all_ids(s->n);
    const glofnd_status status = glofnd_anchors_get(r->ctx, r->store, side, id, s->n, rows);
    free(id);
    return library(r, status, "glofnd_anchors_get", m);
}

static int put_all(const replica *r, const settings *s, int side, const glofnd_anchor *rows, message *m) {
    int64_t *id = all_ids(s->n);
    const glofnd_status status = glofnd_anchors_put(r->ctx, r->store, side, id, s->n, rows);
    free(id);
    return library(r, status, "glofnd_anchors_put", m);
}

static int get_shared(const replica *r, int side, glofnd_anchor *row, message *m) {
    return library(r, glofnd_anchors_get(r->ctx, r->store, side, &shared_id, 1, row), "glofnd_anchors_get of the shared lambda",
                   m);
}

static int put_shared(const replica *r, int side, const glofnd_anchor *row, message *m) {
    return library(r, glofnd_anchors_put(r->ctx, r->store, side, &shared_id, 1, row), "glofnd_anchors_put of the shared lambda",
                   m);
}

/* The thresholds in force: an anchor that has none of its own follows the shared one. */
static int get_in_force(const replica *r, const settings *s, int side, glofnd_anchor *rows, message *m) {
    glofnd_anchor shared;
    PASS(get_all(r, s, side, rows, m));
    PASS(get_shared(r, side, &shared, m));
    for (int64_t i = 0; shared.clock > 0 && i < s->n; i++) {
        if (rows[i].clock > 0) continue;
        rows[i].lambda = shared.lambda;
        rows[i].m = shared.m;
        rows[i].v = shared.v;
        rows[i].clock = shared.clock;
    }
    return REPLAY_OK;
}

/* Arrays of the two sides carry the side in their name. */
static void side_name(const settings *s, const char *base, int side, char name[32]) {
    snprintf(name, 32, "%s%s", base, s->modalities == 1 ? "" : side == 0 ? "_im" : "_tt");
}

/* ----- start ---------------------------------------------------------------------------------------------------- */

/* Table `base` of the case; with one lambda for all its tables have one entry. */
static int find_table(const settings *s, const golden_case *c, const char *base, int side, int64_t n, const gf_npy **out,
                      message *m) {
    char name[32];
    side_name(s, base, side, name);
    return golden_array(c, name, 1, &n, out, m);
}

static int set_thresholds(const settings *s, const golden_case *c, int side, glofnd_anchor *rows, int64_t n, message *m) {
    const gf_npy *lambda = NULL, *m0 = NULL, *v0 = NULL;
    if (s->resume) {
        PASS(find_table(s, c, "lda0", side, n, &lambda, m));
        PASS(find_table(s, c, "m0", side, n, &m0, m));
        PASS(find_table(s, c, "v0", side, n, &v0, m));
    }
    for (int64_t i = 0; i < n; i++) {
        rows[i].lambda = (float)(lambda ? gf_npy_f64(lambda, i) : s->lambda_start);
        rows[i].m = m0 ? (float)gf_npy_f64(m0, i) : 0.0f;
        rows[i].v = v0 ? (float)gf_npy_f64(v0, i) : 0.0f;
        rows[i].clock = 1;
    }
    return REPLAY_OK;
}

/* u0 is optional: SimCLR has none. log 0 = -inf is "none yet". */
static int set_averages(const settings *s, const golden_case *c, int side, glofnd_anchor *rows, message *m) {
    char name[32];
    const gf_npy *u = NULL;
    side_name(s, "u0", side, name);
    if (!s->resume || !golden_find(c, name)) return REPLAY_OK;
    PASS(golden_array(c, name, 1, &s->n, &u, m));
    for (int64_t i = 0; i < s->n; i++) {
        const double x = gf_npy_f64(u, i);
        SAY_IF(m, x < 0.0, REPLAY_UNREADABLE, "%s: %s[%lld] is negative", c->id, name, (long long)i);
        rows[i].log_u = (float)log(x);
    }
    return REPLAY_OK;
}

static int start_side(const replica *r, const settings *s, const golden_case *c, int side, glofnd_anchor *rows, message *m) {
    const int own_thresholds = s->learned && (s->resume || s->lambda_start != 1.0);
    glofnd_anchor shared = {.lambda = 1.0f, .log_u = -INFINITY};
    PASS(get_all(r, s, side, rows, m));
    if (own_thresholds && s->single) PASS(set_thresholds(s, c, side, &shared, 1, m));
    if (own_thresholds && !s->single) PASS(set_thresholds(s, c, side, rows, s->n, m));
    PASS(set_averages(s, c, side, rows, m));
    PASS(put_all(r, s, side, rows, m));
    return own_thresholds && s->single ? put_shared(r, side, &shared, m) : REPLAY_OK;
}

int state_start(const replica *r, const settings *s, const golden_case *c, message *m) {
    if (!s->resume && !(s->learned && s->lambda_start != 1.0)) return REPLAY_OK;
    glofnd_anchor *rows = grab((size_t)s->n, sizeof *rows);
    int code = REPLAY_OK;
    for (int side = 0; side < s->modalities && code == REPLAY_OK; side++) code = start_side(r, s, c, side, rows, m);
    free(rows);
    return code;
}

/* ----- between steps -------------------------------------------------------------------------------------------- */

static void forget_threshold(glofnd_anchor *row) {
    row->lambda = 1.0f;
    row->m = row->v = 0.0f;
    row->clock = 0;
}

/* Anchors that followed the old shared value keep it as their own. */
static int share_side(const replica *r, const settings *s, int side, int forget, glofnd_anchor *rows, message *m) {
    PASS(get_in_force(r, s, side, rows, m));
    for (int64_t i = 0; i < s->n; i++)
        if (rows[i].clock == 0) rows[i].clock = 1;
    glofnd_anchor shared = rows[0];
    shared.log_u = -INFINITY;
    for (int64_t i = 0; forget && i < s->n; i++) forget_threshold(&rows[i]);
    PASS(put_all(r, s, side, rows, m));
    return put_shared(r, side, &shared, m);
}

int state_share_first(const replica *r, const settings *s, int forget, message *m) {
    glofnd_anchor *rows = grab((size_t)s->n, sizeof *rows);
    int code = REPLAY_OK;
    for (int side = 0; side < s->modalities && code == REPLAY_OK; side++) code = share_side(r, s, side, forget, rows, m);
    free(rows);
    return code;
}

int state_copy(const replica *from, const replica *to, const settings *s, const int64_t *id, int64_t n, message *m) {
    glofnd_anchor *rows = grab((size_t)n, sizeof *rows);
    int code = REPLAY_OK;
    for (int side = 0; side < s->modalities && code == REPLAY_OK; side++) {
        code = library(from, glofnd_anchors_get(from->ctx, from->store, side, id, n, rows), "glofnd_anchors_get", m);
        if (code == REPLAY_OK)
            code = library(to, glofnd_anchors_put(to->ctx, to->store, side, id, n, rows), "glofnd_anchors_put", m);
    }
    free(rows);
    return code;
}

/* ----- out ------------------------------------------------------------------------------------------------------ */

typedef double (*row_field)(const glofnd_anchor *row);

static double field_u(const glofnd_anchor *row) { return exp((double)row->log_u); }
static double field_lambda(const glofnd_anchor *row) { return row->lambda; }
static double field_m(const glofnd_anchor *row) { return row->m; }
static double field_v(const glofnd_anchor *row) { return row->v; }

static void offer(const settings *s, outputs *o, const char *base, int side, int64_t t, const glofnd_anchor *rows, int64_t n,
                  row_field field) {
    char name[32];
    side_name(s, base, side, name);
    double *x = grab((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = field(&rows[i]);
    outputs_real(o, name, t * n, x, n);
    free(x);
}

static int compare_side(const replica *r, const settings *s, int side, int64_t t, outputs *o, glofnd_anchor *rows, message *m) {
    glofnd_anchor shared;
    PASS(get_in_force(r, s, side, rows, m));
    offer(s, o, "u", side, t, rows, s->n, field_u);
    const glofnd_anchor *thresholds = rows;
    if (s->single) {
        PASS(get_shared(r, side, &shared, m));
        thresholds = &shared;
    }
    const int64_t n = s->single ? 1 : s->n;
    offer(s, o, "lda", side, t, thresholds, n, field_lambda);
    offer(s, o, "m", side, t, thresholds, n, field_m);
    offer(s, o, "v", side, t, thresholds, n, field_v);
    return REPLAY_OK;
}

int state_compare(const replica *r, const settings *s, int64_t t, outputs *o, message *m) {
    glofnd_anchor *rows = grab((size_t)s->n, sizeof *rows);
    int code = REPLAY_OK;
    for (int side = 0; side < s->modalities && code == REPLAY_OK; side++) code = compare_side(r, s, side, t, o, rows, m);
    free(rows);
    return code;
}

static int equal_side(const replica *a, const replica *b, const settings *s, int side, glofnd_anchor *rows, message *m) {
    glofnd_anchor one, two;
    _Static_assert(sizeof(glofnd_anchor) == 36, "no padding: rows are compared as bytes");
    PASS(get_all(a, s, side, rows, m));
    PASS(get_all(b, s, side, rows + s->n, m));
    for (int64_t i = 0; i < s->n; i++)
        SAY_IF(m, memcmp(&rows[i], &rows[s->n + i], sizeof *rows) != 0, REPLAY_MISMATCH,
               "glofnd_step leaves a different state of anchor %lld, side %d, from glofnd_step_rows", (long long)i, side);
    PASS(get_shared(a, side, &one, m));
    PASS(get_shared(b, side, &two, m));
    SAY_IF(m, memcmp(&one, &two, sizeof one) != 0, REPLAY_MISMATCH,
           "glofnd_step leaves a different shared lambda, side %d, from glofnd_step_rows", side);
    return REPLAY_OK;
}

int state_equal(const replica *a, const replica *b, const settings *s, message *m) {
    glofnd_anchor *rows = grab(2 * (size_t)s->n, sizeof *rows);
    int code = REPLAY_OK;
    for (int side = 0; side < s->modalities && code == REPLAY_OK; side++) code = equal_side(a, b, s, side, rows, m);
    free(rows);
    return code;
}
