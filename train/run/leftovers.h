/* leftovers.h - files that a killed process has left in a run folder. */
#pragma once

/* Removes scratch files, and temporary names of files that were being written. `folder`: its descriptor. */
void gf_leftovers_remove(int folder);
