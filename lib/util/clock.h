/* clock.h - the time, in seconds. */
#pragma once

double gf_clock(void);      /* monotonic, from an arbitrary start: for durations */
double gf_cpu_clock(void);  /* that the processor has spent on this process, all threads together */
double gf_wall_clock(void); /* since 1970, as the machine's calendar has it */
