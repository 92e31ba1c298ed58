/* net_spec.c - checks whether a net can be made; messages name the value and the expected range. */
#include "nn/net_parts.h"

int gf_spec_is_resnet(const gf_net_spec *s) { return s->arch <= GF_ARCH_RESNET50; }
int gf_spec_has_embedding(const gf_net_spec *s) { return !gf_spec_is_resnet(s) || s->embed_dim > 0; }

static glofnd_status check_images(gf_error *err, const gf_net_spec *s) {
    FAIL_IF(err, s->size < 8 || s->size > 4096, GLOFND_E_ARGUMENT, "image size %d: it must be 8 to 4096 pixels", s->size);
    const int64_t pixels = s->batch * s->size * s->size; /* both are bounded */
    FAIL_IF(err, pixels > (int64_t)1 << 33, GLOFND_E_ARGUMENT,
            "%lld images of %d x %d pixels at a time; a network takes at most 2^33 pixels: lower batch or size",
            (long long)s->batch, s->size, s->size);
    FAIL_IF(err, s->training && s->batch < 2 && s->arch != GF_ARCH_VIT, GLOFND_E_ARGUMENT,
            "batch 1 cannot be trained on: batch norm needs two images");
    return GLOFND_OK;
}

static glofnd_status check_head(gf_error *err, const gf_net_spec *s) {
    FAIL_IF(err, s->head_hidden < 0 || s->head_hidden > 1 << 16 || s->head_out < 0 || s->head_out > 1 << 16, GLOFND_E_ARGUMENT,
            "head %d x %d: widths must be 0 to 65536", s->head_hidden, s->head_out);
    FAIL_IF(err, (s->head_hidden == 0) != (s->head_out == 0), GLOFND_E_ARGUMENT,
            "head %d x %d: give both widths, or 0 for both (no head)", s->head_hidden, s->head_out);
    FAIL_IF(err, s->head_out > 0 && gf_spec_has_embedding(s), GLOFND_E_ARGUMENT,
            "a net with an embedding (%d) has no head (%d x %d): give 0 for both of its widths", s->embed_dim, s->head_hidden,
            s->head_out);
    return GLOFND_OK;
}

static glofnd_status check_transformer(gf_error *err, const gf_net_spec *s) {
    FAIL_IF(err, s->width < 8 || s->width > 1 << 14, GLOFND_E_ARGUMENT, "width %d of a transformer: it must be 8 to 16384",
            s->width);
    FAIL_IF(err, s->layers < 1 || s->layers > GF_MAX_DEPTH, GLOFND_E_ARGUMENT, "%d layers of a transformer: 1 to %d are possible",
            s->layers, (int)GF_MAX_DEPTH);
    FAIL_IF(err, s->heads < 1 || s->width % s->heads != 0, GLOFND_E_ARGUMENT,
            "%d heads: they must divide the width of the transformer, %d", s->heads, s->width);
    return GLOFND_OK;
}

static glofnd_status check_vit(gf_error *err, const gf_net_spec *s) {
    TRY(check_transformer(err, s));
    FAIL_IF(err, s->patch < 1 || s->patch > s->size || s->size % s->patch != 0, GLOFND_E_ARGUMENT,
            "patches of %d pixels: they must divide the image size, %d", s->patch, s->size);
    const int64_t tokens = (int64_t)(s->size / s->patch) * (s->size / s->patch) + 1;
    FAIL_IF(err, tokens > 4096, GLOFND_E_ARGUMENT,
            "patches of %d pixels make %lld tokens of an image of %d, and 4096 are possible: use larger ones", s->patch,
            (long long)tokens, s->size);
    return GLOFND_OK;
}

static glofnd_status check_text(gf_error *err, const gf_net_spec *s) {
    TRY(check_transformer(err, s));
    FAIL_IF(err, s->context < 2 || s->context > 4096, GLOFND_E_ARGUMENT, "context of %d tokens: it must be 2 to 4096",
            s->context);
    FAIL_IF(err, s->batch * s->context > INT32_MAX, GLOFND_E_ARGUMENT,
            "%lld texts of %d tokens at a time; a network takes at most 2^31 - 1 tokens: lower batch or context",
            (long long)s->batch, s->context);
    FAIL_IF(err, s->vocab < 2 || s->vocab > 1 << 24, GLOFND_E_ARGUMENT, "vocabulary of %d tokens: it must be 2 to 16777216",
            s->vocab);
    return GLOFND_OK;
}

static glofnd_status check_clip_resnet(gf_error *err, const gf_net_spec *s) {
    const int width = s->width ? s->width : 64, heads = s->heads ? s->heads : width / 2;
    FAIL_IF(err, width < 2 || width > 1024 || width % 2 != 0, GLOFND_E_ARGUMENT, "width %d: it must be even, 2 to 1024", width);
    FAIL_IF(err, heads < 1 || 32 * width % heads != 0, GLOFND_E_ARGUMENT,
            "%d heads of the attention pooling: they must divide its width, %d", heads, 32 * width);
    FAIL_IF(err, s->size % 32 != 0, GLOFND_E_ARGUMENT, "image size %d: it must be a multiple of 32 pixels", s->size);
    return GLOFND_OK;
}

glofnd_status gf_net_check(gf_error *err, const gf_net_spec *s) {
    FAIL_IF(err, s->arch < GF_ARCH_RESNET8 || s->arch > GF_ARCH_TEXT, GLOFND_E_ARGUMENT, "arch %d is not known", (int)s->arch);
    FAIL_IF(err, s->precision != GF_FP32 && s->precision != GF_BF16, GLOFND_E_ARGUMENT, "precision %d is not known",
            (int)s->precision);
    FAIL_IF(err, s->batch < 1 || s->batch > 1 << 20, GLOFND_E_ARGUMENT,
            "batch: %lld images at a time, the two views of one counted twice; a network takes 1 to 1048576",
            (long long)s->batch);
    FAIL_IF(err, s->threads < 0 || s->threads > 4096, GLOFND_E_ARGUMENT, "threads %d: it must be 0 to 4096", s->threads);
    FAIL_IF(err, s->embed_dim < 0 || s->embed_dim > 1 << 16 || (!gf_spec_is_resnet(s) && s->embed_dim < 1), GLOFND_E_ARGUMENT,
            "embedding of %d numbers: it must be 1 to 65536", s->embed_dim);
    if (s->arch != GF_ARCH_TEXT) TRY(check_images(err, s));
    TRY(check_head(err, s));
    switch (s->arch) {
    case GF_ARCH_CLIP_RESNET50: return check_clip_resnet(err, s);
    case GF_ARCH_VIT: return check_vit(err, s);
    case GF_ARCH_TEXT: return check_text(err, s);
    default: return GLOFND_OK;
    }
}
