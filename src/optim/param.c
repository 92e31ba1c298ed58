/* param.c - see param.h. */
#include "optim/param.h"

#include <math.h>
#include <string.h>

#define LANES 8 /* independent partial sums: lets the compiler use SIMD without changing the order of addition */

int gf_param_decays(int axes, const char *name) {
    static const char *const exempt[] = {"bn", "ln", "bias"};
    for (size_t i = 0; name && i < sizeof exempt / sizeof exempt[0]; i++)
        if (strstr(name, exempt[i])) return 0;
    return axes > 1;
}

int gf_param_adapts(int axes) { return axes > 1; }

double gf_param_norm(const float *x, const float *y, double c, size_t n) {
    double lane[LANES] = {0}, sum = 0.0;
    const size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            const double v = y ? x[i + k] + c * y[i + k] : x[i + k];
            lane[k] += v * v;
        }
    }
    for (size_t i = whole; i < n; i++) {
        const double v = y ? x[i] + c * y[i] : x[i];
        lane[i - whole] += v * v;
    }
    for (size_t k = 0; k < LANES; k++) sum += lane[k];
    return sqrt(sum);
}
