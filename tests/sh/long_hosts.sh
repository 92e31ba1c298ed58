# Three hosts: network namespaces with a host name and a folder for temporary files each, cables to one switch (a bridge), and nothing
# else between them. mpirun starts the ranks of other hosts through a launch agent, as it would by ssh, and all messages go over TCP.
# Training and discovery end with the bytes of one machine, also if packets of a host are late. If a host loses its power, its
# processes or its network, all ranks end within their time limit, and the same command continues to the same bytes.
# Needs root, ip, namespaces and /dev/net/tun; skipped if the machine allows none.
. "$2/tests/sh/ranks.inc"
needs_tools ip unshare hostname python3
[ "$(id -u)" = 0 ] || skip 'network namespaces need root'
[ -c /dev/net/tun ] || skip 'no /dev/net/tun'
export PYTHONPATH="$2/tests/sh" PYTHONDONTWRITEBYTECODE=1
switch=gf-switch-$$
host() { echo "gf-host$1-$$"; }
processes_of() { ip netns pids "$(host "$1")" 2>/dev/null; }
clean_up() {
    for h in 0 1 2; do
        for left in $(processes_of $h); do kill -9 "$left" 2>/dev/null; done
        ip netns del "$(host $h)" 2>/dev/null
    done
    ip netns del $switch 2>/dev/null
}

# join HOST: the device `cable` in that host, and its other end in the switch
join() {
    ip -n "$(host "$1")" link set lo up && ip -n "$(host "$1")" addr add "10.77.0.$(($1 + 1))/24" dev cable &&
        ip -n "$(host "$1")" link set cable up && ip -n $switch link set "port$1" master switch up
}
connect() {
    ip netns add $switch && ip -n $switch link add switch type bridge && ip -n $switch link set switch up || return
    for h in 0 1 2; do ip netns add "$(host $h)" || return; done
    for h in 0 1; do
        ip link add cable netns "$(host $h)" type veth peer name "port$h" netns $switch && join $h || return
    done
    # Host 2 has the slow cable.
    echo 0 >rule
    ip netns exec $switch python3 "$source/tests/sh/slow_cable.py" port2 cable rule >cable.out &
    while [ ! -s cable.out ]; do
        kill -0 $! || return
        sleep 0.05
    done
    ip -n $switch link set cable netns "$(host 2)" && join 2
}
connect 2>connect.err || skip "no network namespaces here: $(cat connect.err)"

