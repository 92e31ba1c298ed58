# discover_inputs.sh BUILD SOURCE - one result, whatever files the embeddings come in: arrays of any type and order, shards by
# folder and pattern, tables, Parquet.
. "$2/tests/sh/common.inc"
needs_tools python3
export source PYTHONDONTWRITEBYTECODE=1
discover() { "$glofnd" discover "$@" --quiet; }

cat > make.py << 'PY'
import os, random, struct
random.seed(5)
N, D = 41, 6
rows = [[random.randrange(-64, 64) / 16 for _ in range(D)] for _ in range(N)]     # exact in float16
rows[30] = rows[4]
def npy(path, descr, part, fortran=False):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }" % (descr, fortran, len(part), D)
    head += " " * (117 - len(head)) + "\n"
    flat = [part[i][j] for j in range(D) for i in range(len(part))] if fortran else [v for r in part for v in r]
    kind = {"f4": "f", "f2": "e", "f8": "d"}[descr[1:]]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + head.encode())
        f.write(struct.pack(descr[0] + str(len(flat)) + kind, *flat))
npy("x.npy", "<f4", rows)
npy("half.npy", ">f2", rows, True)
npy("double.npy", "<f8", rows, True)
os.mkdir("parts")
npy("parts/emb_8.npy", "<f4", rows[:10])
npy("parts/emb_9.npy", ">f8", rows[10:11])
npy("parts/emb_10.npy", "<f2", rows[11:], True)
with open("x.csv", "w") as f:
    f.write("".join("image %d,%s\n" % (i, ",".join(map(str, r))) for i, r in enumerate(rows)))
with open("index.csv", "w") as f:  # a data frame with its index
    f.write(",name,a,b,c,d,e,f\n")
    f.write("".join("%d,image %d,%s\n" % (i, i, ",".join(map(str, r))) for i, r in enumerate(rows)))
with open("only.csv", "w") as f:
    f.write(",0,1,2,3,4,5\n" + "".join("%d,%s\n" % (i, ",".join(map(str, r))) for i, r in enumerate(rows)))
with open("x.tsv", "w") as f:
    f.write("key\temb\tcaption\n" + "".join("image %d\t%s\tnone\n" % (i, r) for i, r in enumerate(rows)))
with open("names", "w") as f:
    f.write("".join("image %d\n" % i for i in range(N)))
PY
python3 make.py || fail "embeddings"

# same FOLDER AS: all files but those that name the input
same() {
    for file in pairs.tsv mutual.tsv components.tsv duplicates.tsv bad_rows.tsv anchors.npy neighbours.npy \
        similarities.npy; do
        cmp "$1/$file" "$2/$file" || fail "$1/$file differs from that of $2"
    done
}

expect 0 "41 x 6 from x.npy" discover x.npy --k 3 --out plain
for file in half.npy double.npy parts 'parts/*.npy' 'parts/emb_{8..10}.npy' 'parts/emb_{8,9,10}.npy'; do
    rm -rf other
    expect 0 "41 x 6" discover "$file" --k 3 --out other
    same other plain
done
rm -rf other
expect 0 "from parts/emb_8.npy and 2 more" discover parts/emb_8.npy parts/emb_9.npy parts/emb_10.npy --k 3 --out other
same other plain

expect 0 "41 x 6" discover x.npy --names names --k 3 --out named
rm -rf other
expect 0 "41 x 6" discover x.csv --k 3 --out other
same other named
rm -rf other
expect 0 "41 x 6" discover index.csv --k 3 --out other
same other named
rm -rf other
expect 0 "41 x 6" discover only.csv --k 3 --out other
rm -rf other
expect 0 "41 x 6" discover x.tsv --column emb --id key --k 3 --out other
same other named
rm -rf other
expect 0 "41 x 6" discover x.tsv --id key --names names --k 3 --out other
same other named

