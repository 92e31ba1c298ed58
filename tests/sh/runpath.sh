# No program or library of the build looks for libraries in the current folder: a RUNPATH has no empty and no relative element.
. "$2/tests/sh/common.inc"
needs_tools readelf
find "$build" -maxdepth 3 -type f \( -perm -u+x -o -name '*.so*' \) ! -path '*/CMakeFiles/*' ! -name '*.sh' >programs
checked=0
while read -r program; do
    path=$(readelf -d "$program" 2>/dev/null | sed -n 's/.*(\(RUNPATH\|RPATH\)).*\[\(.*\)\]/\2/p')
    case $(readelf -h "$program" 2>/dev/null) in *ELF*) checked=$((checked + 1)) ;; *) continue ;; esac
    [ -z "$path" ] && continue
    case ":$path:" in *::*) fail "$program: empty element in RUNPATH '$path', which is the current folder" ;; esac
    for element in $(echo "$path" | tr ':' ' '); do
        case $element in /* | '$ORIGIN'*) ;; *) fail "$program: relative element '$element' in RUNPATH" ;; esac
    done
done <programs
[ "$checked" -gt 1 ] || fail "no programs found in $build"
echo "$checked programs and libraries: every RUNPATH is absolute"
