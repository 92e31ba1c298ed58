/* embeddings_api.h - the files of a glofnd_embeddings, for calls of the public header that take one. */
#pragma once

#include "embeddings/embedding_set.h"
#include "glofnd_discover.h"

gf_embedding_set *gf_embeddings_of(glofnd_embeddings *e);
