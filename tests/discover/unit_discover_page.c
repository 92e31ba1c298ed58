/* unit_discover_page.c - parts of the page of discovery: base64, thumbnails, sheets within their budget. */
#include "support/test.h"

#include "plot/svg.h"
#include "report/explorer.h"
#include "report/page.h"
#include "support/scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gf_error err;

TEST(base64_is_that_of_rfc_4648) {
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xef\xbe", "/+++"}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        gf_text t = {0};
        gf_text_base64(&t, pairs[k][0], strlen(pairs[k][0]));
        assert_string_equal(t.at ? t.at : "", pairs[k][1]);
        assert_int_equal(t.used, GF_BASE64_BYTES(strlen(pairs[k][0])));
        gf_text_free(&t);
    }
    static unsigned char zeros[10000]; /* more than it takes at a time */
    gf_text t = {0};
    gf_text_base64(&t, zeros, sizeof zeros);
    assert_int_equal(t.used, GF_BASE64_BYTES(sizeof zeros));
    assert_int_equal(strspn(t.at, "A"), t.used - 2);
    gf_text_free(&t);
}

static void fill(gf_image *m, int width, int height, int red) {
    assert_int_equal(gf_image_resize(&err, m, width, height), GLOFND_OK);
    for (int i = 0; i < width * height; i++) m->rgb[3 * i] = (uint8_t)red, m->rgb[3 * i + 1] = 10, m->rgb[3 * i + 2] = 20;
}

static int no_jpeg(void) {
    gf_image m = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    fill(&m, 4, 4, 0);
    const glofnd_status status = gf_image_encode_jpeg(&err, &m, 80, &bytes, &size);
    gf_image_free(&m);
    free(bytes);
    return status == GLOFND_E_UNSUPPORTED;
}

TEST(thumbnails_keep_their_proportions) {
    static const int sizes[][4] = {{200, 100, 64, 32}, {100, 200, 32, 64}, {40, 30, 40, 30}, {1000, 3, 64, 1}, {64, 64, 64, 64}};
    gf_thumbnails t = {.side = 64, .quality = 90};
    gf_image m = {0}, back = {0};
    if (no_jpeg()) skip();
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint8_t *jpeg = NULL;
        size_t bytes = 0;
        fill(&m, sizes[k][0], sizes[k][1], 200);
        assert_int_equal(gf_thumbnail_jpeg(&err, &t, &m, &jpeg, &bytes), GLOFND_OK);
        assert_int_equal(gf_image_decode(&err, "thumbnail", jpeg, bytes, NULL, &back), GLOFND_OK);
        assert_int_equal(back.width, sizes[k][2]);
        assert_int_equal(back.height, sizes[k][3]);
        assert_true(abs(back.rgb[0] - 200) < 12);
        free(jpeg);
    }
    m.width = 0;
    uint8_t *none = NULL;
    size_t bytes = 0;
    assert_int_equal(gf_thumbnail_jpeg(&err, &t, &m, &none, &bytes), GLOFND_E_ARGUMENT);
    gf_image_free(&m);
    gf_image_free(&back);
    gf_thumbnails_free(&t);
}

/* Mean difference of a tile of the sheet and a picture of the same size. */
static double distance(const gf_image *sheet, int tile, int side, const uint8_t *rgb) {
    const int top = tile / GF_SPRITE_COLUMNS * side, left = tile % GF_SPRITE_COLUMNS * side;
    double sum = 0.0;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < 3 * side; x++)
            sum += abs(sheet->rgb[3 * ((top + y) * sheet->width + left) + x] - rgb[y * 3 * side + x]);
    return sum / (3.0 * side * side);
}

