# libglofnd with clang, with musl and for aarch64 under qemu: no warnings, examples and golden cases run. Skipped where none can
# be tried.
. "$2/tests/sh/common.inc"
needs_tools cmake
call sh "$source/tools/platforms.sh" "$scratch/platforms"
[ "$code" = 77 ] && skip "no other compiler here"
wants 'other platforms' 0 'platforms tried'
grep -c 'golden cases run' out
exit 0
