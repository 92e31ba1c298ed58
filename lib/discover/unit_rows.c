/* unit_rows.c - see unit_files.h: rows in the order of cells that are too many for memory. Their files are mapped one behind the
 * other, so that they are one array; the system keeps in memory what is used, and as much as it can. */
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "discover/unit_files.h"
#include "io/calls.h"

static size_t bytes_of(const gf_unit_folder *u) {
    const int64_t parts = gf_unit_count(u, GF_UNIT_ROWS);
    return ((size_t)(parts - 1) * (size_t)(u->chunk * u->dim) + gf_unit_row_numbers(u, parts - 1)) * sizeof(float);
}

static glofnd_status map_part(gf_error *err, const gf_unit_folder *u, int64_t part, float *to) {
    const size_t bytes = gf_unit_row_numbers(u, part) * sizeof *to;
    char path[PATH_MAX];
    struct stat st;
    TRY(gf_unit_path(err, u, GF_UNIT_ROWS, part, path));
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC, 0);
    FAIL_IF(err, fd < 0, GLOFND_E_IO, "'%.300s' cannot be opened", path);
    const int whole = fstat(fd, &st) == 0 && (uint64_t)st.st_size == GF_UNIT_ROWS_AT + bytes + sizeof(uint32_t);
    const void *at = whole ? mmap(to, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, GF_UNIT_ROWS_AT) : MAP_FAILED;
    gf_close(fd);
    FAIL_IF(err, !whole, GLOFND_E_FORMAT, "'%.300s' has another size than it should: all ranks need the same --memory", path);
    FAIL_IF(err, at == MAP_FAILED, GLOFND_E_IO, "'%.300s' cannot be mapped", path);
    return GLOFND_OK;
}

glofnd_status gf_unit_map_rows(gf_error *err, const gf_unit_folder *u, gf_panels *all) {
    const size_t bytes = bytes_of(u);
    void *x = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); /* addresses without memory */
    FAIL_IF(err, x == MAP_FAILED, GLOFND_E_MEMORY, "no addresses for %lld x %lld embeddings", (long long)u->n, (long long)u->dim);
    *all = (gf_panels){.n = u->n, .dim = u->dim, .x = x};
    for (int64_t part = 0; part < gf_unit_count(u, GF_UNIT_ROWS); part++) {
        const glofnd_status status = map_part(err, u, part, all->x + part * u->chunk * u->dim);
        if (status == GLOFND_OK) continue;
        gf_unit_unmap_rows(all);
        return status;
    }
    return GLOFND_OK;
}

void gf_unit_unmap_rows(gf_panels *all) {
    if (all->x) munmap(all->x, gf_panels_bytes(all->n, all->dim));
    *all = (gf_panels){0};
}

void gf_unit_remove_rows(const gf_unit_folder *u) {
    char path[PATH_MAX];
    for (int64_t part = 0; part < gf_unit_count(u, GF_UNIT_ROWS); part++)
        if (gf_unit_path(NULL, u, GF_UNIT_ROWS, part, path) == GLOFND_OK) unlink(path);
}
