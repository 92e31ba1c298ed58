/* 01_detect.c - bring your own similarities: thresholds and masks without the library's losses.
 *
 * For loops that compute similarities and loss themselves. Here 8 queries are compared with a gallery of 400 items, 16 of them
 * drawn anew in each step, and query i has its own level of similarity. glofnd_detect_update() learns from each small set where the top
 * 10 % of the WHOLE gallery begins; glofnd_detect_mask() says which negatives of the set to keep.
 *     cc 01_detect.c $(pkg-config --cflags --libs glofnd) -lm && ./a.out
 */
#include <glofnd.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 8, GALLERY = 400, SHOWN = 16, STEPS = 3000, TOP = GALLERY / 10 };

static const double ALPHA = 0.1;
static float all[QUERIES][GALLERY]; /* no step has all of it */
static float sim[QUERIES][SHOWN];   /* of one step */
static uint8_t negative[QUERIES][SHOWN], keep[QUERIES][SHOWN];
static glofnd_ctx *ctx;

static void check(glofnd_status status) {
    if (status == GLOFND_OK) return;
    fprintf(stderr, "01_detect: %s: %s\n", glofnd_status_text(status), ctx ? glofnd_ctx_error(ctx) : "no context");
    exit(1);
}

static int descending(const void *x, const void *y) {
    const float a = *(const float *)x, b = *(const float *)y;
    return (a < b) - (a > b);
}

static void make_gallery(void) { /* sorted, so that the exact threshold is simply the TOP-th entry */
    for (int i = 0; i < QUERIES; i++) {
        for (int j = 0; j < GALLERY; j++) {
            float sum = 0;
            for (int k = 0; k < 6; k++) sum += (float)rand() / (float)RAND_MAX / 6;
            all[i][j] = 0.9f * sum - 0.4f + 0.06f * (float)i;
        }
        qsort(all[i], GALLERY, sizeof(float), descending);
    }
}

static void show(void) { /* SHOWN random items; item 0 of each row is its positive, all others are negatives */
    for (int i = 0; i < QUERIES; i++)
        for (int j = 0; j < SHOWN; j++) sim[i][j] = all[i][rand() % GALLERY], negative[i][j] = j != 0;
}

int main(void) {
    const int64_t id[QUERIES] = {0, 1, 2, 3, 4, 5, 6, 7};
    const glofnd_store_spec spec = {.size = sizeof spec, .n = QUERIES};
    const glofnd_sims q = {
        .size = sizeof q, .views = 1, .rows = QUERIES, .cols = SHOWN, .sim = sim[0], .negative = negative[0], .id = id};
    int32_t kept[QUERIES];
    glofnd_anchor row[QUERIES];
    glofnd_store *store = NULL;
    glofnd_options *o = NULL;
    double error = 0;
    check(glofnd_options_create(&o));
    check(glofnd_options_set_number(o, "alpha", ALPHA, NULL, 0));
    check(glofnd_ctx_create(o, &ctx, NULL, 0));
    check(glofnd_store_create(ctx, &spec, &store));
    make_gallery();
    for (int step = 0; step < STEPS; step++) {
        show();
        check(glofnd_options_set_number(o, "lambda_lr", 0.02 / (1 + 0.01 * step), NULL, 0));
        check(glofnd_ctx_configure(ctx, o));
        check(glofnd_detect_update(ctx, store, &q));
    }
    check(glofnd_anchors_get(ctx, store, 0, id, QUERIES, row));
    check(glofnd_detect_mask(ctx, store, &q, keep[0], kept));
    printf("query   lambda    exact    last set, negatives from left to right: . kept, # flagged\n");
    for (int i = 0; i < QUERIES; i++) {
        printf("%5d  %7.3f  %7.3f    ", i, row[i].lambda, all[i][TOP - 1]);
        for (int j = 1; j < SHOWN; j++) printf("%c", keep[i][j] ? '.' : '#');
        printf("   %2d kept\n", kept[i]);
        error += fabsf(row[i].lambda - all[i][TOP - 1]) / QUERIES;
    }
    printf("\n%d sets of %d similarities per query: the top %.0f%% of %d begin where lambda says, within %.3f on average\n",
           STEPS, SHOWN - 1, 100 * ALPHA, GALLERY, error);
    glofnd_store_free(store);
    glofnd_ctx_free(ctx);
    glofnd_options_free(o);
    return 0;
}
