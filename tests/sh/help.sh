# Help on one screen of 80 columns, all of it by --help-all; suggestions for verbs, flags, keys and SPECs; NO_COLOR; tables that
# fit the terminal.
. "$2/tests/sh/common.inc"
needs

# ----- help -----
fits() { # LINES WORDS...: at most so many lines of 80 columns
    lines=$1
    shift
    call "$glofnd" "$@"
    wants "$*" 0
    [ "$(wc -l < out)" -le "$lines" ] || fail "$*: $(wc -l < out) lines"
    awk 'length > 80 { print; bad = 1 } END { exit bad }' out > long || fail "$*: wider than 80 columns: $(cat long)"
}
fits 24 --help
for verb in data pretrain embed discover eval sweep reproduce compare report info; do
    fits 45 $verb --help
    fits 500 $verb --help-all
done
# Explanations that do not fit are broken in their own column; manual pages fit 80 columns, too.
"$glofnd" data --help | grep -q '^ \{49\}captions, test split$' || fail "a broken explanation: $("$glofnd" data --help)"
"$glofnd" reproduce --help | grep -q '^  linear     table 1' || fail "tables of reproduce"
"$glofnd" reproduce --help | grep -q '^  [a-z0-9 ]* as unpacked$' && fail "a table is broken at the left"
"$glofnd" man pages > /dev/null || fail "no manual pages"
# Synopses have their own breaks; everything else is filled by troff.
for page in pages/*.1; do
    awk '/^\.nf$/ { on = 1; next } /^\.fi$/ { on = 0 } on { gsub(/\\-/, "-"); gsub(/\\[e&:]/, ""); bad += length > 73 }
        END { exit bad > 0 }' "$page" || fail "$page has a synopsis of more than 80 columns"
done
for what in knn linear transfer fn threshold retrieval zeroshot; do fits 45 eval $what --help; done
"$glofnd" pretrain --help | grep -q -- '--help-all explains [0-9]* more keys' || fail "no word of --help-all"
"$glofnd" pretrain --help | grep -q '^false negatives$' || fail "short help is not in groups"
[ "$("$glofnd" pretrain --help-all | grep -c '^  --[a-z]')" -gt 100 ] || fail "--help-all lacks keys"
[ "$("$glofnd" discover --help-all | wc -l)" -gt "$("$glofnd" discover --help | wc -l)" ] || fail "discover --help-all"
"$glofnd" discover --help-all | grep -q -- '--html-mb' || fail "discover --help-all lacks a flag"

# ----- suggestions -----
call "$glofnd" pretrain --data shapes:n=32 --out x --wandb;     wants 'unknown, last' 2 'unknown option "wandb"' 'on_epoch'
call "$glofnd" pretrain --data shapes:n=32 --out x --nonsense;  wants 'an unknown flag, last' 2 'unknown option "nonsense"'
call "$glofnd" pretrain --data shapes:n=32 --out x --epochs;    wants 'a known flag, last' 2 '--epochs needs a value'
call "$glofnd" pretrain --data shapes:n=32 --out x --batchsize 3;   wants 'batchsize' 2 'here its name is batch'
call "$glofnd" pretrain --data shapes:n=32 --out x --gpus 1;    wants 'gpus' 2 'here its name is device'
call "$glofnd" pretrain --resume tty1;                          wants '--resume RUN' 2 '--out tty1 --resume'
call "$glofnd" eval knm run;                                    wants 'a wrong sub-verb' 2 'did you mean knn?'
call "$glofnd" data inof x;                                     wants 'a wrong sub-verb' 2 'did you mean info?'
call "$glofnd" report run --output x.html;                      wants '--output' 2 'unknown flag --output' 'did you mean --out?'
call "$glofnd" data folder:x;                                   wants 'a SPEC alone' 2 'glofnd data info folder:x'
call "$glofnd" --nonsense;                                      wants 'a flag alone' 2 'unknown flag --nonsense'
call "$glofnd" data info cifar01:x;                             wants 'a wrong format' 2 'did you mean cifar10:?'
call "$glofnd" data info floder:x;                              wants 'a wrong format' 2 'did you mean folder:?'
call "$glofnd" data info shards/a.tar;                          wants 'a tar without format' 2 'for example wds:shards/a.tar'
call "$glofnd" data info ./pairs.CSV;                           wants 'a table without format' 2 'for example csv:./pairs.CSV'
mkdir pictures; call "$glofnd" data info pictures;              wants 'a folder' 2 'did you mean folder:pictures?'
call "$glofnd" data info zzz:x;                                 wants 'no format' 2 'unknown data format' 'known are'
grep -q 'did you mean' err && fail "a suggestion that is like nothing"

# ----- terminals -----
command -v script > /dev/null || exit 0
"$glofnd" info | grep -q 'oneDNN yes' || exit 0
data=shapes:n=64,classes=4,size=16,seed=3
train run --epochs 2 --start-epoch 0 --log-steps 1
on_terminal() { # COLUMNS COMMAND...
    width=$1
    shift
    TERM=xterm script -qc "stty cols $width rows 24; $*" /dev/null < /dev/null 2>&1 | tr -d '\r' > screen
}
on_terminal 80 "'$glofnd' eval fn run --quiet"
grep -q 'per anchor' screen || fail "a column is missing: $(cat screen)"
grep -v '^glofnd\|^frozen\|^precision\|^exact\|^single\|^fnc\|^training' screen > tables
awk 'length > 80 { bad = 1; print } END { exit bad }' tables ||
    fail "a table that is wider than the terminal: $(cat screen)"
call "$glofnd" eval fn run --quiet
[ "$(grep -c '^images as they are, all pairs .*exact' out)" -eq 1 ] || fail "a row of a file is broken: $(cat out)"
exit 0
