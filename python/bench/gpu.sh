#!/bin/sh
# gpu.sh [PEERS] - what needs a GPU of the Python package, in about five minutes: its CUDA tests, discover() beside the program
# (where PROGRAM names one), then the tour of bench/loss.py. Arguments of the tour: TOUR, as in TOUR="--dtype float32 --dim 128".
#
# Needs PyTorch with CUDA, a libglofnd.so with CUDA (GLOFND_LIBRARY, or the one inside of an installed package), and PEERS: a folder
# of other packages, unpacked from their wheels without what they depend on:
#     pip download --no-deps -d wheels lightly lightly-utils pytorch-metric-learning open_clip_torch inf-cl siglip-kernel
#     pip install --no-deps --no-compile --target PEERS wheels/*.whl
# Output: a table on stdout, and its lines as JSON in OUT (default: ./gpu.jsonl). BUDGET: seconds of the tour (default 200).
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
PYTHONPATH=$here/..${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
"$python" -m glofnd
(cd "$here/.." && "$python" -m unittest -v tests.test_cuda tests.test_jax_cuda 2>&1 | tail -n 60)
"$python" "$here/discover.py" ${PROGRAM:+--program "$PROGRAM"}
# shellcheck disable=SC2086
"$python" "$here/loss.py" --gpu-tour ${TOUR:-} --budget "${BUDGET:-200}" --json "${OUT:-gpu.jsonl}" ${1:+--peers "$1"}
