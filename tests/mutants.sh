#!/bin/sh
# mutants.sh COUNT [SEED] -- run in a build directory.  Do the tests notice random changes?  See mutants.py.  Without a seed it
# is the day's.  What programs run is kept in mutants/lines.
set -eu
builddir=$PWD
. "$builddir/tests/environment.sh"
[ -z "$SANITIZE" ] || { echo "mutants: the build has sanitizers; accepted: a plain build" >&2; exit 2; }
[ -n "$PYTHON" ] || { echo "mutants: there is no python3" >&2; exit 2; }
for number in "$1" "${2:-0}"; do
    case $number in '' | *[!0-9]*) echo "mutants: \"$number\"; accepted: COUNT and SEED, numbers" >&2; exit 1 ;; esac
done
mkdir -p mutants && cd mutants
find . -mindepth 1 -maxdepth 1 ! -name lines -exec rm -rf {} +
mkdir programs temporary
TMPDIR=$PWD/temporary HOME=$PWD/temporary
export TMPDIR HOME srcdir builddir kvmill CC M4 LINKER ONNX TUNE_CFLAGS TUNE_LIBS HWLOC_CFLAGS OPENMP_CFLAGS ONNX_CFLAGS ONNX_LIBS
PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$srcdir/tests/mutants.py" "$1" "${2:-$(($(date +%s) / 86400))}"