/* Every sample is in its tile, also in the second row; one that cannot be read is grey. */
TEST(sheets_have_a_tile_for_each) {
    enum { MANY = GF_SPRITE_COLUMNS + 3, SIDE = 16 };
    gf_dataset *data = NULL;
    gf_sample sample = {0};
    gf_image back = {0};
    int64_t id[MANY];
    uint8_t *jpeg = NULL, grey[3 * SIDE * SIDE];
    size_t bytes = 0;
    if (no_jpeg()) skip();
    memset(grey, 128, sizeof grey);
    for (int i = 0; i < MANY; i++) id[i] = i == 2 ? 1000 : MANY - 1 - i;
    assert_int_equal(gf_dataset_open(&err, "shapes:n=50,classes=4,size=16,seed=2", &data), GLOFND_OK);
    assert_int_equal(gf_sprite_sheet_of_samples(&err, data, id, MANY, SIDE, 100, &jpeg, &bytes), GLOFND_OK);
    assert_int_equal(gf_image_decode(&err, "sheet", jpeg, bytes, NULL, &back), GLOFND_OK);
    assert_true(back.width == GF_SPRITE_COLUMNS * SIDE && back.height == 2 * SIDE);
    for (int i = 0; i < MANY; i++) {
        const int read = gf_dataset_read(&err, data, id[i], NULL, &sample) == GLOFND_OK;
        const uint8_t *rgb = read ? sample.image.rgb : grey;
        assert_int_equal(read, i != 2);
        for (int tile = 0; tile < MANY; tile++)
            assert_true(tile == i || distance(&back, i, SIDE, rgb) < distance(&back, tile, SIDE, rgb));
    }
    free(jpeg);
    gf_image_free(&back);
    gf_sample_free(&sample);
    gf_dataset_free(data);
}

/* ----- a page of 600 anchors: 7 is a copy of 3, 500 and 501 are near duplicates; 5 has no image ----- */

enum { N = 600, TOP = 2 };

typedef struct little {
    int32_t row[N], other[N * TOP], part[N], group[N], copy[N];
    float lambda[N], similarity[N * TOP];
    int64_t above[N], mutual[N];
    gf_explorer x;
} little;

static int draw(void *user, int64_t i, gf_image *out) {
    (void)user;
    if (i == 5) return 0;
    fill(out, 80, 40, (int)(i % 256));
    for (int p = 0; p < 3 * 80 * 40; p++) out->rgb[p] ^= (uint8_t)(p * 2654435761u >> 25); /* noise: a sheet has a size */
    return 1;
}

static void make(little *d) {
    static const char *const facts[] = {"600", "anchors"};
    for (int i = 0; i < N; i++) {
        d->row[i] = 2 * i, d->part[i] = -1, d->group[i] = -1, d->copy[i] = i, d->lambda[i] = 0.5f;
        d->other[2 * i] = (i + 1) % N, d->other[2 * i + 1] = -1;
        d->similarity[2 * i] = 0.75f, d->similarity[2 * i + 1] = 0.0f;
    }
    d->group[3] = d->group[7] = 0, d->copy[7] = 3, d->group[500] = d->group[501] = 1;
    d->x = (gf_explorer){
        .source = "<x>",
        .summary = "all & well",
        .n = N,
        .top = TOP,
        .row = d->row,
        .lambda = d->lambda,
        .above = d->above,
        .mutual = d->mutual,
        .other = d->other,
        .similarity = d->similarity,
        .component = d->part,
        .group = d->group,
        .groups = 2,
        .copy_of = d->copy,
        .facts = facts,
        .fact_count = 1,
        .image = draw,
        .image_bytes = (size_t)1 << 30,
        .inline_bytes = 1e9,
        .side = 64,
    };
}

TEST(duplicates_get_their_images_first) {
    static little d;
    gf_explorer_images m;
    if (no_jpeg()) skip();
    make(&d);
    assert_int_equal(gf_explorer_draw(&err, &d.x, &m), GLOFND_OK);
    assert_int_equal(m.shown, N - 1);
    assert_int_equal(m.sheets, 3); /* of 256 */
    assert_int_equal(m.slot[3], 0);
    assert_int_equal(m.slot[7], 1);
    assert_int_equal(m.slot[500], 2);
    assert_int_equal(m.slot[501], 3);
    assert_int_equal(m.slot[5], -1);
    d.x.image_bytes = GF_BASE64_BYTES(m.sheet_bytes[0]) + 10;
    gf_explorer_images_free(&m);
    assert_int_equal(gf_explorer_draw(&err, &d.x, &m), GLOFND_OK);
    assert_int_equal(m.sheets, 1);
    assert_int_equal(m.shown, 256);
    assert_int_equal(m.slot[3], 0);
    assert_int_equal(m.slot[599], -1);
    gf_explorer_images_free(&m);
}

