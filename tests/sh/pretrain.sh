# glofnd pretrain and what can be wrong around it: keys, data, folders, checkpoints, a full disk. Every case must end with the
# right exit code (2: the command, 1: the world) and a message that says what, and must leave what is there as it is.
. "$2/tests/sh/common.inc"
needs_runs
clean_up() { umount disk sealed 2> /dev/null; }

tiny='--arch resnet8 --head-hidden 16 --head-out 8 --batch 8 --epochs 2 --log-steps 2 --size 16'
data='--data shapes:n=32,classes=4,size=16,seed=1'
run() { call "$glofnd" pretrain "$@"; }
same() { # WHAT BEFORE FOLDER
    [ "$2" = "$(print_of "$3")" ] || fail "$1: files changed"
}

# ----- the command -----
run $data $tiny --out x --bacth 4;              wants 'unknown key' 2 'bacth' 'batch'
run $data $tiny --out x --alfa 0.1;             wants 'unknown key of the method' 2 'alfa' 'alpha'
run $data $tiny --out x --set bacth=4;          wants '--set unknown' 2 'bacth' 'batch'
run $data $tiny --out x --set batch;            wants '--set without value' 2 'KEY=VALUE'
run $data $tiny --out x --batch two;            wants 'wrong type' 2 'batch' 'two' 'an integer'
run $data $tiny --out x --epochs 0;             wants 'out of range' 2 'epochs' '[1, 1000000]'
run $data $tiny --out x --alpha 2;              wants 'out of range' 2 'alpha'
run $data $tiny --out x --optimizer adam;       wants 'unknown name' 2 'optimizer' 'lars|sgd|adamw'
run $data $tiny --out x --loss clip;            wants 'a loss for image and text' 2 'loss' 'task = clip'
run $data $tiny --out x --learning-rate 1;      wants 'a key of others' 2 'learning_rate' 'lr'
run $data $tiny --out x --detector groups;      wants 'groups that do not exist' 2 'detector' 'groups' 'task = clip'
run $data $tiny --out x --warmup-epochs 2;      wants 'all warm-up' 2 'warmup_epochs'
run $data $tiny --out x --update-epoch 2 --mask-epoch 1;    wants 'order of epochs' 2 'mask_epoch'
run $data $tiny --out x --resume=1;             wants 'a value for a switch' 2 '--resume takes no value'
run $data $tiny --out x --epochs;               wants 'no value' 2 '--epochs needs a value'
run $data $tiny --out x stray;                  wants 'a stray word' 2 'stray'
run $data $tiny;                                wants 'no --out' 2 '--out'
run $data $tiny --out '';                       wants 'an empty --out' 2 '--out'
run $data $tiny --out x --size 7;               wants 'too few pixels' 2 'size' '8'
run $tiny --out x;                              wants 'no data' 2 'data'
run $data $tiny --out x --batch 33;             wants 'batch above n' 2 'batch' '33' '32'
printf '# all is well\nepochs = 2\n\nbacth = 8\n' >bad.cfg
run $data $tiny --out x --config bad.cfg;       wants 'a bad line' 2 'bad.cfg:4' 'bacth' 'batch'
printf 'epochs 2\n' >bad.cfg
run $data $tiny --out x --config bad.cfg;       wants 'no equals sign' 2 'bad.cfg:1'
run $data $tiny --out x --config nowhere.cfg;   wants 'no such config' 1 'nowhere.cfg'
printf 'lr = 0.1 # note\n' >bad.cfg
run $data $tiny --out x --config bad.cfg;       wants 'a comment behind a value' 2 'bad.cfg:1' 'comments need a line of their own'
call "$glofnd" pretrian;                        wants 'a verb with a typing error' 2 'did you mean pretrain?'
call "$glofnd" hello;                           wants 'no verb' 2 'hello' '--help'
call "$glofnd" report --quikc x;                wants 'a flag with a typing error' 2 'did you mean --quick?'
call "$glofnd" info extra;                      wants 'a word too many' 2 'extra'
call "$glofnd" help pretrain;                   wants 'help VERB' 0 'usage: glofnd pretrain' '--start_epoch'
call "$glofnd" help hello;                      wants 'help with no verb' 2 'hello'

