/* share.h - sweep --share: runs that take the same steps until their detectors start (run/resume.h) share them.
 *
 * Of such a group the run that remembers most, and of these the one whose detector starts last, is trained as it is, and keeps
 * its checkpoints where others start. These, its branches, begin as copies of them. A branch may be the
 * trunk of others in turn: one that starts later than its trunk has checkpoints that others can begin with. */
#pragma once

#include "programs/sweep/sweep.h"

/* Sets trunk, from and keep of the runs, by what is on the disk: only runs without a folder become branches. */
glofnd_status sweep_share_plan(gf_error *err, const sweep_plan *p, sweep_run *runs, int count);
/* 1: the branch r can start: its folder is there now, or it has become a run of its own. 0: its checkpoint is still to come.
 * trunk_ended: the trunk makes none now. said: a line about it, or "". */
int sweep_share_begin(sweep_run *runs, int count, sweep_run *r, int trunk_ended, char *said, size_t bytes);
/* Removes shared checkpoints that no run needs any more, but for the newest ones that every run keeps; `leftovers`: also copies
 * that a kill has cut, when none is being made. */
void sweep_share_clean(const sweep_plan *p, const sweep_run *runs, int count, int leftovers);
/* What is shared, a line each: for people. */
void sweep_share_print(FILE *to, const sweep_plan *p, const sweep_run *runs, int count);
