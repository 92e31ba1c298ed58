#!/bin/sh
# docs.sh BUILD - the documentation as a site with search, in BUILD/docs/site: pages of docs/, and a reference made from the program's tables,
# the docstrings of the Python package and the headers (tools/docs_pages.py). MkDocs builds it with the theme Material: MKDOCS names
# the program; else the one on PATH that has the theme; else both are installed from PyPI into BUILD/docs/venv.
# GLOFND_REPOSITORY=https://... makes links to sources point there, instead of at copies in the site.
set -eu
build=${1:-build}
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$build/docs"
out=$(cd "$build/docs" && pwd)
glofnd=$(cd "$build" && pwd)/glofnd
[ -x "$glofnd" ] || { echo "docs: $glofnd is not there; build it first (make glofnd)" >&2; exit 1; }

mkdocs=${MKDOCS:-}
if [ -z "$mkdocs" ]; then
    mkdocs=$(command -v mkdocs || true)
    [ -n "$mkdocs" ] && "$(dirname "$mkdocs")/python3" -c 'import material' 2> /dev/null || mkdocs=$out/venv/bin/mkdocs
    [ -x "$mkdocs" ] || { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q mkdocs-material; } ||
        { echo "docs: Material for MkDocs is missing and could not be installed; install it (pip install mkdocs-material) or set MKDOCS" >&2; exit 1; }
fi

rm -rf "$out/site"
python3 "$source/tools/docs_pages.py" "$source" "$glofnd" "$out"
"$mkdocs" build --strict -q -f "$out/mkdocs.yml" > "$out/mkdocs.log" 2>&1 || { cat "$out/mkdocs.log" >&2; exit 1; }
echo "the documentation: open $out/site/index.html in a browser"
