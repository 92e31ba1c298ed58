# corpora.sh - hostile files of every kind that the program reads, one at a time through a command that reads all of it. Made anew
# by tools/corpora.py; HOSTILE_SEED chooses other mutants. A build with sanitizers (BUILD/san) is preferred. Every file is read
# or refused with a message: no signal, no report of a sanitizer, no time-out, no control character in a message.

command -v python3 > /dev/null || { skip "no python3"; return 0; }
program=$glofnd
[ -x "$build/san/glofnd" ] && program=$build/san/glofnd
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
make_corpus() { python3 "$source/tests/hostile/tools/corpora.py" "$1" "$tmp/files" "$2" "${HOSTILE_SEED:-1}"; }
quick='--quiet --arch resnet8 --head-hidden 8 --head-out 8 --batch 8 --epochs 1 --warmup-epochs 0 --threads 1'
quick="$quick --workers 2 --size 8"

"$glofnd" data export shapes:n=16,classes=2,size=8,seed=1 --folder --out "$tmp/plain" > out 2> err ||
    { skip "no images: $(cat err)"; return 0; }
(cd "$tmp/plain" && cp "$(ls -- */*.png | head -n 1)" "$tmp/a.png" && cp "$(ls -- */*.png | tail -n 1)" "$tmp/b.png")
"$glofnd" pretrain $tiny --out "$tmp/sound" --epochs 2 > out 2> err || { skip "pretrain does not work here"; return 0; }

# files KIND MUTANTS COMMAND...: @ in the command stands for the file
files() {
    kind=$1
    rm -rf "$tmp/files"
    make_corpus "$kind" "$2" || { differs "no corpus $kind"; return; }
    shift 2
    row "$kind: hand-made files and mutants, $([ "$program" = "$glofnd" ] && echo 'no sanitizer' || echo sanitizers)"
    possible "$(ls "$tmp/files" | wc -l)"
    for file in "$tmp"/files/*; do
        more || break
        name=${file##*/}
        "$@"
        check 'what it prints' python3 "$source/tests/hostile/tools/clean.py" --terminal "$tmp/out" "$tmp/err"
    done
}
try_image() {
    rm -rf one again
    mkdir -p one/a && cp "$file" "one/a/$name" && cp a.png one/a/sound.png
    try "$name" '0' "$program" data export folder:one --folder --out again
}
try_tar() {
    rm -rf again
    cp "$file" one.tar
    try "$name" '0|1' "$program" data export wds:one.tar --folder --out again
}
try_array() {
    rm -rf found
    try "$name" '0|1|2' "$program" discover "$file" --k 1 --out found
}
try_weights() { try "$name" '1' "$program" embed --weights "$file" --data shapes:n=4,size=8 --out again.npy; }
# Oxford Flowers: labels of all images, and the images of each split
mkdir -p "$tmp/flowers/jpg"
try_csv() { cp "$file" list.csv && try "$name" '0|1' "$program" data bpe csv:list.csv --out vocab.txt; }
try_list() { cp "$file" list.txt && try "$name" '0|1' "$program" data info list:list.txt; }
try_config() {
    rm -rf r
    limit=120
    try "$name" '0|1|2' "$program" pretrain --config "$file" $quick --data shapes:n=16,size=8 --out r
    limit=60
}
try_vocabulary() {
    rm -rf r
    try "$name" '0|1|2' "$program" pretrain --data shapes:n=16,size=8 --task clip $quick --embed-dim 8 --text-width 8 \
        --text-layers 1 --text-heads 1 --context 8 --vocab "$file" --out r
}
try_log() {
    rm -rf r && cp -r sound r && cp "$file" r/log.jsonl
    try "$name" '0|1' "$program" watch r --once
    try "$name, report" '0|1' "$program" report r --out page.html
}
try_eval() {
    rm -rf r && cp -r sound r && cp "$file" r/eval.jsonl
    try "$name" '0|1' "$program" compare r
    try "$name, page" '0|1' "$program" report r --out page.html
    check 'the page' python3 "$source/tests/hostile/tools/clean.py" --files page.html
}

rows 15
files image 150 try_image
files tar 100 try_tar
files npy 100 try_array
files safetensors 100 try_array
files safetensors 120 try_weights
files parquet 200 try_array
files csv 60 try_csv
files list 40 try_list
files config 60 try_config
files vocabulary 40 try_vocabulary
files log 60 try_log
files eval 40 try_eval

row 'ulimit -v: a message, not a signal'
for megabytes in $(seq 52 4 140); do
    more || break
    rm -rf r
    begin_try "$megabytes MB"
    (
        ulimit -v $((megabytes * 1024)) || exit 0
        MALLOC_ARENA_MAX=1 exec "$glofnd" pretrain $tiny --out r --epochs 1
    ) > "$tmp/out" 2> "$tmp/err"
    code=$?
    end_try '0|1|127'
done
