/* suggest.h - how far apart two words are, for messages that guess what was meant. */
#pragma once

/* Letters to insert, delete, replace or swap with their neighbour. Of each word the first 40 count: words come from strangers. */
int gf_edit_distance(const char *a, const char *b);
/* Is `known` what a typing error made `word` of? One error in words of up to three letters, two up to eight, then a third. */
int gf_is_near(const char *word, const char *known);
