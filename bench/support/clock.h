/* clock.h - times of one thing, measured several times: the median, and how far its neighbours lie. */
#pragma once

#define CLOCK_MAX 512

typedef struct clock_times {
    double ms[CLOCK_MAX];
    int count;
} clock_times;

void clock_add(clock_times *t, double ms); /* beyond CLOCK_MAX: ignored */
double clock_median(clock_times *t);       /* NaN if there is none */
double clock_least(clock_times *t);        /* NaN if there is none */
double clock_spread(clock_times *t);       /* (third quartile - first quartile) / median */