# ----- data and folders -----
mkdir -p empty words/a
echo 'not an image' >words/a/readme.txt
run --data shapes:n=1,size=16 $tiny --out x;    wants 'one image' 2 'batch' 'the 1 sample '
run --data folder:nowhere $tiny --out x;        wants 'no such folder' 1 'nowhere'
run --data cifar10:nowhere $tiny --out x;       wants 'no such CIFAR' 1 'nowhere'
run --data folder:empty $tiny --out x;          wants 'an empty folder' 1 'empty'
run --data folder:words $tiny --out x;          wants 'a folder without images' 1 'words'
run --data what:ever $tiny --out x;             wants 'unknown kind of data' 2 'what' 'folder'
run --data folder: $tiny --out x;               wants 'a kind without place' 2 'folder:PATH'
run --data 'folder:blank ' $tiny --out x;       wants 'a name that no file of keys can hold' 2 'blank'
run --out x --resume;                           wants 'no run to resume' 1 'x holds no run'
run $data $tiny --out x --init nowhere;         wants 'no such weights' 1 'nowhere'
[ -e x ] && fail 'a failed command left a run folder'
: >file
run $data $tiny --out file;                     wants 'a file as run folder' 1 'file'
run $data $tiny --out file/run;                 wants 'a file as parent folder' 1 'file/run' 'cannot be made'
run --data folder:nowhere $tiny --out no/such/parent;   wants 'no data for a new folder' 1 'nowhere'
[ -e no ] && fail 'a failed command left parent folders'
run $data $tiny --epochs 1 --out no/such/parent;        wants 'parent folders are made' 0 '1 epoch of 4 steps'
[ -s no/such/parent/model.safetensors ] || fail 'parent folders: no run'
if "$glofnd" info | grep -q 'png yes'; then
    "$glofnd" data export shapes:n=1,classes=1,size=16 --out one --folder >/dev/null || fail 'data export'
    run --data folder:one $tiny --out x;        wants 'a folder with one image' 2 'batch' 'the 1 sample '
fi

# ----- a run, its configuration, resuming -----
run $data $tiny --out first;                    wants 'a run' 0 'finished' '32 images' ' MB'
[ -s first/model.safetensors ] && [ -s first/log.jsonl ] && [ -s first/config.cfg ] || fail "a run's files: $(ls first)"
[ "$(grep -c '"event": "epoch"' first/log.jsonl)" = 2 ] || fail 'two epochs in the log'
grep -q '"event": "step", "step": 2, "epoch": 0, "loss": [-0-9]' first/log.jsonl || fail 'a step in the log'
before=$(print_of first)
run $data $tiny --out first;                    wants 'a run twice' 1 '--resume'
same 'a run twice' "$before" first
run --out first --resume;                       wants 'finished already' 0 'finished already'
same 'finished already' "$before" first
mv first/model.safetensors kept
run --out first --resume;                       wants 'finished without weights' 0
cmp kept first/model.safetensors || fail 'weights written again'
run --out first --resume --seed 2;              wants 'another seed' 2 'seed' '1' '2'
run --out first --resume --batch 4;             wants 'another batch' 2 'batch'
run --out first --resume --init kept;           wants 'other weights to begin with' 2 'init' 'kept'
run --out first --resume --zero-init 0;         wants 'other weights to begin with' 2 'zero_init'
same 'other settings' "$before" first
run --config first/config.cfg --out second;     wants 'a run from config.cfg' 0
cmp first/model.safetensors second/model.safetensors || fail 'config.cfg starts an equal run: weights'
cmp first/config.cfg second/config.cfg || fail 'config.cfg starts an equal run: configuration'
run $data $tiny --out third --resume;           wants 'nothing to resume' 0 'no complete checkpoint' 'from the beginning'
cmp first/model.safetensors third/model.safetensors || fail 'resumed from nothing'
run --config first/config.cfg --out other --seed 2;     wants 'another seed' 0
cmp -s first/model.safetensors other/model.safetensors && fail 'the seed changes nothing'
run $data $tiny --out tuned --init first/model.safetensors --epochs 1;  wants 'weights to start from' 0
run $data $tiny --out wide --init first/model.safetensors --stem 0;     wants 'weights of another net' 1 'conv1.weight' 'shape'

printf '\357\273\277alpha = 0.125\r\n' >windows.cfg   # with the mark and the line ends of another system
run $data $tiny --config windows.cfg --out marked;      wants 'a mark at the start of a file' 0
grep -qx 'alpha = 0.125' marked/config.cfg || fail 'a mark at the start of a file'
run $data $tiny --start-epoch 9 --out late;     wants 'a detector that never starts' 0 'the detector never starts' '2 epochs'
run $data $tiny --start-epoch 1 --out soon;     wants 'a detector that starts' 0 'after 1 epoch,'
grep -q 'never starts' err && fail 'a detector that starts'

