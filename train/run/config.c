/* config.c - see run/config.h: keys, files. The keys of the method (loss, detector, alpha ...) are rows of method/options.c. */
#include "run/config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "method/options.h"
#include "run/config_parts.h"

glofnd_status gf_config_init(gf_error *err, gf_config *c) {
    memset(c, 0, sizeof *c);
    TRY(gf_options_preset(err, gf_config_table(), c, sizeof *c));
    return glofnd_options_init(&c->method, sizeof c->method);
}

const gf_option *gf_config_option(int i, int *in_method) {
    const gf_option_table *method = gf_method_options();
    const gf_option_table *run = gf_config_table();
    *in_method = i >= run->count;
    if (i < 0 || i >= run->count + method->count) return NULL;
    return *in_method ? &method->rows[i - run->count] : &run->rows[i];
}

/* '-' and '_' are equal in a key: flags are usually written with the first. */
static void plain_key(const char *key, char *out, size_t bytes) {
    size_t n = 0;
    for (; key[n] && n + 1 < bytes; n++) out[n] = key[n] == '-' ? '_' : key[n];
    out[n] = 0;
}

/* Index of a key in the list of both tables; -1: unknown. */
static int index_of(const char *key) {
    int in_method;
    const gf_option *o;
    for (int i = 0; (o = gf_config_option(i, &in_method)); i++)
        if (strcmp(o->key, key) == 0) return i;
    return -1;
}

const gf_option *gf_config_find(const char *key, int *in_method) {
    char plain[64];
    plain_key(key, plain, sizeof plain);
    return gf_config_option(index_of(plain), in_method);
}

const char *gf_config_value(const gf_config *c, int i, char *out, size_t bytes) {
    int in_method;
    const gf_option *o = gf_config_option(i, &in_method);
    const int share = o ? gf_config_share_of(o->key) : -1;
    if (share >= 0 && c->share[share] > 0.0) snprintf(out, bytes, "%.10g%%", c->share[share]);
    else if (o) gf_option_format(o, in_method ? (const void *)&c->method : c, out, bytes);
    return o ? o->key : NULL;
}

void gf_config_text(const gf_config *c, const char *key, char *out, size_t bytes) {
    char plain[64];
    plain_key(key, plain, sizeof plain);
    *out = 0;
    if (index_of(plain) >= 0) gf_config_value(c, index_of(plain), out, bytes);
}

int gf_config_is_given(const gf_config *c, const char *key) {
    const int i = index_of(key);
    return i >= 0 && (c->given[i / 64] >> (i % 64) & 1);
}

static void note_given(gf_config *c, const char *key) {
    const int i = index_of(key);
    c->given[i / 64] |= (uint64_t)1 << (i % 64);
}

int gf_config_covers(const gf_config *c, const gf_config *other) {
    for (size_t i = 0; i < sizeof c->given / sizeof *c->given; i++)
        if (other->given[i] & ~c->given[i]) return 0;
    return 1;
}

/* Names of keys in other programs, too far from ours to count as typing errors. */
static const struct {
    const char *here, *elsewhere; /* several with spaces between them */
} other_names[] = {
    {"lr", "learning_rate base_lr"},
    {"tau", "temperature temp tau_temp"},
    {"batch", "batch_size batchsize bs"},
    {"epochs", "num_epochs max_epochs n_epochs"},
    {"weight_decay", "wd"},
    {"optimizer", "opt"},
    {"warmup_epochs", "warmup"},
    {"grad_clip", "grad_clip_norm"},
    {"workers", "num_workers"},
    {"threads", "num_threads cpus"},
    {"device", "gpu gpus cuda"},
    {"precision", "amp"},
    {"size", "image_size img_size crop_size resolution"},
    {"patch", "patch_size"},
    {"arch", "model backbone encoder"},
    {"head_out", "feature_dim out_dim proj_dim"},
    {"head_hidden", "hidden_dim"},
    {"data", "dataset data_dir data_path train_data"},
    {"init", "pretrained weights"},
    {"context", "context_length"},
    {"vocab_merges", "vocab_size"},
    {"checkpoint_steps", "save_steps"},
    {"loss", "method"},
    {"on_epoch", "wandb logger"},
    {"keep_checkpoints", "save_total_limit save_top_k"},
    {"eval_every", "eval_epochs val_every check_val_every_n_epoch"},
    {"log_steps", "log_every"},
    {"seed", "random_seed"},
};

