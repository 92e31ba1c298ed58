/* pixel_budget.c - see pixel_budget.h. */
#include "image/pixel_budget.h"

void gf_pixel_budget_init(gf_pixel_budget *b, int64_t max) {
    *b = (gf_pixel_budget){.max = max};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->given, NULL);
}

void gf_pixel_budget_free(gf_pixel_budget *b) {
    pthread_cond_destroy(&b->given);
    pthread_mutex_destroy(&b->lock);
}

void gf_pixel_share_take(gf_pixel_share *s, int64_t pixels) {
    if (!s || !s->budget) return;
    gf_pixel_share_give(s);
    gf_pixel_budget *b = s->budget;
    pthread_mutex_lock(&b->lock);
    while (b->taken > 0 && b->taken > b->max - pixels) pthread_cond_wait(&b->given, &b->lock);
    b->taken += pixels;
    pthread_mutex_unlock(&b->lock);
    s->taken = pixels;
}

void gf_pixel_share_give(gf_pixel_share *s) {
    if (!s || !s->budget || s->taken == 0) return;
    pthread_mutex_lock(&s->budget->lock);
    s->budget->taken -= s->taken;
    pthread_cond_broadcast(&s->budget->given);
    pthread_mutex_unlock(&s->budget->lock);
    s->taken = 0;
}