# ----- the streams: closed ones must not come to be files of the run, results must arrive -----
"$glofnd" pretrain $data $tiny --out silent >&- 2>&- || fail 'closed streams'
grep -v '^{"event": ' silent/log.jsonl && fail 'closed streams: what else is in the log'
if [ -w /dev/full ]; then
    "$glofnd" info >/dev/full 2>/dev/null && fail 'a result that could not be written'
fi

# ----- waiting threads sleep unless the environment says otherwise -----
if [ -r /proc/self/environ ]; then
    waits() { # COUNT SETTING: of the variable in the process that trains, started with that setting
        (unset OMP_WAIT_POLICY; exec env $2 "$glofnd" pretrain $data $tiny --epochs 2000 --out "waits$1" 2>/dev/null) &
        process=$!
        while ! [ -e "waits$1/config.cfg" ] && kill -0 $process 2>/dev/null; do sleep 0.02; done
        [ "$(tr '\0' '\n' <"/proc/$process/environ" | grep -c '^OMP_WAIT_POLICY=passive$')" = "$1" ] || fail "waiting, with '$2'"
        kill -HUP $process      # as a terminal that goes away: with a checkpoint
        wait $process || fail "SIGHUP: exit $?"
        ls "waits$1"/checkpoints/step-*/DONE >/dev/null 2>&1 || fail 'SIGHUP: no checkpoint'
    }
    waits 1 ''
    waits 0 GOMP_SPINCOUNT=10
fi

# ----- fewer threads than asked for: oneDNN would wait for the others for ever -----
for few in OMP_DYNAMIC=true OMP_THREAD_LIMIT=1; do
    expect 0 'finished' timeout -s KILL 100 env $few "$glofnd" pretrain $data $tiny --threads 2 --out few-threads
    rm -r few-threads
done

# ----- checkpoints at the end of epochs: of the first, and then not for a minute unless asked for -----
newest_of() { # FLAGS...: the newest checkpoint of a run that is killed in its eighth epoch or later
    rm -rf many
    "$glofnd" pretrain $data $tiny --epochs 100000 --out many "$@" 2>/dev/null &
    process=$!
    while [ "$(grep -s '"event": "epoch"' many/log.jsonl | wc -l)" -lt 7 ] && kill -0 $process; do sleep 0.02; done
    kill -9 $process
    wait $process 2>/dev/null
    newest many
}
[ "$(newest_of)" = step-4 ] || fail "checkpoint_minutes 1: $(ls many/checkpoints)"
[ "$(newest_of --checkpoint-minutes 0)" != step-4 ] || fail "checkpoint_minutes 0: $(ls many/checkpoints)"

# ----- checkpoints: torn, damaged, cut -----
cp -r first torn
mv torn/checkpoints/step-8 torn/checkpoints/step-9
rm torn/checkpoints/step-9/DONE torn/model.safetensors
mkdir torn/checkpoints/tmp-4
run --out torn --resume;                        wants 'a torn checkpoint' 0 'no complete checkpoint'
cmp first/model.safetensors torn/model.safetensors || fail 'a torn checkpoint'
[ "$(ls torn/checkpoints)" = step-8 ] || fail "a torn checkpoint stays: $(ls torn/checkpoints)"

run $data $tiny --epochs 3 --out broken;        wants 'a third run' 0
for file in model.safetensors optim.safetensors anchors.glofnd keys.glofnd state.json config.cfg; do
    for harm in flip cut; do
        rm -rf harmed
        cp -r broken harmed
        target=harmed/checkpoints/step-12/$file
        bytes=$(wc -c <"$target")
        if [ $harm = flip ]; then printf '\377\001' | dd of="$target" bs=1 seek=$((bytes * 2 / 3)) conv=notrunc 2>/dev/null
        else truncate -s $((bytes / 2)) "$target"; fi
        before=$(print_of harmed)
        run --out harmed --resume --epochs 4;   wants "$harm of $file" 1 "$file" 'corrupt'
        same "$harm of $file" "$before" harmed
    done
done

