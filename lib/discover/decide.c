/* decide.c - see decide.h. */
#include "discover/decide.h"

#include <stdlib.h>

const char *gf_keep_rule_name(gf_keep_rule rule) {
    static const char *const names[] = {"first", "central", "score", "largest", "label"};
    return (size_t)rule < sizeof names / sizeof *names ? names[rule] : NULL;
}

int gf_split_of(const gf_decide_spec *c, int64_t row) {
    for (int k = 0; k < c->splits; k++)
        if (row >= c->split[k].first && row - c->split[k].first < c->split[k].rows) return k;
    return -1;
}

static glofnd_status decide(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                            const gf_discover_result *r, gf_decisions *out) {
    TRY(gf_decide_keep(err, c, s, d, r, out));
    TRY(gf_decide_outliers(err, c, r, out));
    TRY(gf_decide_labels(err, d, r, out));
    TRY(gf_decide_leaks(err, c, s, d, r, out));
    return gf_decide_sample(err, c, s, d, out);
}

glofnd_status gf_decide(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                        const gf_discover_result *r, gf_decisions *out) {
    *out = (gf_decisions){0};
    const glofnd_status status = decide(err, c, s, d, r, out);
    if (status != GLOFND_OK) gf_decisions_free(out);
    return status;
}

void gf_decisions_free(gf_decisions *x) {
    free(x->kept);
    free(x->outlier);
    free(x->issue);
    free(x->sample);
    free(x->unlisted);
    *x = (gf_decisions){0};
}
