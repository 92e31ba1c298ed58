/* image_text.c - two encoders in training, one of images and one of texts (CLIP's transformer, 12 layers of 512): bimodal
 * SogCLR with GloFND, AdamW. See training.h. */
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "support/caption_lengths.h"
#include "support/die.h"
#include "support/machine.h"
#include "support/sample.h"
#include "support/training.h"

enum { CONTEXT = 77, VOCAB = 49408 };
enum { IMAGE, TEXT, LOSS, OPTIMIZER, PARTS }; /* a encoder: forward and backward */

static const char *const names[PARTS] = {"image", "text", "loss", "optimizer"}; /* tools/bench_torch_clip.py has the same */

typedef struct image_text {
    training head;
    gf_net *net[2]; /* image, text */
    gf_optim *optim;
    int64_t steps; /* taken */
} image_text;

/* ----- making ----- */

static void make_nets(image_text *t, const training_case *c, int threads) {
    gf_error err = {""};
    gf_net_spec spec = {.arch = GF_ARCH_VIT,
                        .batch = c->batch,
                        .size = c->size,
                        .embed_dim = 512,
                        .width = 768,
                        .layers = 12,
                        .heads = 12,
                        .patch = 32,
                        .quick_gelu = 1,
                        .precision = c->precision,
                        .training = 1,
                        .seed = 1,
                        .threads = threads};
    if (strcmp(c->net, "rn50") == 0)
        spec.arch = GF_ARCH_CLIP_RESNET50, spec.embed_dim = 1024, spec.width = spec.layers = spec.heads = spec.patch = 0;
    training_fine(gf_net_create(&err, &spec, &t->net[0]), &err);
    const gf_net_spec text = {.arch = GF_ARCH_TEXT,
                              .batch = c->batch,
                              .embed_dim = spec.embed_dim,
                              .width = 512,
                              .layers = 12,
                              .heads = 8,
                              .context = CONTEXT,
                              .vocab = VOCAB,
                              .whole_texts = c->whole_texts,
                              .quick_gelu = 1,
                              .precision = c->precision,
                              .training = 1,
                              .seed = 1,
                              .threads = threads,
                              .engine_owner = t->net[0]};
    training_fine(gf_net_create(&err, &text, &t->net[1]), &err);
    training_begin(&t->head, c, GLOFND_PAIRING_IMAGE_TEXT, spec.embed_dim, threads);
}

/* The parameters of net k at list + n; how many there are then. */
static int list_params(image_text *t, int k, gf_param *list, int n) {
    gf_tensor *tensor;
    const int count = gf_net_tensors(t->net[k], &tensor);
    float *first = gf_net_alloc_state(t->net[k]), *second = gf_net_alloc_state(t->net[k]);
    if (!first || !second) die("no memory for the optimizer");
    for (int i = 0; i < count && tensor[i].grad; i++, n++) {
        const gf_tensor *x = &tensor[i];
        list[n] = (gf_param){.p = x->value,
                             .g = x->grad,
                             .n = (size_t)x->stored,
                             .decay = gf_param_decays(x->rank, x->name),
                             .state1 = gf_net_place(t->net[k], first, x),
                             .state2 = gf_net_place(t->net[k], second, x)};
    }
    return n;
}

static void make_optimizer(image_text *t, int threads) {
    gf_error err = {""};
    gf_tensor *ignored;
    const gf_optim_rule rule = {
        .kind = GF_OPTIM_ADAMW, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6, .threads = threads};
    const int max = gf_net_tensors(t->net[0], &ignored) + gf_net_tensors(t->net[1], &ignored);
    gf_param *list = training_take((size_t)max, sizeof *list);
    const int count = list_params(t, 1, list, list_params(t, 0, list, 0));
    training_fine(gf_optim_create(&err, gf_net_backend(t->net[0]), gf_net_engine(t->net[0]), &rule, list, count, &t->optim),
                  &err);
    free(list);
}

/* As long as captions of Flickr8k. */
static void load_texts(image_text *t, int64_t batch, uint64_t *state) {
    gf_error err = {""};
    int32_t *tokens = training_take((size_t)(batch * CONTEXT), sizeof *tokens);
    for (int64_t i = 0; i < batch; i++) {
        int32_t *text = tokens + i * CONTEXT;
        const int last = caption_length(i, batch) - 1;
        text[0] = VOCAB - 2, text[last] = VOCAB - 1;
        for (int k = 1; k < last; k++) text[k] = (int32_t)(sample_random(state) % (VOCAB - 2));
    }
    training_fine(gf_net_load_tokens(&err, t->net[1], tokens, 0, batch), &err);
    free(tokens);
}

static training *make(const training_case *c, int threads) {
    image_text *t = training_take(1, sizeof *t);
    uint64_t state = 1;
    make_nets(t, c, threads);
    make_optimizer(t, threads);
    load_texts(t, c->batch, &state);
    training_draw(&t->head, c->batch, c->size, &state);
    return &t->head;
}

static void end(training *base) {
    image_text *t = (image_text *)base;
    gf_optim_free(t->optim);
    for (int k = 1; k >= 0; k--) gf_net_free(t->net[k]);
    training_end(base);
}

static size_t bytes(const training *base) {
    const image_text *t = (const image_text *)base;
    return gf_net_bytes(t->net[0]) + gf_net_bytes(t->net[1]);
}

/* ----- a step ----- */

static void optimizer_step(image_text *t) {
    gf_error err = {""};
    training_fine(gf_optim_set(&err, t->optim, 1e-4, ++t->steps), &err);
    training_fine(gf_optim_step(&err, t->optim), &err);
    for (int k = 0; k < 2; k++) gf_net_touch(t->net[k]);
}

static double step(training *base) {
    image_text *t = (image_text *)base;
    gf_error err = {""};
    double mark[7], *ms = base->part_ms;
    const float *image, *text;
    mark[0] = training_clock();
    training_fine(gf_net_forward(&err, t->net[0], base->x, base->batch, 1, NULL, &image), &err);
    mark[1] = training_clock();
    training_fine(gf_net_forward(&err, t->net[1], NULL, base->batch, 1, NULL, &text), &err);
    mark[2] = training_clock();
    training_loss(base, image, text);
    mark[3] = training_clock();
    training_fine(gf_net_backward(&err, t->net[0], base->grad[0]), &err);
    mark[4] = training_clock();
    training_fine(gf_net_backward(&err, t->net[1], base->grad[1]), &err);
    mark[5] = training_clock();
    optimizer_step(t);
    mark[6] = training_clock();
    ms[IMAGE] = 1e3 * (mark[1] - mark[0] + mark[4] - mark[3]);
    ms[TEXT] = 1e3 * (mark[2] - mark[1] + mark[5] - mark[4]);
    ms[LOSS] = 1e3 * (mark[3] - mark[2]);
    ms[OPTIMIZER] = 1e3 * (mark[6] - mark[5]);
    return 1e3 * (mark[6] - mark[0]);
}

const training_kind training_of_towers = {PARTS, names, make, step, bytes, end};
