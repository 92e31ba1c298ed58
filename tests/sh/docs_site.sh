# `make docs`: the site has every page, every command, the configuration keys, the interfaces of Python and C, a search index, and no link to
# a page or a place that is not there. Skipped without Material for MkDocs (MKDOCS names a program that has it).
. "$2/tests/sh/common.inc"
needs
mkdocs=${MKDOCS:-$(command -v mkdocs || true)}
[ -n "$mkdocs" ] || skip "no MkDocs on this machine"
"$(dirname "$mkdocs")/python3" -c 'import material' 2> /dev/null || skip "MkDocs without the theme Material"
mkdir build && cp "$glofnd" build/glofnd
MKDOCS=$mkdocs call sh "$source/tools/docs.sh" build
wants 'the site' 0 'site/index.html'
site=build/docs/site
for page in $(cd "$source/docs" && find . -name '*.md' | sed 's/md$/html/') CHANGELOG.html reference/config.html; do [ -s $site/$page ] || fail "no page $page"; done
for verb in pretrain embed discover report eval-knn eval-fn; do [ -s $site/commands/$verb.html ] || fail "no page of $verb"; done
grep -q 'keep_checkpoints' $site/reference/config.html || fail "no configuration keys"
[ "$(grep -o '<tr>' $site/reference/config.html | wc -l)" -gt 100 ] || fail "few configuration keys"
for flag in --alpha --split --html; do grep -q -- "<code>$flag" $site/commands/discover.html || fail "no $flag on the page of discover"; done
for name in GloFNDLoss discover mine set_epoch; do grep -q "$name" $site/reference/python.html || fail "no $name in the Python reference"; done
grep -q 'glofnd_step' $site/reference/c.html || fail "no C interface"
grep -q 'threshold' $site/search/search_index.json || fail "no search"
[ -s $site/source/python/examples/simclr.py.html ] || fail "no page for a source that a page links to"
grep -q 'source/python/examples' $site/search/search_index.json && fail "search finds sources"
(cd $site && find . -name '*.html' ! -name 404.html | while read -r page; do
    grep -oE 'href="[^"#:]*\.html' $page | sed "s|^href=\"|$page |"
done) | sort -u > links
while read -r page link; do [ -e "$site/$(dirname "$page")/$link" ] || fail "$page links to $link"; done < links
[ "$(wc -l < links)" -gt 1000 ] || fail "few links"
exit 0
