# Rooms of the sources are as tools/check_includes.sh lists them.
. "$2/tests/sh/common.inc"
sh "$source/tools/check_includes.sh" "$source" || fail "rooms: see above"
sh "$source/tools/check_sizes.sh" "$source" || fail "sizes: see above"
