/* fake_nvjpeg.h - what a test tells libnvjpeg's stand-in, and what that has seen. */
#pragma once

#include <stddef.h>

typedef struct fake_nvjpeg_orders {
    int major, minor;
    int no_engines; /* the backend of JPEG engines is refused */
    unsigned engines;
    unsigned char untaken; /* a header of a file that ends in this byte is refused */
    unsigned char refused; /* a batch with a file that ends in this byte is */
    size_t height;         /* rows of every image */
    unsigned flags;        /* of the last nvjpegCreateEx */
    int handles, states;   /* alive */
    int initialized, calls;
    void *stream;
} fake_nvjpeg_orders;
