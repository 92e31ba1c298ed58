# The conda recipe: it parses, names the version of the header and files that are there; its build script fills an empty prefix,
# and its test commands run there. conda itself is not needed.
. "$2/tests/package/common.inc"
needs_tools cmake python3
recipe=$source/packaging/conda
grep -qF "version = \"$version\"" "$recipe/meta.yaml" || fail "meta.yaml has another version than $version"
for name in $(sed -n '/^requirements:/,/^test:/s/^    - \([a-z-]*\).*/\1/p' "$recipe/meta.yaml"); do echo "$name"; done > needed
for name in onednn openmpi zlib; do grep -qx $name needed || fail "meta.yaml does not need $name"; done
# Jinja's expressions become plain values; selectors are comments.
sed -e '/^{%/d' -e 's/{{ version }}/1/' -e 's/{{ compiler("c") }}/cc/' "$recipe/meta.yaml" > plain.yaml
grep -q '{' plain.yaml && fail "expressions that this test does not know"
if python3 -c 'import yaml' 2> /dev/null; then
    python3 -c '
import yaml
recipe = yaml.safe_load(open("plain.yaml"))
assert recipe["package"]["name"] == "glofnd" and recipe["about"]["license"] == "MIT"
assert set(recipe["requirements"]) == {"build", "host", "run"}
print("\n".join(recipe["test"]["commands"]), file=open("commands", "w"))' || fail "meta.yaml"
else
    sed -n '/^  commands:/,/^$/s/^    - //p' plain.yaml > commands
fi

mkdir prefix
# BUILD_DIR is what rattler-build has for itself: the build must not go there.
mkdir taken
SRC_DIR=$source PREFIX=$scratch/prefix CPU_COUNT=${JOBS:-2} GLOFND_BUILD_DIR=$build/conda BUILD_DIR=$scratch/taken \
    sh "$recipe/build.sh" > build.log 2>&1 ||
    { tail -n 30 build.log; fail "build.sh"; }
[ -z "$(ls taken)" ] || fail "build.sh builds in BUILD_DIR"
[ -s commands ] || fail "no test commands"
while read -r command; do
    PREFIX=$scratch/prefix PATH=$scratch/prefix/bin:$PATH sh -ec "$command" > out 2>&1 || fail "the recipe's test: $command"
done < commands
echo "$(wc -l < commands) test commands of the recipe: passed"
