#!/bin/sh
# fetch.sh DIRECTORY -- fetches the pinned source tree of ggml to DIRECTORY/ggml, and its test-backend-ops.cpp to DIRECTORY.
# Exits with 1 and a line with the reason if it cannot be fetched.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
mkdir -p "$1" && cd "$1" || exit 1

fail() {
    echo "$1: see $PWD/fetch.log"
    exit 1
}

# The copy of the requirements, and of what is unpacked, is made last: if it exists, the tree is complete.
cat "$here/requirements.txt" "$here/fetch.sh" | cmp -s - fetched.txt && exit 0
rm -rf venv llama_cpp_python-* ggml
mkdir llama_cpp_python-unpacked || exit 1
"$python" -m pip --version >fetch.log 2>&1 ||
    { "$python" -m venv venv >fetch.log 2>&1 && python=venv/bin/python; } || fail "no virtual environment"
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 "$python" -m pip download --disable-pip-version-check --no-cache-dir --no-deps \
    --no-binary :all: --no-build-isolation --require-hashes -r "$here/requirements.txt" >>fetch.log 2>&1 ||
    fail "the pinned source of ggml cannot be fetched"
tar xzf llama_cpp_python-*.tar.gz -C llama_cpp_python-unpacked --wildcards '*/vendor/llama.cpp/ggml/include' \
    '*/vendor/llama.cpp/ggml/src/*.[ch]' '*/vendor/llama.cpp/ggml/src/*.cpp' '*/vendor/llama.cpp/tests/test-backend-ops.cpp' >>fetch.log 2>&1 || fail "the archive is not as it was"
mv llama_cpp_python-unpacked/*/vendor/llama.cpp/ggml ggml || exit 1
mv llama_cpp_python-unpacked/*/vendor/llama.cpp/tests/test-backend-ops.cpp . || exit 1
rm -rf venv llama_cpp_python-*
cat "$here/requirements.txt" "$here/fetch.sh" >fetched.txt
