/* weights_config.c - see weights_config.h. */
#include "eval/weights_config.h"

#include <stdio.h>
#include <string.h>

#include "io/safetensors.h"

#define HEAD_WIDTH 64 /* numbers of an attention head in all of open_clip's models of CLIP */

/* Image encoders of open_clip have "visual." in front of their names, or are alone in the file. */
static const gf_st_tensor *find(const gf_st_file *f, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "visual.%s", name);
    const gf_st_tensor *t = gf_st_find(f, full);
    return t ? t : gf_st_find(f, name);
}

/* Axis `axis` of a tensor; 0: there is none, or none that a network of this program can have. */
static int32_t axis_of(const gf_st_file *f, const char *name, int rank, int axis) {
    const gf_st_tensor *t = find(f, name);
    return t && t->rank == rank && t->shape[axis] > 0 && t->shape[axis] <= 65536 ? (int32_t)t->shape[axis] : 0;
}

static int32_t count_blocks(const gf_st_file *f) {
    char name[96];
    int32_t n = 0;
    for (; n < 256; n++) {
        snprintf(name, sizeof name, "transformer.resblocks.%d.ln_1.weight", (int)n);
        if (!find(f, name)) break;
    }
    return n;
}

/* Positions are a square and one more. */
static int32_t side_of(int32_t positions) {
    int32_t side = 0;
    while ((side + 1) * (side + 1) < positions && side < 1024) side++;
    return side * side + 1 == positions ? side : 0;
}

static void set_clip(gf_config *c) {
    c->task = GF_TASK_CLIP;
    c->pixels = GF_PIXELS_CLIP;
    c->eval_view = GF_EVAL_CLIP;
}

static int read_vit(const gf_st_file *f, gf_config *c) {
    set_clip(c);
    c->arch = GF_ARCH_VIT;
    c->image_width = axis_of(f, "class_embedding", 1, 0);
    c->patch = axis_of(f, "conv1.weight", 4, 2);
    c->image_layers = count_blocks(f);
    c->image_heads = c->image_width / HEAD_WIDTH;
    if (c->image_width && c->image_width < HEAD_WIDTH) c->image_heads = 1;
    c->embed_dim = axis_of(f, "proj", 2, 1);
    const int64_t size = (int64_t)side_of(axis_of(f, "positional_embedding", 2, 0)) * c->patch;
    c->size = size <= 4096 ? (int32_t)size : 0;
    return c->image_width && c->patch && c->image_layers && c->image_heads && c->embed_dim && c->size;
}

static int read_clip_resnet(const gf_st_file *f, gf_config *c) {
    set_clip(c);
    c->arch = GF_ARCH_CLIP_RESNET50;
    c->embed_dim = axis_of(f, "attnpool.c_proj.weight", 2, 0);
    c->size = 32 * side_of(axis_of(f, "attnpool.positional_embedding", 2, 0));
    return c->embed_dim && c->size;
}

/* Blocks of the stages tell them apart. */
static int read_resnet(const gf_st_file *f, const gf_dataset *data, gf_config *c) {
    const int32_t kernel = axis_of(f, "conv1.weight", 4, 2), dim = axis_of(f, "proj.weight", 2, 0);
    if (dim) set_clip(c), c->embed_dim = dim;
    c->stem = kernel == 3;
    if (!find(f, "layer4.0.conv1.weight")) c->arch = GF_ARCH_RESNET8;
    else if (find(f, "layer1.0.conv3.weight")) c->arch = GF_ARCH_RESNET50;
    else c->arch = find(f, "layer3.5.conv1.weight") ? GF_ARCH_RESNET34 : GF_ARCH_RESNET18;
    const gf_sizes sizes = c->stem ? gf_dataset_sizes(data) : (gf_sizes){0};
    c->size = c->stem ? gf_sizes_default_view(&sizes) : GF_SIZES_VIEW;
    return (kernel == 3 || kernel == 7) && find(f, "layer1.0.conv1.weight") != NULL;
}

/* ----- files of no network ----- */

/* Characters in front of the names of all tensors of a ResNet or ViT, as in "encoder.layer1.0.conv1.weight"; 0: none. */
static int prefix_of(const gf_st_file *f, const char **of) {
    static const char *const ends[] = {".layer1.0.conv1.weight", ".class_embedding"};
    for (int64_t i = 0; i < f->count; i++)
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            const size_t n = strlen(f->tensors[i].name), end = strlen(ends[e]);
            *of = f->tensors[i].name;
            if (n > end && n < 64 && strcmp(*of + n - end, ends[e]) == 0) return (int)(n - end + 1);
        }
    return 0;
}

static const char *missing_of_resnet(const gf_st_file *f) {
    static const char *const every[] = {"conv1.weight", "layer1.0.conv1.weight"};
    if (!find(f, "layer2.0.conv1.weight")) return NULL; /* no ResNet */
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        if (!find(f, every[i])) return every[i];
    return NULL;
}

static glofnd_status refuse_file(gf_error *err, const gf_st_file *f) {
    const char *name, *missing = missing_of_resnet(f);
    const int prefix = prefix_of(f, &name);
    FAIL_IF(err, missing, GLOFND_E_FORMAT,
            "%.200s: the tensor %s is missing, which every ResNet has; save all of model.state_dict() again", f->path, missing);
    FAIL_IF(err, prefix > 0, GLOFND_E_FORMAT,
            "%.200s: its tensors have '%.*s' in front of their names; leave it out: "
            "python -m glofnd convert x.pth x.safetensors --prefix %.*s",
            f->path, prefix, name, prefix, name);
    GF_FAIL(
        err, GLOFND_E_FORMAT,
        "%.200s: its tensors ('%.80s' and %lld more) are those of no network that is known here: resnet18, resnet34 and resnet50 "
        "of torchvision, ResNet-50 and ViTs of open_clip, models of this program",
        f->path, f->count ? f->tensors[0].name : "", (long long)(f->count ? f->count - 1 : 0));
}

static glofnd_status read_file(gf_error *err, const gf_st_file *f, const gf_weights_request *request, const gf_dataset *data,
                               gf_config *c) {
    char arch[32];
    const int known = find(f, "class_embedding")                 ? read_vit(f, c)
                      : find(f, "attnpool.positional_embedding") ? read_clip_resnet(f, c)
                                                                 : read_resnet(f, data, c);
    if (!known) return refuse_file(err, f);
    gf_config_text(c, "arch", arch, sizeof arch);
    FAIL_IF(err, request->arch && strcmp(request->arch, arch) != 0, GLOFND_E_FORMAT,
            "%.300s holds a %s by its tensors; --arch is %.60s", f->path, arch, request->arch);
    if (request->size) c->size = request->size;
    c->quick_gelu = request->quick_gelu;
    return GLOFND_OK;
}

glofnd_status gf_weights_config(gf_error *err, const char *path, const gf_weights_request *request, const gf_dataset *data,
                                gf_config *out) {
    gf_st_file f = {0};
    TRY(gf_config_init(err, out));
    out->eval_view = GF_EVAL_CENTER, out->stem = 0;
    TRY(gf_st_open(err, path, &f));
    const glofnd_status status = read_file(err, &f, request, data, out);
    gf_st_close(&f);
    return status;
}
