# The shared library exports the functions of the headers and nothing else: those of glofnd.h and glofnd_discover.h as version
# GLOFND_1.0, those of glofnd_experimental.h as version GLOFND_EXPERIMENTAL. Every function of an earlier release is still there,
# with its arguments: tests/fixtures/functions-1.0.txt. The soname carries the major version.
. "$2/tests/sh/common.inc"
header=$source/include/glofnd.h
library=$build/libglofnd.so
grep -Eq '^CMAKE_BUILD_TYPE:[A-Z]+=(San|Tsan)$' "$build/CMakeCache.txt" && skip "sanitizers export symbols of their own"
needs_tools nm
[ -e "$library" ] || fail "missing: $library"

# Prototypes: the name before the first parenthesis of what follows GLOFND_API.
declared() { sed -n 's/^GLOFND_API .*[ *]\(glofnd_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort; }
cat "$header" "$source/include/glofnd_discover.h" | declared >stable
declared <"$source/include/glofnd_experimental.h" >experimental
[ -s stable ] && [ -s experimental ] || fail "no prototypes found in $header"

# A release adds functions to a file of its own. `sh exported_symbols.sh BUILD SOURCE --print` writes all of today.
prototypes() {
    cat "$header" "$source/include/glofnd_discover.h" | sed 's|/\*.*\*/||' |
        awk '/^GLOFND_API / { text = "" ; on = 1 } on { text = text " " $0 } on && /;/ { print text; on = 0 }' |
        sed 's/^ *GLOFND_API *//; s/  */ /g; s/ *;.*/;/' | LC_ALL=C sort
}
if [ "${3:-}" = --print ]; then prototypes; exit; fi
prototypes >now
for release in "$source"/tests/fixtures/functions-*.txt; do
    gone=$(LC_ALL=C comm -23 "$release" now)
    [ -z "$gone" ] || fail "released, but not in the headers any more: $gone"
done

nm -D --defined-only "$library" | awk '$2 != "A" {print $NF}' | LC_ALL=C sort -u >exported
[ -s exported ] || fail "nm shows no exported symbols"
if grep -q '^GLOFND_HAVE_SYMBOL_VERSIONS:.*=1$' "$build/CMakeCache.txt"; then
    { sed 's/$/@@GLOFND_1.0/' stable; sed 's/$/@@GLOFND_EXPERIMENTAL/' experimental; } | LC_ALL=C sort >expected
else
    LC_ALL=C sort stable experimental >expected
fi
hidden=$(comm -13 exported expected)
unknown=$(comm -23 exported expected)
[ -z "$hidden" ] || fail "in glofnd.h, but not exported:" $hidden
[ -z "$unknown" ] || fail "exported, but not in glofnd.h:" $unknown

major=$(sed -n 's/^#define GLOFND_VERSION_MAJOR *//p' "$header")
if command -v readelf >/dev/null; then
    soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
    [ "$soname" = "libglofnd.so.$major" ] || fail "soname is $soname, not libglofnd.so.$major"
fi
echo "exports the $(wc -l <stable) stable and $(wc -l <experimental) experimental functions of glofnd.h"
