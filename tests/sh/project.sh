# What belongs to the project around the code agrees with it: the version is one, the changelog has its section, the citation names
# the paper's authors, presets are read by CMake, and workflows call commands that exist. Workflows follow the rules of actionlint,
# of zizmor, and of the schema, as far as these are installed.
. "$2/tests/sh/common.inc"
cd "$source" || exit 1
version=$(sh tools/release/version.sh)
echo "$version" | grep -Eqx '[0-9]+\.[0-9]+\.[0-9]+' || fail "version.sh says \"$version\""
grep -qx "version: $version" CITATION.cff || fail "CITATION.cff has another version than $version"
grep -qF "version = \"$version\"" packaging/conda/meta.yaml || fail "packaging/conda/meta.yaml has another version than $version"
sh tools/release/notes.sh > "$scratch/notes" || fail "no release notes"
[ "$(wc -l < "$scratch/notes")" -gt 10 ] || fail "the release notes are short"
grep -q '^## ' "$scratch/notes" && fail "the release notes run into the next section"
sh tools/release/notes.sh 99.0.0 2> /dev/null && fail "release notes of a version that the changelog does not have"

# author = {Family, Given and ...}
sed -n 's/^ *author *= {\(.*\)},$/\1/p' docs/help/cite.md | sed 's/ and /\n/g' > "$scratch/authors"
sed -n 's/^ *- family-names: \(.*\)/\1/p; s/^ *given-names: \(.*\)/, \1/p' CITATION.cff | paste -sd ' \n' | sed 's/ , /, /' > "$scratch/cited"
[ -s "$scratch/authors" ] || fail "docs/help/cite.md has no authors"
cmp -s "$scratch/authors" "$scratch/cited" || fail "CITATION.cff has other authors than docs/help/cite.md: $(cat "$scratch/cited")"

if command -v cmake > /dev/null && command -v python3 > /dev/null; then
    python3 -c '
import json
presets = json.load(open("CMakePresets.json"))
print("\n".join(p["name"] for p in presets["configurePresets"]))' > "$scratch/presets" || fail "CMakePresets.json"
    cmake --list-presets > "$scratch/listed" 2> "$scratch/err" || fail "cmake does not read CMakePresets.json"
    while read -r name; do grep -q "\"$name\"" "$scratch/listed" || fail "cmake does not list the preset $name"; done < "$scratch/presets"
fi

# Commands of workflows and of MAINTAINERS.md: targets of the Makefile and scripts of this repository.
targets=$(sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)
for file in .github/workflows/*.yml MAINTAINERS.md .github/pull_request_template.md; do
    for target in $(grep -v 'apt-get' "$file" | grep -oE '(^|[^a-z-])make [a-z][a-z-]*' | sed 's/.*make //'); do
        echo "$targets" | grep -qx -- "$target" || fail "$file: no target $target in the Makefile"
    done
    for script in $(grep -oE '(tools|tests|\.ci)/[a-z0-9_/.-]*[a-z]' "$file" | sort -u); do
        case $script in *.sh | *.py | .ci/run) [ -e "$script" ] || fail "$file: no $script" ;; esac
    done
done
grep -q -- '- run: \.ci/run$' .github/workflows/ci.yml || fail "ci.yml does not run .ci/run"
grep -hE '^ *-? *uses:' .github/workflows/*.yml | grep -vE '@[0-9a-f]{40} # v[0-9.]+$' && fail "an action that is not pinned by its commit"
linted=''
lint() { # PROGRAM ARGUMENTS...
    command -v "$1" > /dev/null || return 0
    "$@" .github/workflows/*.yml > "$scratch/out" 2>&1 || { cd "$scratch" && fail "$1"; }
    linted="$linted $1"
}
lint actionlint
lint zizmor --offline
lint check-jsonschema --builtin-schema vendor.github-workflows
echo "version $version; $(ls .github/workflows | wc -l) workflows, linted by:${linted:- nothing}"
