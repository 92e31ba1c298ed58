/* mutate.h - what structure-aware mutators share: random numbers of libFuzzer's seed, and its own mutation of bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

typedef struct dice {
    uint64_t state;
} dice;

static inline uint32_t roll(dice *d, uint32_t sides) {
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % sides;
}

/* A number of the kind that parsers get wrong. */
static inline int64_t odd_number(dice *d) {
    static const int64_t numbers[] = {0,         1,         2,          3,     7,         8,         511,
                                      512,       513,       65535,      65536, INT32_MAX, 1ll << 31, UINT32_MAX,
                                      1ll << 32, INT64_MAX, INT64_MIN,  -1,    1ll << 53, 1ll << 61, 1ll << 62,
                                      1ll << 30, 100000000, 1000000007, 4,     16};
    return roll(d, 3) ? (int64_t)roll(d, 9) : numbers[roll(d, sizeof numbers / sizeof *numbers)];
}
