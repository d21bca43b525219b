#!/bin/sh
# Everything that `./bootstrap check` runs, from a build directory: the tests, the same under valgrind,
# builds with sanitizers and with clang.  Ends with "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)
passed=0
skipped=0
failed=0

say() {
    echo
    echo "== $*"
}

# name_failures DIRECTORY -- for the end, where who reads the last lines finds them.
name_failures() {
    find "$1/tests" -name '*.trs' -exec grep -L '^:global-test-result: \(PASS\|SKIP\)' {} + | while read -r results; do
        echo "FAIL: ${results%.trs}"
        grep -a '^not ok\|^Bail out' "${results%.trs}.log" | head -n 20
    done >>failures.log
}

# tests DIRECTORY COMMAND... -- run the tests of a build; add up the results that Automake leaves.
tests() {
    directory=$1
    shift
    find "$directory/tests" -name '*.trs' -exec rm -f {} + 2>/dev/null
    (cd "$directory" && "$@")
    status=$?
    name_failures "$directory"
    results=$(find "$directory/tests" -name '*.trs' -exec sed -n 's/^:test-result: \([A-Z]*\).*/\1/p' {} +)
    bad=$(echo "$results" | grep -c 'FAIL\|ERROR')
    [ $status -eq 0 ] || [ "$bad" -gt 0 ] || bad=1 # it did not even build
    passed=$((passed + $(echo "$results" | grep -c 'PASS')))
    skipped=$((skipped + $(echo "$results" | grep -c 'SKIP')))
    failed=$((failed + bad))
}

# step NAME COMMAND... -- one more thing that passes or fails.
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
}

# Compiling takes most of the time of a build; variants make do with few kernels and one kind of library.
few="DEFAULT_SPECS=specs/rows.json TEST_SPECS=specs/few.json --disable-static"

# Valgrind knows AVX2 and no more; sanitizers watch the rest.
beyond_avx2=$(./kvmill isas | awk '($2 == "any" || $2 == "x86_64") && $1 != "avx2" {print $1}' | paste -s -d , -)

# Compilers and sanitizers differ in what they see of a case, not in how many random ones there are.
slow="TESTS_ENVIRONMENT=KVMILL_TEST_SLOW=1"

# variant NAME MAKE-ARGUMENTS CONFIGURE-ARGUMENTS... -- a build of its own, and the tests that those say.
variant() {
    directory=../build-$1
    what=$2
    say "$*"
    shift 2
    mkdir -p "$directory"
    # shellcheck disable=SC2086
    (cd "$directory" && "$source/configure" --quiet $few "$@" >/dev/null)
    tests "$directory" sh -c "make --no-print-directory -s -j$jobs && make --no-print-directory -j$jobs check $what"
}

# The longest first, as in tests/local.am.
programs="tests/t_cache_attention tests/t_attention_cases tests/t_windows tests/t_rows tests/t_convert tests/t_scatter
tests/t_cases tests/t_api tests/t_threads tests/t_by_size tests/t_cache_attend tests/t_cache_attend_cases tests/t_formats tests/t_ops tests/t_described tests/t_fuzz tests/t_pack_key tests/t_portable_kernels tests/t_config tests/t_names tests/t_m4 tests/t_specs
tests/t_space tests/t_statistics tests/t_strategy tests/t_database tests/t_environment tests/t_simulate tests/t_assignment tests/t_problem
tests/t_flows tests/t_flow_specs tests/t_flow_oracle tests/t_flow_decode tests/t_scores tests/t_flow_fused tests/t_flow_accuracy tests/t_page_lists
tests/t_flow_plans tests/t_flow_tokens tests/t_flow_moves tests/t_flow_edges tests/t_flow_errors tests/t_onnx_attention tests/t_onnx_cases
tests/t_windows_api tests/t_long_gathers tests/t_variadic tests/t_ffi tests/t_regions tests/t_stablehlo_files tests/t_stablehlo_reader
tests/t_stablehlo_numbers"
! grep -q "^ONNX='yes'" tests/environment.sh || programs="$programs tests/t_onnx_models"

: >failures.log
say "make check"
tests . make --no-print-directory -j"$jobs" check
say "make check-valgrind (capped at AVX2)"
step "memcheck and helgrind" make --no-print-directory -j"$jobs" check-valgrind
variant sanitizers "$slow TESTS='tests/windows.test tests/run.test tests/command.test tests/onnx.test $programs tests/db.test tests/report.test'" --enable-sanitizers=address,undefined CFLAGS='-O1 -g1' PACK_OPTIMIZE=-O1 PACK_ISAS=$beyond_avx2
threads="tests/t_cache_attention tests/t_threads tests/t_ffi tests/t_flow_tokens tests/t_flow_moves tests/t_flow_plans tests/t_onnx_attention
tests/t_cache_attend tests/t_scatter tests/t_windows tests/t_variadic tests/t_regions"
variant threads "TESTS_ENVIRONMENT='KVMILL_TEST_SLOW=1 KVMILL_TEST_THREADS=8' TESTS='$threads' check_PROGRAMS='$threads'" --enable-sanitizers=thread CFLAGS='-O1 -g1' PACK_OPTIMIZE=-O1 PACK_ISAS=avx2
variant clang "$slow TESTS='$programs'" CC=clang CFLAGS='-O2 -Werror' PACK_OPTIMIZE=-O2

say "make fuzz: 20 seconds of each target"
step "fuzzers" make --no-print-directory fuzz SECONDS=20

say "make distcheck"
step "the tarball builds, installs and cleans up after itself" make --no-print-directory -j"$jobs" distcheck TESTS=tests/t_api

say "result"
[ "$skipped" -eq 0 ] || echo "$skipped skipped: their lines above say why"
cat failures.log
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
