/* bomb.h - a JPEG of some hundred bytes that claims any number of pixels: gray, progressive, one scan of runs of empty blocks. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BOMB_BYTES = 4096 };

static inline size_t bomb_bits(uint8_t *out, int64_t blocks) {
    size_t n = 0;
    unsigned held = 0;
    int bits = 0;
    for (int64_t done = 0; done < blocks; done += 32767) { /* the only code, and 14 bits: a run of 2^14 + 2^14 - 1 blocks */
        held = held << 15 | 0x3fff;
        for (bits += 15; bits >= 8; bits -= 8) {
            out[n++] = (uint8_t)(held >> (bits - 8));
            if (out[n - 1] == 0xff) out[n++] = 0;
        }
    }
    if (bits > 0) out[n++] = (uint8_t)(held << (8 - bits));
    return n;
}

/* width, height: up to 16384; the number of bytes */
static inline size_t bomb_jpeg(uint8_t out[BOMB_BYTES], int width, int height) {
    static const uint8_t table[] = {0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0};
    static const uint8_t scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0};
    const uint8_t frame[] = {0xff,           0xc2, 0, 11,   8, (uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8),
                             (uint8_t)width, 1,    1, 0x11, 0};
    size_t n = 0;
    memcpy(out, "\xff\xd8\xff\xdb\0\x43\0", 7);
    memset(out + 7, 1, 64);
    n = 71;
    memcpy(out + n, frame, sizeof frame), n += sizeof frame;
    memcpy(out + n, table, sizeof table), n += sizeof table;
    memcpy(out + n, scan, sizeof scan), n += sizeof scan;
    n += bomb_bits(out + n, (int64_t)((width + 7) / 8) * ((height + 7) / 8));
    out[n++] = 0xff;
    out[n++] = 0xd9;
    return n;
}
