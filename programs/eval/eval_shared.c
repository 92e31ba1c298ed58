/* eval_shared.c - see eval.h. */
#include <stdio.h>
#include <string.h>

#include "programs/eval/eval.h"
#include "programs/trained_run.h"
#include "data/spec.h"
#include "run/run_folder.h"

const char *const eval_metrics[] = {"top1", "mean", NULL};

const char *eval_name(const char *text, char *name, size_t bytes) {
    text += *text == '='; /* an empty NAME is none */
    const size_t kind = strcspn(text, ":="), most = bytes - 1;
    snprintf(name, bytes, "%.*s", (int)(kind < most ? kind : most), text);
    return text[kind] == '=' ? text + kind + 1 : text;
}

/* "folder:DIR" without options: DIR, else NULL. */
static const char *plain_folder(const char *spec) {
    return strncmp(spec, "folder:", 7) == 0 && !strchr(spec, '?') ? spec + 7 : NULL;
}

glofnd_status eval_dataset_read(gf_error *err, const char *text, eval_dataset *out) {
    const char *spec = eval_name(text, out->name, sizeof out->name), *colon = strchr(spec, ':'), *dir = plain_folder(spec);
    out->known = gf_known_find(out->name);
    if (out->known && spec != text && (!colon || !gf_dataset_is_format(spec, (size_t)(colon - spec)))) dir = spec;
    else if (!out->known || !dir || !gf_known_recognise(out->known, dir)) dir = NULL;
    const int n =
        dir ? snprintf(out->spec, sizeof out->spec, "%s:%s", out->name, dir) : snprintf(out->spec, sizeof out->spec, "%s", spec);
    FAIL_IF(err, n < 0 || (size_t)n >= sizeof out->spec, GLOFND_E_ARGUMENT, "the SPEC of %s is too long", out->name);
    return GLOFND_OK;
}

glofnd_status eval_dataset_read_test(gf_error *err, const char *text, eval_dataset *out) {
    gf_spec spec = {0};
    char with[GF_SPLIT_NAME];
    TRY(eval_dataset_read(err, text, out));
    if (gf_spec_parse(NULL, out->spec, &spec) != GLOFND_OK) return GLOFND_OK; /* opening it says why */
    const gf_known_dataset *known = gf_known_find(spec.format);
    if (known && known->test && !gf_spec_value(&spec, "split") && strcmp(known->test, known->split[0].name) != 0 &&
        gf_spec_with(&spec, "split", known->test, with, sizeof with))
        memcpy(out->spec, with, sizeof with);
    gf_spec_free(&spec);
    return GLOFND_OK;
}

/* ----- samples ----- */

glofnd_status eval_open(gf_error *err, eval_samples *s, gf_run_encoder **encoder, gf_split *split) {
    TRY(device_flags_open(err, "eval", &(gf_run_encoder_spec){.run = s->run, .untrained = s->untrained, .placement = s->where},
                          encoder));
    s->threads = gf_run_encoder_threads(*encoder);
    s->embeddings = gf_run_encoder_config(*encoder)->task == GF_TASK_CLIP;
    const int given = s->data != NULL;
    if (!given) s->data = memcpy(s->run_data, gf_run_encoder_config(*encoder)->data, sizeof s->run_data);
    s->trained_on = !s->untrained && strcmp(s->data, gf_run_encoder_config(*encoder)->data) == 0;
    const gf_split_spec spec = {
        .data = given ? s->data : gf_run_encoder_data(*encoder),
        .test = s->test,
        .share = EVAL_HELD_OUT,
        .seed = (uint64_t)gf_run_encoder_config(*encoder)->seed,
    };
    const glofnd_status status = gf_split_init(err, &spec, split);
    TRY(given ? status : gf_run_encoder_data_hint(err, status));
    eval_note(split->data);
    eval_note(split->test_data);
    memcpy(s->test_name, split->test_name, sizeof s->test_name);
    return GLOFND_OK;
}

static glofnd_status encode(gf_error *err, gf_run_encoder *e, const gf_samples *s, const char *what, gf_features *out) {
    eval_progress line;
    const gf_encode_spec spec = {
        .ids = s->id,
        .id_count = s->n,
        .labels = s->label,
        .unreadable = eval_warn,
        .progress = eval_progress_draw,
        .user = &line,
    };
    eval_progress_begin(&line, what);
    const glofnd_status status = gf_encode_samples(err, e, s->data, &spec, out);
    eval_progress_end(&line);
    return status;
}

