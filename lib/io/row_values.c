/* row_values.c - see row_values.h. */
#include "io/row_values.h"

#include <string.h>
#include <strings.h>

#include "io/file.h"

typedef struct reading {
    const gf_row_values *v;
    int64_t rows;
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    reading *r = user;
    char *end = line + strlen(line);
    (void)number;
    while (end > line && strchr(" \t\r\n", end[-1])) *--end = 0;
    return r->v->line(err, r->v->user, line + strspn(line, " \t"), r->rows++);
}

static glofnd_status read_array(gf_error *err, const gf_row_values *v, int64_t *rows) {
    gf_npy a = {0};
    TRY(gf_npy_read(err, v->path, &a));
    const glofnd_status status = v->array(err, v->user, &a);
    *rows = a.count;
    gf_npy_free(&a);
    return status;
}

glofnd_status gf_row_values_read(gf_error *err, const gf_row_values *v, int64_t *rows) {
    const size_t n = strlen(v->path);
    reading r = {v, 0};
    if (n > 4 && strcasecmp(v->path + n - 4, ".npy") == 0) return read_array(err, v, rows);
    TRY(gf_each_line(err, v->path, take_line, &r));
    *rows = r.rows;
    return GLOFND_OK;
}
