# Inputs that are refused are refused in words that say what is wrong: files that are no text, empty files, ranges, memory.
. "$2/tests/sh/common.inc"
needs
needs_tools python3

# npy ROWS COLUMNS FILE: rows that differ
npy() {
    python3 - "$@" << 'END'
import struct, sys
rows, columns, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, columns)
head += ' ' * (63 - (len(head) + 10) % 64) + '\n'
x = [float((i * 7919) % 101) - 50 for i in range(rows * columns)]
open(path, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack('<%df' % len(x), *x))
END
}

# ----- texts that are none -----
printf 'arch = resnet8\nbatch = 1\0006\n' > zero.cfg
expect 2 'zero.cfg:2: a zero byte' "$glofnd" pretrain --data shapes:n=64 --config zero.cfg --out r
printf 'batch = 16\n' | iconv -t UTF-16 > wide.cfg 2> /dev/null && [ -s wide.cfg ] &&
    expect 2 'is UTF-16; save it as UTF-8' "$glofnd" pretrain --data shapes:n=64 --config wide.cfg --out r
printf 'filepath\ttitle\na.png\ta cat\000 on a mat\n' > zero.csv
expect 1 'line 2: a zero byte' "$glofnd" data info csv:zero.csv
printf 'a.png\t1\nb.png\0002\n' > zero.txt
expect 1 'line 2: a zero byte' "$glofnd" data info list:zero.txt

# ----- nothing to take -----
printf '\010\0\0\0\0\0\0\0{}      ' > none.safetensors
expect 1 'the file holds no tensor' "$glofnd" discover none.safetensors --out d

# ----- ranges -----
npy 2 4 two.npy
expect 1 'learned thresholds need at least 2' "$glofnd" discover two.npy --learned --out d
expect 2 'expected a number in (0, 1000]' "$glofnd" pretrain --data shapes:n=64 --lr 0 --out r
expect 2 'batch: 256 is more than the 100 samples of shapes:n=100; choose a smaller one by --batch' \
    "$glofnd" pretrain --data shapes:n=100 --out few
call "$glofnd" pretrain --help-all
grep -A1 -e '--lr  ' out | grep -q '(0, 1000]' || fail 'help: the range of lr'
grep -e '--batch ' out | grep -q '524288' || fail 'help: the range of batch'
npy 5 4 five.npy
python3 - << 'END'
import struct
head = "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }"
head += ' ' * (63 - (len(head) + 10) % 64) + '\n'
labels = struct.pack('<5q', 1, 2, 3, 4, 5)
open('five.labels.npy', 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + labels)
END
expect 0 'labels' "$glofnd" discover five.npy --labels five.labels.npy --k 1 --out d
grep -qw nan out && fail 'nan is printed'

# ----- memory -----
if "$glofnd" info | grep -q 'oneDNN yes'; then
    expect 1 'a network takes at most 2^33 pixels' "$glofnd" pretrain --data shapes:n=600000 --size 1024 --batch 262144 --out huge
    huge='--data shapes:n=600000 --arch resnet50 --size 1024 --batch 4096'
    expect 1 'more than the' "$glofnd" pretrain $huge --out huge
    wants 'a net that does not fit' 1 '--force starts anyway' 'MB are needed'
    [ -e huge ] && fail "a net that does not fit: it left $(ls huge)"
    expect 2 '--force takes no value' "$glofnd" pretrain $huge --force=1 --out huge
fi

# Whatever the limit of address space: a message, not a signal.
if "$glofnd" info | grep -q 'oneDNN yes'; then
    # With too little for the libraries themselves the system's loader fails, before the program begins.
    begins() { (ulimit -v $(($1 * 1024)) && MALLOC_ARENA_MAX=1 exec "$glofnd" --version) > /dev/null 2>&1; }
    for megabytes in 55 60 65 70 75 80 85 90 95 100 105 110; do
        begins $((megabytes - 1)) || continue
        (
            ulimit -v $((megabytes * 1024)) || exit 0
            MALLOC_ARENA_MAX=1 exec "$glofnd" pretrain --data shapes:n=32,size=16 --arch resnet8 --head-hidden 8 --head-out 8 \
                --batch 8 --epochs 1 --threads 1 --workers 1 --out "limit-$megabytes"
        ) > out 2> err
        code=$?
        [ $code -lt 126 ] || [ $code = 127 ] || fail "ulimit -v of $megabytes MB: exit code $code"
    done
fi
echo passed
