/* idle_options.c - see idle_options.h. A value other than the default counts as set. */
#include "run/idle_options.h"

const char *gf_idle_option(const gf_config *c, int k) {
    const glofnd_options *o = &c->method;
    const int bank = o->similarity == GLOFND_SIMILARITY_BANK, flags = o->detector != GLOFND_DETECT_NONE;
    const int thresholds =
        o->detector == GLOFND_DETECT_GLOFND || o->detector == GLOFND_DETECT_SINGLE || o->detector == GLOFND_DETECT_FNC;
    const struct {
        int idle;
        const char *text;
    } options[] = {
        {bank && !thresholds, "similarity = bank has no effect: the detector has no thresholds"},
        {!bank && o->bank_momentum != 0.5, "bank_momentum has no effect without similarity = bank"},
        {o->attract_alpha > 0.0 && o->action != GLOFND_ACTION_ATTRACT, "attract_alpha has no effect without action = attract"},
        {o->attract_omega > 0.0 && o->action != GLOFND_ACTION_ATTRACT, "attract_omega has no effect without action = attract"},
        {!flags && o->action != GLOFND_ACTION_DROP, "action has no effect: there is no detector"},
        {!thresholds && o->flag_probability < 1.0, "flag_probability has no effect: the detector has no thresholds"},
        {!thresholds && o->require_label, "require_label has no effect: the detector has no thresholds"},
        {o->neighbours == 0 && (o->neighbour_weight != 0.5 || o->neighbour_share != 1.0 || o->neighbour_rows != 65536),
         "neighbour_weight, neighbour_share and neighbour_rows have no effect without neighbours"},
        {o->lambda_decay > 0.0 && o->learner == GLOFND_LEARN_RING, "lambda_decay has no effect with learner = ring"},
        {o->fnc_support > 0 && o->detector != GLOFND_DETECT_FNC, "fnc_support has no effect without detector = fnc"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].idle && k-- == 0) return options[i].text;
    return NULL;
}
