# TAP for shell tests; sourced after environment.sh.  Each test has its own directory.
tap_count=0
tap_failed=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvmill-test.XXXXXX") || exit 1
TMPDIR=$scratch.tmp # for whatever the test runs
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch" "$scratch.tmp"' EXIT
mkdir "$TMPDIR" && export TMPDIR && cd "$scratch" || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL # keeps the make that runs the tests out of their output

# ok STATUS NAME -- reports one result; with KVMILL_TAP_TIMES, after the processor time until here.
ok() {
    [ -z "${KVMILL_TAP_TIMES:-}" ] || { times >times.now && sed -n 's/^/# /; 2p' times.now; }
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $2"
    fi
}

diag() {
    sed 's/^/# /' "$@"
}

# skip_all REASON -- skips the whole test, because this machine cannot run it.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# check NAME COMMAND... -- passes if the command succeeds.
check() {
    name=$1
    shift
    "$@" >check.log 2>&1
    result=$?
    ok $result "$name"
    [ $result -eq 0 ] || head -n 20 check.log | diag
}

# expect CODE WORDS NAME COMMAND... -- passes if the command exits with CODE and its output matches WORDS, a regular expression.
expect() {
    code=$1 words=$2 name=$3
    shift 3
    "$@" >out.log 2>err.log
    got=$?
    cat out.log err.log >all.log
    result=1
    if [ "$got" -eq "$code" ]; then
        [ -z "$words" ] || grep -Eq -- "$words" all.log
        result=$?
    fi
    ok $result "$name"
    [ $result -eq 0 ] || { echo "# exit $got, expected $code; wanted: $words"; diag all.log; }
}

# shared_header COMPILER FLAGS... -- sets $headers to the header of intrinsics, precompiled with these flags once in a build
# tree, and $options to the options with which the compiler uses it.
shared_header() {
    headers=$builddir/generated/headers-$({ echo "$*"; "$@" --version; } | cksum | cut -d ' ' -f 1)
    mkdir -p "$headers"
    # Another script may be compiling it.
    # shellcheck disable=SC2016
    flock "$headers/lock" sh -c 'test -e "$1/options" || { sh "$0" "$@" >"$1/made" && mv "$1/made" "$1/options"; }' \
        "$srcdir/tests/precompile.sh" "$headers" "$@" && options=$(cat "$headers/options")
}

# quick_kernels LEVEL [CC] -- compiles kernels with this level from here on, with a precompiled header.  -O0 takes a quarter of
# the time; use it for kernels that are not timed and run only briefly, and otherwise -O1.
quick_kernels() {
    # shellcheck disable=SC2086
    shared_header ${2:-cc} "$1"
    CFLAGS=$1 CPPFLAGS=-I$headers
    export CFLAGS CPPFLAGS
}

# todays SHARES [TURN] -- prints the number of today's share among SHARES, or of the share of the day TURN, or "all".  KVMILL_TURN
# sets the day for every test that has shares; `make check-long` sets it to all.
todays() {
    day=${2:-${KVMILL_TURN:-$(($(date +%s) / 86400))}}
    if [ "$day" = all ]; then echo all; else echo $((day % $1)); fi
}

# in_share NUMBER SHARES SHARE -- whether the NUMBER-th of something is in a share that todays has printed.
in_share() {
    [ "$3" = all ] || [ $(($1 % $2)) -eq "$3" ]
}

# todays_words SHARES WORD... -- prints the words that are in today's share.
todays_words() {
    of=$1 at=0
    shift
    for word; do
        at=$((at + 1))
        ! in_share $at "$of" "$(todays "$of")" || echo "$word"
    done
}

# fault_of_today SHARES -- whether the script's next planted fault is in today's share among SHARES.  KVMILL_FAULTS_TURN selects
# another share, or all.
faults_seen=0
faults_built=0
fault_of_today() {
    faults_seen=$((faults_seen + 1))
    in_share $faults_seen "$1" "$(todays "$1" "${KVMILL_FAULTS_TURN:-}")" || return 1
    faults_built=$((faults_built + 1))
}

# say_faults -- prints how many faults there are, and how many of them were built.
say_faults() {
    echo "# planted faults: $faults_built of $faults_seen are built today"
}

# Tests that need an instruction set that the table or this CPU lacks are skipped.
has_isa() {
    "$kvmill" isas | awk -v name="$1" '$1 == name {found = 1} END {exit !found}'
}

runs_isa() {
    "$kvmill" isas | awk -v name="$1" '$1 == name && $4 == "yes" {found = 1} END {exit !found}'
}

# those_isas NAME... -- prints those that this CPU has, separated by commas.
those_isas() {
    for isa in "$@"; do
        ! has_isa "$isa" || echo "$isa"
    done | paste -s -d , -
}

every_isa() {
    "$kvmill" isas | awk 'NR > 1 {print $1}'
}

done_testing() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ] && [ "$tap_count" -gt 0 ]
}
