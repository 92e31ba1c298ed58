# discover_units.sh BUILD SOURCE - discovery in units: the same bytes as in memory, with little memory, and after kill -9.
. "$2/tests/sh/common.inc"
needs_tools python3
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1     # npy_file.py
discover() { "$glofnd" discover "$@" --quiet; }

python3 - << 'PY' || fail "embeddings"
import array, random
from npy_file import npy
random.seed(2)
N, D = 9000, 48
x = array.array("f")
for i in range(N):
    x.extend(random.gauss(0, 1) for _ in range(D)) if i % 100 != 7 else x.extend(x[-D:])
npy("x.npy", "<f4", (N, D), x.tobytes())
PY
same() { diff -r "$1" plain || fail "$1 differs from the result in memory"; }

options='--k 5 --dup 0.9 --negatives 3'
expect 0 "written" discover x.npy $options --out plain
expect 0 "written" discover x.npy $options --resume --out units/
same units
expect 0 "written" "$glofnd" discover x.npy $options --memory 0.001 --out small
grep -q "read in 4 chunks for each" err || fail "not streamed: $(cat err)"
same small
[ ! -e units.partial ] && [ ! -e small.partial ] || fail "parts were left"

# Killed at any time, it continues.
for part in pairs-000002 mutual-000001; do
    rm -rf killed
    "$glofnd" discover x.npy $options --resume --threads 1 --quiet --out killed > out 2> err &
    pid=$!
    while [ ! -e "killed.partial/$part" ] && [ ! -e killed ]; do sleep 0.02; done
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    if [ ! -e killed ]; then
        [ -e killed.partial/plan ] || fail "no parts of the killed one"
        expect 1 "parts of another search" discover x.npy --k 6 --resume --out killed
        expect 0 "written" "$glofnd" discover x.npy $options --resume --out killed
        grep -q "are already in killed.partial" err || fail "it began anew: $(cat err)"
    fi
    same killed
    [ ! -e killed.partial ] || fail "parts were left"
done

mkdir units.partial && : > units.partial/pairs-000000
expect 1 "units" discover x.npy $options --resume --out units
[ ! -e units.partial ] || fail "parts of a complete result were left"
expect 2 "--resume does not go with --learned" discover x.npy --learned --resume --out z
[ ! -e z ] && [ ! -e z.partial ] || fail "something was left behind"

# Decisions that need the rows, and splits of several files: read again in pieces, equal to those in memory, names and all.
python3 - << 'PY' || fail "parts"
from npy_file import npy
data = open("x.npy", "rb").read()[-9000 * 48 * 4:]
for name, a, b in (("a_1", 0, 2500), ("a_2", 2500, 5200), ("b", 5200, 9000)):
    npy(name + ".npy", "<f4", (b - a, 48), data[a * 192:b * 192])
open("names", "w").write("".join("row %d\n" % i for i in range(9000)))
PY
options='--k 5 --dup 0.55 --keep central --sample 7 --names names --split first=a_*.npy --split b=b.npy'
expect 0 "rows of first have a duplicate in b" discover $options --out whole
grep -q "by keep=central" whole/summary.txt && [ "$(wc -l < whole/sample.txt)" = 7 ] || fail "decisions"
awk '$2 > 2' whole/duplicate_groups.tsv | grep -q '^[0-9]' || fail "no group of three"
expect 0 "written" discover $options --resume --out resumed
diff -r whole resumed || fail "--resume: decisions differ from those in memory"
expect 0 "written" discover $options --memory 0.001 --out streamed
diff -r whole streamed || fail "--memory: decisions differ from those in memory"
options='--k 5 --dup 0.9 --negatives 3'

# Only duplicates, by cells: the tables of the whole search.
expect 0 "were compared, no other can be a duplicate" discover x.npy --dup 0.9 --duplicates --out cells
for file in duplicates.tsv duplicate_groups.tsv keep.txt remove.txt bad_rows.tsv; do
    cmp "cells/$file" "plain/$file" || fail "cells/$file differs from that of all pairs"
