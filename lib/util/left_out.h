/* left_out.h - advice of messages about a library that was left out of this build. The static program, which is downloaded, is
 * not built again: a complete program is needed. */
#pragma once

#ifdef GF_STATIC_PROGRAM
#define GF_LEFT_OUT(library, package)    \
    "the static program has no " library \
    "; use the complete one, of the Debian packages, the container image or a build from source (docs/install.md)"
#else
#define GF_LEFT_OUT(library, package) \
    "this program was built without " library "; install it (Debian: " package ") and build again"
#endif
