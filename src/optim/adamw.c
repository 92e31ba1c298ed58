/* adamw.c - see adamw.h. */
#include "optim/adamw.h"

/* The loop once per instruction set, chosen when the program starts: the same operations in the same order, so the same bits.
 * Sanitizers do not know such functions. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FOR_EACH_CPU
#endif

FOR_EACH_CPU static void move(const gf_optim_rule *rule, const gf_optim_now *now, double decay, float *restrict p,
                              const float *restrict g, float *restrict m, float *restrict v, size_t n) {
    const gf_optim_rule r = *rule;
    const gf_optim_now w = *now;
    for (size_t i = 0; i < n; i++) gf_rule_adamw(&r, &w, decay, &p[i], g[i], &m[i], &v[i]);
}

void gf_adamw_step(const gf_adamw *o, double lr, int64_t step, const gf_param *tensors, size_t count) {
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps};
    const gf_optim_now now = {lr, 1.0 - pow(o->beta1, (double)step), 1.0 - pow(o->beta2, (double)step)};
    for (size_t k = 0; k < count; k++) {
        const gf_param *t = &tensors[k];
        move(&rule, &now, t->decay ? o->weight_decay : 0.0, t->p, t->g, t->state1, t->state2, t->n);
    }
}
