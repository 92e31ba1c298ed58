/* model.c - see model.h. */
#include "loop/model.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/captions.h"
#include "image/resample.h"
#include "io/blockfile.h"
#include "io/safetensors.h"
#include "optim/optim.h"
#include "run/run_folder.h"
#include "text/bpe.h"

#define ROWS_MAX (1 << 20)

/* The side of a square grid of n; 0: n is no square. */
static int side_of(int64_t n) {
    int side = 0;
    while ((int64_t)side * side < n && side < 1024) side++;
    return (int64_t)side * side == n ? side : 0;
}

gf_positions_kind gf_positions_of(const char *name, int64_t from, int64_t to) {
    static const char *const grids[] = {"visual.positional_embedding", "visual.attnpool.positional_embedding"};
    if (from < 1 || to < 1 || from > ROWS_MAX || to > ROWS_MAX) return GF_POSITIONS_NONE;
    if (strcmp(name, "positional_embedding") == 0) return GF_POSITIONS_LINE;
    for (size_t k = 0; k < sizeof grids / sizeof *grids; k++)
        if (strcmp(name, grids[k]) == 0 && side_of(from - 1) > 0 && side_of(to - 1) > 0) return GF_POSITIONS_GRID;
    return GF_POSITIONS_NONE;
}

/* Rows of `width` numbers, `stride` apart: in of them become out. `sum` starts at zero. */
static void resize_axis(const double *from, int in, double *sum, int out, int64_t stride, int64_t width, double *weight) {
    for (int at = 0; at < out; at++) {
        int first;
        const int count = gf_filter_weights(GF_FILTER_CUBIC, in, out, at, weight, &first);
        for (int k = 0; k < count; k++) {
            double *row_sum = sum + at * stride;
            const double *row = from + (first + k) * stride;
            const double row_weight = weight[k];
            for (int64_t i = 0; i < width; i++) row_sum[i] += row_weight * row[i];
        }
    }
}

/* [a][a][width] to [b][b][width] by way of [a][b][width]: first each row of the grid, then whole rows. */
static glofnd_status resize_grid(gf_error *err, const float *old, int a, float *new, int b, int64_t width) {
    const int64_t n_old = (int64_t)a * a * width, n_middle = (int64_t)a * b * width, n_new = (int64_t)b * b * width;
    double *block = calloc((size_t)(n_old + n_middle + n_new) + (size_t)gf_filter_taps(GF_FILTER_CUBIC, a, b), sizeof *block);
    FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory to resize positions of %d x %d patches to %d x %d", a, a, b, b);
    double *middle = block + n_old, *end = middle + n_middle, *weight = end + n_new;
    for (int64_t i = 0; i < n_old; i++) block[i] = (double)old[i];
    for (int y = 0; y < a; y++) resize_axis(block + y * a * width, a, middle + (int64_t)y * b * width, b, width, width, weight);
    resize_axis(middle, a, end, b, b * width, b * width, weight);
    for (int64_t i = 0; i < n_new; i++) new[i] = (float)end[i];
    free(block);
    return GLOFND_OK;
}

glofnd_status gf_positions_resize(gf_error *err, gf_positions_kind kind, const float *old, int64_t from, float *new, int64_t to,
                                  int64_t width) {
    if (kind == GF_POSITIONS_LINE) {
        /* Between the two nearest, of which the ends are held. */
        for (int64_t at = 0; at < to; at++) {
            const double wanted = ((double)at + 0.5) * (double)from / (double)to - 0.5, place = wanted < 0 ? 0 : wanted;
            const int64_t first = (int64_t)place, next = first + 1 < from ? first + 1 : first;
            const double share = place - (double)first;
            for (int64_t i = 0; i < width; i++) {
                const double a = (double)old[first * width + i], b = (double)old[next * width + i];
                new[at * width + i] = (float)(a + share * (b - a));
            }
        }
        return GLOFND_OK;
    }
    memcpy(new, old, (size_t)width * sizeof *new); /* that of the class token */
    return resize_grid(err, old + width, side_of(from - 1), new + width, side_of(to - 1), width);
}

/* ----- vocabulary ----- */

typedef struct merges { /* a merges file: its text, unpacked, and the tokenizer */
    char *text;
    size_t bytes;
    gf_bpe *bpe;
} merges;

