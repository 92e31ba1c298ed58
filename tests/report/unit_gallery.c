/* unit_gallery.c - anchors and the samples that two detectors flag for them. */
#include "support/test.h"

#include "report/snapshot.h"
#include <math.h>

enum { MANY = 60 };

typedef struct samples { /* samples in the plane */
    float z[MANY * 2], lambda[MANY];
    int32_t label[MANY];
} samples;

static int pick_anchors(samples *c, gf_gallery_anchor a[GF_GALLERY_ANCHORS]) {
    gf_error err = {{0}};
    int64_t id[MANY];
    int count = 0;
    for (int i = 0; i < MANY; i++) id[i] = i;
    const gf_view_set s = {.n = MANY, .dim = 2, .z = c->z, .id = id, .label = c->label};
    const gf_gallery_spec g = {.s = &s, .lambda = c->lambda, .alpha = 0.1, .batch = 20, .seed = 1};
    assert_int_equal(gf_gallery_choose(&err, &g, a, &count), GLOFND_OK);
    return count;
}

/* Two bundles: what is flagged is the anchor's own; FNC flags its share of each batch. */
TEST(galleries_show_what_detectors_flag) {
    samples c;
    gf_gallery_anchor a[GF_GALLERY_ANCHORS];
    for (int i = 0; i < MANY; i++) {
        c.z[2 * i] = i % 2 ? 1.0f : 0.1f * (float)i, c.z[2 * i + 1] = i % 2 ? 0.01f * (float)i : 20.0f;
        c.label[i] = i % 2, c.lambda[i] = i == 3 ? NAN : 0.9f;
    }
    const int count = pick_anchors(&c, a);
    assert_int_equal(count, GF_GALLERY_ANCHORS);
    for (int i = 0; i < count; i++) {
        const gf_flagged_samples *own = &a[i].by[0], *fnc = &a[i].by[1];
        assert_true(a[i].row != 3);
        assert_true(own->count > 0 && own->right == own->count && own->shown > 0);
        assert_true(fnc->count == 6 && fnc->shown == 6);
        for (int k = 0; k < own->shown; k++) {
            assert_true(own->row[k] != a[i].row && c.label[own->row[k]] == c.label[a[i].row] && own->similarity[k] > 0.9f);
            assert_true(k == 0 || own->similarity[k] <= own->similarity[k - 1]);
        }
    }
    assert_int_not_equal(c.label[a[0].row], c.label[a[1].row]);
}

/* Everybody else is on the line, at their place. */
TEST(lines_hold_all_others) {
    samples c;
    gf_gallery_anchor a[GF_GALLERY_ANCHORS];
    for (int i = 0; i < MANY; i++) {
        c.z[2 * i] = (float)cos(0.05 * i), c.z[2 * i + 1] = (float)sin(0.05 * i);
        c.label[i] = i % 3, c.lambda[i] = 0.5f;
    }
    const int count = pick_anchors(&c, a);
    for (int k = 0; k < count; k++) {
        const gf_similarity_profile *l = &a[k].profile;
        const double row = (double)a[k].row, far = fmax(row, MANY - 1 - row);
        int64_t all = 0, same = 0;
        assert_int_equal(l->others, MANY - 1);
        assert_true(fabs(l->high - cos(0.05)) < 1e-6 && fabs(l->low - cos(0.05 * far)) < 1e-6);
        for (int b = 0; b < GF_GALLERY_BINS; b++) all += l->all[b], same += l->same[b];
        assert_true(all == MANY - 1 && same == MANY / 3 - 1);
        for (int p = 0; p < GF_GALLERY_EXAMPLES; p++) {
            const double low = l->low + p * (l->high - l->low) / GF_GALLERY_EXAMPLES;
            if (l->row[p] < 0) continue;
            assert_true(l->row[p] != a[k].row && fabs(l->similarity[p] - cos(0.05 * (row - (double)l->row[p]))) < 1e-6);
            assert_true(l->similarity[p] > low - 1e-6 &&
                        l->similarity[p] < low + (l->high - l->low) / GF_GALLERY_EXAMPLES + 1e-6);
        }
    }
}

/* With others to compare with, their rows are found, and not that of the anchor's own sample. */
TEST(galleries_find_rows_of_the_others) {
    enum { FEW = 30 };
    float image[FEW * 2], text[FEW * 2], lambda[FEW];
    int64_t id[FEW];
    int32_t label[FEW];
    gf_error err = {{0}};
    gf_gallery_anchor a[GF_GALLERY_ANCHORS];
    int count = 0;
    for (int i = 0; i < FEW; i++) { /* texts lie where the image of the next but one is */
        image[2 * i] = (float)cos(0.1 * i), image[2 * i + 1] = (float)sin(0.1 * i);
        text[2 * i] = (float)cos(0.1 * (i + 2)), text[2 * i + 1] = (float)sin(0.1 * (i + 2));
        id[i] = i, label[i] = -1, lambda[i] = 0.999f;
    }
    const gf_view_set texts = {.n = FEW, .dim = 2, .z = text, .id = id, .label = label};
    const gf_view_set images = {.n = FEW, .dim = 2, .z = image, .id = id, .label = label, .others = &texts};
    const gf_gallery_spec g = {.s = &images, .lambda = lambda, .alpha = 0.1, .batch = 10, .seed = 1};
    assert_int_equal(gf_gallery_choose(&err, &g, a, &count), GLOFND_OK);
    assert_true(count > 0);
    for (int k = 0; k < count; k++)
        for (int f = 0; f < a[k].by[0].shown; f++) assert_true(a[k].by[0].count <= 1 && a[k].by[0].row[f] == a[k].row - 2);
}
