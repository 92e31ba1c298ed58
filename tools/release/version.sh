#!/bin/sh
# version.sh - the version in include/glofnd.h
sed -n 's/^#define GLOFND_VERSION_[A-Z]* \{1,\}\([0-9]\{1,\}\)$/\1/p' "$(dirname "$0")/../../include/glofnd.h" | paste -sd. -
