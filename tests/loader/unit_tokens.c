/* unit_tokens.c - captions in batches: drawn by seed, epoch and sample alone, as tokens that end where CLIP's do; samples without
 * a usable one are left out and reported; samples with the same image or caption are found. Data are drawn shapes; a kind around
 * them changes the text of chosen samples.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/captions.h"
#include "data/dataset_format.h"
#include "loader/loader.h"
#include "util/rng.h"

enum { N = 60, BATCH = 8, SIZE = 12, CONTEXT = 16, SEED = 5 };

/* ----- data whose captions can be replaced ----- */

static const char *replaced[N]; /* NULL: as drawn */
static gf_dataset *shapes, data;
static gf_dataset_format kind;
static const gf_dataset_format *inner;
static gf_bpe *bpe;

static glofnd_status replace(gf_error *err, int64_t i, gf_sample *out) {
    return replaced[i] ? gf_sample_set_text(err, out, replaced[i], strlen(replaced[i])) : GLOFND_OK;
}

static glofnd_status read_other(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    TRY(inner->read(err, d, i, hint, out));
    return replace(err, i, out);
}

static glofnd_status read_other_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    TRY(inner->read_text(err, d, i, out));
    return replace(err, i, out);
}

static int open_all(void **state) {
    (void)state;
    gf_error err = {""};
    static const char merges[] = "first line\na t\n";
    if (gf_dataset_open(&err, "shapes:n=60,classes=6,size=12,seed=3", &shapes) != GLOFND_OK) fail_msg("%s", err.text);
    if (gf_bpe_parse(&err, "merges", merges, sizeof merges - 1, &bpe) != GLOFND_OK) fail_msg("%s", err.text);
    inner = shapes->format;
    kind = *shapes->format;
    kind.read = read_other;
    kind.read_text = read_other_text;
    data = *shapes;
    data.format = &kind;
    return 0;
}

static int close_all(void **state) {
    (void)state;
    gf_bpe_free(bpe);
    gf_dataset_free(shapes);
    return 0;
}

static int as_drawn(void **state) {
    (void)state;
    memset(replaced, 0, sizeof replaced);
    return 0;
}

typedef struct reports {
    int64_t id[100];
    char text[300]; /* of the last one */
    int n;
} reports;

static void report(void *user, int64_t i, const char *message) {
    reports *r = user;
    assert_true(r->n < 100);
    r->id[r->n++] = i;
    snprintf(r->text, sizeof r->text, "%s", message);
}

static gf_loader *open_loader(int workers, int views, reports *met) {
    gf_error err = {""};
    gf_loader *l = NULL;
    const gf_loader_spec spec = {
        .data = &data,
        .augment = gf_augment_clip(SIZE),
        .views = views,
        .batch = BATCH,
        .seed = SEED,
        .workers = workers,
        .depth = 2,
        .bpe = bpe,
        .context = CONTEXT,
        .unreadable = met ? report : NULL,
        .user = met,
    };
    if (gf_loader_create(&err, &spec, &l) != GLOFND_OK) fail_msg("%s", err.text);
    return l;
}

static gf_batch next(gf_loader *l) {
    gf_error err = {""};
    gf_batch b;
    if (gf_loader_next(&err, l, &b) != GLOFND_OK) fail_msg("%s", err.text);
    return b;
}

/* Expected tokens of a sample: its drawn caption, encoded by itself. */
static void expect_tokens(int64_t id, uint32_t epoch, const int32_t *token) {
    gf_sample s = {0};
    int32_t want[CONTEXT];
    int count;
    assert_int_equal(gf_dataset_text(NULL, &data, id, &s), GLOFND_OK);
    const gf_caption c = gf_caption_draw(s.text, SEED, epoch, (uint64_t)id);
    assert_int_equal(gf_bpe_encode(NULL, bpe, NULL, c.text, c.n, CONTEXT, want, &count), GLOFND_OK);
    assert_memory_equal(token, want, sizeof want);
    gf_sample_free(&s);
}

/* ----- batches ----- */

