# A result of `glofnd discover` of version 0.2 (tests/fixtures/discover-0.2: 120 rows, alpha 0.05, lists of 10) answers --from with the
# bytes of a new search: the same thresholds, neighbours and decisions.
. "$2/tests/sh/common.inc"
needs
cp "$source"/tests/fixtures/discover-0.2/* . && mkdir stored && mv summary.json rows.npy neighbours.npy similarities.npy anchors.npy stored || exit 1

# same OLD NEW FLAGS...: settings for the stored result, for the new search, and for both
same() {
    old=$1 new=$2
    shift 2
    rm -rf again fresh
    expect 0 'written to' "$glofnd" discover $emb --from stored $old "$@" --labels y.npy --out again --quiet
    expect 0 'written to' "$glofnd" discover x.npy $new "$@" --labels y.npy --top 10 --out fresh --quiet
    diff -r again fresh > out 2>&1 || fail "version 0.2 answers otherwise: $old $*"
}
emb=
same '' '--alpha 0.05' --dup 0.98
same '--k 5' '--k 5' --dup 0.98
same '--k 5' '--k 5' --dup exact
emb=x.npy
same '' '--alpha 0.05' --dup 0.98 --keep central
cmp -s stored/anchors.npy again/anchors.npy || fail 'thresholds of the same settings have other bytes'