# ----- files of another run, which have the same lengths -----
run $data $tiny --epochs 3 --seed 2 --out stranger;     wants 'another seed' 0
for file in model.safetensors optim.safetensors anchors.glofnd; do
    rm -rf harmed
    cp -r broken harmed
    cp stranger/checkpoints/step-12/$file harmed/checkpoints/step-12
    [ "$(wc -c <stranger/checkpoints/step-12/$file)" = "$(wc -c <broken/checkpoints/step-12/$file)" ] || fail "lengths of $file"
    before=$(print_of harmed)
    run --out harmed --resume --epochs 4;       wants "$file of another run" 1 "$file" 'of a different checkpoint'
    same "$file of another run" "$before" harmed
done

# ----- logs and configurations that are lost: the checkpoint is what counts -----
cp -r broken whole
run --out broken --resume --epochs 4;           wants 'more epochs' 0 'resumed at step 12' 'finished'
grep -q 'at this checkpoint' err && fail 'more epochs: something is missed'
events=events.out.tfevents.glofnd
lines=$(wc -l <whole/log.jsonl)
for harm in 'rm log.jsonl' ': >log.jsonl' 'truncate -s -9 log.jsonl' \
    "rm $events" "truncate -s -9 $events" "echo text >$events"; do
    rm -rf harmed
    cp -r whole harmed
    (cd harmed && eval "$harm")
    run --out harmed --resume --epochs 4
    wants "$harm" 0 'resumed at step 12' "${harm##*[ >]}" 'at this checkpoint' 'finished'
    cmp broken/model.safetensors harmed/model.safetensors || fail "$harm: weights"
    grep -v '^{"event": .*}$' harmed/log.jsonl && fail "$harm: no whole lines"
    run --out harmed --resume --epochs 5;       wants "after $harm" 0 'resumed at step 16'
    grep -q 'at this checkpoint' err && fail "after $harm: it is missed again"
done
[ "$(wc -l <harmed/log.jsonl)" -gt "$lines" ] || fail 'a lost event file: the log is shorter'
[ "$(ls broken/checkpoints)" = step-16 ] || fail "more epochs: $(ls broken/checkpoints)"

# Cut in a value that still reads as one, in a key, between lines, and in the last line.
in_value=$(($(grep -b '^lr = ' whole/config.cfg | cut -d: -f1) + 7))
for harm in 'rm' ': >' "truncate -s $in_value" "truncate -s $((in_value - 6))" "truncate -s $((in_value - 7))" \
    'truncate -s -3'; do
    rm -rf harmed
    cp -r whole harmed
    (cd harmed && eval "$harm config.cfg")
    [ "$harm" = rm ] && was=lost || was=cut
    run --out harmed --resume --seed 2;         wants "$harm config.cfg" 2 'seed' "'1'" "'2'"
    run --out harmed --resume --epochs 4
    wants "$harm config.cfg" 0 "harmed/config.cfg is $was" 'restored from the one in harmed/checkpoints/step-12' 'finished'
    cmp broken/model.safetensors harmed/model.safetensors || fail "$harm config.cfg: weights"
    cmp broken/config.cfg harmed/config.cfg || fail "$harm config.cfg: the one that was made again"
    run --out harmed --resume;                  wants "after $harm config.cfg" 0 'finished already'
    grep -q 'restored from' err && fail "after $harm config.cfg: it is missed again"
done
rm harmed/config.cfg
run --out harmed --resume --lr 9
wants 'a lost configuration of a finished run' 0 'config.cfg is lost' 'finished already'
cmp broken/config.cfg harmed/config.cfg || fail 'a lost configuration of a finished run'
run $data $tiny --out harmed;                   wants 'a new run there' 1 'holds a run already' '--resume'
sed -i 's/^seed = 1$/seed = 2/' harmed/config.cfg
run --out harmed --resume --epochs 5;           wants 'a seed written to config.cfg' 2 'seed' "'1'" "'2'"
sed 's/^epochs = /epoch = /' broken/config.cfg >harmed/config.cfg
run --out harmed --resume;                      wants 'a mistake in config.cfg' 2 'harmed/config.cfg:' '"epoch"' 'epochs'
truncate -s -1 broken/config.cfg
run --out broken --resume;                      wants 'no end of the last line' 0 'finished already'
grep -q 'restored from' err && fail 'no end of the last line: nothing is missing'

