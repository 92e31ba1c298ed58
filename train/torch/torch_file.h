/* torch_file.h - tensors of a file of torch.save, read without running anything.
 *
 * A zip archive (PyTorch 1.6 and later): NAME/data.pkl is a pickle of a dict of tensors, or of a dict that has one under
 * "state_dict", "model_state_dict" or "model"; every tensor names a storage NAME/data/KEY, an offset, sizes and strides.
 * "module." and "_orig_mod." in front of all names, of DistributedDataParallel and torch.compile, are left out. Values that
 * are no tensors are skipped. A pickle that would call anything but what makes tensors is refused with the name of it.
 *
 *     gf_weights_open(&err, path, &f);      a file of torch.save or of safetensors, by its content; then as in safetensors.h
 */
#pragma once

#include "io/safetensors.h"

/* As gf_st_open. Tensors come in the order of the dict; those of other strides than row-major are `strided`. */
glofnd_status gf_torch_open(gf_error *err, const char *path, gf_st_file *out);
/* gf_torch_open or gf_st_open. Files of torch.save before PyTorch 1.6 are refused with what to do. */
glofnd_status gf_weights_open(gf_error *err, const char *path, gf_st_file *out);
