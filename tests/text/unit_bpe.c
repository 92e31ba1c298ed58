/* unit_bpe.c - byte-pair vocabularies: learning against a plain count, files and corrupt files, long words, decoding; captions
 * drawn. */
#include "support/test.h"

#include "data/captions.h"
#include "data/dataset.h"
#include "support/bpe_golden.h"
#include "support/scratch.h"
#include "text/bpe.h"
#include "text/words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gf_bpe *parse(const char *text) {
    gf_error err = {""};
    gf_bpe *b;
    if (gf_bpe_parse(&err, "test", text, strlen(text), &b) != GLOFND_OK) fail_msg("%s", err.text);
    return b;
}

static gf_bpe *load_shapes(void) {
    gf_bpe *b;
    assert_int_equal(gf_bpe_load(NULL, bpe_golden_path("shapes.bpe.txt"), &b), GLOFND_OK);
    return b;
}

/* ----- files ----- */

static void refuse(const char *text, size_t n, const char *why) {
    gf_error err = {""};
    gf_bpe *b = (gf_bpe *)1;
    assert_int_equal(gf_bpe_parse(&err, "test", text, n, &b), GLOFND_E_FORMAT);
    assert_null(b);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

TEST(damaged_merges_are_refused) {
    char longest[5000];
    memset(longest, 'a', sizeof longest);
    longest[0] = '\n';
    refuse("", 0, "empty");
    refuse("v\na b\na b", 9, "line 3: makes a symbol that is there already");
    refuse("v\na b\nb c\nab c\na bc", 19, "line 5: makes a symbol that is there already");
    refuse("v\nab c", 6, "line 2: a part that no line before it has made");
    refuse("v\na", 3, "not two symbols");
    refuse("v\na b c", 7, "more than two");
    refuse("v\n\na b", 6, "line 2: not two symbols");
    refuse("v\na \xff", 6, "line 2: a character that stands for no byte");
    refuse("v\na \xed\xa0\x80", 8, "stands for no byte");
    refuse("v\na \0b", 7, "stands for no byte");
    refuse(longest, sizeof longest, "longer than");
}

TEST(vocabulary_is_counted_as_by_the_reference) {
    static const struct {
        const char *text;
        int vocab;
    } cases[] = {{"v", 514}, {"v\na b", 515}, {"v\na b\n", 516}, {"v\r\na b\r\nab c</w>", 516}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        gf_bpe *b = parse(cases[k].text);
        assert_int_equal(gf_bpe_vocab(b), cases[k].vocab);
        assert_int_equal(gf_bpe_start(b), cases[k].vocab - 2);
        assert_int_equal(gf_bpe_end(b), cases[k].vocab - 1);
        gf_bpe_free(b);
    }
}

/* A packed file, whole and with every byte damaged or the end cut off: the same vocabulary, or E_FORMAT. */
TEST(damaged_gzip_is_refused) {
#ifndef GF_HAVE_ZLIB
    skip();
#endif
    static const char text[] = "v\na b\nab c\nd e</w>\nabc de</w>";
    char *back = NULL;
    uint8_t bytes[256];
    size_t n;
    const char *path = scratch_path(&box, "x.gz");
    assert_int_equal(gf_bpe_file_write(NULL, path, text, strlen(text)), GLOFND_OK);
    assert_int_equal(gf_bpe_file_read(NULL, path, &back, &n), GLOFND_OK);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(back, text, n);
    free(back);
    FILE *f = fopen(path, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_in_range(size, 20, 200);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(gf_gunzip(NULL, "x", bytes, i, &back, &n), GLOFND_E_FORMAT);
        bytes[i] ^= 0x55;
        /* time, system and flags of compression carry no sum: all else must be noticed */
        if (i != 4 && i != 5 && i != 6 && i != 7 && i != 8 && i != 9)
            assert_int_equal(gf_gunzip(NULL, "x", bytes, size, &back, &n), GLOFND_E_FORMAT);
        bytes[i] ^= 0x55;
    }
    bytes[size] = 'x';
    assert_int_equal(gf_gunzip(NULL, "x", bytes, size + 1, &back, &n), GLOFND_E_FORMAT);
    assert_null(back);
}

/* ----- encoding ----- */

static void encode(const gf_bpe *b, const char *text, size_t n, int context, int32_t *ids, int *count) {
    gf_error err = {""};
    if (gf_bpe_encode(&err, b, NULL, text, n, context, ids, count) != GLOFND_OK) fail_msg("%s", err.text);
}

TEST(long_captions_are_cut_and_closed) {
    gf_bpe *b = load_shapes();
    int32_t ids[GF_BPE_CONTEXT], few[4];
    int count;
    const size_t n = (size_t)10 << 20;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n); /* one word of ten million letters */
    encode(b, text, n, GF_BPE_CONTEXT, ids, &count);
    assert_int_equal(count, GF_BPE_CONTEXT);
    assert_int_equal(ids[GF_BPE_CONTEXT - 1], gf_bpe_end(b));
    for (size_t i = 0; i < n; i++) text[i] = "&#x26;amp \xff\xce\xa3"[i % 13];
    encode(b, text, n, GF_BPE_CONTEXT, ids, &count);
    assert_int_equal(count, GF_BPE_CONTEXT);
    free(text);
    encode(b, "a red square and a blue disc", 28, 4, few, &count);
    assert_int_equal(count, 4);
    assert_int_equal(few[3], gf_bpe_end(b));
    assert_int_equal(gf_bpe_encode(NULL, b, NULL, "", 0, 1, few, &count), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_bpe_encode(NULL, b, NULL, "", GF_WORDS_TEXT_MAX + 1, 4, few, &count), GLOFND_E_ARGUMENT);
    gf_bpe_free(b);
}

