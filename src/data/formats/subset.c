/* subset.c - see subset.h. */
#include "data/formats/subset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/strings/number_text.h"

const char *const gf_subset_options[] = {"rows", "every", "fraction", "first", NULL};

typedef struct subset {
    int64_t every, first;
    double fraction;
    int64_t *met; /* [classes + 1] samples of each class so far; the last: those without a label */
} subset;

static glofnd_status read_options(gf_error *err, const gf_spec *s, subset *x) {
    const char *share = gf_spec_value(s, "fraction");
    TRY(gf_spec_integer(err, s, "every", 1, INT64_MAX, &x->every));
    TRY(gf_spec_integer(err, s, "first", 1, INT64_MAX, &x->first));
    const int ok = !share || (!gf_number_read(share, &x->fraction) && x->fraction > 0.0 && x->fraction <= 1.0);
    FAIL_IF(err, !ok, GLOFND_E_OPTION, "data '%.60s': fraction is '%.60s'; expected a number in (0, 1]", s->format, share);
    return GLOFND_OK;
}

/* 1: sample i of the listed ones is taken, if `taken` were before it. The k-th of a class is, where ceil(k F) grows. */
static int is_taken(subset *x, const gf_dataset *d, int64_t i, int64_t row, int64_t taken) {
    if (i % x->every != 0 || taken >= x->first) return 0;
    const int32_t label = d->format->label(d, row), at = label >= 0 && label < d->info.classes ? label : d->info.classes;
    const double k = (double)x->met[at]++;
    return ceil((k + 1.0) * x->fraction) > ceil(k * x->fraction);
}

static int is_asked(const gf_spec *s) {
    for (int i = 0; gf_subset_options[i]; i++)
        if (gf_spec_value(s, gf_subset_options[i])) return 1;
    return 0;
}

glofnd_status gf_subset_take(gf_error *err, gf_dataset *d) {
    subset x = {.every = 1, .first = INT64_MAX, .fraction = 1.0};
    int64_t taken = 0, *listed = NULL, count = d->info.n;
    const char *rows = gf_spec_value(&d->spec, "rows");
    d->all = d->info.n;
    if (!is_asked(&d->spec)) return GLOFND_OK;
    TRY(read_options(err, &d->spec, &x));
    if (rows) TRY(gf_subset_read_rows(err, rows, d, &listed, &count));
    d->rows =
        listed ? listed : malloc((size_t)d->all * sizeof *d->rows + 1); /* a listed row is read before its place is written */
    x.met = calloc((size_t)d->info.classes + 1, sizeof *x.met);
    for (int64_t i = 0; d->rows && x.met && i < count; i++) {
        const int64_t row = listed ? listed[i] : i;
        if (is_taken(&x, d, i, row, taken)) d->rows[taken++] = row;
    }
    const int failed = !d->rows || !x.met;
    free(x.met);
    FAIL_IF(err, failed, GLOFND_E_MEMORY, "no memory to choose among %lld samples", (long long)d->all);
    d->info.n = taken;
    return GLOFND_OK;
}

gf_spec gf_subset_without(const gf_spec *s) {
    gf_spec plain = *s;
    plain.options = 0;
    for (int i = 0; i < s->options; i++) {
        int own = 0;
        for (int k = 0; gf_subset_options[k]; k++) own |= strcmp(s->option[i].key, gf_subset_options[k]) == 0;
        if (!own) plain.option[plain.options++] = s->option[i];
    }
    return plain;
}