glofnd_status eval_encode_split(gf_error *err, gf_run_encoder *e, const gf_split *split, gf_features *train, gf_features *test) {
    TRY(encode(err, e, &split->train, "training samples", train));
    return encode(err, e, &split->test, "test samples", test);
}

glofnd_status eval_encode(gf_error *err, eval_samples *s, gf_features *train, gf_features *test) {
    gf_run_encoder *e = NULL;
    gf_split split = {0};
    glofnd_status status = eval_open(err, s, &e, &split);
    if (status == GLOFND_OK) status = eval_encode_split(err, e, &split, train, test);
    gf_split_free(&split);
    gf_run_encoder_free(e);
    return status;
}

static void warn_of_averages(const char *what, const gf_config *c) {
    if (c->method.similarity != GLOFND_SIMILARITY_BANK) return;
    gf_print(stderr,
             "glofnd eval %s: this run compares averages of embeddings (similarity = bank); its thresholds are compared with ",
             what);
    gf_print(stderr,
             "similarities of single embeddings here, so figures of learned thresholds do not apply: see its log.jsonl\n");
}

glofnd_status eval_open_trained(gf_error *err, const char *what, eval_samples *s, eval_progress *progress, gf_trained_run **run,
                                double *alpha) {
    const gf_trained_run_spec spec = {.run = s->run,
                                      .data = s->data,
                                      .placement = s->where,
                                      .unreadable = eval_warn,
                                      .progress = eval_progress_draw,
                                      .user = progress};
    FAIL_IF(err, s->data && !*s->data, GLOFND_E_OPTION, "--data is empty; give a SPEC");
    TRY(gf_trained_run_create(err, &spec, run));
    device_flags_report("eval", gf_trained_run_encoder(*run));
    const gf_config *c = gf_trained_run_config(*run);
    warn_of_averages(what, c);
    if (!s->data) s->data = c->data;
    snprintf(s->test_name, sizeof s->test_name, "%s", s->data);
    if (*alpha == 0.0) *alpha = c->method.alpha;
    FAIL_IF(err, !(*alpha > 0.0 && *alpha < 1.0), GLOFND_E_OPTION, "alpha of the run is %g: give a share by --alpha", *alpha);
    return GLOFND_OK;
}

void eval_print_samples(const eval_samples *s, int64_t train_n, int64_t test_n) {
    const char *test_s = test_n == 1 ? "" : "s";
    gf_print(stdout, "train     %lld sample%s of %s\n", (long long)train_n, train_n == 1 ? "" : "s", s->data);
    if (*s->test_name) gf_print(stdout, "test      %lld sample%s of %s\n", (long long)test_n, test_s, s->test_name);
    else
        gf_print(stdout, "test      %lld sample%s held out of it, %.0f %% of a class\n", (long long)test_n, test_s,
                 100.0 * EVAL_HELD_OUT);
    if (!*s->test_name && s->trained_on)
        gf_print(
            stderr,
            "glofnd eval: WARNING: the encoder was trained on the test images: %.200s has no test split, so %.0f %% of its own "
            "images are used; --test SPEC names others\n",
            s->data, 100.0 * EVAL_HELD_OUT);
}

/* ----- records ----- */

void eval_log_begin(gf_eval_writer *log, const char *event, const char *protocol, const eval_samples *s) {
    gf_eval_writer_begin(log, event);
    gf_eval_put_text(log, "protocol", protocol);
    gf_eval_put_text(log, "data", s->data);
    gf_eval_put_text(log, "test", *s->test_name ? s->test_name : "held out");
    gf_eval_put_flag(log, "untrained", s->untrained);
}

glofnd_status eval_stored(gf_error *err, glofnd_status status) {
    const gf_error why = *err;
    const int logged = strncmp(why.text, GF_EVAL_CHARTS_LACK, sizeof GF_EVAL_CHARTS_LACK - 1) == 0;
    FAIL_IF(err, status != GLOFND_OK, status, "the result is printed, %s%.440s", logged ? "and " : "but not stored: ", why.text);
    return GLOFND_OK;
}