# Checkpoints of earlier versions do not hold it.
forget() { (cd "$1"/checkpoints/step-* && rm config.cfg && sed -i '/config.cfg/d; s/^end 6/end 5/' DONE); }
rm -rf harmed
cp -r whole harmed
forget harmed
run --out harmed --resume --seed 2;             wants 'an earlier version, another seed' 2 'seed'
rm harmed/config.cfg
run --out harmed --resume --epochs 4;           wants 'a lost configuration' 1 'config.cfg is lost' '--data'
run $data $tiny --out harmed --resume --epochs 4;       wants 'its keys beside --resume' 0 'resumed at step 12' 'finished'
cmp broken/model.safetensors harmed/model.safetensors || fail 'its keys beside --resume: weights'
forget harmed
: >harmed/config.cfg
run --out harmed --resume --epochs 4;           wants 'an empty configuration' 1 'config.cfg' 'does not name the data'

# ----- evaluations of weights that are no more -----
rm -rf more
cp -r whole more
run --out more --resume;                        wants 'nothing left to do' 0
[ ! -e more/eval.jsonl ] || fail 'nothing left to do: eval.jsonl'
echo '{"event": "knn", "protocol": "knn", "untrained": false, "top1": 0.5}' >more/eval.jsonl
run --out more --resume --epochs 4;             wants 'more epochs after an evaluation' 0 'finished'
[ "$(tail -n 1 more/eval.jsonl)" = '{"event": "trained", "step": 16}' ] || fail 'more epochs: eval.jsonl'

# ----- folders in which something is: nothing of it is written over or removed -----
for file in config.cfg model.safetensors vocab.txt eval.jsonl memory.json $events checkpoints/step-7/other.bin; do
    rm -rf others
    mkdir -p "others/$(dirname "$file")"
    echo mine >"others/$file"
    before=$(print_of others)
    run $data $tiny --out others;               wants "a folder with $file" 1 "others has ${file%%/*} already" '--out'
    same "a folder with $file" "$before" others
done
rm -rf others
cp -r whole others
rm -r others/checkpoints
before=$(print_of others)
run --out others --resume --epochs 4
wants 'a model without checkpoint' 1 'no checkpoint' '--init others/model.safetensors'
same 'a model without checkpoint' "$before" others
rm -rf others
mkdir others
echo mine >others/notes
before=$(print_of others)
run --data list:nosuch.tsv $tiny --out others;  wants 'a failure among notes' 1 'nosuch.tsv'
same 'a failure among notes' "$before" others
run $data $tiny --out others;                   wants 'among notes' 0 'finished'

# ----- numbers that blow up -----
hot='--optimizer sgd --lr 1000 --lr-scaling none --weight-decay 10 --warmup-epochs 0'
run $data $tiny --out hot --epochs 40 --checkpoint-steps 2 $hot
wants 'a run that blows up' 1 'step' 'not finite' 'sample'
ls hot/checkpoints/step-*/DONE >/dev/null 2>&1 || fail 'blown up: no checkpoint is left'
[ -e hot/model.safetensors ] && fail 'blown up: weights'

# ----- a unreadable image -----
if "$glofnd" info | grep -q 'png yes'; then
    "$glofnd" data export shapes:n=20,classes=2,size=16 --out images --folder >/dev/null || fail 'data export'
    victim=$(find images -name '*.png' | sort | head -n 1)
    printf 'not an image' >"$victim"
    run --data folder:images $tiny --out spoiled
    wants 'a unreadable image' 0 'unreadable' "$(basename "$victim")" ', 1 unreadable; '
    grep -q "\"event\": \"damaged\".*$(basename "$victim")" spoiled/log.jsonl || fail "a unreadable image: not named in the log"
    grep -q '"event": "epoch".*"damaged": 1' spoiled/log.jsonl || fail 'a unreadable image: not counted'
    call "$glofnd" eval threshold spoiled --anchors 8 --samples 16; wants "thresholds beside an unreadable image" 0 "left out"
    run --data folder:images $tiny --out strict --strict;       wants 'a unreadable image, strict' 1 "$(basename "$victim")"
    find images -name '*.png' -exec cp "$victim" {} \; 2>/dev/null
    run --data folder:images $tiny --out nothing;       wants 'only unreadable images' 1 'unreadable'
    [ -e nothing ] && fail "only unreadable images: it left $(ls nothing)"
    run $data $tiny --out nothing;                      wants 'the corrected command' 0 'finished'
    mkdir prepared && echo mine >prepared/notes
    run --data folder:images $tiny --out prepared --strict;     wants 'a unreadable image in the first step' 1 'png'
    [ "$(cat prepared/notes)" = mine ] || fail 'a folder that was there: what was in it'
    run $data $tiny --out prepared;                     wants 'the corrected command' 0 'finished'
