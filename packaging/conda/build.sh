#!/bin/sh
# build.sh - the recipe's build, into $PREFIX, with the libraries that are found there. Outside of conda:
#   SRC_DIR=sources PREFIX=folder sh build.sh
set -eu
build=${GLOFND_BUILD_DIR:-$SRC_DIR/build-conda}       # BUILD_DIR is a variable of rattler-build
cmake -S "$SRC_DIR" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_PREFIX_PATH="$PREFIX" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_RPATH="\$ORIGIN/../lib" -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DGLOFND_CUDA=OFF -DGLOFND_TESTS=OFF -DGLOFND_BENCH=OFF -DGLOFND_EXAMPLES=OFF
cmake --build "$build" --parallel "${CPU_COUNT:-2}" --target programs
cmake --install "$build"
