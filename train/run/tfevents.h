/* tfevents.h - TensorBoard event files: scalars and histograms over steps.
 *
 *     gf_events_open(&err, &t, "run/events.out.tfevents.1.run", 0, now);       TensorBoard wants "tfevents" in the name
 *     gf_events_begin(&t, step, now);
 *     gf_events_scalar(&t, "train/loss", loss);
 *     gf_events_histogram(&t, "lambda", lambda, n, 64);
 *     gf_events_end(&t);
 *
 * One event per begin/end, with any number of values. Failures stick and are reported by end, flush, sync and close, as in
 * appendlog.h.
 * Format: records {u64 length, masked CRC-32C of it, data, masked CRC-32C of that}; data is a protobuf message `Event`.
 */
#pragma once

#include "io/appendlog.h"

typedef struct gf_events {
    gf_log log;
    int64_t step; /* of the event in the making */
    double time;
    unsigned char *values; /* its values so far, in protobuf */
    size_t used, capacity;
} gf_events;

/* keep: bytes of an earlier file to continue after (gf_events_offset() at that time), 0 for a new one, GF_LOG_ALL for all whole
 * records. Kept records are checked one by one: E_FORMAT if one is corrupt or `keep` is not the end of a record; the file is
 * then as it was. `time`: seconds since 1970, of the record that opens a new file. */
glofnd_status gf_events_open(gf_error *err, gf_events *t, const char *path, int64_t keep, double time);

void gf_events_begin(gf_events *t, int64_t step, double time);
/* Tags are UTF-8; "a/b" is shown in the group "a". Non-finite values are written as they are. */
void gf_events_scalar(gf_events *t, const char *tag, double value);
/* `bins` (>= 1) equal bins between the smallest and the greatest of values [n]; non-finite ones are left out. */
void gf_events_histogram(gf_events *t, const char *tag, const float *values, int64_t n, int bins);
/* An event without values is not written. */
glofnd_status gf_events_end(gf_events *t);

glofnd_status gf_events_flush(gf_events *t);
glofnd_status gf_events_sync(gf_events *t);
uint64_t gf_events_offset(const gf_events *t); /* end of the last event; what to keep when resuming here */
glofnd_status gf_events_close(gf_events *t);   /* flushes; NULL, a zeroed and a closed one are fine */
