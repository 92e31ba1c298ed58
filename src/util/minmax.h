/* minmax.h - the smaller and the larger of two numbers of one type. An argument is evaluated twice. */
#ifndef GF_UTIL_MINMAX_H
#define GF_UTIL_MINMAX_H

#define GF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define GF_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
