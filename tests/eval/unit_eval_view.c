/* unit_eval_view.c - how images are cut to size to be evaluated: gf_views_centre_crop by the configuration. The pixels are
 * unit_augment's business. */
#include "support/test.h"

#include "eval/encode.h"
#include <string.h>

static void expect(int size, gf_eval_view view, int resize, gf_filter filter) {
    gf_config c;
    gf_loader_spec spec = {.resize = -1};
    assert_int_equal(gf_config_init(NULL, &c), GLOFND_OK);
    c.size = size;
    c.eval_view = view;
    gf_views_centre_crop(&c, &spec);
    assert_int_equal(spec.resize, resize);
    assert_int_equal(spec.augment.center_filter, filter);
}

/* Images that have the size stay as they are, whatever these say: unit_loader. */
TEST(crops_are_those_of_the_configuration) {
    expect(224, GF_EVAL_CENTER, 256, GF_FILTER_LINEAR);
    expect(224, GF_EVAL_CLIP, 224, GF_FILTER_CUBIC);
    expect(224, GF_EVAL_AUTO, 256, GF_FILTER_LINEAR); /* a run from before there was the option */
    expect(32, GF_EVAL_CENTER, 37, GF_FILTER_LINEAR);
}
