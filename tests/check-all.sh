#!/bin/sh
# Everything that `./bootstrap check` runs, from a build directory: the tests, the same under valgrind,
# builds with sanitizers and with clang.  Ends with "N passed, N failed".
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)
passed=0
failed=0

say() {
    echo
    echo "== $*"
}

# count DIRECTORY -- add the results that Automake left there.
count() {
    results=$(find "$1/tests" -name '*.trs' -exec sed -n 's/^:test-result: \([A-Z]*\).*/\1/p' {} +)
    good=$(echo "$results" | grep -c 'PASS\|SKIP')
    bad=$(echo "$results" | grep -c 'FAIL\|ERROR')
    passed=$((passed + good))
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
        echo "FAIL: $name"
        tail -n 40 step.log
    fi
}

# variant NAME TESTS CONFIGURE-ARGUMENTS... -- a build of its own, and those tests in it.
variant() {
    directory=../build-$1
    tests=$2
    say "$1: $tests"
    shift 2
    mkdir -p "$directory"
    (cd "$directory" && "$source/configure" --quiet "$@" >/dev/null && make --no-print-directory -s -j"$jobs" &&
        make --no-print-directory check TESTS="$tests")
    status=$?
    count "$directory"
    [ $status -eq 0 ] || [ "$bad" -gt 0 ] || failed=$((failed + 1))
}

programs="tests/t_rows tests/t_scatter tests/t_cases tests/t_api tests/t_threads tests/t_config tests/t_names tests/t_m4 tests/t_specs"

say "make check"
make --no-print-directory check || true
count .
say "make check-valgrind (capped at AVX2)"
step "memcheck and helgrind" make --no-print-directory check-valgrind
variant sanitizers "$programs tests/command.test tests/run.test" --enable-sanitizers=address,undefined
variant threads tests/t_threads --enable-sanitizers=thread
variant clang "$programs" CC=clang CFLAGS='-O2 -g -Werror'

say "result"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
