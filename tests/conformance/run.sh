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
python=${PYTHON:-python3}
venv=$build/conformance-venv
log=$build/conformance-venv.log
requirements=$here/requirements.txt

skip() {
    if [ "${KVMILL_REQUIRE_CONFORMANCE:-0}" = 1 ]; then
        echo "Bail out! $1"
        exit 1
    fi
    echo "1..0 # SKIP $1"
    exit 0
}

# The copy of the requirements is made last: it says that all of them are there.
install() {
    rm -rf "$venv"
    "$python" -m venv "$venv" >"$log" 2>&1 || skip "no virtual environment: see $log"
    "$venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check \
        -r "$requirements" >>"$log" 2>&1 || skip "the pinned packages are not to be had: see $log"
    cp "$requirements" "$venv/installed.txt"
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    skip "no Python 3.11 or newer as $python"
cmp -s "$requirements" "$venv/installed.txt" || install

KVMILL_LIBRARY=$build/.libs/libkvmill.so
KVMILL_COMMAND=$build/kvmill
KVMILL_PACKS=$build/generated/kvmill_default/libkvmill_default.so
test_pack=$build/generated/kvmill_test/libkvmill_test.so
[ ! -f "$test_pack" ] || KVMILL_PACKS=$KVMILL_PACKS:$test_pack
PYTHONPATH=$source/bindings/python
PYTHONDONTWRITEBYTECODE=1
export KVMILL_LIBRARY KVMILL_COMMAND KVMILL_PACKS PYTHONPATH PYTHONDONTWRITEBYTECODE
exec "$venv/bin/python" "$here/main.py"
