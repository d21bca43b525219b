#!/bin/sh
# build_programs.sh SRCDIR DIRECTORY -- builds llama.cpp's programs of the pinned source in DIRECTORY, once, and prints the directory
# that has them; or exits with 1 and prints the reason.
set -u
fail() {
    echo "$1"
    exit 1
}
mkdir -p "$2" && cd "$2" || exit 1
command -v cmake c++ >/dev/null || fail "no cmake or C++ compiler"
if ! cmp -s "$1/tests/ggml/requirements.txt" built.txt; then
    rm -rf llama_cpp_python-* build
    PYTHONPATH=$1/tests/ggml PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" -m pip download --disable-pip-version-check --no-cache-dir --no-deps \
        --no-binary :all: --no-build-isolation --require-hashes -r "$1/tests/ggml/requirements.txt" >fetch.log 2>&1 || fail "the source cannot be fetched: see $PWD/fetch.log"
    { tar xzf llama_cpp_python-*.tar.gz && cmake -S llama_cpp_python-*/vendor/llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF && cmake --build build -j "$(nproc)" -t llama-cli llama-server \
        llama-completion llama-perplexity llama-bench llama-parallel llama-speculative-simple; } >build.log 2>&1 || fail "the programs cannot be built: see $PWD/build.log"
    cp "$1/tests/ggml/requirements.txt" built.txt
fi
echo "$PWD/build/bin"
