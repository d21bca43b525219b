#!/bin/sh
# Runs everything that `./bootstrap check` runs, from a build directory: the tests, the tests under valgrind, builds with
# sanitizers, fuzzers.  Ends with "N passed, N failed".  KVMILL_SEED=N, which it prints, repeats the random cases of a day.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)
more=$((jobs + 1)) # some tests wait for a clock or a download
passed=0
skipped=0
failed=0
began=$(date +%s)
began_used=0

# Random tests draw other cases every day, so that a seed hides nothing for long.
KVMILL_SEED=${KVMILL_SEED:-$(date -u +%Y%m%d)}
export KVMILL_SEED
echo "KVMILL_SEED=$KVMILL_SEED"

# Shares by the day: those of one day, also where it ends meanwhile.
: "${KVMILL_TURN:=$(($(date +%s) / 86400))}"
export KVMILL_TURN
echo "shares: KVMILL_TURN=$KVMILL_TURN"

say() {
    stage=$1
    echo
    echo "== $*"
}

# took -- prints the time of the stage that ends here.  `times` counts the processes of the shell that calls it, so this must
# not run in a subshell.
took() {
    times >times.now
    now=$(date +%s)
    used=$(sed 's/s//g; s/m/ /g' times.now | awk 'NR == 2 {printf "%d\n", 60 * ($1 + $3) + $2 + $4}')
    echo "took $((now - began)) s, $((used - began_used)) s of processor time"
    printf '%6d %6d  %s\n' $((now - began)) $((used - began_used)) "$stage" >>stages.log
    began=$now began_used=$used
}

# longest DIRECTORY -- names the longest tests since the last call.
longest() {
    echo "the longest, in seconds of processor time: $(sort -rn "$1/times.log" | head -n 8 | paste -s -d , -)"
    sed "s/$/, $stage/" "$1/times.log" >>all_times.log
    : >"$1/times.log"
}

# name_failures DIRECTORY -- collects failures, which are printed at the end.
name_failures() {
    find "$1/tests" -name '*.trs' -exec grep -L '^:global-test-result: \(PASS\|SKIP\)' {} + | while read -r results; do
        echo "FAIL: ${results%.trs}"
        grep -a '^not ok\|^Bail out' "${results%.trs}.log" | head -n 20
    done >>failures.log
}

# tests DIRECTORY COMMAND... -- runs the tests of a build, and adds up the results that Automake leaves.
tests() {
    directory=$1
    shift
    find "$directory/tests" -name '*.trs' -exec rm -f {} + 2>/dev/null
    : >"$directory/times.log"
    (cd "$directory" && "$@")
    status=$?
    name_failures "$directory"
    results=$(find "$directory/tests" -name '*.trs' -exec sed -n 's/^:test-result: \([A-Z]*\).*/\1/p' {} +)
    bad=$(echo "$results" | grep -c 'FAIL\|ERROR')
    [ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1 # the build failed
    passed=$((passed + $(echo "$results" | grep -c 'PASS')))
    skipped=$((skipped + $(echo "$results" | grep -c 'SKIP')))
    failed=$((failed + bad))
    longest "$directory"
    took
}

# step NAME COMMAND... -- runs a command that passes or fails.
step() {
    name=$1
    shift
    if "$@" >step.log 2>&1; then
        passed=$((passed + 1))
        echo "PASS: $name"
    else
        failed=$((failed + 1))
        echo "FAIL: $name" | tee -a failures.log
        tail -n 40 step.log
    fi
    took
}

# Compiling takes most of a build's time, so variants have few kernels and one kind of library.  They are built once, so they need
# not know what depends on what.
linker=
! command -v ld.lld >/dev/null || linker='-fuse-ld=lld -Wl,--threads=1' # takes half of ld's time; more threads would keep the other processor busy
few="TEST_SPECS=specs/few.json --disable-static --disable-dependency-tracking"

# valgrind supports only AVX2; sanitizers run the machine's other instruction sets, and the best one, with some kernels of each
# family.
sanitized=$(./kvmill isas | awk '$4 == "yes" {all[++n] = $1} END {for (i = 1; i <= n; i++) if (all[i] != "avx2" || i == n) print all[i]}' |
    paste -s -d , -)
# All kernels of few.json, for the portable instruction set and the best one: others would also need the kernels for AVX2.
sanitized_all=$(./kvmill isas | awk '$4 == "yes" {best = $1} END {print best == "scalar" ? best : "scalar," best}')
# By the day one of the packs has only the portable one, which every program needs.
case $KVMILL_TURN in
all) ;;
*[02468]) sanitized_all=scalar ;;
*) sanitized=scalar ;;
esac

# Compilers and sanitizers find errors by the kind of case, so fewer random cases are enough.
slow="TESTS_ENVIRONMENT=KVMILL_TEST_SLOW=2"

# configure NAME ARGUMENTS... -- configures a build of its own in the background, because configure alone does not keep the
# processors busy.
configure() {
    directory=../build-$1
    shift
    mkdir -p "$directory"
    # shellcheck disable=SC2086
    (cd "$directory" && "$source/configure" --quiet $few LDFLAGS="$linker" "$@" >configure.log 2>&1 || cat configure.log) &
}

make="make --no-print-directory"
# variant NAME WHAT MAKE-ARGUMENTS -- builds WHAT, then runs the tests that MAKE-ARGUMENTS select.
variant() {
    say "$@"
    tests "../build-$1" sh -c "$make -s -j$jobs $2 && $make -j$more $3"
}

