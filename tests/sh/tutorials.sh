# The tutorials of docs/tutorials that need no PyTorch run on a part of their data, and print what their pages show, up to numbers. The
# notebooks are those of the pages, and excerpts of examples/07_fashion.c are lines of it. Skipped in part without Debian's package
# dataset-fashion-mnist. Those with PyTorch run in `make test-python` (python/tests/test_tutorials.py).
. "$2/tests/sh/common.inc"
needs
needs_tools python3 gzip
tutorials="$source/tools/tutorials.py"
python3 "$tutorials" notebooks --check || fail "notebooks"
for page in "$source"/docs/tutorials/*.md; do
    [ -e "${page%.md}.ipynb" ] || [ "${page##*/}" = index.md ] || fail "$page has no notebook"
    grep -q '^```text$' "$page" || [ "${page##*/}" = index.md ] || fail "$page shows no output"
    awk '/^```text$/ { getline; if ($0 == "```") exit 1 }' "$page" || fail "$page has an empty output: tools/tutorials.py record"
done
sed -n '/^```c$/,/^```$/p' "$source/docs/tutorials/c-program.md" | grep -v '^```' > excerpts
[ "$(wc -l < excerpts)" -gt 20 ] || fail "no excerpts in c-program.md"
while IFS= read -r line; do
    grep -qF -- "$line" "$source/examples/07_fashion.c" || fail "c-program.md: not in 07_fashion.c: $line"
done < excerpts

# A cell that fails, prints too much, too little or something else is found.
cell() { printf 'Text.\n\n```python\n%s\n```\n%b' "$1" "$2" > page.md; }
run() { call python3 "$tutorials" run page.md --small; }
cell 'print("epoch", 3)' '\n```text\nepoch 1\n```\n' && run && wants 'a good page' 0 'epoch 3'
cell 'print("step", 3)' '\n```text\nepoch 1\n```\n' && run && wants 'other words' 1 'the output begins with'
cell 'print("step", 3)' '' && run && wants 'no output in the page' 1 'its output is not in the page'
cell 'x = 1' '\n```text\nepoch 1\n```\n' && run && wants 'an output in the page' 1 'prints nothing'
cell 'x = y' '' && run && wants 'a cell that fails' 1 'cell 1: failed'
printf '<!-- test: N = 2 -->\n\n```python\nN = 1  # rows\n```\n\n```python\nprint("N is", N)\n```\n\n```text\nN is 1\n```\n' > page.md
run && wants 'other settings' 0 'N is 2'

[ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || skip "no Fashion-MNIST on this machine (Debian: dataset-fashion-mnist)"
if nm -D "$build/libglofnd.so" 2> /dev/null | grep -q '__[at]san_init'; then skip "the rest needs a build without sanitizers"; fi
if command -v pkg-config > /dev/null && command -v cc > /dev/null && [ -x "$build/examples/07_fashion" ]; then
    cmake --install "$build" --prefix "$scratch/prefix" > /dev/null || fail "make install"
    libraries=$(dirname "$(find "$scratch/prefix" -name libglofnd.a)")
    expect 0 "the same weights" env PKG_CONFIG_PATH="$libraries/pkgconfig" LD_LIBRARY_PATH="$libraries" \
        python3 "$tutorials" run "$source/docs/tutorials/c-program.md" --small
fi
python=${PYTHON:-python3}
"$python" -c 'import numpy' 2> /dev/null || python=/usr/bin/python3
"$python" -c 'import numpy' 2> /dev/null || skip "no NumPy for the rest"
expect 0 "rows are left" env PATH="$(dirname "$glofnd"):$PATH" "$python" "$tutorials" run "$source/docs/tutorials/curate.md" --small
exit 0
