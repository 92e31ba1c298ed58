/* fuzz_tar.c - hostile shards: libFuzzer target of the tar reader, the sample scanner, labels and captions, the index loader.
 *
 * The first byte chooses: an unchanged tar; a tar whose header checksums are corrected, so that the code behind them is reached;
 * an index file; or a .json or .cls, put into a shard with an image, which must open whatever its content. Every accepted
 * sample must lie inside the shard, and its index must load back. The mutator changes fields of headers, and whole blocks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/formats/wds.h"
#include "data/tar.h"
#include "fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_sums(uint8_t *bytes, size_t n) {
    for (uint8_t *block = bytes; block + GF_TAR_BLOCK <= bytes + n; block += GF_TAR_BLOCK) {
        unsigned sum = 0;
        memset(block + 148, ' ', 8);
        for (int i = 0; i < GF_TAR_BLOCK; i++) sum += block[i];
        snprintf((char *)block + 148, 8, "%06o", sum);
    }
}

static void fill(int fd, const uint8_t *bytes, size_t n) {
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n) abort();
}

static void check_samples(const gf_wds_shard *s, uint64_t size) {
    for (int64_t i = 0; i < s->keys.n; i++) {
        const gf_wds_entry *e = &s->entries[i];
        if (e->image_at > size || e->image_size > size - e->image_at) abort();
        if (e->text_at > size || e->text_size > size - e->text_at) abort();
        if (e->label < -1 || !gf_string_list_get(&s->keys, i)) abort();
    }
    if (s->unused < 0 || !s->unused != !s->unused_first) abort();
}

static int is_equal(const gf_wds_entry *a, const gf_wds_entry *b) { /* memcmp would compare the padding, too */
    return a->image_at == b->image_at && a->text_at == b->text_at && a->image_size == b->image_size &&
           a->text_size == b->text_size && a->label == b->label && a->group == b->group && a->flags == b->flags;
}

static void check_index(const gf_wds_shard *s) {
    char path[64];
    gf_wds_shard back;
    snprintf(path, sizeof path, "/dev/shm/fuzz-tar-%ld", (long)getpid());
    if (gf_wds_index_save(NULL, path, s) != GLOFND_OK || gf_wds_index_load(NULL, path, s->stamp, &back) != GLOFND_OK) abort();
    if (back.unused != s->unused || !back.unused_first != !s->unused_first) abort();
    if (s->unused && strcmp(back.unused_first, s->unused_first) != 0) abort();
    if (back.keys.n != s->keys.n) abort();
    for (int64_t i = 0; i < s->keys.n; i++)
        if (!is_equal(&back.entries[i], &s->entries[i])) abort();
    gf_wds_shard_free(&back);
    unlink(path);
}

static void try_tar(int fd, size_t n) {
    gf_error err = {""};
    gf_wds_shard s;
    const gf_file_stamp stamp = {n, 1};
    const glofnd_status status = gf_wds_scan(&err, "fuzz", fd, stamp, &s);
    if (status != GLOFND_OK) {
        if (!strstr(err.text, "fuzz")) abort();
        return;
    }
    check_samples(&s, n);
    if (s.keys.n > 0) check_index(&s);
    gf_wds_shard_free(&s);
}

static void try_index(int fd, const uint8_t *bytes, size_t n) {
    char path[64];
    gf_wds_shard s;
    gf_file_stamp stamp = {1 << 20, 0};
    if (n >= 28) {
        memcpy(&stamp.size, bytes + 12, 8);
        memcpy(&stamp.mtime_ns, bytes + 20, 8);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gf_wds_index_load(NULL, path, stamp, &s) != GLOFND_OK) return;
    check_samples(&s, stamp.size);
    gf_wds_shard_free(&s);
}

static size_t add_member(uint8_t *to, const char *name, const uint8_t *bytes, size_t n) {
    const size_t whole = (n + GF_TAR_BLOCK - 1) / GF_TAR_BLOCK * GF_TAR_BLOCK;
    gf_tar_header(to, name, n);
    memset(to + GF_TAR_BLOCK, 0, whole);
    if (n) memcpy(to + GF_TAR_BLOCK, bytes, n);
    return GF_TAR_BLOCK + whole;
}

