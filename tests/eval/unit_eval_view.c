/* unit_eval_view.c - how images are cut to size to be evaluated: gf_views_centre_crop by the configuration. The pixels are
 * unit_augment's business. */
#include "support/test.h"

#include "eval/encode.h"
#include <string.h>

static void expect(const gf_dataset *data, int size, gf_eval_view view, int resize, gf_filter filter) {
    gf_config c;
    gf_loader_spec spec = {.resize = -1};
    assert_int_equal(gf_config_init(NULL, &c), GLOFND_OK);
    c.size = size;
    c.eval_view = view;
    gf_views_centre_crop(&c, data, &spec);
    assert_int_equal(spec.resize, resize);
    assert_int_equal(spec.augment.center_filter, filter);
}

TEST(crops_are_those_of_the_configuration) {
    gf_dataset *data;
    assert_int_equal(gf_dataset_open(NULL, "shapes:n=4,size=64", &data), GLOFND_OK);
    expect(data, 224, GF_EVAL_CENTER, 256, GF_FILTER_LINEAR);
    expect(data, 224, GF_EVAL_CLIP, 224, GF_FILTER_CUBIC);
    expect(data, 224, GF_EVAL_AUTO, 256, GF_FILTER_LINEAR); /* a run from before there was the option */
    expect(data, 64, GF_EVAL_CENTER, 0, GF_FILTER_LINEAR);  /* images that have the size are taken as they are */
    expect(data, 64, GF_EVAL_CLIP, 0, GF_FILTER_CUBIC);
    gf_dataset_free(data);
}
