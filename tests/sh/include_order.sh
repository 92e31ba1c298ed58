# The order of folders holds in this tree.
exec sh "$2/tools/check_includes.sh" "$2"
