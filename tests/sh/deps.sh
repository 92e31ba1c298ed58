# tools/deps.sh with made-up machines: a PATH of stand-ins that only write down how they were called.
. "$2/tests/sh/common.inc"
shell=$(command -v sh)

# machine TOOL...: a machine with just these (besides what any system has)
machine() {
    rm -rf bin
    mkdir bin
    : >calls
    for tool in env sh; do ln -s "$(command -v $tool)" bin/$tool; done
    for tool in "$@"; do stand_in "$tool" 'exit 0'; done
    stand_in id 'echo 0'
}
stand_in() {
    printf '#!%s\necho "%s $*" >>"%s/calls"\n%s\n' "$shell" "$1" "$scratch" "$2" >"bin/$1"
    chmod +x "bin/$1"
}
deps() { PATH=$scratch/bin CC='' CXX='' "$shell" "$source/tools/deps.sh" "$@" >out 2>err </dev/null; }
wrong() { fail "$1; calls: $(cat calls)"; }
says() { cat out err | grep -qF "$1"; }
called() { grep -qF -- "$1" calls; }

all="cc c++ make cmake pkg-config mpirun python3"

machine cc c++ make apt-get dpkg
deps && says 'missing: cmake pkg-config' && says 'sudo apt-get install cmake pkg-config' && ! called apt-get || wrong 'only a list'

machine $all git apt-get dpkg
everything='compiler cmake pkg-config cmocka libjpeg libpng libwebp utf8proc zlib libzstd oneDNN liblbfgs Open MPI NumPy git'
deps && says "found $everything" && ! called apt-get || wrong 'all present'

deps --demo
says 'ashion-' || wrong 'the images of the demo'      # found Fashion-MNIST, or missing dataset-fashion-mnist
deps --check --demon && wrong 'a wrong flag'
says 'usage' || wrong 'a wrong flag'

machine cc c++ make apt-get dpkg
deps --install && called 'apt-get' && called 'install -y --no-install-recommends cmake pkg-config' || wrong 'Debian, root'
called sudo && wrong 'sudo as root'

machine cc c++ make apt-get dpkg sudo
stand_in id 'echo 1000'
stand_in sudo 'shift; exec "$@"'    # the first argument is -n: no terminal here
deps --install && called 'sudo -n env' && called 'apt-get' || wrong 'Debian, user with sudo'

machine cc c++ make apt-get dpkg
stand_in id 'echo 1000'
deps --install && says 'please install' && ! called apt-get || wrong 'Debian, user without sudo'

machine cc c++ make apt-get dpkg
stand_in apt-get 'exit 100'
deps --install && called ' -qq update' && says 'installation failed' && says 'please install' || wrong 'apt-get fails'

machine cmake pkg-config make cc
deps --install && says 'please install' && says 'build-essential' || wrong 'another system, without C++'

machine cmake pkg-config apt-get dpkg
deps --check && wrong '--check exits 0'
says 'missing: build-essential' && ! called apt-get || wrong '--check'

machine $all
stand_in pkg-config 'exit 1'
deps --install && says 'libcmocka-dev' || wrong 'cmocka missing'

echo 'nine machines, all as they should be'