static void merges_free(merges *m) {
    gf_bpe_free(m->bpe);
    free(m->text);
    *m = (merges){0};
}

static glofnd_status merges_read(gf_error *err, const char *path, merges *m) {
    *m = (merges){0};
    TRY(gf_bpe_file_read(err, path, &m->text, &m->bytes));
    const glofnd_status status = gf_bpe_parse(err, path, m->text, m->bytes, &m->bpe);
    if (status != GLOFND_OK) merges_free(m);
    return status;
}

/* The first line is a comment. */
static int same_merges(const merges *a, const merges *b) {
    const char *x = memchr(a->text, '\n', a->bytes), *y = memchr(b->text, '\n', b->bytes);
    if (!x || !y) return !x && !y;
    const size_t n = a->bytes - (size_t)(x - a->text);
    return n == b->bytes - (size_t)(y - b->text) && memcmp(x, y, n) == 0;
}

/* ----- vocabulary: the one that belongs to weights ----- */

static int is_file(char path[PATH_MAX], const char *folder, int length, const char *name) {
    const int n = snprintf(path, PATH_MAX, "%.*s%s", length, folder, name);
    return n >= 0 && n < PATH_MAX && access(path, F_OK) == 0;
}

/* The merges file that a new run of this configuration takes; "": none, it learns its own. Weights to start from that have
 * token embeddings need the vocabulary they were trained with: with `vocab` empty that is vocab.txt beside them, or of the run
 * whose checkpoint they are. E_OPTION: it is missing, or has a different size; or `vocab` is given, of as many tokens as the
 * weights have, but differs from theirs. A `vocab` of a different size is taken: token embeddings are then newly initialised. */
static glofnd_status find_vocabulary(gf_error *err, const gf_config *c, char path[PATH_MAX]) {
    char theirs[PATH_MAX];
    int64_t tokens;
    snprintf(path, PATH_MAX, "%s", c->vocab);
    /* Number of token embeddings in the weights to start from; 0: none that fit a text encoder of this width. */
    gf_st_file f = {0};
    tokens = 0;
    if (*c->init) {
        TRY(gf_st_open(err, c->init, &f));
        const gf_st_tensor *t = gf_st_find(&f, "token_embedding.weight");
        if (t && t->rank == 2 && t->shape[1] == c->text_width) tokens = t->shape[0];
        gf_st_close(&f);
    }
    if (tokens == 0) return GLOFND_OK;
    /* Beside the file, or in the run folder whose checkpoint it belongs to: RUN/checkpoints/step-N/. "": none. */
    const char *weights = c->init;
    const char *end = strrchr(weights, '/');
    const int length = end ? (int)(end - weights) + 1 : 0;
    if (!is_file(theirs, weights, length, GF_VOCABULARY_FILE) &&
        (!is_file(theirs, weights, length, "../../" GF_VOCABULARY_FILE) || !strstr(weights, GF_CHECKPOINTS "/" GF_CHECKPOINT)))
        *theirs = 0;
    if (*c->vocab) {
        if (!*theirs) return GLOFND_OK;
        /* As many tokens, but different ones: embeddings would silently go to wrong tokens. */
        merges given = {0}, own = {0};
        glofnd_status status = merges_read(err, c->vocab, &given);
        if (status == GLOFND_OK) status = merges_read(err, theirs, &own);
        const int mixed = status == GLOFND_OK && gf_bpe_vocab(given.bpe) == tokens && !same_merges(&given, &own);
        merges_free(&given);
        merges_free(&own);
        TRY(status);
        FAIL_IF(
            err, mixed, GLOFND_E_OPTION,
            "vocab: %.200s has different tokens from %.200s, which belongs to the weights of init; leave vocab out to take that",
            c->vocab, theirs);
        return GLOFND_OK;
    }
    FAIL_IF(
        err, !*theirs, GLOFND_E_OPTION,
        "vocab: it is empty, and %.200s has embeddings of %lld tokens; name the merges file they were trained with (OpenAI's: "
        "bpe_simple_vocab_16e6.txt.gz), or put it next to the weights as " GF_VOCABULARY_FILE,
        c->init, (long long)tokens);
    memcpy(path, theirs, sizeof theirs);
    merges own;
    TRY(merges_read(err, theirs, &own));
    const int here = gf_bpe_vocab(own.bpe);
    merges_free(&own);
    FAIL_IF(err, here != tokens, GLOFND_E_OPTION,
            "vocab: %.200s has %d tokens, but %.200s embeddings of %lld; name the merges file that belongs to these weights",
            theirs, here, c->init, (long long)tokens);
    return GLOFND_OK;
}

