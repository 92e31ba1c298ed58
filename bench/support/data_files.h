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

#define SIZES_MAX 16
typedef struct data_sizes { /* pixels of drawn pictures, which take turns */
    int width[SIZES_MAX], height[SIZES_MAX], count;
} data_sizes;

/* `count` drawn pictures of 500 x 375, quality 90: `shapes` under noise of all scales, about as many bytes as a photo takes. */
void data_files_draw(data_files *f, int count);
/* `count` such pictures as 00000.jpg ... in a folder that exists. */
void data_files_write(const char *folder, const data_sizes *sizes, int count, int threads);
/* The first `max` *.jpg and *.jpeg of a folder, by name. */
void data_files_open(data_files *f, const char *folder, int max);
void data_files_free(data_files *f);
