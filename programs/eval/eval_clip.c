/* eval_clip.c - see eval_clip.h. */
#include "programs/eval/eval_clip.h"

#include <stdio.h>
#include <string.h>

#include "programs/trained_run.h"
#include "eval/encode_pairs.h"

/* ----- encoders ----- */

glofnd_status eval_encoders_open(gf_error *err, const gf_run_encoder_spec *spec, eval_encoders *out) {
    gf_run_encoder_spec text = *spec;
    text.text = 1;
    *out = (eval_encoders){0};
    TRY(gf_run_encoder_create(err, &text, &out->text));
    return device_flags_open(err, "eval", spec, &out->image);
}

void eval_encoders_free(eval_encoders *t) {
    gf_run_encoder_free(t->image);
    gf_run_encoder_free(t->text);
    *t = (eval_encoders){0};
}

/* ----- retrieval ----- */

glofnd_status eval_rank(gf_error *err, gf_retrieval_input *in, gf_retrieval *out) {
    eval_progress line;
    in->job.watch = (gf_job_progress){.progress = eval_progress_pairs, .user = &line};
    eval_progress_begin(&line, "");
    const glofnd_status status = gf_retrieval_measure(err, in, out);
    eval_progress_end(&line);
    return status;
}

static glofnd_status rank_pairs(gf_error *err, const gf_text_pairs *p, int threads, eval_retrieved *out) {
    gf_retrieval_input in = {.image = p->image.x,
                             .text = p->text.x,
                             .images = p->image.n,
                             .texts = p->text.n,
                             .dim = p->image.dim,
                             .owner = p->owner,
                             .job.threads = threads};
    out->dim = p->image.dim, out->repeated = p->repeated, out->lost = p->lost;
    return eval_rank(err, &in, &out->found);
}

/* Another stage on the line of the images, with a time of its own. */
static void draw_captions(void *user, int64_t done, int64_t total) {
    static const char what[] = "samples with captions";
    eval_progress *line = user;
    if (line->what != what) eval_progress_begin(line, what);
    eval_progress_draw(line, done, total);
}

glofnd_status eval_retrieve(gf_error *err, const eval_encoders *t, const char *spec, eval_retrieved *out) {
    gf_dataset *data = NULL;
    gf_text_pairs pairs = {0};
    eval_progress line;
    const gf_encode_spec watch[2] = {
        {.unreadable = eval_warn, .progress = eval_progress_draw, .user = &line},
        {.unreadable = eval_warn_caption, .progress = draw_captions, .user = &line},
    };
    glofnd_status status = gf_dataset_open(err, spec, &data);
    eval_note(data);
    eval_progress_begin(&line, "images");
    if (status == GLOFND_OK) status = gf_encode_pairs(err, t->image, t->text, data, watch, &pairs);
    eval_progress_end(&line);
    if (status == GLOFND_OK) status = rank_pairs(err, &pairs, gf_run_encoder_threads(t->image), out);
    gf_text_pairs_free(&pairs);
    gf_dataset_free(data);
    return status;
}

static void put_recalls(gf_eval_writer *log, const char *side, const gf_recalls *r) {
    char key[32];
    for (int k = 0; k < GF_RECALLS; k++) {
        snprintf(key, sizeof key, "%s%d", side, gf_recall_at[k]);
        gf_eval_put_number(log, key, r->at[k]);
    }
    snprintf(key, sizeof key, "%s_mean", side);
    gf_eval_put_number(log, key, r->mean);
}

glofnd_status eval_record_retrieval(gf_error *err, const eval_samples *s, const char *name, const gf_retrieval *r) {
    gf_eval_writer log = {0};
    TRY(gf_eval_writer_open(err, &log, s->run));
    eval_log_begin(&log, "retrieval", "retrieval", s);
    gf_eval_put_text(&log, "dataset", name);
    gf_eval_put_integer(&log, "images", r->images);
    gf_eval_put_integer(&log, "captions", r->texts);
    put_recalls(&log, "ir", &r->ir);
    put_recalls(&log, "tr", &r->tr);
    gf_eval_put_number(&log, "mean", r->mean);
    gf_eval_writer_end(&log);
    return gf_eval_writer_close(&log);
}

/* ----- flags ----- */

/* The value of "--NAME VALUE" or "--NAME=VALUE" at argv[*i], which moves to its last word; NULL: a different word. */
static const char *value_at(int argc, char **argv, int *i, const char *name) {
    const size_t n = strlen(name);
    const char *word = argv[*i];
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, n) != 0) return NULL;
    if (word[2 + n] == '=') return word + 3 + n;
    return word[2 + n] == 0 && *i + 1 < argc ? argv[++*i] : NULL;
}

int eval_gather(int *argc, char **argv, const char *name, const char **value, int max) {
    int kept = 1, found = 0, plain = 0;
    for (int i = 1; i < *argc; i++) {
        const int first = i;
        plain |= strcmp(argv[i], "--") == 0; /* all after it are words */
        const char *text = plain ? NULL : value_at(*argc, argv, &i, name);
        if (!text) argv[kept++] = argv[first];
        else if (found < max) value[found++] = text;
        else {
            gf_print(stderr, "glofnd %s: --%s is given more than %d times\n", argv[0], name, max);
            return -1;
        }
    }
    *argc = kept;
    return found;
}
