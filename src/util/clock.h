/* clock.h - the time, in seconds. */
#ifndef GF_UTIL_CLOCK_H
#define GF_UTIL_CLOCK_H

double gf_clock(void);      /* monotonic, from an arbitrary start: for durations */
double gf_wall_clock(void); /* since 1970, as the machine's calendar has it */

#endif
