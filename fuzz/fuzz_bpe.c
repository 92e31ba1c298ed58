/* fuzz_bpe.c - merges files, packed and plain, and captions. First byte: what the rest is. A vocabulary that loads must encode
 * the bytes as a caption to numbers it has. */
#include <stdlib.h>
#include <string.h>

#include "text/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const gf_bpe *b, const char *text, size_t n) {
    int32_t ids[GF_BPE_CONTEXT];
    int count = 0;
    if (gf_bpe_encode(NULL, b, NULL, text, n, GF_BPE_CONTEXT, ids, &count) != GLOFND_OK) abort();
    if (count < 2 || count > GF_BPE_CONTEXT || ids[0] != gf_bpe_start(b) || ids[count - 1] != gf_bpe_end(b)) abort();
    for (int i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= gf_bpe_vocab(b)) abort();
    }
}

static void try_file(const char *text, size_t n) {
    gf_error err = {""};
    gf_bpe *b;
    if (gf_bpe_parse(&err, "fuzz", text, n, &b) == GLOFND_OK) use(b, text, n);
    else if (!strstr(err.text, "fuzz")) abort();
    gf_bpe_free(b);
}

static void try_packed(const char *bytes, size_t n) {
    char *text;
    size_t size;
    if (gf_gunzip(NULL, "fuzz", (const uint8_t *)bytes, n, &text, &size) != GLOFND_OK) return;
    if (size < 4096) try_file(text, size);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static gf_bpe *known;
    static const char merges[] = "v\na b\nab a\ne r\ne r</w>\na a\naa aa\n' s</w>\n& a";
    if (!known && gf_bpe_parse(NULL, "known", merges, strlen(merges), &known) != GLOFND_OK) abort();
    if (size < 1) return 0;
    char *bytes = malloc(size); /* of exactly this size: reads beyond are seen */
    if (!bytes) abort();
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 4 == 0) try_packed(bytes, size - 1);
    else if (data[0] % 4 == 1) try_file(bytes, size - 1);
    else use(known, bytes, size - 1);
    free(bytes);
    return 0;
}
