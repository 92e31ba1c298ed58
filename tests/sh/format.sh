# Sources are formatted by the pinned clang-format; skipped where it is not installed.
exec sh "$2/tools/check_format.sh"