/* ----- vocabulary: of a run ----- */

glofnd_status gf_vocabulary_write(gf_error *err, const gf_config *c, const gf_dataset *d, const char *path, char *line,
                                  size_t bytes) {
    gf_captions_read met;
    gf_bpe_learned learned;
    char from[PATH_MAX];
    TRY(find_vocabulary(err, c, from));
    if (*from) {
        /* The given file, unpacked; parsed first, so that a bad one is not copied. */
        const char *whose = *c->vocab ? "" : ", which belongs to the weights to start from";
        merges m;
        TRY(merges_read(err, from, &m));
        const glofnd_status status = gf_bpe_file_write(err, path, m.text, m.bytes);
        snprintf(line, bytes, "vocabulary: %d tokens of %s%s", (int)gf_bpe_vocab(m.bpe), from, whose);
        merges_free(&m);
        return status;
    }
    TRY(gf_captions_learn(err, d, c->vocab_merges, path, NULL, &met, &learned));
    snprintf(line, bytes, "vocabulary: %d tokens, learned from %lld captions with %lld different words", (int)learned.vocab,
             (long long)met.captions, (long long)met.different);
    return GLOFND_OK;
}

glofnd_status gf_vocabulary_load(gf_error *err, const char *path, gf_bpe **out, uint32_t *crc) {
    merges m;
    TRY(merges_read(err, path, &m));
    *crc = gf_crc32c(0, m.text, m.bytes);
    *out = m.bpe;
    free(m.text);
    return GLOFND_OK;
}

/* ----- weights ----- */

static const char scale_name[] = "logit_scale";

/* ----- weights: writing ----- */

static glofnd_status fetch_model(gf_error *err, const gf_model *m, float *block, gf_st_tensor *list) {
    for (int i = 0; i < m->count; i++) {
        /* The net's tensors as host arrays in `&block`, and as entries of a file. */
        gf_net *net = m->nets[i];
        gf_tensor *tensors;
        const int count = gf_net_tensors(net, &tensors);
        for (int j = 0; j < count; j++) {
            const gf_tensor *x = &tensors[j];
            gf_st_tensor *to = (list)++;
            *to = (gf_st_tensor){.name = x->name, .type = GF_ST_F32, .rank = x->rank, .data = block};
            for (int a = 0; a < x->rank; a++) to->shape[a] = x->shape[a];
            TRY(gf_net_get(err, net, x, x->value, block));
            block += x->count;
        }
    }
    if (m->logit_scale) *list = (gf_st_tensor){.name = scale_name, .type = GF_ST_F32, .data = m->logit_scale};
    return GLOFND_OK;
}

static glofnd_status save_model(gf_error *err, const gf_model *m, const char *path, const gf_st_text *texts, int text_count) {
    int64_t numbers = 0;
    int count = m->logit_scale != NULL;
    for (int i = 0; i < m->count; i++) {
        gf_tensor *tensors;
        const int here = gf_net_tensors(m->nets[i], &tensors);
        for (int t = 0; t < here; t++) numbers += tensors[t].count;
        count += here;
    }
    FAIL_IF(err, count < 1, GLOFND_E_ARGUMENT, "a net without tensors");
    FAIL_IF(err, numbers < 1 || numbers > PTRDIFF_MAX / (int64_t)sizeof(float), GLOFND_E_ARGUMENT, "a net of %" PRId64 " numbers",
            numbers);
    gf_st_tensor *list = calloc((size_t)count, sizeof *list);
    float *block = malloc((size_t)numbers * sizeof *block);
    glofnd_status status = list && block ? fetch_model(err, m, block, list)
                                         : gf_fail(err, GLOFND_E_MEMORY, "no memory for a copy of %d tensors", count);
    if (status == GLOFND_OK) status = gf_st_write(err, path, list, count, texts, text_count);
    free(list);
    free(block);
    return status;
}

