#!/bin/sh
# page_picture.sh PAGE OUT.png [WIDTH,HEIGHT] - a picture of the top of a page, as Chromium shows it without a window. docs/img/discover.png:
#     glofnd discover cifar100:cifar --k 10 --dup 0.9985 --html --out found
#     tools/page_picture.sh found/index.html docs/img/discover.png
set -eu
[ $# -ge 2 ] || { echo "usage: page_picture.sh PAGE OUT.png [WIDTH,HEIGHT]" >&2; exit 2; }
page=$(realpath -- "$1")
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$profile" --hide-scrollbars --virtual-time-budget=5000 \
    --window-size="${3:-1240,760}" --screenshot="$2" "file://$page" 2> "$profile/said" || { cat "$profile/said" >&2; exit 1; }
[ -s "$2" ]
