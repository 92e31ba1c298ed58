# An event file as we write it, and that of a run, read by TensorBoard itself. Skipped where python3 has no tensorboard (PYTHON
# names another one).
. "$2/tests/sh/common.inc"
writer=$build/tests/unit_tfevents
python=${PYTHON:-python3}
needs_tools "$python"
"$python" -c 'import tensorboard' 2>/dev/null || skip "$python has no tensorboard"
[ -x "$writer" ] || skip "built without cmocka"

mkdir run
"$writer" write run/events.out.tfevents.1.sample || fail "a file could not be written"
"$python" - run <<'EOF' || fail "a file as we write it"
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

# A run: the tags that docs/commands.md lists, a point per step or epoch; before the detector starts there is no precision.
"$glofnd" info | grep -q 'oneDNN yes' || exit 0
data=shapes:n=32,classes=4,size=16
train pretrain --batch 8 --epochs 4 --start-epoch 1 --log-steps 2
"$python" - pretrain "$source/docs/commands.md" <<'EOF' || fail "the file of a run"
import json, math, sys
from tensorboard.backend.event_processing import event_accumulator

def check(what, ok):
    if not ok:
        sys.exit("FAILED: " + what)

board = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0}).Reload()
lines = [json.loads(x) for x in open(sys.argv[1] + "/log.jsonl")]
steps, epochs = ([x for x in lines if x["event"] == e] for e in ("step", "epoch"))
names = {"train/": ["loss", "lr", "grad_norm", "lambda", "log_u", "num_negatives_perc"],
         "time/": ["load", "forward", "loss", "backward", "optimizer"],
         "epoch/": ["loss", "flagged_perc", "lda_precision", "lda_recall", "lda_f1"]}
tags = [group + name for group in names for name in names[group]]
check("tags: " + str(board.Tags()["scalars"]), sorted(board.Tags()["scalars"]) == sorted(tags))
check("histograms", board.Tags()["histograms"] == ["lambda"])
page = open(sys.argv[2], encoding="utf-8").read()
for tag in tags + ["lambda"]:
    check(tag + " is in docs/commands.md", "`" + tag + "`" in page)

def same(tag, records, value):
    points = board.Scalars(tag)
    check(tag + ": steps", [p.step for p in points] == [r["step"] for r in records])
    check(tag + ": values", all(math.isclose(p.value, value(r), rel_tol=1e-6, abs_tol=1e-9) for p, r in zip(points, records)))

for name in ("loss", "lr", "grad_norm", "lambda", "log_u"):
    same("train/" + name, steps, lambda r: r[name])
same("train/num_negatives_perc", steps, lambda r: 100 * r["kept"])
same("epoch/loss", epochs, lambda r: r["loss"])
same("epoch/flagged_perc", epochs, lambda r: 100 * r["flagged"])
for name in ("precision", "recall", "f1"):
    same("epoch/lda_" + name, [r for r in epochs if r[name] is not None], lambda r: r[name])
check("no precision in epoch 0", epochs[0]["precision"] is None and epochs[1]["precision"] is not None)
check("a histogram per epoch", [h.step for h in board.Histograms("lambda")] == [r["step"] for r in epochs])
check("of all anchors", all(h.histogram_value.num == 32 for h in board.Histograms("lambda")))
print("TensorBoard reads a run: %d tags" % len(tags))
EOF
