# A run folder of version 0.1 (tests/fixtures/run-0.1, 4 epochs of 64 drawn images) opens with every verb: its tables are those
# that 0.1 printed, new evaluations are of the same kinds as its own, and training continues where it stopped. So does a run of
# version 0.2 (tests/fixtures/run-0.2, with averages), whose configuration has keys that were removed since.
. "$2/tests/sh/common.inc"
needs_runs
data=shapes:n=64,classes=4,size=16,seed=5
cp -r "$source/tests/fixtures/run-0.1" . && chmod -R u+w run-0.1 || exit 1
before=$(print_of run-0.1)

# Reading changes nothing.
call "$glofnd" compare run-0.1 --all --format csv;              wants 'compare' 0
grep -v 'top-1 % (last epoch)' out > figures                    # recorded by 0.1, shown since
cmp figures "$source/tests/fixtures/run-0.1-compare.csv" || fail "compare: other figures than those of version 0.1"
[ "$(grep -c 'linear .* 10*0* % top-1 % (last epoch),higher,1,all runs,1,[0-9]' out)" = 2 ] ||
    fail "compare: not the scores of the last epoch: $(cat out)"
grep -q 'newer version' err && fail "compare: keys of version 0.1 are not in the table"
expect 0 "knn k 20 top-1 %" "$glofnd" report run-0.1 --quick --out quick.html
expect 0 "27.5" "$glofnd" report run-0.1 --out page.html
grep -q 'id="thresholds"' page.html || fail "report: no thresholds in the page"
grep -q 'lines of the logs were skipped' page.html && fail "report: lines of version 0.1 were skipped"
expect 0 "64 x 64 features" "$glofnd" embed run-0.1 --data $data --out features.npy
call "$glofnd" discover run-0.1 --data $data --quiet --out found;       wants 'discover' 0
grep -q '"rows": 64' found/summary.json || fail "discover: 64 rows"
[ "$(print_of run-0.1)" = "$before" ] || fail "a run that was only read has changed"

# New records replace those of version 0.1: they have the same names and settings.
kinds() { "$glofnd" compare run-0.1 --all --format csv 2> err | cut -d, -f 1 | sort; }
kinds > a
for call in knn "fn --alpha 0.1" "threshold --alpha 0.1"; do
    lines=$(wc -l < run-0.1/eval.jsonl)
    call "$glofnd" eval ${call%% *} run-0.1 ${call#"${call%% *}"};        wants "eval $call" 0
    [ "$(wc -l < run-0.1/eval.jsonl)" -gt "$lines" ] || fail "eval $call: no new record"
done
kinds > b
cmp a b || fail "records of this version are of other kinds than those of 0.1: $(diff a b)"

# Two more epochs from its checkpoint. Its evaluations measured other weights then.
call "$glofnd" pretrain --out run-0.1 --resume --epochs 6 --quiet;      wants 'resume' 0 'resumed at step 16' 'finished'
[ "$(grep -c '"event": "epoch"' run-0.1/log.jsonl)" -eq 6 ] || fail "resume: 6 epochs in the log"
[ -e run-0.1/checkpoints/step-24/DONE ] || fail "resume: no checkpoint of step 24"
grep -q '"event": "trained", "step": 24' run-0.1/eval.jsonl || fail "resume: evaluations are not marked as stale"
kinds > b
grep -q '^knn' b && fail "a figure of weights that later training replaced"
grep -q '^last epoch loss' b || fail "the last epoch is missing"

# Version 0.2: keys without effect are passed over; the model of a finished run is that of its last checkpoint.
cp -r "$source/tests/fixtures/run-0.2" . && chmod -R u+w run-0.2 || exit 1
cp run-0.2/checkpoints/step-16/model.safetensors run-0.2/
grep -q '^hard_beta = 0' run-0.2/config.cfg || fail "the fixture of 0.2 has no removed key"
expect 0 "knn k 20 top-1 %" "$glofnd" report run-0.2 --quick --out old.html
expect 0 "64 x 64 features" "$glofnd" embed run-0.2 --data $data --out features2.npy
call "$glofnd" eval threshold run-0.2 --alpha 0.1;                      wants 'eval threshold 0.2' 0
call "$glofnd" pretrain --out run-0.2 --resume --epochs 6 --quiet;      wants 'resume 0.2' 0 'resumed at step 16' 'finished'
[ -e run-0.2/checkpoints/step-24/DONE ] || fail "resume 0.2: no checkpoint of step 24"
grep -q hard_beta run-0.2/config.cfg && fail "resume 0.2: a removed key is written again"

# A value that had an effect is refused.
call "$glofnd" pretrain --data $data --out new --hard-beta 1;           wants 'removed key' 2 'hard_beta: this option was removed in 1.0'
exit 0
