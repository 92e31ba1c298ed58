#pragma once
/* source_file.h - files of the source tree that tests read: fixtures, scripts. */

/* Path of a file below the root of the sources, named from there ("tests/fixtures/abi-1.0.tsv"). The root is that of the build,
   or $GLOFND_SOURCE where the sources have moved since. Valid until the next call. */
const char *source_file(const char *name);
