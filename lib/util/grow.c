/* grow.c - see grow.h. */
#include "util/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int gf_grow(void *pointer, size_t *capacity, size_t count, size_t bytes) {
    void *old, *grown = NULL;
    if (count <= *capacity) return 1;
    memcpy(&old, pointer, sizeof old); /* pointers to different types have no common type */
    if (count <= SIZE_MAX / 4 / bytes) grown = realloc(old, 2 * count * bytes);
    if (!grown) return 0;
    memcpy(pointer, &grown, sizeof grown);
    *capacity = 2 * count;
    return 1;
}
