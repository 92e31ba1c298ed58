#!/bin/sh
# venv.sh OUT - OUT/venv, a virtual environment with what the release scripts need from PyPI. Variable: PYTHON.
set -eu
[ $# = 1 ] || { echo "usage: venv.sh OUT" >&2; exit 2; }
[ ! -e "$1/venv/complete" ] || exit 0
${PYTHON:-python3} -m venv "$1/venv"
"$1/venv/bin/pip" install -q 'ziglang==0.17.*' 'auditwheel==6.*' 'scikit-build-core>=0.10' build
: > "$1/venv/complete"
