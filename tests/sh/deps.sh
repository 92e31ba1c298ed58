# tools/deps.sh with made-up machines: a PATH of stand-ins that only write down how they were called.
set -u
deps=$2/tools/deps.sh
world=$(mktemp -d) || exit 1
trap 'rm -rf "$world"' EXIT
shell=$(command -v sh)
failures=0

# machine TOOL...: a machine with just these (besides what any system has)
machine() {
    rm -rf "$world/bin" "$world/calls"
    mkdir -p "$world/bin"
    : >"$world/calls"
    for tool in env sh; do ln -s "$(command -v $tool)" "$world/bin/$tool"; done
    for tool in "$@"; do stand_in "$tool" 'exit 0'; done
    stand_in id 'echo 0'
}
stand_in() {
    printf '#!%s\necho "%s $*" >>"%s/calls"\n%s\n' "$shell" "$1" "$world" "$2" >"$world/bin/$1"
    chmod +x "$world/bin/$1"
}
deps() { PATH=$world/bin CC='' CXX='' "$shell" "$deps" "$@" 2>&1 </dev/null; }
fail() { echo "FAILED: $1: $out; calls: $(cat "$world/calls")"; failures=$((failures + 1)); }
says() { printf '%s' "$out" | grep -qF "$1"; }
called() { grep -qF -- "$1" "$world/calls"; }

all="cc c++ make cmake pkg-config mpirun"

machine $all git apt-get dpkg
everything='compiler cmake pkg-config cmocka libjpeg libpng zlib jansson oneDNN liblbfgs Open MPI git'
out=$(deps) && says "found $everything" && ! called apt-get || fail 'all present'

machine cc c++ make apt-get dpkg
out=$(deps) && called 'apt-get' && called 'install -y --no-install-recommends cmake pkg-config' || fail 'Debian, root'
called sudo && fail 'sudo as root'

machine cc c++ make apt-get dpkg sudo
stand_in id 'echo 1000'
stand_in sudo 'shift; exec "$@"'    # the first argument is -n: no terminal here
out=$(deps) && called 'sudo -n env' && called 'apt-get' || fail 'Debian, user with sudo'

machine cc c++ make apt-get dpkg
stand_in id 'echo 1000'
out=$(deps) && says 'please install' && ! called apt-get || fail 'Debian, user without sudo'

machine cc c++ make apt-get dpkg
stand_in apt-get 'exit 100'
out=$(deps) && called ' -qq update' && says 'installation failed' && says 'please install' || fail 'apt-get fails'

machine cmake pkg-config make cc
out=$(deps) && says 'please install' && says 'build-essential' || fail 'another system, without C++'

machine cmake pkg-config apt-get dpkg
out=$(deps --check) && fail '--check exits 0'
says 'missing: build-essential' && ! called apt-get || fail '--check'

machine $all
stand_in pkg-config 'exit 1'
out=$(deps) && says 'libcmocka-dev' || fail 'cmocka missing'

[ "$failures" = 0 ] && echo 'eight machines, all as they should be'
exit "$failures"
