/* threads.h - threads beside the program's own, and conditions that are waited for with a limit, on the monotonic clock: setting
 * the time of day does not matter. The only timed wait of the program (a test checks it).
 */
#pragma once

#include <pthread.h>

/* As pthread_create, for a thread that no signal is delivered to; 1: done. */
int gf_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);
/* As pthread_cond_init; 1: done. */
int gf_timed_cond_init(pthread_cond_t *c);
/* Waits until the condition is signalled or `seconds` have passed; may also return early for no reason. With the lock held. */
void gf_timed_cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, double seconds);
