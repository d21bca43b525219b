# Virtual environments of a build tree, for tests and tools in Python; sourced, by sh.  SPDX-License-Identifier: Apache-2.0
#
# venv NAME REQUIREMENTS: $build/NAME-venv with the pinned packages of that file, made by ${PYTHON:-python3}.  Without Python 3.11,
# venv, or these packages the test is skipped; or fails, with KVMILL_REQUIRE_CONFORMANCE=1.

skip() {
    if [ "${KVMILL_REQUIRE_CONFORMANCE:-0}" = 1 ]; then
        echo "Bail out! $1"
        exit 1
    fi
    echo "1..0 # SKIP $1"
    exit 0
}

venv() {
    venv=$build/$1-venv
    why=$(make_venv "$build" "$1" "$2") || skip "$why"
}

# pip_python BUILD -- prints a Python that has pip.  Environments share it, because installing pip takes longer than the rest.
pip_python() {
    pip_venv=$1/pip-venv
    # Another test may be creating it.
    # shellcheck disable=SC2016
    flock "$pip_venv.lock" sh -c 'test -e "$2/made" || { rm -rf "$2" && "$1" -m venv "$2" && touch "$2/made"; }' \
        - "${PYTHON:-python3}" "$pip_venv" >"$pip_venv.log" 2>&1 && echo "$pip_venv/bin/python"
}

# bytecode_in_build -- keeps the bytecode that Python compiles from here on in the build tree, so that nothing is written next
# to the sources, and packages installed without bytecode are compiled once, not by each process.
bytecode_in_build() {
    PYTHONPYCACHEPREFIX=$build/python-cache
    export PYTHONPYCACHEPREFIX
}

# make_venv BUILD NAME REQUIREMENTS -- does the same for any BUILD; prints the reason if it fails.
make_venv() (
    venv=$1/$2-venv
    exec 9>"$venv.lock"
    flock 9 # another test may be creating it
    ! cmp -s "$3" "$venv/installed.txt" || exit 0
    install_venv "$@"
)

# The copy of the requirements is made last: if it exists, the environment is complete.
install_venv() {
    python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || refuse "no Python 3.11 or newer as $python"
    rm -rf "$venv"
    pip=$(pip_python "$1") || refuse "no virtual environment: see $1/pip-venv.log"
    "$python" -m venv --without-pip "$venv" >"$venv.log" 2>&1 || refuse "no virtual environment: see $venv.log"
    env -u PYTHONPYCACHEPREFIX "$pip" -m pip --python "$venv/bin/python" install --quiet --no-compile --disable-pip-version-check -r "$3" >>"$venv.log" 2>&1 ||
        refuse "the pinned packages cannot be installed: see $venv.log"
    cp "$3" "$venv/installed.txt"
}

refuse() {
    echo "$1"
    exit 1
}