TEST_WITH(tokens_are_those_of_the_drawn_captions, as_drawn, NULL) {
    gf_loader *l = open_loader(2, 1, NULL);
    int changed = 0, seen = 0;
    int32_t before[N][CONTEXT];
    for (int step = 0; step < 2 * (N / BATCH); step++) {
        const gf_batch b = next(l);
        for (int64_t i = 0; i < b.n; i++) {
            const int32_t *token = b.token + i * CONTEXT;
            expect_tokens(b.id[i], b.epoch, token);
            assert_int_equal(token[0], gf_bpe_start(bpe));
            if (b.epoch == 1) seen++, changed += memcmp(before[b.id[i]], token, sizeof before[0]) != 0;
            memcpy(before[b.id[i]], token, sizeof before[0]);
        }
    }
    gf_loader_free(l);
    assert_true(seen > 40 && changed > seen / 2); /* three of four draws are another phrase */
}

TEST_WITH(batches_do_not_depend_on_workers, as_drawn, NULL) {
    replaced[7] = "";
    replaced[30] = " \n\t\n";
    gf_loader *a = open_loader(1, 1, NULL), *b = open_loader(5, 1, NULL);
    assert_int_equal(gf_loader_seek(NULL, b, 0, 0), GLOFND_OK);
    for (int step = 0; step < 12; step++) {
        const gf_batch x = next(a), y = next(b);
        assert_int_equal(x.n, y.n);
        assert_memory_equal(x.id, y.id, sizeof *x.id * (size_t)x.n);
        assert_memory_equal(x.token, y.token, sizeof *x.token * (size_t)x.n * CONTEXT);
        assert_memory_equal(x.content, y.content, sizeof *x.content * (size_t)x.n);
        assert_memory_equal(x.view[0], y.view[0], sizeof(float) * (size_t)x.n * SIZE * SIZE * 3);
    }
    gf_loader_free(a);
    gf_loader_free(b);
}

TEST_WITH(a_seek_gives_the_same_captions, as_drawn, NULL) {
    gf_loader *a = open_loader(2, 1, NULL), *b = open_loader(2, 1, NULL);
    for (int step = 0; step < 9; step++) next(a);
    assert_int_equal(gf_loader_seek(NULL, b, 1, 2), GLOFND_OK);
    const gf_batch x = next(a), y = next(b);
    assert_int_equal(x.step, y.step);
    assert_memory_equal(x.token, y.token, sizeof *x.token * BATCH * CONTEXT);
    gf_loader_free(a);
    gf_loader_free(b);
}

/* ----- captions as they come ----- */

TEST_WITH(samples_without_caption_are_replaced_and_reported, as_drawn, NULL) {
    reports met = {.n = 0};
    replaced[3] = "";
    replaced[11] = "\n  \n";
    replaced[40] = "&#x200b;"; /* nothing is left of it */
    gf_loader *l = open_loader(3, 1, &met);
    for (int step = 0; step < N / BATCH; step++) {
        const gf_batch b = next(l);
        assert_int_equal(b.n, BATCH);
        for (int64_t i = 0; i < b.n; i++) assert_true(b.id[i] != 3 && b.id[i] != 11);
    }
    assert_true(met.n >= 2 && gf_loader_unreadable(l) >= 2);
    assert_non_null(strstr(met.text, "caption"));
    assert_non_null(strstr(met.text, "shapes")); /* names the sample */
    gf_loader_free(l);
}

TEST_WITH(in_order_they_are_left_out_with_their_tokens, as_drawn, NULL) {
    reports met = {.n = 0};
    replaced[2] = "";
    gf_loader *l = open_loader(2, 0, &met);
    int64_t want = 0;
    for (;;) {
        const gf_batch b = next(l);
        if (b.n == 0) break;
        for (int64_t i = 0; i < b.n; i++, want++) {
            want += want == 2;
            assert_int_equal(b.id[i], want);
            expect_tokens(want, 0, b.token + i * CONTEXT);
        }
    }
    assert_int_equal(want, N);
    assert_int_equal(met.n, 1);
    gf_loader_free(l);
}

