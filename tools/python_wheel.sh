# Builds the Python wheel into BUILD/wheel and tests it there in a clean virtual environment: tables, NumPy, and PyTorch where
# EXTRA brings it.  sh tools/python_wheel.sh BUILD
# Variables: PYTHON, PIP_FLAGS (-C cmake.define.GLOFND_CUDA=OFF), EXTRA (torch).
# auditwheel and patchelf, where installed, make it a manylinux wheel.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1/wheel"
out=$(cd "$1/wheel" && pwd)
python=${PYTHON:-python3}

rm -rf "$out/raw" "$out/venv" "$out/tests" && mkdir "$out/raw"
"$python" -m pip wheel "$source" --no-deps -w "$out/raw" ${PIP_FLAGS:-}
wheel=$(echo "$out"/raw/*.whl)
case $wheel in *-py3-none-*) ;; *) echo "$wheel: the tag should be py3-none-PLATFORM" >&2; exit 1 ;; esac
PATH=$(dirname "$(command -v "$python")"):$PATH
if "$python" -m auditwheel --help > /dev/null 2>&1 && command -v patchelf > /dev/null; then
    "$python" -m auditwheel repair "$wheel" -w "$out/raw"
    wheel=$(echo "$out"/raw/*manylinux*.whl)
fi
cp "$wheel" "$out/"

"$python" -m venv "$out/venv"
"$out/venv/bin/pip" install -q "$wheel" ${EXTRA:-}
ln -s "$source/python/tests" "$out/tests"       # the tests, and not the package beside them
cd "$out"
venv/bin/python -m glofnd
venv/bin/python -m unittest tests.test_layout tests.test_numpy
if venv/bin/python -c 'import torch' 2> /dev/null; then venv/bin/python -m unittest tests.test_torch; fi
echo "tested: $out/${wheel##*/}"
