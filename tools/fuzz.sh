#!/bin/sh
# fuzz.sh BUILD SECONDS [NAME...] - runs the fuzzers of BUILD/fuzz, each for SECONDS, from fuzz/seeds/NAME and what earlier runs
# found (BUILD/corpus/NAME). One line each; a finding ends with 1, its input is in BUILD/corpus.
build=$(cd "$1" && pwd) seconds=$2 source=$(cd "$(dirname "$0")/.." && pwd) failed=0
shift 2
mkdir -p "$build/corpus" && cd "$build/corpus" || exit 1
[ $# -gt 0 ] || set -- $(cd ../fuzz && ls)
for name in "$@"; do
    seeds=$source/fuzz/seeds/$name
    mkdir -p "$name"
    "../fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$name-" \
        "$name" $([ -d "$seeds" ] && echo "$seeds") > "$name.log" 2>&1
    code=$?
    awk -v name="$name" -v code=$code '
        /number_of_executed_units/ { runs = $2 }
        /cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) }
        END { printf "%-18s %12d runs  %6d edges  %s\n", name, runs, edges, code ? "FINDING" : "no finding" }' "$name.log"
    if [ $code != 0 ]; then
        failed=1
        tail -n 40 "$name.log"
    fi
done
exit $failed
