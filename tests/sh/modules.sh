# Modules of the sources are as tools/check_includes.sh lists them.
. "$2/tests/sh/common.inc"
sh "$source/tools/check_includes.sh" "$source" || fail "modules: see above"
