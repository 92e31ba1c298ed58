/* data_files.h - the JPEG files a data benchmark reads: those of a folder, or photo-like ones drawn into a temporary folder. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FILES_MAX 512

typedef struct data_files {
    char folder[512];
    int drawn; /* the folder is ours, to be removed */
    int count;
    uint8_t *bytes[FILES_MAX];
    size_t size[FILES_MAX];
    double mean_bytes, mean_width, mean_height;
} data_files;

/* `count` drawn pictures of 500 x 375, quality 90: `shapes` under noise of all scales, about as many bytes as a photo takes. */
void data_files_draw(data_files *f, int count);
/* The first `max` *.jpg and *.jpeg of a folder, by name. */
void data_files_open(data_files *f, const char *folder, int max);
void data_files_free(data_files *f);
