#!/bin/sh
# sysroot.sh FOLDER ARCH - headers and archives of the libraries that the program links, from Debian's packages for ARCH (arm64), in
# FOLDER. Nothing of it is configured or run. Needs mmdebstrap and the network.
set -eu
[ $# = 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ ! -e "$1.complete" ] || exit 0
command -v mmdebstrap > /dev/null || { echo "sysroot.sh: mmdebstrap is missing: install it (Debian: apt-get install mmdebstrap)" >&2; exit 1; }
packages=libc6-dev,libgcc-12-dev,libjpeg62-turbo-dev,libpng-dev,libwebp-dev,libutf8proc-dev,zlib1g-dev,libzstd-dev,liblbfgs-dev
packages=$packages,libdnnl-dev,libopenmpi-dev
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
list=$(ls /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null | head -n 1)
rm -rf "$1"
mmdebstrap --variant=extract --architectures="$2" --include="$packages" "$release" "$1" "$list" > "$1.log" 2>&1 ||
    { echo "sysroot.sh: no packages for $2: $(tail -n 1 "$1.log")" >&2; exit 1; }
: > "$1.complete"
