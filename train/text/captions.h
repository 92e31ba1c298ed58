/* captions.h - the captions of a sample: one per line of its text, one drawn per epoch.
 *
 * The draw is a pure function of (seed, epoch, sample): any worker, rank or resumed run draws the same one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct gf_caption { /* a line of a borrowed text: not closed by 0 */
    const char *text;
    size_t n;
} gf_caption;

/* Lines that are not blank. NULL text: 0. */
int64_t gf_captions_count(const char *text);
/* Caption k of them, without blanks at its ends; {"", 0} if there are fewer. */
gf_caption gf_caption_at(const char *text, int64_t k);
gf_caption gf_caption_draw(const char *text, uint64_t seed, uint32_t epoch, uint64_t sample);
