/* minmax.h - the smaller and the larger of two numbers of one type. An argument is evaluated twice. */
#pragma once

#define GF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define GF_MAX(a, b) ((a) > (b) ? (a) : (b))