# An integer id is a name, integer labels are left out: neither is a dimension. What was chosen is printed.
python3 -c '
rows = [l.split(",", 1)[1] for l in open("x.csv").read().splitlines()]
open("ids.csv", "w").write("id,a,b,c,d,e,f,label\n" + "".join("%d,%s,%d\n" % (1000 + i, r, i % 3) for i, r in enumerate(rows)))
open("ids", "w").write("".join("%d\n" % (1000 + i) for i in range(41)))' || fail "ids"
rm -rf named_ids other
expect 0 "41 x 6" discover x.npy --names ids --k 3 --out named_ids
"$glofnd" discover ids.csv --k 3 --out other > out 2> err || fail "a table with an id: $(cat err)"
grep -qxF "embeddings from 6 columns, a to f; names: id; left out: label" err || fail "columns are not named: $(cat err)"
same other named_ids

parquet=$source/tests/fixtures/parquet
expect 0 "23 x 5" discover "$parquet/none-v1-plain-f32.parquet" --column emb --id key --k 3 --out first
grep -q "row 22" first/pairs.tsv || fail "no names of the Parquet file"
for file in snappy-v1-dict-f32 snappy-v2-plain-fixed none-v2-dict-f16 defaults none-v2-delta-f32 lz4-v1-lengths-f64 \
    lz4-v2-dict-f16; do
    rm -rf other
    expect 0 "23 x 5" discover "$parquet/$file.parquet" --column emb --id key --k 3 --out other
    same other first
done
rm -rf other
expect 0 "46 x 5" discover "$parquet/defaults.parquet" "$parquet/none-v1-split-f32.parquet" --id number --k 3 --out other
# A column per dimension is read as a table has it; integers in lists are numbers.
rm -rf other first
seq 100 122 > wide_ids
expect 0 "23 x 5" discover "$parquet/defaults.parquet" --column emb --names wide_ids --k 3 --out first
"$glofnd" discover "$parquet/wide.parquet" --k 3 --out other > out 2> err || fail "a column per dimension: $(cat err)"
grep -qxF "embeddings from 5 columns, e0 to e4; names: id; left out: label" err || fail "columns are not named: $(cat err)"
same other first
rm -rf other
expect 0 "23 x 5" discover "$parquet/wide.parquet" --k 3 --resume --out other
same other first
rm -rf other
expect 0 "23 x 5" discover "$parquet/integers.parquet" --names wide_ids --k 3 --out other
same other first
expect 1 "column 'e0': labels are read from texts or integers, one per row; row 1 has -3.125" \
    discover "$parquet/wide.parquet" --label-column e0 --out z
expect 0 "23 x 2" discover "$parquet/wide-texts.parquet" --k 3 --out texts
grep -q "row 22" texts/pairs.tsv || fail "labels are no names: $(head -n 2 texts/pairs.tsv)"
"$glofnd" discover "$parquet/wide-dates.parquet" --k 3 --out dates > out 2> err || fail "dates: $(cat err)"
grep -qxF "embeddings from 2 columns, e0 to e1; left out: day, when, price" err || fail "dates are no dimensions: $(cat err)"
expect 0 "23 x 5" discover "$parquet/map.parquet" --k 3 --out map
expect 1 "no column is a list of numbers" discover "$parquet/bad-map.parquet" --out z
python3 -c 'print("name,x,y\n%s,1,2\nb,2,1\nc,1,1" % ("n" * 70000))' > long.csv
expect 1 "the name of row 0 has 70000 bytes" discover long.csv --k 1 --out z
expect 1 "no column is a list of numbers, one list per row; it has name, label" discover "$parquet/texts.parquet" --out z
rm -rf other
expect 1 "no column 'x'; it has key, emb.list.element, number, small" discover "$parquet/defaults.parquet" --column x --out z
# A null is a bad row: named, counted, left out. So it is in tables.
expect 0 "1 left out" discover "$parquet/bad-null-row.parquet" --column emb --id key --k 3 --out null_row
grep -q "^12	not finite	" null_row/bad_rows.tsv || fail "the null row is not named: $(cat null_row/bad_rows.tsv)"
expect 0 "1 left out" discover "$parquet/bad-null-number.parquet" --k 3 --out null_number
[ "$(tail -n 1 null_number/bad_rows.tsv)" = "4	not finite" ] || fail "a null in a list: $(cat null_number/bad_rows.tsv)"
sed -e '4s/,[^,]*$/,/' x.csv > hole.csv
sed -e '3s/\[[^,]*,/[None,/' -e '5s/\[.*\]//' -e '7s/\[.*\]/None/' x.tsv > holes.tsv
expect 0 "1 left out" discover hole.csv --k 3 --out hole
[ "$(tail -n 1 hole/bad_rows.tsv)" = "3	not finite	image 3" ] || fail "an empty cell: $(cat hole/bad_rows.tsv)"
expect 0 "3 left out" discover holes.tsv --column emb --id key --k 3 --out holes
[ "$(cut -f 1 holes/bad_rows.tsv | tr '\n' ' ')" = "row 1 3 5 " ] || fail "lists with None: $(cat holes/bad_rows.tsv)"
# Labels from a column: names of classes in bytewise order, nulls unknown; integers; of tables; of other files.
python3 - << 'PY' || fail "labels"
import os, struct, sys
sys.path.insert(0, os.environ["source"] + "/tests/sh")
from npy_file import npy
npy("y.npy", "<i4", (1000,), struct.pack("<1000i", *[-1 if i % 11 == 5 else (1, 0, 2)[i % 3] for i in range(1000)]))
npy("small.npy", "<i8", (23,), struct.pack("<23q", *[i - 3 for i in range(23)]))
rows = [l.split(",", 1) for l in open("x.csv").read().splitlines()]
open("classes.csv", "w").write("name,kind," + ",".join("abcdef") + "\n" +
                               "".join("%s,%s,%s\n" % (r[0], ("", "b", "a")[i % 3], r[1]) for i, r in enumerate(rows)))
