# Names of files and folders, captions, labels and values that a terminal would obey reach no output raw: every verb prints UTF-8
# without control characters and marks of direction; tables are UTF-8 without control characters.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
needs_tools iconv

esc=$(printf '\033') c1=$(printf '\302\233') bad=$(printf '\377\233') rtl=$(printf '\342\200\256') line='
glofnd: all fine'
evil="$esc[2J$esc]0;title$c1"31m"$bad$rtl"gpj"$line"

# clean FILE WHAT
clean() {
    [ -s "$1" ] || return 0
    iconv -f UTF-8 -t UTF-8 "$1" > /dev/null 2>&1 || fail "$2: $1 is not UTF-8: $(od -c "$1" | head -n 20)"
    LC_ALL=C tr -d '\n\t' < "$1" | LC_ALL=C grep -q '[[:cntrl:]]' && fail "$2: control characters in $1: $(cat -v "$1")"
    LC_ALL=C grep -q "$(printf '\302[\200-\237]')" "$1" && fail "$2: C1 control characters in $1: $(cat -v "$1")"
    case $1 in out | err) LC_ALL=C grep -q "$rtl" "$1" && fail "$2: a mark of direction in $1: $(cat -v "$1")" ;; esac
    grep -q '^glofnd: all fine' "$1" && fail "$2: a forged line in $1"
    return 0
}
# says WHAT COMMAND...: whatever its exit code
says() {
    what=$1
    shift
    call "$@"
    [ $code -lt 120 ] || fail "$what: exit code $code"
    clean out "$what"
    clean err "$what"
}

"$glofnd" data export shapes:n=24,classes=2,size=16,seed=1 --folder --out plain > /dev/null || fail 'data export'
mkdir "data" "data/a$evil" "data/b$evil"
i=0
for image in plain/*/*.png; do
    i=$((i + 1))
    cp "$image" "data/$([ $((i % 2)) = 0 ] && echo a || echo b)$evil/$i$evil.png"
done
echo 'no image' > "data/a$evil/0$evil.png"
echo 'no image' > "data/a$evil/x$evil.gif"
printf 'filepath\ttitle\n' > list.csv
for image in data/a*/*.png; do printf '"%s"\t"%s"\n' "$image" "a caption $evil" >> list.csv; done

says 'data info' "$glofnd" data info folder:data
says 'data info of a file' "$glofnd" data info "folder:data/a$evil/0$evil.png"
says 'data info csv' "$glofnd" data info csv:list.csv
says 'data info of a format' "$glofnd" data info "$evil:x"
says 'data bpe' "$glofnd" data bpe csv:list.csv --out "vocab$evil.txt"
says 'data export' "$glofnd" data export folder:data --folder --out exported
says 'data export, strict' "$glofnd" data export folder:data --strict --out "exported$evil"
says 'a flag' "$glofnd" data info "--$evil"
says 'a verb' "$glofnd" "$evil"
says 'a word' "$glofnd" info "$evil"

small='--arch resnet8 --head-hidden 16 --head-out 8 --batch 8 --epochs 1 --threads 1 --workers 1'
says 'pretrain' "$glofnd" pretrain --data folder:data $small --out "run$evil"
[ $code = 0 ] || fail "pretrain on hostile names: $code"
says 'pretrain, strict' "$glofnd" pretrain --data folder:data $small --strict --out strict
says 'pretrain, a value' "$glofnd" pretrain --data folder:data --arch "$evil" --out r2
says 'pretrain, a key' "$glofnd" pretrain --data folder:data --set "$evil=1" --out r2
printf '%s = 1\n' "$esc[2J$bad" > evil.cfg
says 'pretrain, a configuration' "$glofnd" pretrain --config evil.cfg --out r2
printf 'arch = %s\n' "$esc[2J$rtl$bad" > "evil$evil.cfg"
says 'pretrain, a value in a configuration' "$glofnd" pretrain --config "evil$evil.cfg" --out r2
says 'embed' "$glofnd" embed "run$evil" --data folder:data --out "e$evil.npy"
says 'eval knn' "$glofnd" eval knn "run$evil" --data folder:data
says 'compare' "$glofnd" compare "run$evil" "run$evil/"
for form in csv json latex; do
    says "compare $form" "$glofnd" compare "run$evil" --format $form --out table.$form
    [ -e table.$form ] && clean table.$form "compare $form"
done
says 'report' "$glofnd" report "run$evil" --out page.html
says 'report, missing' "$glofnd" report "nothing$evil" --out page.html
says 'discover' "$glofnd" discover "run$evil" --data folder:data --out "found" --k 2
[ $code = 0 ] || fail "discover on hostile names: $code"
for table in found/*.tsv found/*.txt found/*.json found/*.jsonl; do clean "$table" discover; done
says 'discover, a file' "$glofnd" discover "e$evil.npy" --out "found$evil" --k 2
for i in $(seq 1 25); do printf '<script>%s\n' "$esc[2J$bad$rtl" >> names.txt; done
head -n 24 names.txt > names
two='--split a=0:9 --split b=9:20'
says 'discover, decisions' "$glofnd" discover "e$evil.npy" --names names --out decided --k 2 --dup 0.5 $two --negatives 1 --html
[ $code = 0 ] || fail "decisions on hostile names: $code"
says 'discover, again' "$glofnd" discover --from decided --dup exact --html --out again
[ $code = 0 ] || fail "discover --from on hostile names: $code"
for table in decided/*.tsv decided/*.txt decided/*.json* again/*.tsv again/*.txt again/*.json*; do clean "$table" decisions; done
for page in decided/index.html again/index.html; do
    LC_ALL=C grep -q "$(printf '\302[\200-\237]')\|$esc" $page && fail "control characters in $page"
done
grep -q '<script>.\[2J' decided/index.html && fail 'a name is markup'
says 'discover, a rule' "$glofnd" discover "e$evil.npy" --keep "$evil" --out z
says 'discover, a split' "$glofnd" discover "e$evil.npy" --split "$evil=0:3" --out z
says 'discover, a score' "$glofnd" discover "e$evil.npy" --keep "score:$evil" --k 2 --out z
says 'discover, a stored result' "$glofnd" discover --from "$evil" --out z
echo passed
