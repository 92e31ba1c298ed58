/* tfevents.c - see tfevents.h. The protobuf messages, as far as they are needed, with their field numbers:
 *
 *   Event           1 double wall_time, 2 int64 step, 3 string file_version, 5 Summary summary
 *   Summary         1 repeated Value value
 *   Value           1 string tag, 2 float simple_value, 5 HistogramProto histo
 *   HistogramProto  1 double min, 2 max, 3 num, 4 sum, 5 sum_squares, 6 packed double bucket_limit, 7 packed double bucket
 *
 * A field is its key (number * 8 + kind) and its content: kind 0 a varint, 1 eight bytes, 2 a length and that many bytes, 5 four.
 */
#include "run/tfevents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "util/array.h"

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 }; /* kinds */
enum { HEAD_BYTES = 12, TAIL_BYTES = 4 };                         /* around the data of a record */
#define MAX_RECORD ((uint64_t)1 << 30)                            /* longer ones are corrupt */
#define BINS_MAX 4096

/* ----- protobuf into a growing array; a failed allocation is kept in the log's status ----- */

static void add_bytes(gf_events *t, const void *data, size_t n) {
    if (t->log.status != GLOFND_OK) return;
    if (!gf_grow(&t->values, &t->capacity, t->used + n, 1)) {
        t->log.status = gf_fail(t->log.err, GLOFND_E_MEMORY, "no memory for an event of '%.300s'", t->log.path);
        return;
    }
    memcpy(t->values + t->used, data, n);
    t->used += n;
}

static size_t varint_bytes(unsigned char out[10], uint64_t x) {
    size_t n = 0;
    for (; x >= 128; x >>= 7) out[n++] = (unsigned char)(x | 128);
    out[n++] = (unsigned char)x;
    return n;
}

static void add_varint(gf_events *t, uint64_t x) {
    unsigned char p[10];
    add_bytes(t, p, varint_bytes(p, x));
}

static void add_key(gf_events *t, int field, int kind) { add_varint(t, (uint64_t)(field * 8 + kind)); }

static void add_raw_double(gf_events *t, double x) {
    unsigned char p[8];
    uint64_t bits;
    memcpy(&bits, &x, 8);
    gf_le64_put(p, bits);
    add_bytes(t, p, 8);
}

static void add_double(gf_events *t, int field, double x) {
    add_key(t, field, EIGHT_BYTES);
    add_raw_double(t, x);
}

static void add_text(gf_events *t, int field, const char *text) {
    add_key(t, field, LENGTH);
    add_varint(t, strlen(text));
    add_bytes(t, text, strlen(text));
}

static void add_doubles(gf_events *t, int field, const double *x, int count) {
    add_key(t, field, LENGTH);
    add_varint(t, (uint64_t)count * 8);
    for (int i = 0; i < count; i++) add_raw_double(t, x[i]);
}

/* A message within a message: its length comes before it and is known after it, so the bytes move up by the length's own. */
static size_t open_message(gf_events *t, int field) {
    add_key(t, field, LENGTH);
    return t->used;
}

static void close_message(gf_events *t, size_t start) {
    unsigned char p[10];
    const size_t length = t->used - start, n = varint_bytes(p, length);
    add_bytes(t, p, n); /* for the space */
    if (t->log.status != GLOFND_OK) return;
    memmove(t->values + start + n, t->values + start, length);
    memcpy(t->values + start, p, n);
}

/* ----- records ----- */

