/* bpe.c - tokens per second of one thread: bpe MERGES CAPTIONS, a merges file and a text file with one caption per line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/bpe.h"
#include "util/machine.h"

#define ROUNDS 5

/* Encodes every line; returns the tokens without start and end, or -1. */
static long long encode_lines(const gf_bpe *b, const char *text) {
    gf_bpe_scratch s = {0};
    int32_t ids[GF_BPE_CONTEXT];
    long long tokens = 0;
    int count;
    for (const char *end; *text && tokens >= 0; text = *end ? end + 1 : end) {
        end = strchrnul(text, '\n');
        if (gf_bpe_encode(NULL, b, &s, text, (size_t)(end - text), GF_BPE_CONTEXT, ids, &count) != GLOFND_OK) tokens = -1;
        else tokens += count - 2;
    }
    gf_bpe_scratch_free(&s);
    return tokens;
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 0;
    if (f && getdelim(&text, &capacity, 0, f) < 0) {
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    return text;
}

int main(int argc, char **argv) {
    gf_error err = {""};
    gf_bpe *b = NULL;
    char *text = argc == 3 ? read_text(argv[2]) : NULL;
    if (!text || gf_bpe_load(&err, argv[1], &b) != GLOFND_OK) {
        fprintf(stderr, "usage: %s MERGES CAPTIONS\n%s\n", argv[0], err.text);
        free(text);
        return argc == 3;
    }
    for (int round = 0; round < ROUNDS; round++) {
        const double start = gf_clock();
        const long long tokens = encode_lines(b, text);
        const double seconds = gf_clock() - start;
        printf("%lld tokens, %.3f s, %.2f million tokens/s\n", tokens, seconds, (double)tokens / seconds / 1e6);
    }
    gf_bpe_free(b);
    free(text);
    return 0;
}