static const gf_st_text format_text = {"format", "pt"}, checksum_text = {GF_ST_CHECKSUM, ""};

glofnd_status gf_weights_save_model(gf_error *err, const gf_model *m, const char *path) {
    const gf_st_text texts[] = {format_text, checksum_text};
    return save_model(err, m, path, texts, 2);
}

glofnd_status gf_weights_save(gf_error *err, gf_net *net, const char *path) {
    return gf_weights_save_model(err, &(gf_model){&net, 1, NULL}, path);
}

/* ----- weights: tensors that fit ----- */

typedef struct file_view {
    const gf_st_file *f;
    int bare; /* an image encoder alone: no name has "visual." in front */
} file_view;

/* Text encoders have names like "positional_embedding", too, but no convolutions. */
static file_view view_of(const gf_st_file *f) {
    for (int64_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, "visual.", 7) == 0) return (file_view){f, 0};
    return (file_view){f, gf_st_find(f, "conv1.weight") != NULL};
}

static const gf_st_tensor *find_tensor(const file_view *v, const char *name) {
    const gf_st_tensor *t = gf_st_find(v->f, name);
    return !t && v->bare && strncmp(name, "visual.", 7) == 0 ? gf_st_find(v->f, name + 7) : t;
}

static int same_shape(const gf_tensor *x, const gf_st_tensor *y) {
    if (x->rank != y->rank) return 0;
    for (int a = 0; a < x->rank; a++)
        if (x->shape[a] != y->shape[a]) return 0;
    return 1;
}

/* "3x64x7x7" */
static void write_shape(char *text, size_t bytes, int rank, const int64_t *shape) {
    snprintf(text, bytes, rank ? "" : "one number");
    for (int i = 0; i < rank; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, bytes - used, i ? "x%" PRId64 : "%" PRId64, shape[i]);
    }
}

/* Positions made for a different image size or text length. */
static gf_positions_kind resizable(const gf_tensor *x, const gf_st_tensor *y) {
    const int same_width = x->rank == 2 && y->rank == 2 && x->shape[1] == y->shape[1];
    return same_width ? gf_positions_of(x->name, y->shape[0], x->shape[0]) : GF_POSITIONS_NONE;
}

static glofnd_status read_resized(gf_error *err, const gf_st_file *f, const gf_tensor *x, const gf_st_tensor *y, float *to) {
    float *from = malloc((size_t)y->count * sizeof *from);
    FAIL_IF(err, !from, GLOFND_E_MEMORY, "no memory for %s", x->name);
    glofnd_status status = gf_st_read_f32(err, f, y, from, y->count);
    if (status == GLOFND_OK) status = gf_positions_resize(err, resizable(x, y), from, y->shape[0], to, x->shape[0], x->shape[1]);
    free(from);
    return status;
}

static glofnd_status put_tensor(gf_error *err, gf_net *net, const gf_st_file *f, const gf_tensor *x, const gf_st_tensor *y) {
    float *host = malloc((size_t)x->count * sizeof *host);
    FAIL_IF(err, !host, GLOFND_E_MEMORY, "no memory for %s", x->name);
    glofnd_status status = same_shape(x, y) ? gf_st_read_f32(err, f, y, host, x->count) : read_resized(err, f, x, y, host);
    if (status == GLOFND_OK) status = gf_net_put(err, net, x, x->value, host);
    free(host);
    return status;
}

/* ----- weights: one net ----- */

/* Entries that training programs keep beside weights. */
static int is_bookkeeping(const char *name) {
    static const char *const names[] = {"input_resolution", "context_length", "vocab_size", scale_name};
    const size_t n = strlen(name), end = strlen("num_batches_tracked");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return n >= end && strcmp(name + n - end, "num_batches_tracked") == 0;
}

static const char *without_visual(const char *name) { return strncmp(name, "visual.", 7) == 0 ? name + 7 : name; }

static int in_stage(const char *name) { return strncmp(without_visual(name), "layer", 5) == 0; }

/* A block of a deeper network: a ResNet-101 has all tensors of a ResNet-50, and more. Heads and classifiers may differ, and a
 * network without stages may share its file with a ResNet. */