/* 40 groups, of which the last has two labels; outliers and label issues: all lists begin with images if there is room for few. */
TEST(lists_share_the_images) {
    static little d;
    static int32_t kept[N], label[N];
    static float similarity[N];
    static gf_outlier outlier[100];
    static gf_label_issue issue[100];
    gf_explorer_images m;
    const gf_decide_spec decide = {0};
    const gf_decisions decisions = {
        .kept = kept, .similarity = similarity, .outlier = outlier, .outliers = 100, .issue = issue, .issues = 100};
    if (no_jpeg()) skip();
    make(&d);
    for (int i = 0; i < N; i++) kept[i] = i, label[i] = i == 399, d.group[i] = i < 400 ? i / 10 : -1, d.copy[i] = i;
    label[0] = -1; /* unknown: does not differ */
    for (int k = 0; k < 100; k++) outlier[k] = (gf_outlier){.position = 599 - k, .nearest = -1};
    for (int k = 0; k < 100; k++) issue[k] = (gf_label_issue){.position = 400 + k};
    d.x.groups = 40, d.x.label = label, d.x.decide = &decide, d.x.decisions = &decisions, d.x.other = d.other;
    assert_int_equal(gf_explorer_draw(&err, &d.x, &m), GLOFND_OK);
    d.x.image_bytes = GF_BASE64_BYTES(m.sheet_bytes[0]) + 10;
    assert_int_equal(m.slot[390], 0); /* labels differ */
    gf_explorer_images_free(&m);
    assert_int_equal(gf_explorer_draw(&err, &d.x, &m), GLOFND_OK);
    assert_int_equal(m.sheets, 1);
    int groups = 0, outliers = 0, issues = 0;
    for (int i = 0; i < N; i++) {
        const int seen = m.slot[i] >= 0;
        groups += seen && i < 400, issues += seen && i >= 400 && i < 500, outliers += seen && i >= 500;
    }
    assert_true(groups >= 80 && groups <= 95 && outliers >= 80 && issues >= 80);
    gf_explorer_images_free(&m);
}

TEST(a_page_that_cannot_be_written_says_so) {
    static little d;
    int64_t shown;
    make(&d);
    d.x.image = NULL;
    assert_int_equal(gf_explorer_write(&err, path_of("unit.html"), &d.x, &shown), GLOFND_OK);
    unlink(path_of("unit.html"));
    assert_int_equal(gf_explorer_write(&err, "nowhere/page.html", &d.x, &shown), GLOFND_E_IO);
    assert_int_equal(gf_explorer_write(&err, "/dev/full", &d.x, &shown), GLOFND_E_IO);
    d.x.n = 0;
    assert_int_equal(gf_explorer_write(&err, path_of("unit.html"), &d.x, &shown), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_explorer_top(50000, 28, 32000000), 28);
    assert_true(gf_explorer_top(10000000, 28, 32000000) == 4);
}

static const char *strange_class(void *user, int32_t label) {
    (void)user;
    return label == 0 ? "caf\xe9 </script>&\"\\\n" : label == 1 ? "\xed\xa0\x80\xc3\xa9\xe2\x80\xae" : NULL;
}