/* A sample with this part, and one of which the fuzzer knows nothing. */
static void try_part(int fd, const char *name, const uint8_t *bytes, size_t n) {
    gf_error err = {""};
    gf_wds_shard s;
    uint8_t *tar = calloc(1, n + 12 * GF_TAR_BLOCK);
    if (!tar) abort();
    size_t size = add_member(tar, "a.png", (const uint8_t *)"x", 1);
    size += add_member(tar + size, name, bytes, n);
    size += add_member(tar + size, "b.png", (const uint8_t *)"x", 1);
    size += add_member(tar + size, "b.cls", (const uint8_t *)"3", 1);
    size += 2 * GF_TAR_BLOCK;
    fill(fd, tar, size);
    free(tar);
    const glofnd_status status = gf_wds_scan(&err, "fuzz", fd, (gf_file_stamp){size, 1}, &s);
    if (status != GLOFND_OK) abort();
    if (s.keys.n != 2 || s.entries[1].label != 3 || s.unused > 1) abort();
    check_samples(&s, size);
    check_index(&s);
    gf_wds_shard_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    if (fd < 0) fd = memfd_create("shard", 0);
    if (size < 1) return 0;
    uint8_t *bytes = malloc(size);
    if (!bytes) abort();
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 4 == 1) fix_sums(bytes, size - 1);
    fill(fd, bytes, size - 1);
    if (data[0] % 4 == 2) try_index(fd, bytes, size - 1);
    else if (data[0] % 4 == 3) try_part(fd, data[0] & 4 ? "a.json" : "a.cls", bytes, size - 1);
    else try_tar(fd, size - 1);
    free(bytes);
    return 0;
}

/* ----- mutation ----- */

static void change_field(dice *d, uint8_t *block) {
    static const char *const names[] = {"a.jpg",    "a.png",     "a.txt", "a.cls", "a.json", "b/c.png",
                                        "../x.png", "@LongLink", "",      "a",     ".png"};
    static const char kinds[] = "0012345xgLKSV\0";
    switch (roll(d, 6)) {
    case 0: block[156] = (uint8_t)kinds[roll(d, sizeof kinds)]; break;
    case 1: snprintf((char *)block, 100, "%s", names[roll(d, sizeof names / sizeof *names)]); break;
    case 2: snprintf((char *)block + 124, 12, "%011llo", (unsigned long long)odd_number(d) & 077777777777ull); break;
    case 3: /* the size in base 256 */
        block[124] = 0x80;
        for (int k = 0; k < 11; k++) block[125 + k] = (uint8_t)(k < 3 ? 0 : odd_number(d) >> 8 * (10 - k));
        break;
    case 4: memcpy(block + 257, roll(d, 2) ? "ustar\00000" : "ustar  ", 8); break;
    default: memcpy(block, "30 size=", 8), snprintf((char *)block + 8, 40, "%lld\n", (long long)odd_number(d));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    dice d = {seed};
    const size_t blocks = size > 1 ? (size - 1) / GF_TAR_BLOCK : 0;
    if (roll(&d, 3) == 0 || max_size < 1 + 8 * GF_TAR_BLOCK) return LLVMFuzzerMutate(data, size, max_size);
    if (blocks == 0 || roll(&d, 20) == 0) { /* a small shard to begin with */
        memset(data, 0, 1 + 6 * GF_TAR_BLOCK);
        data[0] = 1;
        gf_tar_header(data + 1, "a.png", 5);
        gf_tar_header(data + 1 + 2 * GF_TAR_BLOCK, roll(&d, 2) ? "a.txt" : "a.json", 3);
        memcpy(data + 1 + 3 * GF_TAR_BLOCK, "{} ", 3);
        return 1 + 6 * GF_TAR_BLOCK;
    }
    uint8_t *block = data + 1 + roll(&d, (uint32_t)blocks) * GF_TAR_BLOCK;
    const size_t rest = size - (size_t)(block - data) - GF_TAR_BLOCK;
    const uint32_t kind = roll(&d, 8);
    if (roll(&d, 8)) data[0] = 1; /* sums are corrected by the target */
    if (kind == 0 && size + GF_TAR_BLOCK <= max_size) {
        memmove(block + GF_TAR_BLOCK, block, rest + GF_TAR_BLOCK);
        return size + GF_TAR_BLOCK;
    }
    if (kind == 1 && blocks > 1) {
        memmove(block, block + GF_TAR_BLOCK, rest);
        return size - GF_TAR_BLOCK;
    }
    change_field(&d, block);
    return size;
}
