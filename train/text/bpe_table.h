/* bpe_table.h - what a loaded vocabulary consists of: for the files of bpe_*.c only. */
#pragma once

#include "text/bpe.h"
#include "text/bpe_symbols.h"

#define GF_BPE_NO_RANK 0xffffffffu
#define GF_BPE_PAIR_SLOTS (1u << 17)

struct gf_bpe {
    gf_symbols symbols; /* with the two marks at the end */
    int32_t merges;     /* with the unused token, where there is one */
    uint64_t *pairs;    /* hash table: (left << 16 | right) << 32 | rank + 1; 0: free */
};

static inline uint32_t gf_bpe_pair_slot(uint32_t pair) { return (pair * 0x9e3779b1u) >> 15; }

/* Line of the merge that joins them; lower ones come first. The symbol made is GF_BPE_BASE + rank. */
static inline uint32_t gf_bpe_rank(const gf_bpe *b, uint32_t left, uint32_t right) {
    const uint32_t pair = left << 16 | right;
    for (uint32_t slot = gf_bpe_pair_slot(pair); b->pairs[slot]; slot = (slot + 1) & (GF_BPE_PAIR_SLOTS - 1)) {
        if (b->pairs[slot] >> 32 == pair) return (uint32_t)b->pairs[slot] - 1;
    }
    return GF_BPE_NO_RANK;
}
