/* safetensors_checksum.h - the checksum in the texts of a safetensors file, over all of its bytes with zeros in its own place. */
#pragma once

#include "io/safetensors.h"

#define GF_ST_NO_CHECKSUM "0000000000000000"

/* Puts the checksum in the place of GF_ST_NO_CHECKSUM in the text of a header, which is `length` bytes in the file, filled up
 * with blanks. Without such a place nothing happens. */
void gf_st_put_checksum(char *header, uint64_t length, const gf_st_tensor *tensors, int64_t count);
