#!/bin/sh
# Makes a source archive, and a wheel of what it and a build tree have.
#
#   wheel.sh BUILD OUT
#
# The wheel goes to OUT with the libraries that it needs in it and a tag of the oldest Linux it runs on.  What a build makes comes from
# BUILD, all else from the archive.  The pinned tools are in BUILD/wheel-venv.  PYTHON: the Python to make that from.  Exits with 77
# where the tools are not to be had.
#
# SPDX-License-Identifier: Apache-2.0
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)

. "$source/tests/venv.sh"
make_venv "$build" wheel "$source/bindings/python/requirements.txt" >&2 || exit 77
PATH=$build/wheel-venv/bin:$PATH

work=$(mktemp -d "$out/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$source" && python -m hatchling build --target sdist --directory "$work")
tar -x -z -C "$work" -f "$work"/kvmill-*.tar.gz
(cd "$work"/kvmill-*/ && KVMILL_BUILD=$build python -m hatchling build --target wheel --directory "$work/plain")
auditwheel repair --wheel-dir "$out" "$work"/plain/*.whl
mv "$work"/kvmill-*.tar.gz "$out"
