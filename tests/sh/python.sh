# The Python package on this build: tables against the header, then NumPy alone (golden cases, wrong use, threads, state,
# discover), then PyTorch where 2.4 or later can be imported. PYTHON names a python; else python3, or that of the system where
# only that has NumPy. All other levels: `make test-python`.
. "$2/tests/sh/common.inc"
library=$build/libglofnd.so
has() { "$1" -c "import sys, $2; sys.exit(sys.version_info < (3, 9))" 2> /dev/null; }
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || has "$python" numpy || { has /usr/bin/python3 numpy && python=/usr/bin/python3; }
needs_tools "$python"
has "$python" sys || skip "$python is older than 3.9"
[ -e "$library" ] || skip "no shared library in this build"
if nm -D "$library" 2> /dev/null | grep -q '__[at]san_init'; then skip "python3 cannot load a library with a sanitizer"; fi

export GLOFND_LIBRARY="$library" PYTHONPATH="$source/python" PYTHONDONTWRITEBYTECODE=1
cd "$source/python" || exit 1
"$python" -m glofnd > "$scratch/info" && grep -q '^build      glofnd [0-9]' "$scratch/info" || fail "python -m glofnd"
"$python" -m unittest -q tests.test_layout || fail "tables of the package"
has "$python" numpy || skip "$python has no NumPy; only the tables were checked"
"$python" -m unittest -q tests.test_defaults tests.test_keys tests.test_numpy tests.test_discover tests.test_discover_odd tests.test_discover_tables tests.test_discover_parts tests.test_discover_raw tests.test_mine tests.test_documents ||
    fail "the NumPy layer"
"$python" -c 'import torch; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)' 2> /dev/null ||
    { echo "NumPy alone: $python has no PyTorch 2.4 or later"; exit 0; }
"$python" -m unittest -q tests.test_torch tests.test_torch_state tests.test_torch_use || fail "the PyTorch layer"
