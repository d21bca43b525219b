#!/bin/sh
# Makes a wheel, and a source archive, of what a build tree has.
#
#   wheel.sh BUILD OUT [venv]
#
# The wheel goes to OUT with the libraries that it needs in it and a tag of the oldest Linux it runs on; `venv` stops when BUILD/wheel-venv,
# with the pinned tools, is there.  PYTHON: the Python to make that from.  Exits with 77 where the tools are not to be had.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
out=$2
venv=$build/wheel-venv
requirements=$source/bindings/python/requirements.txt

# The copy of the requirements is made last: it says that all of them are there.
install() {
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv" &&
        "$venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -r "$requirements" &&
        "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --dest "$venv/wheels" "$(grep numpy "$requirements")" &&
        cp "$requirements" "$venv/installed.txt"
}

cmp -s "$requirements" "$venv/installed.txt" || install >&2 || exit 77
[ "${3:-}" != venv ] || exit 0

mkdir -p "$out"
out=$(cd "$out" && pwd)
PATH=$venv/bin:$PATH
cd "$source"
python -m hatchling build --target sdist --directory "$out"
KVMILL_BUILD=$build python -m hatchling build --target wheel --directory "$out/plain"
auditwheel repair --wheel-dir "$out" "$out"/plain/*.whl
rm -r "$out/plain"
