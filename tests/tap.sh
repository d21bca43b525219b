# TAP for shell tests; sourced after environment.sh.  Each test gets a directory of its own.
tap_count=0
tap_failed=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvmill-test.XXXXXX") || exit 1
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL # the make that runs the tests is not to be heard in their output

# ok STATUS NAME -- one result.
ok() {
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

# skip_all REASON -- this machine cannot run the test at all.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# check NAME COMMAND... -- the command succeeds.
check() {
    name=$1
    shift
    "$@" >check.log 2>&1
    result=$?
    ok $result "$name"
    [ $result -eq 0 ] || head -n 20 check.log | diag
}

# expect CODE WORDS NAME COMMAND... -- the command exits with CODE and says WORDS (a regular expression).
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

# shared_header COMPILER FLAGS... -- in $headers, the header of intrinsics, compiled with these flags once in a build tree;
# $options are those with which the compiler reads it from there.
shared_header() {
    headers=$builddir/generated/headers-$({ echo "$*"; "$@" --version; } | cksum | cut -d ' ' -f 1)
    mkdir -p "$headers"
    # Another script may be at it.
    # shellcheck disable=SC2016
    flock "$headers/lock" sh -c 'test -e "$1/options" || { sh "$0" "$@" >"$1/made" && mv "$1/made" "$1/options"; }' \
        "$srcdir/tests/precompile.sh" "$headers" "$@" && options=$(cat "$headers/options")
}

# quick_kernels LEVEL [CC] -- what compiles kernels from here on does so with this level and a header that is compiled already:
# -O0 where kernels are neither timed nor the matter, or run for a moment, which is a quarter of the time; else -O1.
quick_kernels() {
    # shellcheck disable=SC2086
    shared_header ${2:-cc} "$1"
    CFLAGS=$1 CPPFLAGS=-I$headers
    export CFLAGS CPPFLAGS
}

# todays SHARES [TURN] -- the number of today's share, of so many; TURN says another.
todays() {
    echo $((${2:-$(($(date +%s) / 86400))} % $1))
}

# fault_of_today SHARES -- whether the next planted fault of a script is of today's share, of so many.  KVMILL_FAULTS_TURN says
# another turn, or all.
faults_seen=0
faults_built=0
fault_of_today() {
    faults_seen=$((faults_seen + 1))
    [ "${KVMILL_FAULTS_TURN:-}" = all ] || [ $((faults_seen % $1)) -eq "$(todays "$1" "${KVMILL_FAULTS_TURN:-}")" ] || return 1
    faults_built=$((faults_built + 1))
}

# say_faults -- how many there are, and how many of them were built.
say_faults() {
    echo "# planted faults: $faults_built of $faults_seen are built today"
}

# Instruction sets: a test that needs one which the table lacks, or this CPU, is skipped.
has_isa() {
    "$kvmill" isas | awk -v name="$1" '$1 == name {found = 1} END {exit !found}'
}

runs_isa() {
    "$kvmill" isas | awk -v name="$1" '$1 == name && $4 == "yes" {found = 1} END {exit !found}'
}

# those_isas NAME... -- by commas, those that there are.
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