npy("z.npy", "<i4", (41,), struct.pack("<41i", *[(-1, 1, 0)[i % 3] for i in range(41)]))
PY
expect 0 "labels " discover "$parquet/many-none.parquet" --labels y.npy --k 5 --out by_array
for words in "many-none.parquet --label-column label" "many-lz4.parquet --label-column label" \
    "many-lz4.parquet --labels $parquet/many-none.parquet --label-column label"; do
    rm -rf other
    expect 0 "labels " discover "$parquet/"$words --k 5 --out other
    same other by_array
    cut -f 1-8 other/label_issues.tsv | cmp - by_array/label_issues.tsv || fail "label issues"
    [ "$(wc -l < other/classes.txt)" = 3 ] && sort -c other/classes.txt || fail "names of classes: $(cat other/classes.txt)"
    awk -F '\t' 'FNR == NR { class[FNR - 1] = $0; next } FNR == 1 { print $9, $10; next }
        class[$2] != $9 || class[$3] != $10 { print "line", FNR }' other/classes.txt other/label_issues.tsv > said
    [ "$(cat said)" = "class suggested_class" ] || fail "classes of label issues: $(cat said)"
done
[ ! -e by_array/classes.txt ] || fail "names of labels that are numbers"
expect 0 "open index.html" discover "$parquet/many-none.parquet" --label-column label --k 5 --html --out page
while read -r class; do
    grep -o '"classes":\[[^]]*\]' page/index.html | grep -qF "\"$class\"" || fail "the page does not name class $class"
