/* shapes.c - the embedded dataset: drawn pictures, any number, nothing stored. See shapes.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/formats/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_format.h"

#define TEST_SPLIT 1u

typedef struct shapes {
    int64_t seed, classes, size, n;
    uint32_t split;
    int class_captions; /* captions name the class and nothing else of the picture */
} shapes;

/* Pairs (c mod 12, c mod 10) repeat after 60 and always have equal parity; a shift by one gives the other 60. */
void gf_shapes_class(int32_t c, int *shape, int *texture) {
    *shape = c % GF_SHAPES;
    *texture = (c + c / 60) % GF_TEXTURES;
}

static glofnd_status name_classes(gf_error *err, gf_dataset *d, int64_t classes) {
    for (int32_t c = 0; c < classes; c++) {
        int shape, texture;
        char name[64];
        gf_shapes_class(c, &shape, &texture);
        snprintf(name, sizeof name, "%s %s", gf_texture_name(texture), gf_shape_name(shape));
        TRY(gf_string_list_add(err, &d->classes, name, strlen(name)));
    }
    return GLOFND_OK;
}

static glofnd_status open_shapes(gf_error *err, gf_dataset *d) {
    shapes *s = malloc(sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory to open shapes");
    d->self = s;
    *s = (shapes){.seed = 1, .classes = 20, .size = 32, .n = 4096};
    TRY(gf_spec_integer(err, &d->spec, "n", 1, (int64_t)1 << 40, &s->n));
    TRY(gf_spec_integer(err, &d->spec, "classes", 1, GF_SHAPE_CLASSES, &s->classes));
    TRY(gf_spec_integer(err, &d->spec, "size", 8, 1024, &s->size));
    TRY(gf_spec_integer(err, &d->spec, "seed", 0, INT64_MAX, &s->seed));
    const char *split = gf_spec_value(&d->spec, "split");
    FAIL_IF(err, split && strcmp(split, "train") && strcmp(split, "test"), GLOFND_E_OPTION,
            "data 'shapes': split is '%.60s'; it must be train or test", split);
    s->split = split && strcmp(split, "test") == 0 ? TEST_SPLIT : 0;
    const char *captions = gf_spec_value(&d->spec, "captions");
    FAIL_IF(err, captions && strcmp(captions, "class") && strcmp(captions, "scene"), GLOFND_E_OPTION,
            "data 'shapes': captions is '%.60s'; it must be scene or class", captions);
    s->class_captions = captions && strcmp(captions, "class") == 0;
    d->info = (gf_dataset_info){.format = d->format->name,
                                .n = s->n,
                                .classes = (int32_t)s->classes,
                                .has_text = 1,
                                .width = (int)s->size,
                                .height = (int)s->size};
    return name_classes(err, d, s->classes);
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return (int32_t)(i % ((const shapes *)d->self)->classes); }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const shapes *s = d->self;
    snprintf(out, bytes, "shapes %s #%lld", s->split == TEST_SPLIT ? "test" : "train", (long long)i);
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const shapes *s = d->self;
    char text[96];
    const int n = snprintf(text, sizeof text, "shapes/%lld/%u/%lld", (long long)s->seed, s->split, (long long)i);
    return gf_key_hash(text, (size_t)n);
}

static gf_scene scene_of(const shapes *s, int64_t i, int32_t label) {
    int shape, texture;
    gf_shapes_class(label, &shape, &texture);
    return gf_scene_make((uint64_t)s->seed, s->split, i, shape, texture);
}

/* All phrases, a line each. */
static glofnd_status describe(gf_error *err, const gf_dataset *d, const gf_scene *scene, gf_sample *out) {
    if (((const shapes *)d->self)->class_captions)
        return gf_sample_set_class_text(err, out, gf_string_list_get(&d->classes, out->label));
    char captions[GF_PHRASES * 128];
    size_t used = 0;
    for (int k = 0; k < GF_PHRASES; k++) {
        gf_scene_caption(scene, k, captions + used, sizeof captions - used - 1);
        used += strlen(captions + used);
        captions[used++] = '\n';
    }
    return gf_sample_set_text(err, out, captions, used);
}

static glofnd_status read_shapes(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    (void)hint;
    const shapes *s = d->self;
    TRY(gf_image_resize(err, &out->image, (int)s->size, (int)s->size));
    const gf_scene scene = scene_of(s, i, out->label);
    gf_scene_draw(&scene, (int)s->size, out->image.rgb);
    return describe(err, d, &scene, out);
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    const gf_scene scene = scene_of(d->self, i, out->label);
    return describe(err, d, &scene, out);
}

/* A quarter of the training pictures, but at least ten of each class. */
static int test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const shapes *s = d->self;
    if (s->split == TEST_SPLIT) return 0;
    const int64_t n = s->n / 4 > 10 * s->classes ? s->n / 4 : 10 * s->classes;
    const int written =
        snprintf(out, bytes, "shapes:n=%lld,classes=%lld,size=%lld,seed=%lld,split=test%s", (long long)n, (long long)s->classes,
                 (long long)s->size, (long long)s->seed, s->class_captions ? ",captions=class" : "");
    return written > 0 && (size_t)written < bytes;
}

static void close_shapes(void *self) { free(self); }

static const char *const options[] = {"n", "classes", "size", "seed", "split", "captions", NULL};

const gf_dataset_format gf_format_shapes = {
    .name = "shapes",
    .options = options,
    .place_is_options = 1,
    .open = open_shapes,
    .close = close_shapes,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_shapes,
    .read_text = read_text,
    .test_spec = test_spec,
};
