/* eval_settings.c - see eval_settings.h. */
#include "run/eval_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/crc32c.h"
#include "run/eval_schema.h"
#include "util/number_text.h"
#include "util/utf8.h"

enum { VALUE_MAX = 400, SHOWN_MAX = 80, REST = 16 }; /* bytes: of a value, of a value as shown, of the checksum of the rest */

/* ----- which fields count ----- */

typedef struct collector {
    char *out;
    size_t used;
    uint32_t crc;  /* of all fields that count */
    int truncated; /* one did not fit */
    const char *event;
    const gf_jsonl_reader *line; /* NULL: fields of a configuration */
    char *unknown;               /* first key that is not in the table */
} collector;

/* 1: the record has the key, or the value, that `condition` names: "KEY" or "KEY=VALUE". */
static int holds(const gf_jsonl_reader *r, const char *condition) {
    char key[GF_SETTINGS_KEY_MAX];
    const char *equals = strchr(condition, '=');
    double x, wanted;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(condition, "="), condition);
    const char *text = gf_jsonl_get_text(r, key);
    const int number = gf_jsonl_get(r, key, &x);
    if (!equals) return text || number;
    return text ? strcmp(text, equals + 1) == 0 : number && !gf_number_read(equals + 1, &wanted) && x == wanted;
}

/* The name of a field, without characters that separate fields. */
static void clean(const char *key, char out[GF_SETTINGS_KEY_MAX]) {
    snprintf(out, GF_SETTINGS_KEY_MAX, "%s", key);
    gf_utf8_trim(out);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '=') *p = '?';
}

static int is_setting(const collector *c, const char *key) {
    const gf_eval_key *row = gf_eval_key_any(c->event, key);
    if (!row && strncmp(key, "time_", 5) == 0) return 0;
    if (!row && !*c->unknown && gf_eval_keys(c->event, &(int){0})) clean(key, c->unknown);
    if (!row) return 1;
    return row->role == GF_EVAL_SETTING && !(c->line && row->unless && holds(c->line, row->unless));
}

/* Bytes of the whole characters among the first n bytes of a longer text. */
static size_t cut(const char *text, size_t n) {
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    return n;
}

static void collect(void *user, const char *key, const char *value) {
    collector *c = user;
    char field[GF_SETTINGS_KEY_MAX], sum[16] = "";
    const size_t n = strlen(value), capacity = GF_SETTINGS_MAX - REST - c->used;
    if (!is_setting(c, key)) return;
    c->crc = gf_crc32c(gf_crc32c(c->crc, key, strlen(key) + 1), value, n + 1);
    if (n > VALUE_MAX) snprintf(sum, sizeof sum, "... #%08x", (unsigned)gf_crc32c(0, value, n));
    clean(key, field);
    const int put =
        snprintf(c->out + c->used, capacity, "%s=%.*s%s\n", field, (int)(n > VALUE_MAX ? cut(value, VALUE_MAX) : n), value, sum);
    if (put > 0 && (size_t)put < capacity) c->used += (size_t)put;
    else c->out[c->used] = 0, c->truncated = 1;
}

static void finish(collector *c) {
    if (c->truncated) snprintf(c->out + c->used, REST, "~=#%08x\n", (unsigned)c->crc);
}

void gf_settings_of_line(const gf_jsonl_reader *r, const char *event, char out[GF_SETTINGS_MAX],
                         char unknown[GF_SETTINGS_KEY_MAX]) {
    collector c = {.out = out, .event = event, .line = r, .unknown = unknown};
    out[0] = 0;
    if (!gf_jsonl_each(r, collect, &c)) c.truncated = 1, c.crc ^= (uint32_t)r->number; /* incomplete: comparable with no other */
    finish(&c);
}

void gf_settings_of_run(const gf_config *config, char out[GF_SETTINGS_MAX]) {
    char value[1100];
    collector c = {.out = out, .event = GF_EVAL_EPOCH};
    int rows;
    const gf_eval_key *row = gf_eval_keys(GF_EVAL_EPOCH, &rows);
    out[0] = 0;
    for (int i = 0; i < rows; i++) {
        if (row[i].role != GF_EVAL_SETTING) continue;
        gf_config_text(config, row[i].key, value, sizeof value);
        collect(&c, row[i].key, value);
    }
    finish(&c);
}

/* ----- two settings ----- */

/* Length of the field name at the start of a line. */
static size_t field_of(const char *line) { return strcspn(line, "=\n"); }

static const char *next(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* The line of a field, whose name ends at '=' or 0; NULL: missing. */
static const char *find(const char *settings, const char *field) {
    const size_t n = field_of(field);
    for (const char *at = settings; *at; at = next(at))
        if (field_of(at) == n && memcmp(at, field, n) == 0) return at;
    return NULL;
}

int gf_settings_differ(const char *a, const char *b, const char *field) {
    const char *x = find(a, field), *y = find(b, field);
    if (!x || !y) return x != y;
    const size_t n = strcspn(x, "\n");
    return strcspn(y, "\n") != n || memcmp(x, y, n) != 0;
}

const char *gf_settings_difference(const char *a, const char *b) {
    static const char *const first[] = {"test", "data", "names"};
    for (int i = 0; i < 3; i++)
        if (gf_settings_differ(a, b, first[i])) return first[i];
    for (const char *at = a; *at; at = next(at))
        if (gf_settings_differ(a, b, at)) return at;
    for (const char *at = b; *at; at = next(at))
        if (!find(a, at)) return at;
    return NULL;
}

void gf_settings_describe(const char *settings, const char *field, char *out, size_t bytes) {
    const char *line = find(settings, field);
    const size_t n = field_of(field);
    if (!line) {
        snprintf(out, bytes, "%.*s not recorded", (int)n, field);
        return;
    }
    const char *value = line + field_of(line) + (line[field_of(line)] == '=');
    const int length = (int)strcspn(value, "\n"), bare = n == 4 && memcmp(field, "test", 4) == 0;
    const char *space = bare ? "" : " ";
    const int name = bare ? 0 : (int)n;
    char sum[16] = ""; /* of a value that is shown in part; a truncated one has it already */
    if (length <= SHOWN_MAX) {
        snprintf(out, bytes, "%.*s%s%.*s", name, field, space, length, value);
        return;
    }
    if (length <= VALUE_MAX) snprintf(sum, sizeof sum, " #%08x", (unsigned)gf_crc32c(0, value, (size_t)length));
    const int head = (int)cut(value, SHOWN_MAX / 2 - 8), tail = length - (int)cut(value, (size_t)(length - SHOWN_MAX / 2 + 8));
    snprintf(out, bytes, "%.*s%s%.*s...%.*s%s", name, field, space, head, value, tail, value + length - tail, sum);
}
