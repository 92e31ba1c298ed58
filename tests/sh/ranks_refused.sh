# Whatever makes training together impossible is said before it begins, once, with the number of the rank, and leaves nothing
# behind. And which ranks there are: launchers and --ranks.
. "$2/tests/sh/ranks.inc"

# ----- what cannot be -----

# refused WHAT PATTERN COUNT FLAGS...: in the background, in a folder of its own; `wait_all` waits for all
waiting=''
refused() {
    (
        what=$1 pattern=$2 count=$3
        shift 3
        folder=$(mktemp -d "$scratch/refused-XXXXXX") && cd "$folder" && cp "$scratch/rank.sh" . && mkdir other || exit 1
        timeout 100 mpirun -np "$count" sh rank.sh --out run "$@" >err 2>&1 && fail "$what: exit 0"
        [ "$(grep -c '^glofnd pretrain: ' err)" = 1 ] || fail "$what: not reported once"
        grep '^glofnd pretrain: ' err | grep -q "$pattern" || fail "$what: something else is said"
        [ -e run ] && fail "$what: it left $(ls -d run run/*)"
        exit 0
    ) &
    waiting="$waiting $!"
    [ "$(echo $waiting | wc -w)" -lt 4 ] || wait_all
}
wait_all() {
    for process in $waiting; do wait "$process" || exit 1; done
    waiting=''
}
refused 'a batch that cannot be divided' '^glofnd pretrain: rank 0: batch: 16 samples cannot be divided among 3' 3 $images
refused 'anchors in a file' 'rank 0: store: ' 2 $images --store file
refused 'no samples left' 'fewer than 2' 4 $images --batch 4
refused 'a wrong value' 'rank 0: .*epochs' 2 $images --epochs none
refused 'a file in the way' 'rank 0: .*rank.sh/run' 2 $images --out rank.sh/run
"$glofnd" info | grep -q 'CUDA device' || refused 'no GPU' 'rank [01]: ' 2 $images --device cuda
ODD='--data cifar100:nowhere' refused 'no data on a rank' 'rank 1: .*nowhere' 2 $images
ODD='--data shapes:n=64,classes=4,size=16,seed=1' refused 'other data' "rank 1 has a different value of 'data'" 2 $images
ODD='--lr 0.1' refused 'another configuration' "rank 1 has a different value of 'lr'" 2 $images
ODD='--epochs none' refused 'a wrong value on a rank' 'rank 1: .*epochs' 2 $images
ODD='--out elsewhere' refused 'another folder on a rank' 'rank 1: elsewhere is missing' 2 $images
ODD='--out other' refused 'another folder on a rank' 'rank 1: other is a different folder' 2 $images
wait_all

# Data under the same name that are not the same: a folder in which rank 1 finds another image.
if "$glofnd" info | grep -q 'png yes'; then
    "$glofnd" data export shapes:n=20,classes=2,size=16 --out all --folder >/dev/null || fail 'data export'
    cp -r all fewer
    rm "$(find fewer -name '*.png' | sort | head -n 1)"
    cat >moved.sh <<'END'
mkdir "rank.$OMPI_COMM_WORLD_RANK" && ln -s "$PWD/$([ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo fewer || echo all)" \
    "rank.$OMPI_COMM_WORLD_RANK/images" || exit 1
out=$PWD/run
cd "rank.$OMPI_COMM_WORLD_RANK" && exec "$glofnd" pretrain "$@" --out "$out"
END
    call mpirun -np 2 sh moved.sh $images --data folder:images --batch 8
    [ $code != 0 ] || fail 'other images on a rank: exit 0'
    wants 'other images on a rank' $code 'rank 1 has a different dataset from rank 0'
    [ -e run ] && fail "other images on a rank: it left $(ls -d run run/*)"
fi

