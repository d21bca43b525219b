#!/bin/sh
# Compares kvmill.transformers with transformers' own attention, as a TAP test: make check-torch.
#
#   run.sh [SRCDIR BUILDDIR]
#
# SRCDIR and BUILDDIR: as for tests/conformance/run.sh.  The virtual environment takes 6 GB of BUILDDIR, unless TORCH_PYTHON names a
# Python that has torch and transformers.
#
# SPDX-License-Identifier: Apache-2.0
set -u

source=$(cd "${1:-${srcdir:-$(dirname "$0")/../..}}" && pwd) || exit 99
build=$(cd "${2:-${builddir:-.}}" && pwd) || exit 99
python=${TORCH_PYTHON:-}

if [ -z "$python" ]; then
    . "$source/tests/venv.sh"
    venv torch "$source/tests/torch/requirements.txt"
    python=$build/torch-venv/bin/python
fi

KVMILL_LIBRARY=$build/.libs/libkvmill.so
KVMILL_COMMAND=$build/kvmill
KVMILL_DATADIR=$source
PYTHONPATH=$source/bindings/python:$source/tests/conformance
PYTHONDONTWRITEBYTECODE=1
export KVMILL_LIBRARY KVMILL_COMMAND KVMILL_DATADIR PYTHONPATH PYTHONDONTWRITEBYTECODE
exec "$python" -W ignore "$source/tests/torch/main.py"
