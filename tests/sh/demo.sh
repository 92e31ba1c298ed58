# tools/demo.sh on tiny configurations, with files like those of Fashion-MNIST, and without them: a line for every seed with figures in
# every column, a page with pictures, and the near copy and the wrong label that the files have.
. "$2/tests/sh/common.inc"
needs_runs
needs_tools python3
mkdir build tools configs images && cp "$glofnd" build/glofnd && cp "$source/tools/demo.sh" "$source/tools/demo_page.py" tools
tiny() { sed -e "s/^data = .*/data = $2/" -e 's/^batch = .*/batch = 32/' -e 's/^epochs = .*/epochs = 3/' "$source/configs/$1" > "configs/$1"; }
tiny demo.cfg 'fashion_mnist:\/somewhere?first=240'
tiny demo-shapes.cfg 'shapes:n=256,classes=4,size=16,seed=1'

# Four kinds of squares; test image 7 is training image 100, brighter by one, and the label of training image 50 is wrong.
python3 - <<'END'
import random, struct
draw = random.Random(1)
def image(kind):
    x, y, side = 3 + 12 * (kind % 2) + draw.randrange(3), 3 + 12 * (kind // 2) + draw.randrange(3), 7 + draw.randrange(3)
    return [120 + draw.randrange(99) if x <= c < x + side and y <= r < y + side else draw.randrange(24) for r in range(28) for c in range(28)]
train, test = [image(k % 4) for k in range(400)], [image(k % 4) for k in range(60)]
train_labels, test_labels = [k % 4 for k in range(400)], [k % 4 for k in range(60)]
test[7], test_labels[7], train_labels[50] = [min(255, v + 1) for v in train[100]], 0, 1
for name, images, labels in ("train", train, train_labels), ("t10k", test, test_labels):
    open(f"images/{name}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, len(images), 28, 28) + bytes(v for i in images for v in i))
    open(f"images/{name}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, len(labels)) + bytes(labels))
END

# lines: figures of all seeds; a quarter of random pairs are of one kind
lines() {
    for seed in 1 2 3; do
        grep -qE "^ +$seed( +[0-9.]+){5}\$" out || fail "no line of seed $seed"
        [ -s build/demo/seed$seed/model.safetensors ] || fail "no run of seed $seed"
    done
    awk '/^ +[123] / { if ($4 < 15 || $4 > 35 || $2 <= 0 || $5 <= 0 || $6 <= 0) exit 1 }' out || fail "figures"
    [ -s build/demo/report.html ] || fail "no report"
    [ "$(grep -o 'src="data:image/png;base64,[^"]' build/demo/index.html | wc -l)" -ge 20 ] || fail "no pictures"
    grep -q 'src="data:,"' build/demo/index.html && fail "a picture is missing"
    return 0
}
DEMO_IMAGES=$scratch/images call sh tools/demo.sh build
wants 'the demo' 0 'two of a kind' '1 of 60 test images have a near copy' 'demo/index.html in a browser' 'training 3 of 3; about'
lines
grep -q '7 and 100' build/demo/index.html || fail "the near copy is not shown"
grep -q '<s>Trouser</s><br><b>Pullover?' build/demo/index.html || fail "the wrong label is not shown"
DEMO_IMAGES=$scratch/nowhere call sh tools/demo.sh build
wants 'without the images' 0 'two of a kind' 'synthetic images instead' 'demo/index.html in a browser'
lines
[ ! -e build/demo/found ] || fail "an old search was left"
exit 0
