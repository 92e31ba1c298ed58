#!/bin/sh
# check_format.sh [--fix] - checks that C and CUDA sources are formatted as .clang-format says. Exit 77 without clang-format 14,
# the pinned version (Debian 12: clang-format-14); other versions break lines in other places. --fix rewrites the files.
set -u
cd "$(dirname "$0")/.." || exit 2
tool=
for name in clang-format-14 clang-format; do
    if $name --version 2> /dev/null | grep -q 'version 14\.'; then tool=$name; break; fi
done
[ -n "$tool" ] || { echo "check_format: clang-format 14 is not installed (Debian 12: clang-format-14)"; exit 77; }
# Tables of data are left as they were generated; fixtures and golden numbers are data, too.
find lib train programs include tests bench examples fuzz \( -name fixtures -o -name golden \) -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) ! -name '*_tables.c' ! -name store_crcs.h -print0 |
    if [ "${1:-}" = --fix ]; then xargs -0 "$tool" -i; else xargs -0 "$tool" --dry-run -Werror; fi
