/* datacomp.c - see datacomp.h. Folders are those that the benchmark's download makes: wds_KEY_test, with - for / in the key. */
#include "eval/datacomp.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"

#define TOP1(key, title, name, size) \
    { key, title, name, GF_SCORE_TOP1, size, -1, NULL }
#define MEAN(key, title, name, size) \
    { key, title, name, GF_SCORE_MEAN, size, -1, NULL }

static const gf_datacomp_task tasks[] = {
    TOP1("imagenet1k", "ImageNet 1k", "imagenet1k", 50000),
    TOP1("imagenet_sketch", "ImageNet Sketch", "imagenet_sketch", 50889),
    TOP1("imagenetv2", "ImageNet v2", "imagenetv2", 10000),
    TOP1("imagenet-a", "ImageNet-A", "imagenet-a", 7500),
    TOP1("imagenet-o", "ImageNet-O", "imagenet-o", 2000),
    TOP1("imagenet-r", "ImageNet-R", "imagenet-r", 30000),
    TOP1("objectnet", "ObjectNet", "objectnet", 18574),
    MEAN("vtab/caltech101", "Caltech-101", "caltech101", 6085),
    TOP1("cifar10", "CIFAR-10", "cifar10", 10000),
    TOP1("vtab/cifar100", "CIFAR-100", "cifar100", 10000),
    TOP1("vtab/clevr_count_all", "CLEVR Counts", "clevr_count_all", 15000),
    TOP1("vtab/clevr_closest_object_distance", "CLEVR Distance", "clevr_distance", 15000),
    TOP1("country211", "Country211", "country211", 21100),
    TOP1("vtab/dtd", "Describable Textures", "dtd", 1880),
    TOP1("vtab/eurosat", "EuroSAT", "eurosat", 5400),
    MEAN("fgvc_aircraft", "FGVC Aircraft", "aircraft", 3333),
    TOP1("food101", "Food-101", "food101", 25250),
    TOP1("gtsrb", "GTSRB", "gtsrb", 12630),
    TOP1("vtab/kitti_closest_vehicle_distance", "KITTI Vehicle Distance", "kitti", 711),
    TOP1("mnist", "MNIST", "mnist", 10000),
    MEAN("vtab/flowers", "Oxford Flowers-102", "flowers", 6149),
    MEAN("vtab/pets", "Oxford-IIIT Pet", "pets", 3669),
    TOP1("voc2007", "Pascal VOC 2007", "voc2007", 14976),
    TOP1("vtab/pcam", "PatchCamelyon", "pcam", 32768),
    TOP1("renderedsst2", "Rendered SST2", "renderedsst2", 1821),
    TOP1("vtab/resisc45", "RESISC45", "resisc45", 6300),
    TOP1("cars", "Stanford Cars", "cars", 8041),
    TOP1("stl10", "STL-10", "stl10", 8000),
    TOP1("sun397", "SUN397", "sun397", 108754),
    TOP1("vtab/svhn", "SVHN", "svhn", 26032),
    {"retrieval/flickr_1k_test_image_text_retrieval", "Flickr", "flickr30k", GF_SCORE_RECALL, 0, -1, "retrieval/flickr30k"},
    {"retrieval/mscoco_2014_5k_test_image_text_retrieval", "MSCOCO", "coco", GF_SCORE_RECALL, 5000, -1, NULL},
    {"misc/winogavil", "WinoGAViL", "winogavil", GF_SCORE_JACCARD, 0, -1, NULL},
    {"wilds/iwildcam", "iWildCam", "iwildcam", GF_SCORE_MACRO_F1, 42791, -1, NULL},
    TOP1("wilds/camelyon17", "Camelyon17", "camelyon17", 85054),
    {"wilds/fmow", "FMoW", "fmow", GF_SCORE_WORST_GROUP, 22108, 5, NULL}, /* 5: images of no region */
    {"dollar_street", "Dollar Street", "dollar_street", GF_SCORE_WORST_GROUP5, 3503, -1, NULL},
    {"geode", "GeoDE", "geode", GF_SCORE_WORST_GROUP, 12488, -1, NULL},
};
_Static_assert(sizeof tasks / sizeof *tasks == GF_DATACOMP_TASKS, "tasks of the benchmark");

const gf_datacomp_task *gf_datacomp_at(int i) { return i >= 0 && i < GF_DATACOMP_TASKS ? &tasks[i] : NULL; }

const gf_datacomp_task *gf_datacomp_find(const char *name) {
    for (int i = 0; i < GF_DATACOMP_TASKS; i++)
        if (strcmp(tasks[i].name, name) == 0) return &tasks[i];
    return NULL;
}

static int try_folder(const char *key, const char *root, char *out, size_t bytes) {
    const int n = snprintf(out, bytes, "%s/wds_%s_test", root, key);
    if (n < 0 || (size_t)n >= bytes) return 0;
    for (char *p = out + strlen(root) + 1; *p; p++) *p = *p == '/' ? '-' : *p;
    return gf_is_folder(out);
}

int gf_datacomp_folder(const gf_datacomp_task *t, const char *root, char *out, size_t bytes) {
    if (try_folder(t->key, root, out, bytes) || (t->other && try_folder(t->other, root, out, bytes))) return 1;
    if (t->scoring == GF_SCORE_JACCARD) { /* it is no set of shards */
        if ((size_t)snprintf(out, bytes, "%s/winogavil", root) < bytes && gf_is_folder(out)) return 1;
        snprintf(out, bytes, "winogavil");
        return 0;
    }
    snprintf(out, bytes, "wds_%s_test", t->key);
    for (char *p = out; *p; p++) *p = *p == '/' ? '-' : *p;
    return 0;
}
