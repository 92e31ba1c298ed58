/* unit_open_clip.c - weights written by open_clip are read and give its embeddings; what we write it loads as its own, strictly.
 *
 * Python makes models and judges what comes back (tools/check_open_clip.py). Skipped where python3 or open_clip is missing;
 * another Python: GLOFND_TEST_PYTHON. Whole models instead of small ones: GLOFND_TEST_OPEN_CLIP="RN50 ViT-B-32".
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef GF_HAVE_DNNL

#include "io/safetensors.h"
#include "loop/model.h"
#include "support/nn_reference.h"
#include "support/source_file.h"

#define LIMIT 1e-4 /* of the norm of an embedding */

enum { RESNET, SIZE, EMBED, WIDTH, LAYERS, HEADS, PATCH, QUICK, CONTEXT, VOCAB, TEXT_WIDTH, TEXT_LAYERS, TEXT_HEADS, SPECS };

static char folder[64];

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The exit status. */
static int python(const char *what, const char *name) {
    char command[6144];
    const char *program = getenv("GLOFND_TEST_PYTHON");
    snprintf(command, sizeof command, "'%.256s' '%s' %s '%.64s' '%s' 2>&1", program ? program : "python3",
             source_file("tools/check_open_clip.py"), what, name, folder);
    const int status = system(command);
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/* A tensor of inputs.safetensors; the caller frees it. */
static void *input(const gf_st_file *f, const char *name, int64_t count) {
    gf_error err = {""};
    const gf_st_tensor *t = gf_st_find(f, name);
    assert_non_null(t);
    assert_int_equal(t->count, count);
    void *x = malloc(4 * (size_t)count);
    ok(gf_st_read(&err, f, t, x, 4 * (size_t)count), &err);
    return x;
}

static void make_towers(const int32_t *s, int64_t n, gf_net *encoders[2]) {
    gf_error err = {""};
    gf_net_spec image = {.arch = s[RESNET] ? GF_ARCH_CLIP_RESNET50 : GF_ARCH_VIT,
                         .batch = n,
                         .size = s[SIZE],
                         .embed_dim = s[EMBED],
                         .width = s[WIDTH],
                         .layers = s[LAYERS],
                         .heads = s[HEADS],
                         .patch = s[PATCH],
                         .quick_gelu = s[QUICK]};
    ok(gf_net_create(&err, &image, &encoders[0]), &err);
    const gf_net_spec text = {.arch = GF_ARCH_TEXT,
                              .batch = n,
                              .embed_dim = s[EMBED],
                              .width = s[TEXT_WIDTH],
                              .layers = s[TEXT_LAYERS],
                              .heads = s[TEXT_HEADS],
                              .context = s[CONTEXT],
                              .vocab = s[VOCAB],
                              .quick_gelu = s[QUICK],
                              .engine_owner = encoders[0]};
    ok(gf_net_create(&err, &text, &encoders[1]), &err);
}

static void compare(const gf_st_file *f, const int32_t *s, gf_net *encoders[2]) {
    gf_error err = {""};
    const int64_t n = 3, numbers = n * s[EMBED];
    float *images = input(f, "images", n * s[SIZE] * s[SIZE] * 3);
    float *want_image = input(f, "image_embedding", numbers), *want_text = input(f, "text_embedding", numbers);
    int32_t *tokens = input(f, "tokens", n * s[CONTEXT]);
    const float *z;
    ok(gf_net_forward(&err, encoders[0], images, n, 0, NULL, &z), &err);
    const double image = ref_distance_floats(z, want_image, numbers);
    ok(gf_net_load_tokens(&err, encoders[1], tokens, 0, n), &err);
    ok(gf_net_forward(&err, encoders[1], NULL, n, 0, NULL, &z), &err);
    const double text = ref_distance_floats(z, want_text, numbers);
    print_message("image embeddings within %.2e, text embeddings within %.2e\n", image, text);
    assert_true(image < LIMIT && text < LIMIT);
    free(images), free(want_image), free(want_text), free(tokens);
}

static void there_and_back(const char *name) {
    gf_error err = {""};
    gf_st_file f = {0};
    gf_net *encoders[2] = {NULL, NULL};
    gf_weights_report report;
    float scale = 0;
    const gf_model model = {encoders, 2, &scale};
    print_message("%s: ", name);
    assert_int_equal(python("make", name), 0);
    ok(gf_st_open(&err, path_of("inputs.safetensors"), &f), &err);
    int32_t *s = input(&f, "spec", SPECS);
    make_towers(s, 3, encoders);
    ok(gf_weights_load_model(&err, &model, path_of("model.safetensors"), GF_WEIGHTS_STRICT, &report), &err);
    assert_string_equal(report.text, "");
    assert_true(fabsf(scale - 2.5f) < 1e-2f);
    compare(&f, s, encoders);
    ok(gf_weights_save_model(&err, &model, path_of("saved.safetensors")), &err);
    assert_int_equal(python("check", name), 0);
    gf_net_free(encoders[1]);
    gf_net_free(encoders[0]);
    gf_st_close(&f);
    free(s);
}

TEST(weights_go_there_and_back) {
    const char *wanted = getenv("GLOFND_TEST_OPEN_CLIP");
    char names[256], *rest = names;
    snprintf(names, sizeof names, "%s", wanted ? wanted : "small-resnet small-vit small-bf16");
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) there_and_back(name);
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "open_clip_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const files[] = {"model.safetensors", "inputs.safetensors", "saved.safetensors"};
    for (int i = 0; i < 3; i++) remove(path_of(files[i]));
    return rmdir(folder);
}

static const char *no_open_clip(void) {
    const int status = python("nothing", "of it"); /* it only looks at what it can import */
    return status == 77 || status == 127 ? "no python3 with open_clip" : NULL;
}

TEST_NEEDS(no_open_clip)
TEST_GROUP(make_folder, remove_folder)

#else
TEST_SKIP("built without oneDNN")
#endif
