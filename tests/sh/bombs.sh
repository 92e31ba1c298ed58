# Files of a kilobyte that claim images of gigabytes: those above max_pixels are named and left out; those below are decoded one
# after the other, however many workers there are.
. "$2/tests/sh/common.inc"
needs_runs
needs 'png yes'
needs 'jpeg yes'
needs_tools python3

cat > bomb.py << 'END'
import struct, sys
def bomb(path, width, height):
    """A gray progressive JPEG: one scan of runs of 32767 empty blocks, each a code of one bit and 14 bits."""
    blocks = (width + 7) // 8 * ((height + 7) // 8)
    bits = ('0' + '1' * 14) * ((blocks + 32766) // 32767)
    bits += '0' * (-len(bits) % 8)
    data = bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)).replace(b'\xff', b'\xff\x00')
    open(path, 'wb').write(b'\xff\xd8\xff\xdb\x00\x43\x00' + b'\x01' * 64 +
        b'\xff\xc2\x00\x0b\x08' + struct.pack('>HH', height, width) + b'\x01\x01\x11\x00' +
        b'\xff\xc4\x00\x14\x10\x01' + b'\x00' * 15 + b'\xe0' + b'\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x00' + data + b'\xff\xd9')
bomb(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
END

"$glofnd" data export shapes:n=16,classes=2,size=16,seed=1 --folder --out images > /dev/null || fail 'data export'
class=$(cd images && ls -d */ | head -n 1)
python3 bomb.py "images/${class}above.jpg" 16384 16383
small='--arch resnet8 --size 16 --head-hidden 16 --head-out 8 --batch 8 --epochs 2 --threads 1 --checkpoint-minutes 1000'

# Above the limit: named, left out, the run ends well.
call "$glofnd" pretrain --data folder:images $small --workers 8 --out above
wants 'a bomb' 0 'above.jpg' 'max_pixels'
call "$glofnd" pretrain --data folder:images $small --strict --out strict
wants 'a bomb, strict' 1 'above.jpg' 'max_pixels'
grep -q 'large images up to 1800 MB more (max_pixels)' err || fail 'the memory of large images is not announced'
call "$glofnd" pretrain --data folder:images $small --max-pixels 1000000 --out less
wants 'a lower limit' 0 'large images up to 9 MB more (max_pixels)'

# Below it: 8 of them, 64 million pixels and 320 MB each, fit into 1.6 GB as three are decoded at a time.
rm "images/${class}above.jpg"
for i in 1 2 3 4 5 6 7 8; do python3 bomb.py "images/${class}$i.jpg" 8000 8000; done
(
    ulimit -v 1800000 || exit 77
    MALLOC_ARENA_MAX=1 exec "$glofnd" pretrain --data folder:images $small --epochs 1 --batch 24 --workers 8 --out below
) > out 2> err
code=$?
[ $code = 77 ] || wants 'eight at a time' 0
echo passed
