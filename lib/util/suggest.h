/* suggest.h - how far apart two words are, for messages that guess what was meant. */
#pragma once

/* Letters to insert, delete, replace or swap with their neighbour. The first 40 of each word count: words may be long. */
int gf_edit_distance(const char *a, const char *b);
/* 1: `word` is likely `known` with typing errors. One error in words of up to three letters, two up to eight, then a third. */
int gf_is_near(const char *word, const char *known);