# Another build of the program: another commit, put into its bytes.
commit=$("$glofnd" --version | sed -n 's/.*commit \([0-9a-f]\{7,\}\).*/\1/p')
other=$(echo "$commit" | tr 0-9a-f 1-9a-f0)
[ -n "$commit" ] && LC_ALL=C sed "s/$commit/$other/g" "$glofnd" >other-build && chmod +x other-build
if [ -n "$commit" ] && ./other-build --version 2>/dev/null | grep -q "commit $other"; then
    cat >builds.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && glofnd=./other-build
exec "$glofnd" pretrain "$@"
END
    call mpirun -np 2 sh builds.sh $images --out builds
    [ $code != 0 ] || fail 'another build: exit 0'
    wants 'another build' $code 'rank 1 has a different build of glofnd' "commit $other" "commit $commit"
    [ -e builds ] && fail "another build: it left $(ls -d builds builds/*)"
else
    echo 'not tried: another build of the program'
fi

if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 555 locked
    call ranks 2 $images --out locked
    [ $code != 0 ] || fail 'a read-only folder: exit 0'
    [ "$(grep -c 'rank 0: locked cannot be written to' err)" = 1 ] || fail 'a read-only folder: not reported once'
fi

# ----- one rank that fails while all train: the others need not say it, too -----

cat >full.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && { trap '' XFSZ; ulimit -f 1; }       # as a full disk, for rank 1
exec "$glofnd" pretrain "$@"
END
OMPI_MCA_btl=self,tcp call mpirun -np 2 sh full.sh $images --epochs 4 --out full
[ $code != 0 ] || fail 'a full disk: exit 0'
[ "$(grep -c '^glofnd pretrain: rank 1: .*anchors.* cannot be written' err)" = 1 ] || fail 'a full disk: not reported once'
[ "$(grep -c '^glofnd pretrain: ' err)" = 1 ] || fail 'a full disk: more is said'
call ranks 2 --out full --resume
wants 'after a full disk' 0 'finished'

# ----- launchers and --ranks -----

call "$glofnd" pretrain $images --epochs 2 --out alone
wants 'one process' 0
call "$glofnd" pretrain $images --epochs 2 --ranks mpi --out mpi-alone
wants '--ranks mpi' 0
cat >own.sh <<'END'
exec "$glofnd" pretrain "$@" --out "single-$OMPI_COMM_WORLD_RANK"
END
call mpirun -np 2 sh own.sh $images --epochs 2 --ranks single
wants '--ranks single' 0
for run in single-0 single-1; do cmp alone/model.safetensors $run/model.safetensors || fail "$run: weights differ"; done
[ "$(losses alone | cut -c 1-12)" = "$(losses mpi-alone | cut -c 1-12)" ] || fail '--ranks mpi alone: losses differ'

call ranks 2 $images --epochs 2 --out two
wants 'two ranks' 0
call ranks 2 --out two --resume
wants 'finished already' 0 'finished already'
[ "$(grep -c '^finished already' err)" = 1 ] || fail 'finished already: not reported once'
cp -r two swapped
(cd swapped/checkpoints/step-16 && mv anchors.glofnd.00000-of-00002 aside && mv anchors.glofnd.00001-of-00002 \
    anchors.glofnd.00000-of-00002 && mv aside anchors.glofnd.00001-of-00002 &&
    [ "$(wc -c <anchors.glofnd.00000-of-00002)" = "$(wc -c <anchors.glofnd.00001-of-00002)" ]) || fail 'parts of other lengths'
call ranks 2 --out swapped --resume --epochs 3
[ $code != 0 ] || fail 'parts of each other: exit 0'
[ "$(grep -c 'rank 0: .*00000-of-00002 is corrupt, or of a different checkpoint' err)" = 1 ] ||
    fail 'parts of each other: not said'
echo more >>two/checkpoints/step-16/anchors.glofnd.00001-of-00002
call ranks 2 --out two --resume
[ $code != 0 ] || fail 'a corrupt part: exit 0'
[ "$(grep -c 'rank 0: .*00001-of-00002 is corrupt' err)" = 1 ] || fail 'a corrupt part: not reported once'
