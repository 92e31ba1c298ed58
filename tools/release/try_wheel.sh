#!/bin/sh
# try_wheel.sh DIST [PYTHON...] - installs the wheel for this machine from DIST into a clean virtual environment of each interpreter
# (default: python3), without an index but for NumPy, and tries the library, discovery and the command.
set -eu
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
dist=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- python3
unset GLOFND_LIBRARY
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for python in "$@"; do
    rm -rf "$scratch/venv" "$scratch/index"
    "$python" -m venv "$scratch/venv"
    try=$scratch/venv/bin/python
    "$try" -m pip --disable-pip-version-check download -q -d "$scratch/index" numpy
    "$try" -m pip --disable-pip-version-check install -q --no-index --find-links "$scratch/index" --find-links "$dist" glofnd
    (
        cd "$scratch"
        said=$(venv/bin/glofnd --version)
        case $said in
        "glofnd $(sh "$source/tools/release/version.sh"),"*) ;;
        *) echo "try_wheel: $python: glofnd --version says: $said" >&2; exit 1 ;;
        esac
        venv/bin/python -m glofnd > info
        rm -rf tests && mkdir tests && cp "$source"/python/tests/*.py tests/
        # The tables of the header lie beside the sources.
        venv/bin/python -m unittest -q tests.test_numpy tests.test_discover > log 2>&1 || { tail -n 30 log >&2; exit 1; }
        venv/bin/python - << 'END'
import os, subprocess, sysconfig
import numpy as np
import glofnd
program = os.path.join(sysconfig.get_path("scripts"), "glofnd")
rng = np.random.default_rng(1)
x = rng.standard_normal((300, 16)).astype(np.float32)
x[200] = x[10]
np.save("x.npy", x)
subprocess.run([program, "discover", "x.npy", "--out", "found", "--quiet", "--force"], check=True)
assert open("found/remove.txt").read().split() == ["200"], "discover: the duplicate is not found"
subprocess.run([program, "sweep", "--config", "demo", "--seeds", "1,2", "--out", "s", "--dry-run"], check=True, stdout=subprocess.DEVNULL)
assert list(glofnd.discover(x).remove) == [200]
END
        echo "try_wheel: $("venv/bin/python" --version): $(tail -n 3 log | grep -o 'Ran [0-9]* tests')"
    )
done
