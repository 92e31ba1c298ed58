/* comm_device.h - communication between ranks from device memory. Without CUDA these fail with E_UNSUPPORTED. */
#pragma once

#include "dist/comm.h"

/* Collective over `host`. Calls are queued on `stream` (cudaStream_t); pointers are device memory; exchange is missing. Close it
 * before the host's, and its duplicates before it. */
glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out);
/* Makes the GPU of this rank the current one; E_DEVICE if the machine has more ranks than GPUs. */
glofnd_status gf_device_choose(gf_error *err, int local_rank);
/* The same for ranks that may share a GPU: local_ranks of them on this machine, dealt out over its GPUs. *sharing: those on the
 * GPU of this one; each takes an equal part of the memory that is free. */
glofnd_status gf_device_share(gf_error *err, int local_rank, int local_ranks, int *sharing);
void gf_device_comm_describe(char *text, size_t bytes);
