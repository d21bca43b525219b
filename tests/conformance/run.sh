#!/bin/sh
# Tests conformance to ONNX TensorScatter-24 and Attention-23 to 25, to PMX cache attention and to JAX's gathers and scatters, as a TAP test.
#
#   run.sh [SRCDIR BUILDDIR]
#
# SRCDIR (default: $srcdir, or the tree of this file) is the source.  BUILDDIR (default: $builddir, or .) contains
# .libs/libkvmill.so and generated/ with kvmill_default and perhaps kvmill_test; the virtual environment
# conformance-venv is created there with the Python that PYTHON names.  If Python 3.11, venv or the pinned packages
# are missing, this test is skipped; with KVMILL_REQUIRE_CONFORMANCE=1 it fails then.
#
# SPDX-License-Identifier: Apache-2.0
set -u

source=$(cd "${1:-${srcdir:-$(dirname "$0")/../..}}" && pwd) || exit 99
build=$(cd "${2:-${builddir:-.}}" && pwd) || exit 99
here=$source/tests/conformance
. "$source/tests/venv.sh"
venv conformance "$here/requirements.txt"

KVMILL_LIBRARY=$build/.libs/libkvmill.so
KVMILL_COMMAND=$build/kvmill
KVMILL_PACKS=$build/generated/kvmill_default/libkvmill_default.so
test_pack=$build/generated/kvmill_test/libkvmill_test.so
[ ! -f "$test_pack" ] || KVMILL_PACKS=$KVMILL_PACKS:$test_pack
PYTHONPATH=$source/bindings/python
export KVMILL_LIBRARY KVMILL_COMMAND KVMILL_PACKS PYTHONPATH
bytecode_in_build
# XLA compiles 510 small programs, and runs each of them once.
XLA_FLAGS="--xla_backend_optimization_level=0 ${XLA_FLAGS-}"
export XLA_FLAGS
exec "$venv/bin/python" "$here/main.py"
