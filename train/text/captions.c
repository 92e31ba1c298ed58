/* captions.c - see captions.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "text/captions.h"

#include <string.h>

#include "util/rng.h"

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next line that is not blank, from *at on, which moves after it. 0: none is left. */
static int next_caption(const char **at, gf_caption *out) {
    while (**at) {
        const char *start = *at, *end = strchrnul(start, '\n');
        *at = *end ? end + 1 : end;
        while (start < end && is_blank(*start)) start++;
        while (end > start && is_blank(end[-1])) end--;
        *out = (gf_caption){start, (size_t)(end - start)};
        if (out->n > 0) return 1;
    }
    return 0;
}

int64_t gf_captions_count(const char *text) {
    gf_caption c;
    int64_t n = 0;
    while (text && next_caption(&text, &c)) n++;
    return n;
}

gf_caption gf_caption_at(const char *text, int64_t k) {
    gf_caption c;
    for (int64_t i = 0; text && k >= 0 && next_caption(&text, &c); i++) {
        if (i == k) return c;
    }
    return (gf_caption){"", 0};
}

gf_caption gf_caption_draw(const char *text, uint64_t seed, uint32_t epoch, uint64_t sample) {
    const int64_t n = gf_captions_count(text);
    if (n <= 1) return gf_caption_at(text, 0);
    gf_rng r = gf_rng_at(seed, GF_RNG_CAPTION, epoch, sample, 0);
    return gf_caption_at(text, gf_rng_below(&r, n));
}
