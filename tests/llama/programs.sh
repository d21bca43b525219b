#!/bin/sh
# Runs llama.cpp's programs with a real model through `kvmill llama`, as a TAP test: make check-llama.
#
#   programs.sh [SRCDIR BUILDDIR]
#
# The programs are those of the pinned llama-cpp-python's source, built in BUILDDIR/llama-programs by cmake, with shared libraries
# as by default; KVMILL_LLAMA_PROGRAMS names a directory that has them already.  The model is that of run.sh.
#
# SPDX-License-Identifier: Apache-2.0
set -u
source=$(cd "${1:-${srcdir:-$(dirname "$0")/../..}}" && pwd) || exit 99
builddir=$(cd "${2:-${builddir:-.}}" && pwd) || exit 99
. "$source/tests/tap.sh"
. "$source/tests/venv.sh"
build=$builddir
work=$build/llama-work
programs=${KVMILL_LLAMA_PROGRAMS:-}
if [ -z "$programs" ]; then
    programs=$(sh "$source/tests/llama/build_programs.sh" "$source" "$build/llama-programs") || skip "$programs"
fi
[ -f "$work/model.gguf" ] && [ -f "$work/adapter/libggml-kvmill.so" ] || skip "no model or adapter: see run.sh"
export KVMILL_DATADIR="$source"
prompt='The capital of France is Paris. The capital of Germany is'
port=${KVMILL_LLAMA_PORT:-18280}

# --no-repack: llama.cpp dies of its own products on some virtual machines.
kvmill() { # PROGRAM ARGUMENTS...
    program=$1
    shift
    "$build/kvmill" llama --adapter "$work/adapter/libggml-kvmill.so" -- "$programs/$program" -m "$work/model.gguf" -t 1 "$@" </dev/null
}
llama() {
    kvmill "$@" --no-repack --temp 0
}
is_used() { # -- by the last expect's program, to the end
    check "  with kvmill" sh -c 'grep -q "^kvmill: in use: version" all.log && ! grep -q "^kvmill: not in use" all.log'
}

for program in llama-cli llama-server llama-completion llama-perplexity llama-bench llama-parallel llama-speculative-simple; do
    expect 0 '^kvmill +is used' "$program can use it" "$build/kvmill" llama --adapter "$work/adapter/libggml-kvmill.so" --check "$programs/$program"
done
for pair in f16,f16 q8_0,q8_0 q4_0,q4_0 q8_0,q4_0; do
    expect 0 'Germany is Berlin' "llama-completion: $pair" llama llama-completion -p "$prompt" -n 4 -no-cnv -ctk "${pair%,*}" -ctv "${pair#*,}"
    is_used
done
expect 0 'Generation: ' "llama-cli takes a turn" llama llama-cli -p 'What is the capital of Germany?' -n 8 --single-turn
is_used
expect 0 ' kvmill ' "llama-bench" kvmill llama-bench -fa 1 --repack 0 -p 16 -n 2 -r 1
is_used
expect 0 'cache miss(es)? *:? *0' "llama-parallel" llama llama-parallel -np 4 -ns 4 -n 8 -c 2048
is_used
expect 0 'accept *= *100' "llama-speculative-simple accepts its own drafts" llama llama-speculative-simple -md "$work/model.gguf" \
    -p "$prompt" -n 8 -c 512 --spec-type draft-simple --spec-draft-n-max 4
is_used
expect 0 'Germany is Berlin' "a context that is shifted" llama llama-completion -p "$prompt" -n 100 -c 64 --context-shift --ignore-eos -no-cnv
is_used
expect 0 '' "a cache is saved" llama llama-completion -p "$prompt" -n 1 -no-cnv --prompt-cache saved --prompt-cache-all
expect 0 'Germany is Berlin' "  and restored" llama llama-completion -p "$prompt" -n 4 -no-cnv --prompt-cache saved --prompt-cache-ro
is_used

# The perplexities of llama.cpp's attention and of kvmill's differ less than either is sure of.
perplexity() { # RUNNER...
    "$@" -f text -c 512 --chunks 2 --no-repack -fa on 2>&1 | sed -n 's/.*Final estimate: PPL = \([0-9.]*\) .*/\1/p'
}
cp /usr/share/common-licenses/Apache-2.0 text
own=$(perplexity "$programs/llama-perplexity" -m "$work/model.gguf" -t 1 </dev/null)
ours=$(perplexity kvmill llama-perplexity)
echo "# perplexity: llama.cpp $own, kvmill $ours"
check "llama-perplexity" awk -v a="$own" -v b="$ours" 'BEGIN {exit !(a > 1 && b > 1 && a != b && (a - b) ^ 2 < (0.02 * a) ^ 2)}'

# ---- llama-server: four slots at once, one of them saved, erased and restored ----

ask() { # SLOT PROMPT
    curl -s -m 300 "http://127.0.0.1:$port/completion" -d "{\"prompt\": \"$2\", \"n_predict\": 5, \"temperature\": 0, \"id_slot\": $1}"
}
slot() { # ACTION
    curl -s -m 60 -X POST "http://127.0.0.1:$port/slots/1?action=$1" -d '{"filename": "slot"}'
}
llama llama-server -np 4 -c 1024 --port "$port" --slot-save-path . -ctk q8_0 -ctv q8_0 >server.log 2>&1 &
server=$!
for _ in $(seq 120); do
    ! curl -s "http://127.0.0.1:$port/health" | grep -q '"ok"' || break
    sleep 1
done
asked=
for number in 0 1 2 3; do
    case $number in
    0) ask 0 "$prompt" ;;
    1) ask 1 'One, two, three, four, five,' ;;
    2) ask 2 'Monday, Tuesday, Wednesday,' ;;
    3) ask 3 'The opposite of hot is' ;;
    esac >answer.$number &
    asked="$asked $!"
done
# shellcheck disable=SC2086
wait $asked
check "llama-server: the first of four slots" grep -q Berlin answer.0
check "  the second" grep -q six answer.1
check "  the third" grep -q Thursday answer.2
check "  the fourth" grep -q cold answer.3
expect 0 'n_saved' "  a slot is saved" slot save
expect 0 'n_erased' "  erased" slot erase
expect 0 'n_restored' "  and restored" slot restore
expect 0 six "  and answers as before" ask 1 'One, two, three, four, five,'
kill -INT "$(pgrep -P $server)" $server 2>/dev/null
wait $server
check "  with kvmill" sh -c 'grep -q "^kvmill: in use: version" server.log && ! grep -q "^kvmill: not in use" server.log'
done_testing
