#!/bin/sh
# Makes a source archive, and a wheel from that archive and a build tree.
#
#   wheel.sh BUILD OUT
#
# Both are written to OUT.  The wheel includes the libraries that it needs, and its tag names the oldest Linux it runs on.  Built files
# come from BUILD, all others from the archive.  The pinned tools are installed in BUILD/wheel-venv, with the Python that PYTHON names.
# Exits with 77 if the tools cannot be installed.
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
