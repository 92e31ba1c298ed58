/* shapes_texture.h - textures of the drawn shapes. */
#ifndef GF_DATA_FORMATS_SHAPES_TEXTURE_H
#define GF_DATA_FORMATS_SHAPES_TEXTURE_H

#include "data/formats/shapes.h"

/* Share of the second colour at local point p, `distance` from the outline (negative inside); `pixel` in local units. */
float gf_texture_at(const gf_scene *s, gf_point p, float distance, float pixel);

#endif
