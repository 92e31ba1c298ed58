# tools/check_includes.sh accepts a good tree and finds each kind of violation in a bad one.
. "$2/tests/sh/common.inc"
checker=$source/tools/check_includes.sh
tree=$scratch/tree

good_tree() {
    rm -rf "$tree/src" "$tree/cli"
    for room in util io method/formulas method/store ifc cpu/kernels cuda/step pairs train eval cli; do
        case $room in cli) mkdir -p "$tree/cli" ;; *) mkdir -p "$tree/src/$room" ;; esac
    done
    printf '#include "glofnd.h"\n#include "util/status.h"\n#include <stdio.h>\n' >"$tree/src/util/status.c"
    printf 'typedef struct gf_error {\n} gf_error;\n' >"$tree/src/util/status.h"
    printf '#include "util/status.h"\n' >"$tree/src/io/npy.h"
    printf '#ifdef __CUDACC__\n#endif\n' >"$tree/src/method/formulas/loss_gradient.h"
    printf '#include "io/npy.h"\n#include "method/formulas/loss_gradient.h"\n' >"$tree/src/method/store/store.c"
    printf '#include "cpu/kernels/tile.h"\n#include "ifc/pair_passes.h"\n' >"$tree/src/cpu/kernels/tile_product.c"
    printf '#ifdef GF_HAVE_CUDA\n#endif\n' >"$tree/src/cuda/step/cuda_step.cu"
    printf '#include "method/store/store.h"\n#include "util/status.h"\n' >"$tree/src/train/trainer.c"
    printf '#include "train/trainer.h"\n' >"$tree/src/eval/knn.c"
    printf '#include "cli/args.h"\n#include "train/trainer.h"\n#include "method/options.h"\n' >"$tree/cli/main.c"
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

bad src/util/status.c '#include "method/store/store.h"' 'util must not include method'
bad src/util/status.c '#include "io/npy.h"' 'util must not include io'
bad src/io/npy.h '#include "method/store/store.h"' 'io must not include method'
bad src/method/formulas/loss_gradient.h '#include "method/store/store.h"' 'method/formulas must not include method'
bad src/method/store/store.c '#include "cuda/step/cuda_step.h"' 'method must not include cuda'
bad src/method/store/store.c '  #  include "train/trainer.h"' 'method must not include train'
bad src/cpu/kernels/tile_product.c '#include "method/store/store.h"' 'cpu must not include method'
bad src/train/trainer.c '#include "eval/knn.h"' 'train must not include eval'
bad src/train/trainer.c '#include "cli/main.h"' 'train must not include cli'
bad src/method/store/store.c '#include "store.h"' 'write the folder'
bad cli/main.c '#include "args.h"' 'write the folder'
bad src/method/store/store.c '#include "../cpu/tile.h"' 'without ../'
bad src/method/store/store.c '#include "vendor/x.h"' 'vendor is not a room'
bad src/method/store/store.c '#include <cpu/tile.h>' 'own headers take quotes'
bad src/misc/x.c '#include "util/status.h"' 'its room is not in the list'
bad src/method/npy.h '#include "util/status.h"' 'same file name as'
bad cli/status.c '#include "util/status.h"' 'same file name as'
bad src/io/npy.h '} gf_error;' 'gf_error: a type of this name is in'
bad src/train/trainer.c '#ifdef GF_HAVE_CUDA' 'asks for a device'
bad cli/main.c '#if defined(__CUDACC__)' 'asks for a device'

good_tree
i=0
while [ $i -lt 26 ]; do : >"$tree/src/io/file$i.c"; i=$((i + 1)); done
call sh "$checker" "$tree"
wants "26 files in one folder" 1 "src/io: more than 25 files"

# A list of rooms with a cycle is refused, whatever the sources are.
good_tree
sed 's/^io              : util$/io              : util train/' "$checker" >"$scratch/cyclic.sh"
call sh "$scratch/cyclic.sh" "$tree"
wants "a cycle in the list" 1 "io may include train, which is not above it in the list"

rm -rf "$tree/src"
sh "$checker" "$tree" 2>/dev/null && fail "accepted a tree without sources"

echo "good tree accepted, every violation found"
