# The Python package on this build, with NumPy alone: tables against the header, golden cases, wrong use, threads, state. Skipped
# where python3 (PYTHON names another one) has no NumPy. The levels above need PyTorch: `make test-python`.
. "$2/tests/sh/common.inc"
python=${PYTHON:-python3}
library=$build/libglofnd.so
needs_tools "$python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$python is older than 3.9"
[ -e "$library" ] || skip "no shared library in this build"
if nm -D "$library" 2> /dev/null | grep -q '__[at]san_init'; then skip "python3 cannot load a library with a sanitizer"; fi

export GLOFND_LIBRARY="$library" PYTHONPATH="$source/python" PYTHONDONTWRITEBYTECODE=1
cd "$source/python" || exit 1
"$python" -m glofnd > "$scratch/info" && grep -q '^build      glofnd [0-9]' "$scratch/info" || fail "python -m glofnd"
"$python" -m unittest -q tests.test_layout || fail "tables of the package"
"$python" -c 'import numpy' 2> /dev/null || skip "$python has no NumPy; only the tables were checked"
"$python" -m unittest -q tests.test_numpy || fail "the NumPy layer"
