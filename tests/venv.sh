#!/bin/sh
# venv.sh VENV REQUIREMENTS -- a virtual environment with the pinned packages, made once, with a log beside it.  Exits with 1 and a
# line that says why where it is not to be had.  PYTHON: the Python to make it from, 3.11 or newer.
#
# SPDX-License-Identifier: Apache-2.0
set -u
venv=$1 requirements=$2
python=${PYTHON:-python3}

fail() {
    echo "$1"
    exit 1
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || fail "no Python 3.11 or newer as $python"
# The copy of the requirements is made last: it says that all of them are there.
cmp -s "$requirements" "$venv/installed.txt" && exit 0
rm -rf "$venv"
"$python" -m venv "$venv" >"$venv.log" 2>&1 || fail "no virtual environment: see $venv.log"
"$venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -r "$requirements" >>"$venv.log" 2>&1 ||
    fail "the pinned packages are not to be had: see $venv.log"
cp "$requirements" "$venv/installed.txt"
