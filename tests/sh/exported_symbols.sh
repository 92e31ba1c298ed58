# The shared library exports the functions of glofnd.h and nothing else, and its soname carries the version.
set -u
build=$1 header=$2/include/glofnd.h
library=$build/libglofnd.so
grep -Eq '^CMAKE_BUILD_TYPE:[A-Z]+=(San|Tsan)$' "$build/CMakeCache.txt" && exit 77   # sanitizers export symbols of their own
command -v nm >/dev/null || exit 77
[ -e "$library" ] || { echo "missing: $library"; exit 1; }

exported=$(nm -D --defined-only "$library" | awk '{print $NF}' | sed 's/@.*//' | LC_ALL=C sort -u)
declared=$(grep -oE 'glofnd_[a-z0-9_]+\(' "$header" | tr -d '(' | LC_ALL=C sort -u)     # prototypes, and what comments speak of
[ -n "$exported" ] || { echo "nm shows no exported symbols"; exit 1; }

status=0
foreign=$(printf '%s\n' "$exported" | grep -v '^glofnd_')
[ -z "$foreign" ] || { echo "exported, but not ours:" $foreign; status=1; }

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
printf '%s\n' "$exported" >"$scratch/exported"
printf '%s\n' "$declared" >"$scratch/declared"
hidden=$(comm -13 "$scratch/exported" "$scratch/declared")
unknown=$(comm -23 "$scratch/exported" "$scratch/declared" | grep '^glofnd_')
[ -z "$hidden" ] || { echo "in glofnd.h, but not exported:" $hidden; status=1; }
[ -z "$unknown" ] || { echo "exported, but not in glofnd.h:" $unknown; status=1; }

major_minor=$(sed -n 's/^#define GLOFND_VERSION_\(MAJOR\|MINOR\) *//p' "$header" | paste -sd.)
if command -v readelf >/dev/null; then
    soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
    [ "$soname" = "libglofnd.so.$major_minor" ] || { echo "soname is $soname, not libglofnd.so.$major_minor"; status=1; }
fi
[ "$status" = 0 ] && echo "exports the $(printf '%s\n' "$exported" | wc -l) functions of glofnd.h"
exit "$status"
