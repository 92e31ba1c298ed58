#!/bin/sh
# docs.sh BUILD - the documentation as a site with search, in BUILD/docs/site: pages of docs/, the help of every command from its
# tables, the interface from glofnd.h, and pictures of pages. MkDocs builds it: MKDOCS names the program; else the one on PATH,
# else it is installed from PyPI into BUILD/docs/venv.
set -eu
build=${1:-build}
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$build/docs"
out=$(cd "$build/docs" && pwd)
glofnd=$(cd "$build" && pwd)/glofnd
[ -x "$glofnd" ] || { echo "docs: $glofnd is not there; build it first (make glofnd)" >&2; exit 1; }

mkdocs=${MKDOCS:-$(command -v mkdocs || true)}
if [ -z "$mkdocs" ]; then
    mkdocs=$out/venv/bin/mkdocs
    [ -x "$mkdocs" ] || { python3 -m venv "$out/venv" && "$out/venv/bin/pip" install -q mkdocs; } ||
        { echo "docs: MkDocs is missing and could not be installed; install it (pip install mkdocs) or set MKDOCS" >&2; exit 1; }
fi

pages=$out/pages
rm -rf "$pages" "$out/site"
mkdir -p "$pages/commands"
cp -r "$source/docs/." "$pages/"
# Links to pages stay; those to sources, which are not part of the site, become plain text. Pages of docs/ name each other without
# a folder, those beside it by docs/.
plain_links() {
    sed -E -e 's/\]\(docs\/([^)]*)\)/](\1)/g' -e 's/\]\(\.\.\/([A-Z]+\.md)\)/](\1)/g' \
        -e 's/\[([^][]*)\]\((\.\.\/)?(lib|train|programs|tests|tools|configs|include|examples|bench|python|cmake)(\/[^)]*)?\)/\1/g'
}
for page in CONTRIBUTING CHANGELOG SECURITY; do cp "$source/$page.md" "$pages/$page.md"; done
cp "$source/README.md" "$pages/index.md"
for page in "$pages"/*.md; do plain_links < "$page" > "$out/page" && mv "$out/page" "$page"; done

# help FILE WORDS...: the page of a verb
help() {
    file=$1
    shift
    { printf '# glofnd %s\n\nFrom its table of flags, as `glofnd %s --help-all` prints it.\n\n```text\n' "$*" "$*"
      "$glofnd" "$@" --help-all
      printf '```\n'; } > "$pages/commands/$file.md"
}
verbs() { "$glofnd" "$@" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'; }
for verb in $(verbs); do
    whats=
    [ $verb = eval ] && whats=$(verbs eval)
    for what in $whats; do help "$verb-$what" $verb "$what"; done
    [ -n "$whats" ] || help "$verb" "$verb"
done
# A chapter for each part of the header, between its lines /* ----- ... ----- */.
{ printf '# The C interface\n\n`#include <glofnd.h>`: the header is the manual.\n\n```c\n'
  awk '/^\/\* -{5} .* -{5} \*\/$/ || /^\/\* =+ .* =+ \*\/$/ { title = $0; gsub(/[-=*\/]+/, "", title); gsub(/^ +| +$/, "", title)
           printf "```\n\n## %s\n\n```c\n", title; next } { print }' "$source/include/glofnd.h"
  printf '```\n'; } > "$pages/interface.md"
{ printf '# Pages\n\nWhat `glofnd report` and `glofnd discover --html` write: files that load nothing from elsewhere.\n'
  for picture in "$source"/docs/img/*.png; do
      [ -e "$picture" ] && printf '\n![%s](img/%s)\n' "$(basename "$picture" .png)" "$(basename "$picture")"
  done
  if [ -e "$build/demo/report.html" ]; then
      cp "$build/demo/report.html" "$pages/demo.html"
      printf '\n[The page of `make demo`](demo.html)\n'
  fi; } > "$pages/gallery.md"

cat > "$out/mkdocs.yml" <<END
site_name: GloFND
docs_dir: pages
site_dir: site
theme: {name: readthedocs}
use_directory_urls: false
plugins: [search]
END
"$mkdocs" build -q -f "$out/mkdocs.yml" 2> "$out/mkdocs.log" || { cat "$out/mkdocs.log" >&2; exit 1; }
echo "the documentation: open $out/site/index.html in a browser"
