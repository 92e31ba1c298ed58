/* braces.h - shard patterns: {000..012} and {a,b} as in a shell, then * ? [...] matched against files. */
#ifndef GF_DATA_BRACES_H
#define GF_DATA_BRACES_H

#include "util/strings/string_list.h"

#define GF_BRACES_MOST 1000000 /* names one pattern may stand for */

/* Braces only; names in the order they are written. E_ARGUMENT: unbalanced, or more than GF_BRACES_MOST. */
glofnd_status gf_braces_expand(gf_error *err, const char *pattern, gf_string_list *out);
/* Braces, then files: a name with * ? [ stands for its matches in bytewise order, a folder for its *.tar. E_IO: nothing matches.
 * */
glofnd_status gf_shards_find(gf_error *err, const char *pattern, gf_string_list *out);

#endif
