# A rank that never joins is named after rank_timeout, instead of a wait for ever: it was never started, or hangs in its checks.
. "$2/tests/sh/ranks.inc"

cat > late.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 600
exec "$glofnd" pretrain "$@"
END
call timeout 60 mpirun -np 3 sh late.sh $images --rank-timeout 2 --out late
[ $code != 0 ] && [ $code != 124 ] || fail "a rank that never starts: exit code $code"
[ "$(grep -c '^glofnd pretrain: rank 1 of 3 has not started within 2 seconds (rank_timeout)' err)" = 1 ] ||
    fail 'a rank that never starts is not named'
[ -e late ] && fail "a rank that never starts: it left $(ls -d late late/*)"

# All of them in time: the limit has ended with the wait.
call ranks 2 $images --rank-timeout 60 --epochs 1 --out two
wants 'two ranks' 0
echo passed