static int is_surplus_block(const char *name, const gf_tensor *x, int count) {
    int stages = 0;
    if (!in_stage(name) || is_bookkeeping(name)) return 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(without_visual(x[i].name), without_visual(name)) == 0) return 0;
        stages |= in_stage(x[i].name);
    }
    return stages;
}

static glofnd_status load_net(gf_error *err, gf_net *net, const file_view *v, int backbone_only) {
    gf_tensor *tensors;
    const int count = gf_net_tensors(net, &tensors);
    /* All tensors of the network are in the file, with its shapes. */
    const char *first = NULL;
    int missing = 0;
    for (int i = 0; i < count; i++) {
        const int may_miss = backbone_only && strncmp(tensors[i].name, "head.", 5) == 0;
        if (!find_tensor(v, tensors[i].name) && !may_miss && missing++ == 0) first = tensors[i].name;
    }
    FAIL_IF(
        err, missing > 0, GLOFND_E_FORMAT,
        "%.200s: the tensor %s is missing (%d of the %d that this network needs are): the file is incomplete, or of a different "
        "network; save all of model.state_dict() again, or choose arch, stem and head as the file has them",
        v->f->path, first, missing, count);
    for (int64_t i = 0; i < v->f->count; i++)
        FAIL_IF(err, is_surplus_block(v->f->tensors[i].name, tensors, count), GLOFND_E_FORMAT,
                "%.200s: the tensor %.100s is of a deeper network than this one; known are resnet18, resnet34 and resnet50",
                v->f->path, v->f->tensors[i].name);
    for (int i = 0; i < count; i++) {
        char want[64], have[64];
        const gf_st_tensor *y = find_tensor(v, tensors[i].name);
        if (!y || same_shape(&tensors[i], y)) continue;
        write_shape(want, sizeof want, tensors[i].rank, tensors[i].shape);
        write_shape(have, sizeof have, y->rank, y->shape);
        GF_FAIL(err, GLOFND_E_FORMAT, "%.200s: %s is %s there and %s in this network; arch, stem and head must agree", v->f->path,
                tensors[i].name, have, want);
    }
    gf_net_touch(net);
    for (int i = 0; i < count; i++) {
        const gf_st_tensor *y = find_tensor(v, tensors[i].name);
        if (y) TRY(put_tensor(err, net, v->f, &tensors[i], y));
    }
    return GLOFND_OK;
}

glofnd_status gf_weights_load(gf_error *err, gf_net *net, const char *path, int backbone_only) {
    gf_st_file f = {0};
    int checked;
    TRY(gf_st_open(err, path, &f));
    const file_view v = view_of(&f);
    glofnd_status status = gf_st_check(err, &f, &checked);
    if (status == GLOFND_OK) status = load_net(err, net, &v, backbone_only);
    gf_st_close(&f);
    return status;
}

/* ----- weights: a model ----- */

enum { MISSING, MISSHAPED, EXTRA, RESIZED, FINDINGS };

typedef struct finding {
    int count;
    char names[400]; /* as many as fit */
    int left_out;
} finding;

static void note_finding(finding *c, const char *name) {
    const size_t used = strlen(c->names), more = strlen(name) + 2;
    c->count++;
    if (used + more >= sizeof c->names) c->left_out++;
    else snprintf(c->names + used, sizeof c->names - used, "%s%s", used ? ", " : "", name);
}

typedef struct match {
    const gf_model *m;
    gf_weights_rule rule;
    file_view v;
    char *used; /* [tensors of the file] */
    int fit, net_fit[2];
    finding c[FINDINGS];
} match;

