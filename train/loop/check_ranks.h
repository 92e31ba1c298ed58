/* check_ranks.h - checks before ranks train together: configuration, data, checkpoint and run folder must be equal on all. */
#pragma once

#include "dist/dist.h"
#include "loop/trainer.h"

/* Collective. E_ARGUMENT names the first rank that differs from rank 0, and the difference: a key of the configuration, the
 * dataset. from: path of the checkpoint that the rank found, "" for none. */
glofnd_status gf_check_ranks_equal(gf_error *err, gf_comm *c, const gf_trainer *t, const char *from);
/* Collective, once the first rank has made the folder: every rank must see the same one, and may write there. */
glofnd_status gf_check_ranks_folder(gf_error *err, gf_comm *c, const char *run);
