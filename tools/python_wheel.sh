# Builds the Python source distribution and, from nothing but that, the wheel, into BUILD/wheel, and tests the wheel there in a
# clean virtual environment: tables, NumPy, discovery, and PyTorch where EXTRA brings it.  sh tools/python_wheel.sh BUILD
# Variables: PYTHON, PIP_FLAGS (-C cmake.define.GLOFND_CUDA=OFF), EXTRA (torch).
# auditwheel and patchelf, where installed, make it a manylinux wheel.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1/wheel"
out=$(cd "$1/wheel" && pwd)
python=${PYTHON:-python3}

rm -rf "$out/raw" "$out/venv" "$out/tests" && mkdir "$out/raw"
"$python" -m venv "$out/venv"
"$out/venv/bin/pip" install -q scikit-build-core
(cd "$source" && "$out/venv/bin/python" -c "from scikit_build_core.build import build_sdist; build_sdist('$out/raw')" > /dev/null)
rm -rf "$out/venv"
"$python" -m pip wheel "$out"/raw/*.tar.gz --no-deps -w "$out/raw" ${PIP_FLAGS:-}
wheel=$(echo "$out"/raw/*.whl)
case $wheel in *-py3-none-*) ;; *) echo "$wheel: the tag should be py3-none-PLATFORM" >&2; exit 1 ;; esac
PATH=$(dirname "$(command -v "$python")"):$PATH
if "$python" -m auditwheel --help > /dev/null 2>&1 && command -v patchelf > /dev/null; then
    "$python" -m auditwheel show "$wheel"
    "$python" -m auditwheel repair "$wheel" -w "$out/raw"
    wheel=$(echo "$out"/raw/*manylinux*.whl)
fi
cp "$wheel" "$out"/raw/*.tar.gz "$out/"

"$python" -m venv "$out/venv"
"$out/venv/bin/pip" install -q "$wheel" ${EXTRA:-}
ln -s "$source/python/tests" "$out/tests"       # the tests, and not the package beside them
cd "$out"
venv/bin/python -m glofnd
venv/bin/python -m unittest tests.test_layout tests.test_numpy tests.test_discover tests.test_discover_odd tests.test_discover_tables tests.test_discover_parts tests.test_discover_raw tests.test_documents
if venv/bin/python -c 'import torch' 2> /dev/null; then
    venv/bin/python -m unittest tests.test_torch tests.test_torch_state tests.test_torch_use
fi
echo "tested: $out/${wheel##*/}"
