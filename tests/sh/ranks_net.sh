# Two ranks that are really apart: each in a network namespace of its own, with its own host name and folder for temporary files,
# and nothing but a virtual cable between them. mpirun in one namespace starts the other's rank through a launch agent, as it
# would by ssh, and all messages go over TCP. The run must end with the bytes of two ranks that share memory; if the far rank is
# killed or the cable is cut all end, and the run is resumed. Needs root, ip and namespaces; skipped where the machine allows
# none.
. "$2/tests/sh/ranks.inc"
needs_tools ip unshare hostname
[ "$(id -u)" = 0 ] || skip 'network namespaces need root'
here=gf-a-$$ there=gf-b-$$
clean_up() {
    for left in $(ip netns pids $here 2>/dev/null) $(ip netns pids $there 2>/dev/null); do kill -9 "$left"; done
    ip netns del $here 2>/dev/null
    ip netns del $there 2>/dev/null
}

connect() {
    ip netns add $here && ip netns add $there &&
        ip link add cable netns $here type veth peer name cable netns $there &&
        ip -n $here addr add 10.77.0.1/24 dev cable && ip -n $there addr add 10.77.0.2/24 dev cable &&
        ip -n $here link set cable up && ip -n $there link set cable up &&
        ip -n $here link set lo up && ip -n $there link set lo up
}
connect 2>connect.err || skip "no network namespaces here: $(cat connect.err)"

# In place of ssh: "agent HOST COMMAND". Another host name, or both daemons would take each other for the same machine.
mkdir temp-here temp-there
cat >agent <<END
#!/bin/sh
shift
exec ip netns exec $there unshare --uts sh -c "hostname gf-there; export TMPDIR=$scratch/temp-there; \$*"
END
cat >rank.sh <<'END'
ip -o addr show dev cable | sed 's/.*inet \([0-9.]*\).*/\1/' | head -n 1 >"address.$OMPI_COMM_WORLD_RANK"
hostname >"host.$OMPI_COMM_WORLD_RANK"
echo $$ >"pid.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
chmod +x agent
printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' >hosts
quick=''        # flags of mpirun
apart() { # FLAGS...
    TMPDIR=$scratch/temp-here exec ip netns exec $here mpirun --hostfile hosts -np 2 --map-by slot --bind-to none $quick \
        --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable \
        --mca pml ob1 --wdir "$scratch" sh rank.sh "$glofnd" pretrain "$@"
}
small='--data shapes:n=128,classes=4,size=16,seed=1 --arch resnet8 --head-hidden 32 --head-out 16 --batch 16'
small="$small --threads 1 --workers 1 --start-epoch 1 --epochs 40 --checkpoint-steps 16 --log-steps 3"

mpirun -np 2 "$glofnd" pretrain $small --out near 2>near.err || fail "near: exit $?: $(cat near.err)"
(apart $small --out far) 2>far.err || fail "far: exit $?: $(cat far.err)"
[ "$(cat address.0 address.1)" = "$(printf '10.77.0.1\n10.77.0.2')" ] || fail "the ranks were not apart: $(cat address.*)"
[ "$(cat host.0)" != "$(cat host.1)" ] || fail "the ranks were not apart: $(cat host.*)"
equal near far 'two namespaces'
bytes=$(ip -n $here -s link show dev cable | awk '/TX:/ {getline; print $1}')
echo "$bytes bytes went over the cable from rank 0"
[ "${bytes:-0}" -gt 100000 ] || fail "only $bytes bytes went over the cable"

# ----- the rank at the other end dies; the cable is cut -----

# begin RUN FLAGS...: in the background, until there is another checkpoint
begin() {
    run=$1
    shift
    (apart --out "$run" "$@") 2>"$run.err" &
    process=$!
    await_checkpoint "$run" $process
}
begin lost $small
kill -9 "$(cat pid.1)"
ended 20 "$(cat pid.0)" $process || fail 'the far rank was killed, and the near one continues'
wait $process 2>/dev/null && fail 'the far rank was killed: exit 0'

# mpirun that looks after its connections ends all by itself, also what is on the other side.
quick='--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3'
begin lost --resume
grep -q 'resumed at step' lost.err || fail "not resumed: $(cat lost.err)"
ip -n $there link set cable down
ended 40 "$(cat pid.0)" "$(cat pid.1)" $process || fail "the cable is cut, and they go on: $(cat lost.err)"
wait $process 2>/dev/null && fail 'the cable is cut: exit 0'
ip -n $there link set cable up

# Without that each rank ends by itself; mpirun would wait for the network much longer.
quick=''
begin lost --resume --rank-timeout 3
ip -n $there link set cable down
ended 40 "$(cat pid.0)" "$(cat pid.1)" || fail "the cable is cut, and ranks wait: $(cat lost.err)"
[ "$(grep -c "^glofnd pretrain: rank 1 on 'gf-there' has not been heard of" lost.err)" = 1 ] ||
    fail "the cable is cut: not reported once: $(cat lost.err)"
for left in $(ip netns pids $here) $(ip netns pids $there); do kill -9 "$left"; done
wait $process 2>/dev/null
ip -n $there link set cable up

(apart --out lost --resume) 2>lost.err || fail "lost: exit $? at resume: $(cat lost.err)"
grep -q 'resumed at step' lost.err || fail "lost: not resumed: $(cat lost.err)"
equal near lost 'the far rank killed, the cable cut twice'

echo "ranks in two namespaces end as those in one"
