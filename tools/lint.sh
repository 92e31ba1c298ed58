#!/bin/sh
# lint.sh [--all | FILE...] - clang-tidy 14 with the checks of .clang-tidy over the C files that differ from main (or from the newest commit,
# on main itself), over all of lib/, train/ and programs/, or over the files named. Exit 1: findings. Exit 77 without clang-tidy 14 (Debian 12:
# clang-tidy-14).
#
# Variables: BUILD (build): a configured build folder, whose compile_commands.json says how each file is compiled; JOBS.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${BUILD:-build} jobs=${JOBS:-$(nproc 2> /dev/null || echo 2)}
tool=
for name in clang-tidy-14 clang-tidy; do
    if $name --version 2> /dev/null | grep -q 'version 14\.'; then tool=$name; break; fi
done
[ -n "$tool" ] || { echo "lint: clang-tidy 14 is not installed (Debian 12: clang-tidy-14)"; exit 77; }
[ -e "$build/compile_commands.json" ] || { echo "lint: $build has no compile_commands.json; configure it: cmake -S . -B $build" >&2; exit 2; }
case ${1:-} in
    --all) set -- $(find lib train programs -name '*.c' | sort) ;;
    -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    '')
        base=$(git merge-base main HEAD 2> /dev/null)
        [ "$base" != "$(git rev-parse HEAD)" ] || base=HEAD
        set -- $({ git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } | grep -E '^(lib|train|programs)/.*\.c$' | sort -u) ;;
esac
# Only files that this build compiles: others need CUDA, or a library that is missing here.
known=
for file in "$@"; do ! grep -qF "/$file\"" "$build/compile_commands.json" || known="$known $file"; done
[ -n "$known" ] || { echo 'lint: no file to check'; exit 0; }
printf '%s\n' $known | xargs -n 4 -P "$jobs" "$tool" --quiet -p "$build" 2> /dev/null
