/* parquet_values.c - see parquet_values.h. */
#include "io/parquet_values.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/dtype.h"

/* ----- repeated and bit-packed integers ----- */

gf_hybrid gf_hybrid_of(const uint8_t *bytes, size_t n, int width) {
    return (gf_hybrid){.at = bytes, .end = bytes + n, .width = width};
}

static int take_varint(gf_hybrid *h, uint64_t *x) {
    *x = 0;
    for (int shift = 0; shift < 35 && h->at < h->end; shift += 7) {
        const uint8_t byte = *h->at++;
        *x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

/* A run: an even head repeats one value head / 2 times, an odd one has head / 2 groups of 8 packed values. The last group may be
 * cut after the bytes that are used. */
static int next_run(gf_hybrid *h) {
    uint64_t head;
    if (!take_varint(h, &head)) return 0;
    const size_t left = (size_t)(h->end - h->at), bytes = ((size_t)h->width + 7) / 8;
    if (head & 1) {
        const uint64_t stated = (head >> 1) * 8;
        h->packed = h->width ? GF_MIN(stated, (uint64_t)left * 8 / (uint64_t)h->width) : stated;
        h->bit = 0;
        return h->packed > 0;
    }
    if (left < bytes) return 0;
    h->value = 0;
    for (size_t i = 0; i < bytes; i++) h->value |= (uint32_t)h->at[i] << 8 * i;
    h->at += bytes;
    h->repeat = head >> 1;
    return h->repeat > 0;
}

static uint32_t packed_value(gf_hybrid *h) {
    const uint8_t *p = h->at + h->bit / 8;
    const int shift = (int)(h->bit & 7), bytes = (shift + h->width + 7) / 8;
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)p[i] << 8 * i;
    h->bit += (uint64_t)h->width;
    return (uint32_t)(x >> shift & (((uint64_t)1 << h->width) - 1));
}

int gf_hybrid_take(gf_hybrid *h, uint32_t *out, size_t n) {
    while (n > 0) {
        if (h->repeat == 0 && h->packed == 0 && !next_run(h)) return 0;
        const size_t some = (size_t)GF_MIN((uint64_t)n, h->repeat ? h->repeat : h->packed);
        if (h->repeat) {
            for (size_t i = 0; i < some; i++) out[i] = h->value;
            h->repeat -= some;
        } else {
            for (size_t i = 0; i < some; i++) out[i] = packed_value(h);
            h->packed -= some;
            if (h->packed == 0) h->at += (h->bit + 7) / 8;
        }
        out += some, n -= some;
    }
    return 1;
}

/* ----- dictionaries ----- */

static uint32_t little32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int gf_dictionary_init(gf_dictionary *d, const uint8_t *bytes, size_t n, size_t count, int width) {
    *d = (gf_dictionary){.bytes = bytes, .count = count};
    if (width > 0) return count <= n / (size_t)width;
    if (count > n / 4) return 0;
    d->at = malloc((count + 1) * sizeof *d->at);
    size_t at = 0;
    for (size_t i = 0; d->at && i < count; i++) {
        if (n - at < 4 || little32(bytes + at) > n - at - 4) {
            gf_dictionary_free(d);
            return 0;
        }
        d->at[i] = (uint32_t)at;
        at += 4 + (size_t)little32(bytes + at);
    }
    if (d->at) d->at[count] = (uint32_t)at;
    return d->at ? 1 : -1;
}

void gf_dictionary_free(gf_dictionary *d) {
    free(d->at);
    *d = (gf_dictionary){0};
}

/* ----- values ----- */

static float to_float(const uint8_t *p, int type, int half) {
    float x;
    double y;
    uint16_t h;
    if (half) {
        memcpy(&h, p, sizeof h);
        return gf_f16_to_float(h);
    }
    if (type == GF_PARQUET_DOUBLE) {
        memcpy(&y, p, sizeof y);
        return (float)y;
    }
    memcpy(&x, p, sizeof x);
    return x;
}

static int plain_floats(gf_page_values *v, float *out, size_t n) {
    const size_t width = (size_t)v->width;
    if ((size_t)(v->end - v->at) / width < n) return 0;
    if (v->type == GF_PARQUET_FLOAT) memcpy(out, v->at, n * width);
    else
        for (size_t i = 0; i < n; i++) out[i] = to_float(v->at + i * width, v->type, v->half);
    v->at += n * width;
    return 1;
}

/* Byte k of value i is at k * count + i. */
static int split_floats(gf_page_values *v, float *out, size_t n) {
    if (v->count - v->next < n) return 0;
    for (size_t i = 0; i < n; i++, v->next++) {
        uint8_t bytes[8] = {0};
        for (size_t k = 0; k < (size_t)v->width; k++) bytes[k] = v->at[k * v->count + v->next];
        out[i] = to_float(bytes, v->type, v->half);
    }
    return 1;
}

static int dictionary_floats(gf_page_values *v, float *out, size_t n) {
    enum { SOME = 256 };
    uint32_t place[SOME];
    for (size_t done = 0; done < n;) {
        const size_t some = GF_MIN(n - done, SOME);
        if (!gf_hybrid_take(&v->place, place, some)) return 0;
        for (size_t i = 0; i < some; i++) {
            if (place[i] >= v->dict->count) return 0;
            out[done + i] = to_float(v->dict->bytes + (size_t)place[i] * (size_t)v->width, v->type, v->half);
        }
        done += some;
    }
    return 1;
}

static int integer_floats(gf_page_values *v, float *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        if (!gf_page_integer(v, &x)) return 0;
        out[i] = (float)x;
    }
    return 1;
}

