#!/bin/sh
# bench_large.sh GLOFND FOLDER ROWS [whole|killed] [DIM] - discovery of ROWS x DIM (768) embeddings on a GPU, from files to the
# written result.
#
# FOLDER gets shards of float16 in clusters of 100 rows, drawn by torch on the GPU (2 bytes per number: 15 GB for 10,000,000 x
# 768), and the result of `glofnd discover --k 20 --device cuda`, which prints its times. killed: in units (--resume), once to
# its end and once killed with signal 9 when a third of the units is there, and continued; both results must have the same bytes,
# and those of a search in memory.
set -eu
[ $# -ge 3 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
glofnd=$(realpath "$1") folder=$2 rows=$3 how=${4:-whole} dim=${5:-768}
case $how in whole | killed) ;; *) echo "bench_large.sh: '$how'; expected whole or killed" >&2; exit 2 ;; esac
mkdir -p "$folder"
cd "$folder"
python3 - "$rows" "$dim" <<'PY'
import sys
import numpy
import torch

rows, dim, shards = int(sys.argv[1]), int(sys.argv[2]), 10
torch.manual_seed(1)
centre = torch.randn(rows // 100 + 1, dim, device="cuda")
for s in range(shards):
    first, last = rows * s // shards, rows * (s + 1) // shards
    out = numpy.lib.format.open_memmap("emb_%03d.npy" % s, mode="w+", dtype=numpy.float16, shape=(last - first, dim))
    for at in range(first, last, 1 << 18):
        i = torch.arange(at, min(at + (1 << 18), last), device="cuda")
        x = 0.5 * centre[i % len(centre)] + torch.randn(len(i), dim, device="cuda")
        out[at - first : at - first + len(i)] = torch.nn.functional.normalize(x).half().cpu().numpy()
PY
discover() { "$glofnd" discover 'emb_{000..009}.npy' --k 20 --device cuda "$@"; }
if [ "$how" = whole ]; then
    discover --out found
    exit
fi
discover --resume --out whole
discover --resume --quiet --out broken &
process=$!
while kill -0 $process 2>/dev/null && [ ! -e broken.partial/pairs-000020 ]; do sleep 0.02; done
kill -9 $process 2>/dev/null || true
wait $process 2>/dev/null || true
[ ! -e broken ] || echo 'it had finished before it was killed'
[ -e broken ] || echo "killed with $(find broken.partial -name 'pairs-*' | wc -l) units"
[ -e broken ] || discover --resume --out broken
discover --out memory
diff -r whole broken
diff -r whole memory
echo 'the same bytes: in units, killed and continued, in memory'
