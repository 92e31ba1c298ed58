/* shards.h - for tests of WebDataset shards: archives made in memory, written to the scratch folder, opened, and looked into.
 *     add_png("a.png", 1);  add_text("a.cls", "3");  finish("x.tar");  gf_dataset *d = open_wds("x.tar");  expect_sample(...);
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "support/scratch.h"

typedef struct archive {
    uint8_t bytes[1 << 21];
    size_t size;
} archive;

extern archive tar; /* the one under way */

void fix_sum(uint8_t *block);                                           /* of a header that was changed */
uint8_t *add(const char *name, char type, const void *bytes, size_t n); /* gives the member's header */
void add_text(const char *name, const char *text);
void add_png(const char *name, uint8_t gray);
void finish(const char *name);             /* with an end mark; the next archive begins */
gf_dataset *open_wds(const char *pattern); /* of the scratch folder, as the next one */
void refused(const char *pattern, glofnd_status expected, const char *word);
void expect_sample(const gf_dataset *d, int64_t i, const char *key, int32_t label, int gray, const char *text);
void expect_note(const gf_dataset *d, const char *begin, const char *end); /* "" "": nothing was noted */