int gf_page_floats(gf_page_values *v, float *out, size_t n) {
    if (v->type == GF_PARQUET_INT32 || v->type == GF_PARQUET_INT64) return integer_floats(v, out, n);
    if (v->encoding == GF_ENCODING_PLAIN) return plain_floats(v, out, n);
    return v->encoding == GF_ENCODING_SPLIT ? split_floats(v, out, n) : dictionary_floats(v, out, n);
}

int gf_page_integer(gf_page_values *v, int64_t *out) {
    const size_t width = (size_t)v->width;
    if (v->encoding == GF_ENCODING_DELTA) {
        if (!gf_delta_next(&v->delta, out)) return 0;
        if (width == 4) *out = (int64_t)(int32_t)(uint32_t)*out; /* sums are modulo 2^32 */
        return 1;
    }
    const uint8_t *p = v->at;
    uint8_t bytes[8] = {0};
    uint32_t place;
    if (v->encoding == GF_ENCODING_PLAIN) {
        if ((size_t)(v->end - v->at) < width) return 0;
        v->at += width;
    } else if (v->encoding == GF_ENCODING_SPLIT) {
        if (v->next == v->count) return 0;
        for (size_t k = 0; k < width; k++) bytes[k] = v->at[k * v->count + v->next];
        v->next++;
        p = bytes;
    } else {
        if (!gf_hybrid_take(&v->place, &place, 1) || place >= v->dict->count) return 0;
        p = v->dict->bytes + (size_t)place * width;
    }
    uint64_t x = little32(p);
    if (width == 8) x |= (uint64_t)little32(p + 4) << 32;
    *out = width == 8 ? (int64_t)x : (int64_t)(int32_t)(uint32_t)x;
    return 1;
}

int gf_page_text(gf_page_values *v, const uint8_t **text, size_t *n) {
    uint32_t place;
    if (v->encoding == GF_ENCODING_DELTA_LENGTH || v->encoding == GF_ENCODING_DELTA_TEXT)
        return gf_delta_texts_next(&v->texts, text, n);
    if (v->encoding == GF_ENCODING_PLAIN) {
        const size_t left = (size_t)(v->end - v->at);
        if (left < 4 || little32(v->at) > left - 4) return 0;
        *n = little32(v->at);
        *text = v->at + 4;
        v->at += 4 + *n;
        return 1;
    }
    if (!v->dict || !gf_hybrid_take(&v->place, &place, 1) || place >= v->dict->count) return 0;
    *text = v->dict->bytes + v->dict->at[place] + 4;
    *n = v->dict->at[place + 1] - v->dict->at[place] - 4;
    return 1;
}
