/* decode_batch.h - the end of a batch: a device decodes the images that were left to it, the CPU those that it cannot, unreadable
 * samples are replaced (substitute.h), and the device is given the pixels of the CPU.
 *
 * Which of them decodes an image depends on its file and its views alone: a substitute and an image that the device refused are
 * decoded by the CPU. So batches are the same for any number of workers.
 */
#pragma once

#include "loader/substitute.h"

/* All samples were tried. E_FORMAT in s if too few samples are readable; errors of the device likewise. Without the lock: s
 * belongs to w. */
void gf_slot_complete(const gf_maker *m, gf_worker *w, gf_slot *s);