static void match_tensor(match *a, const gf_tensor *x) {
    const gf_st_tensor *y = find_tensor(&a->v, x->name);
    if (!y) {
        note_finding(&a->c[MISSING], x->name);
        return;
    }
    a->used[y - a->v.f->tensors] = 1;
    if (same_shape(x, y)) {
        a->fit++;
        return;
    }
    char want[64], have[64], text[256];
    const gf_positions_kind kind = a->rule == GF_WEIGHTS_PARTIAL ? resizable(x, y) : GF_POSITIONS_NONE;
    if (kind != GF_POSITIONS_NONE) {
        /* "7x7 to 10x10", "77 to 32" */
        const int64_t from = y->shape[0];
        const int64_t to = x->shape[0];
        const int text_a = side_of(from - 1), b = side_of(to - 1);
        if (kind == GF_POSITIONS_GRID) snprintf(want, sizeof want, "%dx%d to %dx%d", text_a, text_a, b, b);
        else snprintf(want, sizeof want, "%" PRId64 " to %" PRId64, from, to);
        snprintf(text, sizeof text, "%s (%s)", x->name, want);
        note_finding(&a->c[RESIZED], text);
        a->fit++;
        return;
    }
    const int words = strcmp(x->name, "token_embedding.weight") == 0 && y->rank == 2;
    write_shape(want, sizeof want, x->rank, x->shape);
    write_shape(have, sizeof have, y->rank, y->shape);
    snprintf(text, sizeof text, "%s (%s, here %s%s)", x->name, have, want,
             strstr(x->name, "positional_embedding") ? ": made for a different image size or text length"
             : words && y->shape[0] != x->shape[0]   ? ": of a different vocabulary"
                                                     : "");
    note_finding(&a->c[MISSHAPED], text);
}

static glofnd_status load_model(gf_error *err, match *a, gf_weights_report *r) {
    for (int i = 0; i < a->m->count; i++) {
        gf_tensor *tensors;
        const int count = gf_net_tensors(a->m->nets[i], &tensors);
        const int before = a->fit;
        for (int t = 0; t < count; t++) match_tensor(a, &tensors[t]);
        if (i < 2) a->net_fit[i] = a->fit - before;
    }
    const gf_st_tensor *scale = a->m->logit_scale ? gf_st_find(a->v.f, scale_name) : NULL;
    if (a->m->logit_scale && !scale) note_finding(&a->c[MISSING], scale_name);
    if (scale && scale->count != 1) note_finding(&a->c[MISSHAPED], scale_name);
    if (scale && scale->count == 1) a->fit++;
    for (int64_t i = 0; i < a->v.f->count; i++)
        if (!a->used[i] && !is_bookkeeping(a->v.f->tensors[i].name)) note_finding(&a->c[EXTRA], a->v.f->tensors[i].name);
    const finding *c = a->c;
    static const char *const words[FINDINGS] = {"missing", "of a different shape", "unknown", "resized"};
    r->missing = c[MISSING].count, r->misshaped = c[MISSHAPED].count, r->extra = c[EXTRA].count, r->resized = c[RESIZED].count;
    r->text[0] = '\0';
    for (int i = 0; i < FINDINGS; i++) {
        char more[32] = "";
        const size_t used = strlen(r->text);
        if (!c[i].count) continue;
        if (c[i].left_out) snprintf(more, sizeof more, " and %d more", c[i].left_out);
        snprintf(r->text + used, sizeof r->text - used, "%s%d %s: %s%s", used ? "; " : "", c[i].count, words[i], c[i].names,
                 more);
    }
    FAIL_IF(err, a->rule == GF_WEIGHTS_STRICT && r->text[0], GLOFND_E_FORMAT, "%s does not hold these networks: %s", a->v.f->path,
            r->text);
    FAIL_IF(err, a->fit == 0, GLOFND_E_FORMAT, "%s: none of its tensors fits these networks: %s", a->v.f->path, r->text);
    r->loaded = a->fit;
    for (int i = 0; i < 2; i++) r->of_net[i] = a->net_fit[i];
    for (int i = 0; i < a->m->count; i++) {
        gf_tensor *tensors;
        const int count = gf_net_tensors(a->m->nets[i], &tensors);
        gf_net_touch(a->m->nets[i]);
        for (int t = 0; t < count; t++) {
            const gf_st_tensor *y = find_tensor(&a->v, tensors[t].name);
            const int fits = y && (same_shape(&tensors[t], y) ||
                                   (a->rule == GF_WEIGHTS_PARTIAL && resizable(&tensors[t], y) != GF_POSITIONS_NONE));
            if (fits) TRY(put_tensor(err, a->m->nets[i], a->v.f, &tensors[t], y));
        }
    }
    return scale && scale->count == 1 ? gf_st_read_f32(err, a->v.f, scale, a->m->logit_scale, 1) : GLOFND_OK;
}

