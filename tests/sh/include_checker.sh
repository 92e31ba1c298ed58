# tools/check_includes.sh accepts a good tree and finds each kind of violation in a bad one.
. "$2/tests/sh/common.inc"
checker=$source/tools/check_includes.sh
tree=$scratch/tree

good_tree() {
    rm -rf "$tree/src" "$tree/cli"
    mkdir -p "$tree/src/base" "$tree/src/io" "$tree/src/fnd" "$tree/src/cpu/tile" "$tree/src/train" "$tree/cli"
    printf '#include "glofnd.h"\n#include "base/status.h"\n#include <stdio.h>\n' >"$tree/src/base/status.c"
    printf '/* none */\n' >"$tree/src/base/status.h"
    printf '#include "base/status.h"\n' >"$tree/src/io/npy.h"
    printf '#include "io/npy.h"\n#include "fnd/store.h"\n' >"$tree/src/fnd/store.c"
    printf '#include "cpu/tile/tile.h"\n#include "io/npy.h"\n' >"$tree/src/cpu/tile/product.c"
    printf '#include "fnd/store.h"\n#include "cpu/tile/tile.h"\n#include "base/status.h"\n' >"$tree/src/train/loop.c"
    printf '#include "args.h"\n#include "train/loop.h"\n#include "fnd/store.h"\n' >"$tree/cli/main.c"
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

bad src/base/status.c '#include "fnd/store.h"' 'base must not include fnd'
bad src/base/status.c '#include "io/npy.h"' 'base must not include io'
bad src/io/npy.h '#include "fnd/store.h"' 'io must not include fnd'
bad src/fnd/store.c '#include "cpu/tile/tile.h"' 'fnd must not include cpu'
bad src/fnd/store.c '  #  include "train/loop.h"' 'fnd must not include train'
bad src/cpu/tile/product.c '#include "fnd/store.h"' 'cpu must not include fnd'
bad src/train/loop.c '#include "cli/main.h"' 'train must not include cli'
bad src/fnd/store.c '#include "store.h"' 'write the folder'
bad src/fnd/store.c '#include "../cpu/tile.h"' 'without ../'
bad src/fnd/store.c '#include "vendor/x.h"' 'vendor is not a folder'
bad src/fnd/store.c '#include <cpu/tile.h>' 'own headers take quotes'
bad src/misc/x.c '#include "base/status.h"' 'its folder is not in the order'
bad src/fnd/npy.h '#include "base/status.h"' 'same file name as'
bad cli/status.c '#include "base/status.h"' 'same file name as'

rm -rf "$tree/src"
sh "$checker" "$tree" 2>/dev/null && fail "accepted a tree without sources"

echo "good tree accepted, every violation found"
