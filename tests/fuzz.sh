#!/bin/sh
# fuzz.sh SECONDS [TARGET...] -- run in a build directory.  Runs libFuzzer on every target for SECONDS, starting from its seeds,
# with kernels for every instruction set of this machine. TARGET "todays": a sixth of the targets, by the day. Inputs that reach
# new code are kept in fuzz/corpus for the next time. Findings are in fuzz/findings: fix the error, and add the input to the
# seeds. KVMILL_FUZZ_BUILD: a build that has been configured for this.
set -eu
seconds=$1
shift
source=$(cd "$(dirname "$0")/.." && pwd)
here=$PWD/fuzz
built=${KVMILL_FUZZ_BUILD:-$here/build}
mkdir -p "$built" "$here/findings" "$here/logs" "$here/scratch"
# The instruction sets of this machine: those that extend no other, except the portable one; and the best extension of each.
sets=$(./kvmill isas | awk '$4 == "yes" && $3 == "-" && $1 != "scalar" {print $1}' | paste -s -d ' ')
best=$(./kvmill isas | awk '$4 == "yes" {root[$1] = $3 == "-" ? $1 : root[$3]; best[root[$1]] = $1}
    END {for (set in best) if (set != "scalar" || length(best) == 1) print best[set]}' | paste -s -d ,)

# Without a Makefile the build was not configured.
build() {
    cd "$built"
    [ -f Makefile ] || "$source/configure" --quiet CC="${FUZZ_CC:-clang}" CFLAGS='-O1 -g1 -fsanitize=fuzzer-no-link' --disable-shared \
        --enable-sanitizers=address,undefined DEFAULT_SPECS=specs/rows.json TEST_SPECS=specs/fuzz.json PACK_OPTIMIZE=-O1 \
        PACK_ISAS="$best" >/dev/null
    make --no-print-directory -s -j"$(nproc)" tests/fuzz/fuzz
}

# one TARGET -- runs one target.
one() {
    dictionary=$source/tests/fuzz/dictionaries/$1.txt
    case $1 in config | spec | flow) dictionary=$source/tests/fuzz/dictionaries/json.txt ;;
    evaluation) dictionary=$source/tests/fuzz/dictionaries/mlir.txt ;; esac
    mkdir -p "$here/corpus/$1"
    [ ! -f "$dictionary" ] || set -- "$1" -dict="$dictionary"
    target=$1
    shift
    # shellcheck disable=SC2086
    KVMILL_FUZZ=$target TMPDIR=$here/scratch srcdir=$source "$built/tests/fuzz/fuzz" "$@" -max_total_time="$seconds" \
        -timeout=20 -rss_limit_mb=3000 -close_fd_mask=3 -print_final_stats=1 -artifact_prefix="$here/findings/$target-" \
        "$here/corpus/$target" $(seeds_of "$target") >"$here/logs/$target.log" 2>&1
}

seeds_of() {
    echo "$source/tests/fuzz/seeds/$1"
    case $1 in
    config) echo "$source/configs/models" ;;
    flow) echo "$source/configs/flows" ;;
    mlir | evaluation) echo "$source/tests/programs" ;;
    esac
}

# Prints "TARGET: 12345 runs, cov 2345, ft 4567", and the finding if there is one.
report() {
    awk -v target="$1" '/cov: / {for (i = 1; i < NF; i++) {if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1)}}
        /stat::number_of_executed_units/ {runs = $2}
        END {printf "%s: %d runs, cov %d, ft %d\n", target, runs, cov, ft}' "$here/logs/$1.log"
    grep -hE '^fuzz: |ERROR: |runtime error|SUMMARY|Test unit written' "$here/logs/$1.log" || true
    case $1 in calls | windows | ggml) note_plans "$1" && reached "$1" ;; esac
}

# reached TARGET -- checks that the calls in the corpus include kernels of each instruction set of the build; prints their
# numbers.
reached() {
    built_for=$(sed -n 's/^TEST_PACK_ISAS = *//p' "$built/Makefile")
    for set in $sets; do
        case ",$built_for" in *,"$set"*) ;; *) continue ;; esac
        plans=$(grep -c "^kvmill: .*__$set" "$here/logs/$1.plans" || true)
        echo "$1: $plans of $(wc -l <"$here/logs/$1.plans") plans with kernels for $set"
        [ "$plans" -gt 0 ] || failed=1
    done
}

# Prints what the calls of a target were planned with.
note_plans() {
    # shellcheck disable=SC2046
    KVMILL_FUZZ=$1 KVMILL_VERBOSE=1 TMPDIR=$here/scratch srcdir=$source "$built/tests/fuzz/fuzz" -runs=0 \
        "$here/corpus/$1" $(seeds_of "$1") 2>&1 | grep -a '^kvmill: ' >"$here/logs/$1.plans" || true
}

build
targets=$("$built/tests/fuzz/fuzz" 2>&1 | sed -n 's/^KVMILL_FUZZ: accepted://p')
[ $# -gt 0 ] || set -- $targets
[ "$1" != todays ] || set -- $(echo "$targets" | xargs -n 1 | awk -v day="${KVMILL_TURN:-$(($(date +%s) / 86400))}" 'day == "all" || NR % 6 == day % 6')
export KVMILL_DATADIR="$source"
failed=0
running=
# Runs twice as many targets at once as there are processors, because SECONDS are counted by the clock.
for target in "$@"; do
    one "$target" &
    running="$running $target:$!"
    if [ "$(echo "$running" | wc -w)" -ge $((2 * $(nproc))) ]; then
        first=${running# }
        first=${first%% *}
        running=${running#" $first"}
        wait "${first#*:}" || failed=1
        report "${first%:*}"
    fi
done
for first in $running; do
    wait "${first#*:}" || failed=1
    report "${first%:*}"
done
rm -rf "$here/scratch"
exit $failed