done
[ "$(wc -l < cells/pairs.tsv)" = 1 ] || fail "pairs without thresholds"
grep -q 'outliers\|mutual' cells/summary.txt && fail "findings without thresholds: $(cat cells/summary.txt)"
expect 0 "written" discover x.npy --dup exact --k 5 --out bytes
expect 0 "90 pairs of equal rows" discover x.npy --dup exact --duplicates --out equal
for file in duplicates.tsv duplicate_groups.tsv keep.txt; do cmp "bytes/$file" "equal/$file" || fail "equal/$file"; done
expect 1 "has only duplicates" discover --from cells --k 3 --out z
expect 2 "has no thresholds" discover x.npy --duplicates --k 3 --out z
expect 2 "has no thresholds" discover x.npy --duplicates --html --out z
expect 0 "written" discover x.npy --dup 0.9 --duplicates --resume --out cells_resumed
diff -r cells cells_resumed || fail "--duplicates --resume differs from the result in memory"
expect 0 "written" "$glofnd" discover x.npy --dup 0.9 --duplicates --memory 0.001 --out cells_small
grep -q "rows in the order of cells take" err || fail "not streamed: $(cat err)"
diff -r cells cells_small || fail "--duplicates: streamed, it differs from the result in memory"
expect 0 "written" discover x.npy --dup exact --duplicates --resume --out equal_resumed
diff -r equal equal_resumed || fail "--dup exact --duplicates --resume differs from the result in memory"
expect 0 "recall 100.00 % of the pairs above, on 1024 anchors" discover x.npy $options --approx 9999 --out probed
for file in plain/*; do
    case $file in */summary.*) continue ;; esac
    cmp "$file" "probed/${file##*/}" || fail "with all cells probed ${file##*/} differs"
done
rm -rf probed
expect 0 "an anchor was compared with the rows of its 20 nearest of" discover x.npy $options --approx 20 --out probed
cmp plain/duplicates.tsv probed/duplicates.tsv || fail "duplicates are not exact"
expect 0 "written" "$glofnd" discover x.npy $options --approx 20 --memory 0.001 --out probed_small
grep -q "rows in the order of cells take" err || fail "not streamed: $(cat err)"
diff -r probed probed_small || fail "--approx: streamed, it differs from the result in memory"
expect 0 "written" "$glofnd" discover x.npy $options --approx 20 --memory 0.002 --out probed_lists
grep -q "units" err || fail "rows fit into memory, but lists beside them do not: $(cat err)"
diff -r probed probed_lists || fail "--approx: in units, it differs from the result in memory"
expect 0 "written" discover x.npy $options --approx 20 --threads 3 --out probed_threads
diff -r probed probed_threads || fail "--approx: three threads differ from all"
# Killed in each of its stages, it continues. --memory 0.001: with rows in the order of cells on disk; --top 3: fewer are listed
# than lie above a threshold, so mutual pairs are a stage of their own.
expect 0 "written" discover x.npy $options --approx 20 --top 3 --out probed_top
for part in cells-000003 rows-000001 pairs-000002 recall-000001 mutual-000001; do
    more='--memory 0.001' want=probed
    [ $part != mutual-000001 ] || more='--top 3' want=probed_top
    "$glofnd" discover x.npy $options --approx 20 $more --resume --threads 1 --quiet --out probed_killed > out 2> err &
    pid=$!
    while [ ! -e "probed_killed.partial/$part" ] && [ ! -e probed_killed ]; do sleep 0.02; done
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    if [ ! -e probed_killed ]; then
        expect 1 "parts of another search" discover x.npy $options --approx 21 $more --resume --out probed_killed
        expect 0 "written" discover x.npy $options --approx 20 $more --resume --out probed_killed
        [ ! -e probed_killed.partial ] || fail "parts were left"
    fi
    diff -r $want probed_killed || fail "--approx: killed after $part and continued, it differs"
    rm -rf probed_killed probed_killed.partial
done
[ ! -e probed_small.partial ] && [ ! -e cells_small.partial ] && [ ! -e equal_resumed.partial ] || fail "parts were left"
expect 1 "is approximate" discover --from probed --dup 0.95 --out z
expect 2 "--approx does not go with" discover x.npy --approx 3 --learned --out z
[ ! -e z ] && [ ! -e z.partial ] || fail "something was left behind"

# A streamed search answers the first signal also in its first pass over the rows, and says truly that nothing is kept. Rows that can never
# fit are refused before anything is read.
python3 - <<'PY'
import struct
for name, rows in (("sparse.npy", 30000000), ("vast.npy", 2000000000)):
    head = b"{'descr':'<f4','fortran_order':False,'shape':(%d,256)}" % rows
    head += b" " * (117 - len(head)) + b"\n"
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head)
        f.truncate(128 + rows * 1024)
PY
if [ -s sparse.npy ]; then
    timeout -s INT -k 60 3 "$glofnd" discover sparse.npy --k 1 --memory 1 --out z > out 2> err
    grep -q "stopped; nothing is written" err || fail "a signal in the first pass: $(cat err)"
    [ ! -e z ] && [ ! -e z.partial ] || fail "something was left behind"
    expect 1 "of memory, this machine has" discover vast.npy --k 1 --out z
    rm -f sparse.npy vast.npy
fi
