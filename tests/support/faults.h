/* faults.h - allocations that fail, for fault_x.c, which are linked with --wrap for the five functions in faults.c: every
 * allocation of the library and of the test itself comes through there, from any thread, is counted, and can be made to fail.
 *
 *     for (long k = 0;; k++) { faults_at(k);  what is tested;  if (!faults_end()) break;  what holds after a failure; }
 */
#pragma once

void faults_at(long k);  /* counts anew, and makes allocation number k fail, the first being 0; -1: none */
int faults_end(void);    /* no more failures: did the one that was asked for happen? */
long faults_count(void); /* allocations since faults_at */
