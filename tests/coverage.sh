#!/bin/sh
# coverage.sh TEST... -- run in a build directory.  Builds a copy with gcov in coverage/build, runs the tests there, and prints
# which share of the lines and branches of each room they ran; see coverage.py.  A test is a program, tests/t_NAME, or a script,
# tests/NAME.test.  Programs that KVMILL_COVERAGE_FEW names run few random cases.  Counts add up until coverage/ is removed.
# Kernels of packs and the tests themselves are not counted; the kernels are the few that the builds with sanitizers have, at -O0.
# With KVMILL_COVERAGE_LANE=programs, only what these programs need is built, which run no kernels.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
here=$PWD/coverage
built=$here/build
jobs=$(nproc)
lane=${KVMILL_COVERAGE_LANE:-all}
export KVMILL_COVERAGE_LANE="$lane"
mkdir -p "$built" "$here/logs"
command -v "${GCOV:-gcov}" >/dev/null || {
    echo "coverage: no gcov (Debian: it comes with gcc)"
    exit 2
}
# The portable instruction set and the best one: what selects kernels meets both.
isas=$(./kvmill isas | awk '$4 == "yes" {best = $1} END {print best == "scalar" ? best : "scalar," best}')
counted="-O0 -g1 --coverage -fprofile-update=atomic -include $source/tests/coverage.h"
linker=
! command -v ld.lld >/dev/null || linker='-fuse-ld=lld -Wl,--threads=1'

build() {
    cd "$built" || return
    [ -f Makefile ] || "$source/configure" --quiet --disable-dependency-tracking --disable-static CC=gcc CFLAGS='-O1 -g1' \
        LDFLAGS="--coverage $linker" PACK_ISAS="$isas" DEFAULT_SPECS=specs/each.json TEST_SPECS=specs/few.json PACK_OPTIMIZE=-O0 || return
    make="make --no-print-directory -s -j$jobs"
    # What is counted first; then the programs that call it, which are not.
    if [ "$lane" = programs ]; then
        $make CFLAGS="$counted" libruntime.la libgen.la libtools.la libtune.la && $make "$@"
        return
    fi
    $make CFLAGS="$counted" kvmill libkvmill.la libkvmill_specs.la libgen.la libtools.la libtune.la && $make all && $make check TESTS=
}

# Runs a test; a failure is named, and its counts are taken anyway.
# shellcheck disable=SC2016
one='
    name=${0#tests/}
    case $name in
    *.test) set -- sh "$srcdir/tests/$name" ;;
    *) set -- "tests/$name" ;;
    esac
    case " $KVMILL_COVERAGE_FEW " in *" tests/$name "*) export KVMILL_TEST_SLOW=2 ;; esac
    "$@" >"$logs/$name.log" 2>&1 || echo "coverage: $name failed: $logs/$name.log"'

# all TEST... -- as many at once as there are processors.
all() {
    cd "$built" || return
    export srcdir="$source" builddir="$built" logs="$here/logs" KVMILL_DATADIR="$source" KVMILL_COVERAGE_FEW="${KVMILL_COVERAGE_FEW-}"
    printf '%s\n' "$@" | xargs -P "$jobs" -n 1 sh -c "$one"
}

echo "coverage: building; coverage/build.log"
(build "$@") >"$here/build.log" 2>&1 || {
    tail -n 20 "$here/build.log"
    exit 2
}
(all "$@")
exec "${PYTHON:-python3}" "$source/tests/coverage.py" "$source" "$built" "$here"
