# `make docs`: the site has every page, every command and the interface, a search index, and no link to a page that is not there.
# Skipped without MkDocs (MKDOCS names one).
. "$2/tests/sh/common.inc"
needs
mkdocs=${MKDOCS:-$(command -v mkdocs || true)}
[ -n "$mkdocs" ] || skip "no MkDocs on this machine"
mkdir build && cp "$glofnd" build/glofnd
MKDOCS=$mkdocs call sh "$source/tools/docs.sh" build
wants 'the site' 0 'site/index.html'
site=build/docs/site
for page in commands method glossary index interface gallery CHANGELOG; do [ -s $site/$page.html ] || fail "no page $page"; done
for verb in pretrain embed discover report eval-knn eval-fn; do [ -s $site/commands/$verb.html ] || fail "no page of $verb"; done
grep -q 'keep_checkpoints' $site/commands/pretrain.html || fail "pretrain's page has no keys"
grep -q 'glofnd_step' $site/interface.html || fail "no interface"
grep -q 'threshold' $site/search/search_index.json || fail "no search"
(cd $site && grep -oE 'href="[^"#:]*\.html' *.html | sed 's/:href="/ /') | sort -u > links
while read -r page link; do [ -e "$site/$link" ] || fail "$page links to $link"; done < links
[ "$(wc -l < links)" -gt 100 ] || fail "few links"
exit 0
