#!/bin/sh
# Conformance to ONNX TensorScatter-24 and Attention-23 to 25, to PMX cache attention and to JAX's gathers and scatters, as a TAP test.
#
#   run.sh [SRCDIR BUILDDIR]
#
# SRCDIR (or $srcdir, or the tree this file is in) is the source.  BUILDDIR (or $builddir, or .)
# holds .libs/libkvmill.so and generated/, with kvmill_default and perhaps kvmill_test; the virtual
# environment goes there too, as conformance-venv.  PYTHON: the Python to make it from.  Without Python 3.11, venv, or the pinned
# packages, this test is skipped, or fails with KVMILL_REQUIRE_CONFORMANCE=1.
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
