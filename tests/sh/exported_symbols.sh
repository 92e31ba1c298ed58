# The shared library exports the functions of glofnd.h and nothing else, and its soname carries the version.
. "$2/tests/sh/common.inc"
header=$source/include/glofnd.h
library=$build/libglofnd.so
grep -Eq '^CMAKE_BUILD_TYPE:[A-Z]+=(San|Tsan)$' "$build/CMakeCache.txt" && skip "sanitizers export symbols of their own"
needs_tools nm
[ -e "$library" ] || fail "missing: $library"

exported=$(nm -D --defined-only "$library" | awk '{print $NF}' | sed 's/@.*//' | LC_ALL=C sort -u)
declared=$(grep -oE 'glofnd_[a-z0-9_]+\(' "$header" | tr -d '(' | LC_ALL=C sort -u)     # prototypes, and what comments speak of
[ -n "$exported" ] || fail "nm shows no exported symbols"

foreign=$(printf '%s\n' "$exported" | grep -v '^glofnd_')
[ -z "$foreign" ] || fail "exported, but not ours:" $foreign

printf '%s\n' "$exported" >exported
printf '%s\n' "$declared" >declared
hidden=$(comm -13 exported declared)
unknown=$(comm -23 exported declared | grep '^glofnd_')
[ -z "$hidden" ] || fail "in glofnd.h, but not exported:" $hidden
[ -z "$unknown" ] || fail "exported, but not in glofnd.h:" $unknown

major_minor=$(sed -n 's/^#define GLOFND_VERSION_\(MAJOR\|MINOR\) *//p' "$header" | paste -sd.)
if command -v readelf >/dev/null; then
    soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
    [ "$soname" = "libglofnd.so.$major_minor" ] || fail "soname is $soname, not libglofnd.so.$major_minor"
fi
echo "exports the $(printf '%s\n' "$exported" | wc -l) functions of glofnd.h"
