# names.sh - hostile names of files and classes, captions, labels and values through every output: the terminal, TSV, JSON, CSV,
# LaTeX, HTML. A new payload is one line of `payloads`; a new command one line of `commands`.

command -v python3 > /dev/null || { skip "no python3"; return 0; }
"$glofnd" info | grep -q 'png yes' || { skip "built without libpng"; return 0; }

# Escapes as of printf(1); no slash, which no name can have.
cat > payloads << 'END'
\033[2J\033[H
\033]0;title\007
\033]8;;http:x\033\\link
\033P+q544e\033\\
\302\2332J
\302\205next line
\23331m
\377\376\375
\300\257overlong
\355\240\200surrogate
\364\220\200\200beyond
\342\200\256gpj.exe
\342\201\246isolate
\342\200\250line separator
\357\273\277mark
new\nline: glofnd: all fine
carriage\rreturn
tab\ttab
vertical\v\f\b\b\bfeed
<script>alert(1)<script>
<img src=x onerror=alert(1)>
"><svg onload=alert(1)>
' onmouseover='alert(1)
&lt;b&gt;&amp;#x3c;
]]>-->
$(touch owned)`touch owned`;|&
\\input{evil}\\write18{x}$_^~#%%{}
%%s%%n%%x%%99999d
{"a": 1, "b": [
=cmd|' C'!A0
,",";"
-rf --out
.\056..
  spaces  
\360\237\220\210\314\201\314\201\314\201
\341\236\204\330\247\331\204
\001\002\003\036\037\177
END

# COMMANDS that print or write; words are split at blanks, $word is the hostile word.
commands() {
    "$1" info "$glofnd" data info folder:data
    "$1" csv "$glofnd" data info csv:list.csv
    "$1" bpe "$glofnd" data bpe csv:list.csv --out vocab.txt
    "$1" export "$glofnd" data export folder:data --folder --out again
    "$1" shards "$glofnd" data export csv:list.csv --out shards
    "$1" missing "$glofnd" data info "folder:$word"
    "$1" format "$glofnd" data info "$word:x"
    "$1" option "$glofnd" data info "folder:data?$word=1"
    "$1" flag "$glofnd" data info "--$word"
    "$1" verb "$glofnd" "$word"
    "$1" pretrain "$glofnd" pretrain --data folder:data $train --out "run"
    "$1" value "$glofnd" pretrain --data folder:data --arch "$word" --out r2
    "$1" key "$glofnd" pretrain --data folder:data --set "$word=1" --out r2
    "$1" config "$glofnd" pretrain --config bad.cfg --out r2
    "$1" embed "$glofnd" embed run --data folder:data --out e.npy
    "$1" knn "$glofnd" eval knn run --data folder:data
    "$1" discover "$glofnd" discover run --data folder:data --out found --k 2 --html
    "$1" named "$glofnd" discover e.npy --names names.txt --out found2 --k 2 --html
    "$1" query "$glofnd" discover "$word" --out found3
    "$1" decide "$glofnd" discover e.npy --names names.txt --split a=0:4 --split b=4:8 --dup 0.5 --k 2 --html --out found4
    "$1" from "$glofnd" discover --from found4 --dup exact --keep first --html --out found5
    "$1" rule "$glofnd" discover e.npy --keep "$word" --out found3
    "$1" split "$glofnd" discover e.npy --split "$word=0:3" --out found3
    "$1" score "$glofnd" discover e.npy --keep "score:$word" --k 2 --out found3
    "$1" compare "$glofnd" compare run
    "$1" csv-table "$glofnd" compare run --format csv --out table.csv
    "$1" json-table "$glofnd" compare run --format json --out table.json
    "$1" tex-table "$glofnd" compare run --format latex --out table.tex
    "$1" report "$glofnd" report run --out page.html
}
train='--quiet --arch resnet8 --head-hidden 8 --head-out 8 --batch 4 --epochs 1 --warmup-epochs 0 --threads 1 --workers 1'

one() {
    name=$1
    shift
    try "$payload_name, $name" '0|1|2' "$@"
    check "$name prints" python3 "$source/tests/hostile/tools/clean.py" --terminal "$tmp/out" "$tmp/err"
    return 0
}

"$glofnd" data export shapes:n=8,classes=2,size=8,seed=1 --folder --out plain > /dev/null || { skip "no images"; return 0; }
row 'names, captions, values × verbs and files'
possible $(($(wc -l < payloads) * 31))
for number in $(spread "$(wc -l < payloads)"); do
    more || break
    payload=$(sed -n "${number}p" payloads)
    payload_name="payload $number"
    word=$(printf "$payload.") && word=${word%.}
    rm -rf data again shards run r2 found found2 found3 found4 found5 table.* page.html list.csv names.txt bad.cfg e.npy vocab.txt
    mkdir data "data/a$word" "data/b$word" 2> /dev/null || continue
    i=0
    printf 'filepath\ttitle\n' > list.csv
    for image in plain/*/*.png; do
        i=$((i + 1))
        side=$([ $((i % 2)) = 0 ] && echo a || echo b)
        cp "$image" "data/$side$word/$i$word.png"
        printf '"data/%s/%s.png"\t"caption %s"\n' "$side$word" "$i$word" "$word" >> list.csv
        printf 'name %s\n' "$(printf '%s' "$word" | tr '\n' ' ')" >> names.txt
    done
    echo 'no image' > "data/a$word/0$word.png"
    printf '%s = 1\narch = %s\n' "$word" "$word" > bad.cfg
    commands one
    begin_try "$payload_name, files"
    code=0
    check 'files' python3 "$source/tests/hostile/tools/clean.py" --files found found2 found4 found5 table.csv table.json \
        table.tex page.html
    check 'decisions are written' test -e found4/keep.txt -a -e found5/index.html
    check 'no command was run' test ! -e owned
    end_try 0
done
