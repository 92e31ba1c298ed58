# tools/check_includes.sh accepts a good tree and finds each kind of violation in a bad one.
. "$2/tests/sh/common.inc"
checker=$source/tools/check_includes.sh
tree=$scratch/tree

good_tree() {
    rm -rf "$tree/lib" "$tree/train" "$tree/programs"
    for module in lib/util lib/io lib/method/formulas lib/device lib/cpu/kernels lib/cuda lib/pairs train/loop train/eval programs; do
        mkdir -p "$tree/$module"
    done
    printf '#include "glofnd.h"\n#include "util/status.h"\n#include <stdio.h>\n' >"$tree/lib/util/status.c"
    printf 'typedef struct gf_error {\n} gf_error;\n' >"$tree/lib/util/status.h"
    printf '#include "util/status.h"\n' >"$tree/lib/io/npy.h"
    printf '#ifdef __CUDACC__\n#endif\n' >"$tree/lib/method/formulas/loss.h"
    printf '#include "io/npy.h"\n#include "method/formulas/loss.h"\n' >"$tree/lib/method/store.c"
    printf '#include "cpu/kernels/tile.h"\n#include "device/pair_passes.h"\n' >"$tree/lib/cpu/kernels/tile_product.c"
    printf '#ifdef GF_HAVE_CUDA\n#endif\n' >"$tree/lib/cuda/cuda_step.cu"
    printf '#include "method/store.h"\n#include "util/status.h"\n' >"$tree/train/loop/trainer.c"
    printf '#include "loop/trainer.h"\n' >"$tree/train/eval/knn.c"
    printf '#include "programs/args.h"\n#include "loop/trainer.h"\n#include "method/options.h"\n' >"$tree/programs/main.c"
}

# bad FILE LINE TEXT: with LINE added to FILE the checker must fail, and say TEXT
bad() {
    good_tree
    mkdir -p "$(dirname "$tree/$1")"
    printf '%s\n' "$2" >>"$tree/$1"
    call sh "$checker" "$tree"
    wants "$2 in $1" 1 "$3"
}

good_tree
sh "$checker" "$tree" || fail "the good tree was refused"

bad lib/util/status.c '#include "method/store.h"' 'util must not include method'
bad lib/util/status.c '#include "io/npy.h"' 'util must not include io'
bad lib/io/npy.h '#include "method/store.h"' 'io must not include method'
bad lib/method/formulas/loss.h '#include "method/store.h"' 'method/formulas must not include method'
bad lib/method/store.c '#include "cuda/cuda_step.h"' 'method must not include cuda'
bad lib/method/store.c '  #  include "loop/trainer.h"' 'method must not include loop'
bad lib/cpu/kernels/tile_product.c '#include "method/store.h"' 'cpu must not include method'
bad train/loop/trainer.c '#include "eval/knn.h"' 'loop must not include eval'
bad train/loop/trainer.c '#include "programs/main.h"' 'loop must not include programs'
bad lib/method/store.c '#include "store.h"' 'write the folder'
bad programs/main.c '#include "args.h"' 'write the folder'
bad lib/method/store.c '#include "../cpu/tile.h"' 'without ../'
bad lib/method/store.c '#include "vendor/x.h"' 'vendor is not a module'
bad lib/method/store.c '#include <cpu/tile.h>' 'own headers take quotes'
bad lib/misc/x.c '#include "util/status.h"' 'its module is not in the list'
bad lib/method/npy.h '#include "util/status.h"' 'same file name as'
bad programs/status.c '#include "util/status.h"' 'same file name as'
bad lib/io/npy.h '} gf_error;' 'gf_error: a type of this name is in'
bad train/loop/trainer.c '#ifdef GF_HAVE_CUDA' 'asks for a device'
bad programs/main.c '#if defined(__CUDACC__)' 'asks for a device'

# A list of modules with a cycle is refused, whatever the sources are.
good_tree
sed 's/^io              : util$/io              : util loop/' "$checker" >"$scratch/cyclic.sh"
call sh "$scratch/cyclic.sh" "$tree"
wants "a cycle in the list" 1 "io may include loop, which is not above it in the list"

rm -rf "$tree/lib"
sh "$checker" "$tree" 2>/dev/null && fail "accepted a tree without sources"

echo "good tree accepted, every violation found"