done < other/classes.txt
expect 0 "written" discover "$parquet/many-none.parquet" --from other --k 4 --out again
expect 0 "written" discover "$parquet/many-none.parquet" --label-column label --k 4 --out anew
diff -r -x 'summary.*' anew again || fail "--from loses the names of classes"
expect 0 "written" discover --from other --labels y.npy --k 4 --out other_labels
[ ! -e other_labels/classes.txt ] || fail "names of classes of other labels"
# A column that no file has is not ignored.
expect 2 "--column is a column of Parquet files or tables" discover x.npy --column emb --out z
expect 2 "--id is a column of Parquet files or tables" discover x.npy --id key --out z
expect 2 "--id is a column of Parquet files or tables" discover x.npy --names names --id key --out z
expect 2 "column of Parquet files or tables; 'z.npy' is neither" discover x.npy --labels z.npy --label-column kind --out z
expect 2 "--label-column is a column of Parquet files" discover classes.csv --id name --labels z.npy --label-column kind --out z
expect 2 "--id is a column" discover --from other --id key --out z
expect 2 "--column is a column" discover x.npy --query x.npy --stored plain --column emb --out z
rm -rf other by_array
expect 0 "written" discover "$parquet/none-v2-delta-f32.parquet" --labels small.npy --k 3 --out by_array
expect 0 "written" discover "$parquet/none-v2-delta-f32.parquet" --label-column small --k 3 --out other
same other by_array
rm -rf other
expect 0 "written" discover "$parquet/float-labels.parquet" --label-column kind --k 3 --out other
same other by_array
head -n 41 classes.csv > short.csv
rm -rf other by_array
expect 0 "written" discover x.npy --names names --labels z.npy --k 3 --out by_array
expect 0 "written" discover classes.csv --id name --label-column kind --k 3 --out other
same other by_array
# The same table beside an array, as one file and as a folder.
mkdir -p described && cp classes.csv described/
for file in classes.csv described; do
    rm -rf other
    expect 0 "written" discover x.npy --names $file --id name --labels $file --label-column kind --k 3 --out other
    same other by_array
done
expect 1 "no column 'title' in its first line" discover x.npy --names classes.csv --id title --out z
expect 1 "has columns; choose the column of labels: --label-column=NAME" discover x.npy --labels classes.csv --out z
expect 1 "40 names for 41" discover x.npy --names short.csv --id name --out z
head -n 21 classes.csv > a.csv
{ head -n 1 classes.csv; tail -n +22 classes.csv; } > b.csv
rm -rf other
expect 0 "written" discover --split a=a.csv --split b=b.csv --id name --label-column kind --k 3 --out other
same other by_array
expect 1 "is for Parquet files and tables" discover x.npy --label-column kind --out z
expect 1 "choose the column of labels: --label-column=NAME" discover x.npy --labels "$parquet/defaults.parquet" --out z
expect 1 "23 labels for 41 embeddings" discover x.npy --labels "$parquet/defaults.parquet" --label-column small --out z
expect 1 "no column 'nothing'" discover "$parquet/defaults.parquet" --label-column nothing --out z
expect 1 "compressed by Brotli; none, snappy, lz4_raw, gzip and zstd are read" discover "$parquet/bad-brotli.parquet" --out z
expect 2 "goes with --labels FILES" discover --from other --label-column kind --out z

mkdir metadata && cp "$parquet/defaults.parquet" metadata/m_0.parquet &&
    cp "$parquet/none-v2-dict-f16.parquet" metadata/m_1.parquet || fail "metadata"
rm -rf other
cp metadata/*.parquet .
expect 0 "46 x 5" discover m_0.parquet m_1.parquet --names metadata --id key --k 3 --out other
grep -q "row 22" other/pairs.tsv || fail "no names of other Parquet files"
expect 1 "23 names for 41 embeddings" discover x.npy --names metadata/m_0.parquet --id key --out z
expect 1 "choose the column of names: --id=NAME" discover x.npy --names metadata --out z
expect 1 "no file matches" discover 'parts/none-*.npy' --out z
expect 1 "rows of 5 numbers; those of x.npy have 6" discover x.npy "$parquet/defaults.parquet" --out z
[ ! -e z ] || fail "something was left behind"

# A folder of clip-retrieval from its top; folders and files whose data are elsewhere say what to do.
mkdir -p laion/img_emb laion/metadata arrows && cp x.npy laion/img_emb/img_emb_0.npy && cp classes.csv laion/metadata/m.csv || fail "laion"
rm -rf other
expect 0 "written" discover laion --names laion/metadata --id name --k 3 --out other
cp laion/img_emb/img_emb_0.npy laion/x.npy && expect 0 "written" discover laion/x.npy --k 3 --out top
cmp other/anchors.npy top/anchors.npy || fail "another matrix than img_emb"
: > arrows/data-00000-of-00001.arrow
expect 1 'load_from_disk(FOLDER).to_parquet("x.parquet")' discover arrows --out z
[ ! -e z ] || fail "something was left behind"
