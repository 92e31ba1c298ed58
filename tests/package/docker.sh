# The Dockerfile without docker: its steps in clean Debian roots, one per stage; this knows the few instructions that it uses.
# Where buildah is installed, it builds the image, too: on a clean root with the name of the base image, so that no registry is
# asked.
. "$2/tests/package/common.inc"
needs_tools tar git
git -C "$source" rev-parse --git-dir > /dev/null 2>&1 || skip "no git checkout"
stages=0 folder=/
# copy_in FROM PATTERN TO: within or into the root of this stage
copy_in() {
    case $3 in /*) to=$root$3 ;; *) to=$root$folder/$3 ;; esac
    if [ "$2" = . ]; then
        mkdir -p "$to"
        (cd "$1" && git ls-files -z -co --exclude-standard | tar --null -T - -cf -) | tar -C "$to" -xf - || fail "COPY ."
        return
    fi
    mkdir -p "$(case $to in */) echo "$to" ;; *) dirname "$to" ;; esac)"
    # shellcheck disable=SC2086  # a pattern
    cp $1/$2 "$to" || fail "COPY $2"
}
step() {
    word=$1
    shift
    case $word in
    FROM)
        case $1 in debian:*) ;; *) fail "FROM $1: this test knows Debian" ;; esac
        stages=$((stages + 1)) root=$scratch/stage$stages folder=/
        [ "${2:-}" = AS ] && ln -s "stage$stages" "named_$3"
        new_root "$root"
        ;;
    WORKDIR) folder=$1; mkdir -p "$root$1" ;;
    COPY)
        case $1 in
        --from=*) copy_in "$scratch/named_${1#--from=}" "$2" "$3" ;;
        *) copy_in "$source" "$1" "$2" ;;
        esac ;;
    RUN) inside "$root" sh -ec "cd $folder; $*" > run.log 2>&1 || { tail -n 30 run.log; fail "RUN $*"; } ;;
    ENTRYPOINT | CMD) ;;
    *) fail "$word: this test does not know it" ;;
    esac
}
# Lines that end in a backslash belong to the next one; comments go.
sed -e '/^#/d' -e '/^$/d' "$source/Dockerfile" | sed -e ':more' -e '/\\$/{N;s/ *\\\n */ /;b more' -e '}' > steps
while read -r line <&3; do
    echo "$line"
    set -f
    # shellcheck disable=SC2086  # words
    set -- $line
    set +f
    step "$@"
done 3< steps
entry=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]$/\1/p' "$source/Dockerfile")
expect 0 "glofnd $version" inside "$root" "$entry" --version
expect 0 'oneDNN yes' inside "$root" "$entry" info
embeddings "$root$folder/x.npy"
expect 0 'written' inside "$root" sh -c "cd $folder && $entry discover x.npy --k 3 --out found"
echo "$stages stages: passed"

command -v buildah > /dev/null || { echo "no buildah: the Dockerfile itself was not built"; exit 0; }
images() { buildah --root "$scratch/images" --runroot "$scratch/containers" --storage-driver vfs "$@"; }
clean_up() { images rm --all > /dev/null 2>&1; images rmi --all --force > /dev/null 2>&1; }
(cd "$source" && git ls-files -z -co --exclude-standard | tar --null -T - -cf -) > files.tar && mkdir context &&
    tar -C context -xf files.tar || fail "no build context"
{ base=$(images from scratch) && images add -q "$base" "$made/root.tar" / &&
    images commit -q "$base" "docker.io/library/$(sed -n 's/^FROM \([^ ]*\)$/\1/p' "$source/Dockerfile")"; } > out 2> err ||
    skip "buildah does not work here: $(tail -n 1 err)"
images bud --isolation chroot --pull-never -t glofnd context > run.log 2>&1 || { tail -n 30 run.log; fail "buildah bud"; }
ready=$(images from --pull-never localhost/glofnd) || fail "no image"
mkdir -p volume && embeddings "$scratch/volume/x.npy"
for call in '--version' 'discover x.npy --k 3 --out found'; do
    # shellcheck disable=SC2086  # words
    images run --isolation chroot -v "$scratch/volume:$folder" "$ready" -- "$entry" $call > out 2>&1 ||
        fail "in the container: $call"
done
[ -s volume/found/summary.json ] || [ -n "$(ls volume/found)" ] || fail "the container wrote nothing into the volume"
echo "image by $(buildah --version | cut -d' ' -f1-3): passed"