: >failures.log
: >stages.log
: >all_times.log
# The threads' build uses gcc. The other uses clang, and the fuzzers share it. Some kernels of each family are optimised, with
# AddressSanitizer only: UndefinedBehaviorSanitizer finds as much in code that is not optimised, in a fifth of the time.
# Libraries in which programs and fuzzers spend much time are optimised, too.
watched='-g1 -Werror -fsanitize=fuzzer-no-link'
run_for_long='libkvmill.la libread.la libtest.la libfuzz.la tests/t_flow_programs-flow_scene.o'
configure sanitizers --enable-sanitizers=address,undefined CC=clang CFLAGS="-O0 $watched" \
    DEFAULT_SPECS=specs/each.json PACK_OPTIMIZE='-O1 -fno-sanitize=undefined' TEST_PACK_OPTIMIZE=-O0 PACK_ISAS="$sanitized" \
    TEST_PACK_ISAS="$sanitized_all"
# Kernels for every op: those of the fuzzers' calls, and of regions. This build has no shared libraries.
configure threads --enable-static --disable-shared --enable-sanitizers=thread CFLAGS='-O1 -g1' PACK_OPTIMIZE=-O1 PACK_ISAS=avx2 DEFAULT_SPECS=specs/fuzz.json \
    TEST_SPECS=specs/regions.json
say "make check"
# The pack of the tests: the specs of few.json, and by the day a third of the others.
awk -v day="$KVMILL_TURN" 'BEGIN {print "{\"kernels\": ["}
    {sub(/,$/, "")}
    !/^  \{/ || seen[$0]++ {next}
    FNR == NR || day == "all" || ++others % 3 == day % 3 {printf "%s%s", comma, $0; comma = ",\n"}
    END {print "]}"}' "$source/configs/specs/few.json" "$source/configs/specs/test.json" >todays_specs.json
# Installed files are linked by the system's linker; lld links only test programs.
tests . sh -c "make --no-print-directory -j$more check TESTS= TEST_SPECS_FILE=todays_specs.json LDFLAGS='$linker' &&
    make --no-print-directory -j$more check TESTS='\$(TESTS_OF_TODAY)'"
wait
say "engines"
tests . make --no-print-directory -j"$more" check-engines RUN_ENGINE_TESTS='$(ENGINES_OF_TODAY)'
say "memcheck (capped at AVX2)"
# Not all kernels run if not all programs do.
kernels=
[ "$KVMILL_TURN" = all ] || kernels=MEMCHECK_KERNELS=
step "memcheck" make --no-print-directory -j"$more" check-memcheck MEMCHECK_TESTS='$(PROGRAMS_OF_TODAY)' $kernels
grep '^kernels that ran' step.log
longest .
rm -f sanitizers.ran
variant sanitizers "CFLAGS='-O1 $watched' $run_for_long && $make -s -j$jobs all" \
    "$slow check TESTS='\$(SANITIZED_TODAY)' KVMILL_RAN=$PWD/sanitizers.ran"
step "sanitizers: every kernel ran" sh -c "cd ../build-sanitizers && sh '$source/tests/kernels_ran.sh' '$PWD/sanitizers.ran' '' generated/kvmill_default generated/kvmill_test"
grep '^kernels that ran' step.log
say "fuzzers: 10 seconds of a sixth of the targets, by the day"
step "fuzzers" env KVMILL_FUZZ_BUILD="$PWD/../build-sanitizers" make --no-print-directory fuzz SECONDS=10 TARGETS=todays
# ended PROCESS LOG -- waits for a process that was started before, and prints its log.
ended() {
    wait "$1"
    status=$?
    cat "$2"
    return $status
}
# Two days of three the threads, and the third day the tarball. With all shares both, at the same time, because neither keeps two
# processors busy by itself: much of distcheck is configure and links.
case $KVMILL_TURN in
all) threads=yes dist=yes ;;
*) if [ $((KVMILL_TURN % 3)) -lt 2 ]; then threads=yes dist=no; else threads=no dist=yes; fi ;;
esac
[ $dist = no ] || {
    make --no-print-directory -j"$jobs" distcheck TESTS=tests/t_api check_PROGRAMS=tests/t_api >distcheck.log 2>&1 &
    distcheck=$!
}
todays_threads="RUN_THREAD_TESTS='\$(THREADS_OF_TODAY)'"
[ $threads = no ] || variant threads "GENERATOR=$PWD/kvmill $todays_threads thread-tests" \
    "check-threads GENERATOR=$PWD/kvmill $todays_threads TESTS_ENVIRONMENT='KVMILL_TEST_SLOW=2 KVMILL_TEST_THREADS=8'"
# What programs that run no kernels cover, on the day without threads, which is the shorter one.
[ $dist = no ] || {
    say "coverage of programs that run no kernels"
    step "coverage" make --no-print-directory coverage-programs
    sed -n '/^room/,/^all/p' step.log
    say "make distcheck"
    step "the tarball builds, installs and cleans up after itself" ended $distcheck distcheck.log
}

say "result"
echo " clock  processors, in seconds"
cat stages.log
echo "the ten longest tests, in seconds of processor time"
sort -rn all_times.log | head -n 10
[ "$skipped" -eq 0 ] || echo "$skipped skipped: their lines above say why"
cat failures.log
[ "$failed" -eq 0 ] || echo "the same random cases again: KVMILL_SEED=$KVMILL_SEED"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