glofnd_status gf_weights_load_model(gf_error *err, const gf_model *m, const char *path, gf_weights_rule rule,
                                    gf_weights_report *report) {
    gf_st_file f = {0};
    gf_weights_report own;
    gf_weights_report *r = report ? report : &own;
    *r = (gf_weights_report){0};
    TRY(gf_st_open(err, path, &f));
    match *a = calloc(1, sizeof *a);
    char *used = calloc((size_t)(f.count ? f.count : 1), 1);
    int checked;
    glofnd_status status = gf_st_check(err, &f, &checked);
    if (status != GLOFND_OK) {
        /* corrupt */
    } else if (a && used) {
        *a = (match){.m = m, .rule = rule, .v = view_of(&f), .used = used};
        status = load_model(err, a, r);
    } else {
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory to match the %" PRId64 " tensors of %s", f.count, path);
    }
    free(used);
    free(a);
    gf_st_close(&f);
    return status;
}

/* ----- weights: the encoders of a run ----- */

typedef struct run_model { /* a gf_model and the arrays it points to */
    gf_net *nets[2];
    float scale;
    gf_model model;
} run_model;

/* The temperature in force is written, also where it is not learned. */
static void collect_nets(run_model *x, const gf_trainer *t) {
    for (int k = 0; k < t->encoders.count; k++) x->nets[k] = t->encoders.at[k].net;
    x->scale = t->scale.log_scale;
    x->model = (gf_model){x->nets, t->encoders.count, &x->scale};
}

glofnd_status gf_model_save(gf_error *err, const gf_trainer *t, const char *path) {
    run_model x;
    char step[32], vocabulary[32];
    const int pairs = t->encoders.count == 2;
    const gf_st_text texts[] = {format_text,
                                {GF_MODEL_STEP, step},
                                checksum_text,
                                {GF_MODEL_VOCABULARY, vocabulary}}; /* the last one only of pairs */
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(vocabulary, sizeof vocabulary, "%08x", (unsigned)t->vocab_crc);
    collect_nets(&x, t);
    if (!pairs) x.model.logit_scale = NULL;
    return save_model(err, &x.model, path, texts, pairs ? 4 : 3);
}

/* The temperature of a checkpoint is in its state.json, with its moments. */
glofnd_status gf_model_load(gf_error *err, gf_trainer *t, const char *path) {
    run_model x;
    if (t->encoders.count == 1) return gf_weights_load(err, t->encoders.at[0].net, path, 0);
    collect_nets(&x, t);
    return gf_weights_load_model(err, &x.model, path, GF_WEIGHTS_STRICT, NULL);
}

glofnd_status gf_model_check_init(gf_error *err, const gf_config *c) {
    gf_st_file f = {0};
    char path[PATH_MAX];
    FAIL_IF(err, c->lock != GF_LOCK_NONE && !*c->init, GLOFND_E_OPTION,
            "lock: the encoder would keep its random weights; give weights by init, or leave lock none");
    if (!*c->init) return GLOFND_OK;
    TRY(gf_st_open(err, c->init, &f));
    gf_st_close(&f);
    return c->task == GF_TASK_CLIP ? find_vocabulary(err, c, path) : GLOFND_OK;
}

glofnd_status gf_model_init(gf_error *err, gf_trainer *t, const char *path, char *line, size_t bytes) {
    if (t->encoders.count == 2) {
        gf_weights_report report;
        run_model x;
        collect_nets(&x, t);
        TRY(gf_weights_load_model(err, &x.model, path, GF_WEIGHTS_PARTIAL, &report));
        const gf_config *c = &t->config;
        static const char *const encoders[] = {"none", "image", "text"};
        FAIL_IF(err, c->lock != GF_LOCK_NONE && report.of_net[c->lock == GF_LOCK_TEXT] == 0, GLOFND_E_OPTION,
                "lock: %s; %.200s has no weights for that encoder, which would keep its random ones", encoders[c->lock], c->init);
        if (t->learns_tau) t->scale.log_scale = (float)gf_clamp_log_scale((double)x.scale, t->config.scale_max);
        const char *rest = *report.text ? report.text : "all of them";
        snprintf(line, bytes, "weights of %s: %d tensors, %s", path, report.loaded, rest);
        return GLOFND_OK;
    }
    snprintf(line, bytes, "weights of %s", path);
    return gf_weights_load(err, t->encoders.at[0].net, path, 1);
}