/* "aaab" with the merge "a a" is "aa", "a", "b": the leftmost pair first, in short and in long words. */
TEST(leftmost_of_equal_pairs_is_joined) {
    gf_bpe *b = parse("v\na a");
    char text[64];
    int32_t ids[GF_BPE_CONTEXT], joined = 512, single = 'a' - 33;
    int count;
    memset(text, 'a', sizeof text);
    for (int n = 4; n < 64; n += 58) {
        text[n - 1] = 'b';
        encode(b, text, (size_t)n, GF_BPE_CONTEXT, ids, &count);
        assert_int_equal(count, 4 + (n - 2) / 2);
        assert_int_equal(ids[1], joined);
        assert_int_equal(ids[count - 3], single);
        text[n - 1] = 'a';
    }
    gf_bpe_free(b);
}

/* ----- learning ----- */

static char *learn(const char *const *captions, int n, int merges, int backwards) {
    gf_bpe_counts *c;
    gf_bpe_learned learned;
    char *text;
    size_t size;
    const char *path = scratch_path(&box, "learned.txt");
    assert_int_equal(gf_bpe_counts_create(NULL, &c), GLOFND_OK);
    for (int i = 0; i < n; i++) {
        const char *t = captions[backwards ? n - 1 - i : i];
        assert_int_equal(gf_bpe_counts_add(NULL, c, t, strlen(t)), GLOFND_OK);
    }
    assert_int_equal(gf_bpe_learn(NULL, c, merges, path, &learned), GLOFND_OK);
    gf_bpe_counts_free(c);
    assert_int_equal(gf_bpe_file_read(NULL, path, &text, &size), GLOFND_OK);
    return text;
}

TEST(learns_the_most_frequent_pairs_first) {
    /* low x5, lower x2, newest x6, widest x3: es 9, then est</w> 9, lo 7, low</w>... ties by the numbers of the symbols */
    static const char *const captions[] = {"low low low low low", "lower lower", "newest newest newest newest newest newest",
                                           "Widest widest WIDEST", "once"};
    static const char want[] = "\ne s\nes t</w>\nl o\ne w\nn ew\nnew est</w>\nlo w</w>\n";
    char *text = learn(captions, 5, 7, 0), *again = learn(captions, 5, 7, 1), *lines = strchr(text, '\n');
    assert_string_equal(text, again);
    const size_t n = strlen(lines);
    assert_int_equal(n, strlen(want) - 1); /* no line break at the end */
    assert_memory_equal(lines, want, n);
    free(text);
    free(again);
}

TEST(learned_files_load_and_cover_the_words) {
    static const char *const captions[] = {"aaa aaaa aaaaa abab ababab abc abcabc", "aaaa abab bcabc aaa abc aaaaaaa"};
    char *text = learn(captions, 2, 500, 0);
    gf_bpe *b = parse(text);
    int32_t ids[8];
    int count;
    encode(b, "abc", 3, 8, ids, &count);
    assert_int_equal(count, 3); /* start, one token, end */
    gf_bpe_free(b);
    free(text);
    gf_bpe_counts *c;
    gf_bpe_learned learned;
    assert_int_equal(gf_bpe_counts_create(NULL, &c), GLOFND_OK);
    assert_int_equal(gf_bpe_learn(NULL, c, 5, "never", &learned), GLOFND_E_ARGUMENT);
    gf_bpe_counts_free(c);
}

/* ----- captions ----- */

TEST(one_caption_is_drawn_per_epoch) {
    static const char text[] = "one\n\n  two \nthree\r\n \nfour";
    int seen[4] = {0};
    assert_int_equal(gf_captions_count(text), 4);
    assert_int_equal(gf_captions_count(NULL), 0);
    assert_int_equal(gf_caption_at(text, 4).n, 0);
    for (uint32_t epoch = 0; epoch < 400; epoch++) {
        const gf_caption c = gf_caption_draw(text, 7, epoch, 3), again = gf_caption_draw(text, 7, epoch, 3);
        assert_ptr_equal(c.text, again.text);
        for (int k = 0; k < 4; k++) seen[k] += c.text == gf_caption_at(text, k).text;
    }
    for (int k = 0; k < 4; k++) assert_in_range(seen[k], 60, 140);
    assert_memory_equal(gf_caption_at(text, 1).text, "two", 3);
    assert_int_equal(gf_caption_at(text, 1).n, 3);
}

TEST(texts_are_read_without_images) {
    scratch_text(&box, "list.csv", "filepath\ttitle\nmissing.jpg\ta cat\n");
    char spec[300];
    snprintf(spec, sizeof spec, "csv:%s", scratch_path(&box, "list.csv"));
    gf_dataset *d;
    gf_sample s = {0}, whole = {0};
    assert_int_equal(gf_dataset_open(NULL, spec, &d), GLOFND_OK);
    assert_int_equal(gf_dataset_text(NULL, d, 0, &s), GLOFND_OK);
    assert_string_equal(s.text, "a cat");
    assert_int_equal(gf_dataset_text(NULL, d, 1, &s), GLOFND_E_INDEX);
    gf_dataset_free(d);
    assert_int_equal(gf_dataset_open(NULL, "shapes:n=9", &d), GLOFND_OK);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(gf_dataset_text(NULL, d, i, &s), GLOFND_OK);
        assert_int_equal(gf_dataset_read(NULL, d, i, NULL, &whole), GLOFND_OK);
        assert_string_equal(s.text, whole.text);
    }
    gf_dataset_free(d);
    gf_sample_free(&s);
    gf_sample_free(&whole);
}

TEST_GROUP(make_box, remove_box)
