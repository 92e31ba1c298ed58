# An event file as we write it, read by TensorBoard itself. Skipped where python3 has no tensorboard (PYTHON names another one).
set -u
writer=$1/tests/unit_tfevents
python=${PYTHON:-python3}
command -v "$python" >/dev/null || exit 77
"$python" -c 'import tensorboard' 2>/dev/null || exit 77
[ -x "$writer" ] || exit 77     # built without cmocka

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/run"
"$writer" write "$scratch/run/events.out.tfevents.1.sample" || exit 1

"$python" - "$scratch/run" <<'EOF'
import glob, math, sys
from tensorboard.backend.event_processing import event_accumulator, event_file_loader

def check(what, ok):
    if not ok:
        sys.exit("FAILED: " + what)

# Record by record, with checksums: the raw messages.
path, = glob.glob(sys.argv[1] + "/*")
events = list(event_file_loader.LegacyEventFileLoader(path).Load())
check("101 events", len(events) == 101)
check("version", events[0].file_version == "brain.Event:2" and events[0].wall_time == 1000.0)
check("times and steps", [(e.wall_time, e.step) for e in events[1:]] == [(1000.0 + i, i * 10**9) for i in range(100)])
histo = {v.tag: v.histo for v in events[1].summary.value if v.HasField("histo")}
sines = histo["lambda"]
check("32 bins, 1000 values", len(sines.bucket) == len(sines.bucket_limit) == 32 and sum(sines.bucket) == sines.num == 1000)
check("sum, squares", abs(sines.sum - sum(map(math.sin, range(1000)))) < 1e-4 and
      abs(sines.sum_squares - sum(math.sin(i) ** 2 for i in range(1000))) < 1e-3)
check("bins", list(sines.bucket_limit) == sorted(sines.bucket_limit) and sines.bucket_limit[-1] == sines.max and
      all(abs(n - sum(low < math.sin(i) <= high for i in range(1000))) <= 2 for low, high, n in
          zip([sines.min - 1] + list(sines.bucket_limit), sines.bucket_limit, sines.bucket)))
check("one value", list(histo["one"].bucket) == [1.0] and histo["one"].min == histo["one"].max)
check("no value", histo["none"].num == 0)

# As the program shows them.
board = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()
tags = board.Tags()
check("scalar tags", set(tags["scalars"]) == {"train/loss", "x" * 300, "train/nan"})
check("histogram tags", set(tags["histograms"]) == {"lambda", "one", "none"})
loss = board.Scalars("train/loss")
check("100 losses, gone on after 50", len(loss) == 100 and
      all(abs(s.value - 1 / (1 + i)) < 1e-6 and s.step == i * 10**9 for i, s in enumerate(loss)))
check("NaN", all(math.isnan(s.value) for s in board.Scalars("train/nan")))
check("ten histograms", len(board.Histograms("lambda")) == 10)
print("TensorBoard reads 100 steps of 3 scalars and 10 of 3 histograms")
EOF
