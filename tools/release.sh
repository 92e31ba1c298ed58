#!/bin/sh
# release.sh [--dry-run] [--quick] - checks that this commit can be released, builds everything twice into dist/ and dist-again/ and
# compares the bytes, tries the wheel, then tags the commit and pushes the tag. The workflow release.yml publishes what has a tag.
#   --dry-run   all of it, but neither tag nor push
#   --quick     with --dry-run: build once
set -eu
cd "$(dirname "$0")/.."
dry=0 quick=0
for flag in "$@"; do
    case $flag in
    --dry-run) dry=1 ;;
    --quick) quick=1 ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[ $quick = 0 ] || [ $dry = 1 ] || { echo "release: --quick only goes with --dry-run" >&2; exit 2; }
version=$(sh tools/release/version.sh)
tag=v$version
problems=0
problem() { echo "release: $*" >&2; problems=$((problems + 1)); }

[ -z "$(git status --porcelain)" ] || problem "there are changes that are not committed; commit or remove them"
[ "$(git rev-parse --abbrev-ref HEAD)" = main ] || problem "this is not the branch main"
! git rev-parse -q --verify "refs/tags/$tag" > /dev/null || problem "the tag $tag is there already; raise the version in include/glofnd.h"
grep -Eq "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || problem "CHANGELOG.md has no line \"## [$version] - YYYY-MM-DD\""
sh tests/sh/project.sh build "$PWD" || problem "the test tests/sh/project.sh fails"
if [ $problems -gt 0 ]; then
    [ $dry = 1 ] || exit 1
    echo "release: $problems problems; the dry run goes on" >&2
fi

sh tools/release/all.sh dist
if [ $quick = 0 ]; then
    BUILD=build/release-again sh tools/release/all.sh dist-again
    diff -r dist dist-again || { echo "release: two builds differ in these files" >&2; exit 1; }
    rm -rf dist-again
    echo "release: two builds gave the same bytes"
fi
sh tools/release/try_wheel.sh dist
if [ $dry = 1 ]; then
    echo "release: dry run: $tag was not made. The next commands would be: git tag -a -F dist/RELEASE_NOTES.md $tag; git push origin $tag"
    [ $problems = 0 ] || exit 1
    exit 0
fi
git tag -a --cleanup=verbatim -F dist/RELEASE_NOTES.md "$tag"
git push origin "$tag"
echo "release: $tag is pushed; approve the environment pypi in the workflow release.yml"
