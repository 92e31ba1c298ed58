/* no_step.c - stub of libglofnd for builds without CUDA: there is no accelerator. */
#include "device/accel_step.h"
#include "pairs/pairs_search.h"

const gf_device *const gf_device_cuda = NULL;
const gf_pairs_search *const gf_pairs_search_cuda = NULL;
