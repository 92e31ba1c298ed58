#!/bin/sh
# notes.sh [VERSION] - the section of CHANGELOG.md about a version (default: that of include/glofnd.h), as release notes. Exit 1 without one.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
version=${1:-$(sh "$top/tools/release/version.sh")}
grep -qF "## [$version]" "$top/CHANGELOG.md" || { echo "notes.sh: CHANGELOG.md has no section [$version]" >&2; exit 1; }
awk -v head="## [$version]" 'index($0, "## [") == 1 { on = index($0, head) == 1; next } on { print }' \
    "$top/CHANGELOG.md" | sed '/./,$!d'