/* Names of any bytes, and the largest label there is. */
TEST(texts_are_utf8_and_no_tags) {
    static little d;
    static int32_t label[N];
    static char text[1 << 20];
    int64_t shown;
    make(&d);
    d.x.image = NULL, d.x.label = label, d.x.class_name = strange_class;
    d.x.source = "<x>\xff\xe0\x80\xaf", d.x.summary = "one & all\ntwo\xc3\xa9";
    for (int i = 0; i < N; i++) label[i] = i % 3 < 2 ? i % 3 : INT32_MAX;
    assert_int_equal(gf_explorer_write(&err, path_of("unit.html"), &d.x, &shown), GLOFND_OK);
    FILE *f = fopen(path_of("unit.html"), "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    unlink(path_of("unit.html"));
#define STRANGER "\xef\xbf\xbd"
    assert_non_null(strstr(text, "<title>discover: &lt;x&gt;" STRANGER STRANGER STRANGER STRANGER "</title>"));
    assert_non_null(strstr(text, "<pre>one &amp; all\ntwo\xc3\xa9</pre>"));
    assert_non_null(strstr(text, "[\"caf\\ufffd \\u003c/script\\u003e\\u0026\\\"\\\\\\u000a\","
                                 "\"\\ufffd\\ufffd\\ufffd\xc3\xa9\\ufffd\",\"\""));
}

static char *read_text(const char *path) {
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* Too large for one file: the page is small, and its data are in a folder beside it. */
TEST(a_large_page_has_a_folder) {
    static little d;
    static int32_t kept[N];
    static float similarity[N];
    static const char *names[N];
    int64_t shown;
    gf_outlier outlier[2] = {{.position = 9, .nearest = -1}, {.position = 5, .nearest = 6}};
    gf_label_issue issue = {.position = 4, .suggested = 7, .votes = 3, .best = 3, .score = 0.75, .probability = 0.875};
    const gf_explorer_leak leak = {3, 7, 1.0f, 1, 0, 1};
    const gf_decide_spec decide = {.split = {{"train", 0, 10}, {"test", 10, 5}}, .splits = 2};
    const gf_decisions decisions = {
        .kept = kept, .similarity = similarity, .outlier = outlier, .outliers = 2, .issue = &issue, .issues = 1, .leak[0][1] = 6};
    make(&d);
    for (int i = 0; i < N; i++) kept[i] = i == 7 ? 3 : i, similarity[i] = 0.995f, names[i] = i == 3 ? "</script>\"\xff" : "plain";
    d.x.image = NULL, d.x.inline_bytes = 100.0, d.x.name = names;
    d.x.decide = &decide, d.x.decisions = &decisions, d.x.leak = &leak, d.x.leaks = 1;
    for (int i = 0; i < N; i++) d.row[i] = i;
    assert_int_equal(gf_explorer_write(&err, path_of("index.html"), &d.x, &shown), GLOFND_OK);
    const char *page = read_text(path_of("index.html"));
    assert_true(strlen(page) < 60000);
    assert_null(strstr(page, "id=\"c-"));
    /* without a script: tables */
    assert_non_null(
        strstr(page, "<tr><td>row 3, &lt;/script&gt;&quot;\xef\xbf\xbd</td><td>row 7, plain (remove, 0.9950)</td></tr>"));
    assert_non_null(strstr(page, "<td>row 4, plain</td><td>suggested: <i>7</i></td><td>probability 0.8750</td>"));
    assert_non_null(strstr(page, "\"folder\":\"page\""));
    assert_non_null(strstr(page, "\"splits\":[[\"train\",0,10,0,0,6,0],[\"test\",10,5,0,0,0,0]]"));
    assert_string_equal(
        read_text(path_of("page/g0.js")),
        "GF(\"g0\",[[0,2,0,1,0,[[3,3,-1,-1,null,\"\\u003c/script\\u003e\\\"\\ufffd\"],[7,7,-1,-1,0.9950,\"plain\"]],[]],\n"
        "[1,2,0,0,0,[[500,500,-1,-1,null,\"plain\"],[501,501,-1,-1,null,\"plain\"]],[]]]);\n");
    assert_non_null(strstr(read_text(path_of("page/o0.js")), "GF(\"o0\",[[[9,9,-1,-1,null,\"plain\"],[9,9"));
    assert_non_null(strstr(read_text(path_of("page/l0.js")), "[[[4,4,-1,-1,null,\"plain\"],7,0.8750,3,3,0]]"));
    assert_non_null(strstr(read_text(path_of("page/k0.js")), ",1.0000,1,0,1]]"));
    assert_int_equal(strncmp(read_text(path_of("page/a0.js")), "GF(\"a0\",[\"AAAAAAEAAAACAAAA", 26), 0);
    assert_int_equal(strncmp(read_text(path_of("page/n0.js")), "GF(\"n0\",[\"AAAAPwAAAD8AAAA/", 26), 0);
}

TEST_GROUP(make_box, remove_box)
