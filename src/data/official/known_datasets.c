/* known_datasets.c - see known_datasets.h. Counts are those of the official downloads; default splits those of torchvision. */
#include "data/official/known_datasets.h"

#include <string.h>

#include "data/official/official.h"

static const char *const plain[] = {"split", "counts", NULL};
static const char *const parted[] = {"split", "partition", "counts", NULL};

/* The first eight are the paper's transfer table, in its order. */
static const gf_known_dataset datasets[] = {
    {.name = "cifar10",
     .title = "CIFAR10",
     .full = "CIFAR-10",
     .classes = 10,
     .split = {{"train", 50000}, {"test", 10000}},
     .test = "test"},
    {.name = "cifar100",
     .title = "CIFAR100",
     .full = "CIFAR-100",
     .classes = 100,
     .split = {{"train", 50000}, {"test", 10000}},
     .test = "test"},
    {.name = "food101",
     .title = "Food101",
     .full = "Food-101",
     .classes = 101,
     .split = {{"train", 75750}, {"test", 25250}},
     .test = "test",
     .folder = {"food-101"},
     .mark = {"meta/train.txt"},
     .wants = "images/ and meta/ of food-101.tar.gz",
     .options = plain,
     .read = gf_read_food101},
    {.name = "caltech101",
     .title = "Caltech101",
     .full = "Caltech-101",
     .classes = 101,
     .scoring = GF_SCORE_MEAN,
     .split = {{"all", 8677}},
     .folder = {"101_ObjectCategories", "caltech-101/101_ObjectCategories", "caltech101/101_ObjectCategories"},
     .wants = "101_ObjectCategories/ with a folder per class",
     .options = plain,
     .read = gf_read_caltech101},
    {.name = "cars",
     .title = "Cars",
     .full = "Stanford Cars",
     .classes = 196,
     .split = {{"train", 8144}, {"test", 8041}},
     .test = "test",
     .folder = {"stanford_cars", "stanford-cars"},
     .mark = {"devkit", "car_devkit", "cars_annos.mat"},
     .wants = "cars_train/, cars_test/, devkit/ and cars_test_annos_withlabels.mat; or car_ims/ and cars_annos.mat",
     .options = plain,
     .read = gf_read_cars},
    {.name = "dtd",
     .title = "DTD",
     .full = "Describable Textures",
     .classes = 47,
     .split = {{"train", 1880}, {"val", 1880}, {"trainval", 3760}, {"test", 1880}},
     .test = "test",
     .partitions = 10,
     .folder = {"dtd"},
     .mark = {"labels/train1.txt"},
     .wants = "images/ and labels/ of dtd-r1.0.1.tar.gz",
     .options = parted,
     .read = gf_read_dtd},
    {.name = "pets",
     .title = "Pets",
     .full = "Oxford-IIIT Pet",
     .classes = 37,
     .scoring = GF_SCORE_MEAN,
     .split = {{"trainval", 3680}, {"test", 3669}},
     .test = "test",
     .folder = {"oxford-iiit-pet"},
     .mark = {"annotations/trainval.txt"},
     .wants = "images/ and annotations/ of images.tar.gz and annotations.tar.gz",
     .options = plain,
     .read = gf_read_pets},
    {.name = "flowers",
     .title = "Flowers",
     .full = "Oxford 102 Flowers",
     .classes = 102,
     .scoring = GF_SCORE_MEAN,
     .split = {{"train", 1020}, {"val", 1020}, {"trainval", 2040}, {"test", 6149}},
     .test = "test",
     .folder = {"flowers-102", "flowers102"},
     .mark = {"imagelabels.mat"},
     .wants = "jpg/ of 102flowers.tgz, imagelabels.mat and setid.mat",
     .options = plain,
     .read = gf_read_flowers},
    {.name = "aircraft",
     .title = "Aircraft",
     .full = "FGVC Aircraft (variants)",
     .classes = 100,
     .scoring = GF_SCORE_MEAN,
     .split = {{"trainval", 6667}, {"train", 3334}, {"val", 3333}, {"test", 3333}},
     .test = "test",
     .folder = {"data", "fgvc-aircraft-2013b/data"},
     .mark = {"images_variant_test.txt"},
     .wants = "data/ of fgvc-aircraft-2013b.tar.gz: images/, variants.txt, images_variant_*.txt",
     .options = plain,
     .read = gf_read_aircraft},
    {.name = "sun397",
     .title = "SUN397",
     .full = "SUN397",
     .classes = 397,
     .split = {{"train", 19850}, {"test", 19850}, {"all", 108754}},
     .test = "test",
     .partitions = 10,
     .folder = {"SUN397"},
     .mark = {"ClassName.txt"},
     .wants = "SUN397/ of SUN397.tar.gz, and for train and test the lists of Partitions.zip",
     .options = parted,
     .read = gf_read_sun397},
    {.name = "voc2007",
     .title = "VOC2007",
     .full = "Pascal VOC 2007",
     .classes = 20,
     .scoring = GF_SCORE_MAP11,
     .split = {{"trainval", 5011}, {"train", 2501}, {"val", 2510}, {"test", 4952}},
     .test = "test",
     .folder = {"VOC2007", "VOCdevkit/VOC2007"},
     .mark = {"ImageSets/Main"},
     .wants = "VOCdevkit/VOC2007/ of VOCtrainval_06-Nov-2007.tar and VOCtest_06-Nov-2007.tar",
     .options = plain,
     .read = gf_read_voc2007},
};

#define COUNT ((int)(sizeof datasets / sizeof *datasets))

const gf_known_dataset *gf_known_at(int i) { return i >= 0 && i < COUNT ? &datasets[i] : NULL; }

const gf_known_dataset *gf_known_find(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(datasets[i].name, name) == 0) return &datasets[i];
    return NULL;
}

const gf_known_split *gf_known_split_find(const gf_known_dataset *k, const char *name) {
    for (const gf_known_split *s = k->split; s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

static const struct {
    const char *key, *title;
} metrics[] = {
    [GF_SCORE_TOP1] = {"top1", "top-1"},
    [GF_SCORE_MEAN] = {"mean_per_class", "mean per class"},
    [GF_SCORE_MAP11] = {"map11", "11-point mAP"},
    [GF_SCORE_RECALL] = {"mean_recall1", "mean R@1"},
};

const char *gf_scoring_key(gf_scoring m) { return metrics[m].key; }
const char *gf_scoring_title(gf_scoring m) { return metrics[m].title; }
