/* scene.c - drawing the batches of a scene. See scene.h. */
#include "scene.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "on_device.h"
#include "random.h"
#include "support/losses.h"

#define SAFE_MARGIN 1e-6

static void *array(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) abort();
    return p;
}

scene scene_make(const char *name, int loss) {
    scene s = {.batch = 13, .dim = 17, .anchors = 19, .classes = 4, .steps = 5, .with_labels = 1, .noise = 0.8, .seed = 1};
    snprintf(s.name, sizeof s.name, "%s", name);
    gf_method_options_init(&s.o);
    s.o.lambda_init = GLOFND_INIT_ONE;
    losses_set(&s.o, loss);
    s.o.alpha = 0.15;
    s.o.lambda_lr = 0.2;
    s.o.tau = 0.1;
    s.o.gamma = 0.7;
    s.o.rho = 3;
    s.o.omega = 0.3;
    s.o.update_epoch = 1;
    s.o.mask_epoch = 2;
    s.o.tau_lr = 0.005;
    s.o.tau_min = 0.02;
    s.o.normalize = 1;
    s.o.threads = 1;
    on_device_choose(&s.o);
    return s;
}

int scene_two_views(const scene *s) { return s->o.pairing == GLOFND_PAIRING_VIEWS; }

gf_store_spec scene_spec(const scene *s) {
    const int ring = s->o.learner == GLOFND_LEARN_RING;
    return (gf_store_spec){.n = s->anchors,
                           .modalities = scene_two_views(s) ? 1 : 2,
                           .temperatures = ref_individual(&s->o),
                           .ring_rows = ring ? s->o.ring_rows : 0,
                           .ring_dim = ring ? s->dim : 0,
                           .bank_dim = s->o.similarity == GLOFND_SIMILARITY_BANK ? s->dim : 0};
}

static rng stream(const scene *s, uint64_t what, uint64_t index) {
    rng g = {s->seed * 1000003u + what * 7919u + index * 104729u};
    rng_next(&g);
    return g;
}

/* Direction of the sample's class plus noise of the same length, then a random length (or unit length). */
static void draw_embedding(const scene *s, int64_t id, rng *g, float *out) {
    rng class_stream = stream(s, 1, (uint64_t)(id % s->classes));
    double x[1024], square = 0;
    for (int64_t j = 0; j < s->dim; j++) {
        x[j] = rng_normal(&class_stream) + s->noise * rng_normal(g);
        square += x[j] * x[j];
    }
    const double length = s->o.normalize ? 0.5 + rng_uniform(g) : 1;
    for (int64_t j = 0; j < s->dim; j++) out[j] = (float)(x[j] * length / sqrt(square));
}

static void draw_ids(const scene *s, int step, int64_t *id) {
    rng g = stream(s, 2, (uint64_t)step);
    int64_t *all = array(s->anchors, sizeof *all);
    for (int64_t i = 0; i < s->anchors; i++) all[i] = i;
    for (int64_t i = 0; i < s->batch; i++) {
        const int64_t pick = i + rng_below(&g, s->anchors - i), t = all[i];
        id[i] = all[i] = all[pick];
        all[pick] = t;
    }
    free(all);
}

static void draw_support(const scene *s, rng *g, scene_batch *out, int64_t i) {
    float extra[1024];
    for (int view = 0; view < 2; view++) {
        float *to = (view ? out->support_b : out->support_a) + i * s->dim;
        draw_embedding(s, out->id[i], g, to);
        draw_embedding(s, out->id[i], g, extra);
        for (int64_t j = 0; j < s->dim; j++) to[j] = (to[j] + extra[j]) / 2;
    }
}

/* Candidates of a side; some are further embeddings of samples that may be in the batch, or of nobody known. */
static void draw_candidates(const scene *s, int step, int side, scene_batch *out) {
    rng g = stream(s, 6 + (uint64_t)side, (uint64_t)step);
    const int64_t n = s->candidates[side];
    if (n == 0) return;
    float *rows = out->candidates[side] = array(n * s->dim, sizeof *rows);
    int64_t *id = out->candidate_id[side] = array(n, sizeof *id);
    for (int64_t i = 0; i < n; i++) {
        const int64_t of = rng_below(&g, s->anchors);
        draw_embedding(s, of, &g, rows + i * s->dim);
        id[i] = i % 5 == 4 ? -1 : i % 5 == 3 ? s->anchors + of : of;
    }
    if (side == 0) out->q.negatives_a = rows, out->q.negatives_a_n = n;
    else out->q.negatives_b = rows, out->q.negatives_b_n = n;
    if (s->with_candidate_ids && side == 0) out->q.negatives_a_id = id;
    if (s->with_candidate_ids && side == 1) out->q.negatives_b_id = id;
}