/* 1: `word` is one of the words of `list`. */
static int is_listed(const char *list, const char *word) {
    const size_t n = strlen(word);
    const char *at = n ? strstr(list, word) : NULL;
    for (; at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return 1;
    return 0;
}

/* The message names the nearest key of both tables: it is found in a joined one. */
static glofnd_status fail_unknown(gf_error *err, gf_config *c, const char *key) {
    gf_option both[192];
    char range[256];
    int n = 0, in_method;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (is_listed(other_names[i].elsewhere, key)) {
            gf_option_range(gf_config_find(other_names[i].here, &in_method), range, sizeof range);
            GF_FAIL(err, GLOFND_E_OPTION, "unknown option \"%s\"; here its name is %s (%s)", key, other_names[i].here, range);
        }
    for (const gf_option *o; n < 192 && (o = gf_config_option(n, &in_method)); n++) {
        both[n] = *o;
        both[n].offset = 0; /* never written */
    }
    const gf_option_table all = {both, n};
    return gf_option_set(err, &all, c, sizeof *c, key, "");
}

/* The option as the tables know it. A share is kept beside it until the schedule is known. */
static glofnd_status set_value(gf_error *err, gf_config *c, const char *key, const char *value) {
    const int at = gf_config_share_of(key);
    const size_t n = strlen(value);
    const int is_share = at >= 0 && n > 0 && value[n - 1] == '%';
    const int in_run = gf_option_find(gf_config_table(), sizeof *c, key) != NULL;
    const char *text = is_share ? "0" : value;
    double share = 0.0;
    if (is_share) TRY(gf_config_read_share(err, key, value, &share));
    TRY(in_run ? gf_option_set(err, gf_config_table(), c, sizeof *c, key, text)
               : gf_option_set(err, gf_method_options(), &c->method, sizeof c->method, key, text));
    if (at >= 0) c->share[at] = share;
    return GLOFND_OK;
}

glofnd_status gf_config_set(gf_error *err, gf_config *c, const char *key, const char *value) {
    char plain[64];
    plain_key(key, plain, sizeof plain);
    if (index_of(plain) < 0) return fail_unknown(err, c, plain);
    TRY(set_value(err, c, plain, value));
    note_given(c, plain);
    if (strcmp(plain, "start_epoch") == 0) { /* it sets both; the last one given wins */
        c->update_set = c->mask_set = 0;
        c->share[GF_SHARE_UPDATE] = c->share[GF_SHARE_MASK] = 0.0;
    }
    c->update_set |= strcmp(plain, "update_epoch") == 0;
    c->mask_set |= strcmp(plain, "mask_epoch") == 0;
    return GLOFND_OK;
}

void gf_config_complete(gf_config *c) {
    for (size_t i = 0; i < sizeof c->given / sizeof *c->given; i++) c->given[i] = ~(uint64_t)0;
}

/* ----- files ----- */

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) *--end = 0;
    return text;
}

static glofnd_status read_line(gf_error *err, gf_config *c, char *line, const char *path, int number) {
    char *text = trimmed(line);
    if (!*text || *text == '#' || *text == ';') return GLOFND_OK;
    char *equals = strchr(text, '=');
    FAIL_IF(err, !equals, GLOFND_E_FORMAT, "%s:%d: \"%.40s\" is not key = value", path, number, text);
    *equals = 0;
    gf_error inner = {{0}};
    const char *value = trimmed(equals + 1);
    const glofnd_status status = gf_config_set(&inner, c, trimmed(text), value);
    if (status != GLOFND_OK)
        gf_fail(err, status, "%s:%d: %s%s", path, number, inner.text,
                strpbrk(value, "#;") ? "; comments need a line of their own" : "");
    return status;
}

typedef struct reading {
    gf_config *config;
    const char *path;
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    const reading *r = user;
    return read_line(err, r->config, line, r->path, number);
}

glofnd_status gf_config_read(gf_error *err, gf_config *c, const char *path) {
    reading r = {c, path};
    return gf_each_line(err, path, take_line, &r);
}

glofnd_status gf_config_write(gf_error *err, const gf_config *c, const char *path) {
    gf_writer w;
    const char *group = "";
    int in_method;
    TRY(gf_writer_open(err, &w, path));
    for (int i = 0;; i++) {
        const gf_option *o = gf_config_option(i, &in_method);
        char value[1100], line[1400];
        if (!gf_config_value(c, i, value, sizeof value)) break;
        if (strcmp(group, o->group) != 0) {
            const int n = snprintf(line, sizeof line, "%s# %s\n", *group ? "\n" : "", o->group);
            group = o->group;
            gf_put(&w, line, (size_t)n);
        }
        const int n = snprintf(line, sizeof line, "%s = %s\n", o->key, value);
        gf_put(&w, line, (size_t)n);
    }
    return gf_writer_finish(&w);
}