TEST_WITH(long_captions_are_cut_and_end, as_drawn, NULL) {
    const size_t bytes = 10 << 20;
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++) text[i] = "cat "[i % 4];
    text[bytes] = 0;
    replaced[0] = text;
    gf_loader *l = open_loader(1, 0, NULL);
    const gf_batch b = next(l);
    assert_int_equal(b.id[0], 0);
    assert_int_equal(b.token[CONTEXT - 1], gf_bpe_end(bpe));
    assert_true(b.token[CONTEXT - 2] != 0 && b.token[CONTEXT - 2] != gf_bpe_end(bpe));
    gf_loader_free(l);
    free(text);
}

TEST_WITH(bytes_that_are_no_text_are_read_all_the_same, as_drawn, NULL) {
    replaced[0] = "a \xff\xfe\xc3 cat \xf0\x9f";
    gf_loader *l = open_loader(1, 0, NULL);
    const gf_batch b = next(l);
    assert_int_equal(b.id[0], 0);
    expect_tokens(0, 0, b.token);
    gf_loader_free(l);
}

TEST_WITH(too_large_a_caption_is_reported, as_drawn, NULL) {
    const size_t bytes = GF_WORDS_TEXT_MAX + 1;
    char *text = malloc(bytes + 1);
    memset(text, 'x', bytes);
    text[bytes] = 0;
    gf_error err = {""};
    int32_t ids[CONTEXT];
    assert_int_equal(gf_tokens_draw(&err, bpe, NULL, &data, 4, text, SEED, 0, CONTEXT, ids), GLOFND_E_FORMAT);
    assert_non_null(strstr(err.text, "16777217"));
    free(text);
}

/* ----- the same content ----- */

TEST_WITH(groups_join_what_shares_an_image_or_a_text, as_drawn, NULL) {
    const gf_content content[8] = {{1, 10}, {2, 20}, {1, 30}, {4, 20}, {5, 30}, {6, 60}, {7, 70}, {7, 20}};
    const int32_t want[8] = {0, 1, 0, 1, 0, -1, 1, 1}; /* 0-2 by image, 2-4 by text; 1-3-7 by text, 7-6 by image */
    int64_t order[8];
    int32_t group[8];
    gf_content_groups(content, 8, order, group);
    assert_memory_equal(group, want, sizeof want);
    gf_content_groups(content, 0, order, group);
}

TEST_WITH(groups_equal_a_plain_search, as_drawn, NULL) {
    enum { MANY = 200 };
    gf_content content[MANY];
    int64_t order[MANY];
    int32_t group[MANY], plain[MANY];
    for (uint32_t draw = 0; draw < 20; draw++) {
        gf_rng r = gf_rng_at(9, GF_RNG_ORDER, draw, 0, 0);
        for (int i = 0; i < MANY; i++) content[i] = (gf_content){gf_rng_u32(&r) % 300, gf_rng_u32(&r) % 300};
        for (int i = 0; i < MANY; i++) plain[i] = i;
        for (int change = 1; change;) {
            change = 0;
            for (int i = 0; i < MANY; i++)
                for (int j = 0; j < i; j++)
                    if ((content[i].image == content[j].image || content[i].text == content[j].text) && plain[i] != plain[j]) {
                        plain[i] = plain[j] = plain[i] < plain[j] ? plain[i] : plain[j];
                        change = 1;
                    }
        }
        gf_content_groups(content, MANY, order, group);
        for (int i = 0; i < MANY; i++) {
            int alone = 1;
            for (int j = 0; j < MANY; j++) alone &= j == i || plain[j] != plain[i];
            assert_int_equal(group[i], alone ? -1 : plain[i]);
        }
    }
}

TEST_WITH(equal_captions_and_images_have_equal_numbers, as_drawn, NULL) {
    replaced[1] = "the same words";
    replaced[4] = "The  SAME words"; /* cleaned, it is */
    gf_loader *l = open_loader(2, 0, NULL);
    const gf_batch b = next(l);
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < i; j++) {
            assert_int_equal(b.content[i].text == b.content[j].text, i == 4 && j == 1);
            assert_true(b.content[i].image != b.content[j].image);
        }
    gf_loader_free(l);
}

TEST_GROUP(open_all, close_all)
