/* net_margin.c - see net_margin.h. */
#include "support/net_margin.h"

#include <stdlib.h>
#include <string.h>

#include "support/nn_device.h"

static int is_norm_bias(const gf_tensor *t) {
    const int norm = strstr(t->name, "bn") || strstr(t->name, "downsample") || strstr(t->name, "head.1.");
    return t->grad && norm && strstr(t->name, ".bias");
}

void net_leave_kinks(gf_net *n, float by) {
    gf_error err = {""};
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count; i++) {
        if (!is_norm_bias(&t[i])) continue;
        float *x = malloc(sizeof *x * (size_t)t[i].count);
        nn_ok(gf_net_get(&err, n, &t[i], t[i].value, x), &err);
        for (int64_t k = 0; k < t[i].count; k++) x[k] += k % 2 ? -by : by;
        nn_ok(gf_net_put(&err, n, &t[i], t[i].value, x), &err);
        free(x);
    }
    gf_net_touch(n);
}
