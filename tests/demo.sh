#!/bin/sh
# The demo: generates, compiles and links packs of real models, runs them, checks results and measures times.  First the cache
# updates of one layer, then attention of a whole model, then sparse decoding.  With --check, the programs are only checked by
# the compiler, and nothing is run.
set -eu
. "${builddir:-.}/tests/environment.sh" # run from a build directory
checks=no
[ "${1:-}" != --check ] || checks=yes

# library DIRECTORY -- compiles its pack.
library() {
    [ $checks = yes ] || make --no-print-directory -s -j2 -C "$1" V=1 CC="$CC"
}

# look ARGUMENTS... -- compiles without linking, because the libraries are missing.
look() {
    for word; do
        shift
        [ "${word%.a}" != "$word" ] || set -- "$@" "$word"
    done
    # shellcheck disable=SC2086
    $CC $CFLAGS -fsyntax-only -I"$srcdir/include" "$@"
}

# program FILE ARGUMENTS... -- compiles the file and runs it.
program() {
    file=$1
    shift
    [ $checks = no ] || {
        look "$@"
        return
    }
    # shellcheck disable=SC2086
    $CC $CFLAGS -I"$srcdir/include" -o "$file" "$@" "$builddir/.libs/libkvmill.a" $HWLOC_LIBS -lpthread -lm $SANITIZE
    "$file"
}

# demo NAME CONFIG MODE CAPACITY HEADS HEAD_DIM -- the caches of one layer of a model.
demo() {
    pack=$builddir/demo-pack/$1
    echo "\$ kvmill generate --model $2.json -o $1 && make -C $1"
    mkdir -p "$builddir/demo-pack"
    "$kvmill" generate --model "$srcdir/configs/models/$2.json" -o "$pack"
    library "$pack"
    cat >"$pack/demo_pack.h" <<HEADER
#include "$1.h"
#define DEMO_PACK kvmill_pack_$1
#define DEMO_NAME "$2"
#define DEMO_MODE "$3"
#define DEMO_CAPACITY $4
#define DEMO_HEADS $5
#define DEMO_HEAD_DIM $6
HEADER
    program "$pack/demo" -I"$pack" "$srcdir/examples/demo.c" "$pack/lib$1.a"
}

# attention NAME CONFIG CACHE GROUP -- decode steps and prefill of a whole model.  GROUP 0: not quantised.
attention() {
    pack=$builddir/demo-pack/$1
    options="--cache $3 --cache-layout 1"
    [ "$4" -eq 0 ] || options="$options --quant-group $4"
    echo "\$ kvmill generate --model $2.json $options -o $1 && make -C $1"
    # shellcheck disable=SC2086
    "$kvmill" generate --model "$srcdir/configs/models/$2.json" $options -o "$pack"
    library "$pack"
    cat >"$pack/demo_pack.h" <<HEADER
#include "$1_plan.h"
#define DEMO_PLAN $1_plan_attention
#define DEMO_INIT $1_init_attention
#define DEMO_NAME "$2"
#define DEMO_CACHE "$3 cache"
#define DEMO_QUANT_GROUP $4
HEADER
    # shellcheck disable=SC2086
    program "$pack/demo" -O2 -I"$pack" "$srcdir/examples/demo_attention.c" "$pack/lib$1.a"
}

# flow PACK FLOW CONFIG -- generates a model's pack with a sparse flow.
flow() {
    mkdir -p "$builddir/demo-pack"
    echo "\$ kvmill generate --model $3.json --cache float16 --flow $2.json -o $1 && make -C $1"
    "$kvmill" generate --model "$srcdir/configs/models/$3.json" --cache float16 --cache-layout 3 \
        --flow "$srcdir/configs/flows/$2.json" -o "$builddir/demo-pack/$1"
    library "$builddir/demo-pack/$1"
}

# sparse CONFIG -- decode steps over a long context, dense and with two flows, and the flows' loss of accuracy.
sparse() {
    pack=$builddir/demo-pack/sparse
    flow llama_quest gqa_quest "$1"
    flow llama_centroid block_sparse "$1"
    mkdir -p "$pack"
    cat >"$pack/demo_pack.h" <<HEADER
#include "llama_quest_plan.h"
#include "llama_centroid_plan.h"
#define DEMO_QUEST_INIT llama_quest_init_flow
#define DEMO_QUEST_PACK kvmill_pack_llama_quest
#define DEMO_CENTROID_INIT llama_centroid_init_flow
#define DEMO_CENTROID_PACK kvmill_pack_llama_centroid
#define DEMO_NAME "$1"
#define DEMO_CACHE "float16"
HEADER
    # shellcheck disable=SC2086
    program "$pack/demo" -O2 -I"$pack" -I"$pack/../llama_quest" -I"$pack/../llama_centroid" \
        "$srcdir/examples/demo_sparse.c" "$srcdir/examples/flow_accuracy.c" "$srcdir/examples/flow_keys.c" \
        "$pack/../llama_quest/libllama_quest.a" "$pack/../llama_centroid/libllama_centroid.a"
}

demo llama llama-3.1-8b linear 4096 8 128
demo mistral mistral-7b-v0.1 circular 4096 8 128
attention llama_f16 llama-3.1-8b float16 0
attention llama_int8 llama-3.1-8b int8 32
sparse llama-3.1-8b
echo 'x memcpy: speed against memcpy calls of the same rows, taking turns in the same run.'
echo "The bench measures more: kvmill bench --model $srcdir/configs/models/llama-3.1-8b.json"
