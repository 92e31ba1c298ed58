#!/bin/sh
# bench_large.sh GLOFND FOLDER ROWS [whole|killed] [DIM] - discovery of ROWS x DIM (768) embeddings on a GPU, from files to the
# written result.
#
# FOLDER gets shards of float16 in clusters of 100 rows, drawn by torch (2 bytes per number: 15 GB for 10,000,000 x 768), and the
# result of `glofnd discover --k 20 --device cuda`, which prints its times; then thresholds and neighbours of 512 rows are
# compared with those that torch finds in float32. killed: in units (--resume), killed with signal 9 when 20 of them are there,
# and continued; the result must have the bytes of a search in memory. Without a GPU all is done by the CPU.
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
device = "cuda" if torch.cuda.is_available() else "cpu"
open("device", "w").write(device)
torch.manual_seed(1)
centre = torch.randn(rows // 100 + 1, dim, device=device)
for s in range(shards):
    first, last = rows * s // shards, rows * (s + 1) // shards
    out = numpy.lib.format.open_memmap("emb_%03d.npy" % s, mode="w+", dtype=numpy.float16, shape=(last - first, dim))
    for at in range(first, last, 1 << 18):
        i = torch.arange(at, min(at + (1 << 18), last), device=device)
        x = 0.5 * centre[i % len(centre)] + torch.randn(len(i), dim, device=device)
        out[at - first : at - first + len(i)] = torch.nn.functional.normalize(x).half().cpu().numpy()
PY
device=$(cat device)
discover() { "$glofnd" discover 'emb_{000..009}.npy' --k 20 --device "$device" "$@"; }
if [ "$how" = whole ]; then
    discover --out found
    python3 - <<'PY'
import numpy
import torch

device = open("device").read()
torch.backends.cuda.matmul.allow_tf32 = False
x = [torch.from_numpy(numpy.load("emb_%03d.npy" % s)).to(device).float() for s in range(10)]
u = torch.nn.functional.normalize(torch.cat(x))
found = [numpy.load("found/%s.npy" % name, mmap_mode="r") for name in ("neighbours", "similarities", "anchors")]
rows = numpy.sort(numpy.random.default_rng(3).choice(len(u), min(512, len(u)), replace=False))
same, worst, off = 0, 0.0, 0.0
for first in range(0, len(rows), 64):
    at = rows[first : first + 64]
    s = u[at] @ u.T
    s[torch.arange(len(at)), at] = -4
    value, other = (t.cpu().numpy() for t in s.topk(21, dim=1))
    same += (other[:, :20] == found[0][at]).sum()
    worst = max(worst, abs(value[:, :20] - found[1][at]).max())
    off = max(off, abs(value[:, 20] - found[2][at, 0]).max())
print("torch in float32, %d rows against all: %.3f %% of the neighbours are the same; similarities differ by at most %.2g, "
      "thresholds by %.2g" % (len(rows), 100 * same / (20 * len(rows)), worst, off))
assert worst < 1e-5 and off < 1e-5
PY
    exit
fi
(exec "$glofnd" discover 'emb_{000..009}.npy' --k 20 --device "$device" --resume --quiet --out broken) &
process=$! # of the program, not of a shell
while kill -0 $process 2>/dev/null && [ ! -e broken.partial/pairs-000020 ]; do sleep 0.02; done
kill -9 $process 2>/dev/null || true
wait $process 2>/dev/null || true
[ ! -e broken ] || { echo 'it had finished before it was killed'; exit 1; }
echo "killed with $(find broken.partial -name 'pairs-*' | wc -l) units"
discover --resume --out broken
discover --out memory
diff -r broken memory
echo 'the same bytes: killed and continued, in memory'