fi

# ----- one process per run -----
"$glofnd" pretrain $data $tiny --epochs 2000 --out busy 2>/dev/null &
process=$!
while ! [ -e busy/config.cfg ] && kill -0 $process 2>/dev/null; do sleep 0.02; done
run --out busy --resume;                        wants 'a run in use' 1 'in use'
kill -9 $process
wait $process 2>/dev/null

# ----- a folder that cannot be written to: as another user, or on a disk that is read-only -----
mkdir sealed
sealed_by=''
if [ "$(id -u)" != 0 ]; then
    cp -r second/. sealed && rm sealed/model.safetensors && chmod 555 sealed sealed/checkpoints && sealed_by='permissions'
elif mount -t tmpfs none sealed 2>/dev/null; then
    cp -r second/. sealed && rm sealed/model.safetensors && mount -o remount,ro sealed && sealed_by='mount'
fi
if [ -n "$sealed_by" ]; then
    before=$(print_of sealed)
    run $data $tiny --out sealed;               wants 'a read-only run folder' 1 'sealed' 'cannot be written to'
    run --out sealed --resume --epochs 3;       wants 'resuming in a read-only folder' 1 'sealed' 'cannot be written to'
    run $data $tiny --out sealed/new;           wants 'a run folder in a read-only one' 1 'sealed/new' 'cannot be made'
    same 'a read-only run folder' "$before" sealed
    [ $sealed_by = mount ] && umount sealed || chmod 755 sealed sealed/checkpoints
else
    echo 'no tmpfs here: the read-only folder is not tried'
fi

# ----- images that may not be read: counted as damaged. The super-user may read all, so another one tries -----
as_nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
[ "$(id -u)" = 0 ] || as_nobody=''
chmod 755 "$scratch"
if "$glofnd" info | grep -q 'png yes' && $as_nobody "$glofnd" info >/dev/null 2>&1; then
    "$glofnd" data export shapes:n=20,classes=2,size=16 --out locked --folder >/dev/null || fail 'data export'
    victim=$(find locked -name '*.png' | sort | head -n 1)
    chmod 000 "$victim"
    mkdir open && chmod 777 open
    try() { call $as_nobody "$glofnd" pretrain "$@"; }
    try --data folder:locked $tiny --out open/run
    wants 'an unreadable image' 0 'unreadable' "$(basename "$victim")" 'Permission'
    try --data folder:locked $tiny --out open/strict --strict;  wants 'an unreadable image, strict' 1 "$(basename "$victim")"
    chmod 000 locked
    try --data folder:locked $tiny --out open/none;     wants 'an unreadable folder' 1 'locked' 'Permission'
    [ -e open/none ] && fail 'an unreadable folder: a run folder is left'
    chmod 755 locked
else
    echo 'nobody else to be here: unreadable images are not tried'
fi

# ----- a limit on the size of files -----
limited() { (ulimit -f 200; exec "$glofnd" "$@"); }
call limited pretrain $data $tiny --out limited
wants 'a file above the limit' 1 'File too large' 'model.safetensors'
run --out limited --resume;                     wants 'without that limit' 0 'finished'

# ----- a full disk -----
mkdir disk
if mount -t tmpfs -o size=3m none disk 2>/dev/null; then
    run $data $tiny --epochs 1 --out disk/run;  wants 'a run that fits' 0
    before=$(print_of disk/run/checkpoints)
    dd if=/dev/zero of=disk/ballast bs=4k 2>/dev/null
    run --out disk/run --resume --epochs 3;     wants 'a full disk' 1 'No space left'
    same 'a full disk' "$before" disk/run/checkpoints
    run --out disk/run --resume --epochs 3 --store file;        wants 'a full disk, mapped' 1 'No space left'
    same 'a full disk, mapped' "$before" disk/run/checkpoints
    [ -e disk/run/anchors.work ] && fail 'a full disk, mapped: a working file is left'
    rm disk/ballast
    run --out disk/run --resume --epochs 3;     wants 'space again' 0 'resumed at step 4'
    umount disk
else
    echo 'no tmpfs here: the full disk is not tried'
fi

echo 'all as it should be'