static uint32_t mask_crc(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static uint32_t masked_crc(const void *data, size_t n) { return mask_crc(gf_crc32c(0, data, n)); }

static glofnd_status put_record(gf_events *t) {
    unsigned char head[HEAD_BYTES], tail[TAIL_BYTES];
    gf_le64_put(head, t->used);
    gf_le32_put(head + 8, masked_crc(head, 8));
    gf_le32_put(tail, masked_crc(t->values, t->used));
    gf_log_put(&t->log, head, sizeof head);
    gf_log_put(&t->log, t->values, t->used);
    gf_log_put(&t->log, tail, sizeof tail);
    t->used = 0;
    return gf_log_end(&t->log);
}

/* ----- opening: what is kept must be whole records ----- */

/* *bytes: of the record at `at`, all of it; 0 if it is torn or corrupt. */
static glofnd_status check_record(gf_events *t, uint64_t at, uint64_t *bytes) {
    const uint64_t left = gf_log_size(&t->log) - at;
    unsigned char head[HEAD_BYTES], part[4096];
    uint32_t crc = 0;
    *bytes = 0;
    if (left < HEAD_BYTES + TAIL_BYTES) return GLOFND_OK;
    TRY(gf_log_read(&t->log, at, head, sizeof head));
    const uint64_t length = gf_le64(head);
    if (gf_le32(head + 8) != masked_crc(head, 8) || length > MAX_RECORD || length > left - HEAD_BYTES - TAIL_BYTES)
        return GLOFND_OK;
    for (uint64_t done = 0; done < length;) {
        const size_t n = length - done < sizeof part ? (size_t)(length - done) : sizeof part;
        TRY(gf_log_read(&t->log, at + HEAD_BYTES + done, part, n));
        crc = gf_crc32c(crc, part, n);
        done += n;
    }
    TRY(gf_log_read(&t->log, at + HEAD_BYTES + length, part, TAIL_BYTES));
    if (gf_le32(part) == mask_crc(crc)) *bytes = HEAD_BYTES + length + TAIL_BYTES;
    return GLOFND_OK;
}

static glofnd_status cut_to_records(gf_events *t, int64_t keep, double time) {
    /* The offset to cut at; keep GF_LOG_ALL: after the last whole record. */
    const uint64_t size = gf_log_size(&t->log), want = keep < 0 ? size : (uint64_t)keep;
    uint64_t cut = 0, bytes = 1;
    while (cut < want && bytes) {
        TRY(check_record(t, cut, &bytes));
        cut += bytes;
    }
    FAIL_IF(t->log.err, keep >= 0 && cut != want, GLOFND_E_FORMAT,
            "'%.300s' cannot be continued after byte %llu: its whole events end at byte %llu", t->log.path,
            (unsigned long long)want, (unsigned long long)cut);
    FAIL_IF(t->log.err, keep < 0 && cut == 0 && size > 0, GLOFND_E_FORMAT, "'%.300s' is not a TensorBoard event file",
            t->log.path);
    TRY(gf_log_cut(&t->log, cut));
    if (cut != 0) return GLOFND_OK;
    add_double(t, 1, time);
    add_text(t, 3, "brain.Event:2");
    TRY(t->log.status);
    return put_record(t);
}

glofnd_status gf_events_open(gf_error *err, gf_events *t, const char *path, int64_t keep, double time) {
    *t = (gf_events){0};
    FAIL_IF(err, keep < GF_LOG_ALL, GLOFND_E_ARGUMENT, "'%.300s': %lld bytes cannot be kept", path, (long long)keep);
    TRY(gf_log_open(err, &t->log, path, keep <= 0));
    const glofnd_status status = cut_to_records(t, keep, time);
    if (status != GLOFND_OK) gf_events_close(t);
    return status;
}

/* ----- events ----- */

void gf_events_begin(gf_events *t, int64_t step, double time) {
    t->used = 0;
    t->step = step;
    t->time = time;
}

void gf_events_scalar(gf_events *t, const char *tag, double value) {
    const size_t start = open_message(t, 1);
    add_text(t, 1, tag);
    const float x = (float)value;
    unsigned char p[4];
    uint32_t bits;
    memcpy(&bits, &x, 4);
    gf_le32_put(p, bits);
    add_key(t, 2, FOUR_BYTES);
    add_bytes(t, p, 4);
    close_message(t, start);
}

typedef struct histogram {
    double min, max, num, sum, squares, limit[BINS_MAX], count[BINS_MAX];
    int bins;
} histogram;

void gf_events_histogram(gf_events *t, const char *tag, const float *values, int64_t n, int bins) {
    if (t->log.status != GLOFND_OK) return;
    histogram *h = calloc(1, sizeof *h);
    if (!h) {
        t->log.status = gf_fail(t->log.err, GLOFND_E_MEMORY, "no memory for a histogram of '%.300s'", t->log.path);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = values[i];
        if (!isfinite(x)) continue;
        h->min = h->num == 0 || x < h->min ? x : h->min;
        h->max = h->num == 0 || x > h->max ? x : h->max;
        h->num++;
        h->sum += x;
        h->squares += x * x;
    }
    h->bins = h->min == h->max || bins < 1 ? 1 : bins < BINS_MAX ? bins : BINS_MAX;
    const double width = (h->max - h->min) / h->bins;
    for (int k = 0; k < h->bins; k++) h->limit[k] = k + 1 < h->bins ? h->min + width * (k + 1) : h->max;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        const double at = width > 0 ? (values[i] - h->min) / width : 0;
        h->count[at < h->bins ? (int)at : h->bins - 1]++;
    }
    const size_t value = open_message(t, 1);
    add_text(t, 1, tag);
    const size_t histo = open_message(t, 5);
    add_double(t, 1, h->min);
    add_double(t, 2, h->max);
    add_double(t, 3, h->num);
    add_double(t, 4, h->sum);
    add_double(t, 5, h->squares);
    add_doubles(t, 6, h->limit, h->bins);
    add_doubles(t, 7, h->count, h->bins);
    close_message(t, histo);
    close_message(t, value);
    free(h);
}

/* The values become field 5 of an Event: what precedes them is put together in front of them. */
glofnd_status gf_events_end(gf_events *t) {
    TRY(t->log.status);
    if (t->used == 0) return GLOFND_OK;
    const size_t summary = t->used;
    add_double(t, 1, t->time);
    add_key(t, 2, VARINT);
    add_varint(t, (uint64_t)t->step);
    add_key(t, 5, LENGTH);
    add_varint(t, summary);
    TRY(t->log.status);
    unsigned char front[64];
    const size_t n = t->used - summary;
    memcpy(front, t->values + summary, n);
    memmove(t->values + n, t->values, summary);
    memcpy(t->values, front, n);
    return put_record(t);
}

glofnd_status gf_events_flush(gf_events *t) { return gf_log_flush(&t->log); }
glofnd_status gf_events_sync(gf_events *t) { return gf_log_sync(&t->log); }
uint64_t gf_events_offset(const gf_events *t) { return gf_log_offset(&t->log); }

glofnd_status gf_events_close(gf_events *t) {
    if (!t) return GLOFND_OK;
    free(t->values);
    t->values = NULL;
    return gf_log_close(&t->log);
}