/* The same for an id in every step; one of five has no threshold. */
static void draw_guide(const scene *s, scene_batch *out) {
    if (s->guide_dim == 0) return;
    out->guide = array(s->batch * s->guide_dim, sizeof(float)), out->guide_threshold = array(s->batch, sizeof(float));
    for (int64_t i = 0; i < s->batch; i++) {
        rng g = stream(s, 8, (uint64_t)out->id[i]), of_class = stream(s, 9, (uint64_t)(out->id[i] % s->classes));
        for (int64_t j = 0; j < s->guide_dim; j++)
            out->guide[i * s->guide_dim + j] = (float)(3 * (rng_normal(&of_class) + s->noise * rng_normal(&g)));
        out->guide_threshold[i] = out->id[i] % 5 == 4 ? NAN : (float)(0.3 + 0.4 * rng_uniform(&g));
    }
    out->q.guide = out->guide, out->q.guide_threshold = out->guide_threshold, out->q.guide_dim = s->guide_dim;
}

void scene_draw(const scene *s, int step, scene_batch *out) {
    const int64_t flat = s->batch * s->dim;
    *out = (scene_batch){.extra = array(1, sizeof(glofnd_batch_extra)),
                         .a = array(flat, sizeof(float)),
                         .b = array(flat, sizeof(float)),
                         .support_a = array(flat, sizeof(float)),
                         .support_b = array(flat, sizeof(float)),
                         .id = array(s->batch, sizeof(int64_t)),
                         .label = array(s->batch, sizeof(int32_t)),
                         .group = array(s->batch, sizeof(int32_t)),
                         .positives = array(s->batch, sizeof(int32_t))};
    rng g = stream(s, 3, (uint64_t)step), support_stream = stream(s, 4, (uint64_t)step);
    draw_ids(s, step, out->id);
    for (int64_t i = 1; i < s->batch && s->repeats; i++)
        if (s->repeats == 1 ? i % 4 == 1 : i % 6 < 3 && i % 6 > 0) out->id[i] = out->id[i - 1];
    for (int64_t i = 0; i < s->batch; i++) {
        const int64_t id = out->id[i];
        draw_embedding(s, id, &g, out->a + i * s->dim);
        draw_embedding(s, id, &g, out->b + i * s->dim);
        draw_support(s, &support_stream, out, i);
        out->label[i] = s->classes > 1 && id % 11 == 3 ? -1 : (int32_t)(id % s->classes);
        out->group[i] = id % 2 ? -1 : (int32_t)(id % 5);
        out->positives[i] = id % 4 == 3 ? -1 - (int32_t)(id % 2) : (int32_t)(1000 * (id % 6));
    }
    out->q = (glofnd_batch){.size = sizeof(glofnd_batch),
                            .n = s->batch,
                            .extra = out->extra,
                            .dim = s->dim,
                            .a = out->a,
                            .b = out->b,
                            .id = out->id,
                            .epoch = step};
    if (s->with_labels) out->q.label = out->label;
    if (s->with_labels) out->q.want = GLOFND_WANT_QUALITY | GLOFND_WANT_QUANTILE;
    if (s->with_groups) out->q.group = out->group;
    if (s->with_positives) out->q.positives = out->positives;
    for (int side = 0; side < 2; side++) draw_candidates(s, step, side, out);
    draw_guide(s, out);
    out->extra->size = sizeof *out->extra;
    if (s->with_support) out->extra->support_a = out->support_a;
    if (s->with_support && !scene_two_views(s)) out->extra->support_b = out->support_b;
}

void scene_batch_free(scene_batch *b) {
    free(b->a);
    free(b->b);
    free(b->extra);
    free(b->support_a);
    free(b->support_b);
    for (int side = 0; side < 2; side++) free(b->candidates[side]), free(b->candidate_id[side]);
    free(b->id);
    free(b->label);
    free(b->group);
    free(b->positives);
    free(b->guide);
    free(b->guide_threshold);
}

glofnd_anchor scene_start(const scene *s, int side, int64_t i) {
    rng g = stream(s, 5, (uint64_t)(2 * i + side));
    glofnd_anchor row = {.lambda = 1, .log_u = -INFINITY};
    if (s->lambda0 == 0) return row;
    row.lambda = (float)(s->lambda0 + 0.2 * (rng_uniform(&g) - 0.5));
    row.m = (float)(0.01 * rng_normal(&g));
    row.v = (float)(0.01 * rng_uniform(&g));
    row.clock = 1;
    return row;
}

void scene_ref_store(const scene *s, ref_store *out) {
    const gf_store_spec spec = scene_spec(s);
    ref_store_init(out, &spec);
    for (int side = 0; side < spec.modalities; side++)
        for (int64_t i = 0; i < s->anchors; i++) out->row[side][i] = scene_start(s, side, i);
}

static int is_safe(const scene *s) {
    int safe = 1;
    ref_store store;
    scene_ref_store(s, &store);
    for (int step = 0; step < s->steps && safe; step++) {
        scene_batch b;
        ref_step r;
        scene_draw(s, step, &b);
        ref_step_run(&s->o, &store, &b.q, NULL, &r);
        safe = r.margin > SAFE_MARGIN && isfinite(r.loss);
        ref_step_free(&r);
        scene_batch_free(&b);
    }
    ref_store_free(&store);
    return safe;
}

int scene_avoid_ties(scene *s) {
    for (int tries = 0; tries < 500; tries++, s->seed++)
        if (is_safe(s)) return tries;
    fail_msg("%s: no seed without similarities next to a threshold", s->name);
    return -1;
}
