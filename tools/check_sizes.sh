#!/bin/sh
# check_sizes.sh [ROOT] - are files, functions and lines as short as CONTRIBUTING.md asks? Lists what is longer than 500 lines, 60
# lines (a function) or 130 columns, and exits 1 if anything is. Data and tables do not count.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2
[ -d src ] || { echo "check_sizes: no folder src in $PWD" >&2; exit 2; }
export LC_ALL=C.UTF-8
list=$(find src cli include tests bench examples fuzz tools cmake -path tests/fixtures -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.inc' -o -name '*.cmake' -o -name '*.py' \) \
    -print)
bad=$(printf '%s\n' "$list" | grep -v '_tables\.c$' | sort | while read -r file; do
    # A function begins at the margin with a line, or the first of some lines, that ends in "{", and ends at a "}" at the margin.
    awk -v file="$file" -v code="${file##*.}" '
        { text = $0; gsub(/[\200-\277]/, "", text) }             # bytes that continue a letter, where awk counts bytes
        length(text) > 130 { printf "%s:%d: %d columns\n", file, FNR, length(text) }
        code !~ /^(c|h|cu|cuh)$/ { next }
        /^[A-Za-z_].*[,(]$/ && !inside && !pending { pending = FNR; name = $0 }
        /^[A-Za-z_].*\).*\{$/ && !inside { begin = FNR; name = $0; inside = 1 }
        /^[ \t].*\) *\{$/ && pending && !inside { begin = pending; inside = 1 }
        /^[A-Za-z_#].*;$/ && !inside { pending = 0 }
        /^\}/ {
            if (inside && FNR - begin >= 60) printf "%s:%d: a function of %d lines: %s\n", file, begin, FNR - begin + 1, name
            inside = pending = 0
        }
        END { if (FNR > 500) printf "%s: %d lines\n", file, FNR }' "$file"
done)
[ -z "$bad" ] || { printf '%s\n' "$bad"; exit 1; }
echo "$(printf '%s\n' "$list" | wc -l) files, all short enough"
