/* compare.c - see compare.h. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING 1e-12 /* allowed where the whole array is zero */

static int is_whole(const gf_npy *a) { return a->type == GF_NPY_I8 || a->type == GF_NPY_I4 || a->type == GF_NPY_U1; }

void outputs_init(outputs *o, const golden_case *c) {
    *o = (outputs){.c = c, .list = grab(c->count, sizeof(output))};
    for (size_t i = 0; i < c->count; i++) {
        const gf_npy *a = &c->items[i].array;
        if (!c->items[i].is_output) continue;
        output *x = &o->list[o->count++];
        *x = (output){.name = c->items[i].name, .want = a, .seen = grab((size_t)a->count, 1), .worst_at = -1};
        for (int64_t k = 0; k < a->count; k++) {
            const double v = fabs(gf_npy_f64(a, k));
            if (isfinite(v) && v > x->largest) x->largest = v;
        }
    }
}

void outputs_free(outputs *o) {
    for (size_t i = 0; i < o->count; i++) free(o->list[i].seen);
    free(o->list);
}

static output *find(const outputs *o, const char *name) {
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->list[i].name, name) == 0) return &o->list[i];
    return NULL;
}

int outputs_wants(const outputs *o, const char *name) { return find(o, name) != NULL; }

static double relative_error(double got, double want, double largest) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0.0 : INFINITY;
    if (isinf(got) || isinf(want)) return got == want ? 0.0 : INFINITY;
    const double error = fabs(got - want);
    if (largest > 0.0) return error / largest;
    return error <= NOTHING ? 0.0 : INFINITY;
}

/* Notes the error of element `at`; returns 1 if it is the worst so far, so that its value is worth printing. */
static int note(output *x, int64_t at, double error) {
    x->seen[at] = 1;
    if (x->worst_at >= 0 && !(error > x->worst)) return 0;
    x->worst = error;
    x->worst_at = at;
    return 1;
}

/* Where the n offered values go; NULL if they are not wanted or do not fit. */
static output *place(outputs *o, const char *name, int64_t first, int64_t n) {
    output *x = find(o, name);
    if (!x) return NULL;
    if (first < 0 || n > x->want->count || first > x->want->count - n) {
        x->overrun = 1;
        return NULL;
    }
    return x;
}

void outputs_real(outputs *o, const char *name, int64_t first, const double *got, int64_t n) {
    output *x = place(o, name, first, n);
    for (int64_t k = 0; x && k < n; k++) {
        const double want = gf_npy_f64(x->want, first + k);
        const double error = is_whole(x->want) ? (got[k] == want ? 0.0 : INFINITY) : relative_error(got[k], want, x->largest);
        if (note(x, first + k, error)) snprintf(x->got, sizeof x->got, "%.9g", got[k]);
    }
}

void outputs_float(outputs *o, const char *name, int64_t first, const float *got, int64_t n) {
    if (!find(o, name)) return;
    double *wide = grab((size_t)n, sizeof *wide);
    for (int64_t k = 0; k < n; k++) wide[k] = got[k];
    outputs_real(o, name, first, wide, n);
    free(wide);
}

void outputs_whole(outputs *o, const char *name, int64_t first, const int64_t *got, int64_t n) {
    output *x = place(o, name, first, n);
    for (int64_t k = 0; x && k < n; k++) {
        const int same =
            is_whole(x->want) ? got[k] == gf_npy_i64(x->want, first + k) : (double)got[k] == gf_npy_f64(x->want, first + k);
        if (note(x, first + k, same ? 0.0 : INFINITY)) snprintf(x->got, sizeof x->got, "%lld", (long long)got[k]);
    }
}

/* ----- print ---------------------------------------------------------------------------------------------------- */

static int64_t unseen(const output *x) {
    int64_t n = 0;
    for (int64_t k = 0; k < x->want->count; k++) n += !x->seen[k];
    return n;
}

static void print_where(const output *x) {
    int64_t index[GF_NPY_MAX_RANK], rest = x->worst_at;
    for (int k = x->want->rank - 1; k >= 0; k--) {
        index[k] = rest % x->want->shape[k];
        rest /= x->want->shape[k];
    }
    printf("  worst at [");
    for (int k = 0; k < x->want->rank; k++) printf(k ? ",%lld" : "%lld", (long long)index[k]);
    if (is_whole(x->want)) printf("]: %s, golden %lld", x->got, (long long)gf_npy_i64(x->want, x->worst_at));
    else printf("]: %s, golden %.9g, largest %.3g", x->got, gf_npy_f64(x->want, x->worst_at), x->largest);
}

static int print_output(const output *x, int verbose) {
    const int64_t missed = unseen(x);
    const int ok = x->worst <= REPLAY_TOLERANCE && !missed && !x->overrun;
    printf("    %-4s %-22s ", ok ? "ok" : "FAIL", x->name);
    if (x->worst_at < 0) printf("%7s", "-");
    else if (is_whole(x->want)) printf("%s", x->worst > 0.0 ? "differs" : "exact  ");
    else printf("%7.1e", x->worst);
    if (missed) printf("  NOT COMPARED: %lld of %lld values", (long long)missed, (long long)x->want->count);
    if (x->overrun) printf("  shape: the case produces other values than the array holds");
    if ((verbose || !ok) && x->worst_at >= 0) print_where(x);
    printf("\n");
    return ok;
}

int outputs_print(const outputs *o, int verbose, double *worst, const char **where) {
    int ok = 1;
    *worst = 0.0;
    *where = "";
    for (size_t i = 0; i < o->count; i++) {
        if (!print_output(&o->list[i], verbose)) ok = 0;
        if (o->list[i].worst < *worst || (**where && o->list[i].worst <= *worst)) continue;
        *worst = o->list[i].worst;
        *where = o->list[i].name;
    }
    return ok;
}
