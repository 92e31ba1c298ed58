/* visited.c - see visited.h. Open addressing, at most half full. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/visited.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The place of `id`, or the empty one where it belongs. */
static gf_folder_id *find(gf_folder_id *place, size_t capacity, gf_folder_id id) {
    uint64_t at = (id.inode ^ id.device * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    for (at ^= at >> 32;; at++) {
        gf_folder_id *p = &place[at & (capacity - 1)];
        if (p->inode == 0 || (p->inode == id.inode && p->device == id.device)) return p;
    }
}

static int grow(gf_visited *v) {
    const size_t capacity = v->capacity ? 2 * v->capacity : 64;
    gf_folder_id *place = calloc(capacity, sizeof *place);
    if (!place) return 0;
    for (size_t i = 0; i < v->capacity; i++)
        if (v->place[i].inode) *find(place, capacity, v->place[i]) = v->place[i];
    free(v->place);
    v->place = place;
    v->capacity = capacity;
    return 1;
}

glofnd_status gf_visited_add(gf_error *err, gf_visited *v, const char *path, int *is_new) {
    struct stat st;
    FAIL_IF(err, stat(path, &st) != 0, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    FAIL_IF(err, 2 * (v->used + 1) > v->capacity && !grow(v), GLOFND_E_MEMORY, "no memory for a list of %zu folders",
            v->used + 1);
    const gf_folder_id id = {(uint64_t)st.st_dev, (uint64_t)st.st_ino ? (uint64_t)st.st_ino : UINT64_MAX};
    gf_folder_id *p = find(v->place, v->capacity, id);
    *is_new = p->inode == 0;
    if (*is_new) *p = id, v->used++;
    return GLOFND_OK;
}

void gf_visited_free(gf_visited *v) {
    free(v->place);
    *v = (gf_visited){0};
}
