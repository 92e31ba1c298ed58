/* pixel_budget.h - how many pixels may be decoded at a time, by all threads together: a file of a kilobyte can claim an image of
 * gigabytes. A decoder takes the pixels of an image, once its header has told them, before it allocates memory for them; the user
 * of the image gives them back. Threads wait for each other, so results do not depend on their number.
 */
#pragma once

#include <pthread.h>

#include "util/status.h"

#define GF_MAX_PIXELS 200000000 /* default limit */
#define GF_PIXEL_BYTES 9        /* memory per pixel while it is decoded, at most: 3 colours, coefficients of 2 bytes of each */

typedef struct gf_pixel_budget {
    pthread_mutex_t lock;
    pthread_cond_t given;
    int64_t max, taken;
} gf_pixel_budget;

typedef struct gf_pixel_share { /* what one thread has taken; all zero: of no budget */
    gf_pixel_budget *budget;
    int64_t taken;
} gf_pixel_share;

void gf_pixel_budget_init(gf_pixel_budget *b, int64_t max);
void gf_pixel_budget_free(gf_pixel_budget *b);
/* Waits until there are so many left. A thread holds one image at a time: what it had taken is given back first. More than the
 * maximum is taken when nothing else is. A share of no budget, or NULL: nothing happens. */
void gf_pixel_share_take(gf_pixel_share *s, int64_t pixels);
void gf_pixel_share_give(gf_pixel_share *s);