# In place of ssh: "agent HOST COMMAND". Hosts have names of their own, or all daemons would take each other for the same machine.
mkdir temp0 temp1 temp2
cat >agent <<END
#!/bin/sh
h=\$((\${1##*.} - 1))
shift
exec ip netns exec gf-host\$h-$$ unshare --uts sh -c "hostname gf-host\$h; export TMPDIR=$scratch/temp\$h; \$*"
END
cat >rank.sh <<'END'
echo $$ >"pid.$OMPI_COMM_WORLD_RANK"
hostname >"host.$OMPI_COMM_WORLD_RANK"
exec "$@"
END
chmod +x agent
printf '10.77.0.%d slots=1\n' 1 2 3 >hosts
# What docs/distributed.md recommends, with shorter times: mpirun looks after its connections.
keepalive='--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3'
on_hosts() { # COMMAND...
    rm -f pid.* host.*
    TMPDIR=$scratch/temp0 exec ip netns exec "$(host 0)" mpirun --hostfile hosts -np 3 --map-by slot --bind-to none $keepalive \
        --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable \
        --mca pml ob1 --wdir "$scratch" sh rank.sh "$glofnd" "$@"
}

small='--data shapes:n=96,classes=4,size=16,seed=1 --arch resnet8 --head-hidden 32 --head-out 16 --batch 12'
small="$small --threads 1 --workers 1 --start-epoch 1 --epochs 12 --checkpoint-steps 8 --log-steps 1 --rank-timeout 6"
search='--k 5 --dup 0.9 --threads 1 --rank-timeout 6'
python3 - <<'PY' || fail "embeddings"
import array, random
from npy_file import npy
random.seed(6)
N, D = 30000, 32
x = array.array("f", (random.gauss(0, 1) for _ in range(N * D)))
for i in range(7, N, 50):
    x[i * D : (i + 1) * D] = x[(i - 1) * D : i * D]
npy("x.npy", "<f4", (N, D), x.tobytes())
PY

# ----- three hosts do what one does; packets are late -----

mpirun -np 3 "$glofnd" pretrain $small --out near 2>near.err || fail "near: exit $?: $(cat near.err)"
"$glofnd" discover x.npy $search --quiet --out found >/dev/null 2>near.err || fail "discover: $(cat near.err)"
for delay in 0 4; do
    echo $delay >rule
    began=$(date +%s)
    (on_hosts pretrain $small --out "far$delay") 2>far.err || fail "$delay ms: exit $?: $(cat far.err)"
    [ "$(cat host.0 host.1 host.2 | sort -u | wc -l)" = 3 ] || fail "the ranks were not apart: $(cat host.*)"
    equal near "far$delay" "three hosts, $delay ms"
    middle=$(date +%s)
    (on_hosts discover x.npy $search --out "found$delay") >out 2>far.err || fail "discover, $delay ms: exit $?: $(cat far.err)"
    diff -r found "found$delay" || fail "discover on three hosts, $delay ms: another result"
    echo "three hosts, $delay ms to one of them: equal bytes; pretrain $((middle - began)) s, discover $(($(date +%s) - middle)) s"
done
echo 0 >rule
bytes=$(ip -n "$(host 2)" -s link show dev cable | awk '/TX:/ {getline; print $1}')
[ "${bytes:-0}" -gt 100000 ] || fail "only $bytes bytes came from host 2"

# begin RUN COMMAND...: in the background, until it has something to lose
begin() {
    run=$1
    shift
    (on_hosts "$@") >"$run.out" 2>"$run.err" &
    process=$!
    if [ "$1" = pretrain ]; then
        await_checkpoint "$run" $process
    else
        until [ -e "$run.partial/pairs-000002" ]; do
            kill -0 $process 2>/dev/null || fail "$run: it ended before it could be stopped: $(cat "$run.err")"
            sleep 0.02
        done
    fi
}

# ----- packets stand still, for less than the limit: nothing happens -----

begin paused pretrain $small --out paused
echo 2500 >rule
sleep 1
echo 0 >rule
wait $process || fail "packets 2.5 s late, limit 6 s: exit $?: $(cat paused.err)"
equal near paused 'packets 2.5 s late'

# ----- a host is lost: all end, and the same command continues -----

# lose WHAT RUN COMMAND...
lose() {
    what=$1
    shift
    begin "$@"
    left_of_2=$(processes_of 2)
    all=$(for h in 0 1 2; do processes_of $h; done)
    lost_at=$(date +%s)
    [ "$what" = processes ] || echo cut >rule # nothing arrives any more, not even that connections close
    # shellcheck disable=SC2086  # a list
    [ "$what" = network ] || kill -9 $left_of_2
    # The limit is 6 s; the rest is for a machine that is busy.
    # shellcheck disable=SC2086
    ended 40 $all $process || fail "host 2 lost its $what, and some processes continue: $(cat "$run.err")"
    wait $process 2>/dev/null && fail "host 2 lost its $what: exit 0"
    echo "host 2 lost its $what, $2: all ended within $(($(date +%s) - lost_at)) s"
    echo 0 >rule
}
for what in processes power network; do
    again=$([ $what = processes ] || echo --resume)
    # shellcheck disable=SC2086
    lose $what lost pretrain $small --out lost $again
    rm -rf searched searched.partial
    lose $what searched discover x.npy $search --out searched
    [ ! -e searched ] || fail "$what: a result of a search that did not end"
    (on_hosts discover x.npy $search --out searched) >out 2>searched.err || fail "$what: discover again: $(cat searched.err)"
    grep -q 'are already in searched.partial' searched.err || fail "$what: discover began anew: $(cat searched.err)"
    diff -r found searched || fail "$what: discover ended with another result"
done
(on_hosts pretrain --out lost --resume) 2>lost.err || fail "lost: exit $? at resume: $(cat lost.err)"
grep -q 'resumed at step' lost.err || fail "lost: not resumed: $(cat lost.err)"
equal near lost 'host 2 lost three times'
echo "three hosts: lost, delayed and cut, the bytes are those of one machine"
