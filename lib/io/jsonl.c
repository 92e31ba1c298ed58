/* jsonl.c - see jsonl.h: writing, which needs no library. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/jsonl.h"

#include <stdlib.h>
#include <string.h>

#include "util/number_text.h"
#include "util/utf8.h"

/* ----- opening ----- */

/* End of the last whole line, searched from the end. */
static glofnd_status last_line_end(gf_jsonl *j, uint64_t *cut) {
    char part[4096];
    for (uint64_t end = gf_log_size(&j->log); end > 0;) {
        const size_t n = end < sizeof part ? (size_t)end : sizeof part;
        TRY(gf_log_read(&j->log, end - n, part, n));
        const char *newline = memrchr(part, '\n', n);
        end -= n;
        *cut = newline ? end + (uint64_t)(newline - part) + 1 : 0;
        if (newline) return GLOFND_OK;
    }
    *cut = 0;
    return GLOFND_OK;
}

static glofnd_status check_line_end(gf_jsonl *j, uint64_t keep) {
    const uint64_t size = gf_log_size(&j->log);
    char last = '\n';
    FAIL_IF(j->log.err, keep > size, GLOFND_E_FORMAT, "'%.300s' has %llu bytes; it should have at least %llu", j->log.path,
            (unsigned long long)size, (unsigned long long)keep);
    if (keep > 0) TRY(gf_log_read(&j->log, keep - 1, &last, 1));
    FAIL_IF(j->log.err, last != '\n', GLOFND_E_FORMAT, "'%.300s' cannot be continued after byte %llu: no line ends there",
            j->log.path, (unsigned long long)keep);
    return GLOFND_OK;
}

static glofnd_status position(gf_jsonl *j, int64_t keep) {
    uint64_t cut = keep < 0 ? 0 : (uint64_t)keep;
    TRY(keep < 0 ? last_line_end(j, &cut) : check_line_end(j, cut));
    return gf_log_cut(&j->log, cut);
}

glofnd_status gf_jsonl_open(gf_error *err, gf_jsonl *j, const char *path, int64_t keep) {
    *j = (gf_jsonl){0};
    FAIL_IF(err, keep < GF_LOG_ALL, GLOFND_E_ARGUMENT, "'%.300s': %lld bytes cannot be kept", path, (long long)keep);
    TRY(gf_log_open(err, &j->log, path, keep <= 0));
    const glofnd_status status = position(j, keep);
    if (status != GLOFND_OK) gf_jsonl_close(j);
    return status;
}

glofnd_status gf_jsonl_open_shared(gf_error *err, gf_jsonl *j, const char *path) {
    *j = (gf_jsonl){0};
    return gf_log_open_shared(err, &j->log, path);
}

/* ----- writing ----- */

static void put(gf_jsonl *j, const char *text) { gf_log_put(&j->log, text, strlen(text)); }

size_t gf_jsonl_character(const char **text, char *out) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)*text;
    const size_t n = gf_utf8_bytes(p);
    *text += n ? n : 1;
    if (n == 0) {
        memcpy(out, "\\ufffd", 6);
        return 6;
    }
    const unsigned char control = n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? p[1] : p[0]; /* U+0080 to U+009F */
    if (control < 0x20 || (control >= 0x7f && control < 0xa0)) {
        memcpy(out, "\\u00", 4);
        out[4] = hex[control >> 4], out[5] = hex[control & 15];
        return 6;
    }
    const size_t escape = *p == '"' || *p == '\\';
    if (escape) *out = '\\';
    memcpy(out + escape, p, n);
    return escape + n;
}

static void put_string(gf_jsonl *j, const char *text) {
    put(j, "\"");
    while (*text) {
        char character[GF_JSONL_CHARACTER];
        gf_log_put(&j->log, character, gf_jsonl_character(&text, character));
    }
    put(j, "\"");
}

static void put_number(gf_jsonl *j, double x) {
    char text[GF_NUMBER_BYTES];
    gf_log_put(&j->log, text, gf_number_text(text, x));
}

static void put_key(gf_jsonl *j, const char *key) {
    if (j->fields++ > 0) put(j, ", ");
    put_string(j, key);
    put(j, ": ");
}

void gf_jsonl_begin(gf_jsonl *j) {
    gf_log_drop(&j->log);
    j->fields = 0;
    put(j, "{");
}

void gf_jsonl_number(gf_jsonl *j, const char *key, double x) {
    put_key(j, key);
    put_number(j, x);
}

void gf_jsonl_integer(gf_jsonl *j, const char *key, int64_t x) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)x);
    put_key(j, key);
    put(j, text);
}

void gf_jsonl_flag(gf_jsonl *j, const char *key, int yes) {
    put_key(j, key);
    put(j, yes ? "true" : "false");
}

void gf_jsonl_text(gf_jsonl *j, const char *key, const char *text) {
    put_key(j, key);
    if (text) put_string(j, text);
    else put(j, "null");
}

void gf_jsonl_numbers(gf_jsonl *j, const char *key, const double *x, int64_t n) {
    put_key(j, key);
    put(j, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) put(j, ", ");
        put_number(j, x[i]);
    }
    put(j, "]");
}

void gf_jsonl_texts(gf_jsonl *j, const char *key, const char *const *text, int64_t n) {
    put_key(j, key);
    put(j, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) put(j, ", ");
        put_string(j, text[i]);
    }
    put(j, "]");
}

glofnd_status gf_jsonl_end(gf_jsonl *j) {
    put(j, "}\n");
    return gf_log_end(&j->log);
}

glofnd_status gf_jsonl_flush(gf_jsonl *j) { return gf_log_flush(&j->log); }
glofnd_status gf_jsonl_sync(gf_jsonl *j) { return gf_log_sync(&j->log); }
uint64_t gf_jsonl_offset(const gf_jsonl *j) { return gf_log_offset(&j->log); }
glofnd_status gf_jsonl_close(gf_jsonl *j) { return j ? gf_log_close(&j->log) : GLOFND_OK; }
