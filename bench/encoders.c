/* encoders.c - times the training step of image and text encoders on the CPU: both forward, bimodal SogCLR with GloFND, both
 * backward, AdamW; by its parts, and in turns with PyTorch where there is one. `encoders --help` says how to call it,
 * docs/benchmarks.md what came out.
 */
#include <stdio.h>

#include "support/turns.h"

static const char about[] =
    "Times training steps of CLIP's encoders at 224 pixels, ViT-B/32 or its ResNet-50 beside its text transformer (12 layers of\n"
    "512, context 77, texts as long as captions of Flickr8k), fp32 and bf16: both forward, bimodal SogCLR with GloFND, both\n"
    "backward, AdamW. PyTorch takes the same steps in turns, so that both see the same machine; it computes all 77 positions,\n"
    "as open_clip does, and needs a python3 in the path that has torch.\n";

static void heading(void) {
    printf("%-7s %-4s %-7s %5s %9s %5s", "image", "", "", "pairs", "ms", "+-%");
    for (int k = 0; k < training_of_towers.parts; k++) printf(" %9s", training_of_towers.names[k]);
    printf("\n");
}

static void side_row(const training_case *c, const char *name, turns_side *s) {
    printf("%-7s %-4s %-7s %5d %9.1f %5.1f", c->net, training_precision(c), name, c->batch, turns_time(&s->all),
           100 * clock_spread(&s->all));
    for (int k = 0; k < training_of_towers.parts; k++) printf(" %9.1f", turns_time(&s->part[k]));
    printf("\n");
}

static void rows(const training_case *c, turns_result *r) {
    side_row(c, "glofnd", &r->ours);
    if (!r->torch.all.count) return;
    side_row(c, "torch", &r->torch);
    printf("%-7s %-4s %-7s %5s %9.2f %5s", "", "", "ratio", "", turns_ratio(r), "");
    for (int k = 0; k < training_of_towers.parts; k++)
        printf(" %9.2f", turns_time(&r->torch.part[k]) / turns_time(&r->ours.part[k]));
    printf("\n");
}

static void json_side(const char *prefix, turns_side *s) {
    printf(", \"%sms\": %.3f, \"%sspread\": %.4f", prefix, turns_time(&s->all), prefix, clock_spread(&s->all));
    for (int k = 0; k < training_of_towers.parts; k++)
        printf(", \"%s%s_ms\": %.3f", prefix, training_of_towers.names[k], turns_time(&s->part[k]));
}

static void json(const training_case *c, turns_result *r, const machine *m, int threads) {
    printf("{\"bench\": \"encoders\", \"image\": \"%s\", \"precision\": \"%s\", \"B\": %d, \"threads\": %d, \"cpu\": \"%s\", "
           "\"isa\": \"%s\", \"whole_texts\": %d, \"steps\": %d, \"bytes\": %zu, \"loss\": %.6g",
           c->net, training_precision(c), c->batch, threads, m->cpu, m->isa, c->whole_texts, r->ours.all.count, r->bytes,
           (double)r->loss);
    json_side("", &r->ours);
    if (r->torch.all.count) {
        printf(", \"torch\": \"%s\"", r->version);
        json_side("torch_", &r->torch);
        printf(", \"ratio\": %.4f", turns_ratio(r));
    }
    printf("}\n");
}

int main(int argc, char **argv) {
    const turns_program encoders = {.name = "encoders",
                                    .about = about,
                                    .kind = &training_of_towers,
                                    .steps = 5,
                                    .has_batch = 1,
                                    .cases = {{"vitb32", 224, 16, GF_FP32},
                                              {"vitb32", 224, 16, GF_BF16},
                                              {"rn50", 224, 16, GF_FP32},
                                              {"rn50", 224, 16, GF_BF16}},
                                    .script = "bench_torch_clip.py",
                                    .needs = "torch (pip install torch)",
                                    .net_flag = "--image",
                                    .more = {"--device", "cpu"},
                                    .heading = heading,
                                    .rows = rows,
                                    .json = json};
    return turns_main(&encoders, argc, argv);
}
